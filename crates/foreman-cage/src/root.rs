//! The cage's file tree: built on a new, empty root, then made the only one.
//!
//! Invariants when [`build`] has returned: the host's root is detached; what is seen of the host is
//! the system's directories (read-only), the allowed part of `/etc`, six device nodes and the
//! binds of the specification; `/`, `/dev` and the delicate parts of `/proc` are read-only; nothing
//! of it is setuid. Runs in process 1, in the cage's mount and process namespaces, with all
//! capabilities over the first.

use crate::identity::Identity;
use crate::kernel::{self, MountFlags, c_path};
use crate::sources::{Source, Sources};
use crate::wire::{During, Failed};
use crate::{CageSpec, Step, devices, etc_view, proc_view, socket_cover};
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::{Mode, fstat, mkdirat};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Component, Path, PathBuf};

/// Directories of the system, seen read-only at their own paths. Links among them are made again.
pub(crate) const SYSTEM: [&str; 9] = [
    "usr",
    "bin",
    "sbin",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "opt",
    "nix/store",
];

/// Where the socket of `foreman why` is.
pub(crate) const WHY_SOCKET: &str = "/run/foreman/why.sock";

/// What process 1 keeps of the file tree.
#[derive(Debug)]
pub(crate) struct Built {
    /// Listener of `/run/foreman/why.sock`, not blocking.
    pub why: UnixListener,
    /// The cage's `/proc`.
    pub proc: OwnedFd,
    /// `/proc/sys/user` as it is without the read-only cover.
    pub namespace_limits: OwnedFd,
    /// Device numbers of the host's own directories, to prove that they are gone.
    pub host: HostPlaces,
    /// The cage's root, as a path only.
    pub root: OwnedFd,
    /// The namespaces that own and hold its mounts.
    pub user_namespace: OwnedFd,
    pub mount_namespace: OwnedFd,
    /// File systems that are the cage's own.
    pub own: Vec<u64>,
}

/// Where the host's private places were, by (device, inode).
#[derive(Debug, Clone, Default)]
pub(crate) struct HostPlaces(pub Vec<(PathBuf, (u64, u64))>);

/// The new root while it is built: mounted somewhere in the old one.
pub(crate) struct NewRoot {
    base: PathBuf,
    fd: OwnedFd,
    /// File systems that are ours, where mount points may be made.
    own: Vec<u64>,
}

/// Builds the tree and moves into it.
pub(crate) fn build(
    spec: &CageSpec,
    identity: Identity,
    sources: Sources,
) -> Result<Built, Failed> {
    let host = host_places(spec);
    mount(
        None::<&str>,
        "/",
        None::<&str>,
        MsFlags::MS_REC | MsFlags::MS_PRIVATE,
        None::<&str>,
    )
    .during(Step::NewRoot, || "making all mounts private".into())?;
    let mut root = NewRoot::mount()?;
    root.show_system().during(Step::SystemDirs, String::new)?;
    etc_view::build(&root, spec, identity)?;
    socket_cover::build(&root).during(Step::SystemDirs, || "covering sockets".into())?;
    root.make_private_dirs(spec)?;
    let hidden = root.hide(spec)?;
    devices::build(&root)?;
    let proc = proc_view::build(&root)?;
    let why = root.make_why(&sources.why_program)?;
    for source in &sources.binds {
        root.place(source).during(Step::PlaceBind, || {
            format!("at {}", source.target.display())
        })?;
    }
    for path in hidden {
        kernel::restrict_mount(
            &c_path(&path).during(Step::PlaceBind, String::new)?,
            MountFlags::READ_ONLY,
        )
        .during(Step::PlaceBind, || path.display().to_string())?;
    }
    let own = root.own.clone();
    root.enter().during(Step::Pivot, String::new)?;
    let handle = |path: &str, flags| {
        open(path, flags | OFlag::O_CLOEXEC, Mode::empty()).during(Step::Pivot, || path.to_owned())
    };
    Ok(Built {
        why,
        proc: proc.dir,
        namespace_limits: proc.namespace_limits,
        host,
        root: handle("/", OFlag::O_PATH | OFlag::O_DIRECTORY)?,
        user_namespace: handle("/proc/self/ns/user", OFlag::O_RDONLY)?,
        mount_namespace: handle("/proc/self/ns/mnt", OFlag::O_RDONLY)?,
        own,
    })
}

