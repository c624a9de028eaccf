//! Everything side by side, for the doctor: what is stored, what git has registered, what is on the disk
//! and which processes live; what would be done about it, and doing it.

use super::look::{self, Known};
use super::plan::{Finding, Folder, GitSeen, Phase, ShimSeen, Step, Truth};
use crate::api::TruthView;
use crate::details::RunDetails;
use crate::engine::Engine;
use crate::failures::{OrFail, io, join};
use foreman_domain::{Failure, sanitize_line};
use foreman_store::StoredRun;
use std::collections::HashMap;
use std::sync::Arc;

/// Far more than there are.
const ALL: u32 = u32::MAX;

impl Engine {
    /// Everything that is not at rest or not as it should be, and what is done about it; done only with
    /// `repair`.
    pub async fn compare(self: &Arc<Self>, repair: bool) -> Result<Vec<TruthView>, Failure> {
        let runs = self.store.runs(ALL).await.or_fail()?;
        let mut by_id: HashMap<String, StoredRun> = HashMap::with_capacity(runs.len());
        let mut known = Vec::with_capacity(runs.len());
        let mut views = Vec::new();
        for run in runs {
            match RunDetails::of(&run) {
                Ok(details) => known.push(Known {
                    run: run.id.clone(),
                    stored: self.stored(&run),
                    details,
                }),
                // One unreadable record never hides the others, and nothing of it is a stray.
                Err(error) => views.push(unreadable(&run, &error)),
            }
            by_id.insert(run.id.to_string(), run);
        }
        let layout = self.layout.clone();
        let looking = tokio::task::spawn_blocking(move || look::everything(&layout, known));
        for truth in looking.await.map_err(join)? {
            let steps = truth.steps();
            let stored = by_id.get(&truth.run);
            let is_unreadable = stored.is_some() && truth.stored.is_none();
            let goes_on = truth
                .stored
                .is_some_and(|row| matches!(row.phase, Phase::Live | Phase::Merging));
            if is_unreadable || (steps.is_empty() && !goes_on) {
                continue;
            }
            let mut view = view(&truth, stored);
            for step in &steps {
                let words = words(step);
                match step {
                    Step::Leave(_) => view.differences.push(words),
                    _ if repair => match self.repair(&truth, stored, step).await {
                        Ok(true) => view.done.push(words),
                        Ok(false) => view.differences.push(format!("not any more: {words}")),
                        Err(error) => view.differences.push(format!("{words}: {error}")),
                    },
                    _ => view.would.push(words),
                }
            }
            views.push(view);
        }
        Ok(views)
    }

    /// Does a step; false when it was no longer to be done.
    async fn repair(
        self: &Arc<Self>,
        truth: &Truth,
        stored: Option<&StoredRun>,
        step: &Step,
    ) -> Result<bool, Failure> {
        self.sure().await?;
        match (step, stored) {
            (Step::Follow | Step::Settle | Step::FinishMerge, Some(run)) => self.begin(run, step),
            (Step::RemoveSocket, Some(run)) => {
                let socket = RunDetails::of(run)?.files.socket;
                let removed = std::fs::remove_file(&socket);
                removed
                    .map(|()| true)
                    .map_err(|error| io(format!("{} cannot be removed", socket.display()), &error))
            }
            (Step::RemoveEmptyFolders, None) => {
                let (layout, run) = (self.layout.clone(), truth.run.clone());
                let removing = tokio::task::spawn_blocking(move || {
                    let places = look::places_of(&layout, &run);
                    // Refused by the kernel for a folder that is not empty. Each is tried.
                    let removed = places
                        .iter()
                        .filter(|place| std::fs::remove_dir(place).is_ok());
                    removed.count() > 0
                });
                removing.await.map_err(join)
            }
            (Step::RemoveEmptyBranch { tip }, None) => {
                let Some(root) = truth.repo.clone() else {
                    return Ok(false);
                };
                let (run, tip) = (truth.run.clone(), tip.clone());
                let removing = tokio::task::spawn_blocking(move || {
                    let repo = foreman_git::Repository::open(&root)?;
                    repo.remove_empty_branch(&run, &tip)
                });
                removing.await.map_err(join)?.map_err(Failure::from)
            }
            _ => Ok(false),
        }
    }
}

