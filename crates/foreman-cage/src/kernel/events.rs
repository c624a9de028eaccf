//! Waiting for many descriptors at once.

use super::{check, owned};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// A set of descriptors that are waited for, each with a number of its owner's choice.
#[derive(Debug)]
pub(crate) struct Events(OwnedFd);

/// What happened to one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Happened {
    /// The number that it was added with.
    pub token: u64,
    pub readable: bool,
    /// The other side is gone.
    pub ended: bool,
}

/// Most that are told at one time.
const MOST: usize = 16;

impl Events {
    pub fn new() -> io::Result<Self> {
        // SAFETY: takes flags only.
        owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }.into()).map(Self)
    }

    /// Tells of `fd` as long as it is readable or its other side is gone; until it is closed.
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN.unsigned_abs(),
            u64: token,
        };
        let (set, fd) = (self.0.as_raw_fd(), fd.as_raw_fd());
        // SAFETY: the structure is valid for the call.
        check(unsafe { libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, fd, &raw mut event) }.into())?;
        Ok(())
    }

    /// Tells of it no more.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let (set, fd) = (self.0.as_raw_fd(), fd.as_raw_fd());
        let none = std::ptr::null_mut::<libc::epoll_event>();
        // SAFETY: this request ignores the pointer.
        check(unsafe { libc::epoll_ctl(set, libc::EPOLL_CTL_DEL, fd, none) }.into())?;
        Ok(())
    }

    /// Waits until something happened.
    pub fn wait(&self) -> io::Result<Vec<Happened>> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MOST];
        let set = self.0.as_raw_fd();
        // SAFETY: the array has room for the number of events that is asked for.
        let count = unsafe { libc::epoll_wait(set, events.as_mut_ptr(), MOST as libc::c_int, -1) };
        let count = match check(count.into()) {
            Ok(count) => usize::try_from(count).unwrap_or(0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        let happened = |event: &libc::epoll_event| {
            let bits = event.events;
            Happened {
                token: event.u64,
                readable: bits & libc::EPOLLIN.unsigned_abs() != 0,
                ended: bits & (libc::EPOLLHUP | libc::EPOLLERR).unsigned_abs() != 0,
            }
        };
        Ok(events.iter().take(count).map(happened).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::fd::AsFd as _;

    #[test]
    fn readable_and_ended_are_told_apart() {
        let events = Events::new().unwrap();
        let (reader, mut writer) = std::io::pipe().unwrap();
        events.add(reader.as_fd(), 7).unwrap();
        writer.write_all(b"x").unwrap();
        let readable = Happened {
            token: 7,
            readable: true,
            ended: false,
        };
        assert_eq!(events.wait().unwrap(), [readable]);
        drop(writer);
        let ended = Happened {
            ended: true,
            ..readable
        };
        assert_eq!(events.wait().unwrap(), [ended]);
        events.remove(reader.as_fd()).unwrap();
        assert!(events.remove(reader.as_fd()).is_err());
    }
}
