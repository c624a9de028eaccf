//! One piece of work in one cage, in a process of its own: whoever launches a cage has one thread.

use super::Mode;
use anyhow::{Result, anyhow, ensure};
use foreman_cage::files::{Config, Executed, Exited, FileAttempt, FileJudge, FileVerdict};
use foreman_cage::{Bind, CageSpec, Exit, Payload, PayloadStdio, launch};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;
use tokio_util::sync::CancellationToken;

/// Refuses what is asked, and counts what is told.
#[derive(Default)]
struct Counts {
    asked: AtomicU32,
    executed: AtomicU32,
}

impl FileJudge for Counts {
    async fn judge(&self, _: FileAttempt) -> FileVerdict {
        self.asked.fetch_add(1, Ordering::Relaxed);
        FileVerdict::Refuse
    }
    fn executed(&self, _: Executed) {
        self.executed.fetch_add(1, Ordering::Relaxed);
    }
    fn exited(&self, _: Exited) {}
}

/// `bench --caged MODE FOLDER SHOWN SCRIPT`: prints the milliseconds that the script took.
///
/// # Errors
/// The cage could not be built, or the script failed.
pub fn run(arguments: &[String]) -> Result<()> {
    let [mode, folder, shown, script] = arguments else {
        return Err(anyhow!("--caged MODE FOLDER SHOWN SCRIPT"));
    };
    let mode = Mode::ALL
        .into_iter()
        .find(|known| known.name() == mode)
        .ok_or_else(|| anyhow!("no mode {mode}"))?;
    let shown: Vec<PathBuf> = serde_json::from_str(shown)?;
    let launched = launch(&spec(Path::new(folder), &shown))
        .map_err(|error| anyhow!("{error}: {}", error.source))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let cage = launched.cage;
    runtime.block_on(async {
        let (cancel, counts) = (CancellationToken::new(), Arc::new(Counts::default()));
        if mode != Mode::Nothing {
            let config = Config {
                reads: mode == Mode::Reads,
                closed: vec![],
                meeting: std::env::temp_dir(),
            };
            cage.hold_files(config, Arc::clone(&counts), &cancel)?;
        }
        let began = Instant::now();
        let payload = Payload {
            argv: ["/bin/sh", "-euc", script].map(str::to_owned).to_vec(),
            env: vec![],
            stdio: PayloadStdio::Pipes,
        };
        let child = cage.spawn(payload).await?;
        let mut said = String::new();
        if let Some(out) = child.stdout {
            std::fs::File::from(out).read_to_string(&mut said)?;
        }
        if let Some(err) = child.stderr {
            std::fs::File::from(err).read_to_string(&mut said)?;
        }
        let exit = cage.wait(child.pid).await;
        let took = began.elapsed();
        cage.destroy().await;
        ensure!(exit == Exit::Code(0), "{exit:?}: {said}");
        let executed = counts.executed.load(Ordering::Relaxed);
        ensure!(
            (executed > 0) == (mode != Mode::Nothing),
            "{} programs were told of",
            executed
        );
        ensure!(
            mode != Mode::Writes || counts.asked.load(Ordering::Relaxed) == 0,
            "something was held: this would measure its refusal"
        );
        println!("{:.3}", took.as_secs_f64() * 1e3);
        Ok(())
    })
}

fn spec(folder: &Path, shown: &[PathBuf]) -> CageSpec {
    let bind = |path: &Path, writable| Bind {
        source: path.to_owned(),
        target: path.to_owned(),
        writable,
    };
    let mut path = "/usr/bin:/bin".to_owned();
    let mut binds = vec![bind(folder, true)];
    for place in shown {
        path = format!("{}/bin:{path}", place.display());
        binds.push(bind(place, false));
    }
    CageSpec {
        hostname: "cage".into(),
        workdir: folder.to_owned(),
        home: "/home/nobody".into(),
        binds,
        env: vec![("PATH".into(), path)],
        why_program: PathBuf::from("/bin/true"),
        processes: 4_096,
        root_maps_to: 65534,
        hidden: vec![],
        accept_weaker: vec![],
        confinement: foreman_cage::Confinement::Namespaces,
        private: None,
    }
}
