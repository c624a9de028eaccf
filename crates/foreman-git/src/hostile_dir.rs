//! Walking, defusing and removing folders that a run could write, by descriptor: a symbolic link is never
//! followed, whatever replaces what between a look and a step, and nothing outside is touched.

use crate::GitError;
use crate::deep_stack::on_deep_stack;
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, RenameFlags, openat, readlinkat, renameat2};
use nix::sys::stat::{FchmodatFlags, FileStat, Mode, SFlag, fchmod, fchmodat, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// What a `.git` that a run made is called once its run is over.
pub(crate) const OUT_OF_USE: &str = ".git-out-of-use";

/// The deepest folder that is entered; deeper ones are an error. Each level takes a descriptor, of which a
/// process has 1024 as a rule, and a part of the stack (`deep_stack.rs`).
const DEPTH: usize = 900;

/// What an entry of a folder is.
pub(crate) enum Kind {
    /// A folder; its entries follow.
    Folder,
    /// A regular file, open for reading.
    File(File),
    /// A symbolic link and its target.
    Link(Vec<u8>),
    /// A named pipe.
    Pipe,
    /// A socket or device: no content.
    Other,
}

/// One entry below the walked folder.
pub(crate) struct Entry<'a> {
    /// Path relative to the walked folder; empty for itself.
    pub(crate) path: &'a Path,
    pub(crate) kind: Kind,
    pub(crate) stat: FileStat,
}

fn io(what: &'static str, path: &Path) -> impl FnOnce(Errno) -> GitError {
    GitError::io_errno(what, path)
}

fn open_root(root: &Path) -> Result<Dir, GitError> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    Dir::open(root, flags, Mode::empty())
        .or_else(|errno| match errno {
            Errno::EACCES => {
                let stat = nix::sys::stat::lstat(root)?;
                if kind_bits(&stat) != SFlag::S_IFDIR {
                    return Err(Errno::ENOTDIR);
                }
                let mode = Mode::from_bits_truncate(stat.st_mode) | Mode::S_IRWXU;
                fchmodat(
                    nix::fcntl::AT_FDCWD,
                    root,
                    mode,
                    FchmodatFlags::FollowSymlink,
                )?;
                Dir::open(root, flags, Mode::empty())
            }
            other => Err(other),
        })
        .map_err(io("cannot open", root))
}

fn kind_bits(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
}

