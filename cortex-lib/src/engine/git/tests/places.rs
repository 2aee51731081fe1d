//! Where projects are, and several at once.

use super::bench::{BRANCH, Bench, command, git_in, lines, write};
use crate::error::Code;
use crate::port::{Git as _, Worktree};

/// The whole way of an isolated attempt that completes.
async fn whole_way(bench: &Bench, worktree: &Worktree) {
    let base = bench.git.add(worktree).await.unwrap();
    let folder = bench.git.folder(worktree).await.unwrap();
    write(&folder.join("new"), "n\n");
    let kept = bench.git.keep(worktree, &base, BRANCH).await.unwrap();
    assert!(kept.changed_files.iter().all(|file| file.path.ends_with("new")));
    let plan = bench.git.plan_squash(&worktree.root, &base, &kept.commit).await.unwrap();
    bench.git.squash(&worktree.root, &plan).await.unwrap();
    bench.git.remove(worktree).await.unwrap();
    assert_eq!(
        git_in(&worktree.root, &["status", "--porcelain", "."]),
        format!("A  {}", kept.changed_files[0].path)
    );
    assert_eq!(fs_err::read_to_string(worktree.root.join("new")).unwrap(), "n\n");
}

/// reliability, Platform: paths with spaces, non-ASCII, 230 characters, symlinked root.
#[tokio::test]
async fn odd_paths_work() {
    let long = format!("{}/{}", "l".repeat(115), "m".repeat(115));
    for path in ["with space/größe-項目/quote\"s and 'such' :colon", &long] {
        let bench = Bench::at(path);
        let mut worktree = bench.worktree("a1");
        worktree.path = bench.base.join("data of").join(path).join("a1");
        whole_way(&bench, &worktree).await;
    }
    let bench = Bench::new();
    let link = bench.base.join("link");
    fs_err::os::unix::fs::symlink(&bench.root, &link).unwrap();
    let mut worktree = bench.worktree("a1");
    worktree.root = link;
    whole_way(&bench, &worktree).await;
}

#[tokio::test]
async fn a_project_in_a_folder_of_a_larger_repository_works_there() {
    let bench = Bench::new();
    let mut worktree = bench.worktree("a1");
    worktree.root = bench.root.join("sub");
    whole_way(&bench, &worktree).await;
    assert_eq!(bench.git.folder(&worktree).await.unwrap(), worktree.path.join("sub/"));
    // Also one that HEAD does not have.
    bench.git(["commit", "--quiet", "-m", "taken"]);
    bench.write("later/untracked", "u\n");
    worktree.root = bench.root.join("later");
    bench.git.add(&worktree).await.unwrap();
    assert!(bench.git.folder(&worktree).await.unwrap().is_dir());
}

/// reliability: the project's own branch is checked out in another worktree; the project is a linked one.
#[tokio::test]
async fn a_project_that_is_a_linked_worktree_works() {
    let bench = Bench::new();
    let linked = bench.base.join("linked");
    bench.git(["worktree", "add", "--quiet", "-b", "side", linked.to_str().unwrap()]);
    let before = (bench.status(), bench.head());
    let mut worktree = bench.worktree("a1");
    worktree.root = linked;
    whole_way(&bench, &worktree).await;
    assert_eq!((bench.status(), bench.head()), before);
}

/// The data directory may be below the project's folder.
#[tokio::test]
async fn a_worktree_below_the_project_is_no_content_of_it() {
    let bench = Bench::new();
    let mut worktree = bench.worktree("a1");
    worktree.path = bench.root.join("data/worktrees/a1");
    let objects = bench.base.join("objects");
    let before = bench.git.snapshot(&bench.root, &objects).await.unwrap();
    bench.git.add(&worktree).await.unwrap();
    assert_eq!(bench.git.snapshot(&bench.root, &objects).await.unwrap(), before);
    bench.git.remove(&worktree).await.unwrap();
}

#[tokio::test]
async fn a_repository_of_the_longer_hash_and_a_shallow_one_work() {
    let bench = Bench::empty("project");
    bench.init(["-b", "main", "--object-format=sha256"]);
    bench.write("a", "a\n");
    bench.commit("first");
    whole_way(&bench, &bench.worktree("a1")).await;

    let full = Bench::new();
    full.write("a", "2\n");
    full.commit("second");
    let shallow = Bench::empty("project");
    let url = format!("file://{}", full.root.display());
    git_in(&shallow.root, &["clone", "--quiet", "--depth=1", &url, "."]);
    shallow.settle();
    whole_way(&shallow, &shallow.worktree("a1")).await;
}

/// reliability: 8 worktrees commit in parallel while status is polled → no lock failure.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_worktrees_commit_in_parallel_while_status_is_polled() {
    let bench = Bench::new();
    let worktrees: Vec<_> = (0..8).map(|number| bench.worktree(&format!("a{number}"))).collect();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let root = bench.root.clone();
    #[expect(clippy::disallowed_methods, reason = "a person looks at the project meanwhile")]
    let person = std::thread::spawn(move || {
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            assert!(command(&root).arg("status").output().unwrap().status.success());
        }
    });
    let all = worktrees.iter().map(|worktree| {
        let bench = &bench;
        async move {
            let base = bench.git.add(worktree).await.unwrap();
            write(&worktree.path.join("new"), worktree.attempt_id.as_str());
            git_in(&worktree.path, &["add", "-A"]);
            git_in(&worktree.path, &["commit", "--quiet", "-m", "by the agent"]);
            write(&worktree.path.join("newer"), worktree.attempt_id.as_str());
            let reference = format!("refs/cortex/attempts/{}", worktree.attempt_id);
            let kept = bench.git.keep(worktree, &base, &reference).await.unwrap();
            bench.git.remove(worktree).await.unwrap();
            lines(&kept.changed_files)
        }
    });
    for lines in futures_util::future::join_all(all).await {
        assert_eq!(lines, ["A new", "A newer"]);
    }
    stop.send(()).unwrap();
    person.join().unwrap();
    assert_eq!(bench.git(["for-each-ref", "refs/cortex"]).lines().count(), 8);
    assert_eq!(bench.status(), Vec::<String>::new());
}

#[tokio::test]
async fn a_git_that_fails_says_why() {
    let bench = Bench::new();
    let worktree = bench.worktree("a1");
    fs_err::write(bench.root.join(".git/worktrees"), "no folder").unwrap();
    let error = super::bench::refused(
        bench.git.add(&worktree).await,
        Code::WorkspaceUnavailable,
        &["git worktree", ".git/worktrees"],
    );
    assert!(error.remediation().contains("git 2.38"), "{}", error.remediation());
}
