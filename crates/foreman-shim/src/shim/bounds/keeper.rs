//! What keeps the bounds of one run, and how they are set.

use super::Brake;
use super::brake::Held;
use super::group::Group;
use super::limits::{Clock, Limits, words};
use super::oom;
use super::tier::Tier;
use crate::protocol::RunSpec;
use crate::shim::arbiter::Arbiter;
use crate::shim::disk::Disk;
use crate::shim::server::Desk;
use foreman_cage::Cage;
use foreman_domain::{BoundKind, FailReason};
use foreman_policy::Bounds;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Notify;

/// Bounds that can be others while a run goes on. Limits of processes cannot be set higher by anybody.
pub(super) const RAISED_LIVE: [BoundKind; 8] = [
    BoundKind::Wall,
    BoundKind::Memory,
    BoundKind::Output,
    BoundKind::Disk,
    BoundKind::Cpu,
    BoundKind::Tokens,
    BoundKind::Cost,
    BoundKind::Turns,
];

/// Processes of ours beside the run's own, in its group.
const OURS: u64 = 16;

/// What keeps the bounds of one run.
pub(in crate::shim) struct Keeper {
    /// Bounds that the run started with.
    pub(in crate::shim) given: Bounds,
    pub(in crate::shim) limits: Limits,
    pub(in crate::shim) clock: Clock,
    pub(in crate::shim) brake: Brake,
    pub(in crate::shim) tier: Tier,
    pub(in crate::shim) disk: Disk,
    pub(in crate::shim) arbiter: Arbiter,
    /// The steps have said as much as they may.
    pub(in crate::shim) said_too_much: Arc<Notify>,
    /// The most memory that was seen.
    peak: AtomicU64,
    /// Processes that had been killed for want of memory before the run began.
    oom_kills: u64,
}

impl Keeper {
    pub(in crate::shim) fn of(spec: &RunSpec, desk: &Desk, tier: Tier) -> Self {
        let given = spec.bounds.clone();
        Self {
            limits: Limits::new(given.clone().raised_by(&spec.policy)),
            oom_kills: oom::kills(tier.group()),
            peak: AtomicU64::new(0),
            given,
            clock: Clock::start(),
            brake: Brake::new(desk.shells.clone()),
            tier,
            disk: desk.gauge.disk().clone(),
            arbiter: desk.arbiter.clone(),
            said_too_much: Arc::new(Notify::new()),
        }
    }

    /// Puts what the kernel keeps of the bounds in place.
    ///
    /// # Errors
    /// When one of them cannot be kept: nothing of the run may begin then.
    pub(in crate::shim) async fn begin(&self, cage: &Cage) -> Result<(), FailReason> {
        let limited = match self.limits.of(BoundKind::OpenFiles) {
            Some(most) => {
                let most = u32::try_from(most).unwrap_or(u32::MAX);
                cage.limit_open_files(most).await
            }
            None => Ok(()),
        };
        limited
            .and_then(|()| self.limit_group())
            .map_err(|error| FailReason::Wall {
                message: format!("cgroup: the run's bounds cannot be kept: {error}"),
            })
    }

    fn limit_group(&self) -> io::Result<()> {
        let Some(group) = self.tier.group() else {
            return Ok(());
        };
        if let Some(most) = self.limits.of(BoundKind::Processes) {
            group.limit_processes(most.saturating_add(OURS))?;
        }
        if let Some(bytes) = self.limits.of(BoundKind::Memory) {
            group.limit_memory(bytes)?;
        }
        if let Some(millicores) = self.limits.of(BoundKind::Cpu) {
            group.limit_cpu(millicores)?;
        }
        Ok(())
    }

    /// Pauses the cage as far as that can be done; no shell is opened in it meanwhile.
    pub(in crate::shim) async fn pause(&self, cage: &Cage, why: &str) -> Option<Held> {
        let pulled = self.brake.pull(cage, self.tier.group(), Some(why)).await;
        pulled
            .inspect_err(|error| tracing::warn!(%error, "a run could not be paused"))
            .ok()
    }

    /// Lets a paused cage go on.
    ///
    /// # Errors
    /// When it stays frozen.
    pub(in crate::shim) async fn go_on(&self, cage: &Cage, held: Held) -> io::Result<()> {
        self.brake.release(cage, self.tier.group(), held).await
    }

    pub(super) fn note_memory(&self, bytes: u64) {
        self.peak.fetch_max(bytes, Ordering::Relaxed);
    }

    /// What to say of a step that was killed by nobody we know of, where memory ran out meanwhile.
    pub(in crate::shim) fn ran_out_of_memory(&self) -> Option<String> {
        let group = self.tier.group();
        if oom::kills(group) <= self.oom_kills {
            return None;
        }
        let seen = self.peak.load(Ordering::Relaxed);
        let peak = group.and_then(Group::memory_peak).unwrap_or(seen);
        let whose = match group {
            Some(_) => "the run had none left within its bound",
            None => "the machine had none left",
        };
        Some(format!(
            "out of memory: {whose} when a step was killed; the run had up to {}",
            words(BoundKind::Memory, peak)
        ))
    }

    /// Sets a bound that was raised, or lowered again.
    pub(super) fn set(&self, bound: BoundKind, limit: u64) -> io::Result<()> {
        self.limits.set(bound, limit);
        match (self.tier.group(), bound) {
            (Some(group), BoundKind::Memory) => group.limit_memory(limit),
            (Some(group), BoundKind::Cpu) => group.limit_cpu(limit),
            _ => Ok(()),
        }
    }
}
