//! The message bus: who may write to whom, how much may wait, and the life of a message. Agents never reach each
//! other's process; a message waits in its reader's inbox until it is acknowledged or expires.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::agent::Role;
use super::attempt::AttemptState;
use super::machine::{Machine, Refusal, Step};
use crate::ids::{AgentId, AttemptId, MessageId, ObjectiveId, ProjectId};
use crate::limits::{INBOX_MAX, SENT_WAITING_MAX};
use crate::time::Timestamp;

/// Where a message is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Channel {
    /// Among the agents of a project.
    Project(ProjectId),
    /// Among the agents that run or ran an attempt of an objective.
    Objective(ObjectiveId),
}

/// Whom a message is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Addressee {
    /// An agent, whatever it does.
    Agent(AgentId),
    /// One attempt, as long as it runs.
    Attempt(AttemptId),
}

/// Who writes. It is known from the credential of the call, never from what the call says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sender {
    /// The person who runs Cortex.
    User,
    /// A session of an agent.
    Agent {
        /// The agent.
        agent_id: AgentId,
        /// Its project: the only one that it sees.
        project_id: ProjectId,
    },
}

impl Sender {
    /// The agent, when an agent writes.
    pub const fn agent_id(&self) -> Option<&AgentId> {
        match self {
            Self::User => None,
            Self::Agent { agent_id, .. } => Some(agent_id),
        }
    }

    /// Whether it may know that something of `project` exists.
    pub fn sees(&self, project: &ProjectId) -> bool {
        match self {
            Self::User => true,
            Self::Agent { project_id, .. } => project_id == project,
        }
    }
}

/// What a message is meant as.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// Something to know.
    #[default]
    Note,
    /// Something to do.
    Request {
        /// The tool that the reader is asked to use. Naming it grants nothing.
        action: Option<String>,
    },
    /// An answer.
    Reply,
}

impl Purpose {
    /// Its kind on the wire.
    pub const fn kind(&self) -> MessageKind {
        match self {
            Self::Note => MessageKind::Note,
            Self::Request { .. } => MessageKind::Request,
            Self::Reply => MessageKind::Reply,
        }
    }

    /// The tool that it asks for.
    pub fn action(&self) -> Option<&str> {
        match self {
            Self::Request { action } => action.as_deref(),
            Self::Note | Self::Reply => None,
        }
    }

    /// Of what stands on the wire or in a row. None: only a request names an action.
    pub fn of(kind: MessageKind, action: Option<String>) -> Option<Self> {
        match (kind, action) {
            (MessageKind::Note, None) => Some(Self::Note),
            (MessageKind::Request, action) => Some(Self::Request { action }),
            (MessageKind::Reply, None) => Some(Self::Reply),
            (MessageKind::Note | MessageKind::Reply, Some(_)) => None,
        }
    }
}

/// What a message is meant as, by its name alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum MessageKind {
    /// Something to know.
    #[default]
    Note,
    /// Something to do.
    Request,
    /// An answer.
    Reply,
}

/// What a message says, and to whom. Two posts with equal letters are the same post.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// Where it is written.
    pub channel: Channel,
    /// Whom it is for.
    pub to: Addressee,
    /// What it is meant as.
    pub purpose: Purpose,
    /// The message that it answers.
    pub in_reply_to: Option<MessageId>,
    /// Its text. Nothing in it is an order to Cortex.
    pub body: String,
    /// Seconds that it waits at most.
    pub ttl_secs: u32,
}

/// Where a message stands. One whose time is over counts as expired before its row says so: see
/// [`at`](Self::at).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[schemars(inline)]
pub enum MessageState {
    /// In its reader's inbox.
    Waiting,
    /// Its reader, or the user, took it out.
    Acked,
    /// It waited too long, or its reader is gone.
    Expired,
}

impl MessageState {
    /// The state as it counts at `now`, which is what everybody is told.
    #[must_use]
    pub fn at(self, now: Timestamp, expires_at: Timestamp) -> Self {
        match self {
            Self::Waiting if is_over(now, expires_at) => Self::Expired,
            Self::Waiting | Self::Acked | Self::Expired => self,
        }
    }
}

/// Whether a time to live is over: at its end it is.
pub fn is_over(now: Timestamp, expires_at: Timestamp) -> bool {
    expires_at <= now
}

/// What happens to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageInput {
    /// Its reader or the user acknowledges it.
    Ack {
        /// Whether its time to live is not over.
        in_time: bool,
    },
    /// It leaves the inbox unread.
    Expire(Expiry),
}

