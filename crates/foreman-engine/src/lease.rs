//! How sure this engine is to be in charge, and its claims of runs.
//!
//! What is written is fenced by the epochs, inside the transaction that would apply it. What no
//! transaction covers (a process that is started or killed, a branch that is moved) is done only while
//! this engine trusts its lease: until the start of the last successful renewal, plus the lease, less a
//! margin, on a clock that no operator sets and that goes on while the machine sleeps. The store's clock
//! decides for everybody else. Heartbeats are a task of hosting: they end with it, and go on while it
//! drains.

use crate::engine::Engine;
use crate::failures::{OrFail, io};
use foreman_domain::{Code, Failure, Fence, RunEpoch, RunId};
use foreman_store::FIRST_CLAIM;
use nix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a lease lasts that is not renewed.
pub(crate) const TTL: Duration = Duration::from_secs(20);
/// Between two renewals.
const BEAT: Duration = Duration::from_secs(6);
/// What a holder does not trust of its lease: clocks and schedulers are not exact.
const MARGIN: Duration = Duration::from_secs(4);

/// The lease of one engine.
#[derive(Debug)]
pub(crate) struct Lease {
    /// On [`now`]'s clock.
    trusted_until: Mutex<Duration>,
    lost: AtomicBool,
    claims: Mutex<HashMap<RunId, RunEpoch>>,
}

/// A moment before a lease was taken or renewed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt(Duration);

impl Attempt {
    /// Begins one.
    pub fn begin() -> Result<Self, Failure> {
        now().map(Self)
    }
}

impl Lease {
    /// A lease that was taken by this attempt.
    pub fn taken(attempt: Attempt) -> Self {
        Self {
            trusted_until: Mutex::new(trusted_until(attempt)),
            lost: AtomicBool::new(false),
            claims: Mutex::default(),
        }
    }

    /// True once another engine is known to be in charge.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// True while nobody else can have taken over.
    fn is_trusted(&self) -> Result<bool, Failure> {
        let until = *self
            .trusted_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Ok(!self.is_lost() && now()? < until)
    }

    fn renewed(&self, attempt: Attempt) {
        let mut until = self
            .trusted_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *until = (*until).max(trusted_until(attempt));
    }

    fn claims(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, RunEpoch>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn trusted_until(attempt: Attempt) -> Duration {
    attempt.0 + TTL - MARGIN
}

/// Time since the machine started, its sleep included: whoever slept through its lease must know.
fn now() -> Result<Duration, Failure> {
    clock_gettime(ClockId::CLOCK_BOOTTIME)
        .map(Duration::from)
        .map_err(|error| io("the machine's clock cannot be read", &error.into()))
}

impl Engine {
    /// Refuses when this engine cannot be sure to be in charge, although it tried to renew its lease.
    /// Asked before everything that no transaction fences.
    pub async fn sure(&self) -> Result<(), Failure> {
        if self.lease.is_trusted()? {
            return Ok(());
        }
        // It slept, or there is room on the disk again: no reason to wait for the next heartbeat.
        let renewed = self.beat().await;
        if self.lease.is_trusted()? {
            return Ok(());
        }
        let why = renewed
            .err()
            .map(|failure| format!(": {failure}"))
            .unwrap_or_default();
        Err(Failure::new(
            Code::Busy,
            format!("this engine could not renew its lease, so another one may be in charge{why}"),
        )
        .hint("Ask again in a moment; where the disk is full, make room."))
    }

    /// What a write to the run carries. The first write of an engine to a run claims it.
    pub async fn fence(&self, run: &RunId) -> Result<Fence, Failure> {
        let engine = self.epoch;
        let known = || self.lease.claims().get(run).copied();
        if let Some(run) = known() {
            return Ok(Fence { engine, run });
        }
        // Two first writes at once must not claim twice.
        let _claiming = self.turn_at(&format!("claim {run}")).lock_owned().await;
        if let Some(run) = known() {
            return Ok(Fence { engine, run });
        }
        let claim = self.store.claim_run(engine, run, TTL).await.or_fail()?;
        self.lease.claims().insert(run.clone(), claim);
        Ok(Fence { engine, run: claim })
    }

    /// A run that this engine has just recorded is its own.
    pub fn recorded(&self, run: &RunId) {
        self.lease.claims().insert(run.clone(), FIRST_CLAIM);
    }

    /// Renews the leases once.
    pub(crate) async fn beat(&self) -> Result<(), Failure> {
        let attempt = Attempt::begin()?;
        let followed: Vec<(RunId, RunEpoch)> = {
            let claims = self.lease.claims();
            let claim = |run: RunId| Some((run.clone(), *claims.get(&run)?));
            self.live.ids().into_iter().filter_map(claim).collect()
        };
        let lost = match self.store.renew(self.epoch, &followed, TTL).await {
            Err(error @ foreman_store::StoreError::StaleEpoch { .. }) => {
                self.lease.lost.store(true, Ordering::Release);
                return Err(error).or_fail();
            }
            other => other.or_fail()?,
        };
        self.lease.renewed(attempt);
        let mut claims = self.lease.claims();
        for run in lost {
            tracing::warn!(%run, "the run was claimed anew by somebody else");
            claims.remove(&run);
        }
        Ok(())
    }

    /// Lets the lease of a run end that nobody follows any more.
    pub async fn let_go(&self, run: &RunId) {
        let Some(claim) = self.lease.claims().get(run).copied() else {
            return;
        };
        let fence = Fence {
            engine: self.epoch,
            run: claim,
        };
        if let Err(error) = self.store.let_go(fence, run).await {
            tracing::debug!(%run, %error, "the lease of an ended run expires by itself");
        }
    }
}

/// Renews until hosting has ended, draining included. When another engine is in charge, hosting ends.
pub(crate) async fn keep_beating(engine: Arc<Engine>) {
    loop {
        match engine.beat().await {
            Ok(()) => {}
            Err(error) if engine.lease.is_lost() => {
                tracing::error!(epoch = %engine.epoch, %error, "another engine is in charge");
                engine.cancel.cancel();
                return;
            }
            Err(error) => tracing::warn!(%error, "the lease could not be renewed"),
        }
        tokio::time::sleep(BEAT).await;
    }
}
