//! What this process and the owner of a program say to each other over a socket pair: the pipes and the order
//! once, then one byte for each request, and five for each report.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::super::owned::Exit;

/// More than any system takes as arguments and environment of a program.
const ORDER_BYTES_MAX: u32 = 64 * 1024 * 1024;

/// What to run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) place: Place,
    pub(super) argv: Vec<OsString>,
    pub(super) cwd: PathBuf,
    /// All of the environment.
    pub(super) env: Vec<(OsString, OsString)>,
}

/// What a program is started on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Three pipes.
    Pipes,
    /// A terminal, three times, which becomes its controlling one.
    Terminal,
}

impl Place {
    fn word(self) -> &'static str {
        match self {
            Self::Pipes => "pipes",
            Self::Terminal => "terminal",
        }
    }
}

/// What the owner is asked to do. The end of the socket asks it to end everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Interrupt,
    Terminate,
    /// End everything below the program.
    Clear,
}

/// What the owner tells. The end of the socket tells that nothing lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// The program runs under this pid.
    Started(i32),
    /// The system refused to run it, with this error number.
    Refused(i32),
    /// The program ended.
    Exited(Exit),
    /// One request to clear is done.
    Cleared,
}

impl Request {
    pub(super) fn byte(self) -> u8 {
        match self {
            Self::Interrupt => b'i',
            Self::Terminate => b't',
            Self::Clear => b'c',
        }
    }

    pub(super) fn of(byte: u8) -> Option<Self> {
        [Self::Interrupt, Self::Terminate, Self::Clear].into_iter().find(|it| it.byte() == byte)
    }
}

impl Report {
    pub(super) fn bytes(self) -> [u8; 5] {
        let (tag, number) = match self {
            Self::Started(pid) => (b's', pid),
            Self::Refused(error) => (b'r', error),
            Self::Exited(Exit { code: Some(code), .. }) => (b'e', code),
            Self::Exited(Exit { code: None, signal }) => (b'k', signal.unwrap_or(0)),
            Self::Cleared => (b'c', 0),
        };
        let [a, b, c, d] = number.to_le_bytes();
        [tag, a, b, c, d]
    }

    pub(super) fn of([tag, a, b, c, d]: [u8; 5]) -> io::Result<Self> {
        let number = i32::from_le_bytes([a, b, c, d]);
        Ok(match tag {
            b's' => Self::Started(number),
            b'r' => Self::Refused(number),
            b'e' => Self::Exited(Exit { code: Some(number), signal: None }),
            b'k' => Self::Exited(Exit { code: None, signal: Some(number) }),
            b'c' => Self::Cleared,
            _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "no such report")),
        })
    }
}

impl Order {
    /// The order for a program, as bytes with their length in front.
    pub(super) fn encode(
        place: Place,
        argv: &[OsString],
        cwd: &Path,
        env: &BTreeMap<OsString, OsString>,
    ) -> io::Result<Vec<u8>> {
        let count = OsString::from(argv.len().to_string());
        let mut bytes = vec![0; 4];
        let mut text = |parts: &[&OsStr]| {
            for part in parts {
                if part.as_bytes().contains(&0) {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidInput,
                        "an argument, a variable or the folder holds a NUL byte",
                    ));
                }
                bytes.extend_from_slice(part.as_bytes());
            }
            bytes.push(0);
            Ok(())
        };
        text(&[OsStr::new(place.word())])?;
        text(&[cwd.as_os_str()])?;
        text(&[&count])?;
        for argument in argv {
            text(&[argument])?;
        }
        for (name, value) in env {
            text(&[name, OsStr::new("="), value])?;
        }
        let length = u32::try_from(bytes.len().saturating_sub(4))
            .ok()
            .filter(|length| *length <= ORDER_BYTES_MAX)
            .ok_or(io::ErrorKind::ArgumentListTooLong)?;
        if let Some(head) = bytes.first_chunk_mut() {
            *head = length.to_le_bytes();
        }
        Ok(bytes)
    }

    /// Reads an order.
    pub(super) fn read(from: &mut impl Read) -> io::Result<Self> {
        let mut length = [0; 4];
        from.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length).min(ORDER_BYTES_MAX);
        let mut bytes = Vec::new();
        from.take(length.into()).read_to_end(&mut bytes)?;
        Self::decode(&bytes).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no order"))
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let text = bytes.strip_suffix(b"\0")?;
        let mut parts = text.split(|byte| *byte == 0).map(<[u8]>::to_vec).map(OsString::from_vec);
        let word = parts.next()?;
        let place = [Place::Pipes, Place::Terminal].into_iter().find(|it| word == it.word())?;
        let cwd = PathBuf::from(parts.next()?);
        let count: usize = parts.next()?.to_str()?.parse().ok()?;
        let argv: Vec<_> = parts.by_ref().take(count).collect();
        let env = parts.map(|variable| {
            let bytes = variable.as_bytes();
            // A name may begin with `=`, so the first byte is never the one between name and value.
            let at = bytes.iter().skip(1).position(|byte| *byte == b'=')? + 1;
            let (name, value) = (bytes.get(..at)?, bytes.get(at + 1..)?);
            Some((OsStr::from_bytes(name).to_owned(), OsStr::from_bytes(value).to_owned()))
        });
        (argv.len() == count).then_some(Self { place, argv, cwd, env: env.collect::<Option<_>>()? })
    }
}

/// Sends the program's ends of its pipes: input, output, errors.
pub(super) fn send_pipes(to: &UnixStream, pipes: [BorrowedFd<'_>; 3]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&pipes)) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    sendmsg(to, &[IoSlice::new(b"p")], &mut control, SendFlags::empty())?;
    Ok(())
}

/// Receives what [`send_pipes`] sent.
pub(super) fn receive_pipes(from: &UnixStream) -> io::Result<[OwnedFd; 3]> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(from, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut pipes = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            pipes.extend(fds);
        }
    }
    pipes.try_into().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "no pipes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_survives_the_wire() {
        let argv: Vec<OsString> =
            vec!["sh".into(), String::new().into(), OsString::from_vec(vec![0xff])];
        let env = BTreeMap::from([("A".into(), "x=y\nz".into()), ("B".into(), OsString::new())]);
        let place = Place::Terminal;
        let bytes = Order::encode(place, &argv, Path::new("/a b"), &env).unwrap();
        let order = Order { place, argv, cwd: "/a b".into(), env: env.into_iter().collect() };
        assert_eq!(Order::read(&mut bytes.as_slice()).unwrap(), order);
        assert!(Order::read(&mut &bytes[..bytes.len() - 1]).is_err());
    }

    #[test]
    fn an_order_with_a_nul_is_refused() {
        let argv = ["a\0b".into()];
        let order = Order::encode(Place::Pipes, &argv, Path::new("/"), &BTreeMap::new());
        let error = order.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn reports_survive_the_wire() {
        for report in [
            Report::Started(7),
            Report::Refused(2),
            Report::Exited(Exit { code: Some(-1), signal: None }),
            Report::Exited(Exit { code: None, signal: Some(9) }),
            Report::Cleared,
        ] {
            assert_eq!(Report::of(report.bytes()).unwrap(), report);
        }
    }
}
