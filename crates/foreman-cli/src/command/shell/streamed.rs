//! A shell without a terminal: its streams become ours.
//!
//! Bytes go through as they are where a file or a pipe takes them. Where a terminal shows them they are
//! a cage's text like any other: what could redraw the terminal becomes a visible mark.

use super::read;
use crate::answer::Answer;
use crate::error::CliError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use foreman_domain::{Code, Failure, LogStream, StepResult, sanitize_text};
use foreman_engine::api::{Commands, ShellBytes, ShellRef, ShellView};
use serde_json::json;
use std::io::{self, IsTerminal, Write};
use tokio::signal::unix::{SignalKind, signal};

/// Carries it to its end. A signal to this process ends the shell.
pub async fn carry(
    shell: &ShellView,
    engine: &impl Commands,
    answer: &Answer,
) -> Result<StepResult, CliError> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let mut out = Sink::of(io::stdout().is_terminal());
    let mut errors = Sink::of(io::stderr().is_terminal());
    let mut have = 0;
    loop {
        let reading = read(shell, engine, have);
        tokio::pin!(reading);
        let page = loop {
            tokio::select! {
                page = &mut reading => break page?,
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hang_up.recv() => {}
            }
            let ended = ShellRef {
                run: shell.run.to_string(),
                shell: shell.shell.clone(),
            };
            engine.shell_end(ended).await?;
        };
        have += page.chunks.len() as u64;
        for chunk in &page.chunks {
            if answer.is_json() {
                answer.object(chunk)?;
                continue;
            }
            let bytes = bytes_of(chunk)?;
            match chunk.stream {
                LogStream::Stderr => errors.write(&mut io::stderr().lock(), &bytes)?,
                LogStream::Stdout | LogStream::Terminal | LogStream::Received | LogStream::Sent => {
                    out.write(&mut io::stdout().lock(), &bytes)?;
                }
            }
        }
        if let Some(result) = page.ended {
            if answer.is_json() {
                answer.object(&json!({ "run": shell.run, "ended": result }))?;
            } else {
                out.finish(&mut io::stdout().lock())?;
                errors.finish(&mut io::stderr().lock())?;
            }
            return Ok(result);
        }
    }
}

/// The exact bytes of a chunk.
pub(super) fn bytes_of(chunk: &ShellBytes) -> Result<Vec<u8>, Failure> {
    BASE64
        .decode(&chunk.bytes)
        .map_err(|_| Failure::new(Code::Internal, "what the shell wrote does not decode"))
}

/// Where one stream goes.
struct Sink {
    is_terminal: bool,
    /// The beginning of a character whose rest has not come yet.
    begun: Vec<u8>,
}

impl Sink {
    fn of(is_terminal: bool) -> Self {
        Self {
            is_terminal,
            begun: Vec::new(),
        }
    }

    fn write(&mut self, to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
        if !self.is_terminal {
            to.write_all(bytes)?;
            return to.flush();
        }
        self.begun.extend_from_slice(bytes);
        let whole = whole_characters(&self.begun);
        let rest = self.begun.split_off(whole);
        let text = std::mem::replace(&mut self.begun, rest);
        to.write_all(sanitize_text(&String::from_utf8_lossy(&text)).as_bytes())?;
        to.flush()
    }

    fn finish(&mut self, to: &mut impl Write) -> io::Result<()> {
        let text = std::mem::take(&mut self.begun);
        to.write_all(sanitize_text(&String::from_utf8_lossy(&text)).as_bytes())?;
        to.flush()
    }
}

/// How many bytes from the beginning are no cut character.
fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => match bytes.utf8_chunks().last() {
            // What is wrong before stays wrong; only the end may become right.
            Some(last) if is_begun(last.invalid()) => bytes.len() - last.invalid().len(),
            _ => bytes.len(),
        },
    }
}

fn is_begun(bytes: &[u8]) -> bool {
    !bytes.is_empty() && std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(is_terminal: bool, pieces: &[&[u8]]) -> Vec<u8> {
        let (mut sink, mut to) = (Sink::of(is_terminal), Vec::new());
        for piece in pieces {
            sink.write(&mut to, piece).unwrap();
        }
        sink.finish(&mut to).unwrap();
        to
    }

    #[test]
    fn a_terminal_never_gets_an_escape_and_a_file_gets_every_byte() {
        let hostile: &[u8] = b"\x1b]52;c;eA==\x07a\xffb\n\xc3";
        assert_eq!(shown(false, &[hostile]), hostile);
        let text = String::from_utf8(shown(true, &[hostile])).unwrap();
        assert!(
            !text.contains('\u{1b}') && !text.contains('\u{7}'),
            "{text:?}"
        );
        assert!(text.contains("a\u{fffd}b\n\u{fffd}"), "{text:?}");
    }

    #[test]
    fn a_character_that_comes_in_two_pieces_is_shown_whole() {
        for cut in 0..=7 {
            let text = "a\u{20ac}\u{e4}b".as_bytes();
            let (first, second) = text.split_at(cut.min(text.len()));
            assert_eq!(shown(true, &[first, second]), text, "{cut}");
        }
    }
}
