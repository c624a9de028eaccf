//! Turns what the parts answer into what a command answers: a closed code and a sentence.

use crate::layout::is_full;
use crate::words::clock;
use foreman_domain::{Amendment, Block, BlockState, Code, Decider, Failure};
use foreman_policy::PolicyError;
use foreman_runner::RunnerError;
use foreman_shim::client::ClientError;
use foreman_shim::journal::JournalError;
use foreman_shim::launch::StartError;
use foreman_shim::wire::Refusal;
use foreman_store::StoreError;

/// Says what a failure of a part means for whoever asked.
pub(crate) trait OrFail<T> {
    /// The value, or the refusal.
    fn or_fail(self) -> Result<T, Failure>;
}

impl<T> OrFail<T> for Result<T, StoreError> {
    fn or_fail(self) -> Result<T, Failure> {
        self.map_err(store)
    }
}

impl<T> OrFail<T> for Result<T, PolicyError> {
    fn or_fail(self) -> Result<T, Failure> {
        self.map_err(|error| policy(error.code(), &error))
    }
}

impl<T> OrFail<T> for Result<T, JournalError> {
    fn or_fail(self) -> Result<T, Failure> {
        self.map_err(|error| {
            let code = if error.is_disk_full() {
                Code::DiskFull
            } else {
                Code::Environment
            };
            Failure::new(code, with_causes(&error))
        })
    }
}

impl<T> OrFail<T> for Result<T, StartError> {
    fn or_fail(self) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(Code::Environment, with_causes(&error)))
    }
}

impl<T> OrFail<T> for Result<T, RunnerError> {
    fn or_fail(self) -> Result<T, Failure> {
        self.map_err(|error| {
            let code = match &error {
                RunnerError::File { source, .. } if is_full(source) => Code::DiskFull,
                _ => Code::Environment,
            };
            // A supervisor's own words, without ours around them.
            match error {
                RunnerError::Start(error) => Failure::new(code, with_causes(&error)),
                RunnerError::Client(error) => Failure::new(code, with_causes(&error)),
                error => Failure::new(code, with_causes(&error)),
            }
        })
    }
}

impl<T> OrFail<T> for Result<T, ClientError> {
    fn or_fail(self) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(Code::Environment, with_causes(&error)))
    }
}

/// A refused policy text.
pub(crate) fn policy(code: Code, error: &PolicyError) -> Failure {
    Failure {
        code,
        message: error.to_string(),
        hint: error.hint.clone(),
        about: None,
    }
}

/// Our bug, with what was going on.
pub(crate) fn internal(what: impl std::fmt::Display) -> Failure {
    Failure::new(Code::Internal, what.to_string())
}

/// Something the machine refused.
pub(crate) fn io(what: impl std::fmt::Display, error: &std::io::Error) -> Failure {
    let code = if is_full(error) {
        Code::DiskFull
    } else {
        Code::Environment
    };
    Failure::new(code, format!("{what}: {error}"))
}

/// A blocking task that did not come back.
pub(crate) fn join(error: tokio::task::JoinError) -> Failure {
    internal(format!("a task of the engine ended early: {error}"))
}

