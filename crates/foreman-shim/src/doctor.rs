//! Proves each wall of this machine in a throw-away cage and says what to do where one is missing.
//!
//! Needs nothing of the operator's: the cage's worktree is a scratch folder with a `.git` file in it.
//! Whatever is missing is a finding, not an error; nothing is left behind.

mod groups;
mod held;
mod scratch;

use foreman_cage::gateway::{self, Attempt, Closed, ConnectionId, Judge, ProxyConfig, Verdict};
use foreman_cage::{CageSpec, Facts, LaunchError, Launched, ProbeResult};
use foreman_domain::{Host, Protocol, Wall, without_error_numbers};
use scratch::Scratch;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Longest wait for the gateway to end.
const FAREWELL: Duration = Duration::from_secs(5);

/// What `foreman-shim doctor --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoctorFindings {
    /// Version of this structure.
    pub v: u8,
    /// Every wall, each once.
    pub walls: Vec<WallFinding>,
    /// How connections are held, in words; absent when no cage could be built, or none with a network.
    pub gate: Option<String>,
    /// The kernel's Landlock version; absent when there is none, or no cage could be built.
    pub landlock_abi: Option<u32>,
    /// Whether calls on files are held; absent when no cage could be built.
    #[serde(default)]
    pub files: Option<HeldFiles>,
    /// Where no cage with namespaces can be built: what is seen of the walls of one without. Empty where one
    /// can, or not even that.
    #[serde(default)]
    pub without_namespaces: Vec<WallFinding>,
}

/// Whether a program's calls on files wait for its supervisor here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldFiles {
    /// Whether they do.
    pub held: bool,
    /// What was tried and seen.
    pub detail: String,
}

/// One wall.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WallFinding {
    /// Which.
    pub wall: Wall,
    /// Whether a live probe saw it hold.
    pub holds: bool,
    /// Whether a run refuses to start without it.
    pub required: bool,
    /// What was tried and seen; the failing step when it does not hold.
    pub detail: String,
    /// What to do when it does not hold.
    pub remedy: Option<String>,
}

/// The doctor could not even begin.
#[derive(Debug, thiserror::Error)]
pub enum DoctorError {
    /// No scratch folder for the cage's worktree.
    #[error("could not make a scratch folder for the throw-away cage")]
    Scratch {
        /// Why.
        source: io::Error,
    },
    /// No runtime.
    #[error("could not start the runtime")]
    Runtime {
        /// Why.
        source: io::Error,
    },
}

