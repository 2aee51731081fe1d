//! What Claude Code says and hears on its standard streams: one JSON object per line.
//!
//! Reading is tolerant. The CLI adds types, subtypes and fields with every version; what is not known
//! here is [`FromCli::Unknown`], and a field of another shape than expected counts as absent. A line is read twice:
//! first its head, then, if anybody cares about the type, the fields that are needed. So a large tool
//! result costs no more than a look over it.

mod said;
mod say;

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use self::said::lenient;
pub(super) use self::said::{
    Answer, ApiRetry, Asked, Assistant, BackgroundTask, Block, ControlAnswer, ControlRequest,
    Elicitation, Init, Initialized, McpStatus, RateLimitInfo, State, StreamEvent, StreamKind,
    StreamLine, Tokens, TurnResult, User,
};
pub(super) use self::say::{answer, deny, request, unsupported, user};

/// One line of standard output.
#[derive(Debug)]
pub(super) enum FromCli {
    /// A turn begins; a snapshot of the session.
    Init(Init),
    /// Whether the CLI works.
    State(State),
    /// A request to the model failed and will be repeated.
    Retry(ApiRetry),
    /// Work in the background began, changed or ended.
    Task(BackgroundTask),
    /// All work in the background, by its names.
    Tasks(Vec<String>),
    /// The CLI took up a message of ours.
    TakenUp {
        /// The name we gave it.
        uuid: String,
        /// The CLI says for each message when it takes it up. Else only the echo shows it, in which several may be one.
        told: bool,
    },
    /// Something else that shows life.
    Sign(Sign),
    /// One content block of the agent.
    Assistant(Assistant),
    /// What goes to the agent: tool results, notes of the CLI, echoes of our messages.
    User(User),
    /// The end of a turn.
    Result(Box<TurnResult>),
    /// A piece of the model's stream.
    Stream(StreamLine),
    /// The CLI asks something.
    Request(ControlRequest),
    /// The CLI answers something.
    Response(ControlAnswer),
    /// A request of the CLI no longer waits.
    Cancel {
        /// Which.
        request_id: String,
    },
    /// The account's rate limit changed.
    RateLimit(RateLimitInfo),
    /// A type, subtype or shape that is not known here.
    Unknown {
        /// Its type and subtype, for the log.
        what: String,
    },
    /// Not an object of the protocol at all.
    Noise,
}

/// Signs of life that differ in what they mean for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// A request goes to the model.
    Requesting,
    /// Anything else.
    Other,
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    subtype: Option<Cow<'a, str>>,
}

/// How most lines begin. Their head needs no reading of its own.
const STREAM_EVENT: &str = r#"{"type":"stream_event","#;

/// Reads a line of standard output.
pub(super) fn read(line: &str) -> FromCli {
    if line.starts_with(STREAM_EVENT)
        && let Some(line) = parse(line)
    {
        return FromCli::Stream(line);
    }
    let Ok(head) = serde_json::from_str::<Head<'_>>(line) else {
        return match serde_json::from_str::<IgnoredAny>(line) {
            Ok(_) => FromCli::Unknown { what: "an object without a type".to_owned() },
            Err(_) => FromCli::Noise,
        };
    };
    let subtype = head.subtype.as_deref().unwrap_or_default();
    let read = match (head.kind.as_ref(), subtype) {
        ("system", "init") => parse(line).map(FromCli::Init),
        ("system", "session_state_changed") => {
            parse::<StateLine>(line).map(|line| FromCli::State(line.state))
        }
        ("system", "api_retry") => parse(line).map(FromCli::Retry),
        ("system", "task_started" | "task_updated" | "task_notification") => {
            parse(line).map(FromCli::Task)
        }
        ("system", "background_tasks_changed") => parse::<TasksLine>(line)
            .map(|line| FromCli::Tasks(line.tasks.into_iter().map(|task| task.task_id).collect())),
        ("command_lifecycle", _) => {
            parse::<LifecycleLine>(line).map(|line| match line.state.as_str() {
                "started" => FromCli::TakenUp { uuid: line.command_uuid, told: true },
                _ => FromCli::Sign(Sign::Other),
            })
        }
        ("system", "status") => parse::<StatusLine>(line).map(|line| {
            let requesting = line.status.as_deref() == Some("requesting");
            FromCli::Sign(if requesting { Sign::Requesting } else { Sign::Other })
        }),
        ("system" | "tool_progress" | "tool_use_summary" | "auth_status" | "keep_alive", _) => {
            Some(FromCli::Sign(Sign::Other))
        }
        ("assistant", _) => parse(line).map(FromCli::Assistant),
        ("user", _) => parse(line).map(FromCli::User),
        ("result", _) => Some(FromCli::Result(parse(line).unwrap_or_default())),
        ("stream_event", _) => parse(line).map(FromCli::Stream),
        ("control_request", _) => parse(line).map(FromCli::Request),
        ("control_response", _) => parse(line).map(FromCli::Response),
        ("control_cancel_request", _) => {
            parse::<CancelLine>(line).map(|line| FromCli::Cancel { request_id: line.request_id })
        }
        ("rate_limit_event", _) => {
            parse::<RateLimitLine>(line).map(|line| FromCli::RateLimit(line.rate_limit_info))
        }
        _ => None,
    };
    read.unwrap_or_else(|| FromCli::Unknown { what: format!("{}/{subtype}", head.kind) })
}

