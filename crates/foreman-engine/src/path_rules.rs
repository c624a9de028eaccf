//! Path rules of a policy as binds of a cage: canonical, off the floor, and free of what a mount would
//! hand over beside files (sockets, git directories). A watched folder is never writable: its order files
//! start programs.

use foreman_cage::Bind;
use foreman_domain::{At, Code, Failure};
use foreman_policy::{Access, Ground, PathRule, path_floor, write_floor};
use foreman_shim::ground::{Contents, contents};
use std::path::{Path, PathBuf};

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
    now: At,
) -> Result<(Vec<Bind>, Vec<String>), Failure> {
    let mut binds = Vec::new();
    let mut warnings = Vec::new();
    for rule in rules.iter().filter(|rule| rule.stands(now)) {
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
    match closed(path, writable, own) {
        None => Ok(()),
        Some(why) => Err(refusal(rule, path, &why)),
    }
}

/// Why no rule opens a path, as far as its name tells: "it is a store of credentials".
pub(crate) fn closed(path: &Path, writable: bool, own: &Own<'_>) -> Option<String> {
    let floor = path_floor(path, own.home, own.data)
        .or_else(|| path_floor(path, own.home, own.sockets))
        .or_else(|| writable.then(|| write_floor(path, own.home)).flatten());
    if let Some(why) = floor {
        return Some(format!("it is {why}"));
    }
    let touched = own
        .watched
        .iter()
        .find(|watched| writable && (path.starts_with(watched) || watched.starts_with(path)))?;
    Some(format!(
        "it holds or lies in {}, which is watched for order files, and those start programs",
        touched.display()
    ))
}

/// What a card may offer of a path, as it is now. `busy` are the places of the run itself, which nothing
/// may cover. Blocking.
pub(crate) fn look(path: &Path, access: Access, own: &Own<'_>, busy: &[PathBuf]) -> Ground {
    let writable = access == Access::Write;
    match path.canonicalize() {
        Ok(canonical) if canonical == path => {}
        Ok(canonical) => {
            return Ground::Closed(format!("it leads to {} now", canonical.display()));
        }
        Err(error) => return Ground::Closed(format!("it cannot be looked at ({error})")),
    }
    if let Some(why) = closed(path, writable, own) {
        return Ground::Closed(why);
    }
    if path.components().count() <= 2 {
        let why = "only what lies below a top-level folder can be shown in a running cage";
        return Ground::Closed(why.to_owned());
    }
    if let Some(busy) = busy.iter().find(|busy| busy.starts_with(path)) {
        return Ground::Closed(format!(
            "it holds {}, which this run works in",
            busy.display()
        ));
    }
    match contents(path, writable) {
        Err(why) => Ground::Closed(why),
        Ok(Contents { socket, large }) => Ground::Open {
            socket: socket.map(|socket| socket.display().to_string()),
            large,
        },
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

/// Refuses a path with something in it that a mount would hand over beside files.
fn refuse_contents(
    rule: &PathRule,
    source: &Path,
    writable: bool,
) -> Result<Option<String>, Failure> {
    let found = contents(source, writable).map_err(|why| refusal(rule, source, &why))?;
    if let Some(socket) = found.socket {
        let why = format!("it holds the socket {}", socket.display());
        return Err(refusal(rule, source, &why));
    }
    Ok(found.large.then(|| {
        format!(
            "{} is large and was not looked through for sockets and git directories",
            source.display()
        )
    }))
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
            applies: foreman_policy::Use::Always,
            expires: None,
            sockets: false,
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
            binds_of(&[rule(&path, access)], &own, At::from_millis(0))
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
    fn a_card_offers_only_what_a_rule_could_open_now() {
        let scratch = Scratch::new();
        let (home, data, sockets) = (
            scratch.path("home"),
            scratch.path("data"),
            scratch.path("sockets"),
        );
        let watched = [scratch.path("home/work/orders")];
        let own = Own {
            home: &home,
            data: &data,
            sockets: &sockets,
            watched: &watched,
        };
        let busy = [scratch.path("home/src/repo")];
        std::fs::create_dir_all(&busy[0]).unwrap();
        std::os::unix::fs::symlink(scratch.path("home/cache"), scratch.path("home/link")).unwrap();
        let look = |name: &str, access| super::look(&scratch.path(name), access, &own, &busy);
        let closed = |name: &str, access, why: &str| match look(name, access) {
            Ground::Closed(found) => assert!(found.contains(why), "{name}: {found}"),
            Ground::Open { .. } => panic!("{name} is open"),
        };
        closed("home", Access::Read, "contains");
        closed("home/.ssh", Access::Read, "credentials");
        closed("home/work", Access::Write, "is watched");
        closed("home/src", Access::Read, "works in");
        closed("home/link", Access::Read, "leads to");
        closed("home/nowhere", Access::Read, "cannot be looked at");
        assert_eq!(
            look("home/cache", Access::Write),
            Ground::Open {
                socket: None,
                large: false
            }
        );
        let path = scratch.path("home/cache/agent.sock");
        let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let Ground::Open { socket, .. } = look("home/cache", Access::Read) else {
            panic!("it is closed");
        };
        assert_eq!(socket, Some(path.display().to_string()));
    }

    #[test]
    fn a_path_that_is_not_there_is_a_warning() {
        let scratch = Scratch::new();
        let (binds, warnings) = scratch.binds("~/nowhere".into(), Access::Read).unwrap();
        assert!(binds.is_empty());
        assert_eq!(warnings.len(), 1);
    }
}
