//! What a scripted model says: rules that are tried in order against each request. The language
//! knows no model API; every field is plain data, so a script may as well be a JSON file.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Rules tried in order; the first that fits a request answers it.
///
/// A request that no rule fits gets HTTP 400 with its last user text, which no CLI tries again, so
/// that a gap in a script shows at once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// The rules, most particular first.
    pub rules: Vec<Rule>,
    /// What is said when no rule fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<Answer>,
}

/// One condition and what is said when it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// When the rule fits.
    pub when: When,
    /// What it says.
    pub answer: Answer,
}

/// What a request must be like; everything given must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "snake_case")]
pub struct When {
    /// The last user text since the model last spoke contains this; the CLI's reminders do not
    /// count, so what leads to a tool call does not fit again when the tool's result comes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_user: Option<String>,
    /// A tool result since the model last spoke contains this; empty text fits any result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_result: Option<String>,
    /// Of all that the rules of this script name here, the user said this last; texts that no rule names do not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub during: Option<String>,
    /// So many tool results came since the user said what `during` names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub results: Option<usize>,
    /// Any text of the conversation, the system text included, contains this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub any_text: Option<String>,
    /// A tool of this name is offered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_offered: Option<String>,
    /// The model asked for contains this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How often the rule fits within one conversation.
    pub times: Times,
    /// Words to find in the conversation and use in the answer; the rule needs them all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub take: Vec<Take>,
}

/// How often a rule fits within one conversation, counted over requests that fit it otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Times {
    /// Always.
    #[default]
    Every,
    /// Only this time, counted from one.
    Nth(u32),
    /// Up to and including this time.
    First(u32),
}

/// A word found in the conversation, for `{{name}}` in the answer's texts and tool inputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Take {
    /// The name used in the answer.
    pub name: String,
    /// The text right before the word; its last place in the newest text counts, the system text last of all.
    pub after: String,
    /// The text right after it.
    pub until: String,
}

/// What the model says, how fast, and what goes wrong on the way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Answer {
    /// The content, in order.
    pub blocks: Vec<Block>,
    /// Why the model stopped; by default what the blocks imply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// The tokens it is said to have cost.
    pub usage: Usage,
    /// How fast it comes.
    pub pace: Pace,
    /// How much of the account's quota is said to be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
    /// What goes wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
}

/// How much of an account's quota is used, as the API tells in headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// How much is used; 100 is all.
    pub used_percent: u8,
    /// How long the window is that it counts for.
    pub window_minutes: u32,
    /// When it begins anew, in seconds since the epoch.
    pub resets_at: u64,
}

/// One piece of content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Block {
    /// Text for the reader.
    Text(String),
    /// The model's thinking.
    Thinking(String),
    /// A call of a tool.
    Tool {
        /// The tool's name. One that begins with `*` stands for the tool offered whose name ends so.
        name: String,
        /// Its arguments.
        input: Value,
    },
}

/// Token figures, as the API reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Usage {
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Tokens stored in the cache.
    pub cache_creation_input_tokens: u64,
    /// Tokens read from the cache.
    pub cache_read_input_tokens: u64,
    /// Tokens of thinking, beside those written; for the APIs that tell them apart.
    pub reasoning_tokens: u64,
}

impl Default for Usage {
    fn default() -> Self {
        Self {
            input_tokens: 12,
            output_tokens: 7,
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: 0,
            reasoning_tokens: 0,
        }
    }
}

/// How fast an answer comes, in milliseconds; at once by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Pace {
    /// Before the HTTP headers.
    pub before_ms: u64,
    /// Before each event of the stream.
    pub per_event_ms: u64,
}

