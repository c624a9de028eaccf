//! Proves the walls of a cage, and that its gateway serves, before anything runs in it.

use super::feed::Feed;
use crate::protocol::RunSpec;
use foreman_cage::{Cage, Confinement, LaunchError, ProbeResult};
use foreman_domain::{EventKind, FailReason, Wall, without_error_numbers};
use std::io;

/// Tries every wall from inside. A required one that does not hold, or was not tried, ends the run
/// before anything of it started, unless the operator accepted that. A network that was accepted
/// to be absent must be seen to be absent: nothing makes up for one that is open. Gives the walls that held.
pub(super) async fn prove_walls(
    spec: &RunSpec,
    cage: &Cage,
    feed: &Feed,
    no_network: Option<&LaunchError>,
) -> Result<Vec<Wall>, FailReason> {
    let mut probes = cage.probe().await;
    let held = probes.iter().filter(|probe| probe.holds);
    let held = held.map(|probe| probe.wall).collect();
    let has_git = spec.cage.workdir.join(".git").exists();
    let confinement = spec.cage.confinement;
    let missing = match confinement {
        Confinement::Namespaces => missing_walls(&probes, has_git, &spec.cage.accept_weaker),
        Confinement::Landlock => missing_of(&ALONE, &probes),
        Confinement::Nothing => Vec::new(),
    };
    let no_network = no_network.filter(|_| confinement.has_namespaces());
    if let Some(why) = no_network {
        for probe in &mut probes {
            absent(probe, why);
        }
    }
    for ProbeResult {
        wall,
        holds,
        detail,
    } in &probes
    {
        feed.tell(EventKind::Probe {
            wall: *wall,
            holds: *holds,
            detail: detail.clone(),
        });
    }
    if missing.is_empty() {
        let message = match confinement {
            Confinement::Namespaces => no_network.map(no_network_in_words),
            Confinement::Landlock => Some(NO_NAMESPACES.to_owned()),
            Confinement::Nothing => Some(UNCONFINED.to_owned()),
        };
        if let Some(message) = message {
            feed.tell(EventKind::Warning { message });
        }
        return Ok(held);
    }
    Err(FailReason::Wall {
        message: missing.join("; "),
    })
}

/// Walls that a run without namespaces needs: all that it has.
const ALONE: [Wall; 4] = [Wall::Network, Wall::Dns, Wall::Seccomp, Wall::Landlock];

const NO_NAMESPACES: &str = "This run has no namespaces, as accepted. Its files are kept by Landlock alone, and \
    it can make no socket, so it has no network. Nothing is held and nothing can be allowed while it lasts. Not \
    stopped: it sees the names and command lines of this machine's processes, may signal those of its user where \
    Landlock is older than version 6, sees which files exist, reads what everybody may below /etc and /sys, and \
    may replace the worktree's .git: do not use git in the worktree before the run has ended.";

const UNCONFINED: &str = "This run is NOT CONFINED, as asked for: it may read, write, send and start whatever you \
    may. Nothing is held, and nothing that it does is stopped.";

/// Says of a wall that is not there what stands in its place.
fn absent(probe: &mut ProbeResult, why: &LaunchError) {
    if !matches!(probe.wall, Wall::Network | Wall::Dns) {
        return;
    }
    probe.holds = false;
    probe.detail = format!(
        "there is no gateway, as accepted ({}); {}",
        words_of(why),
        probe.detail
    );
}

fn words_of(why: &LaunchError) -> String {
    without_error_numbers(&format!("{why}: {}", why.source))
}

fn no_network_in_words(why: &LaunchError) -> String {
    let remedy = why.remedy.as_deref();
    let remedy = remedy.map_or_else(String::new, |remedy| format!(" To have one: {remedy}."));
    format!(
        "This run has no network, as accepted: every connection is refused at once, nothing is held \
         and nothing can be allowed, because Foreman {}.{remedy}",
        words_of(why)
    )
}

/// Ends the run before anything of it started when nobody serves what the cage sends: it could reach
/// nothing, whatever is allowed.
pub(super) fn prove_gateway(failure: Option<&io::Error>, feed: &Feed) -> Result<(), FailReason> {
    let Some(error) = failure else { return Ok(()) };
    let detail = format!(
        "the gateway could not start, so the cage could reach nothing: {error}. Raise the limit of \
         open files (`ulimit -n`) or end other programs, and start the run again"
    );
    let wall = Wall::Network;
    feed.tell(EventKind::Probe {
        wall,
        holds: false,
        detail: detail.clone(),
    });
    Err(FailReason::Wall {
        message: format!("{}: {detail}", wall.name()),
    })
}

