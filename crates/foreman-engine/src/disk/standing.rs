//! Whether a run's files may go: never while it is live or recent, never what was not landed, and never
//! what could not be found out.

use crate::api::DiskKept;
use crate::details::RunDetails;
use crate::engine::Engine;
use crate::failures::{OrFail, join};
use foreman_domain::{At, Failure, RunState};
use foreman_git::Unlanded;
use foreman_store::StoredRun;
use std::path::Path;
use std::time::Duration;

/// Files that go, or why they stay.
pub(crate) type Standing = Result<(), DiskKept>;

impl Engine {
    /// Whether the files of a run may go when it must have been at rest for `keep`.
    pub(crate) async fn standing(
        &self,
        run: &StoredRun,
        keep: Duration,
        now: At,
    ) -> Result<Standing, Failure> {
        match run.state {
            RunState::Provisioning
            | RunState::Running { .. }
            | RunState::Stopping { .. }
            | RunState::Merging => return Ok(Err(DiskKept::Live)),
            RunState::Review { .. }
            | RunState::Failed { .. }
            | RunState::Cancelled { .. }
            | RunState::Interrupted { .. } => return Ok(Err(DiskKept::Undecided)),
            RunState::Discarded { .. } => {
                let why = "it was discarded, and yet files of it are there".to_owned();
                return Ok(Err(DiskKept::Unknown { why }));
            }
            RunState::Merged { .. } | RunState::NoChanges => {}
        }
        let news = self.store.last_news_at(&run.id).await.or_fail()?;
        let at_rest = news.max(run.ended_at).unwrap_or(run.created_at);
        let keep = i64::try_from(keep.as_millis()).unwrap_or(i64::MAX);
        let until = at_rest.as_millis().saturating_add(keep);
        if until > now.as_millis() {
            let until = At::from_millis(until);
            return Ok(Err(DiskKept::Recent { until }));
        }
        let details = match RunDetails::of(run) {
            Ok(details) => details,
            Err(failure) => return Ok(Err(unknown(&failure))),
        };
        let looking = tokio::task::spawn_blocking(move || look(&details));
        looking.await.map_err(join)
    }
}

/// The part that git and the process table answer. Blocking.
fn look(details: &RunDetails) -> Standing {
    let repo = match details.repository() {
        Ok(repo) => repo,
        Err(failure) => return Err(unknown(&failure)),
    };
    match repo.unlanded(&details.worktree) {
        Ok(None) => {}
        Ok(Some(Unlanded::Commits { count })) => {
            return Err(DiskKept::Unlanded {
                commits: count as u64,
            });
        }
        Ok(Some(Unlanded::Files { count, first })) => {
            return Err(DiskKept::Dirty {
                files: count as u64,
                first,
            });
        }
        Ok(Some(Unlanded::ByHand { what })) => return Err(DiskKept::ByHand { what }),
        Err(error) => return Err(unknown(&Failure::from(error))),
    }
    match works_in(&details.worktree.path) {
        true => Err(DiskKept::Busy),
        false => Ok(()),
    }
}

fn unknown(failure: &Failure) -> DiskKept {
    DiskKept::Unknown {
        why: failure.message.clone(),
    }
}

/// Whether a process has its working directory in this folder: a shell, an editor.
fn works_in(folder: &Path) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return false;
    };
    processes
        .flatten()
        .filter_map(|process| std::fs::read_link(process.path().join("cwd")).ok())
        .any(|at| at.starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_in_the_folder_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        std::fs::create_dir(folder.join("inner")).unwrap();
        assert!(!works_in(&folder));
        let mut sleeper = std::process::Command::new("sleep")
            .arg("60")
            .current_dir(folder.join("inner"))
            .spawn()
            .unwrap();
        let seen = works_in(&folder);
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert!(seen);
    }
}
