//! Secrets on their way from the engine to a shim: in memory only, through a descriptor that has no name.
//!
//! The spec that is on disk says which secrets there are; their values are on the shim's standard input,
//! which is anonymous memory. They are never arguments, never in a file, and never in the environment of
//! the shim. They come in two parts: what steps get, and then the key that none gets ([`crate::forward`]), which is
//! read only when everything of the cage is forked, so that no process of it has it in its memory.

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

/// Secrets as a file without a name, to be a shim's standard input: each part by itself.
///
/// # Errors
/// When the kernel gives no memory for it.
pub(crate) fn sealed(parts: [&[Secret]; 2]) -> io::Result<File> {
    let mut file = File::from(memfd_create("secrets", MFdFlags::MFD_CLOEXEC)?);
    for part in parts {
        let text = serde_json::to_vec(part)?;
        file.write_all(&(text.len() as u64).to_le_bytes())?;
        file.write_all(&text)?;
    }
    file.rewind()?;
    Ok(file)
}

/// Takes the next part from a file, and not a byte more: those that a spec names.
///
/// # Errors
/// When they are not there, or are others: a run is not begun with less than it was to have.
pub(crate) fn take(named: &[SecretUse], from: &mut impl Read) -> io::Result<Vec<Secret>> {
    let mut length = [0; 8];
    from.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length).min(LARGEST);
    let mut text = Vec::new();
    from.take(length).read_to_end(&mut text)?;
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
        let mut file = sealed([&secrets, &secrets[..1]]).unwrap();
        assert_eq!(take(&named, &mut file).unwrap(), secrets);
        assert_eq!(take(&named[..1], &mut file).unwrap(), &secrets[..1]);
        assert!(take(&[], &mut file).is_err(), "there is no third part");
        assert!(take(&named[..1], &mut sealed([&secrets, &[]]).unwrap()).is_err());
        assert!(take(&named, &mut io::empty()).is_err());
        assert_eq!(take(&[], &mut sealed([&[], &[]]).unwrap()).unwrap(), []);
    }

    #[test]
    fn a_secret_is_never_shown_by_accident() {
        assert!(!format!("{:?}", secret("A")).contains("horse"));
        assert!(!format!("{:?}", redactor(&[secret("A")])).contains("horse"));
    }
}
