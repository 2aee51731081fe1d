//! The local socket: how the command line and a window reach a core that runs in another process.
//!
//! The socket is in the data directory and only for the user whose core it is. It carries JSON lines. A
//! request is one line, and so is each answer to it:
//!
//! ```text
//! {"id":1,"call":"list_projects","args":{}}   →  {"id":1,"ok":{…}}  or  {"id":1,"error":{code, message, …}}
//! {"id":2,"follow":{"after":17}}              →  {"id":2,"ok":{}}, then {"id":2,"event":{…}} for each event
//! {"id":3,"output":true}                      →  {"id":3,"ok":{}}, then {"id":3,"output":{…}} as agents print
//! ```
//!
//! `call` takes tools and operator commands: whoever reaches the socket is the user. The first answer to a
//! stream says that it listens, so that nothing that happens after it is missed; `{"id":n,"end":true}` is its last.
//! Requests of one connection run side by side, and answers come as they are ready. When the requester
//! ends its side, calls are still answered and streams end.

mod address;
mod client;
mod server;
mod wire;

pub use client::{Client, EventStream, OutputStream};
pub use server::{LocalServer, serve};
