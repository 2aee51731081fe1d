use proptest::prelude::*;
use serde_json::json;

use super::*;

fn rule(id: &str, tool: &str, input: Option<&str>, decide: Decide) -> Rule {
    Rule { id: id.into(), tool: tool.into(), input: input.map(Into::into), agent: None, decide }
}

fn list(project: &[Rule], config: &[Rule], unmatched: Unmatched) -> RuleList {
    RuleList::new("/data", project.to_vec(), config, unmatched)
}

fn asked<'a>(tool: &'a str, input: &'a Value) -> Asked<'a> {
    Asked {
        agent: "a",
        role: Role::Worker,
        cwd: "/project",
        tool,
        input,
        of_cortex: false,
        has_questions: false,
    }
}

#[test]
fn the_first_rule_that_matches_decides() {
    let project = [
        rule("no-push", "Bash", Some("git push*"), Decide::Deny),
        rule("look-first", "Bash", Some("git *"), Decide::Ask),
    ];
    let config =
        [rule("shell", "Bash", None, Decide::Allow), rule("never", "*", None, Decide::Deny)];
    let rules = list(&project, &config, Unmatched::Ask);
    let table = [
        (
            "Bash",
            "cat /data/user-token",
            "denied by rule 1: data-directory; it names the data directory of Cortex",
        ),
        ("Bash", "git push origin/main", "denied by rule 2: no-push"),
        ("Bash", "git fetch", "left to a person by rule 3: look-first"),
        ("Bash", "cargo test", "allowed by rule 4: shell"),
        ("Write", "a", "denied by rule 5: never"),
    ];
    for (at, (tool, command, reason)) in table.into_iter().enumerate() {
        let decision = rules.decide(&asked(tool, &json!({ "command": command })));
        assert_eq!((decision.reason.as_str(), decision.position), (reason, Some(at + 1)));
    }
}

#[test]
fn without_a_rule_the_default_decides() {
    let input = json!({ "file_path": "/project/a" });
    let ask = list(&[], &[], Unmatched::Ask).decide(&asked("Write", &input));
    assert_eq!((ask.decide, ask.by, ask.position), (Decide::Ask, DecidedBy::Default, None));
    let deny = list(&[], &[], Unmatched::Deny).decide(&asked("Write", &input));
    assert_eq!((deny.decide, deny.by), (Decide::Deny, DecidedBy::Default));
    assert!(deny.reason.contains("approvals.rules"), "{}", deny.reason);
}

#[test]
fn a_rule_of_another_agent_does_not_count() {
    let rules = [Rule { agent: Some("b".into()), ..rule("b-only", "*", None, Decide::Allow) }];
    let (rules, input) = (list(&rules, &[], Unmatched::Deny), json!({}));
    assert_eq!(rules.decide(&asked("Bash", &input)).decide, Decide::Deny);
    let of_b = Asked { agent: "b", ..asked("Bash", &input) };
    assert_eq!(rules.decide(&of_b).decide, Decide::Allow);
}

/// S-233: whatever the rules say.
#[test]
fn the_role_of_an_orchestrator_decides_alone() {
    let input = json!({ "command": "ls" });
    for decide in [Decide::Allow, Decide::Deny, Decide::Ask] {
        let rules = list(&[rule("all", "*", None, decide)], &[], Unmatched::Ask);
        let other = Asked { role: Role::Orchestrator, ..asked("Bash", &input) };
        let decision = rules.decide(&other);
        assert_eq!((decision.decide, decision.by), (Decide::Deny, DecidedBy::Role));
        for role in [Role::Orchestrator, Role::Worker] {
            let own = Asked { role, of_cortex: true, ..asked("mcp__cortex__list_tasks", &input) };
            let decision = rules.decide(&own);
            assert_eq!((decision.decide, decision.by), (Decide::Allow, DecidedBy::Role));
        }
    }
}

#[test]
fn a_question_is_denied_by_rule_or_asked_but_never_allowed() {
    let input = json!({});
    for (given, decide) in
        [(Decide::Allow, Decide::Ask), (Decide::Ask, Decide::Ask), (Decide::Deny, Decide::Deny)]
    {
        let rules = list(&[rule("r", "*", None, given)], &[], Unmatched::Deny);
        let question = Asked { has_questions: true, ..asked("AskUserQuestion", &input) };
        assert_eq!(rules.decide(&question).decide, decide, "{given:?}");
    }
}

