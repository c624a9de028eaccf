//! The spec a shim is started with: the cage, the policy, the steps.

use crate::details::RunDetails;
use crate::environment::Account;
use crate::failures::io;
use crate::policies::Layers;
use crate::programs::harness::Harness;
use foreman_cage::{Bind, CageSpec, Confinement};
use foreman_domain::{Failure, RunId, StepKind, StepName, Tier, Wall};
use foreman_git::Shadow;
use foreman_policy::Policy;
use foreman_shim::protocol::{
    HoldMode, OnFailure, ProxySettings, RunSpec, Stdio as StepStdio, StepSpec,
};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// Version of the spec.
const VERSION: u8 = 1;
/// Largest bundle of a run's commits.
const LARGEST_BUNDLE: u64 = 2 << 30;
/// First of the host users that a run is mapped to when the engine is root: far above accounts.
const FIRST_MAPPED: u32 = 2_000_000_000;
const MAPPED: u32 = 1 << 24;

/// What a run does, as it was asked for.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    pub setup: Option<String>,
    pub argv: Vec<String>,
    /// The agent, where it has a driver; `argv` is empty then.
    pub harness: Option<Harness>,
    pub terminal: Option<crate::api::TerminalSize>,
}

/// Everything that a spec is made of.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    pub run: &'a RunId,
    pub details: &'a RunDetails,
    pub account: &'a Account,
    pub layers: &'a Layers,
    pub policy: Policy,
    pub path_binds: Vec<Bind>,
    /// Folders of the agent's home.
    pub home_binds: Vec<Bind>,
    /// The engine's own places.
    pub hidden: Vec<PathBuf>,
    pub shadow: Shadow,
    pub env: Vec<(String, String)>,
    pub work: &'a Work,
    pub proxy: &'a [(String, String)],
    pub accept_weaker: Vec<Wall>,
    pub shim: &'a Path,
}

/// The host user that a run is mapped to when the engine is root.
pub(crate) fn mapped_user(run: &RunId) -> u32 {
    let digest = Sha256::digest(run.as_str());
    let low = digest
        .iter()
        .take(4)
        .fold(0_u32, |sum, byte| (sum << 8) | u32::from(*byte));
    FIRST_MAPPED + low % MAPPED
}

/// Whether a run of this tier has processes, files and a network of its own.
pub(crate) fn has_namespaces(tier: Tier) -> bool {
    confinement(tier).has_namespaces()
}

fn confinement(tier: Tier) -> Confinement {
    match tier {
        Tier::Full | Tier::NoNetwork => Confinement::Namespaces,
        Tier::NoNamespaces => Confinement::Landlock,
        Tier::Unconfined => Confinement::Nothing,
    }
}

/// Where a run without a file tree of its own keeps its home and scratch files: removed with its git directory.
fn private(details: &RunDetails) -> PathBuf {
    details.shadow.join("foreman-private")
}

/// Leads programs to their own home and scratch folder where those are at another place than usual.
pub(crate) fn with_private_places(
    mut env: Vec<(String, String)>,
    details: &RunDetails,
) -> Vec<(String, String)> {
    if details.confinement != Tier::NoNamespaces {
        return env;
    }
    for (name, folder) in [("HOME", "home"), ("TMPDIR", "tmp")] {
        let place = private(details).join(folder).display().to_string();
        env.retain(|(known, _)| known != name);
        env.push((name.to_owned(), place));
    }
    env
}

/// Puts a spec together.
pub(crate) fn spec(parts: Parts<'_>) -> RunSpec {
    let Parts {
        run,
        details,
        account,
        layers,
        shadow,
        work,
        ..
    } = parts;
    // Path rules first: what of them overlaps the repository is covered by the shadow again.
    let mut binds = parts.path_binds;
    binds.extend(parts.home_binds);
    binds.extend(shadow.binds.into_iter().map(|bind| Bind {
        source: bind.source,
        target: bind.target,
        writable: bind.writable,
    }));
    // A limit of processes cannot be set higher later: what was raised for this run counts from its start.
    let bounds = layers.bounds.clone().raised_by(&parts.policy);
    let cage = CageSpec {
        hostname: run.as_str().to_owned(),
        workdir: details.worktree.path.clone(),
        home: account.home.clone(),
        binds,
        hidden: parts.hidden,
        env: parts.env,
        why_program: parts.shim.to_owned(),
        processes: bounds.processes.unwrap_or(u32::MAX),
        root_maps_to: mapped_user(run),
        accept_weaker: parts.accept_weaker,
        confinement: confinement(details.confinement),
        private: (!has_namespaces(details.confinement)).then(|| private(details)),
    };
    RunSpec {
        v: VERSION,
        run: run.clone(),
        nonce: details.nonce.clone(),
        files: details.files.clone(),
        cage,
        policy: parts.policy,
        hold: if details.unattended {
            HoldMode::Refuse
        } else {
            HoldMode::Hold
        },
        hold_reads: details.hold_reads,
        bounds: layers.bounds.clone(),
        steps: steps(details, work),
        base: details.worktree.base_commit.clone(),
        proxy: proxy(parts.proxy),
        secrets: details.secrets.clone(),
        key: details.key.clone(),
        continues: None,
    }
}

