//! A person at a terminal: the product on a pseudo-terminal, keys typed, text waited for.

use crate::{PATIENCE, Product, until};
use anyhow::{Context, Result};
use nix::pty::{Winsize, openpty};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

/// A `foreman` on a terminal of 100 columns and 40 rows.
#[derive(Debug)]
pub struct Screen {
    process: Mutex<Child>,
    keys: File,
    drawn: Arc<Mutex<Vec<u8>>>,
}

impl Screen {
    /// Starts `foreman` with these arguments on a terminal.
    ///
    /// # Errors
    /// No terminal could be made, or it did not start.
    pub fn new(product: &Product<'_>, arguments: &[&str]) -> Result<Self> {
        let size = Winsize {
            ws_row: 40,
            ws_col: 100,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pair = openpty(Some(&size), None).context("make a pseudo-terminal")?;
        let (inner, outer) = (File::from(pair.slave), File::from(pair.master));
        // `setsid --ctty` makes the terminal the controlling one.
        let mut command = product.program("setsid");
        command
            .args(["--ctty", "--wait"])
            .arg(product.bench().program("foreman"))
            .args(arguments)
            .env("TERM", "xterm-256color")
            .stdin(Stdio::from(inner.try_clone()?))
            .stdout(Stdio::from(inner.try_clone()?))
            .stderr(Stdio::from(inner));
        let process = command.spawn().context("start foreman on a terminal")?;
        drop(command);
        let drawn = Arc::new(Mutex::new(Vec::new()));
        let (mut reader, sink) = (outer.try_clone()?, drawn.clone());
        std::thread::spawn(move || {
            let mut chunk = [0_u8; 8192];
            while let Ok(count @ 1..) = reader.read(&mut chunk) {
                sink.lock().unwrap().extend_from_slice(&chunk[..count]);
            }
        });
        Ok(Self {
            process: Mutex::new(process),
            keys: outer,
            drawn,
        })
    }

    /// Everything drawn so far, without escape sequences.
    #[must_use]
    pub fn text(&self) -> String {
        plain(&self.drawn.lock().unwrap())
    }

    /// Everything drawn so far, as it came.
    #[must_use]
    pub fn raw(&self) -> Vec<u8> {
        self.drawn.lock().unwrap().clone()
    }

    /// How much was drawn so far; see [`Screen::shows_after`].
    #[must_use]
    pub fn mark(&self) -> usize {
        self.drawn.lock().unwrap().len()
    }

    /// Waits until this text was drawn.
    ///
    /// # Errors
    /// It was not; the message has what was.
    pub fn shows(&self, text: &str) -> Result<()> {
        self.shows_after(0, text)
    }

    /// Waits until this text was drawn after a mark.
    ///
    /// # Errors
    /// It was not; the message has what was.
    pub fn shows_after(&self, mark: usize, text: &str) -> Result<()> {
        until(&format!("the terminal shows {text:?}"), PATIENCE, || {
            let drawn = self.drawn.lock().unwrap();
            Ok(plain(&drawn[mark..]).contains(text).then_some(()))
        })
        .with_context(|| self.text())
    }

    /// Types keys.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn types(&mut self, keys: &str) -> Result<()> {
        Ok(self.keys.write_all(keys.as_bytes())?)
    }

    /// Waits for the end and gives the exit code.
    ///
    /// # Errors
    /// It did not end.
    pub fn ended(&self) -> Result<i32> {
        let status = until("foreman ended", PATIENCE * 2, || {
            Ok(self.process.lock().unwrap().try_wait()?)
        })
        .with_context(|| self.text())?;
        Ok(status.code().unwrap_or(-1))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let mut process = self.process.lock().unwrap();
        if matches!(process.try_wait(), Ok(None)) {
            // Hangs up on everything of that terminal.
            for pid in crate::world::descendants(process.id().cast_signed()) {
                let pid = nix::unistd::Pid::from_raw(pid);
                let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
            }
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Drops escape sequences.
fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::new();
    let mut rest = text.chars().peekable();
    while let Some(next) = rest.next() {
        if next != '\u{1b}' {
            if next != '\r' {
                out.push(next);
            }
            continue;
        }
        match rest.next() {
            Some('[') => while rest.next().is_some_and(|next| !('@'..='~').contains(&next)) {},
            Some(']') => {
                while rest
                    .next()
                    .is_some_and(|next| next != '\u{7}' && next != '\\')
                {}
            }
            _ => {}
        }
    }
    out
}
