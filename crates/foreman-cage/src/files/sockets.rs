//! Connections to Unix sockets of the host: held, and made by this process when they are allowed.
//!
//! A socket of the host is never shown in a cage. The judge is asked about the path that the call names, as
//! the cage and then the host follow it; when it allows that, this process opens that very path without
//! following any link, connects to what it has opened, and connects the caller's own socket to the other end
//! of a relay. So the kernel reads nothing of the caller's memory again, what the path leads to later does
//! not matter, and the next connection asks anew. The relay carries bytes only: a descriptor or credentials
//! that one side attaches to them reach nobody.
//!
//! Only sockets that are connected as streams or sequences of packets are asked about. Datagrams name their
//! receiver one by one, in memory that could be another by the time it is looked at, so the kernel's answer
//! stands for them: there is nothing.

mod carry;

use super::hold::Caller;
use super::judge::SocketAttempt;
use super::resolve::{self, Blocked};
use super::supervisor::{Context, Listener, answered};
use super::{FileJudge, caller};
use crate::gateway::{Closed, Verdict};
use crate::kernel::{self, Notification};
use carry::carry;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, getsockopt, listen,
    setsockopt, socket, sockopt,
};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::sys::time::{TimeVal, TimeValLike};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;

/// Connections that are carried at one time; more are refused.
const MOST_CARRIED: usize = 512;
/// Longest wait for a service that takes no more connections for now, in seconds.
const PATIENCE: i64 = 10;
/// Longest address of a Unix socket, its family included.
const LONGEST: usize = 110;
const FAMILY: usize = 2;

/// Where connections are made and how many there are.
#[derive(Debug)]
pub(crate) struct Relays {
    /// A folder that nobody but this account can enter.
    folder: OwnedFd,
    next: AtomicU64,
    room: Arc<Semaphore>,
}

impl Relays {
    pub fn in_folder(folder: &Path) -> io::Result<Self> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        Ok(Self {
            folder: open(folder, flags, Mode::empty())?,
            next: AtomicU64::new(0),
            room: Arc::new(Semaphore::new(MOST_CARRIED)),
        })
    }
}

/// The path of the address that a `connect` names, absolute; nothing for another kind of address.
pub(crate) fn named(waiting: &Notification) -> Option<PathBuf> {
    // The length is the low half of its argument.
    let length = usize::try_from(waiting.argument(2) as u32).ok()?;
    if length <= FAMILY || length > LONGEST {
        return None;
    }
    let mut address = [0; LONGEST];
    let address = address.get_mut(..length)?;
    let thread = waiting.thread();
    let read = kernel::read_memory(thread, waiting.argument(1), address).ok()?;
    let (family, path) = address.get(..read)?.split_at_checked(FAMILY)?;
    let is_unix = family == (libc::AF_UNIX as u16).to_ne_bytes();
    let end = path.iter().position(|byte| *byte == 0);
    let path = path.get(..end.unwrap_or(path.len()))?;
    // One that begins with a zero is no path, and means something in the cage's own network only.
    if !is_unix || path.is_empty() || read < length {
        return None;
    }
    caller::absolute_of(thread, libc::AT_FDCWD, path)
}

/// Asks about a connection until it is answered, or its caller is gone.
pub(crate) async fn hold<J: FileJudge>(
    context: &Arc<Context<J>>,
    listener: Listener,
    waiting: Notification,
    blocked: Blocked,
) {
    let end = |errno| {
        answered(kernel::end_with_error(
            listener.as_fd(),
            waiting.id(),
            errno,
        ))
    };
    // What the kernel says where there is nothing.
    let refuse = || end(libc::ENOENT);
    let descriptor = waiting.argument(0) as u32 as i32;
    let Some(caller) = Caller::of(context, &waiting) else {
        return refuse();
    };
    let Ok(socket) = kernel::copy_of_descriptor(caller.named(), descriptor) else {
        return end(libc::EBADF);
    };
    if !kernel::call_waits(listener.as_fd(), waiting.id()) {
        // All of that was another's.
        return;
    }
    let kind = match (
        kernel::is_unix_socket(socket.as_fd()),
        getsockopt(&socket, sockopt::SockType),
    ) {
        (true, Ok(kind @ (SockType::Stream | SockType::SeqPacket))) => kind,
        (true, Ok(_)) => {
            let why =
                "datagrams to sockets of the host cannot be asked about; only connections can";
            context.judge.socket_refused(&blocked.path, why);
            return refuse();
        }
        // The kernel has an answer for everything else.
        _ => return context.go_on(&listener, &waiting),
    };
    let Ok(room) = Arc::clone(&context.relays.room).try_acquire_owned() else {
        let why = "this run has too many connections to sockets of the host already";
        context.judge.socket_refused(&blocked.path, why);
        return refuse();
    };
    let attempt = SocketAttempt {
        path: blocked.path.clone(),
        process: caller.process.clone(),
        gone: caller.gone.clone(),
    };
    let verdict = tokio::select! {
        biased;
        // The listener is closed with us, which fails the call.
        () = context.cancel.cancelled() => return,
        verdict = context.judge.judge_socket(attempt) => verdict,
    };
    let Verdict::Allow(allowance) = verdict else {
        return refuse();
    };
    let judge = Arc::clone(&context.judge);
    let over = |how| judge.closed(allowance.connection, how);
    if !kernel::call_waits(listener.as_fd(), waiting.id()) {
        return over(Closed::Abandoned);
    }
    let (inside, outside) = match meet(context, blocked.path, socket, kind).await {
        Ok(ends) => ends,
        Err(failed) => {
            end(failed.errno);
            return over(match failed.is_of_caller {
                true => Closed::Abandoned,
                false => Closed::Unreachable { why: failed.why },
            });
        }
    };
    answered(kernel::end_with_success(listener.as_fd(), waiting.id()));
    let how = carry(inside, outside, &allowance, &context.cancel).await;
    drop(room);
    over(how);
}

