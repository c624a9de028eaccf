//! A judge whose answers a case gives, one by one.

use crate::fixture::{Running, home, in_cage, spec};
use foreman_cage::CageSpec;
use foreman_cage::files::{Config, Executed, Exited, FileAttempt, FileJudge, FileVerdict};
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// A call that waits for the case's answer.
pub struct Asked {
    pub attempt: FileAttempt,
    answer: oneshot::Sender<FileVerdict>,
}

impl Asked {
    pub fn answer(self, verdict: FileVerdict) {
        // Whoever asked may be gone.
        let _ = self.answer.send(verdict);
    }
}

/// What was told of programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    Executed(Executed),
    Exited(Exited),
    NotShown(PathBuf, String),
}

struct Operator {
    asked: mpsc::Sender<Asked>,
    told: Arc<Mutex<Vec<Told>>>,
}

impl FileJudge for Operator {
    async fn judge(&self, attempt: FileAttempt) -> FileVerdict {
        let (answer, verdict) = oneshot::channel();
        let gone = attempt.gone.clone();
        if self.asked.send(Asked { attempt, answer }).await.is_err() {
            return FileVerdict::Refuse;
        }
        tokio::select! {
            verdict = verdict => verdict.unwrap_or(FileVerdict::Refuse),
            () = gone.cancelled() => FileVerdict::Refuse,
        }
    }
    fn executed(&self, program: Executed) {
        self.told.lock().unwrap().push(Told::Executed(program));
    }
    fn exited(&self, program: Exited) {
        self.told.lock().unwrap().push(Told::Exited(program));
    }
    fn not_shown(&self, root: &std::path::Path, error: &foreman_cage::files::ShowError) {
        let why = error.to_string();
        self.told
            .lock()
            .unwrap()
            .push(Told::NotShown(root.to_owned(), why));
    }
}

/// A cage whose calls on files wait, and who is asked.
pub struct Held {
    pub at: Running,
    pub asked: mpsc::Receiver<Asked>,
    pub told: Arc<Mutex<Vec<Told>>>,
    pub cancel: CancellationToken,
}

impl Held {
    /// Has the calls of a cage wait.
    pub fn begin(at: Running, config: Config) -> Self {
        let config = Config {
            meeting: std::env::temp_dir(),
            ..config
        };
        let (asked, receiver) = mpsc::channel(64);
        let told = Arc::new(Mutex::new(vec![]));
        let operator = Operator {
            asked,
            told: Arc::clone(&told),
        };
        let cancel = CancellationToken::new();
        at.cage
            .hold_files(config, Arc::new(operator), &cancel)
            .unwrap();
        Self {
            at,
            asked: receiver,
            told,
            cancel,
        }
    }

    /// The next call that waits.
    pub async fn next(&mut self) -> Asked {
        self.asked.recv().await.unwrap()
    }

    /// Nobody has asked.
    pub fn nobody_asks(&mut self) {
        if let Ok(asked) = self.asked.try_recv() {
            panic!("asked: {:?}", asked.attempt);
        }
    }
}

/// A folder of the operator's that the cage does not show, as the cage's user may write it.
pub fn outside() -> PathBuf {
    let outside = home().join("outside");
    std::fs::create_dir_all(&outside).unwrap();
    belongs_to_the_cage(&outside);
    outside
}

/// Makes a file or folder the cage's user's.
pub fn belongs_to_the_cage(path: &std::path::Path) {
    if nix::unistd::geteuid().is_root() {
        let user = Some(crate::fixture::ROOT_MAPS_TO);
        std::os::unix::fs::chown(path, user, user).unwrap();
    }
}

/// Builds a cage whose writes wait, and runs a case in it.
pub fn held<F: Future<Output = ()>>(case: impl FnOnce(Held) -> F) {
    held_with(&spec(), Config::default(), case);
}

/// The same, as asked for.
pub fn held_with<F: Future<Output = ()>>(
    spec: &CageSpec,
    config: Config,
    case: impl FnOnce(Held) -> F,
) {
    in_cage(spec, |at| async { case(Held::begin(at, config)).await });
}
