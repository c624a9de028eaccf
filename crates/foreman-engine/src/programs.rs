//! Where the programs of a run are looked up, and refusing an agent that this machine has but a cage
//! does not see.
//!
//! A cage sees the system's folders. Of the operator's own search path it sees what a path rule opens,
//! so that `-- my-agent` means the same inside as outside. An agent that is nowhere is not refused
//! here: the setup command may make it, and the cage says where it looked.

pub(crate) mod agent_key;
pub(crate) mod agents;
pub(crate) mod asking;
pub(crate) mod handed_on;
pub(crate) mod harness;
pub(crate) mod login;
pub(crate) mod patience;

use foreman_cage::Bind;
use foreman_domain::{Code, Failure};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Before all others, so that `foreman why` is found.
const OURS: &str = "/run/foreman/bin";
const SYSTEM: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The search path of a run's steps: folders of toolchains, the system's, then those of the operator's own
/// that `opened` makes visible.
pub(crate) fn search_path(
    operator: Option<&OsStr>,
    toolchains: &[PathBuf],
    opened: &[Bind],
) -> String {
    let mut path = OURS.to_owned();
    let toolchains = toolchains.iter().filter_map(|folder| folder.to_str());
    for folder in toolchains.filter(|folder| !folder.contains(':')) {
        path.push(':');
        path.push_str(folder);
    }
    path.push(':');
    path.push_str(SYSTEM);
    for folder in folders(operator) {
        let Some(text) = folder.to_str() else {
            continue;
        };
        let is_opened = opened.iter().any(|bind| folder.starts_with(&bind.target));
        if is_opened && !path.split(':').any(|known| known == text) {
            path.push(':');
            path.push_str(text);
        }
    }
    path
}

/// Refuses `program` when it is one of the operator's that no path rule opens. `home` is covered by the
/// run's own. Blocking, but short.
pub(crate) fn refuse_unseen(
    program: &str,
    operator: Option<&OsStr>,
    toolchains: &[PathBuf],
    opened: &[Bind],
    home: &Path,
) -> Result<(), Failure> {
    let place = if program.contains('/') {
        let place = PathBuf::from(program);
        let is_covered = place.starts_with(home) && !is_opened(&place, opened);
        (is_covered && place.exists()).then_some(place)
    } else {
        let seen = search_path(operator, toolchains, opened);
        let seen: Vec<_> = seen.split(':').map(Path::new).collect();
        let is_there = |folder: &Path| folder.join(program).is_file();
        // `foreman` itself is put there by the cage.
        if program == "foreman" || seen.iter().any(|folder| is_there(folder)) {
            None
        } else {
            folders(operator)
                .find(|folder| is_there(folder))
                .map(|folder| folder.join(program))
        }
    };
    let Some(place) = place else {
        return Ok(());
    };
    let folder = place.parent().unwrap_or(&place).display();
    Err(Failure::new(
        Code::BadInput,
        format!(
            "{} is on this machine, but the cage does not see it",
            place.display()
        ),
    )
    .hint(format!(
        "Open its folder, and what it links to, in a file for --policy: [[read]] path = \"{folder}\""
    )))
}

fn is_opened(path: &Path, opened: &[Bind]) -> bool {
    opened.iter().any(|bind| path.starts_with(&bind.target))
}

/// The absolute folders of a search path; what else stands in one means another place in a cage. A
/// colon would end the entry early.
fn folders(path: Option<&OsStr>) -> impl Iterator<Item = PathBuf> {
    let folders: Vec<_> = path.into_iter().flat_map(std::env::split_paths).collect();
    folders.into_iter().filter(|folder| folder.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(target: &Path) -> Bind {
        Bind {
            source: target.into(),
            target: target.into(),
            writable: false,
        }
    }

    fn with_agent() -> (tempfile::TempDir, PathBuf) {
        let home = tempfile::tempdir().unwrap();
        let bin = home.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::fs::write(bin.join("my-agent"), "#!/bin/sh\n").unwrap();
        (home, bin)
    }

    #[test]
    fn opened_folders_of_the_operators_path_come_last_and_others_do_not_come() {
        let path = search_path(
            Some(OsStr::new(
                "/home/op/bin:rel:/usr/bin:/opt/x/bin:/home/op/bin",
            )),
            &[PathBuf::from("/home/op/.cargo/bin")],
            &[bind(Path::new("/home/op"))],
        );
        assert_eq!(
            path,
            format!("{OURS}:/home/op/.cargo/bin:{SYSTEM}:/home/op/bin")
        );
    }

    #[test]
    fn an_agent_in_a_folder_that_no_rule_opens_is_refused_with_the_rule_to_write() {
        let (home, bin) = with_agent();
        let path = bin.as_os_str();
        for program in ["my-agent", bin.join("my-agent").to_str().unwrap()] {
            let refused = refuse_unseen(program, Some(path), &[], &[], home.path()).unwrap_err();
            assert!(refused.message.contains("does not see it"), "{refused}");
            let hint = refused.hint.unwrap();
            assert!(hint.contains(bin.to_str().unwrap()), "{hint}");
        }
    }

    #[test]
    fn an_agent_that_is_seen_or_nowhere_is_not_refused() {
        let (home, bin) = with_agent();
        let opened = [bind(&bin)];
        let there = bin.join("my-agent");
        for (program, opened) in [
            ("my-agent", &opened[..]),
            (there.to_str().unwrap(), &opened),
            ("sh", &[]),
            ("foreman", &[]),
            ("made-by-setup", &[]),
            ("./in-the-worktree", &[]),
        ] {
            let path = Some(bin.as_os_str());
            assert!(
                refuse_unseen(program, path, &[], opened, home.path()).is_ok(),
                "{program}"
            );
        }
    }
}
