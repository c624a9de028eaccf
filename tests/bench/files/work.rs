//! The kinds of work: git over many files, a package manager, a compiler.

use crate::Size;
use anyhow::{Context, Result};
use foreman_testkit::{Binaries, Stage, run};
use std::path::PathBuf;
use std::process::Command;

/// A package with more than a thousand others under it.
const PACKAGE: &str = "react-scripts@5.0.1";

/// One kind of work.
pub struct Work {
    pub what: String,
    /// Where it is done; the only place that can be written.
    pub folder: PathBuf,
    /// What else is shown; each has a `bin`.
    pub shown: Vec<PathBuf>,
    /// Done before each round, outside.
    pub before: &'static str,
    /// What is measured.
    pub script: String,
    pub rounds: usize,
    /// Most that held writes may cost, as a multiple.
    pub limit: f64,
}

/// All kinds; or what cannot be measured here, and why.
pub fn works(stage: &Stage, size: Size) -> Result<Vec<Result<Work, (String, String)>>> {
    let mut works = vec![Ok(checkout(stage, size)?), Ok(status(stage, size)?)];
    if size.builds > 0 {
        works.push(install(stage, size)?);
        works.push(check(stage, size)?);
    }
    Ok(works)
}

fn tree(stage: &Stage, name: &str, files: u32) -> Result<PathBuf> {
    let folder = stage.bench.scratch(name)?;
    let script = format!(
        "git init -q -b main .
         i=0; while [ $i -lt {files} ]; do
           d=src/$((i / 1000))/$((i / 50 % 20)); [ $((i % 50)) -ne 0 ] || mkdir -p $d
           echo \"file $i\" > $d/$i.txt; i=$((i + 1))
         done
         git add -A; git commit -qm all"
    );
    stage.bench.shell(&folder, &script)?;
    Ok(folder)
}

fn checkout(stage: &Stage, size: Size) -> Result<Work> {
    Ok(Work {
        what: format!("checkout of {} files", size.checkout),
        folder: tree(stage, "checkout", size.checkout)?,
        shown: vec![],
        before: "rm -rf src; sync .",
        script: "git checkout -q -- .".to_owned(),
        rounds: size.rounds,
        limit: 1.05,
    })
}

fn status(stage: &Stage, size: Size) -> Result<Work> {
    let files = 5 * size.checkout;
    Ok(Work {
        what: format!("`git status` over {files} files"),
        folder: tree(stage, "status", files)?,
        shown: vec![],
        before: "git status --porcelain",
        script: "git status --porcelain".to_owned(),
        rounds: size.rounds,
        limit: 1.03,
    })
}

/// The package manager's own cache, filled once and kept between benches, is what it installs from.
fn install(stage: &Stage, size: Size) -> Result<Result<Work, (String, String)>> {
    let what = format!("`npm ci` of {PACKAGE}");
    let kept = Binaries::tools()?.join("bench-npm");
    if !kept.join("package-lock.json").exists() {
        std::fs::create_dir_all(&kept)?;
        std::fs::write(
            kept.join("package.json"),
            "{\"name\": \"bench\", \"private\": true}\n",
        )?;
        let mut npm = Command::new("npm");
        npm.args([
            "install",
            PACKAGE,
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--cache",
        ]);
        npm.arg(kept.join("cache")).current_dir(&kept);
        if let Err(error) = run(&mut npm) {
            return Ok(Err((what, format!("npm cannot fetch it here: {error:#}"))));
        }
    }
    let folder = stage.bench.scratch("install")?;
    let mut copy = Command::new("cp");
    copy.arg("-r");
    for name in ["package.json", "package-lock.json", "cache"] {
        copy.arg(kept.join(name));
    }
    run(copy.arg(&folder))?;
    run(Command::new("chown")
        .args(["-R", &stage.bench.user()])
        .arg(&folder))?;
    Ok(Ok(Work {
        what,
        folder,
        shown: vec![],
        before: "rm -rf node_modules; sync .",
        script: "HOME=$PWD npm ci --offline --cache cache --ignore-scripts --no-audit --no-fund --silent"
            .to_owned(),
        rounds: size.builds,
        limit: 1.03,
    }))
}

fn check(stage: &Stage, size: Size) -> Result<Result<Work, (String, String)>> {
    let what = "`cargo check` of a crate with its dependencies".to_owned();
    let sysroot = run(Command::new("rustc").args(["--print", "sysroot"]))?;
    let cargo = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")))
        .context("no home")?;
    let folder = stage.bench.scratch("check")?;
    let checkout = Binaries::checkout();
    // Links where they can be: a toolchain is large.
    let script = "
        copy() { cp -al \"$1\" \"$2\" 2>/dev/null || cp -a \"$1\" \"$2\"; }
        copy \"$1\" \"$3/toolchain\"
        mkdir \"$3/cargo\"; copy \"$2/registry\" \"$3/cargo/registry\"
        cd \"$4\" && git ls-files -z | xargs -0 cp --parents -t \"$3\"";
    let copied = run(Command::new("sh")
        .args(["-euc", script, "sh"])
        .arg(sysroot.trim())
        .arg(&cargo)
        .arg(&folder)
        .arg(&checkout));
    if let Err(error) = copied {
        return Ok(Err((what, format!("{error:#}"))));
    }
    run(Command::new("chown")
        .args(["-R", &stage.bench.user(), "--"])
        .arg(folder.join("crates")))?;
    let shown = vec![folder.join("toolchain")];
    Ok(Ok(Work {
        what,
        shown,
        before: "rm -rf target; sync .",
        script:
            "CARGO_HOME=$PWD/cargo HOME=$PWD cargo check -q --offline --locked -p foreman-policy"
                .to_owned(),
        rounds: size.builds,
        limit: 1.03,
        folder,
    }))
}
