//! Files outside of what a cage may write or see: a call on one waits until a [`FileJudge`] has decided.
//!
//! Every program gets a second system call filter (`seccomp`) that makes the calls of the
//! write family and `execve` wait for this process, with every open where reads are asked about too. A
//! thread takes them (`supervisor`), finds out what each is about as the cage sees it (`resolve`),
//! and lets it go on at once unless the cage's mounts would refuse it while the operator's own account
//! could do it. Only then is the judge asked, and only that call waits.
//!
//! The kernel stays the judge. An answer says "go on", whereupon it looks at the path anew and refuses
//! what the mounts do not allow; or an error; or gives a descriptor that was opened here, without
//! following any link, on the very path that the judge was shown. A program that changes the path
//! meanwhile gains nothing. So whatever goes wrong here, a mount that is not there does not appear.
//!
//! Amending is mounting: [`Cage::show`](crate::Cage::show) puts a folder or file of the host into the
//! running cage, at its own place, and the call that waits goes on in it (`show`, `helper`).
//!
//! What can be neither asked about nor shown, see `places`: below `/proc`, `/sys` and `/dev`; writing
//! below the system's directories and `/etc`, which Landlock keeps closed for as long as a program
//! lives; and what the cage shows in its own way (the worktree's `.git`, the repository, the engine's
//! folders). The kernel's refusal stands there, and nobody is asked.
//!
//! A connection to a Unix socket of the host waits in the same way, but nothing is shown for it: this process
//! makes the connection and carries its bytes (`sockets`).
//!
//! When this process ends, or the supervising thread does, every such call fails (ENOSYS).

mod caller;
pub(crate) mod calls;
mod feed;
mod helper;
mod hold;
mod judge;
mod listener;
pub(crate) mod places;
mod resolve;
pub(crate) mod show;
mod sockets;
mod supervisor;
pub(crate) mod view;
pub(crate) mod watch;

pub use helper::{HELPER, help};
pub use judge::{Executed, Exited, FileAttempt, FileJudge, FileVerdict, SocketAttempt, Target};
pub use listener::who_listens;
pub use show::ShowError;

pub(crate) use supervisor::Supervisor;

use std::io;
use std::path::PathBuf;

/// What is held.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// Whether what is hidden is asked about when it is to be read or executed, not only when it is to be
    /// written. Costs something with every open.
    pub reads: bool,
    /// Paths of the host that are neither asked about nor shown, with all below: the kernel's refusal
    /// stands.
    pub closed: Vec<PathBuf>,
    /// A folder that only this account can enter, where connections to sockets of the host are brought
    /// together. Nothing stays in it.
    pub meeting: PathBuf,
}

/// Whether this kernel can hold calls on files.
///
/// # Errors
/// Its answer when it cannot: programs then run without, and are refused by the mounts as ever.
pub fn available() -> io::Result<()> {
    crate::kernel::can_listen()
}
