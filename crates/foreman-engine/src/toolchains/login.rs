//! The search path of the operator's login shell: where an engine was started from a desktop, its own
//! lacks what start-up files add.

use crate::programs::asking::said_by;
use nix::unistd::{User, geteuid};
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::OnceCell;

/// Longest wait for the shell: start-up files can do anything.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most bytes that are read of it.
const LONGEST: u64 = 64 << 10;
/// Stands around the path, whatever else start-up files print.
const MARK: &str = "\u{1}foreman-path\u{1}";

/// Asked once, when it is needed first.
#[derive(Debug, Default)]
pub(crate) struct LoginPath(OnceCell<Option<Vec<PathBuf>>>);

impl LoginPath {
    /// Its folders; `None` where there is no such shell, or it does not answer.
    pub async fn get(&self) -> Option<Vec<PathBuf>> {
        self.0.get_or_init(ask).await.clone()
    }
}

async fn ask() -> Option<Vec<PathBuf>> {
    let account = User::from_uid(geteuid()).ok().flatten()?;
    let name = account.shell.file_name()?.to_str()?;
    // Others have another idea of how to print a variable.
    if !["sh", "bash", "zsh", "dash", "ksh"].contains(&name) {
        return None;
    }
    let mut asking = tokio::process::Command::new(&account.shell);
    asking
        .args(["-l", "-c", &format!("printf '{MARK}%s{MARK}' \"$PATH\"")])
        .current_dir(&account.dir);
    let said = said_by(&mut asking, LONGEST, PATIENCE).await?;
    path_in(&String::from_utf8_lossy(&said))
}

fn path_in(said: &str) -> Option<Vec<PathBuf>> {
    let (_, rest) = said.split_once(MARK)?;
    let (path, _) = rest.split_once(MARK)?;
    Some(std::env::split_paths(path).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_found_among_what_start_up_files_print() {
        let said = format!("hello\n{MARK}/a/bin:/b{MARK}bye");
        assert_eq!(path_in(&said).unwrap(), ["/a/bin", "/b"].map(PathBuf::from));
        assert_eq!(path_in("/a/bin:/b"), None);
    }
}
