//! Measures what starting a cage costs, phase by phase, against `bwrap --unshare-all`.
//!
//! `start_cost [ROUNDS]`. Each round is a process of its own, because a launcher must have one
//! thread. Reads minima and medians; on a loaded machine trust the ratios.

#![allow(clippy::print_stdout, reason = "it prints a table")]

use foreman_cage::gateway::{self, Attempt, Closed, ConnectionId, Judge, Verdict};
use foreman_cage::{CageSpec, Exit, Payload, PayloadStdio, launch_ahead};
use foreman_domain::{Host, Protocol};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

struct RefuseAll;

impl Judge for RefuseAll {
    async fn judge(&self, _: Attempt) -> Verdict {
        Verdict::Refuse
    }
    fn looked_up(&self, _: &str) {}
    fn closed(&self, _: ConnectionId, _: Closed) {}
    fn refused(&self, _: Protocol, _: Host, _: u16, _: &str) {}
}

const PHASES: [&str; 6] = ["launch", "gateway", "probe", "exec", "all", "destroy"];

fn one_round() -> Result<(), Box<dyn std::error::Error>> {
    let home = std::env::var("HOME")?;
    let spec = CageSpec {
        hostname: "cage".into(),
        workdir: home.clone().into(),
        home: home.into(),
        binds: vec![],
        env: vec![("PATH".into(), "/usr/bin:/bin".into())],
        why_program: "/bin/true".into(),
        processes: 512,
        root_maps_to: 65534,
        hidden: vec![],
        accept_weaker: vec![],
        confinement: Default::default(),
        private: None,
    };
    let mut times = vec![];
    let began = Instant::now();
    let payload = Payload {
        argv: vec!["true".into()],
        env: vec![],
        stdio: PayloadStdio::Null,
    };
    // As a supervisor does it.
    let (launched, runtime) = launch_ahead(&spec, Some(payload.clone()), || {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
    });
    let launched =
        launched.map_err(|error| format!("{error}: {} ({:?})", error.source, error.remedy))?;
    times.push(began.elapsed());
    let runtime = runtime?;
    let cage = launched.cage;
    runtime.block_on(async {
        let at = Instant::now();
        let config = gateway::Config {
            sockets: launched.sockets?,
            init_pid: cage.init_pid(),
            proxy: gateway::ProxyConfig::default(),
            forward: None,
        };
        let cancel = CancellationToken::new();
        let gateway = gateway::start(config, Arc::new(RefuseAll), cancel.clone());
        times.push(at.elapsed());
        let at = Instant::now();
        let results = cage.probe().await;
        times.push(at.elapsed());
        let at = Instant::now();
        let child = cage.spawn(payload).await?;
        times.push(at.elapsed());
        times.push(began.elapsed());
        assert_eq!(cage.wait(child.pid).await, Exit::Code(0));
        let at = Instant::now();
        cage.destroy().await;
        times.push(at.elapsed());
        cancel.cancel();
        gateway.join().await;
        if std::env::var_os("SHOW").is_some() {
            println!("{:#?} {:?}", results, launched.facts);
        }
        Ok::<_, Box<dyn std::error::Error>>(())
    })?;
    let words: Vec<String> = times
        .iter()
        .map(|time| time.as_micros().to_string())
        .collect();
    println!("{}", words.join(" "));
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "50".into());
    if argument == "round" {
        return one_round();
    }
    let rounds: usize = argument.parse()?;
    let mut phases = vec![vec![]; PHASES.len()];
    let (mut ours, mut theirs, mut bare) = (vec![], vec![], vec![]);
    let me = std::env::current_exe()?;
    for _ in 0..rounds {
        let at = Instant::now();
        let output = Command::new(&me).arg("round").output()?;
        ours.push(at.elapsed());
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        let text = String::from_utf8(output.stdout)?;
        for (phase, word) in phases.iter_mut().zip(text.split_whitespace()) {
            phase.push(Duration::from_micros(word.parse()?));
        }
        let bwrap: Vec<&str> =
            "--unshare-all --ro-bind /usr /usr --ro-bind /etc /etc --symlink usr/bin /bin \
            --symlink usr/lib /lib --symlink usr/lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp \
            --tmpfs /run --tmpfs /root --tmpfs /var/tmp --die-with-parent true"
                .split_whitespace()
                .collect();
        let at = Instant::now();
        let status = Command::new("bwrap").args(&bwrap).status()?;
        theirs.push(at.elapsed());
        assert!(status.success());
        let at = Instant::now();
        Command::new("true").status()?;
        bare.push(at.elapsed());
    }
    let show = |name: &str, mut times: Vec<Duration>| {
        times.sort();
        let at = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1e3;
        println!(
            "{name:>24}  min {:6.2}  p50 {:6.2}  p95 {:6.2} ms",
            at(0),
            at(50),
            at(95)
        );
    };
    for (name, times) in PHASES.iter().zip(phases) {
        show(name, times);
    }
    show("our process, whole", ours);
    show("bwrap, whole", theirs);
    show("true, whole", bare);
    Ok(())
}
