//! Paths of rules: from the root where they count, from the home where they are written down; and questions
//! about a path.

use crate::api::Explanation;
use crate::environment::Account;
use foreman_domain::{Code, Failure, FileAccess, PathText, Subject, sanitize_line};
use foreman_policy::{Layer, PathRule, Rule, Verdict, file_floor};
use std::path::{Component, Path, PathBuf};

/// Longest path that is looked at.
const LONGEST: usize = 4_096;

fn home() -> PathBuf {
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
    if let Rule::Path(rule) = &mut rule
        && let Ok(rest) = rule.path.strip_prefix(home())
    {
        rule.path = Path::new("~").join(rest);
    }
    rule
}

/// A question about a path.
pub(super) struct PathAsked {
    access: FileAccess,
    path: PathBuf,
    home: PathBuf,
}

/// Reads `read:/path` and `write:~/path`; nothing when it asks about something else.
pub(super) fn path_asked(text: &str) -> Result<Option<PathAsked>, Failure> {
    let text = text.trim();
    let kinds = [
        ("read:", FileAccess::Read),
        ("read ", FileAccess::Read),
        ("write:", FileAccess::Write),
        ("write ", FileAccess::Write),
    ];
    let Some((access, path)) = kinds.iter().find_map(|(prefix, access)| {
        let path = text.strip_prefix(prefix)?.trim_start();
        (path.starts_with('/') || path.starts_with('~')).then_some((*access, path))
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
    Ok(Some(PathAsked { access, path, home }))
}

impl PathAsked {
    /// What a program that uses the path would be judged by, links followed; or that it is on the floor.
    /// Blocking.
    pub(super) fn subject(self, own: &[PathBuf]) -> Result<Subject, Explanation> {
        let path = canonical(&self.path);
        for named in [&self.path, &path] {
            if let Some(why) = file_floor(named, self.access, &self.home, own) {
                return Err(Explanation {
                    verdict: Verdict::Refused.as_str().to_owned(),
                    layer: Some(Layer::Floor),
                    rule: None,
                    words: format!("{} is {why}, which no rule can open", PathText::of(named)),
                });
            }
        }
        Ok(Subject::File {
            access: self.access,
            path: PathText::of(&path),
        })
    }
}

/// The path without links, as far as it is there.
fn canonical(path: &Path) -> PathBuf {
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
                .map(|asked| (asked.access, asked.path))
        };
        assert_eq!(
            asked("write:/srv//data/."),
            Some((FileAccess::Write, "/srv/data".into()))
        );
        assert_eq!(asked("read /srv"), Some((FileAccess::Read, "/srv".into())));
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
    }
}
