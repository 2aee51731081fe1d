//! `cortex message`.

use crate::home::Home;

/// S-210, S-223.
#[test]
fn a_message_waits_for_its_agent_until_it_is_acknowledged() {
    let home = Home::new();
    home.team();
    home.agent("bob");
    assert!(home.cortex(&["message", "list"]).good().out.starts_with("no message waits"));
    home.cortex(&["message", "post", "ada", "The tea is ready.", "--ttl", "3600"]).good();
    let post = ["message", "post", "bob", "-", "--kind", "request", "--action", "list_tasks"];
    home.cortex_with(&post, "Look at the tasks.\n").good();

    let all = home.cortex(&["message", "list"]).good().out;
    assert!(all.contains("1 from you to ada") && all.contains("2 from you to bob"), "{all}");
    assert!(all.contains("request, asks for list_tasks"), "{all}");
    let bobs = home.cortex(&["message", "list", "bob", "--json"]).good().json();
    assert_eq!(bobs["messages"].as_array().unwrap().len(), 1);
    assert_eq!(bobs["messages"][0]["body"], "Look at the tasks.");

    assert!(home.cortex(&["message", "ack", "1"]).good().out.contains("ACKED"));
    let id = bobs["messages"][0]["message_id"].as_str().unwrap();
    home.cortex(&["message", "ack", id]).good();
    home.cortex(&["message", "ack", id]).good();
    assert!(home.cortex(&["message", "list"]).good().out.starts_with("no message waits"));
    let gone = home.cortex(&["message", "ack", "1"]);
    assert_eq!((gone.code, gone.err.contains("(message.not_found)")), (3, true));
}

/// S-216, S-217.
#[test]
fn a_message_that_may_not_be_is_refused() {
    let home = Home::new();
    home.team();
    home.objective("Tea", "tea");
    let outside = home.cortex(&["message", "post", "ada", "Hello", "--objective", "Tea"]);
    assert_eq!((outside.code, outside.err.contains("(message.out_of_scope)")), (1, true));
    let note = home.cortex(&["message", "post", "ada", "Hello", "--action", "list_tasks"]);
    assert_eq!((note.code, note.err.contains("--kind request")), (2, true));
    let short = home.cortex(&["message", "post", "ada", "Hello", "--ttl", "1"]);
    assert_eq!((short.code, short.err.contains("ttl_secs")), (2, true), "{}", short.err);
}
