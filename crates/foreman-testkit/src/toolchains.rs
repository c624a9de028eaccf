//! Toolchains of this machine, put into the home of a bench's user as if that user had installed them:
//! linked where that can be, else copied.

use crate::Bench;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Held while something is put into a home: cases that share one run side by side.
static PUTTING: Mutex<()> = Mutex::new(());

/// Puts the machine's rustup with its toolchain in use into the user's home; why not, where it has none.
///
/// # Errors
/// It is there and cannot be put there.
pub fn rust(bench: &Bench) -> Result<Result<(), String>> {
    let _turn = PUTTING.lock().unwrap_or_else(PoisonError::into_inner);
    let home = bench.home();
    if home.join(".cargo/bin/cargo").exists() {
        return Ok(Ok(()));
    }
    let Some(rustup) = real("rustup") else {
        return Ok(Err("rustup is not on this machine".to_owned()));
    };
    let Some(sysroot) = said(
        Command::new("rustc")
            .args(["--print", "sysroot"])
            .current_dir("/"),
    ) else {
        return Ok(Err("rustc is not on this machine".to_owned()));
    };
    let sysroot = fs::canonicalize(sysroot)?;
    let name = sysroot
        .file_name()
        .and_then(|name| name.to_str())
        .context("a toolchain without a name")?;
    let toolchain = home.join(".rustup/toolchains").join(name);
    bench.shell(
        &home,
        &format!(
            "mkdir -p .cargo/bin '{0}/bin'
             printf 'version = \"12\"\\ndefault_toolchain = \"{name}\"\\nprofile = \"minimal\"\\n' \
                 > .rustup/settings.toml",
            toolchain.display()
        ),
    )?;
    for program in ["cargo", "rustc"] {
        let program = Path::new("bin").join(program);
        place(&sysroot.join(&program), &toolchain.join(&program))?;
    }
    place(&sysroot.join("lib"), &toolchain.join("lib"))?;
    let bin = home.join(".cargo/bin");
    place(&rustup, &bin.join("rustup"))?;
    bench.shell(&bin, "ln -s rustup rustc; ln -s rustup cargo")?;
    Ok(Ok(()))
}

/// Puts the machine's node into the user's home as a version of nvm's, and gives its version; why not,
/// where it has none.
///
/// # Errors
/// It is there and cannot be put there.
pub fn node(bench: &Bench) -> Result<Result<String, String>> {
    let Some(node) = real("node") else {
        return Ok(Err("node is not on this machine".to_owned()));
    };
    let version = said(Command::new(&node).arg("--version")).context("node without a version")?;
    let bin = bench
        .home()
        .join(".nvm/versions/node")
        .join(&version)
        .join("bin");
    let _turn = PUTTING.lock().unwrap_or_else(PoisonError::into_inner);
    if !bin.exists() {
        bench.shell(&bench.home(), &format!("mkdir -p '{}'", bin.display()))?;
        place(&node, &bin.join("node"))?;
    }
    Ok(Ok(version))
}

/// A program of the search path, links followed.
fn real(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(program));
    places.find(|place| place.is_file())?.canonicalize().ok()
}

fn said(command: &mut Command) -> Option<String> {
    let out = command.output().ok().filter(|out| out.status.success())?;
    Some(String::from_utf8(out.stdout).ok()?.trim().to_owned())
}

/// Links files where they can be linked, else copies them. They stay root's, which everybody may use.
fn place(from: &Path, to: &Path) -> Result<()> {
    for how in ["-al", "-a"] {
        let done = Command::new("cp").arg(how).arg(from).arg(to).output()?;
        if done.status.success() {
            return Ok(());
        }
        let _ = fs::remove_dir_all(to);
    }
    ensure!(
        to.exists(),
        "{} cannot be put to {}",
        from.display(),
        to.display()
    );
    Ok(())
}