impl NewRoot {
    /// Mounts an empty file system on whatever directory there is.
    fn mount() -> Result<Self, Failed> {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        let options = Some("mode=0755,size=16m,nr_inodes=16k");
        let mut answer = nix::Error::ENOENT;
        for base in ["/tmp", "/run", "/mnt", "/var"] {
            match mount(Some("cage"), base, Some("tmpfs"), flags, options) {
                Ok(()) => return Self::open(base).during(Step::NewRoot, || base.into()),
                Err(error) => answer = error,
            }
        }
        Err(answer).during(Step::NewRoot, || "mounting tmpfs".into())
    }

    fn open(base: &str) -> io::Result<Self> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let fd = open(base, flags, Mode::empty())?;
        let own = vec![fstat(&fd)?.st_dev];
        Ok(Self {
            base: base.into(),
            fd,
            own,
        })
    }

    /// Where a path of the cage is while the root is not yet entered. For our own directories only:
    /// it follows links.
    pub fn at(&self, path: &str) -> PathBuf {
        self.base.join(path.trim_start_matches('/'))
    }

    /// The same for any absolute path.
    pub fn below(&self, path: &Path) -> PathBuf {
        self.base.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Shows the system's directories, and makes an empty one for every other top-level directory,
    /// where a later live mount may need it.
    fn show_system(&self) -> io::Result<()> {
        for name in SYSTEM {
            let host = Path::new("/").join(name);
            let Ok(seen) = host.symlink_metadata() else {
                continue;
            };
            if seen.is_symlink() && is_system(&host.canonicalize()?) {
                symlink(std::fs::read_link(&host)?, self.at(name))?;
                continue;
            }
            let here = self.at(name);
            make_dirs(&here)?;
            self.show(&host, &here)?;
        }
        for entry in std::fs::read_dir("/")? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                make_dir(&self.base.join(entry.file_name()))?;
            }
        }
        for name in [
            "etc", "var", "run", "proc", "sys", "dev", "tmp", "home", "mnt", "root", "srv",
        ] {
            make_dir(&self.at(name))?;
        }
        Ok(())
    }

    /// Shows a directory or file of the host, sealed, over what is there already.
    pub fn show(&self, host: &Path, here: &Path) -> io::Result<()> {
        let tree = kernel::clone_tree_at(&c_path(host)?)?;
        kernel::restrict_tree(tree.as_fd(), MountFlags::SEALED)?;
        kernel::attach_tree(tree.as_fd(), &c_path(here)?)
    }

    /// The home and the directories for scratch files: empty, writable, limited.
    fn make_private_dirs(&mut self, spec: &CageSpec) -> Result<(), Failed> {
        let mut dirs = vec![
            (spec.home.clone(), "mode=0700,size=20%,nr_inodes=1m"),
            (PathBuf::from("/tmp"), "mode=1777,size=20%,nr_inodes=1m"),
            (
                PathBuf::from("/var/tmp"),
                "mode=1777,size=5%,nr_inodes=200k",
            ),
        ];
        dirs.sort_by_key(|(path, _)| path.components().count());
        dirs.dedup_by(|later, earlier| later.0 == earlier.0);
        for (path, options) in dirs {
            self.mount_private(&path, options)
                .during(Step::NewRoot, || path.display().to_string())?;
        }
        Ok(())
    }

    /// Covers what is to be hidden and would be seen with an empty directory. Gives where.
    fn hide(&mut self, spec: &CageSpec) -> Result<Vec<PathBuf>, Failed> {
        let seen = |path: &&PathBuf| is_system(path) && path.is_dir();
        let mut covered = Vec::new();
        for path in spec.hidden.iter().filter(seen) {
            self.mount_private(path, "mode=0755,size=256k,nr_inodes=1k")
                .during(Step::NewRoot, || path.display().to_string())?;
            covered.push(self.below(path));
        }
        Ok(covered)
    }

    fn mount_private(&mut self, path: &Path, options: &str) -> io::Result<()> {
        self.mount_point(path, true)?;
        // The way there is made of our own directories, or was just found free of links.
        let here = self.below(path);
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("cage"), &here, Some("tmpfs"), flags, Some(options))?;
        self.own
            .push(fstat(&open(&here, OFlag::O_PATH, Mode::empty())?)?.st_dev);
        Ok(())
    }

    /// `/run/foreman`: the program and the socket of `foreman why`.
    fn make_why(&self, program: &Source) -> Result<UnixListener, Failed> {
        self.place(program)
            .during(Step::WhySocket, || program.target.display().to_string())?;
        let path = self.at(WHY_SOCKET);
        let listen = || {
            let listener = UnixListener::bind(&path)?;
            listener.set_nonblocking(true)?;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
            Ok::<_, io::Error>(listener)
        };
        listen().during(Step::WhySocket, || WHY_SOCKET.into())
    }

    /// Attaches a source at its target.
    fn place(&self, source: &Source) -> io::Result<()> {
        let point = self.mount_point(&source.target, source.is_dir)?;
        kernel::attach_tree_over(source.tree.as_fd(), point.as_fd())
    }

    /// Opens a path inside without following links, and makes it where it is missing. Never makes
    /// anything in a directory of the host.
    fn mount_point(&self, path: &Path, is_dir: bool) -> io::Result<OwnedFd> {
        let path = path
            .strip_prefix("/")
            .map_err(|_| io::ErrorKind::InvalidInput)?;
        match self.look(&self.fd, path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found,
        }
        let mut at = self.fd.try_clone()?;
        let mut parts = path.components().peekable();
        while let Some(part) = parts.next() {
            let Component::Normal(name) = part else {
                return Err(io::ErrorKind::InvalidInput.into());
            };
            let name = Path::new(name);
            at = match self.look(&at, name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    if !self.own.contains(&fstat(&at)?.st_dev) {
                        return Err(io::Error::other(
                            "the directory does not exist, and none is made in a directory of the host",
                        ));
                    }
                    if is_dir || parts.peek().is_some() {
                        mkdirat(&at, name, Mode::from_bits_truncate(0o755))?;
                    } else {
                        let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY;
                        let mode = Mode::from_bits_truncate(0o644);
                        nix::fcntl::openat(&at, name, flags | OFlag::O_CLOEXEC, mode)?;
                    }
                    self.look(&at, name)?
                }
                found => found?,
            };
        }
        Ok(at)
    }

    fn look(&self, from: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
        let resolve = ResolveFlag::RESOLVE_NO_SYMLINKS
            | ResolveFlag::RESOLVE_NO_MAGICLINKS
            | ResolveFlag::RESOLVE_BENEATH;
        let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
        Ok(openat2(
            from,
            path,
            OpenHow::new().flags(flags).resolve(resolve),
        )?)
    }

    /// Makes the new root the only one, and read-only.
    fn enter(self) -> io::Result<()> {
        nix::unistd::fchdir(&self.fd)?;
        kernel::pivot_here()?;
        umount2(".", MntFlags::MNT_DETACH)?;
        nix::unistd::chdir("/")?;
        kernel::restrict_mount(c"/", MountFlags::READ_ONLY)?;
        kernel::restrict_mount(c"/dev", MountFlags::READ_ONLY)
    }
}

/// Whether a path of the host is in a directory that every cage shows.
#[must_use]
pub fn is_system(path: &Path) -> bool {
    path.strip_prefix("/")
        .is_ok_and(|path| SYSTEM.iter().any(|name| path.starts_with(name)))
}

pub(crate) fn make_dir(path: &Path) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(0o755).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

pub(crate) fn make_dirs(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new()
        .mode(0o755)
        .recursive(true)
        .create(path)
}

fn host_places(spec: &CageSpec) -> HostPlaces {
    let names = [
        "/", "/tmp", "/var/tmp", "/run", "/home", "/root", "/etc", "/dev", "/var", "/mnt",
    ];
    let places = names.iter().map(PathBuf::from).chain([spec.home.clone()]);
    let seen = places.filter(|place| !spec.binds.iter().any(|bind| bind.target == *place));
    let found = seen.filter_map(|place| {
        let at = place.metadata().ok()?;
        Some((place, (at.dev(), at.ino())))
    });
    HostPlaces(found.collect())
}
