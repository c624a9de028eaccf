//! `[[read]]` and `[[write]]`: what of the host's files may be seen.

use super::PolicyFile;
use super::section::Section;
use crate::error::{Fault, PolicyError, quoted};
use crate::{Access, Origin, PathRule, Use, path_floor, write_floor};
use std::path::{Component, Path, PathBuf};

/// Key, words, and what it opens.
pub(super) const KINDS: &[(&str, &str, Access)] = &[
    ("read", "a [[read]] rule", Access::Read),
    ("write", "a [[write]] rule", Access::Write),
];

const LONGEST: usize = 4_096;

pub(super) fn read(
    section: &Section<'_>,
    access: Access,
    origin: Origin,
    file: &mut PolicyFile,
) -> Result<(), PolicyError> {
    section.only(&["path", "reason", "expires"])?;
    let text = section.needed_text("path")?;
    let path = plain_path(text, access).map_err(|fault| section.at_value("path", fault))?;
    if let Some(earlier) = file.paths.iter().find(|earlier| earlier.path == path) {
        let fault = if earlier.access == access {
            Fault::new(format!(
                "the rule for {} repeats that of {}",
                quoted(text),
                earlier.origin.source
            ))
            .hint("Remove one of them.")
        } else {
            Fault::new(format!(
                "the rule for {} contradicts that of {}: one opens it for reading, one for writing",
                quoted(text),
                earlier.origin.source
            ))
            .hint("Writing includes reading; keep the one that is meant.")
        };
        return Err(section.at_start(fault));
    }
    file.paths.push(PathRule {
        origin,
        path,
        access,
        applies: Use::Always,
        expires: super::egress::expires(section)?,
        sockets: false,
    });
    Ok(())
}

/// An absolute path or one beneath `~`, without anything that would lead elsewhere.
pub(super) fn plain(text: &str) -> Result<PathBuf, Fault> {
    if text.len() > LONGEST {
        return Err(Fault::new(format!(
            "the path is longer than {LONGEST} bytes"
        )));
    }
    if text.chars().any(char::is_control) {
        return Err(Fault::new(format!(
            "the path {} has control characters",
            quoted(text)
        )));
    }
    if text != "~" && !text.starts_with("~/") && !text.starts_with('/') {
        return Err(Fault::new(format!("the path {} is relative", quoted(text)))
            .hint("Begin it with / or with ~/ for the home directory."));
    }
    let path = Path::new(text);
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(
            Fault::new(format!("the path {} has \"..\" in it", quoted(text)))
                .hint("Write the path that is meant."),
        );
    }
    if text.contains(['*', '?']) {
        return Err(
            Fault::new(format!("the path {} has a pattern in it", quoted(text)))
                .hint("A rule opens one file or one whole directory; name it."),
        );
    }
    // Collected anew: without doubled slashes, single dots and a slash at the end.
    Ok(path.components().collect())
}

/// The same, where a rule can open it.
fn plain_path(text: &str, access: Access) -> Result<PathBuf, Fault> {
    let path = plain(text)?;
    let home = Path::new("~");
    if let Some(why) = path_floor(&path, home, Path::new("~/.local/share/foreman")) {
        return Err(Fault::new(format!(
            "{} is {why}, so no rule can open it",
            quoted(text)
        )));
    }
    if access == Access::Write
        && let Some(why) = write_floor(&path, home)
    {
        return Err(Fault::new(format!(
            "{} is {why}, so no rule can open it for writing",
            quoted(text)
        ))
        .hint("A [[read]] rule is possible."));
    }
    Ok(path)
}
