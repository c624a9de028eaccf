//! The commit that a run starts from: the remote's tip where the local branch is merely behind it, else
//! the local branch, with a word where that may be old.

pub(crate) use super::fetching::Fetches;

use super::{Cut, Provisioning};
use crate::api::{BaseSource, BaseView};
use crate::failures::{internal, join};
use crate::words::count;
use foreman_domain::{At, EventKind, Failure};
use foreman_git::{Fetched, Standing, Upstream};
use std::time::Duration;

/// Longest wait for a remote where nothing else was said.
const PATIENCE: u32 = 60;

impl Provisioning<'_> {
    /// Chooses the commit, keeps it, and writes down how fresh it is.
    pub(super) async fn choose_base(&mut self) -> Result<(), Cut> {
        // One that goes on from another run starts where that one ended, whatever the base does.
        if let Some(follows) = &self.details.follows {
            self.details.worktree.base_commit.clone_from(&follows.head);
            self.save_details().await?;
            return self.keep_base().await;
        }
        let (repo, branch) = (self.plan.repo.clone(), self.plan.pre.base_branch.clone());
        let looking = tokio::task::spawn_blocking(move || repo.upstream(&branch));
        let upstream = looking.await.map_err(join)?.map_err(Failure::from)?;
        let mut chosen = BaseView {
            source: BaseSource::Local,
            remote: upstream.as_ref().map(|upstream| upstream.shown.clone()),
            fetched: false,
            committed_at: None,
            behind: None,
            stale: None,
        };
        let mut commit = self.plan.pre.base_commit.clone();
        if let Some(upstream) = upstream {
            let unfetched = match self.request.prepare.no_fetch {
                true => Some("it was not asked (--no-fetch)".to_owned()),
                false => self.ask(&upstream, &mut chosen, &mut commit).await?,
            };
            if let Some(why) = unfetched {
                self.note_staleness(&upstream, &why, &mut chosen).await?;
            }
        }
        let (repo, at) = (self.plan.repo.clone(), commit.clone());
        let looking = tokio::task::spawn_blocking(move || repo.committed_at(&at));
        let seconds = looking.await.map_err(join)?.map_err(Failure::from)?;
        chosen.committed_at = Some(At::from_millis(seconds.saturating_mul(1000)));
        if let Some(stale) = &chosen.stale {
            let age = chosen.committed_at.map(age).unwrap_or_default();
            let message = format!("the base may be old: {stale}; its newest commit is {age} old");
            self.tell(vec![EventKind::Warning { message }]).await?;
        }
        self.details.worktree.base_commit = commit;
        self.details.freshness = Some(chosen);
        self.save_details().await?;
        self.keep_base().await
    }

    async fn keep_base(&self) -> Result<(), Cut> {
        let (repo, worktree) = (self.plan.repo.clone(), self.details.worktree.clone());
        let keeping = tokio::task::spawn_blocking(move || repo.keep_base(&worktree));
        keeping.await.map_err(join)?.map_err(Failure::from)?;
        Ok(())
    }

    /// Asks the remote; gives why it did not answer.
    async fn ask(
        &mut self,
        upstream: &Upstream,
        chosen: &mut BaseView,
        commit: &mut String,
    ) -> Result<Option<String>, Cut> {
        let seconds = self.request.prepare.fetch_seconds.unwrap_or(PATIENCE);
        let shown = &upstream.shown;
        self.say(&format!("asking for {shown} (for {seconds} s at most)"))
            .await?;
        let limit = Duration::from_secs(u64::from(seconds));
        let tip = match self.fetch(upstream, limit).await? {
            Fetched::Tip(tip) => tip,
            Fetched::Unreached(why) => return Ok(Some(why)),
            Fetched::Stopped => return Err(Cut::Stopped),
        };
        let (repo, pre, at) = (self.plan.repo.clone(), self.plan.pre.clone(), tip.clone());
        let comparing = tokio::task::spawn_blocking(move || repo.standing(&pre, &at));
        let standing = comparing.await.map_err(join)?.map_err(Failure::from)?;
        chosen.fetched = true;
        chosen.behind = Some(0);
        let branch = &self.plan.pre.base_branch;
        match standing {
            Standing { behind: 0, .. } => {}
            Standing { ahead: 0, behind } => {
                chosen.source = BaseSource::Remote;
                let commits = count(behind, "commit", "commits");
                self.say(&format!(
                    "starting from {shown} at {}: {branch} here is {commits} behind it and stays where it is",
                    tip.get(..10).unwrap_or(&tip)
                ))
                .await?;
                *commit = tip;
            }
            Standing { ahead, behind } => {
                chosen.behind = u64::try_from(behind).ok();
                chosen.stale = Some(format!(
                    "{branch} has {} that {shown} has not, and lacks {} of it, so the run starts from \
                     {branch} as it is here",
                    count(ahead, "commit", "commits"),
                    count(behind, "commit", "commits"),
                ));
            }
        }
        Ok(None)
    }

    /// Says how old the local branch may be, by what was fetched last.
    async fn note_staleness(
        &self,
        upstream: &Upstream,
        why: &str,
        chosen: &mut BaseView,
    ) -> Result<(), Cut> {
        let (repo, pre) = (self.plan.repo.clone(), self.plan.pre.clone());
        let looking = tokio::task::spawn_blocking(move || repo.last_fetched(&pre));
        let known = looking.await.map_err(join)?.map_err(Failure::from)?;
        let behind = known.map(|standing| standing.behind);
        chosen.behind = behind.and_then(|behind| u64::try_from(behind).ok());
        let (branch, shown) = (&self.plan.pre.base_branch, &upstream.shown);
        let as_known = match behind {
            None => "what it has is not known here".to_owned(),
            Some(0) => format!("{branch} has all of it as last fetched"),
            Some(behind) => format!(
                "{branch} is {} behind it as last fetched",
                count(behind, "commit", "commits")
            ),
        };
        // An operator who wants no fetch and is not behind needs no word about it.
        if !(self.request.prepare.no_fetch && behind == Some(0)) {
            chosen.stale = Some(format!("{shown} was not fetched ({why}); {as_known}"));
        }
        Ok(())
    }
}

/// The time since then, in its largest unit.
fn age(at: At) -> String {
    let seconds = At::now().as_millis().saturating_sub(at.as_millis()) / 1000;
    let whole = |unit: i64| {
        usize::try_from(seconds / unit)
            .map_err(internal)
            .unwrap_or(0)
    };
    match seconds {
        ..60 => "less than a minute".to_owned(),
        60..3600 => count(whole(60), "minute", "minutes"),
        3600..86_400 => count(whole(3600), "hour", "hours"),
        _ => count(whole(86_400), "day", "days"),
    }
}
