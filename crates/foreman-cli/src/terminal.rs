//! The operator's terminal: raw while a run is watched, and itself again on every way out.
//!
//! [`Guard`] restores on drop; a panic hook restores before the panic is printed; the signals that
//! end a program are awaited by the watching loop, which then drops its guard. Keys are read from the
//! terminal itself through a descriptor of our own, so that stdin's flags are never changed under
//! the shell.

use crate::keys::{self, Key};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
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
    let rest = if LENT.swap(false, Ordering::SeqCst) {
        PLAIN
    } else {
        RESTORE_FEED
    };
    let sequence = format!("{full}{rest}");
    let mut out = io::stdout().lock();
    // Nothing better can be done when the terminal is gone.
    let _ = out
        .write_all(sequence.as_bytes())
        .and_then(|()| out.flush());
    let _ = crossterm::terminal::disable_raw_mode();
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
    let _ = nix::sys::termios::tcflush(io::stdin(), nix::sys::termios::FlushArg::TCIFLUSH);
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
