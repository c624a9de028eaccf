//! A cage that is paused does nothing at all, whatever its programs had prepared, and goes on where it was.

use crate::fixture::{
    ATTACKER, attack, finish, in_cage, payload, run, shell, spec, until, worktree,
};
use foreman_cage::{Cage, Exit};
use std::time::{Duration, Instant};

/// Bytes of a file that a program of the cage writes to for as long as it runs.
fn written(name: &str) -> u64 {
    std::fs::metadata(worktree().join(name)).map_or(0, |meta| meta.len())
}

/// Sees for a while that a paused cage does nothing. The while is no wait for anything: it is what is
/// claimed.
async fn stays_still(cage: &Cage, paused: &foreman_cage::Paused, file: &str) {
    let before = written(file);
    let until = Instant::now() + Duration::from_millis(300);
    while Instant::now() < until {
        assert!(cage.is_still(paused), "something ran");
        assert_eq!(written(file), before, "something was written");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub fn a_paused_cage_does_nothing_and_the_same_processes_go_on() {
    in_cage(&spec(), async |at| {
        let script = "import os, threading\n\
             def write(n):\n  f = open('beat', 'ab', 0)\n  while not os.path.exists('enough'): f.write(b'x')\n\
             for n in range(3): threading.Thread(target=write, args=(n,)).start()\n\
             if os.fork() == 0: write(3)\n";
        let child = at
            .cage
            .spawn(payload(&["python3", "-c", script]))
            .await
            .unwrap();
        until("both write", || {
            at.cage.processes().len() == 2 && written("beat") > 100
        })
        .await;
        let paused = at.cage.pause().await.unwrap();
        assert_eq!(paused.processes(), 2);
        stays_still(&at.cage, &paused, "beat").await;
        let processes = at.cage.processes();
        let before = written("beat");
        at.cage.go_on(paused);
        until("it goes on", || written("beat") > before + 100).await;
        let pids = |of: Vec<foreman_cage::ProcessSample>| -> Vec<u32> {
            of.into_iter().map(|process| process.pid).collect()
        };
        assert_eq!(
            pids(at.cage.processes()),
            pids(processes),
            "they are the same"
        );
        std::fs::write(worktree().join("enough"), "").unwrap();
        assert_eq!(finish(&at.cage, child).await.exit, Exit::Code(0));
    });
}

pub fn nobody_escapes_a_pause_by_forking() {
    in_cage(&spec(), async |at| {
        let child = at
            .cage
            .spawn(payload(&[ATTACKER, "attack", "fork-chain", "chain"]))
            .await
            .unwrap();
        until("the chain runs", || written("chain") > 50).await;
        for _ in 0..20 {
            let paused = at.cage.pause().await.unwrap();
            let before = written("chain");
            assert!(at.cage.is_still(&paused), "a link of the chain goes on");
            assert_eq!(written("chain"), before);
            at.cage.go_on(paused);
            until("it goes on", || written("chain") > before).await;
        }
        at.cage.kill_all().await;
        assert!(matches!(
            finish(&at.cage, child).await.exit,
            Exit::Code(_) | Exit::Signal(_)
        ));
    });
}

pub fn processes_that_wake_each_other_are_all_stopped_in_the_end() {
    in_cage(&spec(), async |at| {
        let child = at
            .cage
            .spawn(payload(&[ATTACKER, "attack", "wakers", "wakers"]))
            .await
            .unwrap();
        until("they run", || written("wakers") > 50).await;
        let paused = at.cage.pause().await.unwrap();
        stays_still(&at.cage, &paused, "wakers").await;
        at.cage.kill_all().await;
        finish(&at.cage, child).await;
    });
}

pub fn a_program_that_the_kernel_wakes_on_its_behalf_is_noticed_and_paused_again() {
    in_cage(&spec(), async |at| {
        let child = at
            .cage
            .spawn(payload(&[ATTACKER, "attack", "alarm", "beat"]))
            .await
            .unwrap();
        until("it runs", || written("beat") > 50).await;
        let mut paused = at.cage.pause().await.unwrap();
        for _ in 0..3 {
            stays_still(&at.cage, &paused, "beat").await;
            std::fs::write(worktree().join("alarm"), "x").unwrap();
            until("it is noticed", || !at.cage.is_still(&paused)).await;
            at.cage.pause_again(&mut paused).await.unwrap();
        }
        // It is not among those that had been stopped before.
        let before = written("beat");
        at.cage.go_on(paused);
        until("it goes on", || written("beat") > before).await;
        at.cage.kill_all().await;
        finish(&at.cage, child).await;
    });
}

pub fn what_was_stopped_before_stays_stopped() {
    in_cage(&spec(), async |at| {
        let line = "sleep 2011.5 & kill -STOP $!; \
             until grep -q '^State:.T' /proc/$!/status; do :; done; echo $! > job; \
             while ! test -e go; do sleep 0.01; done; grep State /proc/$!/status; kill -KILL $!";
        let child = at.cage.spawn(payload(&["sh", "-c", line])).await.unwrap();
        until("the job is stopped", || {
            let job = std::fs::read_to_string(worktree().join("job")).unwrap_or_default();
            let job: Option<u32> = job.trim().parse().ok();
            job.is_some_and(|job| at.cage.processes().iter().any(|one| one.pid == job))
        })
        .await;
        let paused = at.cage.pause().await.unwrap();
        at.cage.go_on(paused);
        std::fs::write(worktree().join("go"), "").unwrap();
        let ended = finish(&at.cage, child).await;
        assert!(ended.out.contains("T (stopped)"), "{ended:?}");
    });
}

pub fn a_paused_cage_can_be_killed() {
    in_cage(&spec(), async |at| {
        let child = at.cage.spawn(payload(&["sleep", "2012.5"])).await.unwrap();
        let paused = at.cage.pause().await.unwrap();
        assert_eq!(at.cage.kill_all().await, 1);
        assert_eq!(finish(&at.cage, child).await.exit, Exit::Signal(9));
        // What was killed did not run.
        assert!(at.cage.is_still(&paused));
        assert_eq!(run(&at.cage, &["true"]).await.exit, Exit::Code(0));
    });
}

pub fn open_files_are_limited_and_the_limit_cannot_be_raised() {
    in_cage(&spec(), async |at| {
        at.cage.limit_open_files(64).await.unwrap();
        let script = "import os, resource\n\
             try: resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024)); print('raised')\n\
             except (ValueError, OSError): print('not raised')\n\
             n = 0\n\
             try:\n  while n < 1000: os.dup(0); n += 1\n\
             except OSError as error: print('stopped', n, error.errno)\n";
        let said = run(&at.cage, &["python3", "-c", script]).await;
        assert!(said.out.starts_with("not raised\n"), "{said:?}");
        assert!(
            said.out.contains("stopped") && said.out.contains("24"),
            "{said:?}"
        );
        assert!(at.cage.open().most < 64);
    });
}

pub fn removed_files_that_are_open_are_seen() {
    in_cage(&spec(), async |at| {
        let line =
            "exec 3> gone; rm gone; head -c 3000000 /dev/zero >&3; touch there; exec sleep 2013.5";
        let child = at.cage.spawn(payload(&["sh", "-c", line])).await.unwrap();
        until("it is written", || worktree().join("there").exists()).await;
        let open = at.cage.open();
        assert!(open.removed_bytes >= 3_000_000, "{open:?}");
        assert!(open.most >= 4, "{open:?}");
        at.cage.kill_all().await;
        finish(&at.cage, child).await;
        assert!(at.cage.scratch() < 3_000_000);
        shell(&at.cage, "head -c 3000000 /dev/zero > /tmp/there").await;
        let child = at.cage.spawn(payload(&["sleep", "2014.5"])).await.unwrap();
        assert!(at.cage.scratch() >= 3_000_000);
        at.cage.kill_all().await;
        finish(&at.cage, child).await;
        assert!(!attack(&at.cage, "open-files", &[]).await.is_empty());
    });
}
