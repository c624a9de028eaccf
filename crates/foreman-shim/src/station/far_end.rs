//! The station's own end of the conversation. Blocking: there is nothing else to do meanwhile.

use super::{
    Answer, Answered, BUNDLE_BYTES, Folder, LINE_BYTES, Reason, Refused, Request, RequestLine,
    VERSION,
};
use std::fs::DirBuilder;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// A station could not do its work at all.
#[derive(Debug, thiserror::Error)]
pub enum StationError {
    /// Its folder cannot be used.
    #[error("cannot keep runs in {path}")]
    Place {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The pipe broke.
    #[error("the pipe to the engine broke")]
    Pipe(#[source] io::Error),
}

/// Where a station of this user keeps its runs, unless it is told another place.
#[must_use]
pub fn default_place(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> PathBuf {
    let absolute = |name: &str| {
        let value = variable(name).map(PathBuf::from);
        value.filter(|path| path.is_absolute())
    };
    let data = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")));
    data.unwrap_or_else(|| PathBuf::from("/var/tmp"))
        .join("foreman-station")
}

/// Answers over `from` and `to` until `from` ends, or an attached run's socket does. `place` is made when
/// it is not there.
///
/// # Errors
/// When the place cannot be used, or the pipe cannot be written.
pub fn serve(
    place: &Path,
    from: impl Read + Send + 'static,
    mut to: impl Write,
) -> Result<(), StationError> {
    let mut from = BufReader::with_capacity(64 << 10, from);
    let place = match own_place(place) {
        Ok(place) => place,
        Err(source) => {
            let path = place.to_owned();
            let words = format!("runs cannot be kept in {}: {source}", path.display());
            answer(&mut to, Err(Reason::Environment.says(words)))?;
            return Err(StationError::Place { path, source });
        }
    };
    loop {
        let request = match next(&mut from) {
            Ok(Some(request)) => request,
            Ok(None) => return Ok(()),
            // After what could not be read nothing more is sure about the pipe.
            Err(refused) => return answer(&mut to, Err(refused)),
        };
        match request {
            Request::Attach { run } => {
                let socket = Folder::of(&place, &run).files().socket;
                match UnixStream::connect(&socket) {
                    Ok(socket) => {
                        answer(&mut to, Ok(Answer::Attached))?;
                        return relay(from, to, &socket).map_err(StationError::Pipe);
                    }
                    Err(_) => {
                        let words = format!("nobody carries run {run} here");
                        answer(&mut to, Err(Reason::Gone.says(words)))?;
                    }
                }
            }
            Request::Start { offer, bundle } => {
                let begun = start(&place, *offer, bundle, &mut from);
                let goes_on = begun.is_ok();
                answer(&mut to, begun)?;
                if !goes_on {
                    // What was left of the bundle would be taken for requests.
                    return Ok(());
                }
            }
            Request::Look { run, nonce } => {
                let folder = Folder::of(&place, &run);
                let seen = folder.prove(&nonce).map(|()| Answer::Seen {
                    presence: folder.presence(),
                    identity: folder.identity(),
                });
                answer(&mut to, seen)?;
            }
            Request::Fetch {
                run,
                nonce,
                piece,
                from: have,
            } => {
                let folder = Folder::of(&place, &run);
                let opened = folder.prove(&nonce).and_then(|()| folder.open(piece, have));
                match opened {
                    Ok((file, size)) => {
                        answer(&mut to, Ok(Answer::File { size }))?;
                        send(file, size, &mut to).map_err(StationError::Pipe)?;
                    }
                    Err(refused) => answer(&mut to, Err(refused))?,
                }
            }
            Request::Kill { run, nonce } => {
                let folder = Folder::of(&place, &run);
                let killed = folder.prove(&nonce).and_then(|()| folder.kill());
                answer(&mut to, killed.map(|()| Answer::Done))?;
            }
            Request::Remove { run, nonce } => {
                let folder = Folder::of(&place, &run);
                let removed = folder.prove(&nonce).and_then(|()| folder.remove());
                answer(&mut to, removed.map(|()| Answer::Done))?;
            }
        }
    }
}

/// The place, made when it is not there; this user's, and nobody else's to write.
fn own_place(place: &Path) -> io::Result<PathBuf> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(place)?;
    let place = place.canonicalize()?;
    let found = std::fs::metadata(&place)?;
    if found.uid() != nix::unistd::geteuid().as_raw() || found.mode() & 0o077 != 0 {
        return Err(io::Error::other(
            "it must belong to this user and be closed to all others",
        ));
    }
    Ok(place)
}

/// The next request; `None` when the pipe is over.
fn next(from: &mut impl BufRead) -> Result<Option<Request>, Refused> {
    let mut line = Vec::new();
    let limit = LINE_BYTES as u64 + 1;
    let read = from.take(limit).read_until(b'\n', &mut line);
    match read {
        Ok(0) | Err(_) => return Ok(None),
        Ok(_) => {}
    }
    if line.pop() != Some(b'\n') {
        return Err(Reason::Malformed.says("a request is cut off or longer than 4 MiB"));
    }
    let malformed =
        |error| Reason::Malformed.says(format!("that is no request to a station: {error}"));
    // Asked first: a request of another version may have another shape.
    #[derive(serde::Deserialize)]
    struct Versioned {
        v: u8,
    }
    let Versioned { v } = serde_json::from_slice(&line).map_err(malformed)?;
    if v != VERSION {
        return Err(Reason::Version.says(format!(
            "this station speaks version {VERSION} of its conversation, and was spoken to in version {v}"
        )));
    }
    let RequestLine { request, .. } = serde_json::from_slice(&line).map_err(malformed)?;
    Ok(Some(request))
}

fn start(
    place: &Path,
    offer: super::Offer,
    bundle: u64,
    from: &mut impl Read,
) -> Result<Answer, Refused> {
    if bundle > BUNDLE_BYTES {
        return Err(Reason::Malformed.says("the repository is larger than 8 GiB"));
    }
    let mut body = Body { from, left: bundle };
    let identity = Folder::of(place, &offer.spec.run).start(offer, &mut body)?;
    Ok(Answer::Started { identity })
}

/// Exactly as many bytes of the pipe as were announced.
struct Body<'a, R> {
    from: &'a mut R,
    left: u64,
}

impl<R: Read> Read for Body<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX);
        let most = buffer.len().min(most);
        let Some(window) = buffer.get_mut(..most).filter(|window| !window.is_empty()) else {
            return Ok(0);
        };
        let count = self.from.read(window)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= count as u64;
        Ok(count)
    }
}

