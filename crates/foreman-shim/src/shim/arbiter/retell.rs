//! What the feed hears of egress, files and programs: the first of each kind at once, repeats and floods
//! counted together.

use crate::shim::coalesce::{Coalescer, Merge};
use foreman_domain::{
    BlockId, ConnectVerdict, Decider, EventKind, HoldId, PathText, ProcessRef, Subject,
};

/// Egress events of one run in a second, floods included.
const EGRESS_PER_SECOND: u64 = 20;
const CLOSED_PER_SECOND: u64 = 20;
const NAMES_PER_SECOND: u64 = 10;
const FILES_PER_SECOND: u64 = 20;
/// A build executes thousands of programs.
const EXECS_PER_SECOND: u64 = 10;
const EXITS_PER_SECOND: u64 = 5;
/// What is only counted is told this far apart.
const LOST_EVERY_MS: u64 = 10_000;

/// An event, and the process it is of.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) kind: EventKind,
    pub(super) process: Option<ProcessRef>,
}

impl Told {
    fn of(kind: EventKind) -> Self {
        Self {
            kind,
            process: None,
        }
    }
}

/// Something to tell, now or later. With a folder, it is about a file in it.
#[derive(Debug)]
pub(super) enum Retold {
    Allowed {
        subject: Subject,
        folder: Option<PathText>,
        rule: String,
    },
    Held {
        subject: Subject,
        folder: Option<PathText>,
        block: BlockId,
        hold: HoldId,
    },
    Refused {
        subject: Subject,
        folder: Option<PathText>,
        by: Decider,
        why: String,
        /// How many it stands for.
        count: u64,
    },
    Unreachable {
        subject: Subject,
        folder: Option<PathText>,
        why: String,
    },
    Closed {
        subject: Subject,
        cut: bool,
        sent: u64,
        received: u64,
        millis: u64,
    },
    LookedUp {
        name: String,
    },
    Executed {
        program: PathText,
        cwd: PathText,
        parent: Option<u32>,
        process: ProcessRef,
    },
    Exited {
        program: Option<PathText>,
        pid: u32,
        code: Option<i32>,
        signal: Option<i32>,
        millis: u64,
    },
}

/// What makes two egress events one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Kind {
    Allowed(String),
    Held(BlockId),
    Refused(&'static str, String),
    Unreachable(String),
}

#[derive(Debug)]
struct Egress {
    verdict: ConnectVerdict,
    count: u64,
}

impl Merge for Egress {
    fn merge(&mut self, later: Self) {
        self.verdict = later.verdict;
        self.count += later.count;
    }
}

/// Actions on files of one folder.
#[derive(Debug)]
struct Files {
    /// Their path; the folder once there are several.
    subject: Subject,
    folder: Subject,
    egress: Egress,
}

#[derive(Debug)]
struct Exec {
    cwd: PathText,
    parent: Option<u32>,
    process: ProcessRef,
    count: u64,
}

/// The newest of several is the one that is shown.
impl Merge for Exec {
    fn merge(&mut self, later: Self) {
        let count = self.count + later.count;
        *self = Self { count, ..later };
    }
}

#[derive(Debug)]
struct Ended {
    pid: u32,
    millis: u64,
    count: u64,
}

impl Merge for Ended {
    fn merge(&mut self, later: Self) {
        self.pid = later.pid;
        self.millis = self.millis.max(later.millis);
        self.count += later.count;
    }
}

/// Program, exit code, signal.
type Ending = (Option<PathText>, Option<i32>, Option<i32>);

impl Merge for Files {
    fn merge(&mut self, later: Self) {
        if self.subject != later.subject {
            self.subject = self.folder.clone();
        }
        self.egress.merge(later.egress);
    }
}

#[derive(Debug)]
struct Bytes {
    sent: u64,
    received: u64,
    millis: u64,
}

impl Merge for Bytes {
    fn merge(&mut self, later: Self) {
        self.sent = self.sent.saturating_add(later.sent);
        self.received = self.received.saturating_add(later.received);
        self.millis = self.millis.max(later.millis);
    }
}

