//! The mount helper: a process of one thread that enters a cage's namespaces, makes or takes one mount,
//! answers and ends.
//!
//! It is this very program, started with [`HELPER`] as its only argument; whoever supervises cages calls
//! [`help`] then, before anything else. It takes its order and the namespaces from its standard input, a
//! socket that only its parent has the other end of.
//!
//! What is shown is opened without following any link, before the cage is entered, with the operator's own
//! rights and none more. Where the supervisor is root, the cage's user may not be able to pass through
//! root's folders: root clones the mount, and then becomes that user.

use crate::kernel::{self, MountFlags};
use crate::wire;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::mount::{MntFlags, umount2};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::stat::{Mode, SFlag, fstat, mkdirat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, setgroups, setresgid, setresuid, symlinkat, unlinkat};
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

/// The argument that makes a program a mount helper.
pub const HELPER: &str = "mount-helper";

/// Entries of a folder tree that are looked at for sockets.
const MOST_ENTRIES: usize = 400_000;

/// What is to be done.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    verb: Verb,
    /// Bytes of the path, each as a character: a path need not be text.
    path: String,
    /// User and group to become, where the supervisor is root.
    host_user: Option<(u32, u32)>,
    /// File systems of the cage's own, where mount points may be made.
    own: Vec<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Verb {
    /// Comes with the cage's user namespace, mount namespace and root.
    Show { writable: bool, sockets: bool },
    /// The same, with the mounts to take away. So many parts at the end of the path were made for them.
    Hide { made: usize },
    /// The same, without mounts: makes a link.
    Link { target: String },
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// Comes with the mount. So many parts at the end of the path were made.
    Shown {
        made: usize,
    },
    /// So many of the parts that were made are gone.
    Hidden {
        removed: usize,
    },
    LinkMade,
    Failed(Failure),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Failure {
    Gone,
    Linked,
    /// By its path from what was to be shown, for the eye.
    Sockets {
        at: String,
    },
    NoFile,
    NoPlace {
        why: String,
    },
    Kernel {
        what: String,
        errno: i32,
    },
}

impl Order {
    pub fn new(verb: Verb, path: &Path, host_user: Option<(u32, u32)>, own: Vec<u64>) -> Self {
        Self {
            verb,
            path: as_characters(path),
            host_user,
            own,
        }
    }

    fn path(&self) -> PathBuf {
        of_characters(&self.path)
    }
}

/// Bytes of a path, each as a character.
pub(super) fn as_characters(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes().iter();
    bytes.map(|byte| char::from(*byte)).collect()
}

fn of_characters(text: &str) -> PathBuf {
    let bytes = text.chars().filter_map(|byte| u8::try_from(byte).ok());
    PathBuf::from(OsString::from_vec(bytes.collect()))
}

/// Is a mount helper. Must be called while the process has one thread.
#[must_use]
pub fn help() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever asked sees the socket close, and says so.
        Err(_) => ExitCode::FAILURE,
    }
}

fn serve() -> io::Result<()> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let Some((order, fds)) = wire::receive::<Order>(socket.as_fd())? else {
        return Ok(());
    };
    let mut fds = fds.into_iter();
    let (Some(user), Some(mounts), Some(root)) = (fds.next(), fds.next(), fds.next()) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let cage = Entrance { user, mounts, root };
    let done = match &order.verb {
        Verb::Show { writable, sockets } => show(&order, &cage, *writable, *sockets)
            .map(|(tree, made)| (Answer::Shown { made }, Some(tree))),
        Verb::Hide { made } => hide(&order, &cage, &fds.collect::<Vec<_>>(), *made)
            .map(|removed| (Answer::Hidden { removed }, None)),
        Verb::Link { target } => {
            link(&order, &cage, &of_characters(target)).map(|()| (Answer::LinkMade, None))
        }
    };
    let (answer, tree) = done.unwrap_or_else(|failure| (Answer::Failed(failure), None));
    let fds: Vec<BorrowedFd<'_>> = tree.iter().map(AsFd::as_fd).collect();
    wire::send(socket.as_fd(), &answer, &fds)
}