fn send(file: impl Read, size: u64, to: &mut impl Write) -> io::Result<()> {
    let sent = io::copy(&mut file.take(size), to)?;
    if sent < size {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    to.flush()
}

fn answer(to: &mut impl Write, answer: Result<Answer, Refused>) -> Result<(), StationError> {
    let (answer, refused) = match answer {
        Ok(answer) => (Some(answer), None),
        Err(refused) => (None, Some(refused)),
    };
    let line = Answered {
        v: VERSION,
        answer,
        refused,
    };
    let mut text = serde_json::to_vec(&line).map_err(|error| StationError::Pipe(error.into()))?;
    text.push(b'\n');
    to.write_all(&text)
        .and_then(|()| to.flush())
        .map_err(StationError::Pipe)
}

/// Makes the pipe and the socket one. Ends when the socket does, which it does when the pipe has ended.
fn relay(
    mut from: BufReader<impl Read + Send + 'static>,
    mut to: impl Write,
    socket: &UnixStream,
) -> io::Result<()> {
    let mut into = socket.try_clone()?;
    // Not waited for: it may sit in a read of the pipe that never returns.
    std::thread::Builder::new()
        .name("pipe-to-shim".to_owned())
        .spawn(move || {
            let _ = io::copy(&mut from, &mut into);
            let _ = into.shutdown(Shutdown::Write);
        })?;
    let mut socket = socket;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = match socket.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
            Err(error) => return Err(error),
        };
        to.write_all(buffer.get(..count).unwrap_or_default())?;
        to.flush()?;
    }
}
