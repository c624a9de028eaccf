//! One call that waits for the judge.

use super::calls::{Call, Need, OpenFlags};
use super::resolve::Blocked;
use super::supervisor::{Context, Listener, answered};
use super::{FileAttempt, FileJudge, FileVerdict, Target, caller};
use crate::gateway::argv;
use crate::kernel::{self, Notification};
use foreman_domain::{FileAccess, ProcessRef};
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{Mode, SFlag, fstat, umask};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use tokio::io::unix::AsyncFd;
use tokio_util::sync::CancellationToken;

/// How often one call is asked about: once for each path that is in its way. A program that changes its
/// path all the time is refused then.
const MOST_QUESTIONS: usize = 4;

/// Flags of an open that the descriptor is opened with here, too.
const KEPT: i32 = libc::O_ACCMODE
    | libc::O_CREAT
    | libc::O_EXCL
    | libc::O_TRUNC
    | libc::O_APPEND
    | libc::O_NONBLOCK
    | libc::O_DSYNC
    | libc::O_SYNC
    | libc::O_DIRECT
    | libc::O_LARGEFILE
    | libc::O_NOATIME
    | libc::O_TMPFILE;

/// Asks about a call until it is answered, or its caller is gone.
pub(crate) async fn hold<J: FileJudge>(
    context: &Context<J>,
    listener: Listener,
    waiting: Notification,
    call: Call,
    mut blocked: Blocked,
) {
    let Some(caller) = Caller::of(context, &waiting) else {
        return refuse(&listener, &waiting, blocked.access);
    };
    if !kernel::call_waits(listener.as_fd(), waiting.id()) {
        // All of that was another's.
        return;
    }
    for _ in 0..MOST_QUESTIONS {
        let once = once_flags(&blocked).filter(|_| context.gives);
        let attempt = FileAttempt {
            access: blocked.access,
            call: call.name,
            path: blocked.path.clone(),
            target: blocked.target,
            can_once: once.is_some(),
            needs_folder: blocked.needs_folder(),
            process: caller.process.clone(),
            gone: caller.gone.clone(),
        };
        let verdict = tokio::select! {
            biased;
            // The listener is closed with us, which fails the call.
            () = context.cancel.cancelled() => return,
            verdict = context.judge.judge(attempt) => verdict,
        };
        if !kernel::call_waits(listener.as_fd(), waiting.id()) {
            return;
        }
        match verdict {
            FileVerdict::Once => {
                return match once {
                    Some(flags) => {
                        open_once(&listener, &waiting, &blocked, flags, caller.who.umask).await
                    }
                    None => refuse(&listener, &waiting, blocked.access),
                };
            }
            FileVerdict::Show { root, access } => {
                if let Err(error) = context
                    .view
                    .show(&root, access, super::show::Sockets::Refuse)
                    .await
                {
                    context.judge.not_shown(&root, &error);
                    return refuse(&listener, &waiting, blocked.access);
                }
                if let Some((link, target)) = &blocked.link
                    && let Err(error) = context.view.link(link, target).await
                {
                    // Then the path leads nowhere, as before.
                    tracing::debug!(%error, "a link cannot be made in the cage");
                }
            }
            FileVerdict::Refuse => return refuse(&listener, &waiting, blocked.access),
        }
        match context.blocked(&waiting, &call) {
            // Another path of the same call.
            Some(next) if next.path != blocked.path => blocked = next,
            // Whatever is still in its way, the kernel says.
            _ => return context.go_on(&listener, &waiting),
        }
    }
    refuse(&listener, &waiting, blocked.access);
}

/// Whose call waits.
pub(crate) struct Caller {
    pub who: caller::Who,
    pub process: ProcessRef,
    /// Fires when it has ended.
    pub gone: CancellationToken,
    named: Arc<AsyncFd<OwnedFd>>,
    _watching: AbortOnDrop,
}

impl Caller {
    /// None when it is gone, or is about to be, so that nothing is opened for it; and when no descriptor is
    /// left, because then nobody could tell when it ends. Until the call is known to wait still, all of it
    /// may be another's.
    pub fn of<J>(context: &Context<J>, waiting: &Notification) -> Option<Self> {
        let thread = waiting.thread();
        let who = caller::Who::of(thread, context.depth)?;
        let process = ProcessRef {
            pid: who.inside,
            argv: argv(thread.unsigned_abs()),
        };
        let named = kernel::thread_fd(thread, who.process).and_then(kernel::on_runtime);
        let named = Arc::new(named.ok()?);
        let gone = CancellationToken::new();
        let watching = tokio::spawn(watch(Arc::clone(&named), gone.clone()));
        Some(Self {
            who,
            process,
            gone,
            named,
            _watching: AbortOnDrop(watching),
        })
    }

    /// Names it.
    pub fn named(&self) -> BorrowedFd<'_> {
        self.named.get_ref().as_fd()
    }
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Tells when a caller has ended.
async fn watch(caller: Arc<AsyncFd<OwnedFd>>, gone: CancellationToken) {
    // It fails with the runtime, which ends everything.
    if let Err(error) = caller.readable().await {
        tracing::debug!(%error, "a caller cannot be watched");
    }
    gone.cancel();
}

