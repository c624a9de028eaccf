//! How the supervisor and the processes that it forked for a cage talk: JSON messages with
//! descriptors over a sequenced packet socket.
//!
//! Both ends are our own code in one program; no program of a cage ever holds this socket. Messages
//! are therefore small and trusted, but still bounded.

use crate::Step;
use crate::files::watch::Watch;
use crate::probe::Depth;
use nix::cmsg_space;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg,
    sendmsg, socketpair,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;

/// Most bytes of one message. What may be larger travels in a memory file.
const MOST_BYTES: usize = 16 * 1024;
/// Most descriptors of one message.
const MOST_FDS: usize = 32;

/// From the processes that build a cage to the one that launched them.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// Process 1 was forked.
    Forked { init: i32 },
    /// The network is there; comes with the gateway's sockets.
    Plumbed { description: Vec<u8> },
    /// The network cannot be captured, so it is empty; the specification accepts that.
    NotPlumbed(Failed),
    /// The files are there; comes with the listener of `why.sock`, the cage's `/proc` and root, and its
    /// user and mount namespaces; with the numbers of the file systems that are the cage's own.
    Ready { own: Vec<u64> },
    /// A step failed; nothing follows.
    Failed(Failed),
}

/// A step that failed, on its way to the supervisor.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Failed {
    pub step: Step,
    pub detail: String,
    /// The kernel's answer; absent when it was not the kernel that refused.
    pub errno: Option<i32>,
}

impl Failed {
    pub fn new(step: Step, detail: impl Into<String>, error: &io::Error) -> Self {
        let mut detail = detail.into();
        let errno = error.raw_os_error();
        if errno.is_none() {
            if !detail.is_empty() {
                detail.push_str(": ");
            }
            detail.push_str(&error.to_string());
        }
        Self {
            step,
            detail,
            errno,
        }
    }

    pub fn error(&self) -> io::Error {
        self.errno.map_or_else(
            || io::Error::from(io::ErrorKind::InvalidInput),
            io::Error::from_raw_os_error,
        )
    }
}

/// Names the step of a failing call.
pub(crate) trait During<T> {
    fn during(self, step: Step, detail: impl FnOnce() -> String) -> Result<T, Failed>;
}

impl<T, E: Into<io::Error>> During<T> for Result<T, E> {
    fn during(self, step: Step, detail: impl FnOnce() -> String) -> Result<T, Failed> {
        self.map_err(|error| Failed::new(step, detail(), &error.into()))
    }
}

/// What process 1 is asked for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Start a program, or the probes. Comes with the writing end of the status pipe; for a program
    /// with a memory file that holds a [`Program`]; for one that waits also with its gate, for one that
    /// is to be watched with its door.
    Spawn { id: u64, what: What, stdio: Stdio },
    /// Signal the process group of a program.
    Signal { pid: i32, signal: i32 },
    /// Kill everything but process 1.
    KillAll { id: u64 },
    /// Send SIGSTOP to everything but process 1, with one call.
    StopAll { id: u64 },
    /// Make two sockets of the cage's network, one of each family.
    Sockets { id: u64 },
    /// Let no process that is forked from now on have more files open than this.
    LimitFiles { most: u32 },
}

/// What is to be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum What {
    Program,
    /// A program that is confined, runs the probes, tells their results at its gate, and waits there
    /// for a message.
    Waiting,
    /// The probes, with a memory file that holds a [`Tried`].
    Probes,
}

/// Where standard streams go.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Stdio {
    Null,
    Pipes,
    Conversation,
    Terminal { columns: u16, rows: u16 },
}

/// The program of a [`What::Program`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Program {
    pub argv: Vec<String>,
    pub env: Vec<(String, String)>,
    /// What is to be watched of it; of one that waits it is said when it may go.
    #[serde(default)]
    pub watch: Option<Watch>,
}

/// What the probes are to try.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Tried {
    pub depth: Depth,
    /// Places of the host that are shown beyond the specification, and whether they may be written.
    pub shown: Vec<(PathBuf, bool)>,
}

/// What a program that waits is told.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Go {
    pub watch: Option<Watch>,
}

