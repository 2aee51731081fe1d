//! Rules about tool requests: those of a project, the ones that people make by allowing for good, and dry runs.

use cortex_lib::api::RuleList;
use cortex_lib::api::operator::{
    AlwaysAllowApproval, ListRules, MoveRule, PutRule, RemoveAgent, RemoveProject, RemoveRule,
    TestRules,
};
use cortex_lib::api::tool::{SendMessage, StopAgent, UpdateAgent};
use cortex_lib::domain::agent::AgentStatus;
use cortex_lib::domain::approval::{ApprovalStatus, Decide, Origin, Rule, Unmatched};
use cortex_lib::domain::event::EventKind;
use cortex_lib::domain::task::TaskStatus;
use cortex_lib::error::Code;
use cortex_lib::ids::{AgentId, ApprovalId, ProjectId};
use cortex_lib::port::{Script, ToolAnswer};
use serde_json::json;

use crate::approvals::{allow, answers, asks, listed, pending, rule};
use crate::bench::{Bench, Setup, spec};

fn put(bench: &Bench, rule: Rule, place: Option<u32>) -> PutRule {
    PutRule { project_id: bench.project.clone(), rule, place }
}

async fn rules(bench: &Bench) -> RuleList {
    bench.call(ListRules { project_id: bench.project.clone() }).await
}

fn ids(list: &RuleList) -> Vec<String> {
    list.rules.iter().map(|rule| format!("{} {}", rule.position, rule.id)).collect()
}

fn shell(command: &str) -> serde_json::Value {
    json!({ "command": command })
}

fn always(id: &ApprovalId) -> AlwaysAllowApproval {
    AlwaysAllowApproval { approval_id: id.clone(), input: None }
}

