//! Which programs run in a cage: what is executed, with what, and how it ended.
//!
//! An execution is told before it happens, while its caller waits: by what the caller claims. An end is
//! heard of by a descriptor that names the process. How it ended is known from the moment it was waited
//! for, on kernels that say so to others than the parent; on older ones only while nobody has waited.

use super::{Executed, Exited, FileJudge, caller};
use crate::Exit;
use crate::kernel::{self, Events, Notification};
use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Processes that are watched at one time; the ends of more are not told.
const MOST_WATCHED: usize = 1024;

/// Tells a judge of programs.
#[derive(Debug)]
pub(crate) struct Feed<J> {
    judge: Arc<J>,
    depth: usize,
    watched: HashMap<u64, Watched>,
    /// Where a process, as this process sees it, is watched.
    tokens: HashMap<i32, u64>,
}

#[derive(Debug)]
struct Watched {
    process: OwnedFd,
    outside: i32,
    inside: u32,
    since: Instant,
}

impl<J: FileJudge> Feed<J> {
    /// For a cage that is `depth` process namespaces deep.
    pub fn new(judge: Arc<J>, depth: usize) -> Self {
        Self {
            judge,
            depth,
            watched: HashMap::new(),
            tokens: HashMap::new(),
        }
    }

    /// A process is about to execute a program.
    pub fn executes(
        &mut self,
        waiting: &Notification,
        path: PathBuf,
        arguments: u64,
        token: impl FnOnce() -> u64,
        events: &Events,
    ) {
        let thread = waiting.thread();
        let Some(who) = caller::Who::of(thread, self.depth) else {
            return;
        };
        let program = Executed {
            pid: who.inside,
            parent: self.inside_of(who.parent),
            path,
            argv: caller::arguments(thread, arguments),
            cwd: caller::standing(thread, libc::AT_FDCWD).unwrap_or_default(),
        };
        let now = Instant::now();
        let known = self.tokens.get(&who.process);
        match known.and_then(|token| self.watched.get_mut(token)) {
            Some(watched) => watched.since = now,
            None => self.watch(who, now, token(), events),
        }
        self.judge.executed(program);
    }

    /// A process's number in the cage; 0 when it has none.
    fn inside_of(&self, outside: i32) -> u32 {
        let known = self.tokens.get(&outside);
        match known.and_then(|token| self.watched.get(token)) {
            Some(watched) => watched.inside,
            None => caller::Who::of(outside, self.depth).map_or(0, |who| who.inside),
        }
    }

    fn watch(&mut self, who: caller::Who, since: Instant, token: u64, events: &Events) {
        if self.watched.len() >= MOST_WATCHED {
            return;
        }
        let named = kernel::process_fd(who.process)
            .and_then(|process| events.add(process.as_fd(), token).map(|()| process));
        match named {
            Ok(process) => {
                let watched = Watched {
                    process,
                    outside: who.process,
                    inside: who.inside,
                    since,
                };
                self.watched.insert(token, watched);
                self.tokens.insert(who.process, token);
            }
            Err(error) => tracing::debug!(%error, "the end of a program will not be told"),
        }
    }

    /// Something happened to a process; `reaped` when it was waited for.
    pub fn happened(&mut self, token: u64, reaped: bool, events: &Events) {
        let Some(watched) = self.watched.get(&token) else {
            return;
        };
        let code = if reaped {
            kernel::end_of_process(watched.process.as_fd())
        } else {
            code_of_zombie(watched.outside)
        };
        let code = code.or_else(|| kernel::end_of_process(watched.process.as_fd()));
        let Some(watched) = self.watched.remove(&token) else {
            return;
        };
        self.tokens.remove(&watched.outside);
        if let Err(error) = events.remove(watched.process.as_fd()) {
            tracing::debug!(%error, "a process cannot be taken off");
        }
        self.judge.exited(Exited {
            pid: watched.inside,
            exit: code.map(exit_of),
            millis: u64::try_from(watched.since.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
    }
}

/// How a process ended that nobody has waited for yet.
fn code_of_zombie(process: i32) -> Option<i32> {
    const CODE: usize = 49;
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name may hold anything, a parenthesis too.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    let code = fields.nth(CODE - 1)?.parse().ok()?;
    matches!(state, "Z" | "X").then_some(code)
}

/// The kernel's word for an end, as for `waitpid`.
fn exit_of(status: i32) -> Exit {
    if libc::WIFSIGNALED(status) {
        Exit::Signal(libc::WTERMSIG(status) as u8)
    } else {
        Exit::Code(libc::WEXITSTATUS(status) as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_zombie_tells_its_end_and_a_reaped_process_its_descriptor() {
        let mut child = Command::new("sh")
            .args(["-c", "exit 7"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pid = child.id().cast_signed();
        let process = kernel::process_fd(pid).unwrap();
        let events = Events::new().unwrap();
        events.add(process.as_fd(), 1).unwrap();
        assert!(events.wait().unwrap()[0].readable);
        assert_eq!(code_of_zombie(pid).map(exit_of), Some(Exit::Code(7)));
        assert_eq!(child.wait().unwrap().code(), Some(7));
        assert_eq!(code_of_zombie(pid), None);
        // Kernels before 6.15 do not say.
        let told = kernel::end_of_process(process.as_fd()).map(exit_of);
        assert!(matches!(told, None | Some(Exit::Code(7))), "{told:?}");
    }

    #[test]
    fn signals_and_codes_are_told_apart() {
        assert_eq!(exit_of(9), Exit::Signal(9));
        assert_eq!(exit_of(0x0300), Exit::Code(3));
    }
}
