//! What a person sees of the demo, and what is left of it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Output, Stdio};

use cortex_scripted::{Api, Script, ScriptedServer, cases, cli, offline, suite};
use serde_json::Value;
use tempfile::TempDir;

use crate::wait::wait_for;

pub(crate) fn main() -> ExitCode {
    let found = [cli::claude_code(), cli::codex(), cli::opencode()].map(cli::require);
    if found.iter().any(Option::is_none) {
        return ExitCode::SUCCESS;
    }
    if let Some(ended) = offline::enter() {
        return ended;
    }
    suite::run(&cases![
        it_runs_on_claude_code_and_leaves_nothing,
        it_runs_on_codex_and_leaves_nothing,
        it_runs_on_opencode_and_leaves_nothing,
        nothing_of_the_person_is_read_or_changed,
        a_kept_folder_has_the_project_and_what_was_recorded,
        programs_read_lines_of_json,
        without_a_cli_it_says_how_to_get_one,
        an_interrupt_ends_it_in_order,
        an_interrupt_while_it_is_set_up_leaves_nothing,
        what_is_not_brought_in_is_a_failure,
        a_full_disk_costs_nobody_the_kept_folder,
    ])
}

/// A person: a home, a folder for temporary files, and a `PATH` with what is installed.
struct Person {
    folder: TempDir,
}