fn names(dir: &mut Dir) -> Result<Vec<CString>, Errno> {
    let mut names = Vec::new();
    for entry in dir.iter() {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Calls `each` for `root` itself and everything below it, folders before their entries.
pub(crate) fn walk(
    root: &Path,
    each: &mut dyn FnMut(Entry<'_>) -> Result<(), GitError>,
) -> Result<(), GitError> {
    let dir = open_root(root)?;
    let stat = nix::sys::stat::fstat(&dir).map_err(io("cannot look at", root))?;
    each(Entry {
        path: Path::new(""),
        kind: Kind::Folder,
        stat,
    })?;
    walk_below(root, dir, Path::new(""), 0, each)
}

/// Calls `each` as [`walk`] does, for the folder `below` in `root`: the way there is gone a component at a
/// time from `root`'s descriptor. Gives false, and calls nothing, when something on the way or at its end
/// is not there or no folder, a link to one above all.
pub(crate) fn walk_in(
    root: &Path,
    below: &Path,
    each: &mut dyn FnMut(Entry<'_>) -> Result<(), GitError>,
) -> Result<bool, GitError> {
    let full = root.join(below);
    let mut dir = open_root(root)?;
    for part in below.components() {
        let Component::Normal(part) = part else {
            return Err(io("cannot go down to", &full)(Errno::EINVAL));
        };
        let name = CString::new(part.as_bytes())
            .map_err(|_| io("cannot go down to", &full)(Errno::EINVAL))?;
        let stat = match fstatat(&dir, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) if kind_bits(&stat) == SFlag::S_IFDIR => stat,
            Ok(_) | Err(Errno::ENOENT) => return Ok(false),
            Err(errno) => return Err(io("cannot look at", &full)(errno)),
        };
        dir = match open_inner(&dir, &name, &stat) {
            Ok(inner) => inner,
            Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => return Ok(false),
            Err(errno) => return Err(io("cannot open", &full)(errno)),
        };
    }
    let stat = nix::sys::stat::fstat(&dir).map_err(io("cannot look at", &full))?;
    each(Entry {
        path: Path::new(""),
        kind: Kind::Folder,
        stat,
    })?;
    walk_below(&full, dir, Path::new(""), 0, each)?;
    Ok(true)
}

fn walk_below(
    root: &Path,
    mut dir: Dir,
    below: &Path,
    depth: usize,
    each: &mut dyn FnMut(Entry<'_>) -> Result<(), GitError>,
) -> Result<(), GitError> {
    let here = root.join(below);
    if depth > DEPTH {
        return Err(io("cannot go as deep as", &here)(Errno::ENAMETOOLONG));
    }
    for name in names(&mut dir).map_err(io("cannot read", &here))? {
        let path = below.join(OsStr::from_bytes(name.to_bytes()));
        let full = root.join(&path);
        let stat = match fstatat(&dir, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::ENOENT) => continue,
            Err(errno) => return Err(io("cannot look at", &full)(errno)),
        };
        let kind = kind_bits(&stat);
        if kind == SFlag::S_IFDIR {
            let inner = open_inner(&dir, &name, &stat).map_err(io("cannot open", &full))?;
            each(Entry {
                path: &path,
                kind: Kind::Folder,
                stat,
            })?;
            walk_below(root, inner, &path, depth + 1, each)?;
            continue;
        }
        let kind = match kind {
            SFlag::S_IFREG => {
                Kind::File(open_file(&dir, &name, &stat).map_err(io("cannot open", &full))?)
            }
            SFlag::S_IFLNK => {
                let target = readlinkat(&dir, name.as_c_str()).map_err(io("cannot read", &full))?;
                Kind::Link(target.as_bytes().to_owned())
            }
            SFlag::S_IFIFO => Kind::Pipe,
            _ => Kind::Other,
        };
        each(Entry {
            path: &path,
            kind,
            stat,
        })?;
    }
    Ok(())
}

/// Opens what was seen as a folder; one without permissions is opened by lending them for a moment.
fn open_inner(dir: &Dir, name: &CString, stat: &FileStat) -> Result<Dir, Errno> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    lending(dir, name, stat, Mode::S_IRUSR | Mode::S_IXUSR, || {
        Dir::openat(dir, name.as_c_str(), flags, Mode::empty())
    })
}

fn open_file(dir: &Dir, name: &CString, stat: &FileStat) -> Result<File, Errno> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    lending(dir, name, stat, Mode::S_IRUSR, || {
        openat(dir, name.as_c_str(), flags, Mode::empty()).map(File::from)
    })
}

fn lending<T>(
    dir: &Dir,
    name: &CString,
    stat: &FileStat,
    lent: Mode,
    open: impl Fn() -> Result<T, Errno>,
) -> Result<T, Errno> {
    match open() {
        Err(Errno::EACCES) => {
            let mode = Mode::from_bits_truncate(stat.st_mode);
            fchmodat(
                dir,
                name.as_c_str(),
                mode | lent,
                FchmodatFlags::FollowSymlink,
            )?;
            let opened = open();
            fchmodat(dir, name.as_c_str(), mode, FchmodatFlags::FollowSymlink)?;
            opened
        }
        other => other,
    }
}

/// Gives every entry called `.git` in the folders below `root` (not in `root` itself) another name.
/// Gives the folders that held one, relative to `root`.
pub(crate) fn rename_git_entries(root: &Path) -> Result<Vec<PathBuf>, GitError> {
    let mut found = Vec::new();
    let mut root_dir = open_root(root)?;
    let below = Path::new("");
    for name in names(&mut root_dir).map_err(io("cannot read", root))? {
        rename_below(root, &root_dir, &name, below, 1, &mut found)?;
    }
    Ok(found)
}

fn rename_below(
    root: &Path,
    parent: &Dir,
    name: &CString,
    above: &Path,
    depth: usize,
    found: &mut Vec<PathBuf>,
) -> Result<(), GitError> {
    let below = above.join(OsStr::from_bytes(name.to_bytes()));
    let full = root.join(&below);
    if depth > DEPTH {
        return Err(io("cannot go as deep as", &full)(Errno::ENAMETOOLONG));
    }
    let stat = match fstatat(parent, name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) if kind_bits(&stat) == SFlag::S_IFDIR => stat,
        Ok(_) | Err(Errno::ENOENT) => return Ok(()),
        Err(errno) => return Err(io("cannot look at", &full)(errno)),
    };
    let mut dir = open_inner(parent, name, &stat).map_err(io("cannot open", &full))?;
    for inner in names(&mut dir).map_err(io("cannot read", &full))? {
        let mut inner = inner;
        if inner.to_bytes().eq_ignore_ascii_case(b".git") {
            inner =
                rename_aside(&dir, &inner, &stat).map_err(io("cannot rename .git in", &full))?;
            found.push(below.clone());
        }
        rename_below(root, &dir, &inner, &below, depth + 1, found)?;
    }
    Ok(())
}

