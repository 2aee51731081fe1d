//! Worktrees that were cut off, are half deleted, or are where they must not be.

use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::bench::{BRANCH, Bench, git_in, hash, refused, write};
use crate::error::Code;
use crate::port::Git as _;
use crate::process::sweep;

/// Instants at which a call is cut off.
const CUTS: u32 = 14;

/// reliability: worktree equal to, inside, linked to or missing from the project root.
#[tokio::test]
async fn a_worktree_at_inside_or_linked_to_the_project_root_changes_nothing_there() {
    let bench = Bench::new();
    let owned = bench.worktree("a1");
    bench.git.add(&owned).await.unwrap();
    let link = bench.base.join("link");
    fs_err::os::unix::fs::symlink(&bench.root, &link).unwrap();
    let to_owned = bench.base.join("link to a1");
    fs_err::os::unix::fs::symlink(&owned.path, &to_owned).unwrap();
    let before = hash(&bench.base);
    let places = [
        bench.root.clone(),
        bench.root.join("sub"),
        bench.root.join(".git"),
        bench.root.join(".git/worktrees/a1"),
        bench.base.clone(),
        link.join("sub"),
        link,
        to_owned,
        "relative".into(),
    ];
    for path in places {
        let mut worktree = owned.clone();
        worktree.path = path;
        for outcome in [
            bench.git.remove(&worktree).await,
            bench.git.add(&worktree).await.map(drop),
            bench.git.keep(&worktree, &bench.head(), BRANCH).await.map(drop),
            bench.git.left_behind(&worktree, &bench.head()).await.map(drop),
        ] {
            refused(outcome, Code::WorkspaceUnowned, &[]);
        }
    }
    let mut missing = owned.clone();
    missing.path = bench.root.join("missing");
    bench.git.remove(&missing).await.unwrap();
    refused(
        bench.git.keep(&missing, &bench.head(), BRANCH).await,
        Code::WorkspaceUnowned,
        &["nothing is there"],
    );
    assert_eq!(hash(&bench.base), before);
}

/// reliability: half-deleted old worktree → the retry starts.
#[tokio::test]
async fn a_half_deleted_worktree_is_made_anew() {
    let bench = Bench::new();
    let worktree = bench.worktree("a1");
    let gone: [&[&str]; 4] = [&["a"], &[".git"], &[".git", "a", "sub/c"], &["."]];
    for gone in gone {
        bench.git.add(&worktree).await.unwrap();
        for name in gone {
            let path = worktree.path.join(name);
            if *name == "." {
                fs_err::remove_dir_all(&worktree.path).unwrap();
            } else {
                fs_err::remove_file(path).unwrap();
            }
        }
        let base = bench.git.add(&worktree).await.unwrap();
        assert_eq!(base, bench.head());
        if gone != ["a"] {
            assert_eq!(git_in(&worktree.path, &["status", "--porcelain"]), "", "{gone:?}");
        }
        assert_eq!(bench.git(["worktree", "list"]).lines().count(), 2);
        bench.git.remove(&worktree).await.unwrap();
    }
}

#[tokio::test]
async fn a_half_deleted_worktree_is_removed_to_the_end() {
    let bench = Bench::new();
    let before = hash(&bench.root);
    let worktree = bench.worktree("a1");
    for gone in [".git", "."] {
        bench.git.add(&worktree).await.unwrap();
        if gone == "." {
            fs_err::remove_dir_all(&worktree.path).unwrap();
        } else {
            fs_err::remove_file(worktree.path.join(gone)).unwrap();
        }
        bench.git.remove(&worktree).await.unwrap();
        assert!(!worktree.path.exists());
        assert_eq!(hash(&bench.root), before);
    }
}

#[tokio::test]
async fn without_gits_record_nothing_proves_a_worktree() {
    let bench = Bench::new();
    let worktree = bench.worktree("a1");
    bench.git.add(&worktree).await.unwrap();
    fs_err::remove_dir_all(bench.root.join(".git/worktrees/a1")).unwrap();
    let before = hash(&bench.base);
    refused(bench.git.remove(&worktree).await, Code::WorkspaceUnowned, &["no marker"]);
    refused(bench.git.add(&worktree).await, Code::WorkspaceUnowned, &["no marker"]);
    assert_eq!(hash(&bench.base), before);
}

