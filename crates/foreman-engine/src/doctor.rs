//! What holds on this machine, proven by the supervisor's probes in a throw-away cage, and what the
//! engine sees of its own things.

use crate::api::{DoctorReport, DoctorRequest, RunCreate, TruthView, WallReport};
use crate::engine::Engine;
use crate::failures::{internal, io, join};
use crate::words::count;
use foreman_domain::{Code, Failure, Tier, Wall};
use foreman_policy::bytes_in_words;
use foreman_shim::doctor::{DoctorFindings, HeldFiles, WallFinding};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

/// Longest wait for the probes.
const PROBING: Duration = Duration::from_secs(60);
/// Inconsistencies that are named one by one.
const NAMED: usize = 20;

/// Findings, and for which machine, boot, user and program they hold.
#[derive(Debug, Serialize, Deserialize)]
struct Cached {
    made_for: MadeFor,
    findings: DoctorFindings,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct MadeFor {
    boot_id: String,
    user: u32,
    shim: PathBuf,
    shim_size: u64,
    shim_changed: (i64, i64),
}

impl Engine {
    /// Probes every wall now and looks at what is stored.
    pub async fn doctor(
        self: &std::sync::Arc<Self>,
        request: DoctorRequest,
    ) -> Result<DoctorReport, Failure> {
        let findings = self.probe().await?;
        let mut notes = gate_in_words(&findings);
        notes.extend(self.places_in_words().await?);
        notes.extend(crate::file_system::in_words(&self.layout.data));
        notes.extend(self.live_in_words().await?);
        notes.push(self.awake_in_words().await?);
        let truths = self.compare(request.repair).await?;
        notes.extend(differences(&truths));
        let (tier, words) = tier(&findings);
        let in_groups = findings
            .walls
            .iter()
            .any(|finding| finding.wall == Wall::Cgroup && finding.holds);
        let memory = if in_groups {
            "memory of all processes and of files in memory, by the kernel"
        } else {
            "memory of all processes and of files in memory, by a watchdog"
        };
        Ok(DoctorReport {
            tier: tier.to_owned(),
            words,
            walls: findings.walls.into_iter().map(report).collect(),
            bounds: [
                "wall time, while a run is not paused",
                "processors, rationed",
                memory,
                "processes and threads",
                "disk: the worktree and the cage's scratch folders, sampled",
                "output of all steps together",
                "open files of each process",
            ]
            .map(str::to_owned)
            .to_vec(),
            notes,
            truths,
        })
    }

    /// The tier that a new run gets, in words; refused when a wall it needs is missing. Good findings
    /// are kept until the machine starts anew or the supervisor changes; bad ones are looked at again,
    /// because the operator may have put them right.
    ///
    /// Without a cage only where that was asked for by name, and then whatever the machine could do.
    pub async fn tier_for(&self, request: &RunCreate) -> Result<(Tier, String), Failure> {
        if request.unconfined {
            return Ok((Tier::Unconfined, Tier::Unconfined.words().to_owned()));
        }
        let findings = match self.cached() {
            Some(findings) if missing(&findings).is_empty() => findings,
            Some(_) | None => self.probe().await?,
        };
        let chosen = choose(&findings, &request.accept_weaker)?;
        if chosen.0 == Tier::NoNamespaces && !request.checks.is_empty() {
            return Err(Failure::new(
                Code::WallMissing,
                "checks need a cage with namespaces, which this machine cannot build",
            )
            .hint("Leave out the checks, or let user namespaces be made: see `foreman doctor`."));
        }
        Ok(chosen)
    }

    async fn probe(&self) -> Result<DoctorFindings, Failure> {
        let shim = self.options.find_shim()?;
        let made_for = made_for(&shim)?;
        let output = tokio::process::Command::new(&shim)
            .args(["doctor", "--json"])
            .stdin(Stdio::null())
            .current_dir("/")
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(PROBING, output)
            .await
            .map_err(|_| {
                Failure::new(
                    Code::Environment,
                    "the probes of this machine's walls did not end",
                )
            })?
            .map_err(|error| io(format!("{} cannot be started", shim.display()), &error))?;
        let findings: DoctorFindings = serde_json::from_slice(&output.stdout).map_err(|error| {
            let words = String::from_utf8_lossy(&output.stderr);
            let last = words.lines().last().unwrap_or("it said nothing").to_owned();
            internal(format!(
                "{} doctor gave no findings ({error}): {last}",
                shim.display()
            ))
        })?;
        let cached = Cached { made_for, findings };
        // Only a cache: without it the next run probes again.
        let path = self.layout.doctor_findings();
        let kept = serde_json::to_vec(&cached).map_err(internal)?;
        if let Err(error) = write_private(&path, &kept) {
            tracing::debug!(%error, "the findings could not be kept");
        }
        Ok(cached.findings)
    }

