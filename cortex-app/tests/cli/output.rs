//! What is printed, and what happens when it cannot be.

use crate::home::Home;

#[test]
#[cfg(target_os = "linux")]
fn results_that_cannot_be_written_are_a_failure() {
    let home = Home::new();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let add = home.command(&["project", "add", "web", &home.folder("web")]).stdout(full).output();
    let add = add.unwrap();
    assert_eq!(add.status.code(), Some(1));
    let told = String::from_utf8(add.stderr).unwrap();
    assert!(told.contains("(core.output_failed)"), "{told}");
    assert!(home.cortex(&["project", "list"]).good().out.contains("web"), "what was done is done");
}

#[test]
fn what_others_wrote_cannot_move_the_cursor() {
    let home = Home::new();
    home.team();
    home.objective("\u{1b}[2JTea", "tea");
    home.cortex(&["message", "post", "ada", "\u{1b}[31mred\u{7}"]).good();
    let printed = [
        home.cortex(&["objective", "list"]),
        home.cortex(&["objective", "show", "\u{1b}[2JTea"]),
        home.cortex(&["task", "list"]),
        home.cortex(&["message", "list"]),
    ];
    for ran in printed {
        let out = ran.good().out;
        assert!(!out.contains(['\u{1b}', '\u{7}']), "{out:?}");
    }
}