/// Those of `walls` that do not hold, or were not tried.
fn missing_of(walls: &[Wall], probes: &[ProbeResult]) -> Vec<String> {
    let mut missing = Vec::new();
    for wall in walls {
        let mut tried = probes.iter().filter(|probe| probe.wall == *wall).peekable();
        if tried.peek().is_none() {
            missing.push(format!("{} was not tried", wall.name()));
        }
        let failed = tried.filter(|probe| !probe.holds);
        missing.extend(failed.map(|probe| format!("{}: {}", wall.name(), probe.detail)));
    }
    missing
}

/// Required walls that do not hold, each with what was seen.
fn missing_walls(probes: &[ProbeResult], has_git: bool, accepted: &[Wall]) -> Vec<String> {
    let is_needed = |wall: &Wall| {
        wall.is_required() && (*wall != Wall::Git || has_git) && !may_fail(*wall, accepted)
    };
    let needed: Vec<Wall> = Wall::ALL.into_iter().filter(is_needed).collect();
    missing_of(&needed, probes)
}

/// Whether a run may start although this wall's probe fails. An open network is never accepted: without
/// a gateway there is none at all, and with one it must hold.
fn may_fail(wall: Wall, accepted: &[Wall]) -> bool {
    let never = matches!(wall, Wall::Network | Wall::UserNamespace);
    accepted.contains(&wall) && wall.why_never_weaker().is_none() && !never
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(wall: Wall, holds: bool) -> ProbeResult {
        ProbeResult {
            wall,
            holds,
            detail: "seen".into(),
        }
    }

    const REQUIRED: [Wall; 6] = [
        Wall::UserNamespace,
        Wall::Mounts,
        Wall::Network,
        Wall::Dns,
        Wall::Seccomp,
        Wall::Git,
    ];

    #[test]
    fn a_required_wall_that_fails_or_was_not_tried_is_missing() {
        let all: Vec<_> = REQUIRED.iter().map(|wall| held(*wall, true)).collect();
        assert!(missing_walls(&all, true, &[]).is_empty());
        for index in 0..REQUIRED.len() {
            let mut failing = all.clone();
            failing[index].holds = false;
            assert_eq!(missing_walls(&failing, true, &[]).len(), 1);
            let wall = REQUIRED[index];
            let may_be_weaker = matches!(wall, Wall::Dns | Wall::Seccomp);
            assert_eq!(
                missing_walls(&failing, true, &[wall]).is_empty(),
                may_be_weaker,
                "{wall:?} accepted"
            );
            failing.remove(index);
            assert_eq!(missing_walls(&failing, true, &[]).len(), 1);
        }
    }

    #[test]
    fn a_run_without_namespaces_needs_all_that_it_has() {
        let all: Vec<_> = ALONE.iter().map(|wall| held(*wall, true)).collect();
        assert!(missing_of(&ALONE, &all).is_empty());
        for index in 0..ALONE.len() {
            let mut failing = all.clone();
            failing[index].holds = false;
            assert_eq!(missing_of(&ALONE, &failing).len(), 1);
            failing.remove(index);
            assert_eq!(missing_of(&ALONE, &failing).len(), 1);
        }
    }

    #[test]
    fn a_gateway_that_serves_nothing_is_a_typed_failure_with_a_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let run = foreman_domain::RunId::from_random(5);
        let (feed, thread) = Feed::open(&dir.path().join("journal"), &run).unwrap();
        assert_eq!(prove_gateway(None, &feed), Ok(()));
        let error = io::Error::from_raw_os_error(libc::EMFILE);
        let Err(FailReason::Wall { message }) = prove_gateway(Some(&error), &feed) else {
            panic!("it was not noticed")
        };
        assert!(message.starts_with("network: the gateway could not start"));
        assert!(message.contains("ulimit -n"), "{message}");
        assert_eq!(thread.close().0, 1, "the feed has it, too");
    }

    #[test]
    fn landlock_may_be_absent_and_git_where_there_is_none() {
        let mut probes: Vec<_> = REQUIRED[..5].iter().map(|wall| held(*wall, true)).collect();
        probes.push(held(Wall::Landlock, false));
        assert!(missing_walls(&probes, false, &[]).is_empty());
        assert_eq!(missing_walls(&probes, true, &[]), ["git was not tried"]);
    }
}