/// Why two sides could not be brought together.
struct Failed {
    /// What the caller is told.
    errno: i32,
    is_of_caller: bool,
    why: String,
}

impl Failed {
    fn outside(error: io::Error) -> Self {
        let error: nix::errno::Errno =
            nix::errno::Errno::from_raw(error.raw_os_error().unwrap_or(libc::ECONNREFUSED));
        Self {
            errno: error as i32,
            is_of_caller: false,
            why: format!("The socket answered: {}", error.desc()),
        }
    }

    fn of_caller(error: nix::errno::Errno) -> Self {
        Self {
            errno: error as i32,
            is_of_caller: true,
            why: String::new(),
        }
    }
}

/// Connects to the host's socket, and the caller's to us.
async fn meet<J: FileJudge>(
    context: &Arc<Context<J>>,
    path: PathBuf,
    caller: OwnedFd,
    kind: SockType,
) -> Result<(UnixStream, UnixStream), Failed> {
    let (answer, met) = tokio::sync::oneshot::channel();
    let context = Arc::clone(context);
    // On a thread of its own: a service may take its time.
    let meeting = std::thread::Builder::new()
        .name("connect".to_owned())
        .stack_size(128 << 10)
        .spawn(move || {
            let outside = reach(&path, kind).map_err(Failed::outside);
            let met = outside.and_then(|outside| {
                let inside = context.relays.take_in(&caller, kind);
                Ok((inside.map_err(Failed::of_caller)?, outside))
            });
            answer.send(met)
        });
    meeting.map_err(Failed::outside)?;
    let gone = || Failed::outside(io::ErrorKind::Other.into());
    let (inside, outside) = met.await.map_err(|_| gone())??;
    let stream = |socket: OwnedFd| {
        kernel::do_not_block(socket.as_fd())?;
        UnixStream::from_std(socket.into())
    };
    let inside = stream(inside).map_err(Failed::outside)?;
    Ok((inside, stream(outside).map_err(Failed::outside)?))
}

/// Connects to a socket of the host, without following any link.
fn reach(path: &Path, kind: SockType) -> io::Result<OwnedFd> {
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let at = openat2(AT_FDCWD, path, how)?;
    if SFlag::from_bits_truncate(fstat(&at)?.st_mode) & SFlag::S_IFMT != SFlag::S_IFSOCK {
        return Err(io::Error::from_raw_os_error(libc::ECONNREFUSED));
    }
    let outside = socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&outside, sockopt::SendTimeout, &TimeVal::seconds(PATIENCE))?;
    connect(outside.as_raw_fd(), &by_descriptor(&at, None)?)?;
    Ok(outside)
}

/// The address of what a descriptor names, or of something in it: however long its path is.
fn by_descriptor(at: &OwnedFd, name: Option<&str>) -> nix::Result<UnixAddr> {
    let mut path = format!("/proc/self/fd/{}", at.as_raw_fd());
    if let Some(name) = name {
        path.push('/');
        path.push_str(name);
    }
    UnixAddr::new(path.as_str())
}

impl Relays {
    /// Connects a caller's socket to a new one of ours.
    fn take_in(&self, caller: &OwnedFd, kind: SockType) -> nix::Result<OwnedFd> {
        let name = format!("relay-{}", self.next.fetch_add(1, Ordering::Relaxed));
        let address = by_descriptor(&self.folder, Some(&name))?;
        let door = socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None)?;
        bind(door.as_raw_fd(), &address)?;
        let taken = listen(&door, Backlog::new(1)?)
            .and_then(|()| connect(caller.as_raw_fd(), &address))
            .and_then(|()| kernel::accepted(door.as_fd()));
        let _ = unlinkat(&self.folder, name.as_str(), UnlinkatFlags::NoRemoveDir);
        taken
    }
}

/// What a call on the host's sockets is about, when it is to be asked about.
pub(crate) fn blocked<J: FileJudge>(
    context: &Context<J>,
    waiting: &Notification,
) -> Option<Blocked> {
    resolve::blocked_socket(&context.view, &named(waiting)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_link_is_not_followed_and_a_file_is_no_socket() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let _there = UnixListener::bind(folder.join("s")).unwrap();
        std::os::unix::fs::symlink("s", folder.join("link")).unwrap();
        std::fs::write(folder.join("file"), "").unwrap();
        reach(&folder.join("s"), SockType::Stream).unwrap();
        for (name, errno) in [
            ("link", libc::ELOOP),
            ("file", libc::ECONNREFUSED),
            ("none", libc::ENOENT),
        ] {
            let error = reach(&folder.join(name), SockType::Stream).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(errno), "{name}");
        }
        let other = reach(&folder.join("s"), SockType::SeqPacket).unwrap_err();
        assert_eq!(other.raw_os_error(), Some(libc::EPROTOTYPE));
    }

    #[test]
    fn a_callers_own_socket_is_connected_and_nothing_is_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let relays = Relays::in_folder(folder.path()).unwrap();
        for kind in [SockType::Stream, SockType::SeqPacket] {
            let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
            let caller = socket(AddressFamily::Unix, kind, flags, None).unwrap();
            let inside = relays.take_in(&caller, kind).unwrap();
            nix::unistd::write(&caller, b"hello").unwrap();
            let mut got = [0; 8];
            assert_eq!(nix::unistd::read(&inside, &mut got), Ok(5));
            // Once is enough.
            let again = relays.take_in(&caller, kind).unwrap_err();
            assert_eq!(again, nix::errno::Errno::EISCONN);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
