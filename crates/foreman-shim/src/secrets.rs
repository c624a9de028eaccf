//! Secrets on their way from the engine to a shim: in memory only, through a descriptor that has no name.
//!
//! The spec that is on disk says which secrets there are; their values are on the shim's standard input,
//! which is anonymous memory. They are never arguments, never in a file, and never in the environment of
//! the shim.

use crate::redact::Redactor;
use foreman_policy::SecretUse;
use nix::sys::memfd::{MFdFlags, memfd_create};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Seek, Write};

/// Most secrets of one run.
pub const MOST: usize = 32;
/// Most bytes of all of them, as they are handed over.
const LARGEST: u64 = 4 << 20;

/// A secret with its value.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret {
    /// Which, and as what.
    pub use_as: SecretUse,
    /// Its value.
    pub value: String,
}

/// Never with the value in it.
impl std::fmt::Debug for Secret {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_tuple("Secret").field(&self.use_as).finish()
    }
}

/// What finds these secrets.
#[must_use]
pub fn redactor(secrets: &[Secret]) -> Redactor {
    let pairs = secrets.iter();
    Redactor::of(pairs.map(|secret| (secret.use_as.name.as_str(), secret.value.as_str())))
}

/// The secrets as a file without a name, to be a shim's standard input.
///
/// # Errors
/// When the kernel gives no memory for it.
pub(crate) fn sealed(secrets: &[Secret]) -> io::Result<File> {
    let mut file = File::from(memfd_create("secrets", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(&serde_json::to_vec(secrets)?)?;
    file.rewind()?;
    Ok(file)
}

/// Takes those that a spec names from a file.
///
/// # Errors
/// When they are not there, or are others: a run is not begun with less than it was to have.
pub(crate) fn take(named: &[SecretUse], from: impl Read) -> io::Result<Vec<Secret>> {
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let mut text = Vec::new();
    from.take(LARGEST).read_to_end(&mut text)?;
    // What serde says of a damaged text quotes nothing of it: only a place.
    let secrets: Vec<Secret> = serde_json::from_slice(&text).map_err(|error| {
        let what = format!("line {} column {}", error.line(), error.column());
        io::Error::new(io::ErrorKind::InvalidData, what)
    })?;
    if !secrets.iter().map(|secret| &secret.use_as).eq(named) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "they are not those that the spec names",
        ));
    }
    Ok(secrets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(name: &str) -> Secret {
        Secret {
            use_as: SecretUse {
                name: name.to_owned(),
                variable: name.to_owned(),
            },
            value: "correct horse".to_owned(),
        }
    }

    #[test]
    fn what_is_handed_over_is_what_the_spec_names_or_nothing() {
        let secrets = [secret("A"), secret("B")];
        let named: Vec<_> = secrets.iter().map(|secret| secret.use_as.clone()).collect();
        let taken = take(&named, sealed(&secrets).unwrap()).unwrap();
        assert_eq!(taken, secrets);
        assert!(take(&named[..1], sealed(&secrets).unwrap()).is_err());
        assert!(take(&named, io::empty()).is_err());
        assert_eq!(take(&[], io::empty()).unwrap(), []);
    }

    #[test]
    fn a_secret_is_never_shown_by_accident() {
        assert!(!format!("{:?}", secret("A")).contains("horse"));
        assert!(!format!("{:?}", redactor(&[secret("A")])).contains("horse"));
    }
}