#[tokio::test]
async fn a_repository_that_was_put_in_place_of_a_worktree_stays() {
    let bench = Bench::new();
    let worktree = bench.worktree("a1");
    bench.git.add(&worktree).await.unwrap();
    fs_err::remove_file(worktree.path.join(".git")).unwrap();
    git_in(&worktree.path, &["init", "--quiet"]);
    let before = hash(&bench.base);
    let outcome = bench.git.remove(&worktree).await;
    refused(outcome, Code::WorkspaceUnowned, &["another repository"]);
    assert_eq!(hash(&bench.base), before);
}

/// Dropped at many instants: what was made by then is completed, or removed, by the next call.
#[expect(
    clippy::disallowed_methods,
    reason = "a test measures how long it takes when nothing cuts it"
)]
#[tokio::test]
async fn making_and_removing_may_be_cut_off_at_any_time() {
    let bench = Bench::new();
    let before = hash(&bench.root);
    // No other test has this name: what a cut leaves running is found by it and ended, as the next life does.
    let name = format!("cut-{}", std::process::id());
    let worktree = bench.worktree(&name);
    let begun = Instant::now();
    bench.git.add(&worktree).await.unwrap();
    let whole = begun.elapsed();
    bench.git.remove(&worktree).await.unwrap();
    for step in 0..CUTS {
        timeout(whole * step / CUTS, bench.git.add(&worktree)).await.ok();
        sweep([name.clone()]).await;
        if step % 2 == 0 {
            let base = bench.git.add(&worktree).await.unwrap();
            assert_eq!(base, bench.head());
            assert_eq!(git_in(&worktree.path, &["status", "--porcelain"]), "", "{step}");
        }
        timeout(Duration::from_millis(step.into()), bench.git.remove(&worktree)).await.ok();
        sweep([name.clone()]).await;
        bench.git.remove(&worktree).await.unwrap();
        assert!(!worktree.path.exists());
        assert_eq!(hash(&bench.root), before, "{step}");
    }
    assert_eq!(fs_err::read_dir(bench.base.join("data/worktrees")).unwrap().count(), 0);
}

/// A git that was killed between its steps leaves a record that no marker is in.
#[tokio::test]
async fn a_worktree_that_git_left_unmarked_is_made_anew_only_with_the_note() {
    let bench = Bench::new();
    let worktree = bench.worktree("a1");
    fs_err::create_dir_all(worktree.path.parent().unwrap()).unwrap();
    let path = worktree.path.to_str().unwrap();
    bench.git(["worktree", "add", "--quiet", "--detach", "--no-checkout", path]);
    refused(bench.git.add(&worktree).await, Code::WorkspaceUnowned, &["no marker"]);
    let note = serde_json::json!({
        "root": worktree.root, "path": worktree.path, "attempt_id": "a1", "task_id": "t1", "base": null,
    });
    write(&worktree.path.with_file_name("a1.making.json"), note.to_string());
    bench.git.add(&worktree).await.unwrap();
    assert_eq!(git_in(&worktree.path, &["status", "--porcelain"]), "");
    assert_eq!(bench.git(["worktree", "list"]).lines().count(), 2);
}

/// The link to git's record is made empty and written then: a kill may come in between.
#[tokio::test]
async fn a_worktree_whose_link_git_did_not_write_is_made_anew_only_with_the_note() {
    let bench = Bench::new();
    let worktree = bench.worktree("a1");
    fs_err::create_dir_all(worktree.path.parent().unwrap()).unwrap();
    let path = worktree.path.to_str().unwrap();
    bench.git(["worktree", "add", "--quiet", "--detach", "--no-checkout", path]);
    write(&worktree.path.join(".git"), "");
    refused(bench.git.add(&worktree).await, Code::WorkspaceUnowned, &["no marker"]);
    let note = serde_json::json!({
        "root": worktree.root, "path": worktree.path, "attempt_id": "a1", "task_id": "t1", "base": null,
    });
    write(&worktree.path.with_file_name("a1.making.json"), note.to_string());
    bench.git.add(&worktree).await.unwrap();
    assert_eq!(git_in(&worktree.path, &["status", "--porcelain"]), "");
    assert_eq!(bench.git(["worktree", "list"]).lines().count(), 2);
}

