//! Who is behind a Unix socket of the host, for the card.

use foreman_domain::{SocketFacts, sanitize_line};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Set on a socket that takes connections.
const LISTENS: u32 = 0x0001_0000;

/// Looks who is behind a socket; nothing when it is gone. A scan of processes, so it is for what is held
/// only. Blocking.
#[must_use]
pub fn who_listens(path: &Path) -> Option<SocketFacts> {
    let owner = fs::metadata(path).ok()?.uid();
    let table = fs::read("/proc/self/net/unix").unwrap_or_default();
    let rows: Vec<Row<'_>> = table
        .split(|byte| *byte == b'\n')
        .filter_map(Row::read)
        .filter(|row| row.is_at(path))
        .collect();
    let program = rows
        .iter()
        .filter(|row| row.listens)
        .find_map(|row| holder(row.inode));
    Some(SocketFacts {
        owner: account(owner),
        listening: rows.iter().any(|row| row.listens),
        program,
    })
}

struct Row<'a> {
    listens: bool,
    inode: u64,
    name: &'a Path,
}

impl<'a> Row<'a> {
    /// `Num RefCount Protocol Flags Type St Inode Path`
    fn read(line: &'a [u8]) -> Option<Self> {
        let at = line.windows(2).position(|two| two == b" /")?;
        let (figures, name) = line.split_at_checked(at + 1)?;
        let figures: Vec<&str> = std::str::from_utf8(figures)
            .ok()?
            .split_ascii_whitespace()
            .collect();
        let flags = u32::from_str_radix(figures.get(3)?, 16).ok()?;
        Some(Self {
            listens: flags & LISTENS != 0,
            inode: figures.get(6)?.parse().ok()?,
            name: Path::new(std::ffi::OsStr::from_bytes(name)),
        })
    }

    /// A socket is listed by the name that it was given, which may lead over links.
    fn is_at(&self, path: &Path) -> bool {
        self.name == path
            || (self.name.file_name() == path.file_name()
                && self.name.canonicalize().is_ok_and(|real| real == path))
    }
}

/// The program that has a socket open, where this account may see that; the newest of several.
fn holder(inode: u64) -> Option<String> {
    let wanted = format!("socket:[{inode}]");
    let has_it = |pid: u32| {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten();
        descriptors.flatten().any(|entry| {
            fs::read_link(entry.path()).is_ok_and(|link| link.as_os_str() == wanted.as_str())
        })
    };
    let pids = fs::read_dir("/proc").ok()?.flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let pid = pids.filter(|pid| has_it(*pid)).max()?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(format!("{} (pid {pid})", sanitize_line(name.trim_end())))
}

/// An account's name in this machine's own list, else its number.
fn account(number: u32) -> String {
    let list = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = list.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(number)).then(|| sanitize_line(name))
    });
    name.unwrap_or_else(|| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn who_listens_is_found_also_behind_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        std::fs::create_dir(folder.join("real")).unwrap();
        std::os::unix::fs::symlink("real", folder.join("link")).unwrap();
        let listener = UnixListener::bind(folder.join("link/s")).unwrap();
        let facts = who_listens(&folder.join("real/s")).unwrap();
        let own = format!("(pid {})", std::process::id());
        assert!(facts.listening);
        assert!(facts.program.unwrap().ends_with(&own));
        drop(listener);
        let facts = who_listens(&folder.join("real/s")).unwrap();
        assert_eq!((facts.listening, facts.program), (false, None));
        assert_eq!(who_listens(&folder.join("none")), None);
    }
}