fn store(error: StoreError) -> Failure {
    let message = with_causes(&error);
    match error {
        StoreError::NewerLayout { .. } => Failure::new(Code::Busy, message)
            .hint("Use the newer version, or another FOREMAN_DATA_DIR."),
        StoreError::StaleEpoch { .. } => {
            Failure::new(Code::Busy, message).hint("Ask again: the other engine answers now.")
        }
        StoreError::StaleClaim { .. } => {
            Failure::new(Code::Busy, message).hint("Ask again in a moment.")
        }
        StoreError::NoRun(_) => Failure::new(Code::NotFound, message).hint("See `foreman runs`."),
        StoreError::NoOrder(_) => {
            Failure::new(Code::NotFound, message).hint("See `foreman orders --all`.")
        }
        StoreError::OrderExists(_) => Failure::new(Code::Conflict, message)
            .hint("Choose another id, or change it: `foreman order edit`."),
        StoreError::OrderMoved { .. } | StoreError::OrderHasRun { .. } => {
            Failure::new(Code::Conflict, message).hint("See `foreman order show`.")
        }
        StoreError::NoBlock(_) => {
            Failure::new(Code::NotFound, message).hint("See `foreman blocks --all`.")
        }
        StoreError::NoAmendment(_) => {
            Failure::new(Code::NotFound, message).hint("See `foreman policy show`.")
        }
        StoreError::RevisionMoved { .. } => {
            Failure::new(Code::Stale, message).hint("Look at the block again and decide again.")
        }
        StoreError::AlreadyDecided(block) => already_decided(&block, None),
        StoreError::NotActive(amendment) => Failure::new(
            Code::AlreadyDecided,
            match amendment.state {
                foreman_domain::AmendmentState::Revoked => {
                    format!("{} was taken back already", amendment.id)
                }
                foreman_domain::AmendmentState::Lapsed => {
                    format!(
                        "{} has lapsed already: it was used up, or its run has ended",
                        amendment.id
                    )
                }
                foreman_domain::AmendmentState::Active => message,
            },
        ),
        StoreError::DiskFull { .. } => Failure::new(Code::DiskFull, message)
            .hint("Make room and ask again; nothing was changed."),
        StoreError::Damaged { .. } => Failure::new(Code::Environment, message).hint(
            "Put the file and those beside it that begin with its name into another folder and keep \
             them: a new one is made, and branches, worktrees and snapshots stay as they are. Check \
             the disk first.",
        ),
        StoreError::ReadOnly { .. } => Failure::new(Code::Environment, message).hint(
            "Make it writable for this user, or set FOREMAN_DATA_DIR to a directory that is.",
        ),
        StoreError::Open { .. } | StoreError::Migrate { .. } | StoreError::Statement { .. } => {
            Failure::new(Code::Environment, message)
        }
        StoreError::Hole { .. }
        | StoreError::ForeignEvent { .. }
        | StoreError::Unreadable { .. }
        | StoreError::Encode { .. } => Failure::new(Code::Internal, message),
    }
}

/// A block that somebody decided before; `decided` says who and when where that is known.
pub(crate) fn already_decided(block: &Block, decided: Option<&str>) -> Failure {
    let message = match decided {
        Some(decided) => format!("{} was already {decided}", block.id),
        None => format!("{} was already {}", block.id, decided_in_words(block, None)),
    };
    let failure = Failure::new(Code::AlreadyDecided, message);
    match &block.state {
        BlockState::Amended { .. }
        | BlockState::Denied {
            by: Decider::Operator,
            ..
        } => failure.hint("`foreman policy revoke` takes a decision back."),
        BlockState::Denied { .. } | BlockState::Open | BlockState::Expired | BlockState::Gone => {
            failure
        }
    }
}

/// Who decided about a block, in words: "amended by you at 14:02".
pub(crate) fn decided_in_words(block: &Block, decision: Option<&Amendment>) -> String {
    let when = decision
        .map(|decision| {
            let surface = decision
                .surface
                .map(|surface| format!(" {}", surface.words()));
            format!(
                "{} at {}",
                surface.unwrap_or_default(),
                clock(decision.decided_at)
            )
        })
        .unwrap_or_default();
    match &block.state {
        BlockState::Amended { .. } => format!("amended by you{when}"),
        BlockState::Denied {
            by: Decider::Operator,
            ..
        } => format!("denied by you{when}"),
        BlockState::Denied {
            by: Decider::Unattended,
            ..
        } => {
            format!(
                "refused at {} because nobody attended",
                clock(block.last_at)
            )
        }
        BlockState::Denied {
            by: Decider::Floor, ..
        } => "refused by the floor, which no rule can open".to_owned(),
        BlockState::Denied {
            by: Decider::Limit, ..
        } => format!("given up at {} without an answer", clock(block.last_at)),
        BlockState::Denied {
            by: Decider::Profile,
            ..
        } => "refused by the profile of its agent, which does without it".to_owned(),
        BlockState::Expired => format!("given up at {} without an answer", clock(block.last_at)),
        BlockState::Open | BlockState::Gone => "left open".to_owned(),
    }
}

/// What the supervisor of a run refused, where that says nothing particular to what was asked.
pub(crate) fn refused_by_its_supervisor(reason: Refusal, message: String) -> Failure {
    match reason {
        Refusal::Busy => Failure::new(Code::Busy, message),
        Refusal::Malformed => Failure::new(Code::BadInput, message),
        _ => Failure::new(
            Code::Environment,
            with_causes(&ClientError::Refused { reason, message }),
        ),
    }
}

/// An error with the causes that its own message leaves out.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        cause = error.source();
    }
    text
}
