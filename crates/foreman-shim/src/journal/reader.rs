//! Reads a journal by cursor, without keeping it in memory.

use super::JournalError;
use foreman_domain::{Event, EventSeq, Record, Span};
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// One place is remembered for this many events or bytes: 16 bytes for about 10 KiB of journal.
const STRIDE: u64 = 64;
const STRIDE_BYTES: u64 = 16 << 10;
/// A page ends after this many bytes, however few events that is.
const PAGE_BYTES: usize = 1 << 20;
/// No line is longer; a longer one is damage.
const LINE_BYTES: u64 = 8 << 20;

/// Where events are in a journal file: every 64th has its place remembered, or the record it is in.
#[derive(Debug, Clone, Default)]
pub struct Index {
    /// Number and place of some events, rising.
    places: Vec<(EventSeq, u64)>,
    last: EventSeq,
    len: u64,
}

impl Index {
    /// The number of the last event; 0 when there is none.
    #[must_use]
    pub fn last(&self) -> EventSeq {
        self.last
    }

    /// Bytes up to the end of the last complete line.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True when there is no event.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Notes that a record of these events was appended and takes `bytes` bytes, its newline included.
    pub fn push(&mut self, span: Span, bytes: u64) {
        let due = match self.places.last() {
            None => true,
            Some((placed, at)) => {
                span.first.0 >= placed.0.saturating_add(STRIDE) && self.len >= at + STRIDE_BYTES / 2
                    || self.len >= at + STRIDE_BYTES
            }
        };
        if due {
            self.places.push((span.first, self.len));
        }
        self.last = span.last;
        self.len += bytes;
    }

    /// A place at or before the first event after `after`.
    fn place_before(&self, after: EventSeq) -> u64 {
        let first_behind = self.places.partition_point(|(seq, _)| *seq <= after.next());
        first_behind
            .checked_sub(1)
            .and_then(|at| self.places.get(at))
            .map_or(0, |(_, at)| *at)
    }

    /// A small copy of the index that is good for reading on from `after`.
    #[must_use]
    pub(crate) fn window_from(&self, after: EventSeq) -> Self {
        let place = self.place_before(after);
        Self {
            places: vec![(EventSeq(0), place)],
            last: self.last,
            len: self.len,
        }
    }

    /// The lines (without newlines) that hold the events after `after`, each with its last event,
    /// from the file this is the index of. A page ends with the line that reaches `limit` events, or
    /// after about a megabyte. Its first line may begin with events that are not asked for.
    ///
    /// # Errors
    /// When the file cannot be read or a line is damaged.
    pub fn lines_after(
        &self,
        file: &File,
        path: &Path,
        after: EventSeq,
        limit: usize,
    ) -> Result<Vec<(EventSeq, Vec<u8>)>, JournalError> {
        let mut lines = Vec::new();
        if after >= self.last || limit == 0 {
            return Ok(lines);
        }
        let mut offset = self.place_before(after);
        let mut source = BufReader::with_capacity(
            64 << 10,
            At {
                file,
                offset,
                end: self.len,
            },
        );
        let (mut bytes, mut events) = (0, 0);
        while events < limit as u64 && bytes < PAGE_BYTES {
            let Some(line) = next_line(&mut source, path, offset)? else {
                break;
            };
            let span = span_of(&line, path, offset)?;
            offset += line.len() as u64 + 1;
            if span.last > after {
                bytes += line.len();
                events += span.last.0 - after.max(span.first).0 + 1;
                lines.push((span.last, line));
            }
        }
        Ok(lines)
    }
}

/// Reads a file from an offset up to an end, without moving its cursor.
struct At<'a> {
    file: &'a File,
    offset: u64,
    end: u64,
}

impl Read for At<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        let Some(window) = buffer.get_mut(..wanted) else {
            return Ok(0);
        };
        let got = self.file.read_at(window, self.offset)?;
        self.offset += got as u64;
        Ok(got)
    }
}

fn span_of(line: &[u8], path: &Path, offset: u64) -> Result<Span, JournalError> {
    serde_json::from_slice(line).map_err(|error| JournalError::Damaged {
        path: path.to_owned(),
        offset,
        what: error.to_string(),
    })
}

/// The next complete line without its newline; `None` at the end or at a torn line.
fn next_line<R: BufRead>(
    source: &mut R,
    path: &Path,
    offset: u64,
) -> Result<Option<Vec<u8>>, JournalError> {
    let mut line = Vec::new();
    match source.take(LINE_BYTES).read_until(b'\n', &mut line) {
        Ok(_) if line.last() == Some(&b'\n') => {
            line.pop();
            Ok(Some(line))
        }
        Ok(read) if read as u64 == LINE_BYTES => Err(JournalError::Damaged {
            path: path.to_owned(),
            offset,
            what: "a line of more than 8 MiB".to_owned(),
        }),
        Ok(_) => Ok(None),
        Err(source) => Err(JournalError::Read {
            path: path.to_owned(),
            source,
        }),
    }
}

