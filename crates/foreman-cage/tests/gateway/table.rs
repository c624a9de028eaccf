//! A judge that answers from a table; what is not in it is held until it is.

use foreman_cage::gateway::{Allowance, Attempt, Closed, ConnectionId, Judge, Verdict};
use foreman_domain::{Holder, Host, Protocol, Subject};
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// Asked for the first time about one attempt.
    Asked {
        subject: String,
        by_proxy: bool,
        holder: Option<Holder>,
    },
    /// The caller gave up while it was held.
    Gone(String),
    LookedUp(String),
    Ended {
        connection: u64,
        sent: u64,
        received: u64,
        cut: bool,
    },
    Unreachable(String),
    Abandoned,
    Refused {
        subject: String,
        why: String,
        count: u64,
    },
}

#[derive(Debug, Clone)]
pub enum Rule {
    Allow,
    AllowPrivate(&'static str),
    Refuse,
}

/// How many notes there are of a kind.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Totals {
    pub asked: usize,
    pub ended: usize,
    /// Refusals, each as many as it stands for.
    pub refused: u64,
    pub refused_lines: usize,
}

#[derive(Default)]
pub struct Table {
    rules: Mutex<HashMap<String, Rule>>,
    pub cuts: Mutex<HashMap<String, CancellationToken>>,
    last: Mutex<u64>,
    notes: Mutex<Vec<Note>>,
    noted: watch::Sender<Totals>,
    ruled: watch::Sender<()>,
    pub with_holders: bool,
}

impl Table {
    pub fn with(rules: &[(&str, Rule)]) -> Self {
        let table = Self::default();
        for (subject, rule) in rules {
            table.set(subject, rule.clone());
        }
        table
    }

    pub fn set(&self, subject: &str, rule: Rule) {
        self.rules.lock().unwrap().insert(subject.to_owned(), rule);
        self.ruled.send_replace(());
    }

    fn note(&self, note: Note) {
        let change = match note {
            Note::Asked { .. } => Totals {
                asked: 1,
                ..Totals::default()
            },
            Note::Ended { .. } => Totals {
                ended: 1,
                ..Totals::default()
            },
            Note::Refused { count, .. } => Totals {
                refused: count,
                refused_lines: 1,
                ..Totals::default()
            },
            _ => Totals::default(),
        };
        self.notes.lock().unwrap().push(note);
        self.noted.send_modify(|totals| {
            totals.asked += change.asked;
            totals.ended += change.ended;
            totals.refused += change.refused;
            totals.refused_lines += change.refused_lines;
        });
    }

    /// Waits until there are so many notes.
    pub async fn until_totals(&self, what: &str, wanted: impl Fn(Totals) -> bool) -> Totals {
        let mut changes = self.noted.subscribe();
        let waited = changes.wait_for(|totals| wanted(*totals));
        match tokio::time::timeout(Duration::from_secs(60), waited).await {
            Ok(totals) => *totals.unwrap(),
            Err(_) => panic!("no {what}: {:?}", *self.noted.borrow()),
        }
    }

    pub fn notes(&self) -> Vec<Note> {
        self.notes.lock().unwrap().clone()
    }

    /// Waits until the notes are as wanted.
    pub async fn until<T>(&self, what: &str, wanted: impl Fn(&[Note]) -> Option<T>) -> T {
        let mut changes = self.noted.subscribe();
        let waited = async {
            loop {
                if let Some(found) = wanted(&self.notes.lock().unwrap()) {
                    return found;
                }
                changes.changed().await.unwrap();
            }
        };
        match tokio::time::timeout(Duration::from_secs(60), waited).await {
            Ok(found) => found,
            Err(_) => {
                let notes = self.notes();
                panic!(
                    "no {what} in {} notes: {:?}",
                    notes.len(),
                    &notes[..notes.len().min(20)]
                )
            }
        }
    }

    pub async fn until_asked(&self, subject: &str) {
        self.until(subject, |notes| {
            notes
                .iter()
                .find(|note| matches!(note, Note::Asked { subject: asked, .. } if asked == subject))
                .map(drop)
        })
        .await;
    }

    pub async fn until_ended(&self) -> (u64, u64, bool) {
        self.until("end", |notes| {
            notes.iter().find_map(|note| match note {
                Note::Ended {
                    sent,
                    received,
                    cut,
                    ..
                } => Some((*sent, *received, *cut)),
                _ => None,
            })
        })
        .await
    }

    pub async fn until_refused(&self, subject: &str) -> String {
        self.until(subject, |notes| {
            notes.iter().find_map(|note| match note {
                Note::Refused {
                    subject: refused,
                    why,
                    ..
                } if refused == subject => Some(why.clone()),
                _ => None,
            })
        })
        .await
    }

    pub async fn until_unreachable(&self) -> String {
        self.until("unreachable", |notes| {
            notes.iter().find_map(|note| match note {
                Note::Unreachable(why) => Some(why.clone()),
                _ => None,
            })
        })
        .await
    }

    fn ruling(&self, subject: &str) -> Option<Verdict> {
        let rule = self.rules.lock().unwrap().get(subject).cloned()?;
        let private = match rule {
            Rule::Refuse => return Some(Verdict::Refuse),
            Rule::Allow => None,
            Rule::AllowPrivate(range) => Some(range.parse().unwrap()),
        };
        let mut last = self.last.lock().unwrap();
        *last += 1;
        let cut = CancellationToken::new();
        self.cuts
            .lock()
            .unwrap()
            .insert(subject.to_owned(), cut.clone());
        Some(Verdict::Allow(Allowance {
            connection: ConnectionId(*last),
            private,
            cut,
        }))
    }
}

impl Judge for Table {
    async fn judge(&self, attempt: Attempt) -> Verdict {
        let subject = Subject::Egress {
            protocol: attempt.protocol,
            host: attempt.host,
            port: attempt.port,
            resolved: attempt.resolved,
        }
        .to_string();
        let holder = if self.with_holders {
            (attempt.holder.0)()
        } else {
            None
        };
        self.note(Note::Asked {
            subject: subject.clone(),
            by_proxy: attempt.by_proxy,
            holder,
        });
        let mut changes = self.ruled.subscribe();
        loop {
            if let Some(verdict) = self.ruling(&subject) {
                return verdict;
            }
            tokio::select! {
                _ = changes.changed() => {}
                () = attempt.gone.cancelled() => {
                    self.note(Note::Gone(subject));
                    return Verdict::Refuse;
                }
            }
        }
    }

    fn looked_up(&self, name: &str) {
        self.note(Note::LookedUp(name.to_owned()));
    }

    fn closed(&self, connection: ConnectionId, how: Closed) {
        self.note(match how {
            Closed::Ended {
                sent,
                received,
                cut,
                ..
            } => Note::Ended {
                connection: connection.0,
                sent,
                received,
                cut,
            },
            Closed::Unreachable { why } => Note::Unreachable(why),
            Closed::Abandoned => Note::Abandoned,
        });
    }

    fn refused(&self, protocol: Protocol, host: Host, port: u16, why: &str) {
        self.refused_again(protocol, host, port, why, 1);
    }

    fn refused_again(&self, protocol: Protocol, host: Host, port: u16, why: &str, count: u64) {
        let subject = Subject::Egress {
            protocol,
            host,
            port,
            resolved: None,
        }
        .to_string();
        self.note(Note::Refused {
            subject,
            why: why.to_owned(),
            count,
        });
    }
}
