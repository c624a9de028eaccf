//! Which programs run in the cage, as the feed tells of them. What they say of themselves is their claim.

use super::retell::Retold;
use crate::shim::blocks::bounded_argv;
use foreman_cage::Exit;
use foreman_cage::files::{Executed, Exited};
use foreman_domain::{PathText, ProcessRef};
use std::collections::HashMap;

/// Bytes of an argument vector that the feed keeps.
const ARGV_BYTES: usize = 512;
/// Programs that are remembered until they end. What ends beyond that has no name.
const RUNNING: usize = 8_192;

/// The programs that run.
#[derive(Debug, Default)]
pub(super) struct Programs(HashMap<u32, PathText>);

impl Programs {
    pub(super) fn executed(&mut self, program: Executed) -> Retold {
        let path = PathText::of(&program.path);
        if self.0.len() < RUNNING || self.0.contains_key(&program.pid) {
            self.0.insert(program.pid, path.clone());
        }
        Retold::Executed {
            program: path,
            cwd: PathText::of(&program.cwd),
            parent: Some(program.parent).filter(|parent| *parent != 0),
            process: ProcessRef {
                pid: program.pid,
                argv: bounded_argv(program.argv, ARGV_BYTES),
            },
        }
    }

    /// Whether it was told of and has not ended.
    pub(super) fn knows(&self, pid: u32) -> bool {
        self.0.contains_key(&pid)
    }

    pub(super) fn exited(&mut self, ended: Exited) -> Retold {
        let (code, signal) = match ended.exit {
            Some(Exit::Code(code)) => (Some(code.into()), None),
            Some(Exit::Signal(signal)) => (None, Some(signal.into())),
            Some(Exit::CageGone) | None => (None, None),
        };
        Retold::Exited {
            program: self.0.remove(&ended.pid),
            pid: ended.pid,
            code,
            signal,
            millis: ended.millis,
        }
    }
}
