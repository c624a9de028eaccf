//! How many commits the base branches have beyond the runs that wait for a review: remembered from when
//! it was looked at last, so that listing runs never asks git.
//!
//! Whoever shows a diff or a gate looks, and so does a task of the engine once in a while, when somebody
//! asked for it since it looked last.

use crate::details::RunDetails;
use crate::engine::Engine;
use crate::failures::OrFail;
use crate::review::git;
use foreman_domain::{Failure, Outcome, RunId};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Runs that are looked at in one go, the newest first.
const MOST: u32 = 500;

/// What is remembered.
#[derive(Debug, Default)]
pub(crate) struct Behind {
    known: Mutex<HashMap<RunId, u32>>,
    asked: AtomicBool,
}

impl Behind {
    /// As it was looked at last.
    pub fn of(&self, run: &RunId) -> Option<u32> {
        self.asked.store(true, Ordering::Relaxed);
        self.known().get(run).copied()
    }

    /// Takes in what was just looked at; true when it is news.
    pub fn note(&self, run: &RunId, commits: u32) -> bool {
        self.known().insert(run.clone(), commits) != Some(commits)
    }

    fn keep(&self, wanted: impl Fn(&RunId) -> bool) {
        self.known().retain(|run, _| wanted(run));
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, u32>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Looks again at runs that wait for a review, if somebody asked since the last look.
    pub async fn look_at_bases(&self) -> Result<(), Failure> {
        if !self.behind.asked.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let waiting = self.store.runs_in_review(MOST).await.or_fail()?;
        self.behind
            .keep(|run| waiting.iter().any(|waiting| waiting.id == *run));
        for run in waiting {
            if self.cancel.is_cancelled() {
                return Ok(());
            }
            let Some(Outcome::Changes { head, .. }) = run.outcome.clone() else {
                continue;
            };
            let details = RunDetails::of(&run)?;
            if details.repo_is_away() {
                continue;
            }
            let looked = git(&details, move |repo, details| {
                repo.commits_behind(&details.worktree, &head)
            });
            match looked.await {
                Ok(commits) => self.tell_behind(&run.id, commits),
                // Whoever looks at the run itself is told why.
                Err(failure) => {
                    tracing::debug!(run = %run.id, %failure, "a base was not looked at")
                }
            }
        }
        Ok(())
    }

    /// Notes how far a base branch is ahead, and says so where it is news.
    pub fn tell_behind(&self, run: &RunId, commits: u32) {
        if self.behind.note(run, commits) {
            self.news.tell(run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_already_is_no_news_and_what_is_not_wanted_is_forgotten() {
        let (behind, run) = (Behind::default(), RunId::from_random(1));
        assert!(behind.note(&run, 2) && !behind.note(&run, 2) && behind.note(&run, 3));
        assert_eq!(behind.of(&run), Some(3));
        behind.keep(|_| false);
        assert_eq!(behind.of(&run), None);
    }
}
