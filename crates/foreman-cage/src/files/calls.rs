//! The calls that wait for an answer, and what each is about.

use crate::kernel::Notification;
use foreman_domain::FileAccess;

/// What a call needs of the place that a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// To open what is there.
    Open(OpenFlags),
    /// To make a name in a folder, where there must be none yet.
    Make,
    /// To take a name out of a folder, or to give it to something else.
    Unname,
    /// To put something under a name, whether it is taken or not.
    Name,
    /// To change what is there, as its writer.
    Change,
    /// To change what is there, as its owner.
    Own,
    /// To execute what is there.
    Execute,
    /// To connect to the socket that is there.
    Connect,
}

/// Flags and mode of an open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenFlags {
    pub flags: i32,
    pub mode: u32,
    /// Whether the caller limited how the path may be followed, which no other open can make good for.
    pub limited: bool,
}

impl OpenFlags {
    pub fn has(self, flag: i32) -> bool {
        self.flags & flag == flag
    }

    /// What it wants.
    pub fn access(self) -> FileAccess {
        let writes = self.flags & libc::O_ACCMODE != libc::O_RDONLY;
        if writes || self.flags & (libc::O_CREAT | libc::O_TRUNC) != 0 {
            FileAccess::Write
        } else {
            FileAccess::Read
        }
    }
}

impl Need {
    pub fn access(self) -> FileAccess {
        match self {
            Self::Open(flags) => flags.access(),
            Self::Execute | Self::Connect => FileAccess::Read,
            Self::Make | Self::Unname | Self::Name | Self::Change | Self::Own => FileAccess::Write,
        }
    }
}

/// One path of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Operand {
    /// Folder that a relative path starts from: a descriptor of the caller, or `AT_FDCWD`.
    pub folder: i32,
    /// Where in the caller's memory the path is.
    pub path: u64,
    /// Whether a link at its end is followed.
    pub follow: bool,
    pub need: Need,
}

/// A call that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    pub name: &'static str,
    /// One, or two for those that rename.
    pub operands: [Option<Operand>; 2],
}

/// How the arguments of a call are laid out.
#[derive(Clone, Copy)]
enum Shape {
    /// `(path, flags, mode)`
    Open,
    /// `(folder, path, flags, mode)`
    OpenAt,
    /// `(folder, path, how, size)`
    OpenAt2,
    /// `(path, mode)`
    Creat,
    /// `(path, …)`
    Path(Need, bool),
    /// `(folder, path, …)`
    At(Need, bool),
    /// `(folder, path, …)`, with the flags of the call in this argument.
    Flagged(Need, usize),
    /// `(…, path)` at this argument.
    Second(Need),
    /// `(…, folder, path)` at these arguments.
    SecondAt(Need, usize),
    /// `(old, new)`
    Rename,
    /// `(folder, old, folder, new)`
    RenameAt,
    /// `(path, argv, env)`
    Exec,
    /// `(folder, path, argv, env, flags)`
    ExecAt,
}

// Newer than the C library's list.
const SETXATTRAT: i64 = 463;
const REMOVEXATTRAT: i64 = 466;
const FILE_SETATTR: i64 = 469;

const CALLS: &[(i64, &str, Shape)] = &[
    (libc::SYS_openat, "openat", Shape::OpenAt),
    (libc::SYS_openat2, "openat2", Shape::OpenAt2),
    (libc::SYS_execve, "execve", Shape::Exec),
    (libc::SYS_execveat, "execveat", Shape::ExecAt),
    (libc::SYS_mkdirat, "mkdirat", Shape::At(Need::Make, false)),
    (libc::SYS_mknodat, "mknodat", Shape::At(Need::Make, false)),
    (
        libc::SYS_unlinkat,
        "unlinkat",
        Shape::At(Need::Unname, false),
    ),
    (libc::SYS_renameat2, "renameat2", Shape::RenameAt),
    (libc::SYS_linkat, "linkat", Shape::SecondAt(Need::Make, 2)),
    (
        libc::SYS_symlinkat,
        "symlinkat",
        Shape::SecondAt(Need::Make, 1),
    ),
    (
        libc::SYS_truncate,
        "truncate",
        Shape::Path(Need::Change, true),
    ),
    (libc::SYS_fchmodat, "fchmodat", Shape::At(Need::Own, true)),
    (
        libc::SYS_fchmodat2,
        "fchmodat2",
        Shape::Flagged(Need::Own, 3),
    ),
    (libc::SYS_fchownat, "fchownat", Shape::Flagged(Need::Own, 4)),
    (
        libc::SYS_utimensat,
        "utimensat",
        Shape::Flagged(Need::Own, 3),
    ),
    (
        libc::SYS_setxattr,
        "setxattr",
        Shape::Path(Need::Change, true),
    ),
    (
        libc::SYS_lsetxattr,
        "lsetxattr",
        Shape::Path(Need::Change, false),
    ),
    (
        libc::SYS_removexattr,
        "removexattr",
        Shape::Path(Need::Change, true),
    ),
    (
        libc::SYS_lremovexattr,
        "lremovexattr",
        Shape::Path(Need::Change, false),
    ),
    (SETXATTRAT, "setxattrat", Shape::Flagged(Need::Change, 2)),
    (
        REMOVEXATTRAT,
        "removexattrat",
        Shape::Flagged(Need::Change, 2),
    ),
    (FILE_SETATTR, "file_setattr", Shape::Flagged(Need::Own, 4)),
];

