//! A cage that is only a network namespace, with a process inside that makes sockets for the tests.
//!
//! A socket stays in the namespace where it was made, so the tests use the sockets from outside as
//! if they were inside.

use foreman_cage::gateway::{GateKind, PlumbError, Sockets, plumb_preferring};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::Signal;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr,
    recvmsg, sendmsg, socket, socketpair,
};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};
use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Mutex;

pub struct Cage {
    sockets: Mutex<Option<Sockets>>,
    maker: OwnedFd,
    process: Pid,
}

/// What a process inside is asked for.
#[derive(Clone, Copy)]
pub enum Ask {
    Tcp4 = 1,
    Tcp6,
    Udp4,
    Udp6,
    /// As `Tcp4`; the process inside keeps a copy, so that it is the holder.
    Kept4,
}

impl Cage {
    /// Forks a process that makes the namespace; it ends with this one. Needs to be called while
    /// there is one thread.
    pub fn make(plumb: impl FnOnce() -> Result<Sockets, PlumbError>) -> Self {
        let (ours, theirs) = socketpair(
            AddressFamily::Unix,
            SockType::SeqPacket,
            None,
            SockFlag::SOCK_CLOEXEC,
        )
        .unwrap();
        // SAFETY: this process has one thread, so the child may do anything.
        match unsafe { fork() }.unwrap() {
            ForkResult::Parent { child } => {
                drop(theirs);
                let (bytes, fds) = receive(&ours);
                let sockets = Sockets::from_fds(fds, &bytes)
                    .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&bytes)));
                Self {
                    sockets: Mutex::new(Some(sockets)),
                    maker: ours,
                    process: child,
                }
            }
            ForkResult::Child => {
                drop(ours);
                nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).unwrap();
                let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
                unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET).unwrap();
                std::fs::write("/proc/self/setgroups", "deny").unwrap();
                std::fs::write("/proc/self/uid_map", format!("{uid} {uid} 1")).unwrap();
                std::fs::write("/proc/self/gid_map", format!("{gid} {gid} 1")).unwrap();
                match plumb() {
                    Ok(sockets) => {
                        let (fds, bytes) = sockets.into_fds();
                        send(&theirs, &bytes, &fds);
                    }
                    Err(error) => {
                        send(
                            &theirs,
                            std::io::Error::from(error).to_string().as_bytes(),
                            &[],
                        );
                    }
                }
                make_sockets(&theirs)
            }
        }
    }

    pub fn take_sockets(&self) -> Sockets {
        self.sockets.lock().unwrap().take().unwrap()
    }

    pub fn gate(&self) -> GateKind {
        self.sockets.lock().unwrap().as_ref().unwrap().gate()
    }

    pub fn init_pid(&self) -> u32 {
        self.process.as_raw().unsigned_abs()
    }

    pub fn socket(&self, ask: Ask) -> OwnedFd {
        send(&self.maker, &[ask as u8], &[]);
        receive(&self.maker).1.pop().unwrap()
    }

    /// Connects from inside.
    pub async fn connect(&self, to: SocketAddr) -> std::io::Result<tokio::net::TcpStream> {
        let ask = if to.is_ipv4() { Ask::Tcp4 } else { Ask::Tcp6 };
        self.connect_with(ask, to).await
    }

    pub async fn connect_with(
        &self,
        ask: Ask,
        to: SocketAddr,
    ) -> std::io::Result<tokio::net::TcpStream> {
        let socket = std::net::TcpStream::from(self.socket(ask));
        tokio::net::TcpSocket::from_std_stream(socket)
            .connect(to)
            .await
    }

    /// A datagram socket inside, connected.
    pub async fn datagrams(&self, to: SocketAddr) -> tokio::net::UdpSocket {
        let ask = if to.is_ipv4() { Ask::Udp4 } else { Ask::Udp6 };
        let socket = std::net::UdpSocket::from(self.socket(ask));
        let socket = tokio::net::UdpSocket::from_std(socket).unwrap();
        socket.connect(to).await.unwrap();
        socket
    }
}

impl Drop for Cage {
    fn drop(&mut self) {
        let _ = nix::sys::signal::kill(self.process, Signal::SIGKILL);
        let _ = waitpid(self.process, None);
    }
}

pub fn plumb_with_log() -> Result<Sockets, PlumbError> {
    plumb_preferring(&[GateKind::Log])
}

/// Runs `body` in a process of its own; true when it ended well.
pub fn in_a_process(body: impl FnOnce()) -> bool {
    // SAFETY: this process has one thread, so the child may do anything.
    match unsafe { fork() }.unwrap() {
        ForkResult::Parent { child } => {
            matches!(waitpid(child, None), Ok(WaitStatus::Exited(_, 0)))
        }
        ForkResult::Child => {
            nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).unwrap();
            let good = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).is_ok();
            std::process::exit(i32::from(!good))
        }
    }
}

/// The gateway runs without privilege on a user's machine; so it does here.
pub fn become_an_ordinary_user() {
    use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let (uid, gid) = (Uid::from_raw(65_534), Gid::from_raw(65_534));
    setgroups(&[]).unwrap();
    setresgid(gid, gid, gid).unwrap();
    setresuid(uid, uid, uid).unwrap();
    // As after an exec: this process's own files in /proc are its own.
    nix::sys::prctl::set_dumpable(true).unwrap();
}

fn make_sockets(channel: &OwnedFd) -> ! {
    let mut kept = Vec::new();
    loop {
        let (bytes, _) = receive(channel);
        let Some(&asked) = bytes.first() else {
            std::process::exit(0)
        };
        let v6 = asked == Ask::Tcp6 as u8 || asked == Ask::Udp6 as u8;
        let datagrams = asked == Ask::Udp4 as u8 || asked == Ask::Udp6 as u8;
        let made = socket(
            if v6 {
                AddressFamily::Inet6
            } else {
                AddressFamily::Inet
            },
            if datagrams {
                SockType::Datagram
            } else {
                SockType::Stream
            },
            SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
            None,
        )
        .unwrap();
        send(channel, b"s", std::slice::from_ref(&made));
        if asked == Ask::Kept4 as u8 {
            kept.push(made);
        }
    }
}

fn send(channel: &OwnedFd, bytes: &[u8], fds: &[OwnedFd]) {
    let raw: Vec<_> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&raw)];
    let rights = if raw.is_empty() {
        &rights[..0]
    } else {
        &rights[..]
    };
    let data = [IoSlice::new(bytes)];
    sendmsg::<UnixAddr>(channel.as_raw_fd(), &data, rights, MsgFlags::empty(), None).unwrap();
}

fn receive(channel: &OwnedFd) -> (Vec<u8>, Vec<OwnedFd>) {
    let mut buffer = vec![0; 1024];
    let mut control = nix::cmsg_space!([std::os::fd::RawFd; 32]);
    let mut data = [IoSliceMut::new(&mut buffer)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message =
        recvmsg::<UnixAddr>(channel.as_raw_fd(), &mut data, Some(&mut control), flags).unwrap();
    let mut fds = Vec::new();
    for control in message.cmsgs().unwrap() {
        if let ControlMessageOwned::ScmRights(got) = control {
            // SAFETY: the kernel just gave us these descriptors; nobody else owns them.
            fds.extend(
                got.into_iter()
                    .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }),
            );
        }
    }
    let length = message.bytes;
    buffer.truncate(length);
    (buffer, fds)
}
