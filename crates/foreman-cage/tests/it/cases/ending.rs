//! Ends: of programs that do not want to, of cages, of launchers.

use crate::fixture::{DEADLINE, on_host, payload, run, serve, spec, until, worktree};
use foreman_cage::{Exit, Launched, launch};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Daemons in every way: own session, orphaned, deaf to signals. `$1` marks them.
const DAEMONS: &str = "setsid sh -c \"trap '' TERM HUP INT; sleep $1 & wait\" & \
    (setsid sh -c \"(setsid sleep $1 &) &\" &) ; nohup sleep $1 & exit 4";

/// Starts three of them: four processes, of which three are marked.
async fn start_daemons(cage: &foreman_cage::Cage, mark: &str) {
    let line = format!("({DAEMONS}) >/dev/null 2>&1");
    let ended = run(cage, &["sh", "-c", &line, "sh", mark]).await;
    assert_eq!(ended.exit, Exit::Code(4), "{ended:?}");
    until("the daemons run", || {
        on_host(&format!("sleep\0{mark}")).len() == 3
    })
    .await;
    until("nothing else does", || cage.processes().len() == 4).await;
}

pub fn killing_all_takes_daemons_too() {
    crate::fixture::in_cage(&spec(), async |at| {
        start_daemons(&at.cage, "2001.5").await;
        let before = at.cage.processes().len();
        // Asked twice at the same time, and both are answered.
        let (killed, again) = tokio::join!(at.cage.kill_all(), at.cage.kill_all());
        assert_eq!(killed as usize, before);
        assert!([0, before].contains(&(again as usize)), "{again}");
        assert_eq!(at.cage.processes(), []);
        assert_eq!(on_host("2001.5"), [0; 0]);
        assert_eq!(at.cage.kill_all().await, 0, "nothing was left to kill");
        assert_eq!(run(&at.cage, &["true"]).await.exit, Exit::Code(0));
    });
}

pub fn destroying_counts_and_leaves_nothing() {
    crate::fixture::in_cage(&spec(), async |at| {
        start_daemons(&at.cage, "2002.5").await;
        let (init, before) = (at.cage.init_pid(), at.cage.processes().len());
        let killed = at.cage.destroy().await;
        assert_eq!(killed as usize, before);
        assert_eq!(on_host("2002.5"), [0; 0]);
        assert!(
            !std::path::Path::new(&format!("/proc/{init}")).exists(),
            "a zombie is left"
        );
    });
}

pub fn dropping_a_cage_kills_it() {
    let Launched { cage, .. } = launch(&spec()).unwrap();
    let init = cage.init_pid();
    assert!(std::path::Path::new(&format!("/proc/{init}")).exists());
    drop(cage);
    assert!(!std::path::Path::new(&format!("/proc/{init}")).exists());
}

/// Also the launcher's part of [`the_cage_dies_with_its_launcher`], in another process.
fn launch_and_stay() {
    crate::fixture::in_cage(&spec(), async |at| {
        start_daemons(&at.cage, "2003.5").await;
        println!("{}", at.cage.init_pid());
        std::io::stdout().flush().unwrap();
        std::future::pending::<()>().await;
    });
}

pub fn the_cage_dies_with_its_launcher() {
    if std::env::var_os("STAY").is_some() {
        return launch_and_stay();
    }
    let mut launcher = Command::new(std::env::current_exe().unwrap())
        .args(["case", "the_cage_dies_with_its_launcher"])
        .env("STAY", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(launcher.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let init = format!("/proc/{}", line.trim());
    assert!(std::path::Path::new(&init).exists(), "{line}");
    launcher.kill().unwrap();
    let killed = Instant::now();
    launcher.wait().unwrap();
    while std::path::Path::new(&init).exists() || !on_host("2003.5").is_empty() {
        assert!(
            killed.elapsed() < DEADLINE,
            "the cage outlived its launcher"
        );
        std::thread::yield_now();
    }
}

pub fn a_dropped_spawn_leaves_no_program() {
    crate::fixture::in_cage(&spec(), async |at| {
        for _ in 0..20 {
            let mut spawning = Box::pin(at.cage.spawn(payload(&["sleep", "2004.5"])));
            // Polled once: the request is on its way.
            let _ = futures_poll_once(spawning.as_mut()).await;
            drop(spawning);
        }
        // What process 1 did with them is known once it answered something later.
        assert_eq!(run(&at.cage, &["true"]).await.exit, Exit::Code(0));
        until("they are gone", || at.cage.processes().is_empty()).await;
    });
}

async fn futures_poll_once<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
    std::future::poll_fn(|context| {
        let polled = std::pin::Pin::new(&mut future).poll(context);
        std::task::Poll::Ready(match polled {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

pub fn waiting_can_be_dropped_and_repeated() {
    let spec = spec();
    serve(launch(&spec).unwrap(), async |at| {
        let line = "while ! test -e go; do :; done; exit 9";
        let child = at.cage.spawn(payload(&["sh", "-c", line])).await.unwrap();
        for _ in 0..3 {
            assert_eq!(
                futures_poll_once(Box::pin(at.cage.wait(child.pid))).await,
                None
            );
        }
        std::fs::write(worktree().join("go"), "").unwrap();
        let (one, other) = tokio::join!(at.cage.wait(child.pid), at.cage.wait(child.pid));
        assert_eq!((one, other), (Exit::Code(9), Exit::Code(9)));
        assert_eq!(at.cage.wait(child.pid).await, Exit::Code(9));
        // When process 1 is killed, everybody who waits is told.
        let child = at.cage.spawn(payload(&["sleep", "2005.5"])).await.unwrap();
        let waiting = at.cage.wait(child.pid);
        nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(at.cage.init_pid().try_into().unwrap()),
            nix::sys::signal::Signal::SIGKILL,
        )
        .unwrap();
        assert_eq!(waiting.await, Exit::CageGone);
        assert!(at.cage.spawn(payload(&["true"])).await.is_err());
        assert_eq!(at.cage.kill_all().await, 0);
        let results = at.cage.probe().await;
        assert!(!results.is_empty() && results.iter().all(|result| !result.holds));
    });
}
