//! What the feed hears of egress: the first of each kind at once, repeats and floods counted together.

use crate::shim::coalesce::{Coalescer, Merge};
use foreman_domain::{BlockId, ConnectVerdict, Decider, EventKind, HoldId, Subject};

/// Egress events of one run in a second, floods included.
const EGRESS_PER_SECOND: u64 = 20;
const CLOSED_PER_SECOND: u64 = 20;
const NAMES_PER_SECOND: u64 = 10;
/// What is only counted is told this far apart.
const LOST_EVERY_MS: u64 = 10_000;

/// Something to tell, now or later.
#[derive(Debug)]
pub(super) enum Retold {
    Allowed {
        subject: Subject,
        rule: String,
    },
    Held {
        subject: Subject,
        block: BlockId,
        hold: HoldId,
    },
    Refused {
        subject: Subject,
        by: Decider,
        why: String,
        /// How many it stands for.
        count: u64,
    },
    Unreachable {
        subject: Subject,
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
    told_lost_at: u64,
}

impl Default for Teller {
    fn default() -> Self {
        Self {
            egress: Coalescer::new(EGRESS_PER_SECOND),
            closed: Coalescer::new(CLOSED_PER_SECOND),
            names: Coalescer::new(NAMES_PER_SECOND),
            told_lost_at: 0,
        }
    }
}

impl Teller {
    /// The event, when it may be told now.
    pub(super) fn offer(&mut self, what: Retold, now_ms: u64) -> Option<EventKind> {
        let mut count = 1;
        let (subject, kind, verdict) = match what {
            Retold::Allowed { subject, rule } => (
                subject,
                Kind::Allowed(rule.clone()),
                ConnectVerdict::Allowed { rule },
            ),
            Retold::Held {
                subject,
                block,
                hold,
            } => (
                subject,
                Kind::Held(block.clone()),
                ConnectVerdict::Held { block, hold },
            ),
            Retold::Refused {
                subject,
                by,
                why,
                count: as_many,
            } => {
                count = as_many;
                let tag = match by {
                    Decider::Operator => "operator",
                    Decider::Unattended => "unattended",
                    Decider::Floor => "floor",
                    Decider::Limit => "limit",
                };
                (
                    subject,
                    Kind::Refused(tag, why.clone()),
                    ConnectVerdict::Refused { by, why },
                )
            }
            Retold::Unreachable { subject, why } => (
                subject,
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
                return self
                    .closed
                    .offer((subject, cut), bytes, now_ms)
                    .map(closed_event);
            }
            Retold::LookedUp { name } => {
                return self.names.offer(name, (), now_ms).map(name_event);
            }
        };
        let egress = Egress { verdict, count };
        self.egress
            .offer((subject, kind), egress, now_ms)
            .map(egress_event)
    }

    /// Events that may be told now.
    pub(super) fn take_due(&mut self, now_ms: u64) -> Vec<EventKind> {
        let mut due: Vec<EventKind> = self
            .names
            .take_due(now_ms)
            .into_iter()
            .map(name_event)
            .collect();
        due.extend(self.egress.take_due(now_ms).into_iter().map(egress_event));
        due.extend(self.closed.take_due(now_ms).into_iter().map(closed_event));
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
    pub(super) fn take_all(&mut self, now_ms: u64) -> Vec<EventKind> {
        let mut all: Vec<EventKind> = self
            .names
            .take_all(now_ms)
            .into_iter()
            .map(name_event)
            .collect();
        all.extend(self.egress.take_all(now_ms).into_iter().map(egress_event));
        all.extend(self.closed.take_all(now_ms).into_iter().map(closed_event));
        all.extend(self.take_lost());
        all
    }

    pub(super) fn has_pending(&self) -> bool {
        self.egress.has_pending() || self.closed.has_pending() || self.names.has_pending()
    }

    fn take_lost(&mut self) -> Vec<EventKind> {
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
        ];
        let told = lost.into_iter().filter(|(count, _)| *count > 0);
        told.map(|(count, what)| EventKind::Warning {
            message: format!("{count} more {what} than the feed lists: this run floods it"),
        })
        .collect()
    }
}

fn egress_event(((subject, _), egress): ((Subject, Kind), Egress)) -> EventKind {
    EventKind::Egress {
        subject,
        verdict: egress.verdict,
        count: egress.count,
    }
}

fn closed_event(((subject, cut), bytes): ((Subject, bool), Bytes)) -> EventKind {
    let Bytes {
        sent,
        received,
        millis,
    } = bytes;
    EventKind::ConnectionClosed {
        subject,
        sent,
        received,
        millis,
        cut,
    }
}

fn name_event((name, ()): (String, ())) -> EventKind {
    EventKind::NameLookedUp { name }
}