    fn cached(&self) -> Option<DoctorFindings> {
        let text = std::fs::read(self.layout.doctor_findings()).ok()?;
        let cached: Cached = serde_json::from_slice(&text).ok()?;
        let now = made_for(&self.options.find_shim().ok()?).ok()?;
        (cached.made_for == now).then_some(cached.findings)
    }

    async fn places_in_words(&self) -> Result<Vec<String>, Failure> {
        let data = self.layout.data.clone();
        let looking = tokio::task::spawn_blocking(move || {
            let free = nix::sys::statvfs::statvfs(&data)
                .ok()
                .map(|stat| stat.blocks_available().saturating_mul(stat.fragment_size()));
            (data, free)
        });
        let (data, free) = looking.await.map_err(join)?;
        let mut lines = vec![format!("data is kept in {}", data.display())];
        lines.push(format!("sockets are in {}", self.layout.sockets.display()));
        if let Some(free) = free {
            lines.push(format!("{} are free there", bytes_in_words(free)));
        }
        Ok(lines)
    }
}

/// What does not add up, named one by one where that can be read.
fn differences(truths: &[TruthView]) -> Vec<String> {
    let of_one = |truth: &TruthView| {
        let named = |what: &String| format!("run {}: {what}", truth.run);
        truth.differences.iter().map(named).collect::<Vec<_>>()
    };
    let mut found: Vec<String> = truths.iter().flat_map(of_one).collect();
    if found.len() > NAMED {
        let more = found.len() - NAMED;
        found.truncate(NAMED);
        found.push(format!(
            "and {} more",
            count(more, "difference", "differences")
        ));
    }
    found
}

/// Required walls that do not hold, or of which nothing was found.
fn missing(findings: &DoctorFindings) -> Vec<(Wall, Option<&WallFinding>)> {
    Wall::ALL
        .into_iter()
        .filter(|wall| wall.is_required())
        .map(|wall| {
            (
                wall,
                findings.walls.iter().find(|finding| finding.wall == wall),
            )
        })
        .filter(|(_, finding)| !finding.is_some_and(|finding| finding.holds))
        .collect()
}

/// The tier of a run on a machine with these findings whose operator accepts that these walls are missing.
fn choose(findings: &DoctorFindings, accepted: &[Wall]) -> Result<(Tier, String), Failure> {
    let missing = missing(findings);
    let is_missing = |wall: Wall| missing.iter().any(|(found, _)| *found == wall);
    if is_missing(Wall::UserNamespace)
        && accepted.contains(&Wall::UserNamespace)
        && holds_without_namespaces(findings)
    {
        let words = Tier::NoNamespaces.words();
        return Ok((Tier::NoNamespaces, format!("{words} (as accepted)")));
    }
    let refused = |wall: Wall| !may_be_missing(wall, findings, accepted);
    if let Some((wall, finding)) = missing.iter().find(|(wall, _)| refused(*wall)) {
        let detail = finding.map_or("it was not probed", |finding| finding.detail.as_str());
        let remedy = finding.and_then(|finding| finding.remedy.clone());
        return Err(Failure::new(
            Code::WallMissing,
            format!(
                "the wall \"{}\" does not hold on this machine: {detail}",
                wall.name()
            ),
        )
        .hint(hint(*wall, remedy, findings)));
    }
    let mut words = tier(findings).1;
    if !missing.is_empty() {
        words.push_str(" (weaker than it should be, as accepted)");
    }
    let tier = match findings.gate {
        Some(_) => Tier::Full,
        None => Tier::NoNetwork,
    };
    Ok((tier, words))
}

/// Whether a cage without namespaces was built here and all that it needs was seen to hold.
fn holds_without_namespaces(findings: &DoctorFindings) -> bool {
    let needed = [Wall::Network, Wall::Dns, Wall::Seccomp, Wall::Landlock];
    needed.iter().all(|wall| {
        let mut found = findings.without_namespaces.iter();
        found.any(|finding| finding.wall == *wall && finding.holds)
    })
}

/// Whether a run may start without this wall. Where the network cannot be held, accepting that means a
/// run without any network, so there are no names either. A network that is there must hold.
fn may_be_missing(wall: Wall, findings: &DoctorFindings, accepted: &[Wall]) -> bool {
    let no_network = findings.gate.is_none() && accepted.contains(&Wall::Network);
    match wall {
        Wall::Network => no_network,
        Wall::Dns => no_network || (findings.gate.is_some() && accepted.contains(&wall)),
        Wall::Seccomp | Wall::Landlock | Wall::Cgroup => accepted.contains(&wall),
        Wall::UserNamespace | Wall::Mounts | Wall::Git => false,
    }
}

/// What to do about a missing wall.
fn hint(wall: Wall, remedy: Option<String>, findings: &DoctorFindings) -> String {
    let holds = |wall: Wall| {
        let mut walls = findings.walls.iter();
        walls.any(|finding| finding.wall == wall && finding.holds)
    };
    let cage = [Wall::UserNamespace, Wall::Mounts].map(holds) == [true, true];
    let weaker = match wall {
        Wall::Network | Wall::Dns if findings.gate.is_none() && cage => Some(
            "or run without any network, where every connection is refused at once: \
             --accept-weaker network",
        ),
        Wall::Seccomp => Some("or accept that: --accept-weaker seccomp"),
        Wall::UserNamespace if holds_without_namespaces(findings) => Some(
            "or run without namespaces, where Landlock and a system call filter refuse files and every \
             socket, and this machine's processes are visible: --accept-weaker user_namespace",
        ),
        _ => None,
    };
    let remedy = remedy.unwrap_or_else(|| "See `foreman doctor`".to_owned());
    match weaker {
        Some(weaker) => format!("{}; {weaker}", remedy.trim_end_matches('.')),
        None => remedy,
    }
}

fn tier(findings: &DoctorFindings) -> (&'static str, String) {
    let missing = missing(findings);
    let lacks = |wanted: &[Wall]| missing.iter().any(|(wall, _)| wanted.contains(wall));
    if missing.is_empty() {
        return ("full", "Network held, files confined".to_owned());
    }
    if lacks(&[Wall::UserNamespace, Wall::Mounts]) {
        return match holds_without_namespaces(findings) {
            true => ("no_namespaces", Tier::NoNamespaces.words().to_owned()),
            false => ("none", "No cage can be built".to_owned()),
        };
    }
    let no_network = findings.gate.is_none();
    let names: Vec<_> = missing
        .iter()
        .filter(|(wall, _)| !no_network || !matches!(wall, Wall::Network | Wall::Dns))
        .map(|(wall, _)| wall.name())
        .collect();
    let network = match no_network {
        true => "Network refused",
        false if lacks(&[Wall::Network]) => "Network not held",
        false => "Network held",
    };
    let without = match names.is_empty() {
        true => String::new(),
        false => format!(", but without {}", names.join(", ")),
    };
    ("reduced", format!("{network}, files confined{without}"))
}

fn gate_in_words(findings: &DoctorFindings) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(gate) = &findings.gate {
        lines.push(format!("connections are held by {gate}"));
    }
    if let Some(abi) = findings.landlock_abi {
        lines.push(format!("the kernel's Landlock is version {abi}"));
    }
    lines.extend(findings.files.as_ref().map(HeldFiles::words));
    for finding in &findings.without_namespaces {
        let (wall, detail) = (finding.wall.name(), &finding.detail);
        let stands = if finding.holds { "holds" } else { "absent" };
        lines.push(format!("without namespaces: {wall} {stands}: {detail}"));
    }
    lines
}

fn report(finding: WallFinding) -> WallReport {
    WallReport {
        wall: finding.wall,
        holds: finding.holds,
        required: finding.required,
        detail: finding.detail,
        remedy: finding.remedy,
    }
}

fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?
        .write_all(bytes)
}

fn made_for(shim: &Path) -> Result<MadeFor, Failure> {
    let boot = Path::new("/proc/sys/kernel/random/boot_id");
    let boot_id = std::fs::read_to_string(boot)
        .map_err(|error| io(format!("{} cannot be read", boot.display()), &error))?;
    let metadata = std::fs::metadata(shim)
        .map_err(|error| io(format!("{} cannot be read", shim.display()), &error))?;
    Ok(MadeFor {
        boot_id: boot_id.trim().to_owned(),
        user: nix::unistd::geteuid().as_raw(),
        shim: shim.to_owned(),
        shim_size: metadata.len(),
        shim_changed: (metadata.mtime(), metadata.mtime_nsec()),
    })
}

#[cfg(test)]
#[path = "doctor/tests.rs"]
mod tests;
