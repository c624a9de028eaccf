//! The operator's terminal: raw while a run is watched, and itself again on every way out.
//!
//! [`Guard`] restores on drop; a panic hook restores before the panic is printed; the signals that
//! end a program are awaited by the watching loop, which then drops its guard. Keys are read from the
//! terminal itself through a descriptor of our own, so that stdin's flags are never changed under
//! the shell.

use crate::keys::{self, Key};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{FlushArg, tcflush};
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;

static RAW: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// Undoes what an agent's output may have set, but for its alternate screen: margins, character sets,
/// insert mode, mouse and paste reports, colours, a hidden cursor, no line wrap. The cursor stays.
pub const PLAIN: &str = "\u{1b}[?69l\u{1b}7\u{1b}[r\u{1b}8\u{1b}(B\u{1b})B\u{f}\u{1b}[4l\u{1b}[?5l\u{1b}[?1000l\u{1b}[?1002l\
\u{1b}[?1003l\u{1b}[?1004l\u{1b}[?1006l\u{1b}[?2004l\u{1b}[?1l\u{1b}>\u{1b}[0m\u{1b}[?25h\u{1b}[?7h";

/// Leaves the alternate screen. Must not be sent outside of it: it moves the cursor.
pub const LEAVE_FULL_SCREEN: &str = "\u{1b}[?1049l";

/// What the watching of a feed changes: no wrap, no cursor.
const RESTORE_FEED: &str = "\u{1b}[0m\u{1b}[?25h\u{1b}[?7h";

/// How long answers of the terminal are waited for once an agent had it.
const ANSWERS: Duration = Duration::from_millis(100);

/// Whether an agent had the terminal, so that everything must be reset.
static LENT: AtomicBool = AtomicBool::new(false);

/// Whether the alternate screen is shown, by an agent or by us over it.
static FULL_SCREEN: AtomicBool = AtomicBool::new(false);

/// Keeps the terminal raw while it lives.
#[derive(Debug)]
pub struct Guard(());

impl Guard {
    /// Makes the terminal raw.
    ///
    /// # Errors
    /// When it is none, or refuses.
    pub fn raw() -> io::Result<Self> {
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                restore();
                before(info);
            }));
        });
        crossterm::terminal::enable_raw_mode()?;
        RAW.store(true, Ordering::SeqCst);
        Ok(Self(()))
    }

    /// Remembers that an agent writes to the terminal, so that it has to be reset in the end.
    pub fn lent(&self) {
        LENT.store(true, Ordering::SeqCst);
    }

    /// Remembers whether the alternate screen is shown.
    pub fn full_screen(&self, is_shown: bool) {
        FULL_SCREEN.store(is_shown, Ordering::SeqCst);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        restore();
    }
}

/// Gives the terminal back. Does nothing when it is not ours.
fn restore() {
    if !RAW.swap(false, Ordering::SeqCst) {
        return;
    }
    let full = if FULL_SCREEN.swap(false, Ordering::SeqCst) {
        LEAVE_FULL_SCREEN
    } else {
        ""
    };
    let was_lent = LENT.swap(false, Ordering::SeqCst);
    let rest = if was_lent { PLAIN } else { RESTORE_FEED };
    let sequence = format!("{full}{rest}");
    let mut out = io::stdout().lock();
    // Nothing better can be done when the terminal is gone.
    let _ = out
        .write_all(sequence.as_bytes())
        .and_then(|()| out.flush());
    if was_lent {
        drop_answers();
    }
    let _ = crossterm::terminal::disable_raw_mode();
}

/// Throws away what the terminal answers to questions that the caged side asked at its very end: the
/// operator's shell would take it for typed. For a terminal that is still raw.
fn drop_answers() {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        swallow(stdin.as_fd(), ANSWERS);
    } else if let Ok(terminal) = File::open("/dev/tty") {
        swallow(terminal.as_fd(), ANSWERS);
    }
}

/// Throws away all input that comes within `patience`, and then whatever is still waiting.
fn swallow(terminal: BorrowedFd<'_>, patience: Duration) {
    let until = Instant::now() + patience;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let mut watched = [PollFd::new(terminal, PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::ZERO);
        let polled = poll(&mut watched, timeout);
        let is_gone = tcflush(terminal, FlushArg::TCIFLUSH).is_err()
            || watched
                .iter()
                .filter_map(PollFd::revents)
                .any(|seen| seen.intersects(PollFlags::POLLHUP | PollFlags::POLLERR));
        match polled {
            Ok(_) | Err(Errno::EINTR) if !is_gone && Instant::now() < until => {}
            Ok(_) | Err(_) => return,
        }
    }
}

/// Columns and rows; 80 by 24 where nobody knows.
#[must_use]
pub fn size() -> (u16, u16) {
    match crossterm::terminal::size() {
        Ok((columns, rows)) if columns > 0 && rows > 0 => (columns, rows),
        _ => (80, 24),
    }
}

/// What is typed.
#[derive(Debug)]
pub struct Input(AsyncFd<File>);

