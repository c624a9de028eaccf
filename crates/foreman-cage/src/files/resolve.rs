//! What a call is about, as the cage sees it, and whether it is to be asked about.
//!
//! The quick answer is one look at the path through the cage's own root: what is there and on a writable
//! mount is nobody's question. What is missing is looked for link by link, first in the cage and, from
//! where the cage has nothing more, on the host.

use super::calls::{Need, Operand};
use super::judge::Target;
use super::view::{View, place_of};
use crate::census::unescaped;
use foreman_domain::FileAccess;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, OpenHow, ResolveFlag, openat2, readlinkat};
use nix::sys::stat::{FileStat, SFlag, fstat, fstatat};
use nix::sys::statvfs::{FsFlags, fstatvfs};
use nix::unistd::{AccessFlags, access, geteuid};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Links that are followed before it is given up, as the kernel does.
const MOST_LINKS: usize = 40;

/// A call on this is to be asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Blocked {
    pub access: FileAccess,
    /// Free of links, on the host.
    pub path: PathBuf,
    pub target: Target,
    pub need: Need,
    /// A link of the host on the way there, with where it leads: the cage has neither.
    pub link: Option<(PathBuf, PathBuf)>,
}

impl Blocked {
    /// Whether only a view of the folder above lets the call through.
    pub fn needs_folder(&self) -> bool {
        match self.need {
            Need::Open(_) => self.target == Target::Absent,
            Need::Make | Need::Unname | Need::Name => true,
            Need::Change | Need::Own | Need::Execute | Need::Connect => false,
        }
    }
}

/// One look at a path.
enum Step {
    /// Nobody is to be asked: it is let through, or the kernel's own refusal stands.
    Free,
    /// This is in the way, or missing.
    At(PathBuf),
    /// A link leads here.
    Elsewhere(PathBuf),
}

/// Finds out whether a call with this operand, at this absolute path, is to be asked about.
pub(crate) fn blocked(view: &View, path: &Path, operand: Operand) -> Option<Blocked> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        if is_of_the_kernel(&path) {
            return None;
        }
        match look(view, &path, operand) {
            Step::Free => return None,
            Step::At(place) => return on_host(view, &place, operand),
            Step::Elsewhere(next) => path = next,
        }
    }
    None
}

/// Finds out whether a connection to a socket at this absolute path is to be asked about.
pub(crate) fn blocked_socket(view: &View, path: &Path) -> Option<Blocked> {
    let operand = Operand {
        folder: libc::AT_FDCWD,
        path: 0,
        follow: true,
        need: Need::Connect,
    };
    blocked(view, path, operand)
}

/// Below what is never held, by its text: the links there lead somewhere else for every process.
fn is_of_the_kernel(path: &Path) -> bool {
    ["/proc", "/sys", "/dev"]
        .iter()
        .any(|of| path.starts_with(of))
}

fn look(view: &View, path: &Path, operand: Operand) -> Step {
    match operand.need {
        Need::Make | Need::Unname | Need::Name => look_for_name(view, path, operand.need),
        Need::Open(_) | Need::Change | Need::Own | Need::Execute | Need::Connect => {
            match view.look(path, operand.follow) {
                Ok(found) => look_at(&found, operand.need),
                Err(Errno::ENOENT) => look_above(view, path, operand),
                Err(_) => Step::Free,
            }
        }
    }
}

/// It is there.
fn look_at(found: &OwnedFd, need: Need) -> Step {
    if need == Need::Connect {
        // One of the cage's own. What is something else may cover one of the host: see `socket_cover`.
        return match fstat(found) {
            Ok(stat) if kind(&stat) == SFlag::S_IFSOCK => Step::Free,
            _ => place_of(found).map_or(Step::Free, Step::At),
        };
    }
    if need.access() == FileAccess::Read {
        return Step::Free;
    }
    if !is_read_only(found) {
        return Step::Free;
    }
    let Ok(stat) = fstat(found) else {
        return Step::Free;
    };
    let is_right_kind = match need {
        Need::Open(flags) if flags.has(libc::O_TMPFILE) => kind(&stat) == SFlag::S_IFDIR,
        Need::Open(_) => kind(&stat) == SFlag::S_IFREG,
        // What goes through a device, socket or pipe is not written to where it lies.
        _ => matches!(
            kind(&stat),
            SFlag::S_IFREG | SFlag::S_IFDIR | SFlag::S_IFLNK
        ),
    };
    if !is_right_kind {
        return Step::Free;
    }
    place_of(found).map_or(Step::Free, Step::At)
}

