//! Showing folders and files of the host in a running cage, and hiding them again.
//!
//! The mounts are made by a helper of one thread ([`super::helper`]), because only such a process can enter
//! the cage's user namespace. What is shown is known here by descriptors of the mounts themselves: hiding
//! follows no path, which programs of the cage could have bent meanwhile.

use super::helper::{Answer, Failure, HELPER, Order, Verb, as_characters};
use super::places::is_deep_enough;
use super::view::View;
use crate::{kernel, wire};
use foreman_domain::FileAccess;
use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// How long a helper may take: it is done in milliseconds, unless a file system does not answer.
const HELP_LIMIT: Duration = Duration::from_secs(30);

/// A path could not be shown; nothing of it is seen in the cage.
#[derive(Debug, thiserror::Error)]
pub enum ShowError {
    /// Nothing there is ever shown while a run lasts.
    #[error("{} cannot be shown in a running cage: {why}", .path.display())]
    Closed {
        /// Which path.
        path: PathBuf,
        /// Why, as a sentence without an end.
        why: &'static str,
    },
    /// It would cover what the cage shows in its own way.
    #[error("{} cannot be shown: it would cover {}; choose a narrower folder", .path.display(), .what.display())]
    Covers {
        /// Which path.
        path: PathBuf,
        /// What would be covered.
        what: PathBuf,
    },
    /// It is gone.
    #[error("{} is not there any more", .0.display())]
    Gone(PathBuf),
    /// The path is not free of links.
    #[error("there is a link in {}; what is shown is named without any", .0.display())]
    Linked(PathBuf),
    /// A service of the host listens below it. Can be shown all the same, after a question of its own: see
    /// [`Cage::show_with_sockets`](crate::Cage::show_with_sockets).
    #[error("{} holds the socket {}: whoever reaches it reaches the program behind it", .path.display(), .at.display())]
    Sockets {
        /// Which path.
        path: PathBuf,
        /// The first socket that was found.
        at: PathBuf,
    },
    /// It is neither a folder nor a file.
    #[error("{} is neither a folder nor a file", .0.display())]
    NoFile(PathBuf),
    /// The cage has no place for it.
    #[error("the cage has no place for {}: {why}", .path.display())]
    NoPlace {
        /// Which path.
        path: PathBuf,
        /// Why, as a sentence without an end.
        why: String,
    },
    /// The kernel refused.
    #[error("cannot {what}")]
    Kernel {
        /// What was tried.
        what: String,
        /// Its answer.
        source: io::Error,
    },
    /// The helper could not be asked.
    #[error("the mount helper did not answer")]
    Helper(#[source] io::Error),
}

/// What to do about sockets below a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sockets {
    Refuse,
    Accept,
}

/// What is shown beyond the specification.
#[derive(Debug, Default)]
pub(crate) struct Shown(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    mounts: HashMap<PathBuf, Vec<Mounted>>,
    /// Mount points that were made, with the folders above them.
    made: HashSet<PathBuf>,
}

#[derive(Debug)]
struct Mounted {
    access: FileAccess,
    tree: OwnedFd,
}

impl Table {
    /// The most that is shown at a path, by what is shown there or above.
    fn access_at(&self, path: &Path) -> Option<FileAccess> {
        let above = path.ancestors().filter_map(|above| self.mounts.get(above));
        above.flatten().map(|mounted| mounted.access).max()
    }

    /// Folders below one that may be written, although it itself may not.
    fn writable_below(&self, root: &Path) -> Vec<PathBuf> {
        let below = self.mounts.iter().filter(|(path, mounts)| {
            let writable = mounts.iter().any(|one| one.access == FileAccess::Write);
            writable && path.starts_with(root) && *path != root
        });
        below.map(|(path, _)| path.clone()).collect()
    }
}

impl View {
    /// What is shown beyond the specification, and whether it may be written.
    pub async fn shown(&self) -> Vec<(PathBuf, bool)> {
        let table = self.shown.0.lock().await;
        let writable = |mounts: &[Mounted]| {
            let mut mounts = mounts.iter();
            mounts.any(|mounted| mounted.access == FileAccess::Write)
        };
        let mounts = table.mounts.iter();
        mounts
            .map(|(path, mounts)| (path.clone(), writable(mounts)))
            .collect()
    }

    /// Whether a path could be shown, as far as that is fixed.
    pub fn may_show(&self, root: &Path, access: FileAccess) -> Result<(), ShowError> {
        let path = || root.to_owned();
        let is_plain = root
            .components()
            .all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        if !root.is_absolute() || !is_plain {
            let why = "the path is not an absolute, plain one";
            return Err(ShowError::Closed { path: path(), why });
        }
        if !is_deep_enough(root) {
            let why = "only what lies below a top-level folder can be";
            return Err(ShowError::Closed { path: path(), why });
        }
        if let Some(why) = self.places.why_closed(root, access) {
            return Err(ShowError::Closed { path: path(), why });
        }
        match self.places.covered_by(root) {
            Some(what) => Err(ShowError::Covers { path: path(), what }),
            None => Ok(()),
        }
    }

    /// Shows a path. Done already when it is shown, or a folder above it is. Goes on to its end when the
    /// future is dropped.
    pub async fn show(
        self: &Arc<Self>,
        root: &Path,
        access: FileAccess,
        sockets: Sockets,
    ) -> Result<(), ShowError> {
        self.may_show(root, access)?;
        let (view, root) = (Arc::clone(self), root.to_owned());
        let showing = async move { view.show_now(&root, access, sockets).await };
        tokio::spawn(showing)
            .await
            .unwrap_or_else(|error| Err(ShowError::Helper(io::Error::other(error))))
    }

