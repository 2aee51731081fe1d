//! Both doors, through fake commands.

use cortex_lib::api::{Caller, Command, SessionKind};
use cortex_lib::error::{Code, Error, Result};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fake::{self, Channel, CreateObjective, ListThings, PostMessage, PutRule, UpdateAgent};
use crate::generate;

async fn refused(name: &str, args: Value) -> Vec<String> {
    let error =
        fake::cx(Caller::User, true).await.call_operator_json(name, args).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArguments);
    error.problems().iter().map(ToString::to_string).collect()
}

async fn task(task: Value) -> Vec<String> {
    let mut second = json!({ "key": "b", "description": "x" });
    second.as_object_mut().unwrap().extend(task.as_object().unwrap().clone());
    let first = json!({ "key": "a", "description": "x" });
    refused("create_objective", json!({ "title": "t", "tasks": [first, second] })).await
}

fn code<T: std::fmt::Debug>(answer: Result<T>) -> Code {
    answer.unwrap_err().code()
}

#[tokio::test]
async fn every_problem_is_named_with_its_path() {
    let args = json!({
        "tasks": [
            { "key": "a", "description": "x", "depends_on": ["b", 3] },
            { "key": "BAD", "description": "", "timeout_secs": 3, "nope": 1 },
        ],
        "force": true,
    });
    let mut problems = refused("create_objective", args).await;
    problems.sort_unstable();
    assert_eq!(
        problems,
        [
            "force: is not a known property",
            "tasks[0].depends_on[1]: must be a string, is a number",
            "tasks[1].description: must not be empty",
            "tasks[1].key: must match `^[a-z0-9][a-z0-9_-]{0,31}$`",
            "tasks[1].nope: is not a known property",
            "tasks[1].timeout_secs: must be at least 10, is 3",
            "title: is missing",
        ]
    );
}

#[tokio::test]
async fn each_kind_of_problem_has_its_words() {
    let cases = [
        (json!({ "priority": "huge" }), "tasks[1].priority: must be one of `low`, `normal`"),
        (
            json!({ "timeout_secs": 90_000 }),
            "tasks[1].timeout_secs: must be at most 86400, is 90000",
        ),
        (json!({ "timeout_secs": 30.5 }), "tasks[1].timeout_secs: must be an integer, is a number"),
        (json!({ "max_retries": 300 }), "tasks[1].max_retries: must be at most 255, is 300"),
        (
            json!({ "description": "ä".repeat(11) }),
            "tasks[1].description: must have at most 20 bytes, has 22",
        ),
        (json!({ "key": null }), "tasks[1].key: must be a string, is null"),
        (
            json!({ "labels": { "a.b": "x" } }),
            "tasks[1].labels[\"a.b\"]: must be an integer, is a string",
        ),
        (json!({ "depends_on": "a" }), "tasks[1].depends_on: must be an array, is a string"),
    ];
    for (fields, problem) in cases {
        assert_eq!(task(fields).await, [problem]);
    }
}

#[tokio::test]
async fn a_value_with_several_forms_is_refused_for_the_form_that_was_meant() {
    let cases = [
        (json!({ "kind": "tool" }), "subject.name: is missing"),
        (
            json!({ "kind": "tool", "name": "12345678901" }),
            "subject.name: must have at most 10 characters, has 11",
        ),
        (json!({ "kind": "all", "name": "x" }), "subject.name: is not a known property"),
        (json!({ "kind": "what" }), "subject.kind: must be one of `all`, `tool`"),
    ];
    for (subject, problem) in cases {
        assert_eq!(refused("put_rule", json!({ "subject": subject })).await, [problem]);
    }
}

#[tokio::test]
async fn absent_arguments_are_an_empty_object_and_nothing_else_is() {
    let cx = fake::cx(Caller::User, true).await;
    let empty = cx.call_json("list_things", json!({})).await.unwrap();
    assert_eq!(cx.call_json("list_things", Value::Null).await.unwrap(), empty);
    for args in [json!([]), json!("{}"), json!(0)] {
        let error = cx.call_json("list_things", args).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArguments);
        assert!(error.message().starts_with("the arguments must be an object"), "{error}");
    }
}

#[tokio::test]
async fn null_for_an_optional_field_is_absence() {
    let cx = fake::cx(Caller::User, true).await;
    let task = json!({
        "key": "a", "description": "x", "priority": null, "depends_on": null,
        "timeout_secs": 30.0, "max_retries": null, "share": null, "labels": null,
    });
    let args = json!({ "title": "t", "tasks": [task] });
    let reply = cx.call_json("create_objective", args).await.unwrap();
    assert_eq!(
        reply["objective"]["tasks"][0],
        json!({
            "key": "a", "description": "x", "depends_on": [], "timeout_secs": 30,
            "max_retries": 3, "share": null, "labels": {},
        })
    );
    let args = json!({ "subject": { "kind": "tool", "name": "x", "agent_id": null } });
    cx.call_operator_json("put_rule", args).await.unwrap();
}