/// What goes wrong with an answer. `after` counts the events of the stream that still come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// An HTTP error instead of an answer.
    Status {
        /// The HTTP status, such as 429.
        code: u16,
        /// The message in the error body.
        message: String,
        /// Seconds for the `retry-after` header.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after: Option<u64>,
    },
    /// HTTP 429 because the account's quota is used up, in the API's own words for that.
    UsedUp {
        /// What it says.
        message: String,
        /// The quota.
        quota: Quota,
    },
    /// Not even headers until the gate is opened; then the answer comes.
    Silence {
        /// The name that the test opens.
        gate: String,
    },
    /// The stream stops until the gate is opened; then it goes on.
    Hang {
        /// Events before it stops.
        after: usize,
        /// The name that the test opens.
        gate: String,
    },
    /// The connection breaks in the middle of the stream.
    Cut {
        /// Events before it breaks.
        after: usize,
    },
    /// The stream ends with an error event.
    Error {
        /// Events before the error.
        after: usize,
        /// The API's name of the error, such as `overloaded_error`.
        kind: String,
        /// What it says.
        message: String,
    },
    /// The stream ends with an event that is not JSON.
    Garbage {
        /// Events before it.
        after: usize,
    },
    /// HTTP 200 with JSON that is no answer at all.
    NotAMessage,
}

impl Script {
    /// A script without rules.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a rule after those before it.
    #[must_use]
    pub fn on(mut self, when: When, answer: Answer) -> Self {
        self.rules.push(Rule { when, answer });
        self
    }

    /// Says what to answer when no rule fits; nothing by default.
    #[must_use]
    pub fn otherwise(mut self, answer: Answer) -> Self {
        self.otherwise = Some(answer);
        self
    }
}

impl When {
    /// Fits every request.
    #[must_use]
    pub fn any() -> Self {
        Self::default()
    }

    /// Fits when the newest user text contains `text`.
    #[must_use]
    pub fn last_user(text: impl Into<String>) -> Self {
        Self { last_user: Some(text.into()), ..Self::default() }
    }

    /// Fits when a tool result since the model last spoke contains `text`; empty text fits any.
    #[must_use]
    pub fn tool_result(text: impl Into<String>) -> Self {
        Self { tool_result: Some(text.into()), ..Self::default() }
    }

    /// Fits from when the user said `text` until the next such text, once so many tool results came since.
    #[must_use]
    pub fn during(text: impl Into<String>, results: usize) -> Self {
        Self { during: Some(text.into()), results: Some(results), ..Self::default() }
    }

    /// Also asks that some text of the conversation contains `text`.
    #[must_use]
    pub fn and_any_text(mut self, text: impl Into<String>) -> Self {
        self.any_text = Some(text.into());
        self
    }

    /// Also asks that a tool of this name is offered.
    #[must_use]
    pub fn and_tool_offered(mut self, name: impl Into<String>) -> Self {
        self.tool_offered = Some(name.into());
        self
    }

    /// Also asks that the model's name contains `name`.
    #[must_use]
    pub fn and_model(mut self, name: impl Into<String>) -> Self {
        self.model = Some(name.into());
        self
    }

    /// Fits only the n-th time in a conversation, counted from one.
    #[must_use]
    pub fn nth(mut self, n: u32) -> Self {
        self.times = Times::Nth(n);
        self
    }

    /// Fits only the first n times in a conversation.
    #[must_use]
    pub fn first(mut self, n: u32) -> Self {
        self.times = Times::First(n);
        self
    }

    /// Takes the word between two texts, for `{{name}}` in the answer; fits only when it is there.
    #[must_use]
    pub fn take(
        mut self,
        name: impl Into<String>,
        after: impl Into<String>,
        until: impl Into<String>,
    ) -> Self {
        self.take.push(Take { name: name.into(), after: after.into(), until: until.into() });
        self
    }
}

