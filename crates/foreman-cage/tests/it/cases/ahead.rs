//! A program that is started while its supervisor still makes itself ready.

use crate::fixture::{finish, on_host, payload, run, serve, spec, until, words, worktree};
use foreman_cage::{Exit, Launched, Payload, launch_ahead};

const SCRIPT: &str = "echo ran >>ran; ls -l /proc/self/fd | wc -l; grep -c . /proc/self/uid_map; \
    grep ^NoNewPrivs /proc/self/status; grep ^Seccomp: /proc/self/status; \
    grep ^CapBnd /proc/self/status";

fn script() -> Payload {
    payload(&["sh", "-c", SCRIPT])
}

fn launched() -> Launched {
    let (launched, threads) = launch_ahead(&spec(), Some(script()), || {
        // A thread that lives on, as those of a runtime do.
        std::thread::spawn(|| std::thread::sleep(std::time::Duration::from_secs(1)));
        std::fs::read_dir("/proc/self/task").unwrap().count()
    });
    assert_eq!(threads, 2);
    launched.unwrap_or_else(|error| panic!("{}", words(&error)))
}

pub fn a_program_started_ahead_proves_the_walls_and_runs_only_when_asked_for() {
    serve(launched(), async |at| {
        let results = at.cage.probe().await;
        assert!(results.len() >= 6, "{results:?}");
        assert!(results.iter().all(|result| result.holds), "{results:?}");
        let waiting = at.cage.processes();
        assert_eq!(waiting.len(), 1, "{waiting:?}");
        assert_eq!(on_host("echo ran"), [0; 0], "nothing was executed");
        assert!(!worktree().join("ran").exists());

        let child = at.cage.spawn(script()).await.unwrap();
        assert_eq!(child.pid, waiting[0].pid, "it is the very process");
        let ahead = finish(&at.cage, child).await;
        assert_eq!(ahead.exit, Exit::Code(0), "{ahead:?}");
        // Once more, as a program that was not started ahead: no difference can be seen from inside.
        let child = at.cage.spawn(script()).await.unwrap();
        let later = finish(&at.cage, child).await;
        assert_eq!(ahead.out, later.out);
        assert_eq!(
            std::fs::read_to_string(worktree().join("ran")).unwrap(),
            "ran\nran\n"
        );
        // The first program told its results once; from now on a process of its own tries the walls.
        let again = at.cage.probe().await;
        let of = |results: &[foreman_cage::ProbeResult]| -> Vec<_> {
            results.iter().map(|result| result.wall).collect()
        };
        assert_eq!(of(&results), of(&again));
        assert!(again.iter().all(|result| result.holds), "{again:?}");
        assert_eq!(at.cage.destroy().await, 0);
    });
}

pub fn a_program_started_ahead_does_not_run_unproven() {
    serve(launched(), async |at| {
        let ended = finish(&at.cage, at.cage.spawn(script()).await.unwrap()).await;
        assert_eq!(ended.exit, Exit::Code(0), "{ended:?}");
        assert_eq!(
            std::fs::read_to_string(worktree().join("ran")).unwrap(),
            "ran\n",
            "one of them ran: the one that was started anew"
        );
        until("the other is gone", || at.cage.processes().is_empty()).await;
    });
}

pub fn another_program_than_the_one_started_ahead_runs_alone() {
    serve(launched(), async |at| {
        assert!(at.cage.probe().await.iter().all(|result| result.holds));
        let ended = run(&at.cage, &["sh", "-c", "echo other; ls"]).await;
        assert_eq!((ended.exit, ended.out.as_str()), (Exit::Code(0), "other\n"));
        assert_eq!(at.cage.processes(), []);
        assert_eq!(at.cage.kill_all().await, 0);
    });
}

pub fn a_program_started_ahead_for_nothing_is_none_that_was_killed() {
    serve(launched(), async |at| {
        assert!(at.cage.probe().await.iter().all(|result| result.holds));
        assert_eq!(at.cage.destroy().await, 0);
        assert!(!worktree().join("ran").exists());
    });
}

pub fn a_program_started_ahead_that_cannot_start_is_explained_like_any() {
    let missing = payload(&["no-such-tool"]);
    let (launched, ()) = launch_ahead(&spec(), Some(missing.clone()), || ());
    serve(launched.unwrap(), async |at| {
        assert!(at.cage.probe().await.iter().all(|result| result.holds));
        let error = at.cage.spawn(missing).await.unwrap_err().to_string();
        assert!(error.contains("no-such-tool was not found"), "{error}");
        assert_eq!(run(&at.cage, &["true"]).await.exit, Exit::Code(0));
    });
}
