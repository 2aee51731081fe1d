//! Snapshots of a folder.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use super::bench::{Bench, command, git_in, lines, write};
use crate::port::Git as _;

impl Bench {
    fn objects(&self) -> PathBuf {
        self.base.join("objects")
    }

    /// The snapshot, and that taking it changed nothing in the project.
    async fn snapshot(&self) -> String {
        let before = self.hash();
        let tree = self.git.snapshot(&self.root, &self.objects()).await.unwrap();
        assert_eq!(self.hash(), before);
        tree
    }

    async fn changes(&self, from: &str, to: &str) -> Vec<String> {
        let changes = self.git.changes(&self.root, &self.objects(), from, to).await.unwrap();
        lines(&changes)
    }
}

#[tokio::test]
async fn a_clean_folder_is_the_tree_of_head() {
    let bench = Bench::new();
    assert_eq!(bench.snapshot().await, bench.git(["rev-parse", "HEAD^{tree}"]));
}

#[tokio::test]
async fn everything_that_changes_is_told_and_nothing_in_the_folder_or_repository_changes() {
    let bench = Bench::new();
    bench.write(".gitignore", "ignored/\n");
    bench.write("run", "#!/bin/sh\n");
    bench.write("bin", [0, 1, 2, 255]);
    bench.write("dir/one", "1\n");
    bench.write("was-file", "f\n");
    fs_err::os::unix::fs::symlink("a", bench.root.join("link")).unwrap();
    bench.commit("more");
    let from = bench.snapshot().await;
    bench.write("a", "changed\n");
    bench.write("bin", [0, 1, 2, 254]);
    bench.write("ignored/x", "i\n");
    bench.write("new\nline ä", "n\n");
    fs_err::rename(bench.root.join("b"), bench.root.join("moved")).unwrap();
    fs_err::remove_file(bench.root.join("sub/c")).unwrap();
    fs_err::remove_file(bench.root.join("link")).unwrap();
    fs_err::os::unix::fs::symlink("moved", bench.root.join("link")).unwrap();
    fs_err::set_permissions(bench.root.join("run"), std::fs::Permissions::from_mode(0o755))
        .unwrap();
    fs_err::remove_dir_all(bench.root.join("dir")).unwrap();
    bench.write("dir", "a file now\n");
    fs_err::remove_file(bench.root.join("was-file")).unwrap();
    bench.write("was-file/inside", "a folder now\n");
    let to = bench.snapshot().await;
    let mut told = bench.changes(&from, &to).await;
    told.sort();
    assert_eq!(
        told,
        [
            "A dir",
            "A new\nline ä",
            "A was-file/inside",
            "D dir/one",
            "D sub/c",
            "D was-file",
            "M a",
            "M bin",
            "M link",
            "M run",
            "R b moved",
        ]
    );
}

#[tokio::test]
async fn an_index_with_intents_conflicts_and_hidden_files_changes_nothing_about_it() {
    let bench = Bench::new();
    bench.git(["checkout", "--quiet", "-b", "other"]);
    bench.write("a", "theirs\n");
    bench.commit("theirs");
    bench.git(["checkout", "--quiet", "main"]);
    bench.write("a", "ours\n");
    bench.write("hidden", "h\n");
    bench.write("assumed", "h\n");
    bench.commit("ours");
    let from = bench.snapshot().await;
    assert!(!command(&bench.root).args(["merge", "other"]).output().unwrap().status.success());
    bench.write("intended", "i\n");
    bench.git(["add", "-N", "intended"]);
    bench.git(["update-index", "--assume-unchanged", "assumed"]);
    bench.write("assumed", "changed\n");
    assert!(bench.status().contains(&"UU a".to_owned()));
    let to = bench.snapshot().await;
    assert_eq!(bench.changes(&from, &to).await, ["M a", "M assumed", "A intended"]);
}

#[tokio::test]
async fn a_split_index_is_read() {
    let bench = Bench::new();
    bench.git(["update-index", "--split-index"]);
    let from = bench.snapshot().await;
    bench.write("a", "changed\n");
    let to = bench.snapshot().await;
    assert_eq!(bench.changes(&from, &to).await, ["M a"]);
}

/// Submodules keep what the index says; a repository inside is not the folder's own content.
#[tokio::test]
async fn submodules_and_repositories_inside_are_left_alone() {
    let bench = Bench::new();
    let library = Bench::new();
    let url = library.root.to_str().unwrap().to_owned();
    bench.git(["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &url, "lib"]);
    bench.commit("submodule");
    let from = bench.snapshot().await;
    git_in(&bench.root.join("lib"), &["commit", "--quiet", "--allow-empty", "-m", "inside"]);
    bench.write("lib/new", "n\n");
    for (name, commit) in [("empty", false), ("nested/deep", true)] {
        let path = bench.root.join(name);
        fs_err::create_dir_all(&path).unwrap();
        git_in(&path, &["init", "--quiet"]);
        write(&path.join("file"), "f\n");
        if commit {
            git_in(&path, &["add", "-A"]);
            git_in(&path, &["commit", "--quiet", "-m", "nested"]);
        }
    }
    bench.write("nested/beside", "b\n");
    let to = bench.snapshot().await;
    assert_eq!(bench.changes(&from, &to).await, ["A nested/beside"]);
}

/// A file that changes within the tick of the clock in which the index was written, to the same length.
#[tokio::test]
async fn a_change_in_the_instant_of_the_index_is_seen() {
    let bench = Bench::new();
    for round in 0..3 {
        bench.write("a", format!("{round}0\n"));
        bench.commit("round");
        bench.write("a", format!("{round}1\n"));
        let to = bench.snapshot().await;
        let head = bench.git(["rev-parse", "HEAD^{tree}"]);
        assert_eq!(bench.changes(&head, &to).await, ["M a"], "{round}");
    }
}

#[tokio::test]
async fn things_that_git_cannot_store_are_passed_over() {
    let bench = Bench::new();
    let from = bench.snapshot().await;
    fs_err::remove_file(bench.root.join("a")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(bench.root.join("a")).unwrap();
    let _other = std::os::unix::net::UnixListener::bind(bench.root.join("socket")).unwrap();
    let to = bench.snapshot().await;
    assert_eq!(bench.changes(&from, &to).await, ["D a"]);
}

#[tokio::test]
async fn of_a_project_in_a_larger_repository_its_own_folder_counts() {
    let bench = Bench::new();
    let sub = bench.root.join("sub");
    let objects = bench.objects();
    let from = bench.git.snapshot(&sub, &objects).await.unwrap();
    bench.write("a", "outside\n");
    bench.write("sub/c", "inside\n");
    let to = bench.git.snapshot(&sub, &objects).await.unwrap();
    let changes = bench.git.changes(&sub, &objects, &from, &to).await.unwrap();
    assert_eq!(lines(&changes), ["M sub/c"]);
}