impl Answer {
    /// Says a text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::default().and_text(text)
    }

    /// Thinks; usually followed by [`Answer::and_text`].
    #[must_use]
    pub fn thinking(text: impl Into<String>) -> Self {
        Self { blocks: vec![Block::Thinking(text.into())], ..Self::default() }
    }

    /// Calls a tool.
    #[must_use]
    pub fn tool(name: impl Into<String>, input: Value) -> Self {
        Self::default().and_tool(name, input)
    }

    /// Fails with an HTTP status.
    #[must_use]
    pub fn status(code: u16) -> Self {
        let message = format!("scripted {code}");
        Self::default().with(Fault::Status { code, message, retry_after: None })
    }

    /// Fails with HTTP 429 and the seconds to wait.
    #[must_use]
    pub fn too_many_requests(retry_after: u64) -> Self {
        let message = "scripted 429".to_owned();
        Self::default().with(Fault::Status { code: 429, message, retry_after: Some(retry_after) })
    }

    /// Fails because the account's quota is used up until then, in seconds since the epoch.
    #[must_use]
    pub fn used_up(resets_at: u64) -> Self {
        let quota = Quota { used_percent: 100, window_minutes: 300, resets_at };
        let message = "The usage limit has been reached".to_owned();
        Self::default().with(Fault::UsedUp { message, quota })
    }

    /// Tells how much of the account's quota is used; nothing by default.
    #[must_use]
    pub fn quota(mut self, quota: Quota) -> Self {
        self.quota = Some(quota);
        self
    }

    /// Says a text after what it says already.
    #[must_use]
    pub fn and_text(mut self, text: impl Into<String>) -> Self {
        self.blocks.push(Block::Text(text.into()));
        self
    }

    /// Calls a tool after what it says already.
    #[must_use]
    pub fn and_tool(mut self, name: impl Into<String>, input: Value) -> Self {
        self.blocks.push(Block::Tool { name: name.into(), input });
        self
    }

    /// Gives the reason to stop; by default `tool_use` after a tool call, else `end_turn`.
    #[must_use]
    pub fn stop_reason(mut self, reason: impl Into<String>) -> Self {
        self.stop_reason = Some(reason.into());
        self
    }

    /// Sets the token figures; 12 read and 7 written by default.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Waits before the headers and before each event; not at all by default.
    #[must_use]
    pub fn slow(mut self, before: Duration, per_event: Duration) -> Self {
        let whole = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.pace = Pace { before_ms: whole(before), per_event_ms: whole(per_event) };
        self
    }

    /// Sends nothing, not even headers, until the test opens the gate.
    #[must_use]
    pub fn silent_until(self, gate: impl Into<String>) -> Self {
        self.with(Fault::Silence { gate: gate.into() })
    }

    /// Stops the stream after some events until the test opens the gate.
    #[must_use]
    pub fn hang_after(self, events: usize, gate: impl Into<String>) -> Self {
        self.with(Fault::Hang { after: events, gate: gate.into() })
    }

    /// Breaks the connection after some events.
    #[must_use]
    pub fn cut_after(self, events: usize) -> Self {
        self.with(Fault::Cut { after: events })
    }

    /// Ends the stream after some events with an `overloaded_error`.
    #[must_use]
    pub fn error_after(self, events: usize) -> Self {
        let (kind, message) = ("overloaded_error".to_owned(), "Overloaded".to_owned());
        self.with(Fault::Error { after: events, kind, message })
    }

    /// Ends the stream after some events with one that is not JSON.
    #[must_use]
    pub fn garbage_after(self, events: usize) -> Self {
        self.with(Fault::Garbage { after: events })
    }

    /// Sets what goes wrong; nothing by default.
    #[must_use]
    pub fn with(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_script_reads_back_from_json() {
        let script = Script::new()
            .on(When::last_user("x").nth(2), Answer::thinking("hm").and_text("y").cut_after(3))
            .on(When::tool_result("").take("id", "<", ">"), Answer::too_many_requests(2));
        let text = serde_json::to_string(&script).unwrap();
        assert_eq!(serde_json::from_str::<Script>(&text).unwrap(), script);
        let short: Script = serde_json::from_value(json!({
            "rules": [{"when": {"last_user": "a"}, "answer": {"blocks": [{"text": "b"}]}}]
        }))
        .unwrap();
        assert_eq!(short, Script::new().on(When::last_user("a"), Answer::text("b")));
    }
}
