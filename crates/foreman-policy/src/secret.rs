//! Secrets as rules see them: a name, and the variable in which a run gets its value. No value is ever here.

use crate::error::{Fault, quoted};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

const LONGEST: usize = 64;

/// A secret that a run is handed: which, and as what.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    specta::Type,
)]
pub struct SecretUse {
    /// Its name in the store.
    pub name: String,
    /// The variable that holds its value in the cage.
    pub variable: String,
}

/// `NAME`, or `NAME=VARIABLE` where they differ.
impl fmt::Display for SecretUse {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name == self.variable {
            true => out.write_str(&self.name),
            false => write!(out, "{}={}", self.name, self.variable),
        }
    }
}

/// Reads `NAME` or `NAME=VARIABLE`.
///
/// # Errors
/// A sentence for what can be neither. What was given is not repeated: it may be a value.
pub fn parse_secret_use(text: &str) -> Result<SecretUse, crate::PolicyError> {
    secret_use(text).map_err(|fault| fault.in_argument("--secret"))
}

pub(crate) fn secret_use(text: &str) -> Result<SecretUse, Fault> {
    let (name, variable) = text.split_once('=').unwrap_or((text, text));
    if !is_secret_name(name) || !is_secret_name(variable) {
        return Err(Fault::new(
            "a secret is named as NAME, or as NAME=VARIABLE; this is neither",
        )
        .hint(
            "Names have letters, digits and underscores, do not begin with a digit, and are at most 64 \
             long. The value is given to `foreman secret set`, never here.",
        ));
    }
    if let Some(why) = closed_variable(variable) {
        return Err(Fault::new(format!(
            "the variable {} cannot hold a secret: {why}",
            quoted(variable)
        )));
    }
    Ok(SecretUse {
        name: name.to_owned(),
        variable: variable.to_owned(),
    })
}

/// Whether this can be the name of a secret, and of a variable.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= LONGEST
        && bytes
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Variables that steer programs rather than hold something.
fn closed_variable(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    if ["path", "home", "user", "logname", "shell", "term"].contains(&lower.as_str()) {
        return Some("the cage sets it itself");
    }
    if lower.ends_with("_proxy") {
        return Some("the gateway uses the proxy by itself");
    }
    lower
        .starts_with("ld_")
        .then_some("it says which code programs load")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_named_and_its_variable_may_be_another() {
        let read = |text: &str| parse_secret_use(text).map(|read| read.to_string());
        assert_eq!(read("API_KEY").unwrap(), "API_KEY");
        assert_eq!(read("API_KEY=TOKEN").unwrap(), "API_KEY=TOKEN");
        assert_eq!(read("A=A").unwrap(), "A");
        for wrong in [
            "",
            "1A",
            "A B",
            "A=",
            "=A",
            "A=B=C",
            "A=PATH",
            "A=LD_PRELOAD",
            "A=https_proxy",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_value_that_was_typed_by_mistake_is_not_repeated() {
        let refused = parse_secret_use("API_KEY=sk-live-12345678").unwrap_err();
        assert!(!refused.to_string().contains("sk-live"), "{refused}");
    }
}
