//! Why a cage could not be built or a program not started, always with the step, the kernel's
//! answer, the wall that is missing and what to do about it.

use foreman_domain::Wall;
use serde::{Deserialize, Serialize};
use std::io;

/// A step of building a cage. Its text follows "cannot".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// The specification itself cannot be built.
    CheckSpec,
    /// The calling process has more than one thread.
    CountThreads,
    /// Sockets, pipes and processes of the launcher.
    Prepare,
    /// Root only: take the unprivileged identity of the payload.
    DropRoot,
    /// Make the cage's user namespace.
    UserNamespace,
    /// Write its identity map.
    MapIds,
    /// Make the other namespaces.
    Namespaces,
    /// Network, firewall rules, sockets of the gateway.
    Plumb,
    /// Open a path of the host that is to be seen inside.
    OpenSource,
    /// Make the new root and its private directories.
    NewRoot,
    /// Put the system's directories in, read-only.
    SystemDirs,
    /// Make the private `/etc`.
    EtcView,
    /// Make the private `/dev`.
    Devices,
    /// Mount a fresh `/proc`.
    Proc,
    /// Put a path of the host in.
    PlaceBind,
    /// Make `/run/foreman`.
    WhySocket,
    /// Leave the old root.
    Pivot,
    /// Make process 1 the harmless server of the cage.
    InitProcess,
    /// The second file wall.
    Landlock,
    /// The system call filter.
    Seccomp,
    /// The child did not answer in time.
    Answer,
}

impl Step {
    /// The step in words that follow "cannot".
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::CheckSpec => "build this cage",
            Self::CountThreads => "fork from a process with several threads",
            Self::Prepare => "prepare the cage's first processes",
            Self::DropRoot => "give up root for the cage",
            Self::UserNamespace => "make a user namespace",
            Self::MapIds => "map the user into the cage's namespace",
            Self::Namespaces => "make the cage's namespaces",
            Self::Plumb => "set up the cage's network",
            Self::OpenSource => "open a path for the cage",
            Self::NewRoot => "make the cage's root",
            Self::SystemDirs => "show the system's directories in the cage",
            Self::EtcView => "make the cage's /etc",
            Self::Devices => "make the cage's /dev",
            Self::Proc => "mount the cage's /proc",
            Self::PlaceBind => "put a path into the cage",
            Self::WhySocket => "make /run/foreman in the cage",
            Self::Pivot => "change to the cage's root",
            Self::InitProcess => "confine the cage's first process",
            Self::Landlock => "set up Landlock",
            Self::Seccomp => "set up the system call filter",
            Self::Answer => "wait for the cage",
        }
    }

    /// The wall that is missing when the step fails; `None` when it says nothing about the machine.
    #[must_use]
    pub fn wall(self) -> Option<Wall> {
        match self {
            Self::CheckSpec
            | Self::CountThreads
            | Self::Prepare
            | Self::OpenSource
            | Self::PlaceBind
            | Self::WhySocket
            | Self::Answer => None,
            Self::DropRoot | Self::UserNamespace | Self::MapIds => Some(Wall::UserNamespace),
            Self::Namespaces
            | Self::NewRoot
            | Self::SystemDirs
            | Self::EtcView
            | Self::Devices
            | Self::Proc
            | Self::Pivot
            | Self::InitProcess => Some(Wall::Mounts),
            Self::Plumb => Some(Wall::Network),
            Self::Landlock => Some(Wall::Landlock),
            Self::Seccomp => Some(Wall::Seccomp),
        }
    }
}

/// The cage could not be built; nothing of it is left.
#[derive(Debug, thiserror::Error)]
#[error("cannot {}{}", .step.words(), subject(.detail))]
pub struct LaunchError {
    /// The step that failed.
    pub step: Step,
    /// The wall that is missing, when the machine is the reason.
    pub wall: Option<Wall>,
    /// What exactly failed: a path, a call, a fact. May be empty.
    pub detail: String,
    /// What to do, as a sentence, where we know.
    pub remedy: Option<String>,
    /// The kernel's answer.
    pub source: io::Error,
}

impl LaunchError {
    /// The kernel's answer as a number, where it came from the kernel.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        self.source.raw_os_error()
    }
}

fn subject(detail: &str) -> String {
    if detail.is_empty() {
        String::new()
    } else {
        format!(" ({detail})")
    }
}

/// A program could not be started in a cage.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The program was not found in the cage or could not be executed: a step's `NotStarted`.
    #[error("{why}")]
    NotStarted {
        /// Why, as a sentence.
        why: String,
    },
    /// A wall around the program could not be put up; the program did not run.
    #[error("cannot {}{}", .step.words(), subject(.detail))]
    Unconfined {
        /// The step that failed.
        step: Step,
        /// The wall that is missing.
        wall: Option<Wall>,
        /// What exactly failed. May be empty.
        detail: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The cage itself is gone.
    #[error("the cage has ended")]
    CageGone,
    /// Talking to the cage's process 1 failed.
    #[error("cannot talk to the cage")]
    Talk(#[source] io::Error),
}