impl Person {
    /// Somebody who has installed these programs, besides those of the system.
    fn with(installed: &[(&str, PathBuf)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let person = Self { folder };
        for folder in [person.home(), person.temporary(), person.path("bin")] {
            fs_err::create_dir_all(folder).unwrap();
        }
        for (name, program) in installed {
            fs_err::os::unix::fs::symlink(program, person.path("bin").join(name)).unwrap();
        }
        person
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn home(&self) -> PathBuf {
        self.path("home")
    }

    fn temporary(&self) -> PathBuf {
        self.path("tmp")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut program = Command::new(env!("CARGO_BIN_EXE_cortex"));
        let path = format!("{}:/usr/bin:/bin", self.path("bin").display());
        program
            .args(arguments)
            .env("PATH", path)
            .env("HOME", self.home())
            .env("TMPDIR", self.temporary())
            .env_remove("XDG_DATA_HOME")
            .env_remove("XDG_CONFIG_HOME")
            .stdin(Stdio::null());
        program
    }

    async fn run(&self, arguments: &[&str]) -> Output {
        output(self.command(arguments)).await
    }
}

fn with_claude_code() -> Person {
    Person::with(&[("claude", cli::claude_code().unwrap())])
}

async fn output(mut command: Command) -> Output {
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn told(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// The names in a folder, all the way down.
fn names(folder: &Path) -> Vec<PathBuf> {
    let mut names = Vec::new();
    for entry in fs_err::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        names.push(entry.path());
        if entry.file_type().unwrap().is_dir() {
            names.extend(self::names(&entry.path()));
        }
    }
    names.sort();
    names
}

/// The files in a folder, all the way down, with what is in them.
fn contents(folder: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let read = |path: PathBuf| {
        let bytes = path.is_file().then(|| fs_err::read(&path).unwrap());
        (path, bytes)
    };
    names(folder).into_iter().map(read).collect()
}

/// Processes whose environment or arguments name this folder.
fn processes_in(folder: &Path) -> Vec<String> {
    let needle = folder.display().to_string();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let read = |file: &str| {
            let bytes = std::fs::read(entry.path().join(file)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        if read("environ").contains(&needle) || read("cmdline").contains(&needle) {
            found.push(read("cmdline").replace('\0', " "));
        }
    }
    found
}

fn completed(output: &Output) {
    let (stdout, stderr) = told(output);
    assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
    assert!(stderr.contains("COMPLETED: A program that knows how long tea steeps, 5 of 5 tasks"));
}

/// Runs it on a CLI by the names of its tools.
async fn it_runs(person: &Person, runtime: &str, write: &str, shell: &str) {
    let output = person.run(&["demo", "--runtime", runtime]).await;
    completed(&output);
    let (stdout, stderr) = told(&output);
    // What was done, by whom, and what decided about it.
    for said in [
        &format!("ada asks: {write}: "),
        "/project/DESIGN.md → allowed, rule \"agents may write files\"",
        &format!("ada asks: {shell}: curl --silent https://tea.example/minutes → denied, rule"),
        &format!("grace asks: {shell}: sh test.sh → allowed, rule \"the tests may run\""),
        " > README.md && cat README.md",
        "→ allowed, rule \"the description may be written\"",
        "program: waits for design",
    ] {
        assert!(stderr.contains(said), "{said}: {stderr}");
    }
    for said in [
        "== check: Run the tests (verified)\n4 tests hold\n",
        "readme worked in a git worktree of its own.",
        "Files: DESIGN.md, README.md, check.sh, steep.sh, test.sh",
        "(--keep leaves it)",
        &format!("cortex run --runtime {runtime} --allow {write} --allow {shell}"),
    ] {
        assert!(stdout.contains(said), "{said}: {stdout}");
    }
    assert!(!stdout.contains("The script had no answer"), "{stdout}");
    assert_eq!(names(&person.temporary()), Vec::<PathBuf>::new());
    assert_eq!(processes_in(person.folder.path()), Vec::<String>::new());
}

async fn it_runs_on_claude_code_and_leaves_nothing() {
    it_runs(&with_claude_code(), "claude-code", "Write", "Bash").await;
}

async fn it_runs_on_codex_and_leaves_nothing() {
    let person = Person::with(&[("codex", cli::codex().unwrap())]);
    it_runs(&person, "codex", "apply_patch", "shell").await;
}

async fn it_runs_on_opencode_and_leaves_nothing() {
    let person = Person::with(&[("opencode", cli::opencode().unwrap())]);
    it_runs(&person, "opencode", "write", "bash").await;
}

/// A login, settings, hooks and a repository of the person are around, and a server that must not be asked.
async fn nothing_of_the_person_is_read_or_changed() {
    let person = with_claude_code();
    let theirs = ScriptedServer::listen(Api::Anthropic, Script::new(), 0).await.unwrap();
    let claude = person.home().join(".claude");
    fs_err::create_dir_all(&claude).unwrap();
    let hook = format!("touch {}", person.path("hook-ran").display());
    let settings = serde_json::json!({
        "env": { "ANTHROPIC_BASE_URL": theirs.url() },
        "permissions": { "allow": ["Bash", "Write"] },
        "hooks": { "SessionStart": [{ "hooks": [{ "type": "command", "command": hook }] }] },
    });
    fs_err::write(claude.join("settings.json"), settings.to_string()).unwrap();
    fs_err::write(claude.join("CLAUDE.md"), "Always write in verse.").unwrap();
    fs_err::write(person.home().join(".gitconfig"), "[core]\n\tautocrlf = nonsense\n").unwrap();
    let before = contents(&person.home());
    let mut command = person.command(&["demo"]);
    command
        .env("ANTHROPIC_BASE_URL", theirs.url())
        .env("ANTHROPIC_AUTH_TOKEN", "a-token-of-the-person")
        .env("CLAUDE_CODE_OAUTH_TOKEN", "another-token-of-the-person")
        .env("CLAUDE_CODE_USE_BEDROCK", "1")
        .env("CLAUDE_CONFIG_DIR", &claude)
        .env("HTTPS_PROXY", theirs.url())
        .env("CORTEX_DATA_DIR", person.path("cortex"))
        .env("GIT_DIR", person.path("repository"));
    completed(&output(command).await);
    assert_eq!(theirs.requests().len(), 0);
    assert_eq!(theirs.strangers().len() + theirs.others().len(), 0);
    assert_eq!(contents(&person.home()), before);
    for never in ["hook-ran", "cortex", "repository"] {
        assert!(!person.path(never).exists(), "{never}");
    }
}

async fn a_kept_folder_has_the_project_and_what_was_recorded() {
    let person = with_claude_code();
    let output = person.run(&["demo", "--keep", "--runtime", "claude-code"]).await;
    completed(&output);
    let (stdout, _) = told(&output);
    let folder = stdout.lines().find_map(|line| line.strip_prefix("Kept: ")).unwrap();
    let folder = Path::new(folder);
    // The throw-away home with its key is gone in any case.
    let mut left: Vec<_> =
        fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["data", "demo.toml", "project"]);
    let project = folder.join("project");
    let mut sh = Command::new("sh");
    sh.arg("test.sh").current_dir(&project);
    let tested = told(&self::output(sh).await).0;
    assert_eq!(tested, "4 tests hold\n");
    let mut git = Command::new("git");
    git.args(["diff", "--cached", "--name-only"]).current_dir(&project);
    assert_eq!(told(&self::output(git).await).0, "README.md\n");
    let data = folder.join("data");
    let list = person
        .run(&["--data-dir", data.to_str().unwrap(), "--json", "task", "list", "--all"])
        .await;
    let (listed, stderr) = told(&list);
    assert_eq!(listed.matches("\"COMPLETED\"").count(), 5 + 1, "{listed} {stderr}");
    assert!(stdout.contains(&format!("Bash {}", folder.join("demo.toml").display())), "{stdout}");
}

async fn programs_read_lines_of_json() {
    // Where the installer of Claude Code puts it, which is on nobody's `PATH`.
    let person = Person::with(&[]);
    let bin = person.home().join(".local/bin");
    fs_err::create_dir_all(&bin).unwrap();
    fs_err::os::unix::fs::symlink(cli::claude_code().unwrap(), bin.join("claude")).unwrap();
    let output = person.run(&["demo", "--json"]).await;
    let (stdout, stderr) = told(&output);
    assert_eq!(output.status.code(), Some(0), "{stdout}\n{stderr}");
    let lines: Vec<Value> =
        stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &'static str| lines.iter().filter(move |line| line["type"] == kind);
    assert_eq!(of("run.started").count(), 1);
    let decided = |how: &str| {
        let decisions = of("approval.decided").filter_map(|line| line.pointer("/data/state"));
        decisions.filter(|decision| *decision == how).count()
    };
    assert_eq!((decided("allowed"), decided("denied")), (5, 1), "{stdout}");
    assert_eq!(of("run.ended").next().unwrap()["status"], "COMPLETED");
    let last = lines.last().unwrap();
    assert_eq!(last["type"], "demo.ended");
    assert_eq!(last["integrated"], "readme");
    assert_eq!(last["kept"], false);
    for empty in ["unanswered", "other_hosts"] {
        assert_eq!(last[empty], serde_json::json!([]), "{last}");
    }
}

async fn without_a_cli_it_says_how_to_get_one() {
    let person = Person::with(&[]);
    let output = person.run(&["demo"]).await;
    let (stdout, stderr) = told(&output);
    assert_eq!(output.status.code(), Some(1), "{stdout}\n{stderr}");
    assert!(
        stderr.contains("no coding CLI was found on this machine: Claude Code, Codex, OpenCode"),
        "{stderr}"
    );
    assert!(stderr.contains("npm install -g @anthropic-ai/claude-code"), "{stderr}");
    let nowhere = person.path("nowhere").display().to_string();
    let output = person.run(&["demo", "--runtime", "claude-code", "--executable", &nowhere]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(told(&output).1.contains(&nowhere));
    assert_eq!(names(&person.temporary()), Vec::<PathBuf>::new());
}

async fn an_interrupt_ends_it_in_order() {
    let person = with_claude_code();
    let mut command = person.command(&["demo"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let output = tokio::task::spawn_blocking(move || interrupted(child, "DESIGN.md", |_| {}));
    let output = output.await.unwrap();
    let (stdout, stderr) = told(&output);
    assert_eq!(output.status.code(), Some(130), "{stdout}\n{stderr}");
    assert!(stderr.contains("cortex demo"), "{stderr}");
    assert_eq!(names(&person.temporary()), Vec::<PathBuf>::new());
    assert_eq!(processes_in(person.folder.path()), Vec::<String>::new());
}

/// A `git` of this person that does this before the real one is asked.
fn with_git(person: &Person, before: &str) {
    let git = person.path("bin").join("git");
    fs_err::write(&git, format!("#!/bin/sh\n{before}\nexec /usr/bin/git \"$@\"\n")).unwrap();
    fs_err::set_permissions(&git, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

async fn an_interrupt_while_it_is_set_up_leaves_nothing() {
    let person = with_claude_code();
    let (began, go) = (person.path("began"), person.path("go"));
    let waits = format!(
        "touch '{}'\nuntil [ -e '{}' ]; do sleep 0.02; done",
        began.display(),
        go.display()
    );
    with_git(&person, &waits);
    let mut command = person.command(&["demo"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let output = tokio::task::spawn_blocking(move || {
        wait_for("git to be asked", || began.exists().then_some(()));
        // Git is let go on only after the interrupt was heard.
        interrupted(child, "", |said| {
            if said.contains("INTERRUPTED: before there was an objective") {
                fs_err::write(&go, "").unwrap();
            }
        })
    });
    let output = output.await.unwrap();
    let (stdout, stderr) = told(&output);
    assert_eq!(output.status.code(), Some(130), "{stdout}\n{stderr}");
    assert_eq!(names(&person.temporary()), Vec::<PathBuf>::new());
}

async fn what_is_not_brought_in_is_a_failure() {
    let person = with_claude_code();
    with_git(&person, "case \" $* \" in *' merge-tree '*) echo no disk >&2; exit 128;; esac");
    let output = person.run(&["demo"]).await;
    let (stdout, stderr) = told(&output);
    assert!(
        stdout.contains("What was made in the worktree was not brought in: "),
        "{stdout}\n{stderr}"
    );
    assert_eq!(output.status.code(), Some(1), "{stdout}\n{stderr}");
}

async fn a_full_disk_costs_nobody_the_kept_folder() {
    let person = with_claude_code();
    let full = fs_err::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = person.command(&["demo", "--keep"]);
    command.stdout(full.into_file());
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    let output = tokio::task::spawn_blocking(|| child.wait_with_output().unwrap()).await.unwrap();
    let (_, stderr) = told(&output);
    assert!(stderr.contains("core.output_failed"), "{stderr}");
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(names(&person.temporary()).iter().any(|name| name.ends_with("project/DESIGN.md")));
}

/// Interrupts a demo once it has said this. Shows what it says from there on.
fn interrupted(mut child: Child, once: &str, mut show: impl FnMut(&str)) -> Output {
    use std::io::{BufRead as _, BufReader};
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains(once) {
        assert_ne!(stderr.read_line(&mut said).unwrap(), 0, "{said}");
    }
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    while stderr.read_line(&mut said).unwrap() > 0 {
        show(&said);
    }
    let mut output = child.wait_with_output().unwrap();
    output.stderr = said.into_bytes();
    output
}
