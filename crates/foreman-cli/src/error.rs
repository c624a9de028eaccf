//! What ends a command early.

use foreman_domain::{Code, ExitCode, Failure};
use std::io;

/// Why a command did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// Refused, by the engine or by this program, with a sentence for the operator.
    #[error(transparent)]
    Refused(#[from] Failure),
    /// The answer could not be written.
    #[error("cannot write the answer")]
    Output(#[from] io::Error),
    /// A program that ran on the operator's behalf ended with a code of its own, which is passed on.
    #[error("the program ended with code {0}")]
    PassedOn(u8),
}

impl CliError {
    /// The process exit code that goes with it. A reader that went away (`foreman events | head`)
    /// is not a failure.
    #[must_use]
    pub fn exit(&self) -> ExitCode {
        match self {
            Self::Refused(failure) => failure.code.exit(),
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::Ok,
            Self::Output(_) => ExitCode::Environment,
            Self::PassedOn(_) => ExitCode::AgentFailed,
        }
    }

    /// What this process ends with: [`CliError::exit`], or the code that is passed on.
    #[must_use]
    pub fn number(&self) -> u8 {
        match self {
            Self::PassedOn(code) => *code,
            other => other.exit() as u8,
        }
    }

    /// The refusal to show; `None` when there is nobody left to read it.
    #[must_use]
    pub fn to_failure(&self) -> Option<Failure> {
        match self {
            Self::Refused(failure) => Some(failure.clone()),
            // What it had to say it has said itself.
            Self::PassedOn(_) => None,
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => None,
            Self::Output(error) => Some(Failure::new(
                Code::Environment,
                format!("the answer could not be written: {error}"),
            )),
        }
    }
}

/// Names the operation that the machine refused.
pub(crate) fn environment(what: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Code::Environment, format!("{what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_the_exit_code_of_its_class() {
        let exit = |code| CliError::from(Failure::new(code, "x")).exit() as u8;
        assert_eq!(exit(Code::Usage), 2);
        assert_eq!(exit(Code::BadInput), 3);
        assert_eq!(exit(Code::NotFound), 3);
        assert_eq!(exit(Code::Stale), 4);
        assert_eq!(exit(Code::WallMissing), 5);
        assert_eq!(exit(Code::DiskFull), 9);
        assert_eq!(exit(Code::Internal), 70);
    }

    #[test]
    fn a_reader_that_went_away_is_not_a_failure() {
        let error = CliError::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!(error.exit(), ExitCode::Ok);
        assert!(error.to_failure().is_none());
    }
}
