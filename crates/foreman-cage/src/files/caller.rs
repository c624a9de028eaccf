//! What is read of a process whose call waits: its memory, where it stands, who it is.
//!
//! Everything here is the caller's to change at any time. It decides what is asked about, never what is
//! opened.

use crate::kernel::{self, Notification};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// Longest path that the kernel takes, with its end.
const PATH_MAX: usize = 4096;
/// Read at once: most paths are shorter.
const FIRST: usize = 256;
const PAGE: usize = 4096;

/// Arguments of a program that are kept, and bytes of each.
const ARGUMENTS: usize = 32;
const ARGUMENT_BYTES: usize = 256;

/// Text in a caller's memory, up to its end.
///
/// # Errors
/// When the memory cannot be read, or has no end within `most` bytes.
fn text(thread: i32, address: u64, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![];
    let mut next = FIRST;
    while bytes.len() < most {
        let at = address.wrapping_add(bytes.len() as u64);
        // Up to the end of a page: the next one need not be there.
        let to_page_end = PAGE - (at % PAGE as u64) as usize;
        let length = to_page_end.min(next).min(most - bytes.len());
        next = PAGE;
        let begin = bytes.len();
        bytes.resize(begin + length, 0);
        let read = kernel::read_memory(thread, at, bytes.get_mut(begin..).unwrap_or_default())?;
        bytes.truncate(begin + read);
        if let Some(end) = bytes.iter().skip(begin).position(|byte| *byte == 0) {
            bytes.truncate(begin + end);
            return Ok(bytes);
        }
        if read == 0 {
            break;
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

/// A path in a caller's memory. None when the kernel would not take it either.
pub(crate) fn path(thread: i32, address: u64) -> Option<PathBuf> {
    let bytes = text(thread, address, PATH_MAX).ok()?;
    Some(PathBuf::from(OsString::from_vec(bytes)))
}

/// The same, absolute.
pub(crate) fn absolute(thread: i32, folder: i32, address: u64) -> Option<PathBuf> {
    let path = path(thread, address)?;
    // An empty one means the descriptor itself, or nothing.
    absolute_of(thread, folder, path.as_os_str().as_bytes())
}

/// A path that was read already, absolute; nothing for an empty one.
pub(crate) fn absolute_of(thread: i32, folder: i32, path: &[u8]) -> Option<PathBuf> {
    let path = Path::new(OsStr::from_bytes(path));
    if path.is_absolute() {
        return Some(path.to_owned());
    }
    if path.as_os_str().is_empty() {
        return None;
    }
    Some(standing(thread, folder)?.join(path))
}

/// What a descriptor of a caller names, or where it stands.
pub(crate) fn standing(thread: i32, folder: i32) -> Option<PathBuf> {
    let link = if folder == libc::AT_FDCWD {
        format!("/proc/{thread}/cwd")
    } else {
        format!("/proc/{thread}/fd/{folder}")
    };
    fs::read_link(link).ok().filter(|place| place.is_absolute())
}

/// The words of a structure in a caller's memory: as many as it says it has, at most three.
pub(crate) fn words(thread: i32, address: u64, size: u64) -> Option<[u64; 3]> {
    const SIZE: u64 = 24;
    if size != SIZE {
        // A shorter one is none; a longer one is for a newer kernel, which we would misread.
        return None;
    }
    let mut bytes = [0; SIZE as usize];
    let read = kernel::read_memory(thread, address, &mut bytes).ok()?;
    let mut words = [0; 3];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_ne_bytes(bytes.try_into().ok()?);
    }
    (read == bytes.len()).then_some(words)
}

/// An argument vector in a caller's memory, cut to a bounded length.
pub(crate) fn arguments(thread: i32, address: u64) -> Vec<String> {
    let mut pointers = [0; 8 * ARGUMENTS];
    let Ok(read) = kernel::read_memory(thread, address, &mut pointers) else {
        return vec![];
    };
    let pointers = pointers.get(..read).unwrap_or_default().chunks_exact(8);
    let pointers = pointers.map_while(|bytes| {
        let pointer = u64::from_ne_bytes(bytes.try_into().ok()?);
        (pointer != 0).then_some(pointer)
    });
    pointers
        .map(|pointer| argument(thread, pointer).unwrap_or_default())
        .collect()
}

fn argument(thread: i32, address: u64) -> Option<String> {
    if let Ok(bytes) = text(thread, address, ARGUMENT_BYTES) {
        return Some(String::from_utf8_lossy(&bytes).into_owned());
    }
    let mut bytes = [0; ARGUMENT_BYTES];
    let read = kernel::read_memory(thread, address, &mut bytes).ok()?;
    let text = String::from_utf8_lossy(bytes.get(..read)?).into_owned();
    let end = text.floor_char_boundary(ARGUMENT_BYTES - '…'.len_utf8());
    Some(format!("{}…", text.get(..end)?))
}

/// Who a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Who {
    /// Its process, as this process sees it.
    pub process: i32,
    /// Its process, as the cage sees it.
    pub inside: u32,
    /// Its process's parent, as this process sees it.
    pub parent: i32,
    /// Bits that are taken out of the mode of what it makes.
    pub umask: u32,
}

impl Who {
    /// None when the thread is gone, or none of a cage that is `depth` process namespaces deep.
    pub fn of(thread: i32, depth: usize) -> Option<Self> {
        Self::read(
            &fs::read_to_string(format!("/proc/{thread}/status")).ok()?,
            depth,
        )
    }

    fn read(status: &str, depth: usize) -> Option<Self> {
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.map(str::trim)
        };
        let inside = field("NStgid:")?
            .split_ascii_whitespace()
            .nth(depth.checked_sub(1)?)?;
        Some(Self {
            process: field("Tgid:")?.parse().ok()?,
            inside: inside.parse().ok()?,
            parent: field("PPid:")?.parse().ok()?,
            umask: u32::from_str_radix(field("Umask:").unwrap_or("0077"), 8).ok()?,
        })
    }
}