/// Where a cage is entered.
struct Entrance {
    user: OwnedFd,
    mounts: OwnedFd,
    root: OwnedFd,
}

impl Entrance {
    fn enter_user(&self) -> Result<(), Failure> {
        setns(&self.user, CloneFlags::CLONE_NEWUSER).or_fail("enter the cage's user namespace")
    }

    fn enter_mounts(&self) -> Result<(), Failure> {
        setns(&self.mounts, CloneFlags::CLONE_NEWNS).or_fail("enter the cage's mount namespace")
    }
}

/// Names what a failing call was to do.
trait OrFail<T> {
    fn or_fail(self, what: &str) -> Result<T, Failure>;
}

impl<T, E: Into<io::Error>> OrFail<T> for Result<T, E> {
    fn or_fail(self, what: &str) -> Result<T, Failure> {
        self.map_err(|error| Failure::Kernel {
            what: what.to_owned(),
            errno: error.into().raw_os_error().unwrap_or(libc::EIO),
        })
    }
}

fn become_user((user, group): (u32, u32)) -> Result<(), Failure> {
    let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
    setgroups(&[])
        .and_then(|()| setresgid(group, group, group))
        .and_then(|()| setresuid(user, user, user))
        .or_fail("become the cage's user")
}

fn show(
    order: &Order,
    cage: &Entrance,
    writable: bool,
    sockets: bool,
) -> Result<(OwnedFd, usize), Failure> {
    let path = order.path();
    let flags = if writable {
        MountFlags::WRITABLE
    } else {
        MountFlags::SEALED
    };
    let source = if let Some(user) = order.host_user {
        let source = Source::open(&path, flags, sockets)?;
        become_user(user)?;
        cage.enter_user()?;
        source
    } else {
        cage.enter_user()?;
        // A copy of the host's mounts that the cage's user namespace owns: there they may be cloned.
        unshare(CloneFlags::CLONE_NEWNS).or_fail("copy the host's mounts")?;
        Source::open(&path, flags, sockets)?
    };
    cage.enter_mounts()?;
    let (point, made) = Point::find(&cage.root, &path, source.is_dir, &order.own)?;
    let attached = kernel::attach_tree_over(source.tree.as_fd(), point.as_fd());
    if attached.is_err() {
        remove(&cage.root, &path, made);
    }
    attached.or_fail("mount it in the cage")?;
    Ok((source.tree, made))
}

/// What is to be shown: a clone of its mounts, attached nowhere.
struct Source {
    tree: OwnedFd,
    is_dir: bool,
}

impl Source {
    fn open(path: &Path, flags: MountFlags, sockets: bool) -> Result<Self, Failure> {
        let how = OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS);
        let at = match openat2(AT_FDCWD, path, how) {
            Err(Errno::ENOENT | Errno::ENOTDIR) => return Err(Failure::Gone),
            Err(Errno::ELOOP) => return Err(Failure::Linked),
            opened => opened.or_fail("open what is to be shown")?,
        };
        let stat = fstat(&at).or_fail("look at what is to be shown")?;
        let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
        let is_dir = kind == SFlag::S_IFDIR;
        match kind {
            SFlag::S_IFDIR if !sockets => {
                if let Some(at) = first_socket(&at)? {
                    let at = at.display().to_string();
                    return Err(Failure::Sockets { at });
                }
            }
            SFlag::S_IFDIR | SFlag::S_IFREG => {}
            SFlag::S_IFSOCK if sockets => {}
            SFlag::S_IFSOCK => return Err(Failure::Sockets { at: String::new() }),
            _ => return Err(Failure::NoFile),
        }
        let tree = kernel::clone_tree(at.as_fd()).or_fail("clone its mounts")?;
        kernel::restrict_tree(tree.as_fd(), flags).or_fail("restrict its mounts")?;
        Ok(Self { tree, is_dir })
    }
}

