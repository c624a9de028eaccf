//! A disk that loses its power: what was synced is there, of the rest some is, and some of it in part.
//!
//! - What a file was given since it was synced last survives by chance, each write and each cut of its
//!   length by itself. A write that survives may be torn: only some of its sectors of 512 bytes are there.
//! - Names (made, renamed, removed) are on the disk once their folder is synced. Of those that are not, a
//!   beginning survives, as file systems that journal their names have it; syncing a file saves its
//!   content and not its name. This is less than most file systems promise.

use crate::dice::Dice;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

const SECTOR: u64 = 512;

/// What a process did to its files.
#[derive(Debug)]
pub struct Op {
    pub what: What,
    pub fd: u32,
    pub offset: u64,
    pub path: String,
    pub data: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    Open,
    Create,
    Empty,
    Folder,
    Write,
    Truncate,
    Sync,
    Rename,
    Unlink,
    Close,
}

/// Reads what the recorder wrote down.
pub fn read_record(bytes: &[u8]) -> Result<Vec<Op>> {
    let mut ops = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let mut take = |size: usize| {
            let (taken, after) = rest.split_at_checked(size).context("a torn record")?;
            rest = after;
            Ok::<_, anyhow::Error>(taken)
        };
        let what = match take(1)?[0] {
            1 => What::Open,
            2 => What::Create,
            3 => What::Empty,
            4 => What::Folder,
            5 => What::Write,
            6 => What::Truncate,
            7 => What::Sync,
            8 => What::Rename,
            9 => What::Unlink,
            10 => What::Close,
            other => bail!("an operation {other}"),
        };
        let fd = u32::from_le_bytes(take(4)?.try_into()?);
        let offset = u64::from_le_bytes(take(8)?.try_into()?);
        let path_size = u32::from_le_bytes(take(4)?.try_into()?) as usize;
        let data_size = u32::from_le_bytes(take(4)?.try_into()?) as usize;
        let path = String::from_utf8(take(path_size)?.to_vec())?;
        let data = take(data_size)?.to_vec();
        ops.push(Op {
            what,
            fd,
            offset,
            path,
            data,
        });
    }
    Ok(ops)
}

/// Which syncs the disk carries out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Honesty {
    /// All of them.
    Full,
    /// Those of folders only: it lies about what files hold.
    NamesOnly,
    /// Those of files only: it lies about which files there are.
    ContentOnly,
}

/// What is and what is not yet on the disk.
#[derive(Debug, Clone, Default)]
pub struct Disk {
    files: Vec<File>,
    names: BTreeMap<String, usize>,
    /// Names as the processes see them.
    seen: BTreeMap<String, usize>,
    waiting: Vec<Name>,
    open: BTreeMap<u32, Handle>,
    /// Syncs that were counted.
    pub syncs: u64,
}

#[derive(Debug, Clone, Copy)]
enum Handle {
    File(usize),
    Folder,
}

#[derive(Debug, Clone, Default)]
struct File {
    /// As it is on the disk.
    content: Vec<u8>,
    waiting: Vec<Change>,
}

#[derive(Debug, Clone)]
enum Change {
    Write(u64, Vec<u8>),
    Length(u64),
}

#[derive(Debug, Clone)]
enum Name {
    Made(String, usize),
    Renamed(String, String),
    Removed(String),
}

impl Disk {
    /// Carries out what a process did.
    pub fn take(&mut self, op: &Op, honesty: Honesty) -> Result<()> {
        match op.what {
            What::Open => {
                let file = *self.seen.get(&op.path).context("an unknown file")?;
                self.open.insert(op.fd, Handle::File(file));
            }
            What::Create => {
                self.files.push(File::default());
                let file = self.files.len() - 1;
                self.seen.insert(op.path.clone(), file);
                self.waiting.push(Name::Made(op.path.clone(), file));
                self.open.insert(op.fd, Handle::File(file));
            }
            What::Empty => {
                let file = *self.seen.get(&op.path).context("an unknown file")?;
                self.files[file].waiting.push(Change::Length(0));
                self.open.insert(op.fd, Handle::File(file));
            }
            What::Folder => {
                self.open.insert(op.fd, Handle::Folder);
            }
            What::Write => {
                let change = Change::Write(op.offset, op.data.clone());
                self.file(op.fd)?.waiting.push(change);
            }
            What::Truncate => self.file(op.fd)?.waiting.push(Change::Length(op.offset)),
            What::Sync => {
                self.syncs += 1;
                self.sync(op.fd, honesty)?;
            }
            What::Rename => {
                let to = String::from_utf8(op.data.clone())?;
                rename(&mut self.seen, &op.path, &to);
                self.waiting.push(Name::Renamed(op.path.clone(), to));
            }
            What::Unlink => {
                self.seen.remove(&op.path);
                self.waiting.push(Name::Removed(op.path.clone()));
            }
            What::Close => {
                self.open.remove(&op.fd);
            }
        }
        Ok(())
    }