/// What a rule allowed is looked at when it is used: the same command may come with a wish for more.
#[test]
fn a_rule_for_a_use_grants_no_rights_beside_it() {
    let rules = [
        rule("patch", "apply_patch", None, Decide::Allow),
        rule("test", "{shell,Bash}", Some("cargo test"), Decide::Allow),
        rule("all", "*", None, Decide::Allow),
    ];
    let (list, test) = (list(&rules, &[], Unmatched::Deny), json!({ "command": "cargo test" }));
    let with = |name: &str, field: Value| {
        let mut input = test.clone();
        input[name] = field;
        input
    };
    let table = [
        ("apply_patch", json!({ "changes": {} }), Decide::Allow),
        ("apply_patch", json!({ "changes": {}, "grantRoot": "/" }), Decide::Ask),
        ("shell", test.clone(), Decide::Allow),
        ("shell", with("additionalPermissions", json!({ "network": true })), Decide::Ask),
        ("shell", with("leavesSandbox", json!(true)), Decide::Ask),
        ("shell", json!({ "networkApprovalContext": { "host": "a.example" } }), Decide::Ask),
        ("Bash", with("dangerouslyDisableSandbox", json!(true)), Decide::Ask),
        ("Bash", with("dangerouslyDisableSandbox", json!(false)), Decide::Allow),
        ("external_directory", json!({}), Decide::Ask),
        ("SandboxNetworkAccess", json!({ "host": "a.example" }), Decide::Ask),
    ];
    for (tool, input, decide) in table {
        let decision = list.decide(&asked(tool, &input));
        assert_eq!(decision.decide, decide, "{tool} {input}");
        let is_told = decision.reason.ends_with("; it asks for rights beyond one use");
        assert_eq!(is_told, decide == Decide::Ask, "{}", decision.reason);
    }
}

/// A person may write a rule for a right, by its name.
#[test]
fn a_rule_that_names_a_right_grants_it() {
    let rules = [rule("etc", "external_directory", None, Decide::Allow)];
    let (list, input) = (list(&rules, &[], Unmatched::Ask), json!({ "patterns": ["/etc/*"] }));
    assert_eq!(list.decide(&asked("external_directory", &input)).decide, Decide::Allow);
    assert_eq!(list.decide(&asked("request_permissions", &input)).decide, Decide::Ask);
}

#[test]
fn who_decided_survives_the_wire() {
    let all = [
        DecidedBy::User,
        DecidedBy::Rule("a:b".into()),
        DecidedBy::Role,
        DecidedBy::Default,
        DecidedBy::Timeout,
        DecidedBy::Limit,
    ];
    for by in all {
        assert_eq!(DecidedBy::parse(&by.to_string()), Some(by));
    }
    assert_eq!(DecidedBy::parse("rules"), None);
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let tool = prop::sample::select(vec!["*", "Bash", "B*", "Write", "["]).prop_map(String::from);
    let input =
        prop::option::of(prop::sample::select(vec!["*", "a*", "*b", "ab"]).prop_map(String::from));
    let agent = prop::option::of(prop::sample::select(vec!["a", "b"]).prop_map(String::from));
    let decide = prop_oneof![Just(Decide::Allow), Just(Decide::Deny), Just(Decide::Ask)];
    (tool, input, agent, decide).prop_map(|(tool, input, agent, decide)| Rule {
        id: "r".to_owned(),
        tool,
        input,
        agent,
        decide,
    })
}

fn any_request() -> impl Strategy<Value = (String, String, Value)> {
    let agent = prop::sample::select(vec!["a", "b"]);
    let tool = prop::sample::select(vec!["Bash", "Write", "Read"]);
    let input = prop_oneof![
        "[ab]{0,3}".prop_map(|text| json!({ "command": text })),
        "[ab]{0,3}".prop_map(|text| json!({ "other": [text] })),
        Just(json!(null)),
    ];
    (agent, tool, input).prop_map(|(agent, tool, input)| (agent.to_owned(), tool.to_owned(), input))
}

proptest! {
    /// First match wins: only the rules before the one that decided could have decided otherwise.
    #[test]
    fn a_rule_that_is_added_behind_changes_no_decision_of_a_rule(
        rules in prop::collection::vec(any_rule(), 0..6),
        later in any_rule(),
        (agent, tool, input) in any_request(),
    ) {
        let request = Asked { agent: &agent, ..asked(&tool, &input) };
        let before = list(&rules, &[], Unmatched::Ask).decide(&request);
        let longer: Vec<_> = rules.into_iter().chain([later]).collect();
        let after = list(&longer, &[], Unmatched::Ask).decide(&request);
        if before.position.is_some() {
            prop_assert_eq!(&before, &after);
        }
        // And what decided is the first that decides alone.
        let alone = |rule: &Rule| list(std::slice::from_ref(rule), &[], Unmatched::Ask).decide(&request);
        let first = longer.iter().position(|rule| alone(rule).position.is_some());
        // The built-in rule is the first of every list.
        prop_assert_eq!(first.map(|at| at + 2), after.position);
        if let Some(rule) = first.and_then(|at| longer.get(at)) {
            prop_assert_eq!(after.decide, rule.decide);
        }
    }

    /// Where a rule stands decides, not where it comes from.
    #[test]
    fn rules_of_a_project_count_before_those_of_the_configuration(
        rules in prop::collection::vec(any_rule(), 0..6),
        at in 0_usize..7,
        (agent, tool, input) in any_request(),
    ) {
        let request = Asked { agent: &agent, ..asked(&tool, &input) };
        let (project, config) = rules.split_at(at.min(rules.len()));
        let split = list(project, config, Unmatched::Deny).decide(&request);
        prop_assert_eq!(split, list(&rules, &[], Unmatched::Deny).decide(&request));
    }
}
