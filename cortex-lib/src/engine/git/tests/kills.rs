//! A core that is killed in the middle of a squash.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::bench::{Bench, write};
use crate::engine::git::GitProgram;
use crate::port::{Git as _, Squash};

/// Where the child reads its order.
const ORDER: &str = "CORTEX_TEST_ORDER";
const KILLS: u32 = 8;
const FILES: u32 = 60;

#[derive(Serialize, Deserialize)]
struct Order {
    root: PathBuf,
    scratch: PathBuf,
    squash: Squash,
}

#[expect(clippy::disallowed_methods, reason = "the child is told so by its parent")]
#[tokio::test]
#[ignore = "the child that the next test kills"]
async fn squash_in_a_child() {
    let order = std::env::var_os(ORDER).unwrap();
    let order: Order = serde_json::from_slice(&fs_err::read(order).unwrap()).unwrap();
    GitProgram::new(order.scratch).squash(&order.root, &order.squash).await.unwrap();
}

/// Starts a child that squashes.
#[expect(clippy::disallowed_methods, reason = "this process is started once more, to be killed")]
fn child(bench: &Bench, squash: &Squash, number: u32) -> std::process::Child {
    let order = Order {
        root: bench.root.clone(),
        scratch: bench.base.join(format!("scratch{number}")),
        squash: squash.clone(),
    };
    let file = bench.base.join("order");
    write(&file, serde_json::to_vec(&order).unwrap());
    std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "engine::git::tests::kills::squash_in_a_child", "--ignored"])
        .env(ORDER, file)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

/// Killed at many instants, then repeated: folder and index are as planned, and nothing is left over.
#[expect(
    clippy::disallowed_methods,
    reason = "a test measures and waits for the instant of a kill"
)]
#[tokio::test]
async fn a_squash_that_was_killed_at_any_instant_is_completed() {
    let bench = Bench::in_memory();
    let name = |number: u32| format!("many/{number}");
    for number in 0..FILES {
        bench.write(&name(number), format!("old {number}\n"));
    }
    bench.commit("many");
    let work = bench
        .work(|path| {
            for number in 0..FILES {
                write(&path.join(name(number)), format!("new {number}\n"));
                write(&path.join(format!("more/{number}")), "n\n");
            }
            fs_err::remove_dir_all(path.join("sub")).unwrap();
            write(&path.join("sub"), "a file now\n");
        })
        .await;
    bench.write("b", "being edited\n");
    let plan = bench.plan(&work).await.unwrap();
    let begun = Instant::now();
    assert!(child(&bench, &plan, KILLS).wait().unwrap().success());
    let whole = begun.elapsed();
    let mut partial = 0;
    for number in 0..KILLS {
        bench.git(["reset", "--quiet", "--hard"]);
        bench.write("b", "being edited\n");
        let mut child = child(&bench, &plan, number);
        std::thread::sleep(whole * (number + 1) / (KILLS + 1));
        child.kill().unwrap();
        child.wait().unwrap();
        for file in 0..FILES {
            let text = bench.read(&name(file));
            assert!(text == format!("old {file}\n") || text == format!("new {file}\n"), "{text}");
        }
        let cut = bench.root.join(".git/index.lock").exists();
        partial += u32::from(cut);
        bench.git.squash(&bench.root, &plan).await.unwrap();
        assert_eq!(bench.git(["write-tree"]), plan.tree);
        assert_eq!(bench.differences().1, "M\tb");
        assert_eq!(bench.status().iter().filter(|line| line.starts_with('?')).count(), 0);
        for entry in fs_err::read_dir(bench.root.join(".git")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(!name.contains("cortex") && !name.contains(".lock"), "{name}");
        }
    }
    assert!(partial >= 2, "no kill was in the middle");
    let took = Duration::from_secs(30);
    assert!(whole < took, "{whole:?}");
}
