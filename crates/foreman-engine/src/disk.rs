//! Disk space: what uses it, what may go, and removing that.
//!
//! Only the files of runs that are merged or changed nothing ever go by themselves, only while the quota
//! is exceeded, oldest first, and always into a snapshot before: by the same path as `foreman discard`.
//! Whatever is live, recent, dirty, unlanded or unknown stays, and the reason is on record.

mod measure;
mod removals;
mod standing;

use crate::api::{
    DiskClean, DiskCleaned, DiskFailed, DiskKept, DiskLogEntry, DiskPolicy, DiskRemoval,
    DiskRemoved, DiskReport, DiskRepository, DiskRequest, DiskRun, DiskStays, DiskStranger,
};
use crate::details::RunDetails;
use crate::engine::Engine;
use crate::failures::{OrFail, internal, io, join};
use foreman_domain::{At, Failure, RunId};
use foreman_store::{DiskAction, DiskEntry, StoreError, StoredRun};
use measure::{Sizes, Usage, look};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Where the policy is kept among the settings.
const POLICY: &str = "disk.policy";
/// How long a run's files are recent when nothing is set.
const KEEP: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Entries of the log that are shown.
const SHOWN: u32 = 20;
/// How often removals that are not done are looked at.
const RETRY_EVERY: Duration = Duration::from_secs(3);
/// How often the quota is looked at; more often where files are kept for a short time only.
const SWEEP_EVERY: Duration = Duration::from_secs(10 * 60);
const SWEEP_AT_MOST_EVERY: Duration = Duration::from_secs(2);

/// Retries removals and keeps to the quota until hosting ends.
pub(crate) async fn keep_disk(engine: Arc<Engine>) {
    let mut since_sweep = SWEEP_EVERY;
    loop {
        tokio::select! {
            () = tokio::time::sleep(RETRY_EVERY) => since_sweep += RETRY_EVERY,
            () = engine.cancel.cancelled() => return,
        }
        if let Err(error) = engine.retry_removals().await {
            tracing::warn!(%error, "removals could not be tried again");
        }
        match engine.sweep(since_sweep).await {
            Ok(true) => since_sweep = Duration::ZERO,
            Ok(false) => {}
            Err(error) => {
                since_sweep = Duration::ZERO;
                tracing::warn!(%error, "the quota could not be looked after");
            }
        }
    }
}

/// A run whose files are there, and whether they may go.
struct Candidate {
    run: StoredRun,
    sizes: Sizes,
    kept: Option<DiskKept>,
}

impl Engine {
    /// What uses disk space, and what could go.
    pub async fn disk(&self, request: DiskRequest) -> Result<DiskReport, Failure> {
        let policy = self.disk_policy().await?;
        let keep = keep_of(&policy, request.older_than_seconds);
        let usage = self.usage().await?;
        let bytes = usage.bytes();
        let candidates = self.candidates(&usage, keep).await?;
        let pending = self.store.pending_removals().await.or_fail()?;
        let mut removals: BTreeMap<RunId, DiskRemoval> = pending
            .into_iter()
            .map(|pending| {
                let removal = DiskRemoval {
                    asked_at: pending.asked_at,
                    tries: pending.tries,
                    error: pending.error,
                };
                (pending.run, removal)
            })
            .collect();
        let mut strangers: Vec<DiskStranger> = usage
            .strangers
            .iter()
            .map(|(path, bytes)| DiskStranger {
                path: path.clone(),
                bytes: *bytes,
            })
            .collect();
        strangers.extend(self.unrecorded(&usage, &candidates));
        let mut by_repo: BTreeMap<PathBuf, Vec<DiskRun>> = BTreeMap::new();
        let mut removable_bytes = 0_u64;
        for Candidate { run, sizes, kept } in candidates {
            let may_go = kept.is_none() && sizes.removable() > 0;
            if may_go {
                removable_bytes = removable_bytes.saturating_add(sizes.removable());
            }
            let repo = RunDetails::of(&run).map_or_else(|_| PathBuf::from("?"), |it| it.repo);
            by_repo.entry(repo).or_default().push(DiskRun {
                removal: removals.remove(&run.id),
                run: run.id,
                title: run.title,
                state: run.state,
                ended_at: run.ended_at,
                worktree_bytes: sizes.worktree,
                shadow_bytes: sizes.shadow,
                home_bytes: sizes.home,
                record_bytes: sizes.record,
                kept,
                may_go,
            });
        }
        let total = |run: &DiskRun| {
            run.worktree_bytes + run.shadow_bytes + run.home_bytes + run.record_bytes
        };
        let mut repositories: Vec<_> = by_repo
            .into_iter()
            .map(|(repo, mut runs)| {
                runs.sort_by_key(|run| std::cmp::Reverse(total(run)));
                let bytes = runs.iter().map(total).sum();
                DiskRepository { repo, bytes, runs }
            })
            .collect();
        repositories.sort_by_key(|repo| std::cmp::Reverse(repo.bytes));
        let log = self.store.disk_log(SHOWN).await.or_fail()?;
        Ok(DiskReport {
            data: self.layout.data.clone(),
            free_bytes: self.free_bytes().await?,
            bytes,
            database_bytes: usage.database,
            repositories,
            strangers,
            over_bytes: policy.quota_bytes.and_then(|quota| over(bytes, quota)),
            policy,
            older_than_seconds: keep.as_secs(),
            removable_bytes,
            log: log.into_iter().map(entry_of).collect(),
        })
    }

