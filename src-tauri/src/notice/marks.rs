//! Which held actions were notified before, also by an earlier start of the app.

use foreman_domain::BlockId;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// Kept in a small file, one id a line. Only ids of blocks that are open are kept.
#[derive(Debug)]
pub struct Marks {
    file: PathBuf,
    ids: BTreeSet<String>,
}

impl Marks {
    /// Reads the file. One that is not there or cannot be read is as an empty one: the worst that
    /// follows is a notification that was seen before.
    #[must_use]
    pub fn read(file: &Path) -> Self {
        let ids = match std::fs::read_to_string(file) {
            Ok(text) => text
                .lines()
                .filter(|line| line.parse::<BlockId>().is_ok())
                .map(str::to_owned)
                .collect(),
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!(%error, "what was notified before is not known");
                }
                BTreeSet::new()
            }
        };
        Self {
            file: file.to_owned(),
            ids,
        }
    }

    /// Marks a block; false when it was marked before.
    pub fn mark(&mut self, block: &BlockId) -> bool {
        self.ids.insert(block.to_string())
    }

    /// Forgets blocks that are not open any more. True when there were some.
    pub fn keep_only(&mut self, open: impl Fn(&str) -> bool) -> bool {
        let before = self.ids.len();
        self.ids.retain(|id| open(id));
        self.ids.len() != before
    }

    /// Writes the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self) -> io::Result<()> {
        let mut text = String::new();
        for id in &self.ids {
            text.push_str(id);
            text.push('\n');
        }
        crate::settings::replace(&self.file, text.as_bytes())
    }
}
