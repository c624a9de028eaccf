//! What is notified, and when: pure, over events and time.
//!
//! Each held action is notified once, also over restarts. What comes together is said together, so that
//! a burst is one notification. The text has the order's title, host and port, and nothing else that
//! came from a cage.

mod marks;

#[cfg(test)]
mod tests;

pub use marks::Marks;

use foreman_domain::{BlockId, RunId, Subject, sanitize_line};
use std::time::{Duration, Instant};

/// How long more of the same kind is waited for.
pub const TOGETHER: Duration = Duration::from_secs(2);
/// The same, shortly after a notification.
pub const TOGETHER_AFTER_ONE: Duration = Duration::from_secs(10);
/// How long "shortly after" is.
const SHORTLY: Duration = Duration::from_secs(30);
/// The most that are named in one notification.
const NAMED: usize = 3;
/// Longest line of a notification, in characters.
const LONGEST_LINE: usize = 100;

/// Something to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happening {
    /// An action is held.
    Held {
        /// Its card.
        block: BlockId,
        /// The title of its run's order. Untrusted text.
        title: String,
        /// What was attempted.
        subject: Subject,
    },
    /// A run waits for a review.
    Review {
        /// Which.
        run: RunId,
        /// Its title. Untrusted text.
        title: String,
    },
    /// A run came to an end without a result.
    Failed {
        /// Which.
        run: RunId,
        /// Its title. Untrusted text.
        title: String,
    },
}

/// Where a click on a notification goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// To a card.
    Block(BlockId),
    /// To a run.
    Run(RunId),
    /// To the inbox.
    Inbox,
    /// To the board.
    Window,
}

/// A notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Its first line.
    pub summary: String,
    /// The rest; plain text, no markup.
    pub body: String,
    /// Where a click goes.
    pub target: Target,
}

/// Collects what is to be told until nothing more is waited for.
#[derive(Debug, Default)]
pub struct Coalescer {
    held: Lane,
    ended: Lane,
}

#[derive(Debug, Default)]
struct Lane {
    waiting: Vec<Happening>,
    due: Option<Instant>,
    told: Option<Instant>,
}

impl Coalescer {
    /// Takes something in.
    pub fn add(&mut self, happening: Happening, now: Instant) {
        let lane = match happening {
            Happening::Held { .. } => &mut self.held,
            Happening::Review { .. } | Happening::Failed { .. } => &mut self.ended,
        };
        let is_shortly_after = lane.told.is_some_and(|told| now < told + SHORTLY);
        let wait = if is_shortly_after {
            TOGETHER_AFTER_ONE
        } else {
            TOGETHER
        };
        lane.due.get_or_insert(now + wait);
        lane.waiting.push(happening);
    }

    /// Forgets a held action that was decided before it was told.
    pub fn forget(&mut self, decided: &BlockId) {
        self.held.waiting.retain(
            |happening| !matches!(happening, Happening::Held { block, .. } if block == decided),
        );
        if self.held.waiting.is_empty() {
            self.held.due = None;
        }
    }

    /// When to take out next.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        [self.held.due, self.ended.due].into_iter().flatten().min()
    }

    /// What is to be told now.
    pub fn take(&mut self, now: Instant) -> Vec<Notice> {
        [&mut self.held, &mut self.ended]
            .into_iter()
            .filter_map(|lane| {
                lane.due.take_if(|due| *due <= now)?;
                lane.told = Some(now);
                notice(&std::mem::take(&mut lane.waiting))
            })
            .collect()
    }
}

fn notice(happenings: &[Happening]) -> Option<Notice> {
    let (first, rest) = happenings.split_first()?;
    let count = happenings.len();
    if rest.is_empty() {
        return Some(alone(first));
    }
    let mut lines: Vec<String> = happenings.iter().take(NAMED).map(line).collect();
    if count > NAMED {
        lines.push(format!("and {} more", count - NAMED));
    }
    // Those are no actions that are held.
    let at_bound = |one: &Happening| matches!(one, Happening::Held { subject, .. } if matches!(subject, Subject::Bound { .. } | Subject::Question { .. }));
    let (summary, target) = match first {
        Happening::Held { .. } if happenings.iter().any(at_bound) => {
            (format!("{count} cards wait for you"), Target::Inbox)
        }
        Happening::Held { .. } => (format!("{count} actions are held"), Target::Inbox),
        Happening::Review { .. } | Happening::Failed { .. } => {
            (format!("{count} runs have ended"), Target::Window)
        }
    };
    Some(Notice {
        summary,
        body: lines.join("\n"),
        target,
    })
}

fn alone(happening: &Happening) -> Notice {
    let (summary, target) = match happening {
        Happening::Held { block, subject, .. } => {
            let summary = match subject {
                Subject::Bound { .. } => "A run has reached its bound",
                Subject::Question { .. } => "An agent asks you something",
                Subject::Egress { .. } | Subject::File { .. } | Subject::Socket { .. } => {
                    "An action is held"
                }
            };
            (summary, Target::Block(block.clone()))
        }
        Happening::Review { run, .. } => ("A run is ready for review", Target::Run(run.clone())),
        Happening::Failed { run, .. } => ("A run has failed", Target::Run(run.clone())),
    };
    Notice {
        summary: summary.into(),
        body: line(happening),
        target,
    }
}

fn line(happening: &Happening) -> String {
    match happening {
        Happening::Held { title, subject, .. } => {
            let place = destination(subject);
            // The destination is what matters, so the title is what is cut.
            let room = LONGEST_LINE.saturating_sub(place.chars().count()).max(20);
            format!("{}: {place}", short(title, room))
        }
        Happening::Review { title, .. } => short(title, LONGEST_LINE),
        Happening::Failed { title, .. } => short(title, LONGEST_LINE),
    }
}

/// Host and port, or path, of what was attempted, safe to show.
#[must_use]
pub fn destination(subject: &Subject) -> String {
    let (host, port) = match subject {
        Subject::Egress { host, port, .. } => (host, port),
        // What was wanted is in it, too: reading and writing are not the same.
        subject => return short(&subject.to_string(), LONGEST_LINE),
    };
    let host = match host {
        foreman_domain::Host::Address(std::net::IpAddr::V6(address)) => format!("[{address}]"),
        host => short(&host.to_string(), LONGEST_LINE),
    };
    format!("{host}:{port}")
}

/// Untrusted text as one short line, safe to show.
#[must_use]
pub fn short(text: &str, most: usize) -> String {
    // More than is shown is never looked at: a title may be long.
    let start: String = text.chars().take(most + 1).collect();
    let safe = sanitize_line(&start);
    if safe.chars().count() <= most {
        return safe;
    }
    let mut cut: String = safe.chars().take(most.saturating_sub(1)).collect();
    cut.push('…');
    cut
}
