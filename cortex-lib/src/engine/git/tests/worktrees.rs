//! Worktrees: made, kept, removed.

use super::bench::{BRANCH, Bench, git_in, hash, lines, refused, write};
use crate::error::Code;
use crate::ids::AttemptId;
use crate::port::Git as _;

/// C10: the attempt's worktree is detached at HEAD, and nobody sees a marker in it.
#[tokio::test]
async fn a_worktree_holds_head_and_no_file_more() {
    let bench = Bench::new();
    bench.write("a", "not committed\n");
    let worktree = bench.worktree("a1");
    let base = bench.git.add(&worktree).await.unwrap();
    assert_eq!(base, bench.head());
    assert_eq!(git_in(&worktree.path, &["status", "--porcelain", "--ignored"]), "");
    assert_eq!(git_in(&worktree.path, &["rev-parse", "HEAD"]), base);
    assert_eq!(git_in(&worktree.path, &["branch", "--show-current"]), "");
    assert_eq!(fs_err::read_to_string(worktree.path.join("a")).unwrap(), "a\n");
    assert_eq!(bench.git.folder(&worktree).await.unwrap(), worktree.path);
}

#[tokio::test]
async fn a_worktree_that_stands_is_left_as_it_is() {
    let bench = Bench::new();
    let worktree = bench.worktree("a1");
    let base = bench.git.add(&worktree).await.unwrap();
    write(&worktree.path.join("new"), "work\n");
    git_in(&worktree.path, &["commit", "--quiet", "--allow-empty", "-m", "by the agent"]);
    bench.commit("second");
    let before = hash(&worktree.path);
    assert_eq!(bench.git.add(&worktree).await.unwrap(), base);
    assert_eq!(hash(&worktree.path), before);
}

/// S-174, S-175
#[tokio::test]
async fn keeping_commits_what_the_worktree_holds_and_changes_nothing_in_it() {
    let bench = Bench::new();
    bench.write(".gitignore", "ignored\n");
    bench.commit("ignore");
    let worktree = bench.worktree("a1");
    let base = bench.git.add(&worktree).await.unwrap();
    let path = |name: &str| worktree.path.join(name);
    write(&path("a"), "changed\n");
    fs_err::rename(path("sub/c"), path("moved")).unwrap();
    fs_err::remove_file(path("b")).unwrap();
    write(&path("new\nline"), "n\n");
    write(&path("ignored"), "i\n");
    let before = hash(&worktree.path);
    let kept = bench.git.keep(&worktree, &base, BRANCH).await.unwrap();
    assert_eq!(lines(&kept.changed_files), ["M a", "D b", "R sub/c moved", "A new\nline"]);
    assert_eq!(hash(&worktree.path), before);
    assert_eq!(git_in(&worktree.path, &["rev-parse", "HEAD"]), base);
    assert_eq!(bench.git(["rev-parse", BRANCH]), kept.commit);
    let told = bench.git(["log", "-1", "--format=%an %ae %cn%n%P%n%T%n%B", BRANCH]);
    let parent = format!("{base}\n{}", kept.tree);
    assert!(told.starts_with(&format!("Cortex cortex@localhost Cortex\n{parent}\n")), "{told}");
    assert!(told.contains("Cortex-Task: t1\nCortex-Attempt: a1"), "{told}");
    assert_eq!(bench.status(), Vec::<String>::new());
}

/// S-176
#[tokio::test]
async fn removing_takes_the_worktree_and_gits_record_and_nothing_else() {
    let bench = Bench::new();
    let before = hash(&bench.root.join(".git"));
    let (one, two) = (bench.worktree("a1"), bench.worktree("a2"));
    bench.git.add(&one).await.unwrap();
    bench.git.add(&two).await.unwrap();
    let kept = hash(&two.path);
    bench.git.remove(&one).await.unwrap();
    assert!(!one.path.exists());
    assert_eq!(hash(&two.path), kept);
    assert_eq!(bench.git(["worktree", "list"]).lines().count(), 2);
    bench.git.remove(&two).await.unwrap();
    bench.git.remove(&two).await.unwrap();
    assert_eq!(hash(&bench.root.join(".git")), before);
    assert_eq!(fs_err::read_dir(bench.base.join("data/worktrees")).unwrap().count(), 0);
}

/// S-178: unowned.
#[tokio::test]
async fn what_is_not_proved_to_be_the_attempts_stays() {
    let bench = Bench::new();
    let owned = bench.worktree("a1");
    bench.git.add(&owned).await.unwrap();
    let mut other_attempt = owned.clone();
    other_attempt.attempt_id = AttemptId::new("a2");
    let mut other_task = owned.clone();
    other_task.task_id = crate::ids::TaskId::new("t2");
    let foreign = bench.worktree("a3");
    write(&foreign.path.join("file"), "somebody's\n");
    let persons = bench.worktree("a4");
    bench.git(["worktree", "add", "--quiet", "--detach", persons.path.to_str().unwrap()]);
    let before = hash(&bench.base);
    for worktree in [other_attempt, other_task, foreign, persons] {
        for outcome in [
            bench.git.remove(&worktree).await,
            bench.git.add(&worktree).await.map(drop),
            bench.git.keep(&worktree, &bench.head(), BRANCH).await.map(drop),
        ] {
            let path = worktree.path.display().to_string();
            refused(outcome, Code::WorkspaceUnowned, &[&path, worktree.attempt_id.as_str()]);
        }
    }
    assert_eq!(hash(&bench.base), before);
}