/// How many process namespaces deep a process is, the own one included.
pub(crate) fn depth(process: u32) -> Option<usize> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    Some(line.split_ascii_whitespace().count())
}

/// The program file of an execution: by path, or the descriptor that is executed.
pub(crate) fn program(call: &Notification) -> Option<PathBuf> {
    let thread = call.thread();
    if call.number() == libc::SYS_execve {
        return absolute(thread, libc::AT_FDCWD, call.argument(0));
    }
    let folder = call.argument(0) as u32 as i32;
    let named = path(thread, call.argument(1))?;
    if named.as_os_str().is_empty() {
        return standing(thread, folder);
    }
    if named.is_absolute() {
        return Some(named);
    }
    Some(standing(thread, folder)?.join(Path::new(&named)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;

    fn own() -> i32 {
        std::process::id().cast_signed()
    }

    #[test]
    fn a_path_is_read_whole_wherever_a_page_ends() {
        for length in [1, 255, 256, 257, 3000, 4095] {
            let text = CString::new(vec![b'x'; length]).unwrap();
            let read = path(own(), text.as_ptr() as u64).unwrap();
            assert_eq!(read.as_os_str().len(), length);
        }
        let long = CString::new(vec![b'x'; 4096]).unwrap();
        assert_eq!(path(own(), long.as_ptr() as u64), None);
        assert_eq!(path(own(), 8), None);
        assert_eq!(path(own(), u64::MAX - 3), None);
    }

    #[test]
    fn a_relative_path_starts_where_its_caller_stands() {
        let text = CString::new("a/b").unwrap();
        let read = absolute(own(), libc::AT_FDCWD, text.as_ptr() as u64).unwrap();
        assert_eq!(read, std::env::current_dir().unwrap().join("a/b"));
        let empty = CString::new("").unwrap();
        assert_eq!(absolute(own(), libc::AT_FDCWD, empty.as_ptr() as u64), None);
    }

    #[test]
    fn arguments_are_cut() {
        let words = [
            CString::new("a").unwrap(),
            CString::new("ä".repeat(500)).unwrap(),
        ];
        let vector = [words[0].as_ptr() as u64, words[1].as_ptr() as u64, 0];
        let read = arguments(own(), vector.as_ptr() as u64);
        assert_eq!(read[0], "a");
        assert!(
            read[1].ends_with('…') && read[1].len() <= ARGUMENT_BYTES,
            "{read:?}"
        );
        assert_eq!(read.len(), 2);
        assert_eq!(arguments(own(), 8), [""; 0]);
    }

    #[test]
    fn a_thread_is_known_by_its_status() {
        let status = "Name:\tx\nUmask:\t0027\nTgid:\t70\nPid:\t71\nPPid:\t60\nNStgid:\t70\t5\t1\n";
        let who = Who::read(status, 2).unwrap();
        let expected = Who {
            process: 70,
            inside: 5,
            parent: 60,
            umask: 0o027,
        };
        assert_eq!(who, expected);
        assert_eq!(Who::read(status, 4), None);
        let here = Who::of(own(), depth(std::process::id()).unwrap()).unwrap();
        assert_eq!(here.process, own());
    }
}
