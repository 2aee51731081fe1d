//! The local socket: how the command line and a window reach a core that runs in another process.
//!
//! The socket is in the data directory and only for the user whose core it is. It carries JSON lines. A
//! request is one line, and so is each answer to it:
//!
//! ```text
//! {"id":1,"call":"list_projects","args":{}}   →  {"id":1,"ok":{…}}  or  {"id":1,"error":{code, message, …}}
//! {"id":2,"follow":{"after":17}}              →  {"id":2,"ok":{}}, then {"id":2,"event":{…}} for each event
//! {"id":3,"output":true}                      →  {"id":3,"ok":{}}, then {"id":3,"output":{…}} as agents print
//! {"id":4,"attach":{"agent_id":"…","size":{"rows":24,"columns":80}}}
//!                                             →  {"id":4,"ok":{"size":{…}}}, then {"id":4,"printed":"Base64"}
//! {"id":5,"type":{"agent_id":"…","bytes":"Base64"}}  →  {"id":5,"ok":{}} when the program's terminal has taken it
//! {"id":6,"resize":{"agent_id":"…","size":{…}}}      →  {"id":6,"ok":{}}
//! ```
//!
//! `call` takes tools and operator commands: whoever reaches the socket is the user. The first answer to a
//! stream says that it listens, so that nothing that happens after it is missed; `{"id":n,"end":true}` is its last.
//! `attach` shows the terminal of an agent in terminal mode; the first pieces draw what it shows already. What is typed into
//! it is read in the order of the requests only if each waits for the answer to the one before.
//! Requests of one connection run side by side, and answers come as they are ready. When the requester
//! ends its side, calls are still answered and streams end.

mod address;
mod client;
mod server;
mod wire;

pub use client::{Client, EventStream, OutputStream, TerminalStream};
pub use server::{LocalServer, serve};
