//! Path rules of a policy as binds of a cage: canonical, off the floor, and free of what a mount would
//! hand over beside files (sockets, git directories). A watched folder is never writable: its order files
//! start programs.

use foreman_cage::Bind;
use foreman_domain::{Code, Failure};
use foreman_policy::{Access, PathRule, path_floor, write_floor};
use std::collections::VecDeque;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Entries that are looked at below one path; what is larger is opened with a warning.
const MOST_ENTRIES: usize = 20_000;

/// Where the operator's own things are.
#[derive(Debug, Clone)]
pub(crate) struct Own<'a> {
    pub home: &'a Path,
    pub data: &'a Path,
    pub sockets: &'a Path,
    /// Folders whose order files are taken in, canonical.
    pub watched: &'a [PathBuf],
}

/// What path rules come to on this machine. Blocking.
pub(crate) fn binds_of(
    rules: &[PathRule],
    own: &Own<'_>,
) -> Result<(Vec<Bind>, Vec<String>), Failure> {
    let mut binds = Vec::new();
    let mut warnings = Vec::new();
    for rule in rules {
        let target = expand(&rule.path, own.home);
        let source = match target.canonicalize() {
            Ok(source) => source,
            Err(error) => {
                warnings.push(format!(
                    "{} of {} is not there, so it is not opened ({error})",
                    target.display(),
                    rule.origin.source
                ));
                continue;
            }
        };
        let writable = rule.access == Access::Write;
        // The path as written and the path that it leads to: a link must not lead past the floor.
        for path in [&target, &source] {
            refuse_floor(rule, path, writable, own)?;
        }
        if let Some(warning) = refuse_contents(rule, &source, writable)? {
            warnings.push(warning);
        }
        binds.push(Bind {
            source,
            target,
            writable,
        });
    }
    Ok((binds, warnings))
}

fn expand(path: &Path, home: &Path) -> PathBuf {
    match path.strip_prefix("~") {
        Ok(rest) => home.join(rest),
        Err(_) => path.to_owned(),
    }
}

fn refuse_floor(
    rule: &PathRule,
    path: &Path,
    writable: bool,
    own: &Own<'_>,
) -> Result<(), Failure> {
    let floor = path_floor(path, own.home, own.data)
        .or_else(|| path_floor(path, own.home, own.sockets))
        .or_else(|| writable.then(|| write_floor(path, own.home)).flatten());
    if let Some(why) = floor {
        return Err(refusal(rule, path, &format!("it is {why}")));
    }
    let touched = own
        .watched
        .iter()
        .find(|watched| writable && (path.starts_with(watched) || watched.starts_with(path)));
    match touched {
        None => Ok(()),
        Some(watched) => {
            let why = format!(
                "it holds or lies in {}, which is watched for order files, and those start programs",
                watched.display()
            );
            Err(refusal(rule, path, &why))
        }
    }
}

fn refusal(rule: &PathRule, path: &Path, why: &str) -> Failure {
    let verb = match rule.access {
        Access::Read => "read",
        Access::Write => "written",
    };
    Failure::new(
        Code::BadPolicy,
        format!(
            "{} ({}) cannot be {verb} from a cage: {why}",
            path.display(),
            rule.origin.source
        ),
    )
    .hint("Name a narrower path, or take the rule out.")
}

