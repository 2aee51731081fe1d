//! Squashing: what it does to folder and index.

use std::os::unix::fs::PermissionsExt as _;

use super::bench::{BRANCH, Bench, git_in, lines, refused};
use crate::error::Code;
use crate::port::{Git as _, Squash};

/// A commit of Cortex's on a base.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) base: String,
    pub(super) commit: String,
}

impl Bench {
    /// Keeps what `edit` does in a worktree.
    pub(super) async fn work(&self, edit: impl FnOnce(&std::path::Path)) -> Work {
        let worktree = self.worktree("a1");
        let base = self.git.add(&worktree).await.unwrap();
        edit(&self.git.folder(&worktree).await.unwrap());
        let kept = self.git.keep(&worktree, &base, BRANCH).await.unwrap();
        self.git.remove(&worktree).await.unwrap();
        Work { base, commit: kept.commit }
    }

    pub(super) async fn plan(&self, work: &Work) -> crate::error::Result<Squash> {
        self.git.plan_squash(&self.root, &work.base, &work.commit).await
    }

    /// The differences of index and HEAD, and of folder and index.
    pub(super) fn differences(&self) -> (String, String) {
        (
            self.git(["diff", "--cached", "--name-status", "-M", "HEAD"]),
            self.git(["diff", "--name-status"]),
        )
    }
}

