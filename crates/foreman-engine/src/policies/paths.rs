//! Paths of rules: from the root where they count, from the home where they are written down; and questions
//! about a path.

use crate::api::Explanation;
use crate::environment::Account;
use foreman_domain::{Code, Failure, FileAccess, PathText, Subject, sanitize_line};
use foreman_policy::{Layer, PathRule, Rule, Verdict, file_floor, socket_floor};
use std::path::{Component, Path, PathBuf};

/// Longest path that is looked at.
const LONGEST: usize = 4_096;

pub(crate) fn home() -> PathBuf {
    Account::of_this_process(|name| std::env::var_os(name)).home
}

/// The rules with their paths from the root: that is how what happens in a cage is compared with them.
pub(super) fn from_root(rules: Vec<PathRule>) -> Vec<PathRule> {
    let home = home();
    rules
        .into_iter()
        .map(|rule| rule.rooted_in(&home))
        .collect()
}

/// A rule as it is written into a file that others share: from the home, where it lies in it.
pub(super) fn as_written(mut rule: Rule) -> Rule {
    let path = match &mut rule {
        Rule::Path(rule) => &mut rule.path,
        Rule::Socket(rule) => &mut rule.socket,
        Rule::Egress(_) | Rule::Bound(_) | Rule::Question(_) => return rule,
    };
    if let Ok(rest) = path.strip_prefix(home()) {
        *path = Path::new("~").join(rest);
    }
    rule
}

/// A question about a path.
pub(super) struct PathAsked {
    wanted: Wanted,
    path: PathBuf,
    home: PathBuf,
}

/// What is wanted of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    File(FileAccess),
    Socket,
}

/// Reads `read:/path`, `write:~/path` and `socket:/path`; nothing when it asks about something else.
pub(super) fn path_asked(text: &str) -> Result<Option<PathAsked>, Failure> {
    let text = text.trim();
    let kinds = [
        ("read:", Wanted::File(FileAccess::Read)),
        ("read ", Wanted::File(FileAccess::Read)),
        ("write:", Wanted::File(FileAccess::Write)),
        ("write ", Wanted::File(FileAccess::Write)),
        ("socket:", Wanted::Socket),
        ("socket ", Wanted::Socket),
    ];
    let Some((wanted, path)) = kinds.iter().find_map(|(prefix, wanted)| {
        let path = text.strip_prefix(prefix)?.trim_start();
        (path.starts_with('/') || path.starts_with('~')).then_some((*wanted, path))
    }) else {
        return Ok(None);
    };
    let refuse = |why: &str| {
        let shown: String = sanitize_line(path).chars().take(100).collect();
        Failure::new(Code::BadInput, format!("the path \"{shown}\" {why}"))
    };
    if path.len() > LONGEST {
        return Err(refuse("is longer than 4096 bytes"));
    }
    let home = home();
    let path = match path.strip_prefix('~') {
        None => PathBuf::from(path),
        Some("") => home.clone(),
        Some(rest) => match rest.strip_prefix('/') {
            Some(rest) => home.join(rest),
            None => {
                return Err(refuse(
                    "names another account's home; write it from the root",
                ));
            }
        },
    };
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(refuse("has \"..\" in it; write the path that is meant"));
    }
    let path = path.components().collect();
    Ok(Some(PathAsked { wanted, path, home }))
}

impl PathAsked {
    /// What a program that uses the path would be judged by, links followed; or that it is on the floor.
    /// Blocking.
    pub(super) fn subject(self, own: &[PathBuf]) -> Result<Subject, Explanation> {
        let path = canonical(&self.path);
        for named in [&self.path, &path] {
            let floor = match self.wanted {
                Wanted::File(access) => file_floor(named, access, &self.home, own),
                Wanted::Socket => socket_floor(named, own),
            };
            if let Some(why) = floor {
                return Err(Explanation {
                    verdict: Verdict::Refused.as_str().to_owned(),
                    layer: Some(Layer::Floor),
                    rule: None,
                    words: format!("{} is {why}, which no rule can open", PathText::of(named)),
                });
            }
        }
        let path = PathText::of(&path);
        Ok(match self.wanted {
            Wanted::File(access) => Subject::File { access, path },
            Wanted::Socket => Subject::Socket { path },
        })
    }
}

/// The path without links, as far as it is there.
pub(crate) fn canonical(path: &Path) -> PathBuf {
    for above in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (above.canonicalize(), path.strip_prefix(above)) {
            return real.join(rest).components().collect();
        }
    }
    path.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_asked_about_by_what_is_wanted_of_it() {
        let asked = |text: &str| {
            path_asked(text)
                .unwrap()
                .map(|asked| (asked.wanted, asked.path))
        };
        assert_eq!(
            asked("write:/srv//data/."),
            Some((Wanted::File(FileAccess::Write), "/srv/data".into()))
        );
        let read = Wanted::File(FileAccess::Read);
        assert_eq!(asked("read /srv"), Some((read, "/srv".into())));
        let socket = Some((Wanted::Socket, "/run/x.sock".into()));
        assert_eq!(asked("socket:/run/x.sock"), socket);
        assert_eq!(asked("socket:443"), None);
        // A host that is called so.
        assert_eq!(asked("read:443"), None);
        assert_eq!(asked("registry.example:443"), None);
        for wrong in ["write:/srv/../etc", "read:~other/x"] {
            assert!(path_asked(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_link_is_asked_about_as_what_it_leads_to() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        std::os::unix::fs::symlink(root.join("real"), root.join("link")).unwrap();
        let asked = path_asked(&format!("write:{}/link/new/x", root.display())).unwrap();
        let subject = asked.unwrap().subject(&[]).unwrap();
        let wanted = format!("write {}/real/new/x", root.display());
        assert_eq!(subject.to_string(), wanted);
    }

    #[test]
    fn own_data_is_on_the_floor() {
        let own = [PathBuf::from("/srv/foreman")];
        let asked = path_asked("read:/srv/foreman/state").unwrap().unwrap();
        let explained = asked.subject(&own).unwrap_err();
        assert_eq!(explained.layer, Some(Layer::Floor));
        let asked = path_asked("socket:/srv/foreman/run/x").unwrap().unwrap();
        let explained = asked.subject(&own).unwrap_err();
        assert!(
            explained.words.contains("the engine's own"),
            "{}",
            explained.words
        );
    }
}