/// Why a message expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Expiry {
    /// Its time to live is over.
    TimeOver,
    /// The attempt that it was for runs no more.
    AttemptEnded,
    /// Its reader was removed.
    ReaderRemoved,
}

impl Machine for MessageState {
    type Input = MessageInput;
    type Duty = std::convert::Infallible;

    fn step(&self, input: MessageInput) -> Result<Step<Self>, Refusal> {
        use MessageInput as I;

        Ok(match (self, input) {
            (Self::Waiting, I::Ack { in_time: true }) => Step::To(Self::Acked),
            (Self::Waiting, I::Expire(_)) => Step::To(Self::Expired),
            // What was acknowledged in time stays so.
            (Self::Acked, I::Ack { .. } | I::Expire(_)) => Step::Stay,
            (Self::Expired, I::Expire(_)) => Step::Stay,
            (Self::Waiting, I::Ack { in_time: false }) | (Self::Expired, I::Ack { .. }) => {
                return Err(Refusal::WrongState);
            }
        })
    }

    fn owes(&self) -> Option<Self::Duty> {
        None
    }

    fn is_final(&self) -> bool {
        *self != Self::Waiting
    }
}

/// Whether messages may wait for an attempt: until its turn is over, also before it has begun. What was told to
/// end, or is being verified, reads nothing more.
pub const fn takes_messages(attempt: AttemptState) -> bool {
    match attempt {
        AttemptState::Preparing
        | AttemptState::Opening
        | AttemptState::Starting
        | AttemptState::Running => true,
        AttemptState::Ending(_)
        | AttemptState::Killing(_)
        | AttemptState::Gathering
        | AttemptState::Verifying
        | AttemptState::Halting(_)
        | AttemptState::Over(_) => false,
    }
}

/// Who may use the tool that a request names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActionRights {
    /// Who asks for it.
    pub sender: bool,
    /// Worker agents.
    pub worker: bool,
    /// Orchestrators.
    pub orchestrator: bool,
}

impl ActionRights {
    const fn of(self, role: Role) -> bool {
        match role {
            Role::Worker => self.worker,
            Role::Orchestrator => self.orchestrator,
        }
    }
}

/// What has to be known to decide about a post.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Whether the sender belongs to the channel. The user belongs to every one.
    pub sender_belongs: bool,
    /// Whether the reader belongs to the channel.
    pub reader_belongs: bool,
    /// Whether the reader is the sender.
    pub to_oneself: bool,
    /// What the reader is.
    pub reader_role: Role,
    /// Who may use the tool that it names, if it names one.
    pub action: Option<ActionRights>,
    /// The attempt that it is for, if it is for one.
    pub attempt: Option<AttemptState>,
    /// Messages that wait in the reader's inbox.
    pub inbox: usize,
    /// Messages of the sender that wait in others' inboxes. The user's are not counted.
    pub sent: Option<usize>,
}

/// Why a post is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The sender does not belong to the channel.
    SenderOutside,
    /// The reader does not belong to the channel.
    ReaderOutside,
    /// Nobody writes to itself.
    ToOneself,
    /// One of the two may not use the tool that it names, or there is none of that name.
    ActionNotAllowed,
    /// The attempt does not run.
    RecipientUnavailable,
    /// The inbox is full.
    InboxFull,
    /// As many messages of the sender wait as may.
    SenderLimit,
}