/// Ends a call the way that the kernel refuses it.
pub(crate) fn refuse(listener: &Listener, waiting: &Notification, access: FileAccess) {
    let errno = match access {
        FileAccess::Read => libc::ENOENT,
        FileAccess::Write => libc::EACCES,
    };
    answered(kernel::end_with_error(
        listener.as_fd(),
        waiting.id(),
        errno,
    ));
}

/// The flags of an open that a descriptor can answer.
fn once_flags(blocked: &Blocked) -> Option<OpenFlags> {
    let Need::Open(flags) = blocked.need else {
        return None;
    };
    let is_file = match blocked.target {
        Target::File | Target::Absent => true,
        Target::Folder => flags.has(libc::O_TMPFILE),
        Target::Other => false,
    };
    // What limits a caller sets on the way cannot be kept by another way.
    (is_file && !flags.limited).then_some(flags)
}

/// Opens what was shown, and gives it to the caller.
async fn open_once(
    listener: &Listener,
    waiting: &Notification,
    blocked: &Blocked,
    flags: OpenFlags,
    mask: u32,
) {
    let (answer, opened) = tokio::sync::oneshot::channel();
    let path = blocked.path.clone();
    // On a thread of its own, whose mask of modes is its own: what is made gets the caller's. Opening may
    // take as long as the file system likes.
    let opening = std::thread::Builder::new()
        .name("open-once".to_owned())
        .stack_size(128 << 10)
        .spawn(move || answer.send(open(&path, flags, mask)));
    let opened = match opening {
        Ok(_) => opened
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::Other.into())),
        Err(error) => Err(error),
    };
    let close_on_exec = flags.has(libc::O_CLOEXEC);
    let given = opened.and_then(|file| {
        kernel::end_with_descriptor(listener.as_fd(), waiting.id(), file.as_fd(), close_on_exec)
    });
    if let Err(error) = given {
        let errno = error.raw_os_error().unwrap_or(libc::EACCES);
        answered(kernel::end_with_error(
            listener.as_fd(),
            waiting.id(),
            errno,
        ));
    }
}

/// Opens a regular file without following any link.
fn open(path: &Path, flags: OpenFlags, mask: u32) -> io::Result<OwnedFd> {
    unshare(CloneFlags::CLONE_FS)?;
    umask(Mode::empty());
    let makes = flags.has(libc::O_CREAT) || flags.has(libc::O_TMPFILE);
    let mode = if makes { flags.mode & !mask } else { 0 };
    let how = OpenHow::new()
        .flags(OFlag::from_bits_retain(flags.flags & KEPT) | OFlag::O_CLOEXEC | OFlag::O_NOCTTY)
        .mode(Mode::from_bits_truncate(mode))
        .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let opened = openat2(AT_FDCWD, path, how)?;
    let kind = SFlag::from_bits_truncate(fstat(&opened)?.st_mode) & SFlag::S_IFMT;
    if kind != SFlag::S_IFREG {
        // From a folder of the host, everything of the host could be reached.
        return Err(io::Error::from_raw_os_error(libc::EACCES));
    }
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;

    fn flags(flags: i32, mode: u32) -> OpenFlags {
        OpenFlags {
            flags,
            mode,
            limited: false,
        }
    }

    fn opened(path: PathBuf, with: OpenFlags, mask: u32) -> io::Result<OwnedFd> {
        std::thread::spawn(move || open(&path, with, mask))
            .join()
            .unwrap()
    }

    #[test]
    fn what_is_made_gets_the_callers_mode() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        let make = libc::O_CREAT | libc::O_WRONLY | libc::O_EXCL;
        for (name, mode, mask, expected) in [("a", 0o666, 0o022, 0o644), ("b", 0o777, 0o077, 0o700)]
        {
            let path = folder.join(name);
            opened(path.clone(), flags(make, mode), mask).unwrap();
            let made = path.metadata().unwrap().permissions().mode();
            assert_eq!(made & 0o7777, expected);
        }
    }

    #[test]
    fn no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        std::fs::create_dir(folder.join("there")).unwrap();
        std::os::unix::fs::symlink("there", folder.join("link")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.join("there/file")).unwrap();
        let make = flags(libc::O_CREAT | libc::O_WRONLY, 0o600);
        for path in ["link/new", "there/file"] {
            let error = opened(folder.join(path), make, 0).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ELOOP), "{path}");
        }
        opened(folder.join("there/new"), make, 0).unwrap();
    }

    #[test]
    fn only_regular_files_are_given() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        for path in [folder.clone(), "/dev/null".into()] {
            let error = opened(path, flags(libc::O_RDONLY, 0), 0).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EACCES));
        }
        let nameless = flags(libc::O_TMPFILE | libc::O_RDWR, 0o600);
        opened(folder, nameless, 0).unwrap();
    }
}
