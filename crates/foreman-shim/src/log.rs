//! The shim's own log: standard error, which is a file beside the journal, without values of secrets.

use crate::redact::Redactor;
use std::io::{self, Write};
use std::sync::OnceLock;

/// Set once a shim knows its secrets; until then it has none to say.
static REDACTOR: OnceLock<Redactor> = OnceLock::new();

/// From here on no line says a value that this finds. Counts once.
pub(crate) fn redact(redactor: Redactor) {
    let _ = REDACTOR.set(redactor);
}

/// Begins the log.
pub fn to_standard_error() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("FOREMAN_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        // A log that cannot be written (full disk) must never take the run down with it.
        .log_internal_errors(false)
        .with_env_filter(filter)
        .with_writer(|| Lines)
        .with_ansi(false)
        .init();
}

/// Takes one line in one piece.
struct Lines;

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match REDACTOR.get() {
            None => io::stderr().write_all(line)?,
            Some(redactor) => {
                let text = String::from_utf8_lossy(line);
                io::stderr().write_all(redactor.text(&text).as_bytes())?;
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