/// Walks the whole file and makes its index. The end of the index is the end of the last complete
/// line that is an event; a last line that has its newline but is no event is torn, too (a crash may
/// leave blocks of zeros behind).
pub(super) fn scan(file: &File, path: &Path) -> Result<Index, JournalError> {
    let end = file
        .metadata()
        .map_err(|source| JournalError::Read {
            path: path.to_owned(),
            source,
        })?
        .len();
    let mut index = Index::default();
    let mut source = BufReader::with_capacity(
        256 << 10,
        At {
            file,
            offset: 0,
            end,
        },
    );
    let mut damage: Option<JournalError> = None;
    while let Some(line) = next_line(&mut source, path, index.len)? {
        if let Some(damage) = damage.take() {
            // Something complete follows the bad line, so it was not the torn end of a crash.
            return Err(damage);
        }
        match span_of(&line, path, index.len) {
            Ok(span) if span.first > index.last => index.push(span, line.len() as u64 + 1),
            Ok(span) => {
                let what = format!("event {} follows event {}", span.first, index.last);
                let offset = index.len;
                return Err(JournalError::Damaged {
                    path: path.to_owned(),
                    offset,
                    what,
                });
            }
            Err(error) => damage = Some(error),
        }
    }
    Ok(index)
}

/// Reads events in order and remembers its place, so that reading on costs nothing per past event.
/// A journal that does not exist yet reads as empty.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    source: Option<BufReader<File>>,
    /// Place of the next unread line.
    offset: u64,
    /// The last event before that place.
    last: EventSeq,
}

impl Reader {
    /// A reader at the beginning of the journal at `path`.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            source: None,
            offset: 0,
            last: EventSeq(0),
        }
    }

    /// At most `limit` events after `after`, in order; fewer when the page passes about a megabyte,
    /// none when there is no newer complete line. Going back is possible and reads from the start.
    ///
    /// # Errors
    /// When the file cannot be read or a complete line is not an event.
    pub fn read_after(
        &mut self,
        after: EventSeq,
        limit: usize,
    ) -> Result<Vec<Event>, JournalError> {
        if after < self.last {
            *self = Self::new(&self.path);
        }
        let path = self.path.clone();
        let read_error = |source| JournalError::Read {
            path: path.clone(),
            source,
        };
        let source = match &mut self.source {
            Some(source) => source,
            None => match File::open(&self.path) {
                Ok(file) => self.source.insert(BufReader::with_capacity(64 << 10, file)),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
                Err(source) => return Err(JournalError::Open { path, source }),
            },
        };
        // Also drops what was buffered beyond a torn line, which may have been completed since.
        source
            .seek(SeekFrom::Start(self.offset))
            .map_err(read_error)?;
        let mut events = Vec::new();
        let mut bytes = 0;
        while events.len() < limit && bytes < PAGE_BYTES {
            let Some(line) = next_line(source, &self.path, self.offset)? else {
                break;
            };
            let end = self.offset + line.len() as u64 + 1;
            let span = match span_of(&line, &self.path, self.offset) {
                Ok(span) => span,
                // Damage that nothing complete follows is the torn end of a crash.
                Err(_) if next_line(source, &self.path, end)?.is_none() => break,
                Err(damage) => return Err(damage),
            };
            if span.first <= self.last {
                return Err(JournalError::Damaged {
                    path,
                    offset: self.offset,
                    what: format!("event {} follows event {}", span.first, self.last),
                });
            }
            if span.last > after {
                let record: Record = serde_json::from_slice(&line).map_err(|error| {
                    let what = error.to_string();
                    JournalError::Damaged {
                        path: path.clone(),
                        offset: self.offset,
                        what,
                    }
                })?;
                bytes += line.len();
                let wanted = record.into_events().filter(|event| event.seq > after);
                events.extend(wanted.take(limit - events.len()));
                if events.last().is_none_or(|event| event.seq < span.last) {
                    // The rest of this line belongs to the next page.
                    break;
                }
            }
            self.offset = end;
            self.last = span.last;
        }
        Ok(events)
    }
}

/// At most `limit` events after `after` of the journal at `path`. Reads from the start of the file:
/// use a [`Reader`] for more than one page.
///
/// # Errors
/// When the file cannot be read or a complete line is not an event.
pub fn read_after(path: &Path, after: EventSeq, limit: usize) -> Result<Vec<Event>, JournalError> {
    Reader::new(path).read_after(after, limit)
}