#[tokio::test]
async fn null_clears_where_it_is_said_to() {
    let cx = fake::cx(Caller::User, true).await;
    for (fields, model) in [
        (json!({ "name": "n" }), "kept"),
        (json!({ "model": null }), "cleared"),
        (json!({ "model": "m" }), "m"),
    ] {
        let mut args = fields;
        args["agent_id"] = "a".into();
        let reply = cx.call_json("update_agent", args.clone()).await.unwrap();
        assert_eq!(reply, json!({ "model": model }));
        let typed: UpdateAgent = serde_json::from_value(args).unwrap();
        assert_eq!(cx.call(typed).await.unwrap().model, model);
    }
}

#[tokio::test]
async fn a_choice_between_fields_is_exactly_one_or_at_least_one() {
    let none = refused("post_message", json!({ "body": "" })).await;
    assert_eq!(
        none,
        [
            "body: must not be empty",
            "give exactly one of `project_id`, `objective_id`; none is given"
        ]
    );
    let both = json!({ "body": "x", "project_id": "p", "objective_id": "o" });
    assert_eq!(
        refused("post_message", both).await,
        ["give exactly one of `project_id`, `objective_id`; several are given"]
    );
    assert_eq!(
        refused("update_agent", json!({ "agent_id": "a", "name": null })).await,
        ["give at least one of `name`, `model`"]
    );
}

#[tokio::test]
async fn a_flood_of_problems_is_cut() {
    let args: serde_json::Map<_, _> = (0..500).map(|n| (format!("x{n}"), Value::Null)).collect();
    let problems = refused("list_things", args.into()).await;
    assert_eq!(problems.len(), 21);
    assert_eq!(problems.last().unwrap(), "480 more problems are not listed");
}

#[tokio::test]
async fn what_a_caller_made_up_is_not_repeated_at_length() {
    let cx = fake::cx(Caller::User, true).await;
    let long = "x".repeat(100_000);
    let error = cx.call_json(&long, json!({})).await.unwrap_err();
    assert_eq!(error.code(), Code::ToolNotFound);
    assert!(error.message().len() < 200);
    let error = cx.call_json("list_things", json!({ long: 1 })).await.unwrap_err();
    assert!(error.message().len() < 200);
}

#[tokio::test]
async fn a_rust_caller_meets_the_same_bounds() {
    let cx = fake::cx(Caller::User, true).await;
    let call = CreateObjective { title: "x".repeat(300), tasks: Vec::new() };
    let json = serde_json::to_value(&call).unwrap();
    let typed = cx.call(call).await.unwrap_err();
    assert_eq!(typed.message(), "title: must have at most 200 characters, has 300");
    let by_name = cx.call_json("create_objective", json).await.unwrap_err();
    assert_eq!((typed.code(), typed.problems()), (by_name.code(), by_name.problems()));
}

#[tokio::test]
async fn the_checks_come_in_one_order() {
    let (worker, user) = (fake::session(SessionKind::Agent), Caller::User);
    let (bad, good) = (json!({ "title": 1 }), json!({ "title": "t", "tasks": [] }));
    let call = async |caller: &Caller, ready, name, args: &Value| {
        code(fake::cx(caller.clone(), ready).await.call_json(name, args.clone()).await)
    };
    assert_eq!(call(&worker, false, "nope", &bad).await, Code::ToolNotFound);
    assert_eq!(call(&worker, false, "create_objective", &bad).await, Code::PermissionDenied);
    assert_eq!(call(&user, false, "create_objective", &bad).await, Code::InvalidArguments);
    assert_eq!(call(&user, false, "create_objective", &good).await, Code::CoreNotReady);

    let bad = || CreateObjective { title: String::new(), tasks: Vec::new() };
    let good = || CreateObjective { title: "t".into(), tasks: Vec::new() };
    let call = async |caller: &Caller, ready, command| {
        code(fake::cx(caller.clone(), ready).await.call(command).await)
    };
    assert_eq!(call(&worker, false, bad()).await, Code::PermissionDenied);
    assert_eq!(call(&user, false, bad()).await, Code::InvalidArguments);
    assert_eq!(call(&user, false, good()).await, Code::CoreNotReady);
}

#[tokio::test]
async fn reading_needs_no_ready_core() {
    let caller = fake::session(SessionKind::Hook);
    let things = fake::cx(caller, false).await.call(ListThings {}).await.unwrap();
    assert_eq!(things.project_id.unwrap().as_str(), "p1");
    let things =
        fake::cx(Caller::User, false).await.call_json("list_things", Value::Null).await.unwrap();
    assert_eq!(things, json!({ "project_id": null, "caller": "the user" }));
}

#[tokio::test]
async fn each_caller_may_give_its_commands_and_no_others() {
    use SessionKind::{Agent, Hook, Orchestrator};
    let callers =
        [Caller::User, fake::session(Orchestrator), fake::session(Agent), fake::session(Hook)];
    for (name, may) in [
        ("list_things", [true, true, true, true]),
        ("post_message", [true, true, true, false]),
        ("update_agent", [true, true, false, false]),
        ("create_objective", [true, false, false, false]),
    ] {
        for (caller, may) in callers.iter().zip(may) {
            let answer =
                fake::cx(caller.clone(), true).await.call_json(name, json!({ "?": 1 })).await;
            let want = if may { Code::InvalidArguments } else { Code::PermissionDenied };
            assert_eq!(code(answer), want, "{name} by {caller}");
        }
    }
}