/// Looks below a path, bounded, without following links. A writable folder with a git directory in it
/// would let the agent plant what git runs on the host; a socket would connect it to the host.
fn refuse_contents(
    rule: &PathRule,
    source: &Path,
    writable: bool,
) -> Result<Option<String>, Failure> {
    let kind = std::fs::symlink_metadata(source)
        .map_err(|error| refusal(rule, source, &format!("it cannot be looked at ({error})")))?
        .file_type();
    if !kind.is_dir() && !kind.is_file() {
        return Err(refusal(rule, source, "it is neither a file nor a folder"));
    }
    if writable
        && let Some(git) = source
            .ancestors()
            .map(|up| up.join(".git"))
            .find(|git| git.exists())
    {
        let why = format!("it lies in the git repository of {}", git.display());
        return Err(refusal(rule, source, &why));
    }
    let mut folders = VecDeque::from([source.to_owned()]);
    let mut seen = 0;
    while let Some(folder) = folders.pop_front() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries.flatten() {
            seen += 1;
            if seen > MOST_ENTRIES {
                return Ok(Some(format!(
                    "{} is large and was not looked through for sockets and git directories",
                    source.display()
                )));
            }
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_socket() {
                let why = format!("it holds the socket {}", entry.path().display());
                return Err(refusal(rule, source, &why));
            }
            if writable && entry.file_name() == ".git" {
                let why = format!("it holds the git repository of {}", entry.path().display());
                return Err(refusal(rule, source, &why));
            }
            if kind.is_dir() {
                folders.push_back(entry.path());
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreman_policy::{Layer, Origin, RuleId};

    fn rule(path: &Path, access: Access) -> PathRule {
        PathRule {
            origin: Origin {
                id: RuleId("order:1".into()),
                layer: Layer::Order,
                source: "policy.toml line 1".into(),
                amendment: None,
                reason: None,
            },
            path: path.into(),
            access,
        }
    }

    struct Scratch {
        dir: tempfile::TempDir,
    }

    impl Scratch {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            for name in [
                "home/cache",
                "home/work/orders/done",
                "home/.ssh",
                "data/state",
                "sockets",
            ] {
                std::fs::create_dir_all(dir.path().join(name)).unwrap();
            }
            Self { dir }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().canonicalize().unwrap().join(name)
        }

        fn binds(
            &self,
            path: PathBuf,
            access: Access,
        ) -> Result<(Vec<Bind>, Vec<String>), Failure> {
            let (home, data, sockets) =
                (self.path("home"), self.path("data"), self.path("sockets"));
            let watched = [self.path("home/work/orders")];
            let own = Own {
                home: &home,
                data: &data,
                sockets: &sockets,
                watched: &watched,
            };
            binds_of(&[rule(&path, access)], &own)
        }
    }

    #[test]
    fn an_ordinary_folder_is_bound_where_the_rule_names_it() {
        let scratch = Scratch::new();
        let (binds, warnings) = scratch.binds("~/cache".into(), Access::Write).unwrap();
        let cache = scratch.path("home/cache");
        assert_eq!(
            binds,
            [Bind {
                source: cache.clone(),
                target: cache,
                writable: true
            }]
        );
        assert!(warnings.is_empty());
    }

    #[test]
    fn a_link_does_not_lead_past_the_floor() {
        let scratch = Scratch::new();
        std::os::unix::fs::symlink(scratch.path("home/.ssh"), scratch.path("home/link")).unwrap();
        let refused = scratch.binds("~/link".into(), Access::Read).unwrap_err();
        assert_eq!(refused.code, Code::BadPolicy);
    }

    #[test]
    fn own_data_and_sockets_are_never_opened() {
        let scratch = Scratch::new();
        for name in ["data/state", "data", "sockets", ""] {
            assert!(
                scratch.binds(scratch.path(name), Access::Read).is_err(),
                "{name}"
            );
        }
        let _socket =
            std::os::unix::net::UnixListener::bind(scratch.path("home/cache/agent.sock")).unwrap();
        let refused = scratch.binds("~/cache".into(), Access::Read).unwrap_err();
        assert!(refused.message.contains("socket"), "{refused}");
    }

    #[test]
    fn a_folder_with_a_repository_in_it_can_be_read_and_not_written() {
        let scratch = Scratch::new();
        std::fs::create_dir_all(scratch.path("home/cache/a/b/.git/hooks")).unwrap();
        assert!(scratch.binds("~/cache".into(), Access::Read).is_ok());
        for inside in ["~/cache", "~/cache/a/b"] {
            let refused = scratch.binds(inside.into(), Access::Write).unwrap_err();
            assert!(refused.message.contains("git"), "{refused}");
        }
    }

    #[test]
    fn a_watched_folder_can_be_read_and_not_written() {
        let scratch = Scratch::new();
        std::os::unix::fs::symlink(scratch.path("home/work"), scratch.path("home/link")).unwrap();
        for path in ["~/work", "~/work/orders", "~/work/orders/done", "~/link"] {
            assert!(scratch.binds(path.into(), Access::Read).is_ok(), "{path}");
            let refused = scratch.binds(path.into(), Access::Write).unwrap_err();
            assert!(refused.message.contains("is watched"), "{refused}");
        }
        assert!(scratch.binds("~/cache".into(), Access::Write).is_ok());
    }

    #[test]
    fn a_path_that_is_not_there_is_a_warning() {
        let scratch = Scratch::new();
        let (binds, warnings) = scratch.binds("~/nowhere".into(), Access::Read).unwrap();
        assert!(binds.is_empty());
        assert_eq!(warnings.len(), 1);
    }
}
