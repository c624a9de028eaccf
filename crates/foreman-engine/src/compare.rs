//! Several attempts side by side: what each did, and in which files each two differ.
//!
//! Only looks. Merging one does nothing to the others: they stay where they are until the operator
//! discards or merges them, too.

use crate::api::{
    Attempt, AttemptChanges, AttemptPair, AttemptRun, CompareRequest, Comparison, DiffRequest,
    DiffView, OtherAttempts, RunView,
};
use crate::details::RunDetails;
use crate::engine::Engine;
use crate::failures::{OrFail, join};
use foreman_domain::{At, Code, Failure, RunId, RunState, sanitize_line};
use foreman_store::{BlockFilter, StoredOrder};
use std::collections::{BTreeSet, HashSet};

/// Attempts at one time: each two are compared.
const MOST: usize = 12;
/// Blocks that are counted.
const BLOCKS: u32 = 10_000;

impl Engine {
    /// Attempts of a group, or the runs that are named, side by side.
    pub async fn compare_attempts(&self, request: CompareRequest) -> Result<Comparison, Failure> {
        let orders = match request.of.as_slice() {
            [] => return Err(nothing_to_compare()),
            [group] => self.store.orders_of_group(group).await.or_fail()?,
            _ => Vec::new(),
        };
        let (group, attempts) = match (request.of.as_slice(), orders.is_empty()) {
            ([group], false) => (Some(group.clone()), self.attempts_of(orders).await?),
            ([typed], true) => return Err(self.no_group(typed).await),
            (several, _) => (None, self.attempts_named(several).await?),
        };
        let pairs = self.pairs(&attempts).await?;
        Ok(Comparison {
            group,
            attempts,
            pairs,
        })
    }

    /// The other attempts at what a run attempts that are not at their end.
    pub async fn other_attempts(&self, typed: &str) -> Result<OtherAttempts, Failure> {
        let id = self.find_run(typed).await?;
        let order = self.store.run(&id).await.or_fail()?.order;
        let group = match self.store.order(&order).await {
            Ok(order) => order.group,
            // A run that was started by hand has no recorded order.
            Err(foreman_store::StoreError::NoOrder(_)) => None,
            Err(error) => return Err(error).or_fail(),
        };
        let mut left = Vec::new();
        if let Some(group) = &group {
            for order in self.store.orders_of_group(group).await.or_fail()? {
                let Some(run) = order.run.filter(|run| *run != id) else {
                    continue;
                };
                match self.store.run(&run).await.or_fail()?.state {
                    RunState::Merged { .. } | RunState::Discarded { .. } => {}
                    _ => left.push(run),
                }
            }
        }
        Ok(OtherAttempts { group, left })
    }

    async fn no_group(&self, typed: &str) -> Failure {
        match self.find_run(typed).await {
            Ok(run) => Failure::new(
                Code::Usage,
                format!("{run} is a single run, so there is nothing to compare it with"),
            )
            .hint("Name a second run, or a group of orders."),
            Err(_) => Failure::new(
                Code::NotFound,
                format!(
                    "there is no group of orders and no run \"{}\"",
                    sanitize_line(typed)
                ),
            )
            .hint("See `foreman orders` and `foreman runs`."),
        }
    }

    async fn attempts_of(&self, orders: Vec<StoredOrder>) -> Result<Vec<Attempt>, Failure> {
        let mut attempts = Vec::new();
        for order in orders {
            refuse_too_many(attempts.len())?;
            let run = match &order.run {
                Some(run) => Some(self.attempt(run).await?),
                None => None,
            };
            attempts.push(Attempt {
                order: order.id,
                order_state: Some(order.state),
                run,
            });
        }
        Ok(attempts)
    }

    async fn attempts_named(&self, typed: &[String]) -> Result<Vec<Attempt>, Failure> {
        let (mut attempts, mut seen) = (Vec::new(), HashSet::new());
        for name in typed {
            let run = self.find_run(name).await?;
            if !seen.insert(run.clone()) {
                continue;
            }
            refuse_too_many(attempts.len())?;
            attempts.push(Attempt {
                order: self.store.run(&run).await.or_fail()?.order,
                order_state: None,
                run: Some(self.attempt(&run).await?),
            });
        }
        if attempts.len() < 2 {
            return Err(nothing_to_compare());
        }
        Ok(attempts)
    }