/// It is not there: is it the last name only?
fn look_above(view: &View, path: &Path, operand: Operand) -> Step {
    let Some((folder, name)) = split(path) else {
        return Step::Free;
    };
    let at = match view.look(folder, true) {
        Ok(at) => at,
        Err(Errno::ENOENT) => return look_further_above(view, path),
        Err(_) => return Step::Free,
    };
    let Some(place) = place_of(&at) else {
        return Step::Free;
    };
    if operand.follow
        && let Ok(target) = readlinkat(&at, name)
    {
        return Step::Elsewhere(place.join(target));
    }
    let makes = matches!(operand.need, Need::Open(flags) if flags.has(libc::O_CREAT));
    if makes && !is_read_only(&at) {
        return Step::Free;
    }
    Step::At(place.join(name))
}

/// A name in a folder is made, taken or given.
fn look_for_name(view: &View, path: &Path, need: Need) -> Step {
    let Some((folder, name)) = split(path) else {
        return Step::Free;
    };
    let at = match view.look(folder, true) {
        Ok(at) => at,
        Err(Errno::ENOENT) => return look_further_above(view, path),
        Err(_) => return Step::Free,
    };
    let is_there = || fstatat(&at, name, AtFlags::AT_SYMLINK_NOFOLLOW).is_ok();
    let is_free = match (need, is_read_only(&at)) {
        // What is hidden may be meant.
        (Need::Unname, false) => is_there(),
        (Need::Make, true) => is_there(),
        (_, read_only) => !read_only,
    };
    match place_of(&at) {
        Some(place) if !is_free => Step::At(place.join(name)),
        _ => Step::Free,
    }
}

/// Not even the folder is there: goes up to one that is.
fn look_further_above(view: &View, path: &Path) -> Step {
    for above in path.ancestors().skip(2) {
        let at = match view.look(above, true) {
            Ok(at) => at,
            Err(Errno::ENOENT) => continue,
            Err(_) => return Step::Free,
        };
        let (Ok(rest), Some(place)) = (path.strip_prefix(above), place_of(&at)) else {
            return Step::Free;
        };
        let mut rest = rest.components();
        let Some(next) = rest.next() else {
            return Step::Free;
        };
        return match readlinkat(&at, next.as_os_str()) {
            Ok(target) => Step::Elsewhere(place.join(target).join(rest)),
            Err(_) => Step::At(place.join(next).join(rest)),
        };
    }
    Step::Free
}

/// Folder and last name of a path; nothing for what names no entry of a folder.
fn split(path: &Path) -> Option<(&Path, &OsStr)> {
    Some((path.parent()?, path.file_name()?))
}

fn kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
}

fn is_read_only(at: &OwnedFd) -> bool {
    fstatvfs(at).is_ok_and(|figures| figures.flags().contains(FsFlags::ST_RDONLY))
}

/// Whether what the cage refuses at this place could be done on the host, and is not closed for good.
fn on_host(view: &View, place: &Path, operand: Operand) -> Option<Blocked> {
    let access = operand.need.access();
    let is_open = |path: &Path| {
        let may_be = match operand.need {
            // Nothing is shown for it, so what the cage shows there does not matter.
            Need::Connect => !super::places::is_the_cages_own(path),
            _ => {
                view.places.why_closed(path, access).is_none()
                    && super::places::is_deep_enough(path)
            }
        };
        may_be && !is_of_the_kernel(path)
    };
    // By what it is called first: nothing is even looked at below what is closed.
    let parts_up = place.components().any(|part| part.as_os_str() == "..");
    if !parts_up && !is_open(place) {
        return None;
    }
    let (folder, name) = split(place)?;
    if looking_mounts(place, folder) {
        return None;
    }
    let mut path = folder.canonicalize().ok()?.join(name);
    if operand.follow && path.is_symlink() {
        path = path.canonicalize().ok()?;
    }
    if !is_open(&path) || (operand.need != Need::Connect && !has_top(view, &path)) {
        return None;
    }
    // A way that changes while it is looked at can end where the run may write anyway: that is nobody's question, and
    // the kernel's answer stands.
    if operand.need != Need::Connect && view.places.shown_by(&path) == Some(FileAccess::Write) {
        return None;
    }
    let target = possible(&path, operand.need)?;
    let link = (path != place).then(|| first_link(place)).flatten();
    Some(Blocked {
        access,
        path,
        target,
        need: operand.need,
        link,
    })
}

