//! A proxy between the driver and a server of OpenCode. It loses the stream of events, and does wrong to requests as a test
//! wants it. The driver makes a connection for each request, so each is dealt with by itself.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

/// What happens to a request.
#[derive(Clone, Debug)]
pub(crate) enum Wrong {
    /// It does not arrive.
    Lost,
    /// It arrives, and its answer is lost.
    Unanswered,
    /// It waits for the gate before it arrives.
    Held(&'static str),
    /// It arrives, and its answer waits for the gate.
    Late(&'static str),
    /// It arrives, and after the gate it is said to have failed.
    Failed(&'static str),
    /// It is said to have failed, and arrives then.
    Denied,
}

/// What there is of everything that happened.
#[derive(Default)]
struct World {
    /// The requests, by method and path.
    asked: Vec<String>,
    /// What is still to go wrong: with the next request whose line contains the text.
    wrongs: Vec<(String, Wrong)>,
    gates: BTreeSet<&'static str>,
    /// No event reaches the driver.
    loses: bool,
    /// All events, whether or not they reach the driver.
    events: String,
    /// Streams that the driver has.
    streams: usize,
}

/// The proxy.
pub(crate) struct Between {
    world: Arc<watch::Sender<World>>,
    folder: TempDir,
    program: PathBuf,
}

impl Between {
    /// Listens, for one server of the program at a time.
    pub(crate) async fn start(executable: &Path) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("opencode");
        let real = folder.path().join("port");
        // The address of the proxy instead of its own.
        let text = format!(
            "#!/bin/sh\n'{}' \"$@\" | while IFS= read -r line; do case \"$line\" in\n*'listening on http://127.0.0.1:'*) echo \"${{line##*:}}\" > '{}'; echo 'listening on http://127.0.0.1:{port}';;\n*) echo \"$line\";;\nesac; done\n",
            executable.display(),
            real.display(),
        );
        fs_err::write(&program, text).unwrap();
        fs_err::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let world = Arc::new(watch::Sender::new(World::default()));
        let (known, connections) = (Arc::clone(&world), TaskTracker::new());
        drop(connections.clone().spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (known, real) = (Arc::clone(&known), real.clone());
                drop(connections.spawn(async move { serve(stream, &known, &real).await }));
            }
        }));
        Self { world, folder, program }
    }

    /// What to start instead of OpenCode.
    pub(crate) fn program(&self) -> PathBuf {
        self.program.clone()
    }

    /// Lets the next request whose line contains the text go wrong.
    pub(crate) fn wrong(&self, line: &str, wrong: Wrong) {
        self.world.send_modify(|world| world.wrongs.push((line.to_owned(), wrong)));
    }

    pub(crate) fn open(&self, gate: &'static str) {
        self.world.send_modify(|world| world.gates.extend([gate]));
    }

    /// How many requests have come whose line contains the text.
    pub(crate) fn asked(&self, line: &str) -> usize {
        let world = self.world.borrow();
        world.asked.iter().filter(|asked| asked.contains(line)).count()
    }

    /// Waits for so many of them.
    pub(crate) async fn is_asked(&self, line: &str, count: usize) {
        crate::place::until(|| (self.asked(line) >= count).then_some(())).await;
    }

    /// Breaks the stream of events, until it is told to mend it.
    pub(crate) async fn lose_events(&self) {
        self.world.send_modify(|world| {
            world.loses = true;
            world.events.clear();
        });
        crate::place::until(|| (self.world.borrow().streams == 0).then_some(())).await;
    }

    /// Waits for events that contain the text, so many since events are lost.
    pub(crate) async fn happens(&self, text: &str, count: usize) {
        let happened = || self.world.borrow().events.matches(text).count() >= count;
        crate::place::until(|| happened().then_some(())).await;
    }

    /// Mends the stream, and waits until the driver has it again.
    pub(crate) async fn mend_events(&self) {
        self.world.send_modify(|world| world.loses = false);
        crate::place::until(|| (self.world.borrow().streams > 0).then_some(())).await;
    }

    /// Removes its folder; what is static is never dropped.
    pub(crate) fn end(&self) {
        fs_err::remove_dir_all(self.folder.path()).unwrap();
    }
}

/// One request. What breaks is only this connection.
async fn serve(mut near: TcpStream, world: &watch::Sender<World>, real: &Path) -> Option<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        head.push(near.read_u8().await.ok()?);
    }
    let line = String::from_utf8_lossy(&head).lines().next()?.to_owned();
    let mut wrong = None;
    world.send_modify(|world| {
        let found = world.wrongs.iter().position(|(text, _)| line.contains(text));
        wrong = found.map(|found| world.wrongs.remove(found).1);
        world.asked.push(line.clone());
    });
    let gate = async |gate: &'static str| {
        drop(world.subscribe().wait_for(|world| world.gates.contains(gate)).await);
    };
    if matches!(wrong, Some(Wrong::Lost)) {
        return None;
    }
    if let Some(Wrong::Held(name)) = wrong {
        gate(name).await;
    }
    let port: u16 = fs_err::read_to_string(real).ok()?.trim().parse().ok()?;
    let mut far = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    if line.starts_with("GET /global/event") {
        far.write_all(&head).await.ok()?;
        return events(near, far, world).await;
    }
    let body = body(&mut near, &head).await?;
    let failed = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n";
    if matches!(wrong, Some(Wrong::Denied)) {
        near.write_all(failed).await.ok()?;
    }
    far.write_all(&[head, body].concat()).await.ok()?;
    match wrong {
        Some(Wrong::Late(name)) => {
            far.readable().await.ok()?;
            gate(name).await;
        }
        Some(Wrong::Failed(name)) => {
            drop(far.read_u8().await);
            gate(name).await;
            return near.write_all(failed).await.ok();
        }
        Some(Wrong::Unanswered | Wrong::Denied) => {
            far.read_u8().await.ok()?;
            return None;
        }
        _ => {}
    }
    copy_bidirectional(&mut near, &mut far).await.ok().map(drop)
}

async fn body(near: &mut TcpStream, head: &[u8]) -> Option<Vec<u8>> {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let mut body = vec![0; length.map_or(Some(0), |length| length.trim().parse().ok())?];
    near.read_exact(&mut body).await.ok()?;
    Some(body)
}

/// The stream of events. When the driver has lost it, it is still read.
async fn events(near: TcpStream, mut far: TcpStream, world: &watch::Sender<World>) -> Option<()> {
    if world.borrow().loses {
        return None;
    }
    world.send_modify(|world| world.streams += 1);
    let mut near = Some(near);
    let mut changes = world.subscribe();
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let read = tokio::select! {
            read = far.read(&mut bytes) => read.ok().filter(|read| *read > 0),
            _ = changes.wait_for(|world| world.loses), if near.is_some() => Some(0),
        };
        let lost = near.take_if(|_| read.is_none() || world.borrow().loses).is_some();
        let came = bytes.get(..read.unwrap_or_default())?;
        world.send_modify(|world| {
            world.streams -= usize::from(lost);
            world.events.push_str(&String::from_utf8_lossy(came));
        });
        read?;
        if let Some(stream) = &mut near
            && stream.write_all(came).await.is_err()
        {
            near = None;
            world.send_modify(|world| world.streams -= 1);
        }
        if near.is_none() && !world.borrow().loses {
            return None;
        }
    }
}