/// The first socket below an open folder, by its path from there. Folders that this user cannot list are
/// none that the cage's user could.
fn first_socket(top: &OwnedFd) -> Result<Option<PathBuf>, Failure> {
    let top = PathBuf::from(format!("/proc/self/fd/{}", top.as_raw_fd()));
    let mut folders = vec![PathBuf::new()];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        let entries = match std::fs::read_dir(top.join(&folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => continue,
            // Taken away meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error).or_fail("look for sockets in it"),
        };
        for entry in entries {
            let entry = entry.or_fail("look for sockets in it")?;
            let kind = entry.file_type().or_fail("look for sockets in it")?;
            let path = folder.join(entry.file_name());
            if std::os::unix::fs::FileTypeExt::is_socket(&kind) {
                return Ok(Some(path));
            }
            if kind.is_dir() {
                folders.push(path);
            }
            seen += 1;
            if seen > MOST_ENTRIES {
                let why = "it holds too much to be searched for sockets; choose a narrower folder";
                return Err(Failure::NoPlace { why: why.into() });
            }
        }
    }
    Ok(None)
}

/// Looks a path up below an open folder, without following links; an empty one is the folder itself.
fn look(from: &OwnedFd, path: &Path) -> nix::Result<OwnedFd> {
    let resolve = ResolveFlag::RESOLVE_NO_SYMLINKS
        | ResolveFlag::RESOLVE_NO_MAGICLINKS
        | ResolveFlag::RESOLVE_BENEATH;
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    openat2(from, path, OpenHow::new().flags(flags).resolve(resolve))
}

/// A place in the cage where something can be mounted.
struct Point;

impl Point {
    /// Finds it, and makes it where it is missing; how many parts of the path were made.
    fn find(
        root: &OwnedFd,
        path: &Path,
        is_dir: bool,
        own: &[u64],
    ) -> Result<(OwnedFd, usize), Failure> {
        let path = path.strip_prefix("/").unwrap_or(path);
        let made = match look(root, path) {
            Ok(_) => 0,
            Err(Errno::ENOENT) => make(root, path, is_dir, own)?,
            Err(Errno::ELOOP | Errno::ENOTDIR) => {
                let why = "a program of the cage has put a link or a file in the way".to_owned();
                return Err(Failure::NoPlace { why });
            }
            Err(error) => return Err(error).or_fail("look for its place in the cage"),
        };
        let point = look(root, path).or_fail("look for its place in the cage")?;
        let stat = fstat(&point).or_fail("look for its place in the cage")?;
        let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
        if (kind == SFlag::S_IFDIR) != is_dir {
            let why = "a program of the cage has put something else there".to_owned();
            return Err(Failure::NoPlace { why });
        }
        Ok((point, made))
    }
}

/// Makes a link, where there is nothing yet.
fn link(order: &Order, cage: &Entrance, target: &Path) -> Result<(), Failure> {
    if let Some(user) = order.host_user {
        become_user(user)?;
    }
    cage.enter_user()?;
    cage.enter_mounts()?;
    let path = order.path();
    let path = path.strip_prefix("/").unwrap_or(&path);
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::EINVAL).or_fail("make a link");
    };
    if let Err(Errno::ENOENT) = look(&cage.root, folder) {
        make(&cage.root, folder, true, &order.own)?;
    }
    let folder = look(&cage.root, folder).or_fail("make a link")?;
    let folder = writable(&folder, &order.own)?;
    symlinkat(target, &folder, name).or_fail("make a link")
}