    fn file(&mut self, fd: u32) -> Result<&mut File> {
        match self.open.get(&fd) {
            Some(Handle::File(file)) => Ok(&mut self.files[*file]),
            other => bail!("descriptor {fd} is {other:?}"),
        }
    }

    fn sync(&mut self, fd: u32, honesty: Honesty) -> Result<()> {
        match self.open.get(&fd) {
            Some(Handle::File(_)) if honesty == Honesty::NamesOnly => {}
            Some(Handle::Folder) if honesty == Honesty::ContentOnly => {}
            Some(Handle::File(file)) => {
                let file = &mut self.files[*file];
                for change in std::mem::take(&mut file.waiting) {
                    apply(&mut file.content, &change);
                }
            }
            Some(Handle::Folder) => {
                for name in std::mem::take(&mut self.waiting) {
                    settle(&mut self.names, name);
                }
            }
            None => bail!("descriptor {fd} is not open"),
        }
        Ok(())
    }

    /// What a file would hold if everything reached the disk.
    pub fn as_written(&self, path: &str) -> Vec<u8> {
        let Some(file) = self.seen.get(path).map(|file| &self.files[*file]) else {
            return Vec::new();
        };
        let mut content = file.content.clone();
        file.waiting
            .iter()
            .for_each(|change| apply(&mut content, change));
        content
    }

    /// Cuts the power, and puts what is left into a folder.
    pub fn cut(&self, dice: &mut Dice, from: &str, into: &Path) -> Result<()> {
        let mut names = self.names.clone();
        let survive = dice.below(self.waiting.len() as u64 + 1) as usize;
        for name in self.waiting.iter().take(survive) {
            settle(&mut names, name.clone());
        }
        for (path, file) in names {
            let file = &self.files[file];
            let mut content = file.content.clone();
            for change in &file.waiting {
                survive_by_chance(&mut content, change, dice);
            }
            let name = path.strip_prefix(from).context("a file elsewhere")?;
            let name = name.trim_start_matches('/');
            ensure!(!name.contains('/'), "{name}");
            std::fs::File::create(into.join(name))?.write_all(&content)?;
        }
        Ok(())
    }
}

fn rename(names: &mut BTreeMap<String, usize>, from: &str, to: &str) {
    if let Some(file) = names.remove(from) {
        names.insert(to.to_owned(), file);
    }
}

fn settle(names: &mut BTreeMap<String, usize>, name: Name) {
    match name {
        Name::Made(path, file) => {
            names.insert(path, file);
        }
        Name::Renamed(from, to) => rename(names, &from, &to),
        Name::Removed(path) => {
            names.remove(&path);
        }
    }
}

fn apply(content: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write(offset, data) => {
            let (begin, end) = (*offset as usize, *offset as usize + data.len());
            if content.len() < end {
                content.resize(end, 0);
            }
            content[begin..end].copy_from_slice(data);
        }
        Change::Length(length) => content.resize(*length as usize, 0),
    }
}

fn survive_by_chance(content: &mut Vec<u8>, change: &Change, dice: &mut Dice) {
    let Change::Write(offset, data) = change else {
        if dice.once_in(2) {
            apply(content, change);
        }
        return;
    };
    match dice.below(4) {
        0 | 1 => {}
        2 => apply(content, change),
        _ => {
            let (mut at, end) = (*offset, offset + data.len() as u64);
            while at < end {
                let next = ((at / SECTOR + 1) * SECTOR).min(end);
                if dice.once_in(2) {
                    let piece = &data[(at - offset) as usize..(next - offset) as usize];
                    apply(content, &Change::Write(at, piece.to_vec()));
                }
                at = next;
            }
        }
    }
}
