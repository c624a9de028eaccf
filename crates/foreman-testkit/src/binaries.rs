//! Finds the binaries under test, and builds them when nobody has.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The binaries that a bench is given.
pub const NAMES: [&str; 4] = ["foreman", "foreman-shim", "fm-attack", "fm-test-server"];

/// Where the binaries under test are.
#[derive(Debug, Clone)]
pub struct Binaries {
    folder: PathBuf,
}

impl Binaries {
    /// Those in the folder named by `FOREMAN_TEST_BIN`; else those of the build that this test
    /// belongs to, brought up to date first.
    ///
    /// # Errors
    /// The build failed, or a binary is not there.
    pub fn find() -> Result<Self> {
        static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
        let folder = FOUND
            .get_or_init(|| locate().map_err(|error| format!("{error:#}")))
            .clone()
            .map_err(anyhow::Error::msg)?;
        Ok(Self { folder })
    }

    /// The folder that has them all.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Copies them to another folder, hard links where that is possible.
    ///
    /// # Errors
    /// A file could not be copied.
    pub fn copy_to(&self, folder: &Path) -> Result<()> {
        for name in NAMES {
            let (from, to) = (self.folder.join(name), folder.join(name));
            std::fs::copy(&from, &to)
                .with_context(|| format!("copy {} to {}", from.display(), to.display()))?;
        }
        Ok(())
    }

    /// The root of the checkout that these tests belong to.
    #[must_use]
    pub fn checkout() -> PathBuf {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        here.ancestors().nth(2).unwrap_or(here).to_path_buf()
    }

    /// A folder for things that tests build and keep between runs: `target/tools`.
    ///
    /// # Errors
    /// It could not be created.
    pub fn tools() -> Result<PathBuf> {
        let folder = Self::checkout().join("target/tools");
        std::fs::create_dir_all(&folder)?;
        Ok(folder)
    }
}

fn locate() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("FOREMAN_TEST_BIN") {
        let folder = PathBuf::from(folder);
        for name in NAMES {
            ensure!(
                folder.join(name).is_file(),
                "{} has no {name}",
                folder.display()
            );
        }
        return Ok(folder);
    }
    let executable = std::env::current_exe()?;
    let folder = executable
        .ancestors()
        .nth(2)
        .context("a test lies in <target>/<profile>/deps")?
        .to_path_buf();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build
        .args(["build", "--workspace", "--bins", "--quiet"])
        .current_dir(Binaries::checkout());
    if folder.file_name().is_some_and(|name| name == "release") {
        build.arg("--release");
    }
    let status = build
        .status()
        .context("start cargo to build the binaries under test")?;
    ensure!(status.success(), "the binaries under test do not build");
    Ok(folder)
}
