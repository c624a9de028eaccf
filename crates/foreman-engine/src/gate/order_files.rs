//! Changed files that would be order files: merged into a checkout with a watched folder, they are taken
//! in, and start programs with whatever rules they name.
//!
//! Every checkout of the repository is looked at, whatever it has checked out now. Not looked at: other
//! clones, and files outside of a watched folder that an order file there names.

use foreman_domain::sanitize_line;
use foreman_git::Touched;
use std::path::{Path, PathBuf};

/// Most checkouts that are looked at.
const MOST_CHECKOUTS: usize = 200;
/// Longest name of a checkout that is read.
const LONGEST: u64 = 8192;

/// What was changed in watched folders, in words. Blocking.
///
/// `root` is the checkout that is known, `common` the directory that all checkouts share; `watched` is
/// canonical.
pub(super) fn in_watched(
    touched: &[Touched],
    root: &Path,
    common: &Path,
    watched: &[PathBuf],
) -> Vec<String> {
    if watched.is_empty() {
        return Vec::new();
    }
    let checkouts = checkouts(root, common);
    touched
        .iter()
        .filter_map(|one| {
            let places = checkouts.iter().map(|checkout| checkout.join(&one.path));
            let mut what = None;
            for place in places.flat_map(|place| [resolved(&place), place]) {
                if watched.iter().any(|folder| leads_to(folder, &place)) {
                    what.get_or_insert("which leads to a folder that is watched");
                }
                if watched.iter().any(|folder| is_below(folder, &place)) {
                    what = Some("an order file of a folder that is watched");
                }
            }
            what.map(|what| format!("{}, {what}", sanitize_line(&one.path)))
        })
        .collect()
}

fn is_below(folder: &Path, place: &Path) -> bool {
    place != folder && place.starts_with(folder)
}

/// A file, link or submodule where the folder itself or one above it is: it can put another folder there.
fn leads_to(folder: &Path, place: &Path) -> bool {
    folder.starts_with(place)
}

/// Where a path leads whose last parts need not be there.
fn resolved(place: &Path) -> PathBuf {
    for up in place.ancestors() {
        if let (Ok(there), Ok(rest)) = (up.canonicalize(), place.strip_prefix(up)) {
            return if rest.as_os_str().is_empty() {
                there
            } else {
                there.join(rest)
            };
        }
    }
    place.to_owned()
}

/// All checkouts of a repository, canonical; what cannot be read is none.
fn checkouts(root: &Path, common: &Path) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    if common.ends_with(".git") {
        found.extend(common.parent().map(Path::to_owned));
    }
    let linked = std::fs::read_dir(common.join("worktrees"));
    for entry in linked.into_iter().flatten().flatten().take(MOST_CHECKOUTS) {
        let admin = entry.path();
        let Some(named) = short_text(&admin.join("gitdir")) else {
            continue;
        };
        // Relative ones are so to the directory that names them.
        let git = admin.join(named.trim_end_matches('\n'));
        found.extend(git.parent().map(Path::to_owned));
    }
    let mut found: Vec<PathBuf> = found
        .iter()
        .filter_map(|one| one.canonicalize().ok())
        .collect();
    found.sort();
    found.dedup();
    found
}

fn short_text(path: &Path) -> Option<String> {
    let found = std::fs::symlink_metadata(path).ok()?;
    if !found.is_file() || found.len() > LONGEST {
        return None;
    }
    std::fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touched(path: &str) -> Touched {
        Touched {
            path: path.into(),
            is_utf8: true,
            before: None,
            after: Some(0o100_644),
        }
    }

    #[test]
    fn a_change_below_a_watched_folder_of_any_checkout_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        for name in [
            "repo/.git/worktrees/other",
            "repo/orders",
            "other/deep/orders",
            "plain",
        ] {
            std::fs::create_dir_all(dir.join(name)).unwrap();
        }
        let named = format!("{}\n", dir.join("other/.git").display());
        std::fs::write(dir.join("repo/.git/worktrees/other/gitdir"), named).unwrap();
        std::os::unix::fs::symlink(dir.join("repo/orders"), dir.join("repo/link")).unwrap();
        let watched = [dir.join("repo/orders"), dir.join("other/deep/orders")];
        let found = |path: &str| {
            let (root, common) = (dir.join("repo"), dir.join("repo/.git"));
            in_watched(&[touched(path)], &root, &common, &watched)
        };
        for path in [
            "orders/x.md",
            "orders/new/policy.toml",
            "deep/orders/x.toml",
            "link/x.md",
        ] {
            let words = format!("{path}, an order file of a folder that is watched");
            assert_eq!(found(path), [words]);
        }
        // A link in place of the folder, or of one above it.
        for path in ["orders", "deep"] {
            assert!(found(path)[0].contains("leads to"), "{path}");
        }
        for path in ["orders.md", "src/orders/x.md", "deeper/orders/x.md"] {
            assert!(found(path).is_empty(), "{path}");
        }
    }
}
