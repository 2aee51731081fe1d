//! The examples do what they say.

use std::process::Command;

#[test]
fn embed_runs_two_tasks_and_prints_what_they_returned() {
    let out = Command::new(env!("CARGO_BIN_EXE_embed")).output().unwrap();
    let (stdout, stderr) =
        (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{stderr}");
    assert!(stdout.contains("greet is COMPLETED and returned:\nHELLO\n"), "{stdout}");
    assert!(stdout.contains("repeat is COMPLETED and returned:\nONCE MORE:"), "{stdout}");
    assert!(stdout.contains("[RESULT OF GREET: GREET]\n```\nHELLO\n```"), "{stdout}");
}