impl Input {
    /// Opens the terminal of this process.
    ///
    /// # Errors
    /// When there is none.
    pub fn open() -> io::Result<Self> {
        let named = nix::unistd::ttyname(io::stdin()).unwrap_or_else(|_| PathBuf::from("/dev/tty"));
        let open = |path: &std::path::Path| {
            let flags = nix::libc::O_NONBLOCK | nix::libc::O_NOCTTY;
            OpenOptions::new().read(true).custom_flags(flags).open(path)
        };
        let file = open("/dev/tty".as_ref()).or_else(|_| open(&named))?;
        #[expect(
            deprecated,
            reason = "the replacement is unsafe, which this crate forbids; a File owns its descriptor \
                      and always names the same one, which is all that the replacement asks for"
        )]
        let input = AsyncFd::new(file)?;
        Ok(Self(input))
    }

    /// Waits for the next bytes; empty when the terminal is gone.
    ///
    /// # Errors
    /// When the terminal cannot be read.
    pub async fn read(&self) -> io::Result<Vec<u8>> {
        let mut buffer = [0; 4096];
        loop {
            let mut ready = self.0.readable().await?;
            match ready.try_io(|fd| fd.get_ref().read(&mut buffer)) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(read) => return Ok(buffer.get(..read?).unwrap_or_default().to_vec()),
                Err(_would_block) => {}
            }
        }
    }

    /// Throws away everything typed so far. True when Ctrl-C was among it.
    pub fn drain(&self) -> bool {
        let mut buffer = [0; 4096];
        let mut interrupted = false;
        while let Ok(read @ 1..) = self.0.get_ref().read(&mut buffer) {
            let chunk = buffer.get(..read).unwrap_or_default();
            interrupted |= keys::parse(chunk) == Some(Key::Interrupt);
        }
        interrupted
    }
}

/// Throws away everything typed so far at a terminal in its usual mode, before a question is read.
pub fn flush_typed() {
    let _ = tcflush(io::stdin(), FlushArg::TCIFLUSH);
}

/// Asks for one key. Keys count once the question has stood for half a second, as on a card; `None`
/// for anything that is no printable key.
///
/// # Errors
/// When there is no terminal.
pub async fn ask_key(question: &str) -> io::Result<Option<char>> {
    {
        let mut out = io::stdout().lock();
        out.write_all(question.as_bytes())?;
        out.flush()?;
    }
    let input = Input::open()?;
    let guard = Guard::raw()?;
    tokio::time::sleep(keys::SETTLE).await;
    let mut key = None;
    if !input.drain() {
        // A burst or an escape sequence is no answer; the next key may be one.
        while key.is_none() {
            let chunk = input.read().await?;
            key = match chunk.as_slice() {
                [] | b"\r" | b"\n" => Some(Key::Escape),
                chunk => keys::parse(chunk),
            };
        }
    }
    drop(guard);
    let answer = match key {
        Some(Key::Char(character)) => Some(character),
        _ => None,
    };
    let mut out = io::stdout().lock();
    writeln!(out, "{}", answer.map(String::from).unwrap_or_default())?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::pty::openpty;
    use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};

    /// What a terminal says to the question for its kind.
    const ANSWER: &[u8] = b"\x1b[?1;2c";

    fn is_waiting(terminal: &impl AsFd, long: u16) -> bool {
        let mut watched = [PollFd::new(terminal.as_fd(), PollFlags::POLLIN)];
        poll(&mut watched, long).unwrap() > 0
    }

    #[test]
    fn answers_of_the_terminal_are_not_left_for_the_shell() {
        let pair = openpty(None, None).unwrap();
        let (mut outer, inner) = (File::from(pair.master), pair.slave);
        let mut settings = tcgetattr(&inner).unwrap();
        cfmakeraw(&mut settings);
        tcsetattr(&inner, SetArg::TCSANOW, &settings).unwrap();

        outer.write_all(ANSWER).unwrap();
        assert!(is_waiting(&inner, 5000));
        // And one for each time that the one before was thrown away, up to the third.
        let typing = std::thread::spawn({
            let inner = inner.try_clone().unwrap();
            move || {
                for _ in 0..2 {
                    let until = Instant::now() + Duration::from_secs(10);
                    while is_waiting(&inner, 0) && Instant::now() < until {
                        std::thread::yield_now();
                    }
                    outer.write_all(ANSWER).unwrap();
                }
                outer
            }
        });
        let begin = Instant::now();
        swallow(inner.as_fd(), Duration::from_secs(2));
        let took = begin.elapsed();
        let mut outer = typing.join().unwrap();
        assert!(!is_waiting(&inner, 0), "an answer was left");
        assert!(took >= Duration::from_millis(1900), "{took:?}");
        assert!(took < Duration::from_secs(20), "{took:?}");

        outer.write_all(b"typed").unwrap();
        assert!(is_waiting(&inner, 5000), "input still arrives afterwards");
    }

    #[test]
    fn a_terminal_that_is_gone_or_none_is_not_waited_for() {
        let long = Duration::from_secs(60);
        let begin = Instant::now();
        let pair = openpty(None, None).unwrap();
        drop(pair.master);
        swallow(pair.slave.as_fd(), long);
        let (pipe, other) = std::io::pipe().unwrap();
        (&other).write_all(b"x").unwrap();
        swallow(pipe.as_fd(), long);
        assert!(begin.elapsed() < long);
    }
}