#[tokio::test(start_paused = true)]
async fn a_person_orders_the_rules_of_a_project() {
    let last = rule("last", "*", Decide::Deny);
    let setup = Setup::new().settings(|settings| settings.approvals.rules = vec![last]);
    let bench = setup.open().await;
    let seq = bench.told_after(0).last().unwrap().seq;
    for id in ["a", "b", "c"] {
        bench.call(put(&bench, rule(id, "Bash", Decide::Ask), None)).await;
    }
    let list = bench.call(put(&bench, rule("d", "Write", Decide::Allow), Some(1))).await;
    assert_eq!(ids(&list), ["1 data-directory", "2 d", "3 a", "4 b", "5 c", "6 last"]);
    let origins: Vec<_> = list.rules.iter().map(|rule| rule.origin).collect();
    assert_eq!(origins.first(), Some(&Origin::BuiltIn));
    assert_eq!(origins.last(), Some(&Origin::Config));
    assert_eq!((origins[1], list.default), (Origin::Project, Unmatched::Ask));

    // The same id: in its place.
    let list = bench.call(put(&bench, rule("a", "Read", Decide::Allow), None)).await;
    assert_eq!((list.rules[2].tool.as_str(), list.rules.len()), ("Read", 6));
    let project_id = bench.project.clone();
    let to =
        |id: &str, place| MoveRule { project_id: project_id.clone(), id: id.to_owned(), place };
    assert_eq!(
        ids(&bench.call(to("d", 900)).await),
        ["1 data-directory", "2 a", "3 b", "4 c", "5 d", "6 last"]
    );
    bench.call(to("c", 2)).await;
    let gone = RemoveRule { project_id: project_id.clone(), id: "b".to_owned() };
    let list = bench.call(gone.clone()).await;
    assert_eq!(ids(&list), ["1 data-directory", "2 a", "3 c", "4 d", "5 last"]);
    assert_eq!(bench.refuse(gone).await.code(), Code::RuleNotFound);
    assert_eq!(bench.refuse(to("last", 1)).await.code(), Code::RuleNotFound, "not the project's");
    let told =
        bench.told_after(seq).into_iter().filter(|event| event.kind == EventKind::RulesChanged);
    assert_eq!(told.count(), 8);
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_cannot_hold_is_refused() {
    let bench = Setup::new().open().await;
    let broken = bench.refuse(put(&bench, rule("a", "[", Decide::Deny), None)).await;
    assert_eq!(broken.code(), Code::InvalidArguments);
    let taken = bench.refuse(put(&bench, rule("data-directory", "*", Decide::Deny), None)).await;
    assert_eq!(taken.code(), Code::InvalidArguments);
    let nobody = Rule { agent: Some("nobody".to_owned()), ..rule("a", "*", Decide::Deny) };
    assert_eq!(bench.refuse(put(&bench, nobody, None)).await.code(), Code::AgentNotFound);
    for at in 0..200 {
        bench.call(put(&bench, rule(&at.to_string(), "*", Decide::Ask), None)).await;
    }
    let more = bench.refuse(put(&bench, rule("more", "*", Decide::Ask), None)).await;
    assert_eq!(more.code(), Code::RuleLimitReached);
    bench.call(put(&bench, rule("7", "*", Decide::Deny), None)).await;
}

/// A rule for one agent goes by the agent, not by its name: it follows a new name and goes with the agent.
#[tokio::test(start_paused = true)]
async fn a_rule_for_an_agent_follows_it() {
    let bench = Setup::new().open().await;
    let agent_id = bench.agent("ann").await;
    let for_ann = Rule { agent: Some("ann".to_owned()), ..rule("a", "*", Decide::Deny) };
    bench.call(put(&bench, for_ann, None)).await;
    let rename = UpdateAgent {
        agent_id: agent_id.clone(),
        name: Some("bob".to_owned()),
        runtime_id: None,
        model: None,
        instructions: None,
        skills: None,
    };
    bench.call(rename).await;
    assert_eq!(rules(&bench).await.rules[1].agent.as_deref(), Some("bob"));
    bench.call(RemoveAgent { agent_id }).await;
    assert_eq!(ids(&rules(&bench).await), ["1 data-directory"]);
}

#[tokio::test(start_paused = true)]
async fn the_rules_of_a_project_go_with_it() {
    let bench = Setup::new().open().await;
    bench.call(put(&bench, rule("a", "*", Decide::Deny), None)).await;
    bench.call(RemoveProject { project_id: bench.project.clone() }).await;
    let kept = bench.store.read(|tx| tx.rules(&bench.project)).unwrap();
    assert_eq!(kept, []);
    let gone = ListRules { project_id: bench.project.clone() };
    assert_eq!(bench.refuse(gone).await.code(), Code::ProjectNotFound);
}

/// Rules of the project count before those of the configuration, and what names the data directory is denied first.
#[tokio::test(start_paused = true)]
async fn the_first_rule_that_matches_decides_and_says_its_place() {
    let setup = Setup::new();
    let data = setup.dir.path().join("data").join("user-token");
    let script = Script::new()
        .ask("Bash", shell("git push"))
        .ask("Bash", shell("git log"))
        .ask("Bash", shell(&format!("cat {}", data.display())))
        .answer("done");
    let all = rule("all", "*", Decide::Allow);
    let setup =
        setup.runtime(asks(script)).settings(|settings| settings.approvals.rules = vec![all]);
    let bench = setup.open().await;
    let push = Rule { input: Some("git push*".to_owned()), ..rule("push", "Bash", Decide::Deny) };
    bench.call(put(&bench, push, None)).await;
    bench.ready("a").await;
    let task = bench.one_task(spec("x", &[])).await;
    bench.until_task(&task, TaskStatus::Blocked).await;
    let denied = |reason: &str| ToolAnswer::Deny { reason: reason.to_owned() };
    assert_eq!(
        answers(&bench),
        [
            denied("denied by rule 2: push"),
            ToolAnswer::Allow,
            denied("denied by rule 1: data-directory; it names the data directory of Cortex"),
        ]
    );
    let allowed = listed(&bench, ApprovalStatus::Allowed).await.remove(0);
    assert_eq!(allowed.reason.as_deref(), Some("allowed by rule 3: all"));
}

#[tokio::test(start_paused = true)]
async fn allowing_for_good_makes_a_rule_for_the_same_and_shows_it() {
    let script = Script::new()
        .ask("Bash", shell("cargo test *"))
        .ask("Bash", shell("cargo test *"))
        .ask("Bash", shell("cargo test x; rm y"))
        .answer("done");
    let bench = Setup::new().runtime(asks(script)).open().await;
    for (id, decide) in [("push", Decide::Deny), ("look", Decide::Ask), ("never", Decide::Deny)] {
        let input = (id == "push").then(|| "git push*".to_owned());
        bench.call(put(&bench, Rule { input, ..rule(id, "Bash", decide) }, None)).await;
    }
    bench.ready("a").await;
    let task = bench.one_task(spec("x", &[])).await;
    let first = pending(&bench).await.approval_id;
    let made = bench.call(always(&first)).await;
    assert_eq!(made.approval.state, ApprovalStatus::Allowed);
    assert_eq!(made.approval.reason.as_deref(), Some("always allowed, as rule always-Bash"));
    assert_eq!(made.rule.input.as_deref(), Some("cargo test [*]"), "exactly that command");
    let list = ids(&rules(&bench).await);
    let wanted = ["1 data-directory", "2 push", "3 always-Bash", "4 look", "5 never"];
    assert_eq!(list, wanted, "before the rule that asked, behind those that forbid");

    let third = pending(&bench).await;
    assert_eq!(third.input, shell("cargo test x; rm y"), "the second was allowed by the rule");
    let refused = bench.refuse(always(&first)).await;
    assert_eq!(refused.code(), Code::ApprovalNotPending);
    assert_eq!(rules(&bench).await.rules.len(), 5, "and made no rule");
    let wide = |input: &str| AlwaysAllowApproval {
        input: Some(input.to_owned()),
        ..always(&third.approval_id)
    };
    assert_eq!(bench.refuse(wide("npm *")).await.code(), Code::InvalidArguments);
    assert_eq!(bench.refuse(wide("[")).await.code(), Code::InvalidArguments);
    let made = bench.call(wide("cargo test*")).await;
    assert_eq!(made.rule.id, "always-Bash-2");
    bench.until_task(&task, TaskStatus::Blocked).await;
    assert_eq!(answers(&bench), [ToolAnswer::Allow, ToolAnswer::Allow, ToolAnswer::Allow]);
}

#[tokio::test(start_paused = true)]
async fn a_command_with_a_secret_makes_no_rule_by_itself() {
    let secret = format!("deploy --token ghp_{}", "a1B2".repeat(9));
    let script = Script::new().ask("Bash", shell(&secret)).answer("done");
    let bench = Setup::new().runtime(asks(script)).open().await;
    bench.ready("a").await;
    bench.one_task(spec("x", &[])).await;
    let id = pending(&bench).await.approval_id;
    let refused = bench.refuse(always(&id)).await;
    assert_eq!(refused.code(), Code::InvalidArguments);
    assert_eq!(rules(&bench).await.rules.len(), 1);
    bench.call(AlwaysAllowApproval { input: Some("deploy *".to_owned()), ..always(&id) }).await;
    assert_eq!(rules(&bench).await.rules[1].input.as_deref(), Some("deploy *"));
}

/// What a person forbade after it was asked is what they said last.
#[tokio::test(start_paused = true)]
async fn allowing_for_good_overrules_no_rule_that_denies_by_now() {
    let script = Script::new().ask("Bash", shell("git push")).answer("done");
    let bench = Setup::new().runtime(asks(script)).open().await;
    bench.ready("a").await;
    let task = bench.one_task(spec("x", &[])).await;
    let id = pending(&bench).await.approval_id;
    let list = bench.call(put(&bench, rule("never", "Bash", Decide::Deny), None)).await;
    let refused = bench.refuse(always(&id)).await;
    assert_eq!(refused.code(), Code::InvalidArguments);
    assert!(refused.message().contains("denied by rule 2: never"), "{refused:?}");
    assert_eq!(rules(&bench).await, list, "nothing was changed");
    bench.call(put(&bench, rule("fine", "Bash", Decide::Allow), Some(1))).await;
    bench.call(always(&id)).await;
    let wanted = ["1 data-directory", "2 fine", "3 never", "4 always-Bash"];
    assert_eq!(ids(&rules(&bench).await), wanted, "only a rule that asks gives its place");
    bench.until_task(&task, TaskStatus::Blocked).await;
}

/// A request to reach a host has no command: a rule for the tool would allow the whole shell.
#[tokio::test(start_paused = true)]
async fn a_request_for_rights_makes_no_rule_and_is_not_allowed_by_one() {
    let reach = json!({ "networkApprovalContext": { "host": "example.com" } });
    let script = Script::new().ask("shell", reach.clone()).ask("shell", shell("ls")).answer("done");
    let bench = Setup::new().runtime(asks(script)).open().await;
    bench.call(put(&bench, rule("all", "*", Decide::Allow), None)).await;
    bench.ready("a").await;
    let task = bench.one_task(spec("x", &[])).await;
    let asked = pending(&bench).await;
    assert_eq!(asked.input, reach);
    for input in [None, Some("*".to_owned())] {
        let wanted = AlwaysAllowApproval { input, ..always(&asked.approval_id) };
        let refused = bench.refuse(wanted).await;
        assert!(refused.message().contains("for rights"), "{refused:?}");
    }
    assert_eq!(rules(&bench).await.rules.len(), 2);
    bench.call(allow(&asked.approval_id)).await;
    bench.until_task(&task, TaskStatus::Blocked).await;
    let decided: Vec<_> = listed(&bench, ApprovalStatus::Allowed)
        .await
        .into_iter()
        .map(|one| one.decided_by.unwrap())
        .collect();
    assert_eq!(decided, ["rule:all", "user"], "the command is allowed by the rule");
}

#[tokio::test(start_paused = true)]
async fn rules_are_tried_on_past_requests_without_changing_anything() {
    let script = Script::new()
        .ask("Bash", shell("cargo test"))
        .ask("Bash", shell("git push"))
        .ask("Write", json!({ "file_path": "a" }))
        .answer("done");
    let write = rule("write", "Write", Decide::Allow);
    let setup = Setup::new()
        .runtime(asks(script))
        .settings(|settings| settings.approvals.rules = vec![write]);
    let bench = setup.open().await;
    let agent = bench.ready("a").await;
    let task = bench.one_task(spec("x", &[])).await;
    for _ in 0..2 {
        let id = pending(&bench).await.approval_id;
        bench.call(allow(&id)).await;
    }
    bench.until_task(&task, TaskStatus::Blocked).await;

    let test = |rules: Option<Vec<Rule>>| TestRules {
        project_id: bench.project.clone(),
        agent_id: Some(agent.clone()),
        rules,
        limit: 200,
    };
    let as_it_is = bench.call(test(None)).await;
    assert_eq!(as_it_is.differ, 0, "{as_it_is:#?}");
    let proposed = vec![
        Rule { input: Some("git *".to_owned()), ..rule("git", "Bash", Decide::Deny) },
        rule("shell", "Bash", Decide::Allow),
    ];
    let seq = bench.told_after(0).last().unwrap().seq;
    let tried = bench.call(test(Some(proposed))).await;
    let told: Vec<_> = tried
        .requests
        .iter()
        .map(|one| (one.now.reason.as_str(), one.decided_by.as_deref(), one.differs))
        .collect();
    assert_eq!(
        told,
        [
            ("allowed by rule 4: write", Some("rule:write"), false),
            ("denied by rule 2: git", Some("user"), true),
            ("allowed by rule 3: shell", Some("user"), true),
        ]
    );
    assert_eq!((tried.differ, bench.told_after(seq).len()), (2, 0));
    assert_eq!(rules(&bench).await.rules.len(), 2, "nothing was changed");
    let broken = bench.refuse(test(Some(vec![rule("x", "[", Decide::Deny)]))).await;
    assert!(broken.message().contains("rules[0]"), "{broken:?}");
    let nowhere = TestRules { project_id: ProjectId::new("none"), ..test(None) };
    assert_eq!(bench.refuse(nowhere).await.code(), Code::ProjectNotFound);
    let nobody = TestRules { agent_id: Some(AgentId::new("nobody")), ..test(None) };
    assert_eq!(bench.refuse(nobody).await.code(), Code::AgentNotFound);
}

/// A rule counts from the next request on.
#[tokio::test(start_paused = true)]
async fn a_new_rule_leaves_what_waits_to_the_person() {
    let script = Script::new().ask("Bash", shell("make")).ask("Bash", shell("make")).answer("done");
    let bench = Setup::new().runtime(asks(script)).open().await;
    let agent_id = bench.ready("a").await;
    bench.call(SendMessage { agent_id: agent_id.clone(), message: "go".to_owned() }).await;
    let id = pending(&bench).await.approval_id;
    bench.call(put(&bench, rule("no", "Bash", Decide::Deny), None)).await;
    assert_eq!(listed(&bench, ApprovalStatus::Pending).await.len(), 1);
    bench.call(allow(&id)).await;
    let denied = async || listed(&bench, ApprovalStatus::Denied).await.into_iter().next();
    bench.until("a denial", denied).await;
    bench.call(StopAgent { agent_id: agent_id.clone() }).await;
    bench.until_agent(&agent_id, AgentStatus::Stopped).await;
}