    async fn show_now(
        &self,
        root: &Path,
        access: FileAccess,
        sockets: Sockets,
    ) -> Result<(), ShowError> {
        if self
            .places
            .shown_by(root)
            .is_some_and(|shown| shown >= access)
        {
            return Ok(());
        }
        let mut table = self.shown.0.lock().await;
        if table.access_at(root).is_some_and(|shown| shown >= access) {
            return Ok(());
        }
        self.mount(&mut table, root, access, sockets).await?;
        // What was shown below it is covered now.
        if access == FileAccess::Read {
            for path in table.writable_below(root) {
                self.mount(&mut table, &path, FileAccess::Write, Sockets::Accept)
                    .await?;
            }
        }
        Ok(())
    }

    async fn mount(
        &self,
        table: &mut Table,
        root: &Path,
        access: FileAccess,
        sockets: Sockets,
    ) -> Result<(), ShowError> {
        let verb = Verb::Show {
            writable: access == FileAccess::Write,
            sockets: sockets == Sockets::Accept,
        };
        let (answer, fds) = self.ask(verb, root, &[]).await?;
        let (Answer::Shown { made }, Some(tree)) = (answer, fds.into_iter().next()) else {
            return Err(ShowError::Helper(io::ErrorKind::InvalidData.into()));
        };
        table
            .made
            .extend(root.ancestors().take(made).map(Path::to_owned));
        let mounts = table.mounts.entry(root.to_owned()).or_default();
        mounts.push(Mounted { access, tree });
        Ok(())
    }

    /// Hides what was shown; whether there was any. What is open stays open.
    pub async fn hide(self: &Arc<Self>, root: &Path) -> Result<bool, ShowError> {
        let (view, root) = (Arc::clone(self), root.to_owned());
        let hiding = async move { view.hide_now(&root).await };
        tokio::spawn(hiding)
            .await
            .unwrap_or_else(|error| Err(ShowError::Helper(io::Error::other(error))))
    }

    async fn hide_now(&self, root: &Path) -> Result<bool, ShowError> {
        let mut table = self.shown.0.lock().await;
        let Some(mounts) = table.mounts.get(root) else {
            return Ok(false);
        };
        let trees: Vec<_> = mounts.iter().map(|mounted| mounted.tree.as_fd()).collect();
        let made = root
            .ancestors()
            .take_while(|path| table.made.contains(*path));
        let verb = Verb::Hide { made: made.count() };
        let (answer, _) = self.ask(verb, root, &trees).await?;
        let Answer::Hidden { removed } = answer else {
            return Err(ShowError::Helper(io::ErrorKind::InvalidData.into()));
        };
        table.mounts.remove(root);
        for path in root.ancestors().take(removed) {
            table.made.remove(path);
        }
        Ok(true)
    }

    /// Makes a link of the host in the cage, where it has nothing there. It leads only to what the cage
    /// shows.
    pub async fn link(&self, link: &Path, target: &Path) -> Result<(), ShowError> {
        // One helper at a time.
        let _table = self.shown.0.lock().await;
        let verb = Verb::Link {
            target: as_characters(target),
        };
        self.ask(verb, link, &[]).await.map(drop)
    }

    async fn ask(
        &self,
        verb: Verb,
        root: &Path,
        trees: &[BorrowedFd<'_>],
    ) -> Result<(Answer, Vec<OwnedFd>), ShowError> {
        let handles = &self.handles;
        let order = Order::new(verb, root, self.identity.host_user(), handles.own.clone());
        let mut fds = vec![
            handles.user.as_fd(),
            handles.mounts.as_fd(),
            handles.root.as_fd(),
        ];
        fds.extend(trees);
        let asked = tokio::time::timeout(HELP_LIMIT, run_helper(&order, &fds)).await;
        let answered = asked.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        match answered.map_err(ShowError::Helper)? {
            (Answer::Failed(failure), _) => Err(explained(failure, root)),
            answer => Ok(answer),
        }
    }
}

fn explained(failure: Failure, root: &Path) -> ShowError {
    let path = root.to_owned();
    match failure {
        Failure::Gone => ShowError::Gone(path),
        Failure::Linked => ShowError::Linked(path),
        Failure::Sockets { at } if at.is_empty() => ShowError::Sockets {
            at: path.clone(),
            path,
        },
        Failure::Sockets { at } => ShowError::Sockets {
            at: root.join(at),
            path,
        },
        Failure::NoFile => ShowError::NoFile(path),
        Failure::NoPlace { why } => ShowError::NoPlace { path, why },
        Failure::Kernel { what, errno } => ShowError::Kernel {
            what,
            source: io::Error::from_raw_os_error(errno),
        },
    }
}

/// Starts this very program once more, as a helper, and has it do one thing.
async fn run_helper(order: &Order, fds: &[BorrowedFd<'_>]) -> io::Result<(Answer, Vec<OwnedFd>)> {
    let (here, there) = wire::pair()?;
    let mut helper = tokio::process::Command::new("/proc/self/exe")
        .arg(HELPER)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(there))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    wire::send(here.as_fd(), order, fds)?;
    kernel::do_not_block(here.as_fd())?;
    let here = kernel::on_runtime(here)?;
    let received = loop {
        let mut readable = here.readable().await?;
        if let Ok(received) = readable.try_io(|here| wire::receive(here.get_ref().as_fd())) {
            break received?;
        }
    };
    helper.wait().await?;
    received.ok_or_else(|| io::Error::other("it ended without a word"))
}