impl DoctorFindings {
    /// As one line of JSON.
    #[must_use]
    pub fn json(&self) -> String {
        let mut text = serde_json::to_string(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// As lines for an operator.
    #[must_use]
    pub fn words(&self) -> String {
        use std::fmt::Write as _;
        let mut out = String::new();
        for finding in &self.walls {
            let mark = match (finding.holds, finding.required) {
                (true, _) => "holds",
                (false, true) => "MISSING",
                (false, false) => "absent",
            };
            let _ = writeln!(
                out,
                "{:<16}{mark:<9}{}",
                finding.wall.name(),
                finding.detail
            );
            if let Some(remedy) = &finding.remedy {
                let _ = writeln!(out, "{:<25}{remedy}", "");
            }
        }
        if let Some(gate) = &self.gate {
            let _ = writeln!(out, "connections are held by {gate}");
        }
        if let Some(files) = &self.files {
            let _ = writeln!(out, "{}", files.words());
        }
        if !self.without_namespaces.is_empty() {
            let _ = writeln!(out, "without namespaces (--accept-weaker user_namespace):");
        }
        for finding in &self.without_namespaces {
            let mark = if finding.holds { "holds" } else { "absent" };
            let name = finding.wall.name();
            let _ = writeln!(out, "{name:<16}{mark:<9}{}", finding.detail);
        }
        out
    }
}

/// Builds a throw-away cage, tries every wall from inside, and takes it down. Must be called while
/// the process has one thread, because it forks.
///
/// # Errors
/// Only when it could not begin: a wall that is missing is a finding.
pub fn examine() -> Result<DoctorFindings, DoctorError> {
    let scratch = Scratch::make().map_err(|source| DoctorError::Scratch { source })?;
    let spec = scratch.cage_spec();
    let launched = match foreman_cage::launch(&spec) {
        // The other walls can be shown all the same.
        Err(error) if error.wall == Some(Wall::Network) => foreman_cage::launch(&CageSpec {
            accept_weaker: vec![Wall::Network],
            ..spec
        }),
        launched => launched,
    };
    let alone = match &launched {
        Err(error) if has_no_namespaces(error) => {
            let spec = scratch.spec_without_namespaces();
            foreman_cage::launch(&spec).ok()
        }
        _ => None,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|source| DoctorError::Runtime { source })?;
    let findings = match launched {
        Ok(launched) => {
            let (probes, facts, no_network, files) =
                runtime.block_on(probe(launched, scratch.folder()));
            let mut findings = from_probes(&probes, &facts);
            findings.files = Some(files);
            if let Some(error) = no_network {
                without_network(&mut findings, &error);
            }
            findings
        }
        Err(error) => {
            let mut findings = from_failure(&error);
            if let Some(alone) = alone {
                let (probes, facts, ..) = runtime.block_on(probe(alone, scratch.folder()));
                findings.without_namespaces = without_namespaces(&probes);
                findings.landlock_abi = facts.landlock_abi;
            }
            findings
        }
    };
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(findings)
}

/// Whether this failure means that no cage with namespaces can be built here.
fn has_no_namespaces(error: &LaunchError) -> bool {
    matches!(error.wall, Some(Wall::UserNamespace | Wall::Mounts))
}

type Probed = (Vec<ProbeResult>, Facts, Option<LaunchError>, HeldFiles);

async fn probe(launched: Launched, meeting: &Path) -> Probed {
    let Launched {
        cage,
        sockets,
        why,
        facts,
    } = launched;
    let ends = CancellationToken::new();
    let (gateway, no_network) = match sockets {
        Ok(sockets) => {
            let config = gateway::Config {
                sockets,
                init_pid: cage.init_pid(),
                proxy: ProxyConfig::default(),
                forward: None,
            };
            let gateway = gateway::start(config, Arc::new(RefuseAll), ends.clone());
            (Some(gateway), None)
        }
        Err(error) => (None, Some(error)),
    };
    let probes = cage.probe().await;
    let files = held::examine(&cage, meeting, &ends).await;
    cage.destroy().await;
    drop(why);
    ends.cancel();
    if let Some(gateway) = gateway {
        let _ = timeout(FAREWELL, gateway.join()).await;
    }
    (probes, facts, no_network, files)
}

/// What is seen from inside of a cage without namespaces.
fn without_namespaces(probes: &[ProbeResult]) -> Vec<WallFinding> {
    let finding = |probe: &ProbeResult| WallFinding {
        wall: probe.wall,
        holds: probe.holds,
        required: false,
        detail: probe.detail.clone(),
        remedy: None,
    };
    probes.iter().map(finding).collect()
}

/// A cage without any network lets nothing out, but holds nothing either: both walls are missing.
fn without_network(findings: &mut DoctorFindings, error: &LaunchError) {
    for finding in &mut findings.walls {
        if !matches!(finding.wall, Wall::Network | Wall::Dns) {
            continue;
        }
        let what_is_left = if finding.holds {
            "a run that accepts that gets an empty network, where every connection is refused"
        } else {
            "and not even an empty network could be had"
        };
        let why = without_error_numbers(&format!("{error}: {}", error.source));
        finding.detail = format!("{why}; {what_is_left}");
        finding.holds = false;
        finding.remedy.clone_from(&error.remedy);
    }
}

/// Nothing leaves a throw-away cage.
struct RefuseAll;

impl Judge for RefuseAll {
    async fn judge(&self, _: Attempt) -> Verdict {
        Verdict::Refuse
    }
    fn looked_up(&self, _: &str) {}
    fn closed(&self, _: ConnectionId, _: Closed) {}
    fn refused(&self, _: Protocol, _: Host, _: u16, _: &str) {}
}

fn from_probes(probes: &[ProbeResult], facts: &Facts) -> DoctorFindings {
    let finding = |wall: Wall| {
        if wall == Wall::Cgroup {
            return groups::finding();
        }
        let tried: Vec<_> = probes.iter().filter(|probe| probe.wall == wall).collect();
        if tried.is_empty() {
            return untried(wall, facts);
        }
        // What failed says more than what held.
        let failed: Vec<_> = tried.iter().filter(|probe| !probe.holds).collect();
        let shown = if failed.is_empty() {
            tried.iter().collect()
        } else {
            failed
        };
        let holds = tried.iter().all(|probe| probe.holds);
        let details: Vec<_> = shown.iter().map(|probe| probe.detail.as_str()).collect();
        let remedy = (!holds).then(|| {
            "A probe from inside got through this wall although it was put up; runs refuse to start. \
             Please report it with this output."
                .to_owned()
        });
        let detail = details.join("; ");
        WallFinding {
            wall,
            holds,
            required: wall.is_required(),
            detail,
            remedy,
        }
    };
    DoctorFindings {
        v: 1,
        walls: Wall::ALL.map(finding).into(),
        gate: facts.gate.clone(),
        landlock_abi: facts.landlock_abi,
        files: None,
        without_namespaces: Vec::new(),
    }
}

fn untried(wall: Wall, facts: &Facts) -> WallFinding {
    let (detail, remedy) = if wall == Wall::Landlock && facts.landlock_abi.is_none() {
        (
            "this kernel has no Landlock, the second file wall; the first one holds without it",
            Some("Use a kernel of version 5.13 or newer with `landlock` among its `lsm=` modules."),
        )
    } else {
        (
            "no probe tried it",
            Some("Please report this: every wall should have been tried."),
        )
    };
    WallFinding {
        wall,
        holds: false,
        required: wall.is_required(),
        detail: detail.to_owned(),
        remedy: remedy.map(str::to_owned),
    }
}

fn from_failure(error: &LaunchError) -> DoctorFindings {
    // A failure that says nothing of a wall still means that none could be put up.
    let failing = error.wall.unwrap_or(Wall::Mounts);
    let finding = |wall: Wall| {
        if wall == Wall::Cgroup {
            return groups::finding();
        }
        let (detail, remedy) = if wall == failing {
            let why = without_error_numbers(&format!("{error}: {}", error.source));
            (why, error.remedy.clone())
        } else {
            let first = failing.name();
            (
                format!("not tried: without {first} no cage could be built"),
                None,
            )
        };
        WallFinding {
            wall,
            holds: false,
            required: wall.is_required(),
            detail,
            remedy,
        }
    };
    DoctorFindings {
        v: 1,
        walls: Wall::ALL.map(finding).into(),
        gate: None,
        landlock_abi: None,
        files: None,
        without_namespaces: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            landlock_abi: Some(4),
            gate: Some("a queue".into()),
        }
    }

    fn probe(wall: Wall, holds: bool, detail: &str) -> ProbeResult {
        ProbeResult {
            wall,
            holds,
            detail: detail.into(),
        }
    }

    #[test]
    fn every_wall_is_reported_once_and_an_untried_one_does_not_hold() {
        let findings = from_probes(&[probe(Wall::Mounts, true, "ok")], &facts());
        let walls: Vec<_> = findings.walls.iter().map(|finding| finding.wall).collect();
        assert_eq!(walls, Wall::ALL);
        let holding: Vec<_> = findings
            .walls
            .iter()
            .filter(|finding| finding.holds)
            .collect();
        assert!(
            holding
                .iter()
                .all(|finding| matches!(finding.wall, Wall::Mounts | Wall::Cgroup))
        );
    }

    #[test]
    fn one_failing_probe_of_several_means_that_the_wall_does_not_hold() {
        let probes = [
            probe(Wall::Network, true, "tcp"),
            probe(Wall::Network, false, "udp left"),
        ];
        let findings = from_probes(&probes, &facts());
        let network = findings
            .walls
            .iter()
            .find(|finding| finding.wall == Wall::Network)
            .unwrap();
        assert!(!network.holds && network.remedy.is_some());
        assert_eq!(network.detail, "udp left");
    }

    #[test]
    fn a_launch_that_fails_names_its_wall_and_remedy() {
        let error = LaunchError {
            step: foreman_cage::Step::UserNamespace,
            wall: Some(Wall::UserNamespace),
            detail: String::new(),
            remedy: Some("Install the profile.".into()),
            source: io::Error::from_raw_os_error(libc::EPERM),
        };
        let findings = from_failure(&error);
        assert!(
            findings
                .walls
                .iter()
                .filter(|f| f.wall != Wall::Cgroup)
                .all(|f| !f.holds)
        );
        let first = &findings.walls[0];
        assert_eq!(first.remedy.as_deref(), Some("Install the profile."));
        assert!(
            first.detail.contains("cannot make a user namespace"),
            "{}",
            first.detail
        );
    }
}
