//! Appends what was seen to a file, each record in one write.

use anyhow::{Context, Result};
use foreman_testkit::{Seen, SeenKind};
use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;

/// Most bytes of a message that a record keeps.
const HEAD: usize = 300;

/// The open record.
#[derive(Debug)]
pub struct Recorder {
    file: std::sync::Mutex<File>,
}

impl Recorder {
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::options()
            .create(true)
            .append(true)
            .open(path)
            .with_context(|| path.display().to_string())?;
        Ok(Self {
            file: std::sync::Mutex::new(file),
        })
    }

    pub fn note(
        &self,
        kind: SeenKind,
        local: SocketAddr,
        peer: SocketAddr,
        bytes: u64,
        head: &[u8],
    ) {
        self.write(&Seen {
            kind,
            local: plain(local),
            port: local.port(),
            peer: plain(peer),
            bytes,
            head: text(head),
            name: None,
            record: None,
        });
    }

    pub fn query(&self, local: SocketAddr, peer: SocketAddr, name: &str, record: &str) {
        self.write(&Seen {
            kind: SeenKind::Query,
            local: plain(local),
            port: local.port(),
            peer: plain(peer),
            bytes: 0,
            head: String::new(),
            name: Some(name.to_ascii_lowercase()),
            record: Some(record.to_owned()),
        });
    }

    fn write(&self, seen: &Seen) {
        let Ok(mut line) = serde_json::to_vec(seen) else {
            return;
        };
        line.push(b'\n');
        if let Ok(mut file) = self.file.lock() {
            let _ = file.write_all(&line);
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(HEAD)]).into_owned()
}

fn plain(address: SocketAddr) -> String {
    address.ip().to_canonical().to_string()
}