/// Makes a path, in a file system of the cage's own, which is read-only where a program sees it.
fn make(root: &OwnedFd, path: &Path, is_dir: bool, own: &[u64]) -> Result<usize, Failure> {
    let (above, rest) = deepest(root, path)?;
    let mut at = writable(&above, own)?;
    let parts: Vec<&OsStr> = rest.components().map(Component::as_os_str).collect();
    for (index, name) in parts.iter().enumerate() {
        let is_last = index + 1 == parts.len();
        if is_dir || !is_last {
            match mkdirat(&at, *name, Mode::from_bits_truncate(0o755)) {
                Ok(()) | Err(Errno::EEXIST) => {}
                Err(error) => return Err(error).or_fail("make its place in the cage"),
            }
        } else {
            let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
            nix::fcntl::openat(&at, *name, flags, Mode::from_bits_truncate(0o644))
                .or_fail("make its place in the cage")?;
        }
        at = look(&at, Path::new(name)).or_fail("make its place in the cage")?;
    }
    Ok(parts.len())
}

/// The deepest folder on the way to a path that is there, and what is missing below it.
fn deepest<'path>(root: &OwnedFd, path: &'path Path) -> Result<(OwnedFd, &'path Path), Failure> {
    for above in path.ancestors().skip(1) {
        match look(root, above) {
            Err(Errno::ENOENT) => {}
            found => {
                let found = found.or_fail("look for its place in the cage")?;
                return Ok((found, path.strip_prefix(above).unwrap_or(path)));
            }
        }
    }
    Err(Errno::ENOENT).or_fail("look for its place in the cage")
}

/// A private, writable view of a folder of the cage's own.
fn writable(folder: &OwnedFd, own: &[u64]) -> Result<OwnedFd, Failure> {
    let device = fstat(folder)
        .or_fail("look for its place in the cage")?
        .st_dev;
    if !own.contains(&device) {
        let why = "nothing is made in a folder of the host".to_owned();
        return Err(Failure::NoPlace { why });
    }
    let clone = kernel::clone_mount(folder.as_fd()).or_fail("reach its place in the cage")?;
    kernel::make_writable(clone.as_fd()).or_fail("reach its place in the cage")?;
    Ok(clone)
}

fn hide(order: &Order, cage: &Entrance, trees: &[OwnedFd], made: usize) -> Result<usize, Failure> {
    // A mount is taken away by its descriptor, which needs the host's /proc.
    let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let descriptors = open("/proc/self/fd", flags, Mode::empty()).or_fail("open /proc/self/fd")?;
    if let Some(user) = order.host_user {
        become_user(user)?;
    }
    cage.enter_user()?;
    cage.enter_mounts()?;
    nix::unistd::fchdir(&descriptors).or_fail("enter /proc/self/fd")?;
    for tree in trees.iter().rev() {
        let name = tree.as_raw_fd().to_string();
        match umount2(name.as_str(), MntFlags::MNT_DETACH) {
            // It went with a mount that it was in.
            Ok(()) | Err(Errno::EINVAL) => {}
            Err(error) => return Err(error).or_fail("take the mount away"),
        }
    }
    Ok(remove(&cage.root, &order.path(), made))
}

/// Removes mount points that were made: up to `most` parts from the end of a path, as long as they are
/// empty. How many are gone.
fn remove(root: &OwnedFd, path: &Path, most: usize) -> usize {
    let path = path.strip_prefix("/").unwrap_or(path);
    let is_gone = |path: &Path| {
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return false;
        };
        let removed = look(root, above).and_then(|above| {
            let clone = kernel::clone_mount(above.as_fd())
                .and_then(|clone| kernel::make_writable(clone.as_fd()).map(|()| clone))
                .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))?;
            unlinkat(&clone, name, UnlinkatFlags::RemoveDir)
                .or_else(|_| unlinkat(&clone, name, UnlinkatFlags::NoRemoveDir))
        });
        matches!(removed, Ok(()) | Err(Errno::ENOENT))
    };
    path.ancestors()
        .take(most)
        .take_while(|path| is_gone(path))
        .count()
}
