//! What tests need and the repository does not hold: fetched on first use into the target folder, and kept there.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest as _, Sha256};

use crate::offline;

/// The folder that `fill` fills, in `kind` of the target folder and under the hash of `pins`.
///
/// It is filled beside the final one and then renamed, so that the final one is always whole. Several
/// processes may ask at once. Inside [`offline::enter`] there is no registry, so ask before that.
///
/// # Errors
///
/// The reason, in words.
pub fn folder(
    kind: &str,
    pins: &str,
    fill: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<PathBuf, String> {
    let all = target_dir()?.join(kind);
    let root = all.join(hash(pins));
    if root.is_dir() {
        return Ok(root);
    }
    if offline::is_inside() {
        return Err(format!("{} is not there, and there is no network here", root.display()));
    }
    let text = |error: io::Error| error.to_string();
    fs_err::create_dir_all(&all).map_err(text)?;
    // Whoever comes second waits here and then finds the work done. The lock ends with the file.
    let guard = fs_err::File::create(root.with_extension("lock")).map_err(text)?;
    guard.file().lock().map_err(text)?;
    if root.is_dir() {
        return Ok(root);
    }
    let partial = root.with_extension("partial");
    if partial.exists() {
        fs_err::remove_dir_all(&partial).map_err(text)?;
    }
    fs_err::create_dir_all(&partial).map_err(text)?;
    fill(&partial).map_err(text)?;
    fs_err::rename(&partial, &root).map_err(text)?;
    Ok(root)
}

/// Pinned packages of npm: the texts of the files that name them.
#[derive(Clone, Copy, Debug)]
pub struct NpmPackages<'a> {
    /// `package.json`.
    pub package: &'a str,
    /// `package-lock.json`.
    pub lock: &'a str,
    /// `.npmrc`.
    pub npmrc: &'a str,
}

impl NpmPackages<'_> {
    /// Puts them into `node_modules` of a folder.
    ///
    /// # Errors
    ///
    /// npm does not run, or fails.
    pub fn install(self, folder: &Path) -> io::Result<()> {
        fs_err::write(folder.join("package.json"), self.package)?;
        fs_err::write(folder.join("package-lock.json"), self.lock)?;
        fs_err::write(folder.join(".npmrc"), self.npmrc)?;
        let npm = if cfg!(windows) { "npm.cmd" } else { "npm" };
        let mut ci = Command::new(npm);
        // No package that is used here needs its install script; at most it moves a file for npm's own use.
        ci.args(["ci", "--ignore-scripts", "--include=optional", "--no-audit", "--no-fund"]);
        run(ci.current_dir(folder)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                io::Error::other(format!("{error}; install Node.js with npm"))
            }
            _ => error,
        })
    }
}

/// Runs a command to its end. An error says how it failed, in its own words.
///
/// # Errors
///
/// It does not run, or fails.
pub fn run(command: &mut Command) -> io::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let ran = command.stdin(Stdio::null()).output();
    let ran = ran
        .map_err(|error| io::Error::new(error.kind(), format!("{name} does not run ({error})")))?;
    if ran.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ran.stderr);
    Err(io::Error::other(format!("{name} failed ({}): {}", ran.status, said.trim())))
}

fn hash(pins: &str) -> String {
    let hash = Sha256::digest(pins);
    hash.iter().take(8).fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}

/// The target folder that this test was built into: the nearest one above it that cargo uses as one. It marks only
/// those that it makes itself, and notes what it knows of the compiler in all.
fn target_dir() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    program
        .ancestors()
        .find(|folder| {
            [".rustc_info.json", "CACHEDIR.TAG"].iter().any(|name| folder.join(name).is_file())
        })
        .map(Path::to_owned)
        .ok_or_else(|| format!("{} lies in no target folder of cargo", program.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_filled_once_and_whole() {
        let pins = format!("{}-{:?}", std::process::id(), std::time::SystemTime::now());
        let broken = folder("tests", &pins, |partial| {
            fs_err::write(partial.join("half"), "")?;
            Err(io::Error::other("the network is away"))
        });
        assert_eq!(broken, Err("the network is away".to_owned()));
        let fill = |partial: &Path| fs_err::write(partial.join("whole"), "");
        let filled = folder("tests", &pins, fill).unwrap();
        assert!(filled.join("whole").is_file() && !filled.join("half").exists());
        let again = folder("tests", &pins, |_| Err(io::Error::other("filled twice")));
        assert_eq!(again, Ok(filled.clone()));
        fs_err::remove_dir_all(&filled).unwrap();
        fs_err::remove_file(filled.with_extension("lock")).unwrap();
    }

    #[test]
    fn a_command_that_fails_says_why() {
        let error = run(&mut Command::new("no-such-program")).unwrap_err();
        assert!(error.to_string().starts_with("no-such-program does not run"), "{error}");
    }
}
