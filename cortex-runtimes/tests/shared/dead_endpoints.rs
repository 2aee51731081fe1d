//! Endpoints that do not answer.

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::task::TaskTracker;

use crate::endpoint::Endpoint;

impl Endpoint {
    /// Listens, takes connections, and never answers.
    pub(crate) async fn silent() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let connections = TaskTracker::new();
        drop(connections.clone().spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                drop(connections.spawn(async move {
                    std::future::pending::<()>().await;
                    drop(stream);
                }));
            }
        }));
        Self { url, seen: Arc::default() }
    }

    /// Where nobody listens.
    pub(crate) async fn down() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        Self { url, seen: Arc::default() }
    }
}
