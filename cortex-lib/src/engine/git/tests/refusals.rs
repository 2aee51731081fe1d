//! What is refused, in which order, with nothing changed.

use super::bench::{BRANCH, Bench, command, git_in, refused, write};
use super::squashes::Work;
use crate::engine::git::GitProgram;
use crate::error::{Code, Error};
use crate::port::Git as _;

/// Work that changes `a`, deletes `b` and adds `new/file`.
async fn work(bench: &Bench) -> Work {
    bench
        .work(|path| {
            write(&path.join("a"), "by the attempt\n");
            fs_err::remove_file(path.join("b")).unwrap();
            write(&path.join("new/file"), "n\n");
        })
        .await
}

/// The refusal of a plan, which changes nothing.
async fn refusal(bench: &Bench, work: &Work, code: Code, says: &[&str]) -> Error {
    let before = bench.hash();
    let error = refused(bench.plan(work).await, code, says);
    assert_eq!(bench.hash(), before);
    error
}

/// S-178, reliability: integrate with staged changes.
#[tokio::test]
async fn staged_changes_are_refused_first() {
    let bench = Bench::new();
    let work = work(&bench).await;
    bench.write("a", "committed meanwhile\n");
    bench.commit("conflicts");
    bench.write("new/file", "in the way\n");
    bench.write("sub/c", "staged\n");
    bench.git(["add", "sub/c"]);
    let error = refusal(&bench, &work, Code::WorkspaceIndexNotClean, &["staged", "sub/c"]).await;
    assert_eq!(error.detail("paths"), Some(&serde_json::json!(["sub/c"])));
    bench.git(["reset", "--quiet"]);
    refusal(&bench, &work, Code::WorkspaceConflict, &[": a"]).await;
    bench.git(["reset", "--quiet", "--hard", "HEAD~1"]);
    refusal(&bench, &work, Code::WorkspaceLocalChanges, &["new/file"]).await;
}

/// S-178
#[tokio::test]
async fn a_merge_or_another_thing_under_way_is_refused_by_its_name() {
    let bench = Bench::new();
    bench.git(["checkout", "--quiet", "-b", "other"]);
    bench.write("sub/c", "theirs\n");
    bench.commit("theirs");
    bench.git(["checkout", "--quiet", "main"]);
    bench.write("sub/c", "ours\n");
    bench.commit("ours");
    let work = work(&bench).await;
    for (start, abort, name) in [
        (["merge", "other"], ["merge", "--abort"], "a merge"),
        (["cherry-pick", "other"], ["cherry-pick", "--abort"], "a cherry-pick"),
        (["rebase", "other"], ["rebase", "--abort"], "a rebase"),
    ] {
        assert!(!command(&bench.root).args(start).output().unwrap().status.success());
        refusal(&bench, &work, Code::WorkspaceIndexNotClean, &[name]).await;
        bench.git(abort);
    }
    assert!(!command(&bench.root).args(["merge", "other"]).output().unwrap().status.success());
    fs_err::remove_file(bench.root.join(".git/MERGE_HEAD")).unwrap();
    refusal(&bench, &work, Code::WorkspaceIndexNotClean, &["conflicts", "sub/c"]).await;
}

/// S-178, reliability: integrate with conflicts.
#[tokio::test]
async fn conflicts_are_refused_with_ten_paths_and_their_number() {
    let bench = Bench::new();
    let names: Vec<String> = (10..25).map(|number| format!("f{number}")).collect();
    for name in &names {
        bench.write(name, "base\n");
    }
    bench.commit("files");
    let work =
        bench.work(|path| names.iter().for_each(|name| write(&path.join(name), "theirs\n"))).await;
    for name in &names {
        bench.write(name, "ours\n");
    }
    bench.commit("ours");
    let error = refusal(&bench, &work, Code::WorkspaceConflict, &["f10", "f19 and 5 more"]).await;
    assert!(!error.message().contains("f20"), "{}", error.message());
    assert_eq!(error.detail("count"), Some(&15.into()));
}