    /// Removes what may go, and says of everything else why it stays.
    pub async fn clean_disk(&self, request: DiskClean) -> Result<DiskCleaned, Failure> {
        let policy = self.disk_policy().await?;
        let keep = keep_of(&policy, request.older_than_seconds);
        let usage = self.usage().await?;
        let candidates = self.candidates(&usage, keep).await?;
        let wanted = |run: &RunId| request.runs.as_ref().is_none_or(|runs| runs.contains(run));
        let mut cleaned = DiskCleaned::default();
        for candidate in candidates {
            if wanted(&candidate.run.id) {
                self.remove_or_note(candidate, keep, &mut cleaned).await?;
            }
        }
        Ok(cleaned)
    }

    /// Sets what the engine may remove by itself.
    pub async fn set_disk_policy(&self, policy: DiskPolicy) -> Result<DiskPolicy, Failure> {
        self.store
            .set_setting(self.epoch, POLICY, &policy)
            .await
            .or_fail()?;
        Ok(policy)
    }

    async fn disk_policy(&self) -> Result<DiskPolicy, Failure> {
        let set = self.store.setting::<DiskPolicy>(POLICY).await.or_fail()?;
        Ok(set.unwrap_or_default())
    }

    /// Keeps to the quota, if one is set and it is time to look; whether it looked.
    async fn sweep(&self, since: Duration) -> Result<bool, Failure> {
        let policy = self.disk_policy().await?;
        let Some(quota) = policy.quota_bytes else {
            return Ok(false);
        };
        let keep = keep_of(&policy, None);
        if since < keep.clamp(SWEEP_AT_MOST_EVERY, SWEEP_EVERY) {
            return Ok(false);
        }
        let usage = self.usage().await?;
        let Some(mut over) = over(usage.bytes(), quota) else {
            return Ok(true);
        };
        let mut cleaned = DiskCleaned::default();
        for candidate in self.candidates(&usage, keep).await? {
            if self.cancel.is_cancelled() {
                break;
            }
            let before = cleaned.freed_bytes;
            // What stays is noted also when enough is free already.
            if over > 0 || candidate.kept.is_some() {
                self.remove_or_note(candidate, keep, &mut cleaned).await?;
            }
            over = over.saturating_sub(cleaned.freed_bytes - before);
        }
        Ok(true)
    }

    /// Runs whose files are there, those first that have been at rest the longest.
    async fn candidates(&self, usage: &Usage, keep: Duration) -> Result<Vec<Candidate>, Failure> {
        let now = At::now();
        let mut candidates = Vec::new();
        for (id, sizes) in &usage.runs {
            if sizes.removable() == 0 {
                continue;
            }
            let run = match self.store.run(id).await {
                Ok(run) => run,
                Err(StoreError::NoRun(_)) => continue,
                Err(error) => return Err(error).or_fail(),
            };
            let kept = self.standing(&run, keep, now).await?.err();
            candidates.push(Candidate {
                run,
                sizes: *sizes,
                kept,
            });
        }
        candidates.sort_by_key(|candidate| candidate.run.ended_at);
        Ok(candidates)
    }