impl Merge for () {
    fn merge(&mut self, (): Self) {}
}

/// Tells egress, closed connections and names, each with its own limit, so that a flood of one does
/// not silence the others. Closed connections that wait are summed by destination.
#[derive(Debug)]
pub(super) struct Teller {
    egress: Coalescer<(Subject, Kind), Egress>,
    closed: Coalescer<(Subject, bool), Bytes>,
    names: Coalescer<String, ()>,
    files: Coalescer<(Subject, Kind), Files>,
    execs: Coalescer<PathText, Exec>,
    exits: Coalescer<Ending, Ended>,
    told_lost_at: u64,
}

impl Default for Teller {
    fn default() -> Self {
        Self {
            egress: Coalescer::new(EGRESS_PER_SECOND),
            closed: Coalescer::new(CLOSED_PER_SECOND),
            names: Coalescer::new(NAMES_PER_SECOND),
            files: Coalescer::new(FILES_PER_SECOND),
            execs: Coalescer::new(EXECS_PER_SECOND),
            exits: Coalescer::new(EXITS_PER_SECOND),
            told_lost_at: 0,
        }
    }
}

impl Teller {
    /// The event, when it may be told now.
    pub(super) fn offer(&mut self, what: Retold, now_ms: u64) -> Option<Told> {
        let mut count = 1;
        let (subject, folder, kind, verdict) = match what {
            Retold::Allowed {
                subject,
                folder,
                rule,
            } => (
                subject,
                folder,
                Kind::Allowed(rule.clone()),
                ConnectVerdict::Allowed { rule },
            ),
            Retold::Held {
                subject,
                folder,
                block,
                hold,
            } => (
                subject,
                folder,
                Kind::Held(block.clone()),
                ConnectVerdict::Held { block, hold },
            ),
            Retold::Refused {
                subject,
                folder,
                by,
                why,
                count: as_many,
            } => {
                count = as_many;
                // Of files the reason names the path, which is not what makes two of them one.
                let said = if folder.is_some() {
                    String::new()
                } else {
                    why.clone()
                };
                (
                    subject,
                    folder,
                    Kind::Refused(tag_of(by), said),
                    ConnectVerdict::Refused { by, why },
                )
            }
            Retold::Unreachable {
                subject,
                folder,
                why,
            } => (
                subject,
                folder,
                Kind::Unreachable(why.clone()),
                ConnectVerdict::Unreachable { why },
            ),
            Retold::Closed {
                subject,
                cut,
                sent,
                received,
                millis,
            } => {
                let bytes = Bytes {
                    sent,
                    received,
                    millis,
                };
                let closed = self.closed.offer((subject, cut), bytes, now_ms);
                return closed.map(closed_event);
            }
            Retold::LookedUp { name } => {
                return self.names.offer(name, (), now_ms).map(name_event);
            }
            Retold::Executed {
                program,
                cwd,
                parent,
                process,
            } => {
                let exec = Exec {
                    cwd,
                    parent,
                    process,
                    count,
                };
                return self.execs.offer(program, exec, now_ms).map(exec_event);
            }
            Retold::Exited {
                program,
                pid,
                code,
                signal,
                millis,
            } => {
                let ended = Ended { pid, millis, count };
                let ending = (program, code, signal);
                return self.exits.offer(ending, ended, now_ms).map(exit_event);
            }
        };
        let egress = Egress { verdict, count };
        let Some(path) = folder else {
            let told = self.egress.offer((subject, kind), egress, now_ms);
            return told.map(egress_event);
        };
        let folder = match &subject {
            Subject::File { access, .. } => Subject::File {
                access: *access,
                path,
            },
            other => other.clone(),
        };
        let files = Files {
            subject,
            folder: folder.clone(),
            egress,
        };
        let told = self.files.offer((folder, kind), files, now_ms);
        told.map(file_event)
    }

