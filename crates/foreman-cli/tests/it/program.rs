//! Runs the built program in an environment of its own.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot run the program fails by panicking"
)]

use serde_json::Value;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// The program, with a data directory that dies with this value.
pub struct Program {
    home: TempDir,
}

impl Program {
    /// Without any data.
    pub fn new() -> Self {
        Self {
            home: tempfile::tempdir().unwrap(),
        }
    }

    /// Runs a command line without a terminal.
    pub fn run(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_foreman"))
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home.path())
            .env("FOREMAN_DATA_DIR", self.home.path().join("data"))
            .current_dir(self.home.path())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }
}

/// The exit code.
pub fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

/// Stdout as text.
pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Stderr as text.
pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Stdout as one JSON object on one line.
pub fn object(output: &Output) -> Value {
    let text = stdout(output);
    assert_eq!(text.lines().count(), 1, "{text}\n{}", stderr(output));
    serde_json::from_str(&text).unwrap()
}
