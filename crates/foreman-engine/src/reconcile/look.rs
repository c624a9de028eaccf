//! Looking at what is there: processes, folders, git. Blocking; changes nothing.

use super::plan::{DiskSeen, Folder, GitSeen, Phase, ShimSeen, Stored, Truth};
use crate::details::RunDetails;
use crate::layout::Layout;
use foreman_domain::{RunId, RunState};
use foreman_git::Repository;
use foreman_store::StoredRun;
use std::collections::{BTreeMap, HashMap};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Runs at rest whose worktrees git is asked about, newest first: each costs opening a repository.
const ASKED_ABOUT: usize = 100;
/// Repositories that are asked what is registered in them.
const REPOSITORIES: usize = 50;

/// A stored run, and who is busy with it.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub run: RunId,
    pub stored: Stored,
    pub details: RunDetails,
}

/// Where a run stands.
pub(crate) fn phase(run: &StoredRun) -> Phase {
    match &run.state {
        RunState::Provisioning | RunState::Running { .. } | RunState::Stopping { .. } => {
            Phase::Live
        }
        RunState::Merging => Phase::Merging,
        RunState::Review { .. }
        | RunState::NoChanges
        | RunState::Cancelled { .. }
        | RunState::Interrupted { .. } => Phase::Kept,
        RunState::Merged { .. } => Phase::Merged,
        // What failed may have a worktree or none: nothing about it is a surprise.
        RunState::Failed { .. } => Phase::Merged,
        RunState::Discarded { .. } => Phase::Bare,
    }
}

/// What is seen of a run's shim.
pub(crate) fn shim_of(details: &RunDetails) -> ShimSeen {
    match (details.living_shim(), details.shim()) {
        (Some(shim), _) => ShimSeen::Alive(shim.pid),
        (None, Some(_)) => ShimSeen::Gone,
        (None, None) if details.is_on_its_way() => ShimSeen::Starting,
        (None, None) => ShimSeen::Never,
    }
}

/// Everything about every run that is stored, on the disk, registered with git or alive.
pub(crate) fn everything(layout: &Layout, known: Vec<Known>) -> Vec<Truth> {
    let mut truths: BTreeMap<String, Truth> = BTreeMap::new();
    let mut asked = 0;
    let mut repositories: HashMap<PathBuf, Result<Repository, String>> = HashMap::new();
    for run in &known {
        let details = &run.details;
        let repo = repositories
            .entry(details.repo.clone())
            .or_insert_with(|| details.repository().map_err(|error| error.message));
        let is_unsettled = matches!(run.stored.phase, Phase::Live | Phase::Merging);
        asked += usize::from(!is_unsettled);
        let git = match (repo, run.stored.phase) {
            (Err(why), _) => GitSeen::Unreachable(why.clone()),
            (Ok(_), Phase::Bare) => GitSeen::NotLooked,
            (Ok(_), _) if asked > ASKED_ABOUT && !is_unsettled => GitSeen::NotLooked,
            (Ok(repo), phase) => GitSeen::Known {
                registered: None,
                branch_is_empty: false,
                differences: match phase {
                    Phase::Kept => repo.verify(&details.worktree),
                    // May have been cleaned up by hand.
                    Phase::Merged if details.worktree.path.exists() => {
                        repo.verify(&details.worktree)
                    }
                    Phase::Live | Phase::Merging | Phase::Merged | Phase::Bare => vec![],
                },
            },
        };
        let truth = Truth {
            run: run.run.to_string(),
            stored: Some(run.stored),
            shim: shim_of(details),
            cage: details.living_cage().map(|cage| cage.pid),
            disk: DiskSeen {
                folder: folder(details.folder()),
                worktree: folder(&details.worktree.path),
                shadow: folder(&details.shadow),
                home: match &details.agent_home {
                    Some(home) => folder(home),
                    None => Folder::Absent,
                },
                socket: details.files.socket.exists(),
                result: details.files.exit.exists(),
            },
            git,
            repo: Some(details.repo.clone()),
        };
        truths.insert(run.run.to_string(), truth);
    }
    for (run, stray) in strays(layout, &truths, &repositories) {
        truths.insert(run, stray);
    }
    truths.into_values().collect()
}