    /// Events that may be told now.
    pub(super) fn take_due(&mut self, now_ms: u64) -> Vec<Told> {
        let mut due: Vec<Told> = self
            .names
            .take_due(now_ms)
            .into_iter()
            .map(name_event)
            .collect();
        due.extend(self.egress.take_due(now_ms).into_iter().map(egress_event));
        due.extend(self.closed.take_due(now_ms).into_iter().map(closed_event));
        due.extend(self.files.take_due(now_ms).into_iter().map(file_event));
        due.extend(self.execs.take_due(now_ms).into_iter().map(exec_event));
        due.extend(self.exits.take_due(now_ms).into_iter().map(exit_event));
        if now_ms >= self.told_lost_at + LOST_EVERY_MS {
            let lost = self.take_lost();
            if !lost.is_empty() {
                self.told_lost_at = now_ms;
            }
            due.extend(lost);
        }
        due
    }

    /// Everything that waits, at the end of a run.
    pub(super) fn take_all(&mut self, now_ms: u64) -> Vec<Told> {
        let mut all: Vec<Told> = self
            .names
            .take_all(now_ms)
            .into_iter()
            .map(name_event)
            .collect();
        all.extend(self.egress.take_all(now_ms).into_iter().map(egress_event));
        all.extend(self.closed.take_all(now_ms).into_iter().map(closed_event));
        all.extend(self.files.take_all(now_ms).into_iter().map(file_event));
        all.extend(self.execs.take_all(now_ms).into_iter().map(exec_event));
        all.extend(self.exits.take_all(now_ms).into_iter().map(exit_event));
        all.extend(self.take_lost());
        all
    }

    pub(super) fn has_pending(&self) -> bool {
        self.egress.has_pending()
            || self.closed.has_pending()
            || self.names.has_pending()
            || self.files.has_pending()
            || self.execs.has_pending()
            || self.exits.has_pending()
    }

    fn take_lost(&mut self) -> Vec<Told> {
        let lost = [
            (
                self.egress.take_lost(),
                "actions to other destinations were judged",
            ),
            (
                self.closed.take_lost(),
                "connections to other destinations ended",
            ),
            (self.names.take_lost(), "names were looked up"),
            (
                self.files.take_lost(),
                "actions on files in other folders were judged",
            ),
            (self.execs.take_lost(), "programs were executed"),
            (self.exits.take_lost(), "programs ended"),
        ];
        let told = lost.into_iter().filter(|(count, _)| *count > 0);
        told.map(|(count, what)| {
            Told::of(EventKind::Warning {
                message: format!("{count} more {what} than the feed lists: this run floods it"),
            })
        })
        .collect()
    }
}

fn tag_of(by: Decider) -> &'static str {
    match by {
        Decider::Operator => "operator",
        Decider::Unattended => "unattended",
        Decider::Floor => "floor",
        Decider::Limit => "limit",
        Decider::Profile => "profile",
    }
}

fn file_event((_, files): ((Subject, Kind), Files)) -> Told {
    Told::of(EventKind::File {
        subject: files.subject,
        verdict: files.egress.verdict,
        count: files.egress.count,
    })
}

fn exec_event((program, exec): (PathText, Exec)) -> Told {
    Told {
        kind: EventKind::Exec {
            program,
            cwd: exec.cwd,
            parent: exec.parent,
            count: exec.count,
        },
        process: Some(exec.process),
    }
}

fn exit_event(((program, code, signal), ended): (Ending, Ended)) -> Told {
    Told {
        kind: EventKind::Exit {
            program,
            code,
            signal,
            millis: ended.millis,
            count: ended.count,
        },
        process: Some(ProcessRef {
            pid: ended.pid,
            argv: Vec::new(),
        }),
    }
}

fn egress_event(((subject, _), egress): ((Subject, Kind), Egress)) -> Told {
    Told::of(EventKind::Egress {
        subject,
        verdict: egress.verdict,
        count: egress.count,
    })
}

fn closed_event(((subject, cut), bytes): ((Subject, bool), Bytes)) -> Told {
    let Bytes {
        sent,
        received,
        millis,
    } = bytes;
    Told::of(EventKind::ConnectionClosed {
        subject,
        sent,
        received,
        millis,
        cut,
    })
}

fn name_event((name, ()): (String, ())) -> Told {
    Told::of(EventKind::NameLookedUp { name })
}
