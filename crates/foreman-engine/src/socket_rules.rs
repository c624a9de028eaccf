//! Rules of sockets as they count on this machine: from the root, links followed, off the floor.
//!
//! A run is judged by where a connection really goes, so a rule is compared as what it leads to when the run
//! starts. One whose socket is made later is followed as far as there is something.

use crate::failures::join;
use crate::policies::{canonical, home};
use foreman_domain::{Code, Failure, PathText};
use foreman_policy::{SocketRule, socket_floor, socket_gives_away};
use std::path::{Path, PathBuf};

/// The rules, and what is to be said about them. `own` are the engine's places.
pub(crate) async fn resolved(
    rules: Vec<SocketRule>,
    own: Vec<PathBuf>,
) -> Result<(Vec<SocketRule>, Vec<String>), Failure> {
    if rules.is_empty() {
        return Ok((rules, Vec::new()));
    }
    let resolving = tokio::task::spawn_blocking(move || resolve(rules, &home(), &own));
    resolving.await.map_err(join)?
}

fn resolve(
    rules: Vec<SocketRule>,
    home: &Path,
    own: &[PathBuf],
) -> Result<(Vec<SocketRule>, Vec<String>), Failure> {
    let mut warnings = Vec::new();
    let mut resolved = Vec::with_capacity(rules.len());
    for rule in rules {
        let mut rule = rule.rooted_in(home);
        let real = canonical(&rule.socket);
        for path in [&rule.socket, &real] {
            if let Some(why) = socket_floor(path, own) {
                return Err(Failure::new(
                    Code::BadPolicy,
                    format!(
                        "{} ({}) cannot be connected to from a cage: it is {why}",
                        PathText::of(path),
                        rule.origin.source
                    ),
                )
                .hint("Take the rule out."));
            }
        }
        // What the path itself says was told where it was read.
        if let (None, Some(what)) = (socket_gives_away(&rule.socket), socket_gives_away(&real)) {
            warnings.push(format!(
                "{} leads to {} and opens {what}",
                rule.origin.source,
                PathText::of(&real)
            ));
        }
        rule.socket = real;
        resolved.push(rule);
    }
    Ok((resolved, warnings))
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreman_policy::{Layer, parse_policy};

    fn rules(path: &str) -> Vec<SocketRule> {
        let text = format!("[[socket]]\npath = \"{path}\"\n");
        parse_policy("policy.toml", &text, Layer::Order)
            .unwrap()
            .sockets
    }

    #[test]
    fn a_rule_counts_for_where_its_path_leads() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        let (found, warnings) = resolve(rules("~/link/later.sock"), &root, &[]).unwrap();
        assert_eq!(found[0].socket, root.join("real/later.sock"));
        assert!(warnings.is_empty());
    }

    #[test]
    fn a_link_does_not_lead_around_the_floor_and_a_way_out_behind_one_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let own = root.join("own");
        std::fs::create_dir_all(own.join("run")).unwrap();
        std::fs::create_dir_all(root.join(".gnupg")).unwrap();
        std::os::unix::fs::symlink("own/run", root.join("way")).unwrap();
        std::os::unix::fs::symlink(".gnupg", root.join("agent")).unwrap();
        let failure = resolve(rules("~/way/control.sock"), &root, &[own]).unwrap_err();
        assert!(
            failure.message.contains("a socket of the engine's own"),
            "{}",
            failure.message
        );
        let (_, warnings) = resolve(rules("~/agent/s"), &root, &[]).unwrap();
        assert!(warnings[0].contains("opens the gpg agent"), "{warnings:?}");
    }
}