/// S-178, reliability: integrate with local changes.
#[tokio::test]
async fn whatever_would_be_overwritten_is_refused_by_its_path() {
    type Edit = fn(&Bench);
    let edits: [(&str, Edit, &[&str]); 12] = [
        ("changed", |it| it.write("a", "mine\n"), &[": a"]),
        ("deleted", |it| fs_err::remove_file(it.root.join("a")).unwrap(), &[": a"]),
        ("changed where it goes", |it| it.write("b", "mine\n"), &[": b"]),
        ("untracked", |it| it.write("new/file", "mine\n"), &["new/file"]),
        (
            "ignored",
            |it| {
                write(&it.root.join(".git/info/exclude"), "file\n");
                it.write("new/file", "mine\n");
            },
            &["new/file"],
        ),
        ("a folder in the way", |it| it.write("new/file/deep", "mine\n"), &["new/file/deep"]),
        ("a file in the way", |it| it.write("new", "mine\n"), &[": new"]),
        (
            "a link in the way",
            |it| fs_err::os::unix::fs::symlink("sub", it.root.join("new")).unwrap(),
            &[": new"],
        ),
        (
            "a folder for a file",
            |it| {
                fs_err::remove_file(it.root.join("a")).unwrap();
                it.write("a/deep", "mine\n");
            },
            &["a/deep"],
        ),
        (
            "marked as one to be passed over",
            |it| {
                it.git(["update-index", "--assume-unchanged", "a"]);
                it.write("a", "mine\n");
            },
            &[": a"],
        ),
        (
            "marked as one that is not there",
            |it| {
                it.git(["update-index", "--skip-worktree", "a"]);
                it.write("a", "mine\n");
            },
            &[": a"],
        ),
        (
            "something else",
            |it| {
                fs_err::create_dir_all(it.root.join("new")).unwrap();
                drop(std::os::unix::net::UnixListener::bind(it.root.join("new/file")).unwrap());
            },
            &["new/file"],
        ),
    ];
    let bench = Bench::new();
    let made = work(&bench).await;
    let plan = bench.plan(&made).await.unwrap();
    for (name, edit, says) in edits {
        // An index that is made anew has no flags.
        fs_err::remove_file(bench.root.join(".git/index")).unwrap();
        bench.git(["reset", "--quiet", "--hard"]);
        write(&bench.root.join(".git/info/exclude"), "");
        bench.git(["clean", "--quiet", "-ffdx"]);
        edit(&bench);
        refusal(&bench, &made, Code::WorkspaceLocalChanges, says).await;
        let before = bench.hash();
        let outcome = bench.git.squash(&bench.root, &plan).await;
        refused(outcome, Code::WorkspaceLocalChanges, says);
        assert_eq!(bench.hash(), before, "{name}");
    }
}

/// S-178: the folder changed between plan and squash.
#[tokio::test]
async fn a_squash_refuses_what_was_staged_since_its_plan() {
    let bench = Bench::new();
    let work = work(&bench).await;
    let plan = bench.plan(&work).await.unwrap();
    bench.write("sub/c", "staged\n");
    bench.git(["add", "-A"]);
    let before = bench.hash();
    let outcome = bench.git.squash(&bench.root, &plan).await;
    refused(outcome, Code::WorkspaceIndexNotClean, &["sub/c"]);
    assert_eq!(bench.hash(), before);
}

/// H-42
#[tokio::test]
async fn a_folder_without_a_commit_or_repository_has_no_workspace() {
    let bench = Bench::empty("project");
    let worktree = bench.worktree("a1");
    refused(bench.git.head(&bench.root).await, Code::WorkspaceUnavailable, &["no git repository"]);
    refused(bench.git.add(&worktree).await, Code::WorkspaceUnavailable, &["no git repository"]);
    bench.git(["init", "--quiet"]);
    refused(bench.git.head(&bench.root).await, Code::WorkspaceUnavailable, &["no commit yet"]);
    refused(bench.git.add(&worktree).await, Code::WorkspaceUnavailable, &["no commit yet"]);
    assert!(!worktree.path.exists());
    bench.git(["init", "--quiet", "--bare", "bare"]);
    let bare = bench.root.join("bare");
    refused(bench.git.head(&bare).await, Code::WorkspaceUnavailable, &["without a working folder"]);
    refused(
        bench.git.head(&bench.base.join("nowhere")).await,
        Code::WorkspaceUnavailable,
        &["nowhere", "is not there"],
    );
}

