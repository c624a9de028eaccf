//! Toolchains that a run may be shown: a closed list of names, and what of a repository tells that one is
//! needed. Where one is on a machine is not known here.

use crate::error::{Fault, quoted};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A family of compilers, interpreters and package managers.
#[derive(
    Debug,
    Clone,
    Copy,
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
#[serde(rename_all = "snake_case")]
pub enum Toolchain {
    /// rustup, cargo.
    Rust,
    /// node, npm, pnpm; from nvm, fnm, volta, or the search path.
    Node,
    /// Python, pip; from pyenv, uv, or the search path.
    Python,
    /// go.
    Go,
    /// Java, maven, gradle; from SDKMAN!, `JAVA_HOME`, or the search path.
    Jvm,
}

impl Toolchain {
    /// Every one, in the order in which they are shown.
    pub const ALL: [Self; 5] = [Self::Rust, Self::Node, Self::Python, Self::Go, Self::Jvm];

    /// Its name, as it is typed and written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Node => "node",
            Self::Python => "python",
            Self::Go => "go",
            Self::Jvm => "jvm",
        }
    }

    /// Names of files that tell that a repository needs it.
    #[must_use]
    pub fn marks(self) -> &'static [&'static str] {
        match self {
            Self::Rust => &["Cargo.toml", "rust-toolchain.toml", "rust-toolchain"],
            Self::Node => &["package.json", ".nvmrc", ".node-version"],
            Self::Python => &[
                "pyproject.toml",
                "requirements.txt",
                "setup.py",
                "setup.cfg",
                "Pipfile",
                ".python-version",
                "uv.lock",
            ],
            Self::Go => &["go.mod", "go.work"],
            Self::Jvm => &[
                "pom.xml",
                "build.gradle",
                "build.gradle.kts",
                "settings.gradle",
                "settings.gradle.kts",
                ".sdkmanrc",
            ],
        }
    }

    /// The one that a file of this name tells of.
    #[must_use]
    pub fn of_mark(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|toolchain| toolchain.marks().contains(&name))
    }

    pub(crate) fn of_name(name: &str) -> Result<Self, Fault> {
        Self::ALL
            .into_iter()
            .find(|toolchain| toolchain.name() == name)
            .ok_or_else(|| {
                let names: Vec<_> = Self::ALL.iter().map(|known| known.name()).collect();
                Fault::new(format!("{} is not a toolchain", quoted(name)))
                    .hint(format!("They are {}; \"none\" is none.", names.join(", ")))
            })
    }
}

impl fmt::Display for Toolchain {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// Reads `--toolchain`: `rust,node`, or `none`.
///
/// # Errors
/// A sentence that names what is no toolchain.
pub fn parse_toolchains(text: &str) -> Result<Vec<Toolchain>, crate::PolicyError> {
    let words: Vec<&str> = text.split(',').map(str::trim).collect();
    list(&words).map_err(|fault| fault.in_argument("--toolchain"))
}

/// The toolchains of these names, each once; `none` stands alone.
pub(crate) fn list(words: &[&str]) -> Result<Vec<Toolchain>, Fault> {
    if words == ["none"] {
        return Ok(Vec::new());
    }
    if words.len() > 2 * Toolchain::ALL.len() {
        return Err(Fault::new("there are not so many toolchains"));
    }
    let mut found = Vec::new();
    for word in words {
        let toolchain = Toolchain::of_name(word)?;
        if !found.contains(&toolchain) {
            found.push(toolchain);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_and_what_is_none_of_them_is_refused_by_name() {
        let read = |text: &str| parse_toolchains(text).map_err(|error| error.to_string());
        assert_eq!(
            read("node, rust,node").unwrap(),
            [Toolchain::Node, Toolchain::Rust]
        );
        assert_eq!(read("none").unwrap(), []);
        assert!(read("none,rust").unwrap_err().contains("none"));
        assert!(read("cobol").unwrap_err().contains("cobol"));
        assert!(read("").is_err());
    }

    #[test]
    fn no_file_tells_of_two_toolchains() {
        for one in Toolchain::ALL {
            for mark in one.marks() {
                assert_eq!(Toolchain::of_mark(mark), Some(one), "{mark}");
            }
        }
        assert_eq!(Toolchain::of_mark("README.md"), None);
    }
}
