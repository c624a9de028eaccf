//! What is to be done about one run, from what is stored and what is seen: a pure function.
//!
//! Only what cannot lose work is ever done. Everything that is not known for certain, or that nobody is
//! known to own, is told and left: it may be somebody's work.

use foreman_git::Registered;
use std::path::PathBuf;

/// Where a stored run stands, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// A shim is expected.
    Live,
    /// In the middle of a merge.
    Merging,
    /// At rest, with a worktree.
    Kept,
    /// At rest, and may have been cleaned up.
    Merged,
    /// At rest, without a worktree: never prepared, or taken away.
    Bare,
}

/// What is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    pub phase: Phase,
    /// Its shim is followed already.
    pub followed: bool,
    /// Somebody prepares, merges or ends it right now.
    pub busy: bool,
}

/// What is seen of a shim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ShimSeen {
    /// None ever said who it is.
    #[default]
    Never,
    /// One may be starting: a process has the run's spec.
    Starting,
    /// It lives.
    Alive(u32),
    /// It said who it is, and is gone.
    Gone,
}

/// A folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Folder {
    /// Not there.
    #[default]
    Absent,
    /// There, with nothing in it.
    Empty,
    /// There, with something in it, or not to be read.
    Full,
}

impl Folder {
    fn is_there(self) -> bool {
        self != Self::Absent
    }
}

/// What is on the disk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct DiskSeen {
    pub folder: Folder,
    pub worktree: Folder,
    pub shadow: Folder,
    /// What its agent kept of its home.
    pub home: Folder,
    pub socket: bool,
    pub result: bool,
}

/// What git says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum GitSeen {
    /// It was not asked.
    #[default]
    NotLooked,
    /// Nothing is where the repository was, or it cannot be read; why.
    Unreachable(String),
    /// It was asked.
    Known {
        /// What is registered under the run's id.
        registered: Option<Registered>,
        /// The branch holds no commit that no other branch has.
        branch_is_empty: bool,
        /// What is not as it was left, as sentences.
        differences: Vec<String>,
    },
}

/// Everything about one run id, side by side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Truth {
    /// The id; whatever stands where one would stand, for what nobody knows. Untrusted text.
    pub run: String,
    pub stored: Option<Stored>,
    pub shim: ShimSeen,
    /// Process 1 of its cage, while it lives.
    pub cage: Option<u32>,
    pub disk: DiskSeen,
    pub git: GitSeen,
    /// The repository that git was asked in.
    pub repo: Option<PathBuf>,
}

/// What is done, or said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Follow the run's shim.
    Follow,
    /// Bring the run to rest.
    Settle,
    /// Finish a merge that was cut short.
    FinishMerge,
    /// Remove the socket of a run that is over.
    RemoveSocket,
    /// Remove folders without anything in them that belong to no run.
    RemoveEmptyFolders,
    /// Remove a branch that belongs to no run and holds nothing of its own.
    RemoveEmptyBranch {
        /// Where it must be.
        tip: String,
    },
    /// Nothing but to say it.
    Leave(Finding),
}

/// What is left as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finding {
    /// The repository is not there.
    RepositoryUnreachable(String),
    /// Git or the disk differ from what was left; a sentence.
    Differs(String),
    /// A worktree, shadow or agent's home is there although the run has none.
    StillThere,
    /// A shim lives although its run is at rest.
    ShimOfEndedRun(u32),
    /// A cage lives although its run is at rest.
    CageOfEndedRun(u32),
    /// A shim that no stored run knows.
    ShimWithoutRun(u32),
    /// Folders that no stored run knows.
    FoldersWithoutRun,
    /// A branch that no stored run knows and that may hold work.
    BranchWithoutRun(String),
    /// A registered worktree that no stored run knows.
    WorktreeWithoutRun(PathBuf),
}

impl Truth {
    /// What is to be done. The same truth gives the same steps, and once they are done none.
    pub fn steps(&self) -> Vec<Step> {
        match self.stored {
            None => self.of_nobody(),
            Some(Stored { followed: true, .. } | Stored { busy: true, .. }) => vec![],
            Some(Stored { phase, .. }) => self.of_run(phase),
        }
    }

    fn of_run(&self, phase: Phase) -> Vec<Step> {
        let mut steps = Vec::new();
        let leave = |finding| Step::Leave(finding);
        match (phase, self.shim) {
            (Phase::Live, ShimSeen::Alive(_) | ShimSeen::Starting) => steps.push(Step::Follow),
            (Phase::Live, ShimSeen::Gone | ShimSeen::Never) => steps.push(Step::Settle),
            (Phase::Merging, _) => steps.push(Step::FinishMerge),
            (Phase::Kept | Phase::Merged | Phase::Bare, ShimSeen::Alive(pid)) => {
                steps.push(leave(Finding::ShimOfEndedRun(pid)));
            }
            (Phase::Kept | Phase::Merged | Phase::Bare, _) => {
                if let Some(pid) = self.cage {
                    steps.push(leave(Finding::CageOfEndedRun(pid)));
                }
                if self.disk.socket {
                    steps.push(Step::RemoveSocket);
                }
            }
        }
        let disk = &self.disk;
        let has_tree = [disk.worktree, disk.shadow, disk.home]
            .into_iter()
            .any(Folder::is_there);
        match (&self.git, phase) {
            (GitSeen::Unreachable(why), _) => {
                steps.push(leave(Finding::RepositoryUnreachable(why.clone())));
            }
            (GitSeen::Known { differences, .. }, Phase::Kept | Phase::Merged) => {
                let differs = |what: &String| leave(Finding::Differs(what.clone()));
                steps.extend(differences.iter().map(differs));
            }
            (GitSeen::Known { .. } | GitSeen::NotLooked, Phase::Bare) if has_tree => {
                steps.push(leave(Finding::StillThere));
            }
            (GitSeen::Known { .. } | GitSeen::NotLooked, _) => {}
        }
        steps
    }

    fn of_nobody(&self) -> Vec<Step> {
        let leave = |finding| Step::Leave(finding);
        let mut steps = Vec::new();
        if let ShimSeen::Alive(pid) = self.shim {
            // Its run may be known to another database: nothing of it is touched.
            return vec![leave(Finding::ShimWithoutRun(pid))];
        }
        let disk = &self.disk;
        let folders = [disk.folder, disk.worktree, disk.shadow, disk.home];
        let holds_something = folders.contains(&Folder::Full);
        if holds_something {
            steps.push(leave(Finding::FoldersWithoutRun));
        } else if folders.contains(&Folder::Empty) {
            steps.push(Step::RemoveEmptyFolders);
        }
        if let GitSeen::Known {
            registered: Some(registered),
            branch_is_empty,
            ..
        } = &self.git
        {
            if let Some(place) = &registered.worktree {
                steps.push(leave(Finding::WorktreeWithoutRun(place.clone())));
            }
            if let Some(tip) = &registered.branch {
                let is_free = *branch_is_empty && registered.worktree.is_none() && !holds_something;
                steps.push(match is_free {
                    true => Step::RemoveEmptyBranch { tip: tip.clone() },
                    false => leave(Finding::BranchWithoutRun(tip.clone())),
                });
            }
        }
        steps
    }
}

#[cfg(test)]
#[path = "plan/tests.rs"]
mod tests;
