//! The runner conformance suite (`foreman_runner::conformance`) for every context that ships: this
//! machine, and a stdio pipe into namespaces that play another machine, which sees nothing of what the
//! user keeps on this one. As an ordinary user, and as root where these tests were started as root.
//!
//! Each case is a process of its own, which is the engine: as whom and where the product would run. This
//! program is all three: the suite, that engine (`case`), and an engine that is killed (`engine`).

mod scene;

use anyhow::{Context, Result, bail, ensure};
use foreman_runner::conformance::CASES;
use foreman_testkit::suite::{Case, Tally, Wanted};
use foreman_testkit::{Bench, Who, World, repos};
use scene::{Scene, Setting};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Cases at a time: they mostly wait.
const PARALLEL: usize = 4;
/// Where an engine's setting is told.
const SETTING: &str = "FOREMAN_RUNNER_SETTING";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["case", name] => scene::case(name),
        ["engine", launch] => scene::engine(launch.as_ref()),
        _ => return suite(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn suite() -> ExitCode {
    let wanted = Wanted::from_arguments();
    let mut tally = Tally::default();
    for &who in Who::all() {
        for context in ["local", "pipe"] {
            let names = CASES
                .iter()
                .map(|(name, _)| (*name, format!("{}::{context}::{name}", who.name())));
            let chosen: Vec<_> = names.filter(|(_, full)| wanted.takes(full)).collect();
            if wanted.lists() {
                let cases = chosen.into_iter();
                let cases = cases.map(|(_, full)| Case::plain(full, || Ok(())));
                tally.run(&wanted, 1, cases.collect());
                continue;
            }
            if chosen.is_empty() {
                continue;
            }
            match Ground::new(who, context) {
                Ok(ground) => {
                    let ground = &ground;
                    let cases = chosen
                        .into_iter()
                        .map(|(name, full)| Case::plain(full, move || ground.run(name)));
                    tally.run(&wanted, PARALLEL, cases.collect());
                }
                Err(error) => tally.fail(&format!("{}::{context}::ground", who.name()), &error),
            }
        }
    }
    tally.close(&wanted)
}

/// A user, a world, and this program where that user can run it. The world ends first.
struct Ground {
    context: &'static str,
    world: World,
    bench: Bench,
    program: PathBuf,
    repository: PathBuf,
}

impl Ground {
    fn new(who: Who, context: &'static str) -> Result<Self> {
        let bench = Bench::new(who)?;
        let repository = repos::plain(&bench, "origin")?;
        let program = bench.program("runner-suite");
        std::fs::copy(std::env::current_exe()?, &program)?;
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
        let world = match context {
            "local" => World::new(&bench)?,
            _ => World::elsewhere(&bench)?,
        };
        let ground = Self {
            context,
            world,
            bench,
            program,
            repository,
        };
        if context == "pipe" {
            ground.is_another_machine()?;
        }
        Ok(ground)
    }

    /// The far end must not see by accident what is meant to come over the pipe.
    fn is_another_machine(&self) -> Result<()> {
        for private in [
            self.repository.clone(),
            self.bench.home().join(".gitconfig"),
        ] {
            ensure!(private.exists(), "{} is not here", private.display());
            let mut looking = self.world.command(&self.bench, "test");
            let seen = looking.arg("-e").arg(&private).status()?.success();
            ensure!(!seen, "{} is seen at the far end", private.display());
        }
        Ok(())
    }

    /// How the far end's station is started from here.
    fn station(&self) -> Result<Vec<String>> {
        let mut station = self
            .world
            .command(&self.bench, self.bench.program("foreman-shim"));
        station
            .args(["station", "--stdio", "--place"])
            .arg(self.bench.runtime().join("station"));
        std::iter::once(station.get_program())
            .chain(station.get_args())
            .map(|word| Ok(word.to_str().context("a word that is no text")?.to_owned()))
            .collect()
    }

    fn run(&self, name: &str) -> Result<()> {
        let setting = Setting {
            context: self.context.to_owned(),
            shim: self.bench.program("foreman-shim"),
            station: self.station()?,
            scratch: self.bench.scratch("engine")?,
            repository: self.repository.clone(),
        };
        let mut engine: Command = match self.context {
            "local" => self.world.command(&self.bench, &self.program),
            _ => self.bench.command(&self.program),
        };
        let out = engine
            .args(["case", name])
            .env(SETTING, serde_json::to_string(&setting)?)
            .output()
            .context("start the engine")?;
        if !out.status.success() {
            bail!(
                "{}{}",
                String::from_utf8_lossy(&out.stdout),
                String::from_utf8_lossy(&out.stderr)
            );
        }
        Ok(())
    }
}

/// The setting of this process, which is an engine.
fn setting() -> Result<Scene> {
    let text = std::env::var(SETTING).context("no setting was told")?;
    Ok(Scene::new(serde_json::from_str(&text)?))
}
