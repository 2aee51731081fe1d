//! Every bound of the system, with its reason. What a person may change is in [`Settings`](crate::settings::Settings).

use std::time::Duration;

/// Writes in one commit. Bounds the wait of the first, and what one failing commit takes with it.
pub const BATCH_MAX: usize = 256;
/// Writes that may wait for the writer. A full queue slows callers down; it never refuses.
pub const WRITE_QUEUE_MAX: usize = 1024;
/// Longest wait of the writer for companions of a write. More would be felt by a person.
pub const GATHER_MAX: Duration = Duration::from_micros(500);
/// Events that a slow subscriber may lag behind before it must read the log instead.
pub const EVENT_LAG_MAX: usize = 4096;
/// Events that leave the log in one commit, besides as many as it adds. A step this small is not felt;
/// one event at a time would dirty three more pages in every commit.
pub const EVENTS_PRUNED_AT_ONCE: u64 = 64;
/// Events that a subscriber reads from the log at once.
pub const EVENT_PAGE: usize = 256;
/// Read-only connections that are kept when nobody reads. More readers open their own (0.1 ms).
pub const READERS_KEPT: usize = 8;
/// Answers that are known without reading again. Lists of everything are among them, so they are few.
pub const ANSWERS_KEPT: usize = 32;
/// Prepared statements that a connection keeps: more than the store has queries.
pub const STATEMENTS_KEPT: usize = 256;
/// Size that the write-ahead log goes back to after a long read held it open.
pub const WAL_BYTES_KEPT: u64 = 64 * 1024 * 1024;
/// Output lines that a slow watcher may lag behind before it loses some.
pub const OUTPUT_LAG_MAX: usize = 4096;
/// Messages that wait for the engine. A session whose events find no room waits, so its CLI does too.
pub const WAKE_QUEUE_MAX: usize = 1024;
/// Events of one session on their way to the engine.
pub const SESSION_QUEUE_MAX: usize = 256;

/// The planner has answered by then, its start included (seed).
pub const PLANNER_TIMEOUT: Duration = Duration::from_mins(5);
/// A goal to plan for (seed). Larger texts belong into a file of the project, which the planner can read.
pub const GOAL_BYTES_MAX: usize = 16 * 1024;

/// Tasks of one objective (seed).
pub const TASKS_MAX: usize = 10;
/// The title of an objective, a plan or a task, in characters: a line of a list (seed).
pub const TITLE_CHARS_MAX: usize = 200;
/// The summary of a plan: as long as the goal that it answers.
pub const SUMMARY_BYTES_MAX: usize = 16 * 1024;
/// The planner's answer (seed). Ten tasks that a person would read fit many times.
pub const PLAN_BYTES_MAX: usize = 256 * 1024;
/// Proposals that wait for a decision at once, over all projects (seed): more than a person reads in one sitting.
pub const PROPOSALS_PENDING_MAX: usize = 20;
/// Decided proposals that are kept, the newest ones (seed). The revisions they replaced live as long as they do.
pub const PROPOSALS_DECIDED_KEPT: usize = 200;
/// A task's description. Larger texts belong into a file of the project.
pub const DESCRIPTION_BYTES_MAX: usize = 64 * 1024;
/// What is kept of a result: head and tail.
pub const RESULT_BYTES_MAX: usize = 64 * 1024;
/// What is kept of a dependency's result in the next instruction; ten of them still fit a model's attention.
pub const DEPENDENCY_RESULT_BYTES_MAX: usize = 8 * 1024;
/// What a list shows of a result; `get_task_status` has all that is kept.
pub const LISTED_RESULT_BYTES_MAX: usize = 2 * 1024;
/// What is kept of a verification command's output: the end, where the failure stands.
pub const VERIFICATION_OUTPUT_BYTES_MAX: usize = 16 * 1024;
/// What is kept of the reason of a failure, and of the summary of a tool request: drivers pass on what their
/// programs print.
pub const REASON_BYTES_MAX: usize = 4 * 1024;
/// What is kept of the arguments of a tool request, as JSON: a command and its surroundings. The content of a file that is
/// to be written loses its middle.
pub const APPROVAL_INPUT_BYTES_MAX: usize = 16 * 1024;
/// Tool requests of one session that wait for a person at once. A CLI asks for one tool, or for a few side by side.
pub const APPROVALS_PENDING_MAX: usize = 32;
/// The runtime's name of a tool request: the CLIs use at most 40 characters. An answer goes by it, so it is not cut.
pub const REQUEST_ID_BYTES_MAX: usize = 256;
/// What an agent asks its user at once, as JSON, and what is answered: more than a person reads in one sitting. Answers go by
/// these texts, so they are not cut.
pub const QUESTIONS_BYTES_MAX: usize = 16 * 1024;
/// Tool requests that are kept after they were decided, the newest ones: weeks of one person's work to try rules on. Arguments,
/// questions, answers, and tool, summary and reason make 60 KiB of one at most, so 120 MiB of all.
pub const APPROVALS_KEPT: usize = 2_000;
/// Tool requests that a list shows at once.
pub const APPROVALS_LISTED_MAX: u32 = 500;
/// Rules of one project: more than a person can keep in order.
pub const RULES_MAX: usize = 200;
/// The pattern of a rule for the tool: several long names side by side.
pub const RULE_TOOL_CHARS_MAX: usize = 256;
/// The pattern of a rule for the arguments: a long command in full.
pub const RULE_INPUT_CHARS_MAX: usize = 4_096;
/// What is kept of a program's standard error.
pub const STDERR_TAIL_BYTES_MAX: usize = 16 * 1024;
/// The longest line that a runtime may print. Claude Code was seen to print 3 MB at once.
pub const LINE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// A message to an agent (seed).
pub const MESSAGE_BYTES_MAX: usize = 256 * 1024;

