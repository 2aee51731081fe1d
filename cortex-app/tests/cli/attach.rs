//! `cortex agent attach`: a person at a terminal of their own.
#![cfg(unix)]

use std::io::{Read as _, Write};
use std::sync::{Arc, Mutex};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, SlavePty, native_pty_system};
use serde_json::{Value, json};

use crate::home::{Home, Serving};
use crate::wait::wait_for;

/// What stands in for the interactive form of a CLI: it says what it hears.
const PROGRAM: &str = r#"#!/bin/bash
[ "$1" = --version ] && { echo 2.1.197; exit 0; }
echo "it is up"
while IFS= read -r line; do
  [ "$line" = size ] && stty size
  [ "$line" = bye ] && exit 0
  [ "$line" = alternate ] && printf '\e[?25;1049h\e[?2004h\e[?47h\e[?5h'
  echo "heard <$line>"
done
"#;

/// A home with an agent `ada` in terminal mode, which runs, and its core.
fn team() -> (Home, Serving) {
    let home = Home::new();
    let program = home.path().join("claude");
    std::fs::write(&program, PROGRAM).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).unwrap();
    home.configure(&json!({
        "mcp": { "port": 0 },
        "runtimes": { "claude_code": { "executable": program } },
    }));
    home.cortex(&["project", "add", "web", &home.folder("web")]).good();
    let create = ["agent", "create", "structured", "--project", "web", "--runtime", "claude-code"];
    home.cortex(&create).good();
    let create = ["agent", "create", "ada", "--project", "web", "--runtime", "claude-code"];
    home.cortex(&[&create[..], &["--terminal"]].concat()).good();
    let serving = home.serve();
    home.cortex(&["agent", "start", "ada"]).good();
    (home, serving)
}

fn ada(home: &Home) -> Value {
    home.cortex(&["agent", "show", "ada", "--json"]).good().json()["agent"].clone()
}

/// A person at a terminal, who called the program.
struct Person {
    terminal: Box<dyn MasterPty + Send>,
    /// Stays open, so that its state can be looked at after the program.
    _far_side: Box<dyn SlavePty + Send>,
    keys: Box<dyn Write + Send>,
    seen: Arc<Mutex<Vec<u8>>>,
    program: Box<dyn Child + Send + Sync>,
    before: String,
}

