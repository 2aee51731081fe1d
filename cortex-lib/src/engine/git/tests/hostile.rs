//! A repository that names programs at every place where git runs one.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::bench::{BRANCH, Bench, command, lines, write};
use crate::port::Git as _;

/// Settings that name a program, and how git is made to run it.
const PROGRAMS: &[&str] = &[
    "core.fsmonitor",
    "core.pager",
    "core.editor",
    "core.askPass",
    "core.sshCommand",
    "core.gitProxy",
    "core.alternateRefsCommand",
    "sequence.editor",
    "credential.helper",
    "gpg.program",
    "diff.external",
    "diff.evil.command",
    "diff.evil.textconv",
    "filter.evil.clean",
    "filter.evil.smudge",
    "merge.evil.driver",
    "interactive.diffFilter",
    "uploadpack.packObjectsHook",
    "remote.origin.uploadpack",
];

const HOOKS: &[&str] = &[
    "post-checkout",
    "post-index-change",
    "reference-transaction",
    "pre-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "pre-merge-commit",
    "post-merge",
    "pre-auto-gc",
    "post-rewrite",
    "pre-applypatch",
    "sendemail-validate",
    "fsmonitor-watchman",
];

impl Bench {
    /// A program that notes that it ran.
    fn trap(&self, path: PathBuf, name: &str) -> PathBuf {
        let ran = self.base.join("ran");
        fs_err::create_dir_all(&ran).unwrap();
        let body = format!("#!/bin/sh\n: > '{}/{name}'\ncat 2>/dev/null\nexit 0\n", ran.display());
        write(&path, body);
        fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn ran(&self) -> Vec<String> {
        let names = fs_err::read_dir(self.base.join("ran")).unwrap();
        let mut names: Vec<_> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn forget(&self) {
        fs_err::remove_dir_all(self.base.join("ran")).unwrap();
        fs_err::create_dir_all(self.base.join("ran")).unwrap();
    }

    /// Plants a trap at every place.
    fn plant(&self) {
        for name in PROGRAMS {
            let trap = self.trap(self.base.join("traps").join(name), name);
            self.git(["config", name, trap.to_str().unwrap()]);
        }
        let hooks = self.base.join("hooks");
        for name in HOOKS {
            self.trap(self.root.join(".git/hooks").join(name), name);
            self.trap(hooks.join(name), name);
        }
        for (name, value) in [
            ("core.hooksPath", hooks.to_str().unwrap()),
            ("filter.evil.required", "true"),
            ("merge.default", "evil"),
            ("commit.gpgSign", "true"),
            ("gc.auto", "1"),
            ("maintenance.auto", "true"),
            ("submodule.recurse", "true"),
            ("core.untrackedCache", "true"),
            ("worktree.useRelativePaths", "true"),
            ("merge.renormalize", "true"),
        ] {
            self.git(["config", name, value]);
        }
        let attributes = "* filter=evil diff=evil merge=evil\n";
        write(&self.root.join(".git/info/attributes"), attributes);
        self.write(".gitattributes", attributes);
    }
}

fn text(first: &str, last: &str) -> String {
    format!("{first}\n2\n3\n4\n5\n6\n{last}\n")
}

#[tokio::test]
async fn no_program_that_a_repository_names_runs() {
    let bench = Bench::new();
    bench.write("both", text("1", "7"));
    bench.write(".gitattributes", "* filter=evil diff=evil merge=evil\n");
    bench.commit("more");
    bench.plant();
    // The traps work: a person who uses git runs into them.
    bench.write("a", "changed\n");
    for arguments in [&["add", "-A"][..], &["commit", "-m", "x"], &["diff", "HEAD~1"], &["status"]]
    {
        command(&bench.root).args(arguments).output().unwrap();
    }
    let ran = bench.ran();
    for name in
        ["core.fsmonitor", "filter.evil.clean", "pre-commit", "gpg.program", "diff.evil.command"]
    {
        assert!(ran.contains(&name.to_owned()), "{name} is no trap: {ran:?}");
    }
    command(&bench.root)
        .args(["-c", "core.hooksPath=/dev/null", "reset", "--hard"])
        .output()
        .unwrap();
    bench.forget();

    let worktree = bench.worktree("a1");
    let objects = bench.base.join("objects");
    let from = bench.git.snapshot(&bench.root, &objects).await.unwrap();
    let base = bench.git.add(&worktree).await.unwrap();
    assert_eq!(fs_err::read_to_string(worktree.path.join("b")).unwrap(), "b\n");
    write(&worktree.path.join("both"), text("1", "seven"));
    write(&worktree.path.join("new"), "n\n");
    let kept = bench.git.keep(&worktree, &base, BRANCH).await.unwrap();
    assert_eq!(lines(&kept.changed_files), ["M both", "A new"]);
    bench.git.left_behind(&worktree, &kept.commit).await.unwrap();
    bench.git.point(&bench.root, BRANCH, &base).await.unwrap();
    assert_eq!(bench.ran(), Vec::<String>::new());

    // HEAD goes on in the file that a driver would merge.
    bench.write("both", text("one", "7"));
    let commit = ["-c", "core.hooksPath=/dev/null", "-c", "commit.gpgSign=false"];
    let person = |arguments: &[&str]| {
        command(&bench.root).args(commit).args(arguments).output().unwrap();
    };
    person(&["add", "-A"]);
    person(&["commit", "-m", "meanwhile"]);
    bench.forget();
    let plan = bench.git.plan_squash(&bench.root, &base, &kept.commit).await.unwrap();
    bench.git.squash(&bench.root, &plan).await.unwrap();
    let to = bench.git.snapshot(&bench.root, &objects).await.unwrap();
    bench.git.changes(&bench.root, &objects, &from, &to).await.unwrap();
    bench.git.remove(&worktree).await.unwrap();
    assert_eq!(bench.ran(), Vec::<String>::new());
    assert_eq!(bench.read("both"), text("one", "seven"));
}

/// The process kind of filter, which git keeps running and talks to.
#[tokio::test]
async fn no_filter_process_runs() {
    let bench = Bench::new();
    bench.write(".gitattributes", "* filter=evil\n");
    bench.commit("attributes");
    let trap = bench.trap(bench.base.join("trap"), "process");
    bench.git(["config", "filter.evil.process", trap.to_str().unwrap()]);
    bench.write("b", "changed\n");
    command(&bench.root).args(["add", "-A"]).output().unwrap();
    assert_eq!(bench.ran(), ["process"]);
    bench.forget();
    command(&bench.root).args(["-c", "filter.evil.process=", "reset", "--hard"]).output().unwrap();
    let work = bench.work(|path| write(&path.join("a"), "changed\n")).await;
    let plan = bench.plan(&work).await.unwrap();
    bench.git.squash(&bench.root, &plan).await.unwrap();
    assert_eq!(bench.ran(), Vec::<String>::new());
    assert_eq!(bench.read("a"), "changed\n");
}

/// Objects that a partial clone left with its server are not fetched: that would run a transport.
#[tokio::test]
async fn nothing_is_fetched() {
    let bench = Bench::new();
    let trap = bench.trap(bench.base.join("trap"), "transport");
    // One that answers would be talked to.
    let body = fs_err::read_to_string(&trap).unwrap().replace("cat 2>/dev/null\n", "");
    fs_err::write(&trap, body).unwrap();
    for (name, value) in [
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", &format!("ext::{}", trap.display())),
        ("protocol.ext.allow", "always"),
    ] {
        bench.git(["config", name, value]);
    }
    let blob = bench.git(["rev-parse", "HEAD:b"]);
    let (start, rest) = blob.split_at(2);
    fs_err::remove_file(bench.root.join(".git/objects").join(start).join(rest)).unwrap();
    command(&bench.root).args(["cat-file", "-p", &blob]).output().unwrap();
    assert_eq!(bench.ran(), ["transport"]);
    bench.forget();
    bench.git.add(&bench.worktree("a1")).await.unwrap_err();
    bench.git.snapshot(&bench.root, &bench.base.join("objects")).await.unwrap();
    bench.git.remove(&bench.worktree("a1")).await.unwrap();
    assert_eq!(bench.ran(), Vec::<String>::new());
}

/// The repository's configuration stays as it was: nothing of ours is written into it.
#[tokio::test]
async fn the_configuration_of_the_repository_stays() {
    let bench = Bench::new();
    bench.plant();
    let config = |root: &Path| fs_err::read(root.join(".git/config")).unwrap();
    let before = config(&bench.root);
    let worktree = bench.worktree("a1");
    bench.git.add(&worktree).await.unwrap();
    bench.git.remove(&worktree).await.unwrap();
    assert_eq!(config(&bench.root), before);
}