fn steps(details: &RunDetails, work: &Work) -> Vec<StepSpec> {
    let step = |name: String, kind, argv, stdio, on_failure| StepSpec {
        name: StepName(name),
        kind,
        argv,
        env: Vec::new(),
        stdio,
        on_failure,
        conversation: None,
    };
    let shell = |command: &str| vec!["/bin/sh".to_owned(), "-c".to_owned(), command.to_owned()];
    let mut steps = Vec::new();
    if let Some(command) = &work.setup {
        let argv = shell(command);
        // What a setup left behind is collected all the same.
        let on_failure = OnFailure::SkipToFinish;
        steps.push(step(
            "setup".into(),
            StepKind::Setup,
            argv,
            StepStdio::Journal,
            on_failure,
        ));
    }
    let stdio = match work.terminal {
        Some(size) => StepStdio::Terminal {
            columns: size.columns,
            rows: size.rows,
        },
        None => StepStdio::Journal,
    };
    let (agent, env) = match &work.harness {
        Some(harness) => (harness.argv.clone(), harness.env.clone()),
        None => (work.argv.clone(), Vec::new()),
    };
    let harness = work.harness.as_ref();
    let conversation = harness.map(|harness| harness.conversation_in(&details.worktree.path));
    let agent = step(
        "agent".into(),
        StepKind::Agent,
        agent,
        stdio,
        OnFailure::Continue,
    );
    steps.push(StepSpec {
        env,
        conversation,
        ..agent
    });
    let finish = details.worktree.finish_argv();
    let (journal, go_on) = (StepStdio::Journal, OnFailure::Continue);
    steps.push(step(
        "finish".into(),
        StepKind::Finish,
        finish,
        journal.clone(),
        go_on,
    ));
    let file = StepStdio::File {
        path: details.files.bundle.clone(),
        limit: LARGEST_BUNDLE,
    };
    let harvest = details.worktree.harvest_argv();
    steps.push(step(
        "harvest".into(),
        StepKind::Harvest,
        harvest,
        file,
        go_on,
    ));
    steps
}

/// Name of the check at `index` of `many`.
pub(crate) fn check_name(index: usize, many: usize) -> StepName {
    StepName(if many == 1 {
        "check".to_owned()
    } else {
        format!("check-{}", index + 1)
    })
}

fn proxy(variables: &[(String, String)]) -> ProxySettings {
    let find = |names: &[&str]| {
        names.iter().find_map(|name| {
            let found = variables
                .iter()
                .find(|(known, _)| known.eq_ignore_ascii_case(name))?;
            Some(found.1.clone()).filter(|value| !value.trim().is_empty())
        })
    };
    ProxySettings {
        https: find(&["https_proxy"]),
        all: find(&["all_proxy"]),
        no_proxy: find(&["no_proxy"]),
    }
}

/// Gives a tree to the user that the run is mapped to, when the engine is root. Blocking; links are
/// given away themselves, never what they lead to.
pub(crate) fn give_away(run: &RunId, trees: &[PathBuf]) -> Result<(), Failure> {
    if !nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    let user = mapped_user(run);
    for tree in trees {
        give(tree, user).map_err(|error| {
            io(
                format!("{} cannot be given to the run", tree.display()),
                &error,
            )
        })?;
    }
    Ok(())
}

fn give(path: &Path, user: u32) -> std::io::Result<()> {
    std::os::unix::fs::lchown(path, Some(user), Some(user))?;
    if std::fs::symlink_metadata(path)?.is_dir() {
        for entry in std::fs::read_dir(path)? {
            give(&entry?.path(), user)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_mapped_to_a_user_far_from_every_account_and_always_the_same() {
        let run = RunId::from_random(7);
        let user = mapped_user(&run);
        assert!((FIRST_MAPPED..FIRST_MAPPED + MAPPED).contains(&user));
        assert_eq!(user, mapped_user(&run));
        assert_ne!(user, mapped_user(&RunId::from_random(8)));
    }

    #[test]
    fn proxy_variables_are_taken_in_any_case_and_empty_ones_are_none() {
        let given = [
            (
                "HTTPS_PROXY".to_owned(),
                "http://proxy.example:3128".to_owned(),
            ),
            ("all_proxy".to_owned(), " ".to_owned()),
        ];
        let settings = proxy(&given);
        assert_eq!(settings.https.as_deref(), Some("http://proxy.example:3128"));
        assert_eq!(settings.all, None);
        assert_eq!(settings.no_proxy, None);
    }
}
