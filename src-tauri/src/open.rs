//! Opening a worktree in the operator's own programs: never through a shell, with the path as one
//! argument, and not before they have seen what the agent planted there.
//!
//! The program runs outside of any cage, as the operator, with the operator's own environment: it is
//! the same as if they had started it themselves. That is why files which it would load by itself are
//! shown first.

pub mod programs;

use crate::app::{OpenWith, OpenWorktree, Opened};
use crate::shell::Shell;
use foreman_domain::{Code, Failure, RunState, sanitize_line};
use foreman_engine::api::{Commands, DiffRequest, Remote, RunRef, RunView};
use programs::{Command, Surroundings};
use std::path::Path;
use std::process::Stdio;

/// The most flags that are listed.
const MOST_FLAGS: usize = 100;

impl Shell {
    /// Opens a run's worktree, or says why that needs a second thought.
    ///
    /// # Errors
    /// When there is no such run or worktree, or no program.
    pub async fn open_worktree(&self, request: OpenWorktree) -> Result<Opened, Failure> {
        let engine = Remote(self.engines.current().await?);
        let name = RunRef {
            run: request.run.to_string(),
        };
        let run = engine.run_show(name.clone()).await?;
        if !run.worktree.is_dir() {
            let text = format!(
                "there is no worktree of this run at {}",
                run.worktree.display()
            );
            return Err(Failure::new(Code::NotFound, text)
                .hint("It is removed when a run is merged or discarded; restore the run first."));
        }
        let warning = warning(&engine, &run, name).await;
        if let Some((flags, words)) = warning
            && !request.confirmed
        {
            return Ok(Opened {
                opened: false,
                flags,
                words,
            });
        }
        let settings = self.settings.read_or_default();
        let around = Surroundings::of_this_process();
        let command = programs::choose(request.with, &settings, &around, &run.worktree)?;
        start(&command, &run.worktree)?;
        let program = sanitize_line(&command.program.to_string_lossy());
        let words = match request.with {
            OpenWith::Editor => format!("Opened in {program}."),
            OpenWith::Terminal => format!("Opened a terminal with {program}."),
            OpenWith::Files => format!("Opened with {program}."),
        };
        Ok(Opened {
            opened: true,
            flags: vec![],
            words,
        })
    }
}

/// What is planted, and what to say of it; `None` when nothing speaks against opening it.
async fn warning(
    engine: &impl Commands,
    run: &RunView,
    name: RunRef,
) -> Option<(Vec<String>, String)> {
    let is_live = matches!(
        run.state,
        RunState::Provisioning | RunState::Running { .. } | RunState::Stopping { .. }
    );
    if is_live {
        let words = "The agent is still at work in there: what it writes may be loaded by the \
                     program that you open it with, outside of the cage."
            .to_owned();
        return Some((vec![], words));
    }
    let request = DiffRequest::new(name.run).without_patch();
    match engine.run_diff(request).await {
        Ok(diff) => {
            let steering = diff.gate.map(|gate| gate.steering).unwrap_or_default();
            let mut flags = diff.flags;
            flags.extend(steering);
            flags.extend(diff.uncommitted);
            flags.dedup();
            flags.truncate(MOST_FLAGS);
            if flags.is_empty() {
                return None;
            }
            let words =
                "There are files that an editor, a shell or a tool may load by itself, outside of \
                         the cage. Look at them first."
                    .to_owned();
            Some((flags, words))
        }
        Err(failure) => {
            let words = format!(
                "It could not be found out what the agent planted there: {}.",
                sanitize_line(&failure.message)
            );
            Some((vec![], words))
        }
    }
}

/// Starts it in a process group of its own; it goes on when this app ends.
fn start(command: &Command, folder: &Path) -> Result<(), Failure> {
    use std::os::unix::process::CommandExt;
    let mut child = std::process::Command::new(&command.program)
        .args(&command.arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|error| {
            let text = format!("{} cannot be started: {error}", command.program.display());
            Failure::new(Code::Environment, text)
        })?;
    // Keeps it from staying a zombie for as long as this app lives.
    std::thread::spawn(move || child.wait());
    Ok(())
}