/// Renames an entry of `dir` to a name that is free, with permission to write lent for a moment.
fn rename_aside(dir: &Dir, name: &CString, stat: &FileStat) -> Result<CString, Errno> {
    let mode = Mode::from_bits_truncate(stat.st_mode);
    let writable = mode.contains(Mode::S_IWUSR | Mode::S_IXUSR);
    if !writable {
        fchmod(dir, mode | Mode::S_IWUSR | Mode::S_IXUSR)?;
    }
    let renamed = (0..1000).find_map(|number: u32| {
        let new = match number {
            0 => OUT_OF_USE.to_owned(),
            number => format!("{OUT_OF_USE}-{number}"),
        };
        let new = CString::new(new).ok()?;
        let flags = RenameFlags::RENAME_NOREPLACE;
        match renameat2(dir, name.as_c_str(), dir, new.as_c_str(), flags) {
            Err(Errno::EEXIST) => None,
            Err(errno) => Some(Err(errno)),
            Ok(()) => Some(Ok(new)),
        }
    });
    if !writable {
        fchmod(dir, mode)?;
    }
    renamed.unwrap_or(Err(Errno::EEXIST))
}

/// Removes a folder that runs could write, whatever they did to it; without following a link. What is gone is done.
///
/// # Errors
/// [`GitError::BadPlace`] when it is no folder or something is mounted in it; failures of files.
pub fn remove_folder(root: &Path) -> Result<(), GitError> {
    on_deep_stack(|| remove(root))
}

/// Removes `root` and everything below it. When it is gone already, there is nothing to do.
///
/// # Errors
/// Refuses, before anything is removed, when something is mounted below `root`.
pub(crate) fn remove(root: &Path) -> Result<(), GitError> {
    match root.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(GitError::io("cannot look at", root)(error)),
        Ok(meta) if !meta.is_dir() => {
            return Err(GitError::BadPlace {
                path: root.to_owned(),
                why: "it is not a folder, so it is not removed".into(),
            });
        }
        Ok(_) => {}
    }
    if let Some(mount) = mount_below(root) {
        return Err(GitError::BadPlace {
            path: root.to_owned(),
            why: format!(
                "{} is mounted inside, so nothing is removed",
                mount.display()
            ),
        });
    }
    let (Some(parent), Some(name)) = (root.parent(), root.file_name()) else {
        return Err(GitError::BadPlace {
            path: root.to_owned(),
            why: "it is a root".into(),
        });
    };
    let name =
        CString::new(name.as_bytes()).map_err(|_| io("cannot remove", root)(Errno::EINVAL))?;
    let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let parent = Dir::open(parent, flags, Mode::empty()).map_err(io("cannot open", parent))?;
    remove_inner(&parent, &name, root, 0)
}

