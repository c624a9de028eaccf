//! What a case says that failed.

/// Something was not as an engine relies on.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Broken(String);

impl Broken {
    /// With these words.
    #[must_use]
    pub fn new(words: impl Into<String>) -> Self {
        Self(words.into())
    }
}

/// Every other error, with the causes that its own message leaves out.
macro_rules! from {
    ($($error:ty),* $(,)?) => {
        $(impl From<$error> for Broken {
            fn from(error: $error) -> Self {
                let mut words = error.to_string();
                let mut cause = std::error::Error::source(&error);
                while let Some(error) = cause {
                    words.push_str(&format!(": {error}"));
                    cause = error.source();
                }
                Self(words)
            }
        })*
    };
}

from![
    crate::port::RunnerError,
    foreman_shim::client::ClientError,
    foreman_shim::journal::JournalError,
    serde_json::Error,
    std::io::Error,
];

/// Nothing when it is so; what was seen when it is not.
pub(super) fn ensure(is_so: bool, seen: impl FnOnce() -> String) -> Result<(), Broken> {
    if is_so { Ok(()) } else { Err(Broken(seen())) }
}