/// Git makes its record file by file, each empty at first: a kill may come after any of them.
#[tokio::test]
async fn a_record_that_git_only_began_is_removed_with_the_note_alone() {
    let bench = Bench::new();
    let before = hash(&bench.root);
    let worktree = bench.worktree("a1");
    let note = serde_json::json!({
        "root": worktree.root, "path": worktree.path, "attempt_id": "a1", "task_id": "t1", "base": null,
    });
    let reason = "Cortex works here for attempt a1";
    let record = bench.root.join(".git/worktrees/a1");
    let begun: [&[(&str, &str)]; 4] =
        [&[], &[("locked", "")], &[("locked", reason)], &[("locked", reason), ("gitdir", "")]];
    for files in begun {
        fs_err::create_dir_all(&record).unwrap();
        for (name, text) in files {
            write(&record.join(name), text);
        }
        write(&worktree.path.with_file_name("a1.making.json"), note.to_string());
        bench.git.remove(&worktree).await.unwrap();
        assert_eq!(hash(&bench.root), before, "{files:?}");
    }
    // Those of others stay.
    write(&record.with_file_name("other").join("locked"), "");
    write(&record.join("locked"), "Cortex works here for attempt a2");
    let before = hash(&bench.root);
    write(&worktree.path.with_file_name("a1.making.json"), note.to_string());
    bench.git.remove(&worktree).await.unwrap();
    assert_eq!(hash(&bench.root), before);
}

/// A person's `git worktree prune` does not take the proof away.
#[tokio::test]
async fn gits_record_survives_pruning() {
    let bench = Bench::new();
    let worktree = bench.worktree("a1");
    bench.git.add(&worktree).await.unwrap();
    fs_err::remove_dir_all(&worktree.path).unwrap();
    bench.git(["worktree", "prune", "--expire=now"]);
    assert_eq!(bench.git(["worktree", "list"]).lines().count(), 2);
    bench.git.remove(&worktree).await.unwrap();
    assert_eq!(bench.git(["worktree", "list"]).lines().count(), 1);
}

#[tokio::test]
async fn folders_that_may_not_be_changed_are_removed_too() {
    use std::os::unix::fs::PermissionsExt as _;
    let bench = Bench::new();
    let worktree = bench.worktree("a1");
    bench.git.add(&worktree).await.unwrap();
    write(&worktree.path.join("cache/deep/file"), "x");
    for folder in ["cache/deep", "cache"] {
        let mode = std::fs::Permissions::from_mode(0o555);
        fs_err::set_permissions(worktree.path.join(folder), mode).unwrap();
    }
    bench.git.remove(&worktree).await.unwrap();
    assert!(!worktree.path.exists());
}

/// reliability: dirty worktree → never swept. Its content is in a commit before it goes.
#[tokio::test]
async fn what_a_dirty_worktree_holds_is_kept_before_it_is_removed() {
    let bench = Bench::new();
    let (dirty, other) = (bench.worktree("a1"), bench.worktree("a2"));
    let base = bench.git.add(&dirty).await.unwrap();
    bench.git.add(&other).await.unwrap();
    write(&dirty.path.join("dirty"), "work\n");
    let before = hash(&dirty.path);
    bench.git.remove(&other).await.unwrap();
    assert_eq!(hash(&dirty.path), before);
    let reference = "refs/cortex/attempts/a1";
    bench.git.keep(&dirty, &base, reference).await.unwrap();
    let left = bench.git.left_behind(&dirty, &bench.git(["rev-parse", reference])).await.unwrap();
    assert_eq!(left, []);
    write(&dirty.path.join("later"), "more\n");
    let left = bench.git.left_behind(&dirty, &bench.git(["rev-parse", reference])).await.unwrap();
    assert_eq!(super::bench::lines(&left), ["A later"]);
    bench.git.remove(&dirty).await.unwrap();
    assert_eq!(bench.git(["show", "refs/cortex/attempts/a1:dirty"]), "work");
}