impl Person {
    fn calls(home: &Home, args: &[&str]) -> Self {
        let size = PtySize { rows: 20, cols: 70, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_cortex"));
        command.args(args);
        command.env("CORTEX_DATA_DIR", home.data_dir());
        command.env("HOME", home.path());
        let before = format!("{:?}", pair.master.get_termios().unwrap());
        let program = pair.slave.spawn_command(command).unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (mut reader, all) = (pair.master.try_clone_reader().unwrap(), Arc::clone(&seen));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                all.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        let keys = pair.master.take_writer().unwrap();
        Self { terminal: pair.master, _far_side: pair.slave, keys, seen, program, before }
    }

    fn attaches(home: &Home) -> Self {
        let person = Self::calls(home, &["agent", "attach", "ada"]);
        person.sees("it is up");
        person
    }

    fn all(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }

    fn sees(&self, text: &str) {
        wait_for(&format!("{text:?} on the screen"), || self.all().contains(text).then_some(()));
    }

    fn types(&mut self, text: &str) {
        self.keys.write_all(text.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Waits for the end of the program; its exit code. The terminal is as it was.
    fn ended(&mut self) -> u32 {
        let status = wait_for("the end of the program", || self.program.try_wait().unwrap());
        assert_eq!(format!("{:?}", self.terminal.get_termios().unwrap()), self.before);
        for mode in [5, 47, 1047, 1049, 2004] {
            // What it printed last may still be on its way.
            wait_for("the end of a mode", || {
                let all = self.all();
                let on = all.rfind(&format!("\x1b[?{mode}h"));
                (all.rfind(&format!("\x1b[?{mode}l")) >= on).then_some(())
            });
        }
        status.exit_code()
    }
}

#[test]
fn a_person_types_sees_leaves_and_comes_back_while_the_agent_lives() {
    let (home, _serving) = team();
    let mut person = Person::attaches(&home);
    assert!(person.all().contains("Leave with Ctrl-]"), "{}", person.all());
    person.types("one\r");
    person.sees("heard <one>");
    let size = PtySize { rows: 25, cols: 90, pixel_width: 0, pixel_height: 0 };
    person.terminal.resize(size).unwrap();
    wait_for("the new size to arrive", || {
        person.types("size\r");
        person.all().contains("25 90").then_some(())
    });
    person.types("alternate\r");
    person.sees("heard <alternate>");
    assert!(person.all().contains("\x1b[?1049h"), "{}", person.all());
    person.types("two\r\x1d");
    assert_eq!(person.ended(), 0);
    assert!(person.all().contains("Left ada"), "{}", person.all());
    assert_eq!(ada(&home)["state"], "READY");

    let mut again = Person::calls(&home, &["agent", "attach", "ada"]);
    // What was typed last arrived before the person had left, and is on the screen now.
    again.sees("heard <two>");
    again.types("three\r");
    again.sees("heard <three>");
    again.types("\x1d");
    assert_eq!(again.ended(), 0);
}

#[test]
fn two_people_see_the_same() {
    let (home, _serving) = team();
    let (mut one, mut two) = (Person::attaches(&home), Person::attaches(&home));
    one.types("hello\r");
    two.sees("heard <hello>");
    two.types("you\r");
    one.sees("heard <you>");
    one.types("\x1d");
    assert_eq!(one.ended(), 0);
    two.types("still here\r");
    two.sees("heard <still here>");
}

/// Processes: whoever ends the program has stopped the agent, and it has not crashed.
#[test]
fn leaving_the_program_stops_the_agent_and_ends_the_attachment() {
    let (home, _serving) = team();
    let mut person = Person::attaches(&home);
    person.types("bye\r");
    assert_eq!(person.ended(), 0);
    assert!(person.all().contains("ada is over"), "{}", person.all());
    wait_for("the agent to be stopped", || (ada(&home)["state"] == "STOPPED").then_some(()));
    assert!(ada(&home)["last_failure"].is_null());
}

#[test]
fn the_terminal_is_given_back_when_the_program_is_told_to_end_and_when_the_core_is_gone() {
    let (home, mut serving) = team();
    let mut person = Person::attaches(&home);
    let pid = person.program.process_id().unwrap().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(person.ended(), 0);
    assert_eq!(ada(&home)["state"], "READY");

    let mut person = Person::attaches(&home);
    serving.signal("-KILL");
    serving.ended();
    assert_ne!(person.ended(), 0);
    assert!(person.all().contains("core.stopped"), "{}", person.all());
}

#[cfg(target_os = "linux")]
#[test]
fn a_person_leaves_while_the_core_hangs() {
    let (home, serving) = team();
    let mut person = Person::attaches(&home);
    let files = format!("/proc/{}/fd", person.program.process_id().unwrap());
    let connections = || {
        let files = std::fs::read_dir(&files).unwrap().flatten();
        let targets = files.filter_map(|file| std::fs::read_link(file.path()).ok());
        targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
    };
    let before = connections();
    serving.signal("-STOP");
    let size = PtySize { rows: 25, cols: 90, pixel_width: 0, pixel_height: 0 };
    person.terminal.resize(size).unwrap();
    wait_for("the core to be told of the size", || (connections() > before).then_some(()));
    person.types("\x1d");
    let ended = person.ended();
    serving.signal("-CONT");
    assert_eq!(ended, 0);
    assert!(person.all().contains("Left ada"), "{}", person.all());
}

#[test]
fn what_cannot_be_attached_is_told() {
    let (home, _serving) = team();
    let ran = home.cortex(&["agent", "attach", "ada"]);
    assert!(ran.err.contains("only a terminal"), "{}", ran.err);
    let mut person = Person::calls(&home, &["agent", "attach", "structured"]);
    assert_ne!(person.ended(), 0);
    assert!(person.all().contains("agent.not_in_terminal_mode"), "{}", person.all());
    home.cortex(&["agent", "stop", "ada"]).good();
    let mut person = Person::calls(&home, &["agent", "attach", "ada"]);
    assert_ne!(person.ended(), 0);
    assert!(person.all().contains("agent.state_conflict"), "{}", person.all());
}