/// Messages waiting in one inbox (seed). More than an agent reads in one turn only hides a stuck reader.
pub const INBOX_MAX: usize = 32;
/// Messages of one agent waiting in others' inboxes (seed). It keeps one agent from filling every inbox.
pub const SENT_WAITING_MAX: usize = 32;
/// The body of a message of the bus. Longer texts belong into a file of the project.
pub const MESSAGE_BODY_BYTES_MAX: usize = 16 * 1024;
/// Seconds that a message waits when its sender does not say.
pub const MESSAGE_TTL_SECS: u32 = 24 * 60 * 60;
/// The shortest wait: a turn that is just beginning still finds it.
pub const MESSAGE_TTL_SECS_MIN: u32 = 60;
/// The longest wait. What nobody read in a week is not news any more.
pub const MESSAGE_TTL_SECS_MAX: u32 = 7 * 24 * 60 * 60;
/// The newest messages that are kept, 64 MiB of bodies at most. An older one stays while it waits or its idempotency
/// key holds, so no longer than the longest wait.
pub const MESSAGES_KEPT: u64 = 4096;
/// Messages that expire, or that are forgotten, in one commit: a step this small is not felt.
pub const MESSAGES_SWEPT_AT_ONCE: usize = 64;

/// Ended objectives that lists still show (C14).
pub const ENDED_OBJECTIVES_LISTED_MAX: usize = 500;
/// Free repeats of one task: attempts that were lost without anybody's fault (C22).
pub const FREE_REPEATS_MAX: u8 = 5;

/// Seconds that one attempt may take when its task does not say (seed).
pub const TASK_TIMEOUT_SECS: u32 = 3_600;
/// The wait for a quota when the runtime does not tell when it ends.
pub const RATE_LIMIT_WAIT: Duration = Duration::from_mins(1);
/// The shortest wait for a quota, also when it is said to be back already: clocks differ by seconds, and without it
/// the free repeats of a task are spent in a moment.
pub const RATE_LIMIT_WAIT_MIN: Duration = Duration::from_secs(10);
/// The longest wait for a quota. The widest windows are a week; what is said to last longer is tried again then, so that
/// a wrong number does not hold a runtime back for ever.
pub const RATE_LIMIT_WAIT_MAX: Duration = Duration::from_hours(8 * 24);
/// What is kept of the list of a result's changed files; git has the whole of a larger one.
pub const CHANGED_FILES_MAX: usize = 1_000;
/// Changed files of a dependency that an instruction names; more would hide the task itself.
pub const DEPENDENCY_FILES_MAX: usize = 50;
/// A look at all files of a project's folder that takes longer is done without: an agent waits for it.
pub const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(30);
/// Tries of an integration that git could not finish before it is left to the next start.
pub const SQUASH_TRIES: u32 = 3;
/// A call that integrates waits this long for git; it is finished either way.
pub const INTEGRATE_TIMEOUT: Duration = Duration::from_mins(5);
/// How long an integration that is done waits for its worktree to go, so that a core that ends with its one call has
/// cleaned up. What takes longer goes on, or is done at the next open.
pub const WORKTREE_REMOVAL_WAIT: Duration = Duration::from_secs(10);
/// A start waits this long for the runtime (seed).
pub const START_TIMEOUT: Duration = Duration::from_mins(1);
/// A runtime says within this time whether a turn hears a message; after it, nobody knows. Half of what the sender
/// waits, so that a message behind one that hangs is still handed over.
pub const STEER_TIMEOUT: Duration = Duration::from_secs(30);
/// Messages on their way to one turn at once. More than that only hides a runtime that takes none.
pub const STEERS_OPEN_MAX: usize = 16;
/// An agent that has not let go of an ended turn by then is stopped (seed).
pub const RELEASE_GRACE: Duration = Duration::from_secs(30);
/// A session that is told to close has this long before it is killed.
pub const CLOSE_GRACE: Duration = Duration::from_secs(10);
/// A driver that has not closed a session this long after the grace is not waited for any more.
pub const CLOSE_OVERRUN_MAX: Duration = Duration::from_secs(10);
/// Turns have this long to confirm that they ended when the core stops in order.
pub const INTERRUPT_GRACE: Duration = Duration::from_secs(10);
/// Passes of the engine over its rows before it listens again, so that a stream of changes cannot keep it
/// from hearing.
pub const ENGINE_PASSES_MAX: usize = 16;
/// Pipes of a program whose tree is gone are read this long: only something that escaped still holds them.
pub const DRAIN_MAX: Duration = Duration::from_secs(1);
/// The wait of the engine after a pass that failed.
pub const ENGINE_RETRY_WAIT: Duration = Duration::from_secs(1);
/// All of an orderly shutdown; then what is left is killed.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(15);
/// How long a runtime's health counts as known.
pub const HEALTH_TTL: Duration = Duration::from_mins(1);
/// A health check that takes longer has failed: the slowest CLI seen answers in 2 s.
pub const HEALTH_CHECK_TIMEOUT: Duration = Duration::from_secs(15);
/// The wait before the engine tries a write again that found the disk full or the file locked.
pub const STORE_RETRY_WAIT: Duration = Duration::from_secs(1);
/// Tries of a write that finds the file locked or unreadable before the engine gives up: a backup by another
/// program takes seconds.
pub const STORE_RETRIES_MAX: u32 = 60;
/// Longest wait of `poll_agent_events`.
pub const POLL_WAIT_MAX: Duration = Duration::from_secs(30);

