//! A shell on the operator's terminal, by the rules of `--tty`: its bytes as they are while it has the
//! terminal, and the terminal itself again afterwards, whatever it did to it.

use super::read;
use super::streamed::bytes_of;
use crate::answer::Answer;
use crate::error::CliError;
use crate::keys::PREFIX;
use crate::paint::Tone;
use crate::terminal::{Input, size};
use crate::watch::Display;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use foreman_domain::{Failure, StepResult};
use foreman_engine::api::{
    Commands, ShellInput, ShellRef, ShellResize, ShellView, ShellWritten, TerminalSize,
};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use std::pin::Pin;
use tokio::signal::unix::{SignalKind, signal};

/// Typed bytes that wait for the shell; more are not read.
const TYPED: usize = 64 << 10;

/// A call in flight, and what it answered.
enum Answered {
    Written(Result<ShellWritten, Failure>),
    /// Typed bytes arrived, or did not; a shell that has ended says so itself.
    Sent,
    /// It knows its size, or was asked to end.
    Told,
}

type Call<'a> = Pin<Box<dyn Future<Output = Answered> + Send + 'a>>;

/// Carries it to its end.
pub async fn carry(
    shell: &ShellView,
    engine: &impl Commands,
    answer: &Answer,
) -> Result<StepResult, CliError> {
    let paint = answer.paint();
    let hint = format!(
        "A shell in the cage of run {}. Ctrl-] q ends it.",
        shell.run
    );
    answer.line(&paint.paint(Tone::Dim, &hint))?;
    let mut resized = signal(SignalKind::window_change())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let mut quit = signal(SignalKind::quit())?;
    let input = Input::open()?;
    let mut display = Display::new(paint)?;
    display.lend()?;
    let mut carrier = Carrier {
        shell,
        engine,
        calls: FuturesUnordered::new(),
        have: 0,
        sent: 0,
        keys: Keys::default(),
        is_sending: false,
    };
    carrier.read();
    let result = loop {
        carrier.send();
        tokio::select! {
            answered = carrier.calls.next() => match answered {
                Some(Answered::Written(page)) => {
                    let page = page?;
                    for chunk in &page.chunks {
                        display.agent_wrote(&bytes_of(chunk)?)?;
                    }
                    carrier.have += page.chunks.len() as u64;
                    match page.ended {
                        Some(result) => break result,
                        None => carrier.read(),
                    }
                }
                Some(Answered::Sent) => carrier.is_sending = false,
                Some(Answered::Told) | None => {}
            },
            typed = input.read(), if carrier.keys.waiting.len() < TYPED => {
                let typed = typed?;
                if typed.is_empty() || carrier.keys.take(&typed) {
                    carrier.end();
                }
            }
            _ = resized.recv() => carrier.resize(),
            _ = terminate.recv() => carrier.end(),
            _ = hang_up.recv() => carrier.end(),
            _ = quit.recv() => carrier.end(),
        }
    };
    display.take_back()?;
    drop(display);
    Ok(result)
}

struct Carrier<'a, C> {
    shell: &'a ShellView,
    engine: &'a C,
    calls: FuturesUnordered<Call<'a>>,
    /// Chunks that were shown.
    have: u64,
    /// Bytes that were typed into it.
    sent: u64,
    keys: Keys,
    is_sending: bool,
}

impl<C: Commands> Carrier<'_, C> {
    fn read(&mut self) {
        let (shell, engine, have) = (self.shell, self.engine, self.have);
        let call = async move { Answered::Written(read(shell, engine, have).await) };
        self.calls.push(Box::pin(call));
    }

    /// Sends what was typed, one call at a time so that it stays in order.
    fn send(&mut self) {
        if self.is_sending || self.keys.waiting.is_empty() {
            return;
        }
        self.is_sending = true;
        let bytes = std::mem::take(&mut self.keys.waiting);
        let request = ShellInput {
            run: self.shell.run.to_string(),
            shell: self.shell.shell.clone(),
            at: self.sent,
            bytes: BASE64.encode(&bytes),
        };
        self.sent += bytes.len() as u64;
        let engine = self.engine;
        let call = async move {
            // What it answers is seen where the shell is read.
            let _ = engine.shell_input(request).await;
            Answered::Sent
        };
        self.calls.push(Box::pin(call));
    }

    fn resize(&mut self) {
        let (columns, rows) = size();
        let request = ShellResize {
            run: self.shell.run.to_string(),
            shell: self.shell.shell.clone(),
            size: TerminalSize { columns, rows },
        };
        let engine = self.engine;
        self.calls.push(Box::pin(async move {
            // The next size is told again; a shell that has ended needs none.
            let _ = engine.shell_resize(request).await;
            Answered::Told
        }));
    }

    fn end(&mut self) {
        let request = ShellRef {
            run: self.shell.run.to_string(),
            shell: self.shell.shell.clone(),
        };
        let engine = self.engine;
        self.calls.push(Box::pin(async move {
            // What it answers is seen where the shell is read.
            let _ = engine.shell_end(request).await;
            Answered::Told
        }));
    }
}

/// What was typed, our own keys taken out.
#[derive(Debug, Default)]
struct Keys {
    waiting: Vec<u8>,
    /// Ctrl-] was the last key.
    is_prefixed: bool,
}

impl Keys {
    /// True when Ctrl-] q was among it.
    fn take(&mut self, typed: &[u8]) -> bool {
        for &byte in typed {
            match (std::mem::take(&mut self.is_prefixed), byte) {
                (true, b'q') => return true,
                (false, PREFIX) => self.is_prefixed = true,
                (_, byte) => self.waiting.push(byte),
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_goes_to_the_shell_but_the_prefix_and_what_follows_it() {
        let mut keys = Keys::default();
        assert!(!keys.take(b"ls\x03\x1a\x1b[A\r"));
        assert_eq!(std::mem::take(&mut keys.waiting), b"ls\x03\x1a\x1b[A\r");
        assert!(!keys.take(b"\x1d"));
        assert!(!keys.take(b"\x1dx"));
        assert_eq!(std::mem::take(&mut keys.waiting), b"\x1dx");
        assert!(!keys.take(b"a\x1d"));
        assert!(keys.take(b"q"), "also when they come one by one");
        assert_eq!(keys.waiting, b"a");
    }
}
