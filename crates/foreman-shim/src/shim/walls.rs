//! Proves the walls of a cage, and that its gateway serves, before anything runs in it.

use super::feed::Feed;
use crate::protocol::RunSpec;
use foreman_cage::{Cage, ProbeResult};
use foreman_domain::{EventKind, FailReason, Wall};
use std::io;

/// Tries every wall from inside. A required one that does not hold, or was not tried, ends the run
/// before anything of it started, unless the operator accepted that.
pub(super) async fn prove_walls(
    spec: &RunSpec,
    cage: &Cage,
    feed: &Feed,
) -> Result<(), FailReason> {
    let probes = cage.probe().await;
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
    let has_git = spec.cage.workdir.join(".git").exists();
    let missing = missing_walls(&probes, has_git, &spec.cage.accept_weaker);
    if missing.is_empty() {
        return Ok(());
    }
    Err(FailReason::Wall {
        message: missing.join("; "),
    })
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

/// Required walls that do not hold, each with what was seen.
fn missing_walls(probes: &[ProbeResult], has_git: bool, accepted: &[Wall]) -> Vec<String> {
    let mut missing = Vec::new();
    for wall in Wall::ALL {
        if !wall.is_required() || accepted.contains(&wall) || (wall == Wall::Git && !has_git) {
            continue;
        }
        let mut tried = probes.iter().filter(|probe| probe.wall == wall).peekable();
        if tried.peek().is_none() {
            missing.push(format!("{} was not tried", wall.name()));
        }
        let failed = tried.filter(|probe| !probe.holds);
        missing.extend(failed.map(|probe| format!("{}: {}", wall.name(), probe.detail)));
    }
    missing
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
            assert!(
                missing_walls(&failing, true, &[REQUIRED[index]]).is_empty(),
                "accepted"
            );
            failing.remove(index);
            assert_eq!(missing_walls(&failing, true, &[]).len(), 1);
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
