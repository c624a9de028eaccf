//! What a reviewer must see first: files that an editor, a tool or git itself would load and run by
//! itself, repositories planted inside the worktree, links that lead out of it.
//!
//! Flags warn, they never refuse. Names are compared without regard to case: some file systems do.

mod lying;

pub(crate) use lying::of_worktree;

use crate::Repository;
use crate::preflight::hooks_inside;
use foreman_domain::sanitize_line;
use git2::{Delta, FileMode};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

/// Folders and files that something loads when it merely opens the tree, and what does.
const AUTOLOAD: &[(&str, &str)] = &[
    (".vscode", "an editor's settings and tasks"),
    (".idea", "an editor's settings and run configurations"),
    (".fleet", "an editor's settings"),
    (".zed", "an editor's settings and tasks"),
    (".devcontainer", "a development container"),
    (".devcontainer.json", "a development container"),
    (
        ".envrc",
        "a shell environment loaded on entering the folder",
    ),
    (".husky", "git hooks"),
    (".githooks", "git hooks"),
    (".mcp.json", "tool servers of an agent"),
    (".claude", "an agent's settings and hooks"),
    (".cursor", "an agent's settings"),
    (".codex", "an agent's settings"),
    (".gemini", "an agent's settings"),
    (".opencode", "an agent's settings"),
    (".pre-commit-config.yaml", "git hooks"),
    ("lefthook.yml", "git hooks"),
    (
        ".gitmodules",
        "submodules: where other repositories are fetched from",
    ),
    (".gitlab-ci.yml", "continuous integration"),
    (".circleci", "continuous integration"),
    ("jenkinsfile", "continuous integration"),
];
/// The most flags of one kind.
const MOST: usize = 50;

/// Flags of what the commits change, each with the path that it is about.
pub(crate) fn of_changes(
    repository: &Repository,
    repo: &git2::Repository,
    diff: &git2::Diff<'_>,
) -> Vec<(String, String)> {
    let hooks = repo.config().ok().as_ref().and_then(hooks_inside);
    let mut flags = Vec::new();
    for delta in diff.deltas() {
        if flags.len() >= MOST {
            let more = "there are more changes of this kind than are listed";
            flags.push((String::new(), more.to_owned()));
            break;
        }
        let new = delta.new_file();
        let gone = delta.status() == Delta::Deleted;
        let bytes = new
            .path_bytes()
            .or(delta.old_file().path_bytes())
            .unwrap_or_default();
        let path = Path::new(OsStr::from_bytes(bytes));
        let name = path.to_string_lossy().into_owned();
        let shown = sanitize_line(&name);
        let verb = if gone { "deletes" } else { "changes" };
        if let Some(what) = autoloaded(path) {
            flags.push((name.clone(), format!("{verb} {shown} ({what})")));
        } else if hooks.as_ref().is_some_and(|hooks| path.starts_with(hooks)) {
            flags.push((
                name.clone(),
                format!("{verb} {shown} (git hooks: core.hooksPath points there)"),
            ));
        }
        if delta.flags().is_binary()
            && is_text(repo, new.id())
            && is_text(repo, delta.old_file().id())
        {
            flags.push((name.clone(), format!(
                "{shown} is text, but an attribute of the repository keeps its changes from being shown"
            )));
        }
        if gone {
            continue;
        }
        let content = |most: usize| {
            repo.find_blob(new.id())
                .ok()
                .map(|blob| blob.content()[..blob.size().min(most)].to_owned())
        };
        if path.file_name() == Some(OsStr::new(".gitattributes")) {
            let text = content(1 << 20).unwrap_or_default();
            if names_a_driver(&text) {
                flags.push((
                    name.clone(),
                    format!("{verb} {shown} (names a filter, diff or merge driver)"),
                ));
            }
        }
        if new.mode() == FileMode::Link {
            let target = content(4096).unwrap_or_default();
            let target = Path::new(OsStr::from_bytes(&target)).to_owned();
            if leads_out(path, &target) {
                flags.push((
                    name.clone(),
                    format!(
                        "{shown} is a symbolic link out of the tree, to {}",
                        sanitize_line(&target.to_string_lossy())
                    ),
                ));
            }
        }
        if new.mode() == FileMode::Commit {
            let known = repository.knows_submodule_commit(path, new.id());
            flags.push((
                name.clone(),
                format!(
                    "{shown} is a link to commit {} of another repository{}",
                    new.id(),
                    if known { "" } else { ", which is not here" }
                ),
            ));
        }
    }
    flags
}

/// True for content that a diff shows as text where nothing says otherwise; also for no content.
fn is_text(repo: &git2::Repository, blob: git2::Oid) -> bool {
    /// As much as git looks at; larger files are not shown anyway.
    const LOOKED_AT: usize = 8000;
    const LARGE: usize = 8 << 20;
    blob.is_zero()
        || repo.find_blob(blob).is_ok_and(|blob| {
            let content = blob.content();
            content.len() <= LARGE && !content.iter().take(LOOKED_AT).any(|byte| *byte == 0)
        })
}

pub(crate) fn autoloaded(path: &Path) -> Option<&'static str> {
    let parts: Vec<String> = path
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_string_lossy().to_ascii_lowercase()),
            _ => None,
        })
        .collect();
    if parts.first().is_some_and(|part| part == ".github")
        && parts
            .get(1)
            .is_some_and(|part| part == "workflows" || part == "actions")
    {
        return Some("continuous integration");
    }
    // At any depth: editors and tools are opened on folders inside the tree, too.
    parts.iter().find_map(|part| {
        AUTOLOAD
            .iter()
            .find(|(name, _)| name == part)
            .map(|(_, what)| *what)
    })
}

fn names_a_driver(attributes: &[u8]) -> bool {
    String::from_utf8_lossy(attributes).lines().any(|line| {
        line.split_whitespace().skip(1).any(|word| {
            ["filter=", "diff=", "merge="]
                .iter()
                .any(|prefix| word.starts_with(prefix))
        })
    })
}

/// True when a link at `path` with this target points outside of the tree, by its text alone.
fn leads_out(path: &Path, target: &Path) -> bool {
    if target.is_absolute() {
        return true;
    }
    let mut depth = path.components().count().saturating_sub(1);
    for part in target.components() {
        match part {
            Component::ParentDir if depth == 0 => return true,
            Component::ParentDir => depth -= 1,
            Component::Normal(_) => depth += 1,
            _ => {}
        }
    }
    // Into the repository's own directory counts as out.
    target
        .components()
        .any(|part| part.as_os_str().eq_ignore_ascii_case(".git"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_load_themselves_are_known_at_any_depth_and_in_any_case() {
        for path in [
            ".vscode/tasks.json",
            "sub/.IDEA/workspace.xml",
            ".envrc",
            "a/b/.mcp.json",
            ".claude/settings.json",
            ".github/workflows/ci.yml",
            ".husky/pre-commit",
        ] {
            assert!(autoloaded(Path::new(path)).is_some(), "{path}");
        }
        for path in ["src/main.rs", ".github/README.md", "vscode/x", "docs/envrc"] {
            assert!(autoloaded(Path::new(path)).is_none(), "{path}");
        }
    }

    #[test]
    fn links_out_of_the_tree_are_told_from_links_inside() {
        let out = |path: &str, target: &str| leads_out(Path::new(path), Path::new(target));
        assert!(out("a", "/etc/passwd"));
        assert!(out("a/b", "../../x"));
        assert!(out("a", "b/../../x"));
        assert!(out("a", ".git/config"));
        assert!(!out("a/b", "../x"));
        assert!(!out("a", "b/c"));
    }
}
