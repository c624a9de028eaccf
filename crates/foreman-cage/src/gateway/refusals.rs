//! What the gateway refuses by itself is told once, and then counted.
//!
//! A cage can try as often as it likes; the feed cannot take a line for each. The first refusal of
//! a kind is told at once; those that follow are told as one number, once a second. Kinds are
//! bounded too: above the bound they are only counted in the log.

use super::judge::Judge;
use foreman_domain::{Host, Protocol};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Kinds that are told apart at one time.
const KINDS_AT_MOST: usize = 1024;

const PERIOD: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Kind {
    protocol: Protocol,
    host: Host,
    port: u16,
    why: String,
}

/// What was refused lately; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lately(Arc<Mutex<Seen>>);

impl Lately {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets it: the next refusal of each kind is told at once.
    pub fn forget(&self) {
        *self.lock() = Seen::default();
    }
}

#[derive(Debug, Default)]
struct Seen {
    repeats: HashMap<Kind, u64>,
    beyond: u64,
}

/// Tells a judge about refusals.
#[derive(Debug)]
pub(crate) struct Refusals<J> {
    judge: Arc<J>,
    lately: Lately,
    /// Something was told, so that repeats of it may have to be.
    told: Notify,
}

impl<J: Judge> Refusals<J> {
    /// Tells this judge.
    pub fn new(judge: Arc<J>, lately: Lately) -> Self {
        Self {
            judge,
            lately,
            told: Notify::new(),
        }
    }

    /// Something was refused.
    pub fn tell(&self, protocol: Protocol, host: Host, port: u16, why: &str) {
        let kind = Kind {
            protocol,
            host,
            port,
            why: why.to_owned(),
        };
        {
            let mut seen = self.lately.lock();
            if let Some(repeats) = seen.repeats.get_mut(&kind) {
                *repeats += 1;
                return;
            }
            if seen.repeats.len() >= KINDS_AT_MOST {
                seen.beyond += 1;
                return;
            }
            seen.repeats.insert(kind.clone(), 0);
        }
        self.told.notify_one();
        self.judge.refused(protocol, kind.host, port, why);
    }

    /// Tells what was counted, once a second while there is something, until cancelled; then the
    /// rest.
    pub async fn run(&self, cancel: CancellationToken) {
        let telling = async {
            loop {
                self.told.notified().await;
                while self.remembers_any() {
                    tokio::time::sleep(PERIOD).await;
                    self.flush();
                }
            }
        };
        tokio::select! {
            () = cancel.cancelled() => {}
            () = telling => {}
        }
        self.flush();
    }

    fn remembers_any(&self) -> bool {
        !self.lately.lock().repeats.is_empty()
    }

    fn flush(&self) {
        let (counted, beyond) = {
            let mut seen = self.lately.lock();
            let mut counted = Vec::new();
            // A kind that was quiet for a period is forgotten, and told at once when it comes again.
            seen.repeats.retain(|kind, repeats| {
                let count = std::mem::take(repeats);
                if count > 0 {
                    counted.push((kind.clone(), count));
                }
                count > 0
            });
            (counted, std::mem::take(&mut seen.beyond))
        };
        for (kind, count) in counted {
            self.judge
                .refused_again(kind.protocol, kind.host, kind.port, &kind.why, count);
        }
        if beyond > 0 {
            tracing::warn!(
                beyond,
                "refused too many different destinations to list each"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::{Attempt, Closed, ConnectionId, Verdict};

    #[derive(Default)]
    struct Told(Mutex<Vec<(u16, u64)>>);

    impl Judge for Told {
        async fn judge(&self, _: Attempt) -> Verdict {
            Verdict::Refuse
        }
        fn looked_up(&self, _: &str) {}
        fn closed(&self, _: ConnectionId, _: Closed) {}
        fn refused(&self, _: Protocol, _: Host, port: u16, _: &str) {
            self.0.lock().unwrap().push((port, 1));
        }
        fn refused_again(&self, _: Protocol, _: Host, port: u16, _: &str, count: u64) {
            self.0.lock().unwrap().push((port, count));
        }
    }

    fn tell(refusals: &Refusals<Told>, port: u16) {
        refusals.tell(Protocol::Tcp, Host::Name("a.example".into()), port, "why");
    }

    #[test]
    fn repeats_are_told_as_one_number() {
        let refusals = Refusals::new(Arc::new(Told::default()), Lately::default());
        for _ in 0..1000 {
            tell(&refusals, 1);
        }
        tell(&refusals, 2);
        refusals.flush();
        tell(&refusals, 2);
        refusals.flush();
        assert_eq!(
            *refusals.judge.0.lock().unwrap(),
            [(1, 1), (2, 1), (1, 999), (2, 1)]
        );
    }

    #[tokio::test]
    async fn a_quiet_second_ends_the_telling_and_a_later_refusal_starts_it_again() {
        let refusals = Arc::new(Refusals::new(Arc::new(Told::default()), Lately::default()));
        let cancel = CancellationToken::new();
        let running = {
            let (refusals, cancel) = (refusals.clone(), cancel.clone());
            tokio::spawn(async move { refusals.run(cancel).await })
        };
        let told = |count: usize| {
            let refusals = refusals.clone();
            let many = move || refusals.judge.0.lock().unwrap().len() >= count;
            async move {
                while !many() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        };
        let round = async {
            for round in 1..=2 {
                tell(&refusals, 1);
                tell(&refusals, 1);
                told(2 * round).await;
                while refusals.remembers_any() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(20), round)
            .await
            .unwrap();
        tell(&refusals, 1);
        tell(&refusals, 1);
        cancel.cancel();
        running.await.unwrap();
        let told = refusals.judge.0.lock().unwrap();
        assert_eq!(*told, [(1, 1); 6], "the rest is told at the end, too");
    }

    #[test]
    fn what_was_forgotten_is_told_at_once_when_it_comes_again() {
        let lately = Lately::default();
        let refusals = Refusals::new(Arc::new(Told::default()), lately.clone());
        tell(&refusals, 1);
        tell(&refusals, 1);
        lately.forget();
        tell(&refusals, 1);
        assert_eq!(*refusals.judge.0.lock().unwrap(), [(1, 1), (1, 1)]);
        refusals.flush();
        assert_eq!(refusals.judge.0.lock().unwrap().len(), 2);
    }

    #[test]
    fn kinds_are_bounded() {
        let refusals = Refusals::new(Arc::new(Told::default()), Lately::default());
        for port in 0..5000 {
            tell(&refusals, port);
        }
        assert_eq!(refusals.judge.0.lock().unwrap().len(), KINDS_AT_MOST);
    }
}