/// Decides about a post: what it may not be first, then what there is no room for.
///
/// # Errors
///
/// The first reason that speaks against it.
pub fn may_post(facts: &Facts) -> Result<(), Rejection> {
    if !facts.sender_belongs {
        return Err(Rejection::SenderOutside);
    }
    if !facts.reader_belongs {
        return Err(Rejection::ReaderOutside);
    }
    if facts.to_oneself {
        return Err(Rejection::ToOneself);
    }
    if facts.action.is_some_and(|may| !(may.sender && may.of(facts.reader_role))) {
        return Err(Rejection::ActionNotAllowed);
    }
    if facts.attempt.is_some_and(|attempt| !takes_messages(attempt)) {
        return Err(Rejection::RecipientUnavailable);
    }
    if facts.inbox >= INBOX_MAX {
        return Err(Rejection::InboxFull);
    }
    if facts.sent.is_some_and(|sent| sent >= SENT_WAITING_MAX) {
        return Err(Rejection::SenderLimit);
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::domain::attempt::{Cause, EndReason, Outcome};
    use crate::domain::machine::walk;

    const FITS: Facts = Facts {
        sender_belongs: true,
        reader_belongs: true,
        to_oneself: false,
        reader_role: Role::Worker,
        action: None,
        attempt: None,
        inbox: 0,
        sent: Some(0),
    };

    const EVERYBODY: ActionRights = ActionRights { sender: true, worker: true, orchestrator: true };

    /// S-210, S-223
    pub(in crate::domain) fn inputs() -> Vec<MessageInput> {
        vec![
            MessageInput::Ack { in_time: true },
            MessageInput::Ack { in_time: false },
            MessageInput::Expire(Expiry::TimeOver),
        ]
    }

    #[test]
    fn the_message_is_walked() {
        let seen = walk(MessageState::Waiting, &inputs(), true, |_, _, _| ());
        assert_eq!(
            (seen.states.len(), seen.edges, seen.refusals),
            (3, 2, 3),
            "the lifecycle changed: is that meant?"
        );
    }

    /// S-224
    #[test]
    fn a_message_expires_at_the_end_of_its_time_and_an_acknowledged_one_never() {
        let end = Timestamp::from_millis(10);
        let before = Timestamp::from_millis(9);
        assert_eq!(MessageState::Waiting.at(before, end), MessageState::Waiting);
        assert_eq!(MessageState::Waiting.at(end, end), MessageState::Expired);
        assert_eq!(MessageState::Acked.at(end, end), MessageState::Acked);
        assert_eq!(MessageState::Expired.at(before, end), MessageState::Expired);
    }

    /// S-212, S-216, S-217, S-218
    #[test]
    fn each_rule_has_its_own_refusal() {
        assert_eq!(may_post(&FITS), Ok(()));
        let nobody = Some(ActionRights::default());
        let not_sender = Some(ActionRights { sender: false, ..EVERYBODY });
        let not_worker = Some(ActionRights { worker: false, ..EVERYBODY });
        let ended = Some(AttemptState::Over(Outcome::Failed(Cause::Error)));
        let cases = [
            (Facts { sender_belongs: false, ..FITS }, Rejection::SenderOutside),
            (Facts { reader_belongs: false, ..FITS }, Rejection::ReaderOutside),
            (Facts { to_oneself: true, ..FITS }, Rejection::ToOneself),
            (Facts { action: nobody, ..FITS }, Rejection::ActionNotAllowed),
            (Facts { action: not_sender, ..FITS }, Rejection::ActionNotAllowed),
            (Facts { action: not_worker, ..FITS }, Rejection::ActionNotAllowed),
            (Facts { attempt: ended, ..FITS }, Rejection::RecipientUnavailable),
            (Facts { inbox: INBOX_MAX, ..FITS }, Rejection::InboxFull),
            (Facts { sent: Some(SENT_WAITING_MAX), ..FITS }, Rejection::SenderLimit),
        ];
        for (facts, rejection) in cases {
            assert_eq!(may_post(&facts), Err(rejection), "{facts:?}");
        }
        let fits = [
            Facts { action: Some(EVERYBODY), ..FITS },
            Facts { action: not_worker, reader_role: Role::Orchestrator, ..FITS },
            Facts { attempt: Some(AttemptState::Starting), ..FITS },
            Facts { inbox: INBOX_MAX - 1, sent: Some(SENT_WAITING_MAX - 1), ..FITS },
            Facts { sent: None, ..FITS },
        ];
        for facts in fits {
            assert_eq!(may_post(&facts), Ok(()), "{facts:?}");
        }
    }

    #[test]
    fn what_was_told_to_end_takes_no_messages() {
        for state in [AttemptState::Preparing, AttemptState::Opening, AttemptState::Running] {
            assert!(takes_messages(state), "{state:?}: it runs, for whoever looks");
        }
        for state in [
            AttemptState::Ending(EndReason::TaskCancelled),
            AttemptState::Killing(EndReason::TaskCancelled),
            AttemptState::Verifying,
            AttemptState::Halting(EndReason::TaskCancelled),
            AttemptState::Over(Outcome::Lost),
        ] {
            assert!(!takes_messages(state), "{state:?}");
        }
    }

    #[test]
    fn only_a_request_names_an_action() {
        let action = || Some("list_tasks".to_owned());
        assert_eq!(
            Purpose::of(MessageKind::Request, action()).unwrap().action(),
            Some("list_tasks")
        );
        assert_eq!(Purpose::of(MessageKind::Note, action()), None);
        assert_eq!(Purpose::of(MessageKind::Reply, action()), None);
        for kind in [MessageKind::Note, MessageKind::Request, MessageKind::Reply] {
            assert_eq!(Purpose::of(kind, None).unwrap().kind(), kind);
        }
    }
}
