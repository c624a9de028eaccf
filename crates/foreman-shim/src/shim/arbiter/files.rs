//! The cage's side of the judge for files: a call on one waits here.

use super::places::Places;
use super::retell::Retold;
use super::{Answer, Answering, Arbiter, Inner, Kind, Phase};
use crate::shim::blocks::{FileHold, Held, Stopped};
use foreman_cage::files::{
    Executed, Exited, FileAttempt, FileJudge, FileVerdict, ShowError, SocketAttempt, Target,
};
use foreman_cage::gateway::{Closed, ConnectionId, Judge, Verdict};
use foreman_domain::{
    At, Decider, FileAccess, FileTarget, HoldId, Holder, PathText, Subject, sanitize_line,
};
use foreman_policy::{Opening, Ruling, file_floor};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::{oneshot, watch};

/// Where no rule reaches on this machine, beside what no machine opens.
#[derive(Debug, Clone)]
pub(in crate::shim) struct FileFloor {
    /// The operator's home.
    pub(in crate::shim) home: PathBuf,
    /// The engine's own places.
    pub(in crate::shim) own: Vec<PathBuf>,
}

/// What is needed to judge files.
pub(super) struct Ground {
    pub(super) floor: FileFloor,
    pub(super) places: Arc<dyn Places>,
}

impl FileFloor {
    /// Why no rule can open a path for this, as a sentence.
    fn why(&self, path: &Path, access: FileAccess) -> Option<String> {
        let why = file_floor(path, access, &self.home, &self.own)?;
        let path = PathText::of(path);
        Some(format!("{path} is {why}, which no rule can open"))
    }
}

/// A held call. Dropped without an answer, it gives up.
struct Waiting<'a> {
    inner: &'a Inner,
    hold: HoldId,
    answer: oneshot::Receiver<FileVerdict>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.inner.lock();
        state.waiters.remove(&self.hold);
        if state.blocks.give_up(self.hold, At::now()) {
            self.inner.tell_due(&mut state);
        }
    }
}

impl FileJudge for Arbiter {
    async fn judge(&self, attempt: FileAttempt) -> FileVerdict {
        let subject = Subject::File {
            access: attempt.access,
            path: PathText::of(&attempt.path),
        };
        let file = file_of(&attempt);
        let answer = self.0.ask_file(&attempt.path, &subject, &file);
        let holder = Holder {
            pid: attempt.process.pid,
            argv: attempt.process.argv,
        };
        match answer {
            Answer::Now(verdict) => verdict,
            Answer::Name(block) => {
                let mut state = self.0.lock();
                state.blocks.add_holder(&block, holder);
                self.0.tell_due(&mut state);
                FileVerdict::Refuse
            }
            Answer::Wait(held, answer) => {
                let Held {
                    hold,
                    block,
                    wants_holder,
                } = held;
                let mut waiting = Waiting {
                    inner: &self.0,
                    hold,
                    answer,
                };
                {
                    let mut state = self.0.lock();
                    if wants_holder {
                        state.blocks.add_holder(&block, holder);
                    }
                    self.0.tell_due(&mut state);
                    let told = Retold::Held {
                        subject,
                        folder: Some(file.folder),
                        block,
                        hold,
                    };
                    self.0.retell(&mut state, told);
                }
                tokio::select! {
                    biased;
                    verdict = &mut waiting.answer => verdict.unwrap_or(FileVerdict::Refuse),
                    () = attempt.gone.cancelled() => FileVerdict::Refuse,
                }
            }
        }
    }

    async fn judge_socket(&self, attempt: SocketAttempt) -> Verdict {
        self.connect(attempt).await
    }

    fn socket_refused(&self, path: &Path, why: &str) {
        self.refuse_socket(path, why);
    }

    fn closed(&self, connection: ConnectionId, how: Closed) {
        Judge::closed(self, connection, how);
    }

    fn executed(&self, program: Executed) {
        let mut state = self.0.lock();
        if state.phase != Phase::Open {
            return;
        }
        if self.0.is_collecting() {
            return;
        }
        let told = state.programs.executed(program);
        self.0.retell(&mut state, told);
        self.0.tell_due(&mut state);
    }