    async fn attempt(&self, id: &RunId) -> Result<AttemptRun, Failure> {
        let view: RunView = self.view_of(id).await?;
        let request = DiffRequest::new(id.as_str()).without_patch();
        let (changes, no_changes) = match self.diff(request).await {
            Ok(diff) => (Some(changes(diff)), None),
            Err(failure) => (None, Some(failure.message)),
        };
        let filter = BlockFilter {
            run: Some(id.clone()),
            limit: Some(BLOCKS),
            ..BlockFilter::default()
        };
        let blocks = self.store.blocks(&filter).await.or_fail()?.len();
        let amendments = self.store.amendments_of_run(id).await.or_fail()?.len();
        let until = view.ended_at.unwrap_or_else(At::now);
        let millis = until
            .as_millis()
            .saturating_sub(view.created_at.as_millis());
        Ok(AttemptRun {
            id: view.id,
            title: view.title,
            state: view.state,
            changes,
            no_changes,
            checks: view.checks,
            failed_checks: view.failed_checks,
            blocks: u32::try_from(blocks).unwrap_or(u32::MAX),
            open_blocks: view.open_blocks,
            amendments: u32::try_from(amendments).unwrap_or(u32::MAX),
            millis: u64::try_from(millis).unwrap_or(0),
        })
    }

    /// Each two attempts with changes in one repository.
    async fn pairs(&self, attempts: &[Attempt]) -> Result<Vec<AttemptPair>, Failure> {
        let runs: Vec<_> = attempts
            .iter()
            .filter_map(|attempt| attempt.run.as_ref())
            .filter_map(|run| Some((&run.id, run.changes.as_ref()?)))
            .collect();
        let mut pairs = Vec::new();
        for (index, (left, ours)) in runs.iter().enumerate() {
            let stored = self.store.run(left).await.or_fail()?;
            for (right, theirs) in runs.iter().skip(index + 1) {
                let other = self.store.run(right).await.or_fail()?;
                if other.repo_key != stored.repo_key {
                    continue;
                }
                let details = RunDetails::of(&stored)?;
                let (from, to) = (ours.head.clone(), theirs.head.clone());
                let looking = tokio::task::spawn_blocking(move || {
                    let repo = details.repository()?;
                    repo.diff_since(&from, &to, false).map_err(Failure::from)
                });
                let between = looking.await.map_err(join)??;
                let differ: HashSet<_> = between.files.into_iter().map(|file| file.path).collect();
                let either: BTreeSet<_> = ours.files.iter().chain(&theirs.files).collect();
                let (differ, alike): (Vec<_>, Vec<_>) =
                    either.into_iter().partition(|path| differ.contains(*path));
                pairs.push(AttemptPair {
                    left: (*left).clone(),
                    right: (*right).clone(),
                    differ: differ.into_iter().cloned().collect(),
                    alike: u32::try_from(alike.len()).unwrap_or(u32::MAX),
                });
            }
        }
        Ok(pairs)
    }
}

fn changes(diff: DiffView) -> AttemptChanges {
    let sum = |lines: fn(&crate::api::DiffFile) -> Option<u32>| {
        diff.files.iter().filter_map(lines).map(u64::from).sum()
    };
    AttemptChanges {
        added: sum(|file| file.added),
        removed: sum(|file| file.removed),
        head: diff.head,
        files: diff.files.into_iter().map(|file| file.path).collect(),
        flags: diff.flags,
        refusal: diff.refusal,
    }
}

fn refuse_too_many(so_far: usize) -> Result<(), Failure> {
    if so_far < MOST {
        return Ok(());
    }
    let message = format!("at most {MOST} attempts can be compared at one time");
    Err(Failure::new(Code::Usage, message).hint("Name the runs that you mean."))
}

fn nothing_to_compare() -> Failure {
    Failure::new(Code::Usage, "there is nothing to compare")
        .hint("Name a group of orders, or two runs: `foreman compare RUN RUN`.")
}