/// Calls that only this architecture still has.
#[cfg(target_arch = "x86_64")]
const OLD_CALLS: &[(i64, &str, Shape)] = &[
    (libc::SYS_open, "open", Shape::Open),
    (libc::SYS_creat, "creat", Shape::Creat),
    (libc::SYS_mkdir, "mkdir", Shape::Path(Need::Make, false)),
    (libc::SYS_mknod, "mknod", Shape::Path(Need::Make, false)),
    (libc::SYS_rmdir, "rmdir", Shape::Path(Need::Unname, false)),
    (libc::SYS_unlink, "unlink", Shape::Path(Need::Unname, false)),
    (libc::SYS_rename, "rename", Shape::Rename),
    (libc::SYS_renameat, "renameat", Shape::RenameAt),
    (libc::SYS_link, "link", Shape::Second(Need::Make)),
    (libc::SYS_symlink, "symlink", Shape::Second(Need::Make)),
    (libc::SYS_chmod, "chmod", Shape::Path(Need::Own, true)),
    (libc::SYS_chown, "chown", Shape::Path(Need::Own, true)),
    (libc::SYS_lchown, "lchown", Shape::Path(Need::Own, false)),
    (libc::SYS_utime, "utime", Shape::Path(Need::Own, true)),
    (libc::SYS_utimes, "utimes", Shape::Path(Need::Own, true)),
    (libc::SYS_futimesat, "futimesat", Shape::At(Need::Own, true)),
];
#[cfg(target_arch = "aarch64")]
const OLD_CALLS: &[(i64, &str, Shape)] = &[(libc::SYS_renameat, "renameat", Shape::RenameAt)];

/// Every call that waits.
pub(crate) fn numbers() -> impl Iterator<Item = i64> {
    CALLS.iter().chain(OLD_CALLS).map(|(number, ..)| *number)
}

/// Where a program's arguments are, when the call executes one.
pub(crate) fn arguments_of_exec(call: &Notification) -> Option<u64> {
    match call.number() {
        libc::SYS_execve => Some(call.argument(1)),
        libc::SYS_execveat => Some(call.argument(2)),
        _ => None,
    }
}