/// S-174
#[tokio::test]
async fn everything_that_differs_is_staged_and_nothing_committed() {
    let bench = Bench::new();
    bench.write("dir/one", "1\n");
    bench.write("dir/deep/two", "2\n");
    bench.write("was-file", "f\n");
    bench.write("moving", "the same text\nin some\nlines\n");
    bench.commit("more");
    let work = bench
        .work(|path| {
            super::bench::write(&path.join("a"), "changed\n");
            super::bench::write(&path.join("bin"), [0, 255]);
            super::bench::write(&path.join("run"), "#!/bin/sh\n");
            let mode = std::fs::Permissions::from_mode(0o755);
            fs_err::set_permissions(path.join("run"), mode).unwrap();
            fs_err::os::unix::fs::symlink("a", path.join("link")).unwrap();
            fs_err::remove_dir_all(path.join("sub")).unwrap();
            fs_err::remove_dir_all(path.join("dir")).unwrap();
            super::bench::write(&path.join("dir"), "a file now\n");
            fs_err::remove_file(path.join("was-file")).unwrap();
            super::bench::write(&path.join("was-file/inside"), "a folder now\n");
            fs_err::rename(path.join("moving"), path.join("moved")).unwrap();
            super::bench::write(&path.join("new\nline"), "n\n");
        })
        .await;
    let head = bench.head();
    // What a person does meanwhile, elsewhere.
    bench.write("b", "being edited\n");
    bench.write("untracked", "u\n");
    let plan = bench.plan(&work).await.unwrap();
    assert_eq!(plan.head, head);
    assert_eq!(
        lines(&plan.changed_files),
        [
            "M a",
            "A bin",
            "A dir",
            "D dir/deep/two",
            "D dir/one",
            "A link",
            "R moving moved",
            "A new\nline",
            "A run",
            "D sub/c",
            "D was-file",
            "A was-file/inside",
        ]
    );
    bench.git.squash(&bench.root, &plan).await.unwrap();
    assert_eq!(bench.head(), head);
    assert_eq!(bench.git(["write-tree"]), plan.tree);
    assert_eq!(bench.differences().1, "M\tb");
    assert!(bench.status().contains(&"?? untracked".to_owned()));
    assert_eq!((bench.read("a"), bench.read("b")), ("changed\n".into(), "being edited\n".into()));
    assert!(!bench.root.join("sub").exists());
    let mode = fs_err::metadata(bench.root.join("run")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111);
    assert!(fs_err::symlink_metadata(bench.root.join("link")).unwrap().is_symlink());
    let left: Vec<_> = fs_err::read_dir(bench.root.join(".git"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("cortex") || name.contains(".lock"))
        .collect();
    assert_eq!(left, Vec::<String>::new());

    let before = bench.hash();
    bench.git.squash(&bench.root, &plan).await.unwrap();
    assert_eq!(bench.hash(), before, "done twice");
    bench.git(["commit", "--quiet", "-m", "by the person"]);
    let before = bench.hash();
    bench.git.squash(&bench.root, &plan).await.unwrap();
    assert_eq!(bench.hash(), before, "done twice");
}

/// C11: what HEAD got meanwhile is merged with it.
#[tokio::test]
async fn a_head_that_went_on_is_merged_and_one_that_moves_again_is_told() {
    let bench = Bench::new();
    let text = |one: &str, two: &str| format!("{one}\n2\n3\n4\n5\n{two}\n");
    bench.write("a", text("1", "6"));
    bench.commit("lines");
    let work = bench.work(|path| super::bench::write(&path.join("a"), text("1", "six"))).await;
    bench.write("a", text("one", "6"));
    bench.commit("meanwhile");
    let plan = bench.plan(&work).await.unwrap();
    bench.write("b", "again\n");
    bench.commit("again");
    let before = bench.hash();
    let outcome = bench.git.squash(&bench.root, &plan).await;
    refused(outcome, Code::WorkspaceIndexNotClean, &["HEAD", "moved"]);
    assert_eq!(bench.hash(), before);
    let plan = bench.plan(&work).await.unwrap();
    bench.git.squash(&bench.root, &plan).await.unwrap();
    assert_eq!(bench.read("a"), text("one", "six"));
    assert_eq!(bench.differences(), ("M\ta".into(), String::new()));
    bench.commit("taken");
    // It is in HEAD already.
    let plan = bench.plan(&work).await.unwrap();
    assert_eq!(plan.changed_files, []);
    bench.git.squash(&bench.root, &plan).await.unwrap();
    assert_eq!(bench.status(), Vec::<String>::new());
}

/// Work that stands on a commit which HEAD lost brings only itself.
#[tokio::test]
async fn a_base_that_head_lost_does_not_come_back() {
    let bench = Bench::new();
    bench.write("undone", "u\n");
    bench.commit("will be undone");
    let work = bench.work(|path| super::bench::write(&path.join("new"), "n\n")).await;
    bench.git(["reset", "--quiet", "--hard", "HEAD~1"]);
    let plan = bench.plan(&work).await.unwrap();
    assert_eq!(lines(&plan.changed_files), ["A new"]);
}

#[tokio::test]
async fn flags_and_intents_of_a_persons_index_stay() {
    let bench = Bench::new();
    let work = bench.work(|path| super::bench::write(&path.join("new"), "n\n")).await;
    bench.git(["update-index", "--skip-worktree", "a"]);
    bench.git(["update-index", "--assume-unchanged", "b"]);
    bench.write("a", "mine alone\n");
    bench.write("intended", "i\n");
    bench.git(["add", "-N", "intended"]);
    let plan = bench.plan(&work).await.unwrap();
    bench.git.squash(&bench.root, &plan).await.unwrap();
    assert_eq!(bench.git(["ls-files", "-v", "a", "b"]), "S a\nh b");
    assert_eq!(bench.read("a"), "mine alone\n");
    assert_eq!(bench.status(), [" A intended", "A  new"]);
}

#[tokio::test]
async fn line_ends_are_written_as_the_project_wants_them() {
    let bench = Bench::new();
    bench.git(["config", "core.autocrlf", "true"]);
    bench.write("a", "one\r\ntwo\r\n");
    bench.commit("crlf");
    let work = bench
        .work(|path| {
            assert_eq!(fs_err::read(path.join("a")).unwrap(), b"one\r\ntwo\r\n");
            super::bench::write(&path.join("a"), "one\r\n2\r\n");
            super::bench::write(&path.join("unix"), "u\n");
            super::bench::write(&path.join(".gitattributes"), "unix eol=lf\n");
        })
        .await;
    let plan = bench.plan(&work).await.unwrap();
    assert_eq!(lines(&plan.changed_files), ["A .gitattributes", "M a", "A unix"]);
    bench.git.squash(&bench.root, &plan).await.unwrap();
    assert_eq!(bench.read("a"), "one\r\n2\r\n");
    assert_eq!(bench.read("unix"), "u\n");
    assert_eq!(bench.differences().1, "");
    assert_eq!(bench.git(["show", ":a"]), "one\n2");
}

/// The data directory may be on another disk than the project.
#[tokio::test]
async fn files_come_from_another_file_system() {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(scratch) = tempfile::tempdir_in("/dev/shm") else { return };
    let bench = Bench::new();
    let device = |path: &std::path::Path| fs_err::metadata(path).unwrap().dev();
    if device(scratch.path()) == device(&bench.root) {
        return;
    }
    let git = crate::engine::git::GitProgram::new(scratch.path());
    let work = bench
        .work(|path| {
            super::bench::write(&path.join("a"), "changed\n");
            fs_err::os::unix::fs::symlink("a", path.join("link")).unwrap();
        })
        .await;
    let plan = git.plan_squash(&bench.root, &work.base, &work.commit).await.unwrap();
    git.squash(&bench.root, &plan).await.unwrap();
    assert_eq!(bench.status(), ["M  a", "A  link"]);
    assert_eq!(bench.read("a"), "changed\n");
}

#[tokio::test]
async fn what_a_sparse_folder_leaves_out_stays_out() {
    let bench = Bench::new();
    bench.write("out/x", "x\n");
    bench.commit("more");
    bench.git(["sparse-checkout", "set", "--cone", "sub"]);
    assert!(!bench.root.join("out").exists());
    let before = bench.hash();
    let objects = bench.base.join("objects");
    let tree = bench.git.snapshot(&bench.root, &objects).await.unwrap();
    assert_eq!(tree, bench.git(["rev-parse", "HEAD^{tree}"]));
    assert_eq!(bench.hash(), before);
    let work = bench
        .work(|path| {
            assert!(!path.join("out").exists(), "a worktree is as sparse as the project");
            super::bench::write(&path.join("out/x"), "changed\n");
            super::bench::write(&path.join("sub/c"), "changed\n");
        })
        .await;
    let plan = bench.plan(&work).await.unwrap();
    assert_eq!(lines(&plan.changed_files), ["M out/x", "M sub/c"]);
    bench.git.squash(&bench.root, &plan).await.unwrap();
    assert_eq!(bench.git(["ls-files", "-t"]), "H a\nH b\nS out/x\nH sub/c");
    assert_eq!(bench.git(["write-tree"]), plan.tree);
    assert!(!bench.root.join("out").exists());
    assert_eq!(bench.differences().1, "");
}

#[tokio::test]
async fn a_submodule_stays_where_it_is() {
    let bench = Bench::new();
    let library = Bench::new();
    let url = library.root.to_str().unwrap().to_owned();
    bench.git(["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &url, "lib"]);
    bench.commit("submodule");
    let work = bench.work(|path| super::bench::write(&path.join("a"), "changed\n")).await;
    git_in(&bench.root.join("lib"), &["commit", "--quiet", "--allow-empty", "-m", "inside"]);
    bench.write("lib/a", "edited\n");
    let before = super::bench::hash(&bench.root.join("lib"));
    let plan = bench.plan(&work).await.unwrap();
    assert_eq!(lines(&plan.changed_files), ["M a"]);
    bench.git.squash(&bench.root, &plan).await.unwrap();
    assert_eq!(super::bench::hash(&bench.root.join("lib")), before);
    assert_eq!(bench.differences().0, "M\ta");
}

/// Another git holds the index for a moment, as an editor's status does.
#[tokio::test]
async fn a_lock_of_another_program_is_waited_for() {
    let bench = Bench::new();
    let work = bench.work(|path| super::bench::write(&path.join("a"), "changed\n")).await;
    let plan = bench.plan(&work).await.unwrap();
    let lock = bench.root.join(".git/index.lock");
    super::bench::write(&lock, "");
    let squash = bench.git.squash(&bench.root, &plan);
    let unlock = async {
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
        assert_eq!(bench.read("a"), "a\n");
        fs_err::remove_file(&lock).unwrap();
    };
    let (outcome, ()) = tokio::join!(squash, unlock);
    outcome.unwrap();
    assert_eq!(bench.read("a"), "changed\n");
}