#[tokio::test]
async fn operator_commands_are_behind_their_own_door() {
    let args = json!({ "subject": { "kind": "all" } });
    let user = fake::cx(Caller::User, true).await;
    assert_eq!(code(user.call_json("put_rule", args.clone()).await), Code::ToolNotFound);
    user.call_operator_json("put_rule", args.clone()).await.unwrap();
    user.call_operator_json("list_things", json!({})).await.unwrap();
    let orchestrator = fake::cx(fake::session(SessionKind::Orchestrator), true).await;
    for name in ["put_rule", "list_things"] {
        let answer = orchestrator.call_operator_json(name, args.clone()).await;
        assert_eq!(code(answer), Code::PermissionDenied);
    }
}

#[tokio::test]
async fn every_error_that_leaves_is_tied_to_the_log() {
    let cx = fake::cx(Caller::User, true).await;
    let broken = CreateObjective { title: "broken".into(), tasks: Vec::new() };
    let errors: [Error; 4] = [
        cx.call_json("nope", json!({})).await.unwrap_err(),
        cx.call_operator_json("put_rule", json!({})).await.unwrap_err(),
        cx.call_json("create_objective", json!({ "title": "broken", "tasks": [] }))
            .await
            .unwrap_err(),
        cx.call(broken).await.unwrap_err(),
    ];
    let mut ids: Vec<_> = errors.iter().map(|error| error.correlation_id().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), errors.len());
}

#[tokio::test]
async fn a_command_that_no_table_lists_does_not_run() {
    let (cortex, _dir) = fake::core(true).await;
    assert_eq!(code(cortex.as_user().call(ListThings {}).await), Code::Defect);
}

#[tokio::test]
async fn a_choice_is_a_type_in_rust() {
    let cx = fake::cx(fake::session(SessionKind::Agent), true).await;
    let channel = Channel::Objective(cortex_lib::ids::ObjectiveId::new("o1"));
    cx.call(PostMessage { channel: channel.clone(), body: "x".into() }).await.unwrap();
    let error = cx.call(PostMessage { channel, body: String::new() }).await.unwrap_err();
    assert_eq!(error.message(), "body: must not be empty");
    assert_eq!(PostMessage::NAME, "post_message");
}

#[tokio::test]
async fn answers_and_failures_meet_the_published_schema() {
    let task = json!({ "key": "a", "description": "x", "priority": "low", "labels": { "n": 1 } });
    let args = json!({ "title": "t", "tasks": [task] });
    let cx = fake::cx(Caller::User, true).await;
    let answer = cx.call_json("create_objective", args).await.unwrap();
    let error = cx.call_json("create_objective", json!({})).await.unwrap_err();
    let failure = json!({ "error": error.to_wire() });

    let tool = fake::TOOLS.iter().find(|tool| tool.name == "create_objective").unwrap();
    let schema = jsonschema::validator_for(tool.output_schema()).unwrap();
    for value in [&answer, &failure] {
        let problems: Vec<_> = schema.iter_errors(value).map(|error| error.to_string()).collect();
        assert_eq!(problems, [""; 0]);
    }
    for place in ["/objective/more", "/objective/tasks/0/more", "/more"] {
        let (parent, key) = place.rsplit_once('/').unwrap();
        let mut more = answer.clone();
        more.pointer_mut(parent).unwrap()[key] = json!(1);
        assert!(!schema.is_valid(&more), "{place} is open");
    }
}

/// What both doors answer to the same arguments, of the right types but of any size.
fn compare_doors<C: Command>() {
    let def = fake::CATALOGUE.iter().find(|def| def.name == C::NAME).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cx = runtime.block_on(fake::cx(Caller::User, true));
    let refused = std::cell::Cell::new(0);
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let args = generate::admitted(&generate::unbounded(def.input_schema()));
    proptest!(config, |(args in args)| {
        let Ok(typed) = serde_path_to_error::deserialize::<_, C>(args) else { return Ok(()) };
        let json = serde_json::to_value(&typed).unwrap();
        let by_name = runtime.block_on(cx.call_operator_json(C::NAME, json));
        let typed = runtime.block_on(cx.call(typed)).map(|reply| serde_json::to_value(reply).unwrap());
        let told = |error: Error| (error.code(), error.problems().to_vec());
        refused.set(refused.get() + u32::from(typed.is_err()));
        prop_assert_eq!(typed.map_err(told), by_name.map_err(told));
    });
    assert!(refused.get() > 0, "{}: nothing was refused", C::NAME);
}

#[test]
fn both_doors_refuse_the_same_values_with_the_same_words() {
    compare_doors::<CreateObjective>();
    compare_doors::<UpdateAgent>();
    compare_doors::<PostMessage>();
    compare_doors::<PutRule>();
}