    async fn remove_or_note(
        &self,
        candidate: Candidate,
        keep: Duration,
        cleaned: &mut DiskCleaned,
    ) -> Result<(), Failure> {
        let Candidate { run, sizes, kept } = candidate;
        let id = run.id;
        let bytes = sizes.removable();
        let (action, detail, bytes) = match kept {
            Some(kept) => (DiskAction::Kept, encode(&kept)?, bytes),
            None => match self.remove(&id, keep).await {
                Ok(Ok(snapshot)) => (DiskAction::Removed, snapshot, bytes),
                Ok(Err(kept)) => (DiskAction::Kept, encode(&kept)?, bytes),
                Err(failure) => (DiskAction::Failed, failure.message, bytes),
            },
        };
        let entry = DiskEntry {
            at: At::now(),
            run: id.clone(),
            action,
            detail: detail.clone(),
            bytes,
        };
        self.store.note_disk(self.epoch, &entry).await.or_fail()?;
        match action {
            DiskAction::Removed => {
                cleaned.freed_bytes = cleaned.freed_bytes.saturating_add(bytes);
                cleaned.removed.push(DiskRemoved {
                    run: id,
                    snapshot: detail,
                    bytes,
                });
            }
            DiskAction::Kept => cleaned.kept.push(DiskStays {
                run: id,
                kept: serde_json::from_str(&detail).map_err(internal)?,
            }),
            DiskAction::Failed => cleaned.failed.push(DiskFailed {
                run: id,
                error: detail,
            }),
        }
        Ok(())
    }

    /// Removes a run's files if they may still go, in the run's turn: what was found out before may
    /// not be true any more.
    async fn remove(
        &self,
        id: &RunId,
        keep: Duration,
    ) -> Result<Result<String, DiskKept>, Failure> {
        let Some(_turn) = self.try_turn(id) else {
            return Ok(Err(DiskKept::Busy));
        };
        let run = self.store.run(id).await.or_fail()?;
        if let Err(kept) = self.standing(&run, keep, At::now()).await? {
            return Ok(Err(kept));
        }
        self.take_down(id).await.map(Ok)
    }

    async fn usage(&self) -> Result<Usage, Failure> {
        let layout = self.layout.clone();
        let looking = tokio::task::spawn_blocking(move || look(&layout));
        let data = self.layout.data.display();
        let looked = looking.await.map_err(join)?;
        looked.map_err(|error| io(format!("{data} cannot be looked at"), &error))
    }

    async fn free_bytes(&self) -> Result<Option<u64>, Failure> {
        let data = self.layout.data.clone();
        let looking = tokio::task::spawn_blocking(move || {
            let stat = nix::sys::statvfs::statvfs(&data).ok()?;
            Some(stat.blocks_available().saturating_mul(stat.fragment_size()))
        });
        looking.await.map_err(join)
    }

    /// Folders that are named like a run and belong to none on record.
    fn unrecorded(&self, usage: &Usage, known: &[Candidate]) -> Vec<DiskStranger> {
        let known: std::collections::HashSet<_> = known.iter().map(|it| &it.run.id).collect();
        let unknown = usage.runs.iter();
        unknown
            .filter(|(id, sizes)| sizes.removable() > 0 && !known.contains(id))
            .map(|(id, sizes)| DiskStranger {
                path: self.layout.shadow(id),
                bytes: sizes.removable(),
            })
            .collect()
    }
}

fn keep_of(policy: &DiskPolicy, asked: Option<u64>) -> Duration {
    let seconds = asked.or(policy.keep_seconds);
    seconds.map_or(KEEP, Duration::from_secs)
}

fn over(bytes: u64, quota: u64) -> Option<u64> {
    bytes.checked_sub(quota).filter(|over| *over > 0)
}

fn encode(kept: &DiskKept) -> Result<String, Failure> {
    serde_json::to_string(kept).map_err(internal)
}

fn entry_of(entry: DiskEntry) -> DiskLogEntry {
    DiskLogEntry {
        at: entry.at,
        run: entry.run,
        action: entry.action.tag().to_owned(),
        detail: entry.detail,
        bytes: entry.bytes,
    }
}