fn remove_inner(parent: &Dir, name: &CString, full: &Path, depth: usize) -> Result<(), GitError> {
    if depth > DEPTH {
        return Err(io("cannot go as deep as", full)(Errno::ENAMETOOLONG));
    }
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let open = || Dir::openat(parent, name.as_c_str(), flags, Mode::empty());
    let lend = || {
        fchmodat(
            parent,
            name.as_c_str(),
            Mode::S_IRWXU,
            FchmodatFlags::FollowSymlink,
        )
    };
    let mut dir = match open() {
        Err(Errno::EACCES) => lend().and_then(|()| open()),
        other => other,
    }
    .map_err(io("cannot open", full))?;
    for inner in names(&mut dir).map_err(io("cannot read", full))? {
        let path = full.join(OsStr::from_bytes(inner.to_bytes()));
        let unlink = || unlinkat(&dir, inner.as_c_str(), UnlinkatFlags::NoRemoveDir);
        let done = match unlink() {
            // A folder without write permission: it goes anyway.
            Err(Errno::EACCES) => lend().and_then(|()| unlink()),
            other => other,
        };
        match done {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(errno @ (Errno::EISDIR | Errno::EPERM)) => {
                let stat = fstatat(&dir, inner.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW);
                if !stat.is_ok_and(|stat| kind_bits(&stat) == SFlag::S_IFDIR) {
                    return Err(io("cannot remove", &path)(errno));
                }
                remove_inner(&dir, &inner, &path, depth + 1)?;
            }
            Err(errno) => return Err(io("cannot remove", &path)(errno)),
        }
    }
    match unlinkat(parent, name.as_c_str(), UnlinkatFlags::RemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(io("cannot remove", full)(errno)),
    }
}

/// A mount point strictly below `root`, as this process sees it.
fn mount_below(root: &Path) -> Option<PathBuf> {
    let table = std::fs::read("/proc/self/mountinfo").ok()?;
    table.split(|byte| *byte == b'\n').find_map(|line| {
        let field = line.split(|byte| *byte == b' ').nth(4)?;
        let point = PathBuf::from(OsStr::from_bytes(&unescape(field)));
        (point.starts_with(root) && point != root).then_some(point)
    })
}

/// The kernel writes space, tab, newline and backslash as three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut at = 0;
    while at < field.len() {
        let digits = (field[at] == b'\\')
            .then(|| field.get(at + 1..at + 4))
            .flatten();
        match digits.and_then(|d| u8::from_str_radix(std::str::from_utf8(d).ok()?, 8).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 4;
            }
            None => {
                out.push(field[at]);
                at += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn removal_never_leaves_the_folder_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("precious"), "x").unwrap();
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("locked/deep")).unwrap();
        std::os::unix::fs::symlink(&outside, root.join("link")).unwrap();
        std::os::unix::fs::symlink(&outside, root.join("locked/deep/link")).unwrap();
        fs::set_permissions(root.join("locked"), fs::Permissions::from_mode(0o000)).unwrap();
        remove(&root).unwrap();
        assert!(!root.exists());
        assert!(outside.join("precious").exists());
        remove(&root).unwrap();
    }

    #[test]
    fn a_link_in_place_of_the_folder_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("outside");
        fs::create_dir(&outside).unwrap();
        let root = dir.path().join("root");
        std::os::unix::fs::symlink(&outside, &root).unwrap();
        assert!(remove(&root).is_err());
        assert!(outside.exists());
    }

    #[test]
    fn a_link_on_the_way_down_is_never_passed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/file"), "x").unwrap();
        std::os::unix::fs::symlink("a", root.join("link")).unwrap();
        std::os::unix::fs::symlink("b", root.join("a/last")).unwrap();
        let seen = |below: &str| {
            let mut seen = Vec::new();
            let there = walk_in(&root, Path::new(below), &mut |entry| {
                seen.push(entry.path.to_owned());
                Ok(())
            });
            there.map(|there| (there, seen)).ok()
        };
        let whole = vec![PathBuf::new(), PathBuf::from("file")];
        assert_eq!(seen("a/b"), Some((true, whole)));
        for missing in ["link/b", "a/last", "a/b/file", "a/none", "a/b/file/x"] {
            assert_eq!(seen(missing), Some((false, vec![])), "{missing}");
        }
        for bad in ["..", "a/../a", "/etc"] {
            assert_eq!(seen(bad), None, "{bad}");
        }
    }

    #[test]
    fn mount_paths_are_unescaped() {
        assert_eq!(unescape(b"/a\\040b\\012c"), b"/a b\nc");
    }
}