fn unreadable(run: &StoredRun, error: &Failure) -> TruthView {
    TruthView {
        run: run.id.to_string(),
        stored: run.state.tag().to_owned(),
        git: "not asked".into(),
        disk: "not looked at".into(),
        processes: "not looked at".into(),
        differences: vec![error.message.clone()],
        would: vec![],
        done: vec![],
    }
}

fn view(truth: &Truth, stored: Option<&StoredRun>) -> TruthView {
    TruthView {
        run: sanitize_line(&truth.run),
        stored: stored.map_or_else(|| "not known".to_owned(), |run| run.state.tag().to_owned()),
        git: git_in_words(truth),
        disk: disk_in_words(truth),
        processes: processes_in_words(truth),
        differences: vec![],
        would: vec![],
        done: vec![],
    }
}

fn git_in_words(truth: &Truth) -> String {
    match &truth.git {
        GitSeen::NotLooked => "not asked".into(),
        GitSeen::Unreachable(_) => "repository unreachable".into(),
        GitSeen::Known {
            registered: Some(registered),
            ..
        } => {
            let branch = registered.branch.as_ref().map(|_| "branch");
            let tree = registered.worktree.as_ref().map(|_| "worktree");
            let parts: Vec<_> = [branch, tree].into_iter().flatten().collect();
            parts.join(" and ")
        }
        GitSeen::Known { differences, .. } if differences.is_empty() => "as it was left".into(),
        GitSeen::Known { .. } => "changed".into(),
    }
}

fn disk_in_words(truth: &Truth) -> String {
    let disk = &truth.disk;
    let there = |folder: Folder| folder != Folder::Absent;
    let parts: Vec<_> = [
        (there(disk.folder), "journal"),
        (there(disk.worktree), "worktree"),
        (there(disk.shadow), "shadow"),
        (there(disk.home), "agent's home"),
        (disk.result, "result"),
    ]
    .into_iter()
    .filter_map(|(is_there, what)| is_there.then_some(what))
    .collect();
    match parts.is_empty() {
        true => "nothing".into(),
        false => parts.join(", "),
    }
}

fn processes_in_words(truth: &Truth) -> String {
    let shim = match truth.shim {
        ShimSeen::Alive(pid) => Some(format!("supervisor {pid}")),
        ShimSeen::Starting => Some("supervisor starting".into()),
        ShimSeen::Gone | ShimSeen::Never => None,
    };
    let cage = truth.cage.map(|pid| format!("cage {pid}"));
    let parts: Vec<_> = [shim, cage].into_iter().flatten().collect();
    match parts.is_empty() {
        true => "none".into(),
        false => parts.join(", "),
    }
}

fn words(step: &Step) -> String {
    match step {
        Step::Follow => "follow its supervisor".into(),
        Step::Settle => "bring it to rest: its supervisor is gone".into(),
        Step::FinishMerge => "finish its merge".into(),
        Step::RemoveSocket => "remove the socket that it left".into(),
        Step::RemoveEmptyFolders => "remove its empty folders, which belong to no run".into(),
        Step::RemoveEmptyBranch { .. } => {
            "remove its branch, which belongs to no run and holds nothing of its own".into()
        }
        Step::Leave(finding) => finding_in_words(finding),
    }
}

fn finding_in_words(finding: &Finding) -> String {
    match finding {
        Finding::RepositoryUnreachable(why) => {
            format!("its repository is unreachable: {why}. Nothing of the run is touched")
        }
        Finding::Differs(what) => what.clone(),
        Finding::StillThere => "it is discarded, but something of it is still on the disk".into(),
        Finding::ShimOfEndedRun(pid) => {
            format!("it is at rest, but its supervisor (process {pid}) lives")
        }
        Finding::CageOfEndedRun(pid) => {
            format!("it is at rest, but its cage (process {pid}) lives")
        }
        Finding::ShimWithoutRun(pid) => format!(
            "a supervisor (process {pid}) carries a run that is not stored here; it is left alone"
        ),
        Finding::FoldersWithoutRun => {
            "its folders belong to no stored run and may hold work; they are left".into()
        }
        Finding::BranchWithoutRun(tip) => {
            format!("its branch (at {tip}) belongs to no stored run and may hold work; it is left")
        }
        Finding::WorktreeWithoutRun(place) => format!(
            "git has a worktree for it at {}, which belongs to no stored run; it is left",
            sanitize_line(&place.to_string_lossy())
        ),
    }
}
