//! Taking back, step by step, what was made for a run of which nothing was started.

use super::Step;
use crate::details::RunDetails;
use crate::failures::{internal, io};
use foreman_domain::{Code, Failure, RunId};
use foreman_git::GitError;
use std::io::ErrorKind;
use std::path::Path;

/// Takes back `step`; what is gone already is done. Blocking. Gives a sentence for the operator where
/// something was kept instead.
pub(crate) fn undo(details: &RunDetails, step: Step) -> Result<Option<String>, Failure> {
    match step {
        // Nothing of it can start without its spec.
        Step::Launch => remove_file(&details.spec)
            .and_then(|()| remove_file(&details.spec.with_extension("void")))
            .and_then(|()| details.agent_home.as_deref().map_or(Ok(()), remove_tree))
            .map(|()| None),
        Step::Shadow => {
            let mut building = details.shadow.file_name().unwrap_or_default().to_owned();
            building.push(".new");
            remove_tree(&details.shadow.with_file_name(building))?;
            remove_tree(&details.shadow).map(|()| None)
        }
        // What they put into the worktree goes with it; of the room, nothing was taken.
        Step::Copies | Step::Submodules | Step::Room => Ok(None),
        Step::Worktree | Step::Base => unmake(details),
    }
}

fn unmake(details: &RunDetails) -> Result<Option<String>, Failure> {
    let run = details.worktree.run.parse::<RunId>().map_err(internal)?;
    let repo = match details.repository() {
        Ok(repo) => repo,
        // Whatever has become of the repository: nothing of it may be in our own folders for ever.
        Err(failure) => {
            remove_tree(&details.worktree.path)?;
            return Err(failure);
        }
    };
    match repo.unmake_worktree(&run, &details.worktree) {
        Ok(()) => Ok(None),
        // Somebody has worked in it: nothing is lost.
        Err(GitError::BranchMoved { .. }) => {
            let kept = repo.snapshot_and_remove(&run, &details.worktree, &details.shadow)?;
            Ok(Some(format!(
                "the branch {} had moved although nothing was started: {kept} keeps what was there",
                details.worktree.branch
            )))
        }
        Err(error) => Err(error.into()),
    }
}

fn remove_file(path: &Path) -> Result<(), Failure> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(io(format!("{} cannot be removed", path.display()), &error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// A folder of our own that nothing ran in. Links in it are removed, never followed.
fn remove_tree(path: &Path) -> Result<(), Failure> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            let failure = io(format!("{} cannot be removed", path.display()), &error);
            Err(Failure {
                code: Code::Environment,
                ..failure
            })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