/// The port of the MCP endpoint, unless another one is set (seed).
pub const MCP_PORT: u16 = 47_821;
/// Connections to the MCP endpoint at once of callers who are known. Each live session holds one or two; the rest is
/// for people's clients.
pub const MCP_CONNECTIONS_MAX: usize = 64;
/// Those of all sessions together. What is left is the user's, whatever the agents do.
pub const MCP_CONNECTIONS_OF_SESSIONS_MAX: usize = 48;
/// Those of one session. A CLI opens one for each call that it makes at the same time.
pub const MCP_CONNECTIONS_OF_SESSION_MAX: usize = 16;
/// Connections to the MCP endpoint at once that have not shown a credential yet. Many, so that a client has time to show
/// its own while others flood; each holds 8 KiB, or up to twice `MCP_HEAD_BUFFER_BYTES` when it sends that much.
pub const MCP_STRANGERS_MAX: usize = 128;
/// All header lines of a request to the endpoint. The clients that were seen send less than 1 KiB.
pub const MCP_HEADER_BYTES_MAX: usize = 16 * 1024;
/// What hyper reads for the head of a request before it answers 431 by itself. Above the bound that we answer
/// for, so that most callers read our reason.
pub const MCP_HEAD_BUFFER_BYTES: usize = 64 * 1024;
/// The body of a request to the endpoint (seed).
pub const MCP_BODY_BYTES_MAX: usize = 1024 * 1024;
/// The head of a request must be there by then, as long as no credential was shown.
pub const MCP_HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Who is known sends the next request over the same connection by then. Longer than clients keep theirs: one that sends
/// while it is closed cannot tell whether its request arrived, and its model reads of a tool that failed.
pub const MCP_IDLE_TIMEOUT: Duration = Duration::from_mins(10);
/// The body of a request must be there by then.
pub const MCP_BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// A client that takes nothing more of its answer for so long is given up, so that it does not hold its slot for ever.
pub const MCP_WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// What is still read of a connection behind its last answer, so that its sender gets to read that.
pub const MCP_LINGER_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// How long that is read.
pub const MCP_LINGER: Duration = Duration::from_secs(1);
/// The pause of the accept loop when the machine has no sockets left.
pub const MCP_ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// A client that waits for a long call hears of it this often: soon enough for a person who watches, and many times
/// in the minute after which clients give up.
pub const MCP_PROGRESS_EVERY: Duration = Duration::from_secs(3);
/// How long a client may keep the list of tools. It changes only with Cortex itself and with the caller's role.
pub const MCP_FRESH: Duration = Duration::from_mins(5);
/// Requests have this long to end when the endpoint stops.
pub const MCP_STOP_GRACE: Duration = Duration::from_secs(5);