/// What a call is about; nothing when it is none of those that wait. `how` reads the structure of an
/// `openat2`: flags, mode, limits.
pub(crate) fn decode(
    call: &Notification,
    how: impl FnOnce(u64, u64) -> Option<[u64; 3]>,
) -> Option<Call> {
    let known = CALLS.iter().chain(OLD_CALLS);
    let (_, name, shape) = known
        .copied()
        .find(|(number, ..)| *number == call.number())?;
    let at = |index: usize| call.argument(index);
    // Descriptors and flags are the low half of an argument, whatever the rest says.
    let low = |index: usize| at(index) as u32 as i32;
    let cwd = libc::AT_FDCWD;
    let operand = |folder, path, follow, need| Operand {
        folder,
        path,
        follow,
        need,
    };
    let one = |operand| [Some(operand), None];
    let open = |folder, path, flags: i32, mode: u64, limited| {
        if flags & libc::O_PATH != 0 {
            // Neither reads nor writes, whatever else it asks for.
            return [None, None];
        }
        let exclusive = flags & (libc::O_CREAT | libc::O_EXCL) == libc::O_CREAT | libc::O_EXCL;
        let follow = flags & libc::O_NOFOLLOW == 0 && !exclusive;
        let flags = OpenFlags {
            flags,
            mode: mode as u32 & 0o7777,
            limited,
        };
        one(operand(folder, path, follow, Need::Open(flags)))
    };
    let operands = match shape {
        Shape::Open => open(cwd, at(0), low(1), at(2), false),
        Shape::OpenAt => open(low(0), at(1), low(2), at(3), false),
        Shape::Creat => open(
            cwd,
            at(0),
            libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC,
            at(1),
            false,
        ),
        Shape::OpenAt2 => {
            let [flags, mode, resolve] = how(at(2), at(3))?;
            let flags = i32::try_from(flags).ok()?;
            open(low(0), at(1), flags, mode, resolve != 0)
        }
        Shape::Path(need, follow) => one(operand(cwd, at(0), follow, need)),
        Shape::At(need, follow) => one(operand(low(0), at(1), follow, need)),
        Shape::Flagged(need, flags) => {
            let follow = low(flags) & libc::AT_SYMLINK_NOFOLLOW == 0;
            one(operand(low(0), at(1), follow, need))
        }
        Shape::Second(need) => one(operand(cwd, at(1), false, need)),
        Shape::SecondAt(need, folder) => one(operand(low(folder), at(folder + 1), false, need)),
        Shape::Rename => [
            Some(operand(cwd, at(0), false, Need::Unname)),
            Some(operand(cwd, at(1), false, Need::Name)),
        ],
        Shape::RenameAt => [
            Some(operand(low(0), at(1), false, Need::Unname)),
            Some(operand(low(2), at(3), false, Need::Name)),
        ],
        Shape::Exec => one(operand(cwd, at(0), true, Need::Execute)),
        Shape::ExecAt => {
            let follow = low(4) & libc::AT_SYMLINK_NOFOLLOW == 0;
            one(operand(low(0), at(1), follow, Need::Execute))
        }
    };
    Some(Call { name, operands })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(number: i64, arguments: [u64; 6]) -> Call {
        let call = Notification::of(number, arguments);
        decode(&call, |_, _| Some([libc::O_RDWR as u64, 0o640, 8])).unwrap()
    }

    #[test]
    fn every_listed_call_can_be_decoded() {
        for number in numbers() {
            let call = decoded(number, [0; 6]);
            assert!(call.operands[0].is_some(), "{}", call.name);
        }
    }

    #[test]
    fn descriptors_and_flags_are_the_low_half() {
        let folder = 0xdead_beef_ffff_ff9c; // AT_FDCWD
        let call = decoded(libc::SYS_openat, [folder, 7, 0x1_0000_0001, 0, 0, 0]);
        let operand = call.operands[0].unwrap();
        assert_eq!(operand.folder, libc::AT_FDCWD);
        assert_eq!(operand.need.access(), FileAccess::Write);
    }

    #[test]
    fn a_rename_is_about_two_paths() {
        let [old, new] = decoded(libc::SYS_renameat2, [3, 10, 4, 20, 0, 0]).operands;
        let (old, new) = (old.unwrap(), new.unwrap());
        assert_eq!((old.folder, old.path, old.need), (3, 10, Need::Unname));
        assert_eq!((new.folder, new.path, new.need), (4, 20, Need::Name));
    }

    #[test]
    fn an_open_of_a_path_only_is_about_nothing() {
        let flags = (libc::O_PATH | libc::O_CREAT) as u64;
        let call = decoded(libc::SYS_openat, [0, 7, flags, 0, 0, 0]);
        assert_eq!(call.operands, [None, None]);
    }

    #[test]
    fn limits_of_an_open_are_known() {
        let Need::Open(flags) = decoded(libc::SYS_openat2, [0; 6]).operands[0].unwrap().need else {
            panic!("no open");
        };
        assert!(flags.limited && flags.mode == 0o640 && flags.has(libc::O_RDWR));
    }

    proptest! {
        #[test]
        fn any_call_can_be_decoded(
            number in prop_oneof![
                4 => prop::sample::select(numbers().collect::<Vec<_>>()),
                1 => any::<i64>(),
            ],
            arguments: [u64; 6],
            how: Option<[u64; 3]>,
        ) {
            let known = numbers().any(|known| known as libc::c_int == number as libc::c_int);
            let call = decode(&Notification::of(number, arguments), |_, _| how);
            prop_assert!(known || call.is_none(), "{number} is no call on files");
        }
    }
}
