//! A shell's streams: both pipes, or the one terminal.

use crate::shim::plan::open_terminal;
use crate::shim::server::TerminalOrder;
use foreman_cage::{Cage, Child};
use foreman_domain::LogStream;
use std::fs::File;
use std::io::Read;
use tokio::io::AsyncReadExt;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

/// Orders that wait for a terminal.
const ORDERS: usize = 16;

/// A program's streams, ready to be pumped.
pub(super) struct Streams {
    pub(super) pid: u32,
    pub(super) sources: Vec<Source>,
    pub(super) orders: Option<mpsc::Sender<TerminalOrder>>,
    pub(super) to_obey: Option<mpsc::Receiver<TerminalOrder>>,
}

/// One of them.
pub(super) enum Source {
    Pipe(tokio::sync::Mutex<pipe::Receiver>, LogStream),
    Terminal(AsyncFd<File>),
}

impl Streams {
    /// Takes a program's ends; one whose ends cannot be used is killed.
    pub(super) fn of(child: Child, cage: &Cage) -> std::io::Result<Self> {
        let pid = child.pid;
        let taken = Self::take(child);
        if taken.is_err() {
            let _ = cage.signal(pid, libc::SIGKILL);
        }
        taken
    }

    fn take(child: Child) -> std::io::Result<Self> {
        let mut sources = Vec::new();
        for (end, stream) in [
            (child.stdout, LogStream::Stdout),
            (child.stderr, LogStream::Stderr),
        ] {
            if let Some(end) = end {
                let end = pipe::Receiver::from_owned_fd(end)?;
                sources.push(Source::Pipe(tokio::sync::Mutex::new(end), stream));
            }
        }
        let (mut orders, mut to_obey) = (None, None);
        if let Some(terminal) = child.terminal {
            sources.push(Source::Terminal(open_terminal(terminal)?));
            let (sender, receiver) = mpsc::channel(ORDERS);
            (orders, to_obey) = (Some(sender), Some(receiver));
        }
        Ok(Self {
            pid: child.pid,
            sources,
            orders,
            to_obey,
        })
    }
}

impl Source {
    pub(super) fn stream(&self) -> LogStream {
        match self {
            Self::Pipe(_, stream) => *stream,
            Self::Terminal(_) => LogStream::Terminal,
        }
    }

    pub(super) fn terminal(&self) -> Option<&AsyncFd<File>> {
        match self {
            Self::Pipe(..) => None,
            Self::Terminal(terminal) => Some(terminal),
        }
    }

    /// The next bytes; `None` at the end.
    pub(super) async fn read(&self, buffer: &mut [u8]) -> Option<usize> {
        match self {
            Self::Pipe(pipe, _) => {
                let read = pipe.lock().await.read(buffer).await;
                read.ok().filter(|count| *count > 0)
            }
            Self::Terminal(terminal) => loop {
                let mut ready = terminal.readable().await.ok()?;
                match ready.try_io(|terminal| terminal.get_ref().read(buffer)) {
                    // No process has the other side open any more: the kernel answers EIO.
                    Ok(read) => return read.ok().filter(|count| *count > 0),
                    Err(_would_block) => {}
                }
            },
        }
    }
}