/// What comes over a status pipe before it is closed: nothing when `exec` succeeded.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum NotRun {
    /// A wall around it could not be put up.
    Unconfined(Failed),
    /// The program cannot be executed.
    NotStarted { why: String },
}

/// What process 1 says.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Notice {
    /// A program was forked; comes with our ends of its standard streams.
    Spawned { id: u64, pid: i32 },
    /// It could not even be forked.
    NotSpawned { id: u64, failed: Failed },
    /// A program that was spawned has ended.
    Exited { pid: i32, exit: Ended },
    /// Nothing but process 1 is left.
    Killed { id: u64, count: u32 },
    /// Everything but process 1 has been sent SIGSTOP.
    AllStopped { id: u64 },
    /// Comes with the sockets; without any when they could not be made.
    Sockets { id: u64 },
}

/// How a process ended.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Ended {
    Code(u8),
    Signal(u8),
}

/// A connected pair of packet sockets.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(
        AddressFamily::Unix,
        SockType::SeqPacket,
        None,
        SockFlag::SOCK_CLOEXEC,
    )?)
}

/// Sends one message.
pub(crate) fn send<T: Serialize>(
    socket: BorrowedFd<'_>,
    message: &T,
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let bytes = serde_json::to_vec(message).map_err(io::Error::other)?;
    let raw: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    if bytes.len() > MOST_BYTES || raw.len() > MOST_FDS {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let rights = [ControlMessage::ScmRights(&raw)];
    let control = if raw.is_empty() {
        &rights[..0]
    } else {
        &rights[..]
    };
    let data = [IoSlice::new(&bytes)];
    loop {
        match sendmsg::<()>(
            socket.as_raw_fd(),
            &data,
            control,
            MsgFlags::MSG_NOSIGNAL,
            None,
        ) {
            Ok(_) => return Ok(()),
            Err(nix::Error::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Receives one message and its descriptors; `None` when the other side has closed.
pub(crate) fn receive<T: DeserializeOwned>(
    socket: BorrowedFd<'_>,
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut buffer = vec![0u8; MOST_BYTES];
    let mut control = cmsg_space!([RawFd; MOST_FDS]);
    let (length, fds) = loop {
        let mut data = [IoSliceMut::new(&mut buffer)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let received = recvmsg::<()>(socket.as_raw_fd(), &mut data, Some(&mut control), flags);
        let message = match received {
            Ok(message) => message,
            Err(nix::Error::EINTR) => continue,
            Err(nix::Error::ECONNRESET) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut fds = Vec::new();
        for part in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(raw) = part {
                // SAFETY: the kernel just made these descriptors for us, and nobody else knows them.
                fds.extend(
                    raw.into_iter()
                        .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }),
                );
            }
        }
        if message
            .flags
            .intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC)
        {
            return Err(io::ErrorKind::InvalidData.into());
        }
        break (message.bytes, fds);
    };
    if length == 0 {
        return Ok(None);
    }
    let message = serde_json::from_slice(buffer.get(..length).unwrap_or_default())
        .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok(Some((message, fds)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_message_arrives_with_its_descriptors() {
        let (here, there) = pair().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        send(
            here.as_fd(),
            &Request::KillAll { id: 7 },
            &[null.as_fd(), null.as_fd()],
        )
        .unwrap();
        let (message, fds) = receive::<Request>(there.as_fd()).unwrap().unwrap();
        assert!(matches!(message, Request::KillAll { id: 7 }));
        assert_eq!(fds.len(), 2);
    }

    #[test]
    fn a_closed_peer_is_the_end_and_no_error() {
        let (here, there) = pair().unwrap();
        drop(here);
        assert!(receive::<Request>(there.as_fd()).unwrap().is_none());
    }

    #[test]
    fn an_oversized_message_is_refused() {
        let (here, _there) = pair().unwrap();
        let big = Program {
            argv: vec!["x".repeat(MOST_BYTES)],
            env: vec![],
            watch: None,
        };
        assert!(send(here.as_fd(), &big, &[]).is_err());
    }
}