#[tokio::test]
async fn a_missing_or_old_git_is_told_with_what_to_do() {
    use std::os::unix::fs::PermissionsExt as _;
    let bench = Bench::new();
    let missing = GitProgram::with_program(bench.base.join("s"), "cortex-no-such-git");
    let error = refused(
        missing.head(&bench.root).await,
        Code::WorkspaceUnavailable,
        &["cortex-no-such-git was not found"],
    );
    assert!(error.remediation().contains("Install git 2.38"), "{}", error.remediation());
    let old = bench.base.join("old-git");
    write(&old, "#!/bin/sh\necho git version 2.30.2\n");
    fs_err::set_permissions(&old, std::fs::Permissions::from_mode(0o755)).unwrap();
    let old = GitProgram::with_program(bench.base.join("s"), old);
    let error = refused(old.head(&bench.root).await, Code::WorkspaceUnavailable, &["2.30", "2.38"]);
    assert!(error.remediation().contains("2.38"), "{}", error.remediation());
}

/// reliability: integrate with the branch checked out elsewhere → the named error, nothing changed.
#[tokio::test]
async fn a_branch_that_is_checked_out_elsewhere_is_not_moved() {
    let bench = Bench::new();
    let work = work(&bench).await;
    let other = bench.base.join("other");
    bench.git(["worktree", "add", "--quiet", other.to_str().unwrap(), "cortex/t1"]);
    bench.git.point(&bench.root, BRANCH, &work.commit).await.unwrap();
    let before = bench.hash();
    let outcome = bench.git.point(&bench.root, BRANCH, &work.base).await;
    refused(outcome, Code::WorkspaceUnavailable, &[BRANCH, other.to_str().unwrap()]);
    assert_eq!(bench.hash(), before);
    // What is already there can be brought in.
    let plan = bench.plan(&work).await.unwrap();
    bench.git.squash(&bench.root, &plan).await.unwrap();
    assert_eq!(git_in(&other, &["status", "--porcelain"]), "");
}

#[tokio::test]
async fn only_references_of_cortex_are_set() {
    let bench = Bench::new();
    let head = bench.commit("second");
    let before = bench.hash();
    for name in ["refs/heads/main", "HEAD", "refs/heads/cortex/../main", "refs/cortex/", "--help"] {
        let outcome = bench.git.point(&bench.root, name, &head).await;
        refused(outcome, Code::WorkspaceUnavailable, &[name]);
    }
    let outcome = bench.git.point(&bench.root, BRANCH, "HEAD").await;
    refused(outcome, Code::WorkspaceUnavailable, &["HEAD"]);
    assert_eq!(bench.hash(), before);
}

/// What a reference pointed at can be found again.
#[tokio::test]
async fn the_old_value_of_a_reference_stays_in_its_log() {
    let bench = Bench::new();
    let (one, two) = (bench.head(), bench.commit("second"));
    bench.git.point(&bench.root, BRANCH, &one).await.unwrap();
    bench.git.point(&bench.root, BRANCH, &two).await.unwrap();
    assert_eq!(bench.git(["rev-parse", "cortex/t1", "cortex/t1@{1}"]), format!("{two}\n{one}"));
}

/// A git that was killed while it set a reference leaves a lock that nobody holds.
#[tokio::test]
async fn an_old_lock_of_a_reference_of_cortex_is_removed() {
    let bench = Bench::new();
    bench.write(&format!(".git/{BRANCH}.lock"), "");
    let head = bench.head();
    bench.git.point(&bench.root, BRANCH, &head).await.unwrap();
    assert_eq!(bench.git(["rev-parse", BRANCH]), head);
}
