//! `cortex message`: what a person writes to agents, and what waits for them.

use std::collections::BTreeMap;

use clap::{Args, Subcommand, ValueEnum};
use cortex_lib::api::tool::read_messages::WaitingMessages;
use cortex_lib::api::tool::{AckMessage, PostMessage, ReadMessages};
use cortex_lib::api::view::{MessageFromKind, MessageView};
use cortex_lib::domain::message::{Addressee, Channel, MessageKind, Purpose};
use cortex_lib::error::{Code, Error, Problem, Result};
use cortex_lib::ids::{AgentId, MessageId};

use super::screen::{Screen, card, word};
use super::{Exit, Global, find, goal, with_door, work};
use crate::door::Door;

/// What agents write to each other, and you to them
#[derive(Debug, Args)]
pub(super) struct Message {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Post a message to an agent; it starts no turn, and waits until the agent reads it
    Post(Post),
    /// List the messages that wait, oldest first
    List {
        /// Only those that wait for this agent, by name or id
        agent: Option<String>,
        /// Its project, when several have an agent of that name
        #[arg(long, requires = "agent")]
        project: Option<String>,
    },
    /// Take a message out of its inbox
    Ack {
        /// The message, by its number or id
        message: String,
    },
}

#[derive(Debug, Args)]
struct Post {
    /// The agent that reads it, by name or id
    agent: String,
    /// Its text; `-` reads it from standard input
    #[arg(value_name = "TEXT|-")]
    text: String,
    /// The agent's project, when several have an agent of that name
    #[arg(long)]
    project: Option<String>,
    /// Write it in this objective, by title or id, whose tasks the agent runs or ran; else in the project
    #[arg(long, conflicts_with = "project")]
    objective: Option<String>,
    /// What it is meant as
    #[arg(long, value_enum, default_value_t = Kind::Note)]
    kind: Kind,
    /// The tool that a request asks the agent to use
    #[arg(long, value_name = "TOOL")]
    action: Option<String>,
    /// The message that it answers, by its number or id
    #[arg(long, value_name = "MESSAGE")]
    reply_to: Option<String>,
    /// Seconds that it waits at most: a minute to a week, a day when it is left out
    #[arg(long, value_name = "SECS")]
    ttl: Option<u32>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// Something to know
    Note,
    /// Something to do
    Request,
    /// An answer
    Reply,
}

impl Message {
    pub(super) async fn run(self, global: &Global, screen: Screen) -> Result<Exit> {
        with_door(global, async |door| self.action.run(door, screen).await).await?;
        Ok(Exit::Done)
    }
}

impl Action {
    async fn run(self, door: &Door, screen: Screen) -> Result<()> {
        let names = work::agents(door).await?;
        match self {
            Self::Post(post) => {
                let posted = door.call(post.command(door).await?).await?;
                screen.show(&posted, |posted| show(&posted.message, &names))
            }
            Self::List { agent, project } => {
                let agent_id = match agent {
                    Some(name) => {
                        Some(find::agent(door, &name, project.as_deref()).await?.agent_id)
                    }
                    None => None,
                };
                let list =
                    WaitingMessages { messages: waiting(door, agent_id).await?, more: false };
                screen.show(&list, |list| {
                    if list.messages.is_empty() {
                        return "no message waits".to_owned();
                    }
                    let shown = list.messages.iter().map(|message| show(message, &names));
                    shown.collect::<Vec<_>>().join("\n\n")
                })
            }
            Self::Ack { message } => {
                let message_id = find_message(door, &message).await?;
                let acked = door.call(AckMessage { message_id }).await?;
                screen.show(&acked, |acked| show(&acked.message, &names))
            }
        }
    }
}

impl Post {
    async fn command(self, door: &Door) -> Result<PostMessage> {
        let objective = match &self.objective {
            Some(name) => Some(find::objective(door, name).await?),
            None => None,
        };
        // The name is looked for where the message is written.
        let within = objective.as_ref().map(|one| one.project_id.to_string()).or(self.project);
        let agent = find::agent(door, &self.agent, within.as_deref()).await?;
        let channel = match objective {
            Some(objective) => Channel::Objective(objective.objective_id),
            None => Channel::Project(agent.project_id),
        };
        let kind = match self.kind {
            Kind::Note => MessageKind::Note,
            Kind::Request => MessageKind::Request,
            Kind::Reply => MessageKind::Reply,
        };
        let purpose = Purpose::of(kind, self.action).ok_or_else(|| {
            let problem = Problem::new("--action", "goes with --kind request only");
            Error::invalid(Code::InvalidArguments, vec![problem])
        })?;
        let text = goal::text(&self.text, "TEXT")?;
        let mut post = PostMessage::new(channel, Addressee::Agent(agent.agent_id), text);
        post.purpose = purpose;
        post.ttl_secs = self.ttl.unwrap_or(post.ttl_secs);
        if let Some(answered) = &self.reply_to {
            post.in_reply_to = Some(find_message(door, answered).await?);
        }
        Ok(post)
    }
}

/// All that wait, page by page.
async fn waiting(door: &Door, agent_id: Option<AgentId>) -> Result<Vec<MessageView>> {
    let mut all: Vec<MessageView> = Vec::new();
    loop {
        let after = all.last().map(|message| message.sequence);
        let read = ReadMessages { after, agent_id: agent_id.clone(), ..ReadMessages::default() };
        let page = door.call(read).await?;
        all.extend(page.messages);
        if !page.more {
            return Ok(all);
        }
    }
}

/// A message by its number, when it waits; else by its id.
async fn find_message(door: &Door, name: &str) -> Result<MessageId> {
    let Ok(number) = name.parse::<u64>() else { return Ok(MessageId::new(name)) };
    let waiting = waiting(door, None).await?;
    let found = waiting.into_iter().find(|message| message.sequence == number);
    found.map(|message| message.message_id).ok_or_else(|| {
        let remedy = format!("`{}` shows those that wait.", door.hint("message list"));
        Error::new(Code::MessageNotFound, format!("no message with the number {number} waits"))
            .remedy(remedy)
    })
}

fn show(message: &MessageView, names: &BTreeMap<AgentId, String>) -> String {
    let name = |id: &AgentId| names.get(id).map_or_else(|| id.to_string(), Clone::clone);
    let from = match (message.from.kind, &message.from.agent_id) {
        (MessageFromKind::Agent, Some(id)) => name(id),
        (MessageFromKind::Agent, None) => "an agent that is gone".to_owned(),
        (MessageFromKind::User, _) => "you".to_owned(),
    };
    let to = match (&message.to_agent_id, &message.to_execution_id) {
        (Some(id), _) => name(id),
        (None, Some(id)) => format!("attempt {id}"),
        (None, None) => String::new(),
    };
    let action = message.action.as_ref().map(|action| format!(", asks for {action}"));
    let kind = format!("{}{}", word(&message.kind), action.unwrap_or_default());
    let objective = message.objective_id.as_ref().map(|id| format!("objective {id}"));
    card([
        ("message", Some(format!("{} from {from} to {to}", message.sequence))),
        ("id", Some(message.message_id.to_string())),
        ("kind", Some(kind)),
        ("in", Some(objective.unwrap_or_else(|| format!("project {}", message.project_id)))),
        ("answers", message.in_reply_to.as_ref().map(ToString::to_string)),
        ("status", Some(format!("{}, until {}", word(&message.status), message.expires_at))),
        ("text", Some(message.body.clone())),
    ])
}