/// What is there under an id that no stored run has.
fn strays(
    layout: &Layout,
    known: &BTreeMap<String, Truth>,
    repositories: &HashMap<PathBuf, Result<Repository, String>>,
) -> BTreeMap<String, Truth> {
    let mut found: BTreeMap<String, Truth> = BTreeMap::new();
    let mut note = |run: String, change: &mut dyn FnMut(&mut Truth)| {
        if !known.contains_key(&run) {
            change(
                found
                    .entry(run.clone())
                    .or_insert_with(|| Truth::of_nobodys(run)),
            );
        }
    };
    for (run, pid) in living_shims(&layout.runs()) {
        note(run, &mut |truth| truth.shim = ShimSeen::Alive(pid));
    }
    for (run, path) in entries(&layout.runs()) {
        note(run, &mut |truth| truth.disk.folder = folder(&path));
    }
    for (run, path) in entries(&layout.shadows()) {
        note(run, &mut |truth| truth.disk.shadow = folder(&path));
    }
    for (run, path) in entries(&layout.homes()) {
        note(run, &mut |truth| truth.disk.home = folder(&path));
    }
    for (_, slug) in entries(&layout.worktrees()) {
        for (run, path) in entries(&slug) {
            note(run, &mut |truth| truth.disk.worktree = folder(&path));
        }
    }
    let is_run = |name: &str| name.parse::<RunId>().is_ok();
    let reached = repositories.iter().filter_map(|(root, repo)| {
        let repo = repo.as_ref().ok()?;
        Some((root, repo))
    });
    for (root, repo) in reached.take(REPOSITORIES) {
        // One that cannot be listed is told with its runs.
        for registered in repo.registered(is_run).unwrap_or_default() {
            let tip = registered.branch.clone();
            let is_empty = || tip.and_then(|tip| repo.holds_nothing_of_its_own(&tip).ok());
            // Asked only about what nobody knows: it walks through the history.
            let branch_is_empty =
                !known.contains_key(&registered.run) && is_empty().unwrap_or(false);
            note(registered.run.clone(), &mut |truth| {
                truth.repo = Some(root.clone());
                truth.git = GitSeen::Known {
                    registered: Some(registered.clone()),
                    branch_is_empty,
                    differences: vec![],
                };
            });
        }
    }
    found
}

impl Truth {
    fn of_nobodys(run: String) -> Self {
        Self {
            run,
            stored: None,
            shim: ShimSeen::Never,
            cage: None,
            disk: DiskSeen::default(),
            git: GitSeen::NotLooked,
            repo: None,
        }
    }
}

/// Folders that an id has, of whatever run; for one that nobody knows.
pub(crate) fn places_of(layout: &Layout, run: &str) -> Vec<PathBuf> {
    let slugs = entries(&layout.worktrees());
    let trees = slugs.into_iter().map(|(_, slug)| slug);
    [layout.runs(), layout.shadows(), layout.homes()]
        .into_iter()
        .chain(trees)
        // From the listing, so that no text of an id is ever taken for a path.
        .flat_map(|above| entries(&above))
        .filter(|(name, _)| name == run)
        .map(|(_, path)| path)
        .collect()
}

/// What is in a folder, by name; names that are no text are nobody's.
fn entries(path: &Path) -> Vec<(String, PathBuf)> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .collect()
}

/// Processes that carry the spec of a run below this folder, by the run.
fn living_shims(runs: &Path) -> Vec<(String, u32)> {
    let mut found = Vec::new();
    for (name, path) in entries(Path::new("/proc")) {
        let Ok(pid) = name.parse::<u32>() else {
            continue;
        };
        let line = std::fs::read(path.join("cmdline")).unwrap_or_default();
        let words = line.split(|byte| *byte == 0);
        let run = words
            .filter_map(|word| {
                let spec = Path::new(std::ffi::OsStr::from_bytes(word));
                // The spec of a run, or of a round of its checks in a folder of its own.
                let folder = spec.strip_prefix(runs).ok()?.parent()?.iter().next()?;
                folder
                    .to_str()
                    .filter(|run| !run.is_empty())
                    .map(str::to_owned)
            })
            .next();
        found.extend(run.map(|run| (run, pid)));
    }
    found
}

fn folder(path: &Path) -> Folder {
    match std::fs::read_dir(path) {
        Ok(mut entries) => match entries.next() {
            None => Folder::Empty,
            Some(_) => Folder::Full,
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Folder::Absent,
        // Something else is there, or it cannot be read: it may hold work.
        Err(_) => Folder::Full,
    }
}