/// Whether looking for a path on the host could have something mounted: a cage must not have this machine
/// ask a file server whose name the cage chose.
fn looking_mounts(place: &Path, folder: &Path) -> bool {
    // Where that cannot be told, nothing is looked for.
    let Ok(table) = std::fs::read_to_string("/proc/self/mountinfo") else {
        return true;
    };
    let points = automounts(&table);
    if points.is_empty() {
        return false;
    }
    if points.iter().any(|point| place.starts_with(point)) {
        return true;
    }
    // A link could lead there, too.
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
    matches!(openat2(AT_FDCWD, folder, how), Err(Errno::ELOOP)) || place.is_symlink()
}

/// Folders below which looking mounts, by the kernel's table of mounts.
fn automounts(table: &str) -> Vec<PathBuf> {
    let automatic = table.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let point = left.split(' ').nth(4)?;
        right
            .starts_with("autofs ")
            .then(|| PathBuf::from(unescaped(point)))
    });
    automatic.filter(|point| !is_of_the_kernel(point)).collect()
}

/// The first link of the host on the way to a path, with where it leads in the end.
fn first_link(path: &Path) -> Option<(PathBuf, PathBuf)> {
    let mut way: Vec<&Path> = path.ancestors().collect();
    way.reverse();
    let link = way.into_iter().find(|part| part.is_symlink())?;
    Some((link.to_owned(), link.canonicalize().ok()?))
}

/// Whether the cage has the top-level folder that something is below: no other can be made.
fn has_top(view: &View, path: &Path) -> bool {
    let mut parts = path.components();
    let top: PathBuf = parts.by_ref().take(2).collect();
    view.look(&top, false)
        .is_ok_and(|top| fstat(&top).is_ok_and(|stat| kind(&stat) == SFlag::S_IFDIR))
}

/// What is at a place of the host, if the operator's own account could do there what is needed.
fn possible(path: &Path, need: Need) -> Option<Target> {
    let stat = fstatat(AT_FDCWD, path, AtFlags::AT_SYMLINK_NOFOLLOW).ok();
    let target = match stat.as_ref().map(kind) {
        None => Target::Absent,
        Some(SFlag::S_IFREG) => Target::File,
        Some(SFlag::S_IFDIR) => Target::Folder,
        Some(_) => Target::Other,
    };
    let may = |path: &Path, how: AccessFlags| access(path, how).is_ok();
    let folder_may_change = || {
        let folder = path.parent();
        folder.is_some_and(|folder| may(folder, AccessFlags::W_OK | AccessFlags::X_OK))
    };
    let is_possible = match need {
        Need::Open(flags) => match target {
            Target::Absent => flags.has(libc::O_CREAT) && folder_may_change(),
            Target::File => {
                let reads = flags.flags & libc::O_ACCMODE != libc::O_WRONLY;
                let writes = flags.access() == FileAccess::Write;
                (!reads || may(path, AccessFlags::R_OK))
                    && (!writes || may(path, AccessFlags::W_OK))
            }
            Target::Folder if flags.has(libc::O_TMPFILE) => {
                may(path, AccessFlags::W_OK | AccessFlags::X_OK)
            }
            Target::Folder => flags.access() == FileAccess::Read && may(path, AccessFlags::R_OK),
            // It could be shown, but nothing that is behind it.
            Target::Other => false,
        },
        Need::Make | Need::Name => folder_may_change(),
        Need::Unname => target != Target::Absent && folder_may_change(),
        Need::Change => target != Target::Absent && may(path, AccessFlags::W_OK),
        Need::Own => stat.is_some_and(|stat| {
            let own = geteuid();
            own.is_root() || stat.st_uid == own.as_raw()
        }),
        Need::Execute => target == Target::File && may(path, AccessFlags::X_OK),
        Need::Connect => {
            let is_socket = |stat| kind(stat) == SFlag::S_IFSOCK;
            stat.as_ref().is_some_and(is_socket) && may(path, AccessFlags::W_OK)
        }
    };
    is_possible.then_some(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_are_mounted_by_looking_are_known() {
        let table = "24 1 0:22 / /proc rw - proc proc rw\n\
            30 24 0:30 / /proc/sys/fs/binfmt_misc rw - autofs systemd-1 rw\n\
            31 1 0:31 / /net rw shared:9 - autofs -hosts rw,indirect\n\
            32 1 0:32 / /home/op/far\\040away rw - autofs map rw\n\
            33 1 8:1 / / rw - ext4 /dev/sda1 rw\n";
        let expected = ["/net", "/home/op/far away"].map(PathBuf::from);
        assert_eq!(automounts(table), expected);
    }
}
