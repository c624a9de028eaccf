//! Whether calls on files are held: tried with a program in the throw-away cage.

use super::HeldFiles;
use foreman_cage::files::{self, Executed, Exited, FileAttempt, FileJudge, FileVerdict};
use foreman_cage::{Cage, Payload, PayloadStdio};
use foreman_domain::without_error_numbers;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Longest wait for a program that does nothing.
const PATIENCE: Duration = Duration::from_secs(10);

impl HeldFiles {
    /// As a line for an operator.
    #[must_use]
    pub fn words(&self) -> String {
        match self.held {
            true => "calls on files outside of a worktree can be held: a program waited for its supervisor"
                .to_owned(),
            false => format!(
                "calls on files outside of a worktree cannot be held here, and are refused: {}",
                self.detail
            ),
        }
    }
}

/// Runs a program whose calls are watched, and sees whether it waited.
pub(super) async fn examine(cage: &Cage, meeting: &Path, ends: &CancellationToken) -> HeldFiles {
    let of = |held, detail: String| HeldFiles { held, detail };
    match timeout(PATIENCE, attempt(cage, meeting, ends)).await {
        Ok(Ok(())) => of(
            true,
            "a program was seen before its first instruction".to_owned(),
        ),
        Ok(Err(why)) => of(false, without_error_numbers(&why)),
        Err(_) => of(false, "the program that tried it did not end".to_owned()),
    }
}

async fn attempt(cage: &Cage, meeting: &Path, ends: &CancellationToken) -> Result<(), String> {
    if !cage.confinement().has_namespaces() {
        return Err("without namespaces nothing could be shown to who waits".to_owned());
    }
    files::available().map_err(|error| error.to_string())?;
    let witness = Arc::new(Witness::default());
    let config = files::Config {
        meeting: meeting.to_owned(),
        ..files::Config::default()
    };
    cage.hold_files(config, Arc::clone(&witness), ends)
        .map_err(|error| error.to_string())?;
    let payload = Payload {
        argv: ["/bin/sh", "-c", ":"].map(str::to_owned).into(),
        env: Vec::new(),
        stdio: PayloadStdio::Null,
    };
    let child = cage
        .spawn(payload)
        .await
        .map_err(|error| error.to_string())?;
    cage.wait(child.pid).await;
    match (
        cage.why_files_are_not_held(),
        witness.0.load(Ordering::Acquire),
    ) {
        (Some(why), _) => Err(why.to_owned()),
        (None, false) => Err("a program ran without being seen".to_owned()),
        (None, true) => Ok(()),
    }
}

/// Hears that a program is executed.
#[derive(Debug, Default)]
struct Witness(AtomicBool);

impl FileJudge for Witness {
    async fn judge(&self, _: FileAttempt) -> FileVerdict {
        FileVerdict::Refuse
    }

    fn executed(&self, _: Executed) {
        self.0.store(true, Ordering::Release);
    }

    fn exited(&self, _: Exited) {}
}