/// How long a remote client waits for the person's decision, and the person's browser for the client's answer.
pub const CONNECTION_PENDING_MAX: Duration = Duration::from_mins(10);
/// Remote clients that wait for a decision at once. The one that waits longest makes room for the next.
pub const CONNECTIONS_PENDING_MAX: u32 = 16;
/// Connections that ended and are still listed.
pub const CONNECTIONS_KEPT: usize = 200;
/// An authorization code is exchanged at once by the client that gets it.
pub const GRANT_LIFE: Duration = Duration::from_mins(1);
/// The life of an access token (design: 1 h).
pub const ACCESS_TOKEN_LIFE: Duration = Duration::from_hours(1);
/// A client that does not come back for so long is asked about again.
pub const REFRESH_TOKEN_LIFE: Duration = Duration::from_hours(24 * 30);
/// Access tokens of one connection at once. Clients hold one, and another while they renew it.
pub const ACCESS_TOKENS_MAX: usize = 16;
/// Refresh tokens that are remembered of one connection, to know them again when they are used twice: a month of
/// hourly renewals.
pub const REFRESH_TOKENS_KEPT: usize = 1024;
/// Clients that may be registered. Registrations of which nothing is connected make room.
pub const REGISTERED_CLIENTS_MAX: u32 = 200;
/// A registration of which nothing is connected is forgotten after that.
pub const REGISTRATION_UNUSED_MAX: Duration = Duration::from_hours(24);
/// What strangers may make Cortex store or fetch: so many at once,
pub const STRANGERS_BURST: u32 = 30;
/// and then one in this time.
pub const STRANGERS_PACE: Duration = Duration::from_secs(2);
/// The body of an OAuth request.
pub const OAUTH_BODY_BYTES_MAX: usize = 16 * 1024;
/// A redirect address, and the address that identifies a client.
pub const OAUTH_URI_BYTES_MAX: usize = 2048;
/// Redirect addresses of one client.
pub const REDIRECT_URIS_MAX: usize = 16;
/// The `state` of a client, which is kept until it is answered.
pub const OAUTH_STATE_BYTES_MAX: usize = 4096;
/// What a client is told of what is wrong. A sentence is shorter; what it quotes may not be.
pub const OAUTH_DESCRIPTION_CHARS_MAX: usize = 300;
/// What is shown of the name that a client gives itself.
pub const CLIENT_NAME_CHARS_MAX: usize = 80;
/// The document in which a client describes itself (draft-ietf-oauth-client-id-metadata-document: 5 KB).
pub const CLIENT_DOCUMENT_BYTES_MAX: usize = 5 * 1024;
/// Fetching that document, all in all.
pub const CLIENT_DOCUMENT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a document that was fetched counts.
pub const CLIENT_DOCUMENT_LIFE: Duration = Duration::from_mins(10);
/// Documents that are remembered.
pub const CLIENT_DOCUMENTS_MAX: usize = 64;
/// Documents that are fetched at the same time.
pub const CLIENT_DOCUMENTS_FETCHED_MAX: usize = 4;

/// Wrong fields that one refusal names. Whoever has more starts over anyway.
pub const PROBLEMS_MAX: usize = 20;

/// One request on the local socket: ten tasks with their descriptions, each byte written as an escape of six.
pub const LOCAL_REQUEST_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Connections that the local socket serves at once; further ones wait. A person has few windows and shells.
pub const LOCAL_CONNECTIONS_MAX: usize = 128;
/// Requests of one connection that are worked on at once; further ones wait.
pub const LOCAL_REQUESTS_MAX: usize = 64;
/// Answers of one connection that wait for a slow reader before the streams of the connection wait too.
pub const LOCAL_ANSWERS_MAX: usize = 64;
/// How often a client that says nothing more is looked for while its calls run: a second of a planner costs little.
pub const LOCAL_LOOK_EVERY: Duration = Duration::from_secs(1);
/// One piece of what a terminal prints, on the local socket: a drawing of all that is kept goes in several.
pub const TERMINAL_PIECE_BYTES_MAX: usize = 256 * 1024;
/// Calls that run when a connection ends have this long to be answered.
pub const LOCAL_DRAIN: Duration = Duration::from_secs(1);

/// One call of git has failed by then. A checkout of a large repository from a cold disk takes minutes.
pub const GIT_TIMEOUT: Duration = Duration::from_mins(10);
/// What git may print: the names of a million files.
pub const GIT_OUTPUT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Paths that the message of a refusal names. More are counted.
pub const PATHS_NAMED_MAX: usize = 10;
/// Paths that a refusal lists for programs.
pub const PATHS_LISTED_MAX: usize = 100;