#[derive(Deserialize)]
struct StateLine {
    state: State,
}

#[derive(Deserialize)]
struct StatusLine {
    #[serde(default, deserialize_with = "lenient")]
    status: Option<String>,
}

#[derive(Deserialize)]
struct TasksLine {
    tasks: Vec<BackgroundTask>,
}

/// Where a message of ours stands: queued, started, completed. Versions before 2.1.3xx only echo it.
#[derive(Deserialize)]
struct LifecycleLine {
    command_uuid: String,
    state: String,
}

#[derive(Deserialize)]
struct CancelLine {
    request_id: String,
}

#[derive(Deserialize)]
struct RateLimitLine {
    rate_limit_info: RateLimitInfo,
}

fn parse<T: DeserializeOwned>(line: &str) -> Option<T> {
    serde_json::from_str(line).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::said::Account;
    use super::*;

    #[test]
    fn what_is_not_known_is_tolerated() {
        for (line, what) in [
            (r#"{"type":"novelty","x":1}"#, "novelty/"),
            (r#"{"type":"assistant","message":7}"#, "assistant/"),
            (r#"{"no":"type"}"#, "an object without a type"),
        ] {
            let FromCli::Unknown { what: found } = read(line) else { panic!("{line}") };
            assert_eq!(found, what);
        }
        assert!(matches!(read("Warning: hello"), FromCli::Noise));
        assert!(matches!(
            read(r#"{"type":"system","subtype":"novelty"}"#),
            FromCli::Sign(Sign::Other)
        ));
    }

    #[test]
    fn a_result_of_an_odd_shape_still_ends_the_turn() {
        let FromCli::Result(result) = read(
            r#"{"type":"result","is_error":"yes","result":5,"usage":{"input_tokens":1.5,"output_tokens":2}}"#,
        ) else {
            panic!("a result")
        };
        assert_eq!((result.is_error, result.result.as_deref()), (None, None));
        assert_eq!(result.usage.unwrap().output, Some(2));
    }

    #[test]
    fn text_with_line_ends_stays_on_one_line() {
        let line = user("one\ntwo\u{2028}three", "u1");
        assert_eq!(line.matches('\n').count(), 1);
        assert!(line.ends_with('\n'));
    }

    #[test]
    fn an_account_without_a_source_is_nobody() {
        let nobody =
            |account: Value| serde_json::from_value::<Account>(account).unwrap().is_nobody();
        assert!(nobody(json!({"tokenSource": "none", "apiProvider": "firstParty"})));
        assert!(!nobody(
            json!({"tokenSource": "none", "apiKeySource": "ANTHROPIC_API_KEY", "apiProvider": "firstParty"})
        ));
        assert!(!nobody(
            json!({"tokenSource": "CLAUDE_CODE_OAUTH_TOKEN", "apiProvider": "firstParty"})
        ));
        assert!(!nobody(json!({"apiProvider": "bedrock"})));
        assert!(!nobody(json!({})));
    }
}