    fn exited(&self, program: Exited) {
        let mut state = self.0.lock();
        if state.phase != Phase::Open {
            return;
        }
        if self.0.is_collecting() && !state.programs.knows(program.pid) {
            return;
        }
        let told = state.programs.exited(program);
        self.0.retell(&mut state, told);
        self.0.tell_due(&mut state);
    }

    fn not_shown(&self, root: &Path, error: &ShowError) {
        let mut state = self.0.lock();
        let access = state.shown.access(root).unwrap_or(FileAccess::Read);
        let path = PathText::of(root);
        let told = Retold::Unreachable {
            subject: Subject::File {
                access,
                path: path.clone(),
            },
            folder: Some(path),
            why: sanitize_line(&error.to_string()),
        };
        self.0.retell(&mut state, told);
        self.0.tell_due(&mut state);
    }
}

impl Arbiter {
    /// From here on programs are not told of while this is true: nothing of the run's own runs then.
    pub(in crate::shim) fn tells_no_programs_while(&self, collects: watch::Receiver<bool>) {
        let _ = self.0.collects.set(collects);
    }
}

impl Inner {
    fn is_collecting(&self) -> bool {
        self.collects
            .get()
            .is_some_and(|collects| *collects.borrow())
    }

    fn ask_file(&self, path: &Path, subject: &Subject, file: &FileHold) -> Answer<FileVerdict> {
        let mut guard = self.lock();
        let at = At::now();
        let state = &mut *guard;
        let (Phase::Open, Some(ground)) = (state.phase, self.files.get()) else {
            return Answer::Now(FileVerdict::Refuse);
        };
        let Subject::File { access, .. } = subject else {
            return Answer::Now(FileVerdict::Refuse);
        };
        let ruling = match ground.floor.why(path, *access) {
            Some(why) => Ruling::Refuse {
                by: Decider::Floor,
                why,
                reason: String::new(),
            },
            None => self.ruling(state, subject, at),
        };
        let answer = match ruling {
            Ruling::Allow { rule, opens, .. } => {
                let why = state.shown.why_not(&rule);
                match (opens, why) {
                    (Some(Opening { root, access, .. }), None) => {
                        let told = Retold::Allowed {
                            subject: subject.clone(),
                            folder: Some(file.folder.clone()),
                            rule: rule.0,
                        };
                        self.retell(state, told);
                        Answer::Now(FileVerdict::Show { root, access })
                    }
                    (None, None) => Answer::Now(FileVerdict::Refuse),
                    (_, Some(why)) => {
                        let told = Retold::Unreachable {
                            subject: subject.clone(),
                            folder: Some(file.folder.clone()),
                            why,
                        };
                        self.retell(state, told);
                        Answer::Now(FileVerdict::Refuse)
                    }
                }
            }
            Ruling::Refuse { by, why, reason } => {
                self.refuse(state, subject, Some(file), (by, why, reason), at);
                Answer::Now(FileVerdict::Refuse)
            }
            Ruling::Ask { why } => {
                let stopped = Stopped {
                    subject,
                    file: Some(file),
                    why: &why,
                    address_vetted: true,
                    revision: state.policy.revision,
                    at,
                };
                let kind = Kind {
                    refuse: FileVerdict::Refuse,
                    answering: |answer, file| Answering::File {
                        answer,
                        can_once: file.is_some_and(|file| file.can_once),
                        folder: file.map(|file| file.folder.clone()),
                    },
                };
                self.hold(state, &stopped, kind)
            }
        };
        if matches!(answer, Answer::Now(_)) {
            self.tell_due(state);
        }
        answer
    }
}

fn file_of(attempt: &FileAttempt) -> FileHold {
    let target = match attempt.target {
        Target::File => FileTarget::File,
        Target::Folder => FileTarget::Folder,
        Target::Absent => FileTarget::Absent,
        Target::Other => FileTarget::Other,
    };
    let is_itself = target == FileTarget::Folder && !attempt.needs_folder;
    let folder = match attempt.path.parent() {
        Some(parent) if !is_itself => parent,
        _ => &attempt.path,
    };
    FileHold {
        path: PathText::of(&attempt.path),
        folder: PathText::of(folder),
        target,
        call: attempt.call,
        can_once: attempt.can_once,
        alone: target == FileTarget::File && !attempt.needs_folder,
    }
}
