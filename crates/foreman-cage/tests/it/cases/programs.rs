//! Starting programs, their streams and their ends.

use crate::fixture::{
    attack, finish, in_cage, on_host, payload, run, shell, spec, until, worktree,
};
use foreman_cage::{Exit, Payload, PayloadStdio, SpawnError};
use foreman_domain::Wall;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;

pub fn every_wall_holds_in_a_fresh_cage() {
    in_cage(&spec(), async |at| {
        let results = at.cage.probe().await;
        for result in &results {
            assert!(result.holds || result.wall == Wall::Landlock, "{result:?}");
        }
        let walls = [
            Wall::UserNamespace,
            Wall::Mounts,
            Wall::Network,
            Wall::Dns,
            Wall::Seccomp,
            Wall::Git,
            Wall::Landlock,
        ];
        for wall in walls {
            assert_eq!(
                results.iter().filter(|result| result.wall == wall).count(),
                1,
                "{wall:?}"
            );
        }
        let landlock = results
            .iter()
            .find(|result| result.wall == Wall::Landlock)
            .unwrap();
        assert_eq!(
            landlock.holds,
            at.facts.landlock_abi.is_some(),
            "{landlock:?}"
        );
        assert!(at.facts.gate.is_some_and(|gate| !gate.is_empty()));
        assert!(worktree().join(".git").is_file(), "a probe moved it");
    });
}

pub fn exit_codes_and_signals_are_told() {
    in_cage(&spec(), async |at| {
        assert_eq!(run(&at.cage, &["true"]).await.exit, Exit::Code(0));
        assert_eq!(
            run(&at.cage, &["sh", "-c", "exit 7"]).await.exit,
            Exit::Code(7)
        );
        assert_eq!(
            run(&at.cage, &["sh", "-c", "kill -9 $$"]).await.exit,
            Exit::Signal(9)
        );
        assert_eq!(
            run(&at.cage, &["sh", "-c", "kill -15 $$"]).await.exit,
            Exit::Signal(15)
        );
        // Signals without a name, at which nothing may stumble.
        let ended = run(&at.cage, &["sh", "-c", "kill -44 $$"]).await;
        assert_eq!(ended.exit, Exit::Signal(44));
        let ended = run(&at.cage, &["sh", "-c", "echo out; echo error >&2; cat"]).await;
        assert_eq!(
            (ended.out.as_str(), ended.error.as_str()),
            ("out\n", "error\n")
        );
    });
}

pub fn the_environment_is_exactly_what_was_asked_for() {
    let spec = spec();
    in_cage(&spec, async |at| {
        let env = vec![
            ("STEP".into(), "a b\nc".into()),
            ("USER".into(), "other".into()),
        ];
        let child = at
            .cage
            .spawn(Payload {
                env,
                ..payload(&["env", "-0"])
            })
            .await
            .unwrap();
        let ended = finish(&at.cage, child).await;
        let mut seen: Vec<&str> = ended.out.split_terminator('\0').collect();
        seen.sort_unstable();
        let value = |name: &str| &spec.env.iter().find(|(key, _)| key == name).unwrap().1;
        let path = format!("PATH={}", value("PATH"));
        let home = format!("HOME={}", value("HOME"));
        assert_eq!(seen, [home.as_str(), &path, "STEP=a b\nc", "USER=other"]);
    });
}

pub fn only_the_standard_streams_are_open() {
    // Descriptors of the launcher, some of them kept over `exec` on purpose.
    let leak = std::fs::File::open("/etc/passwd").unwrap();
    nix::fcntl::fcntl(
        &leak,
        nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()),
    )
    .unwrap();
    in_cage(&spec(), async |at| {
        let text = attack(&at.cage, "open-files", &[]).await;
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines.len(), 3, "{text}");
        assert_eq!(lines[0], "0 /dev/null");
        assert!(
            lines[1].starts_with("1 pipe:") && lines[2].starts_with("2 pipe:"),
            "{text}"
        );
    });
    drop(leak);
}

pub fn a_program_that_cannot_start_is_explained() {
    let spec = spec();
    let file = |name: &str, text: &str, mode: u32| {
        let path = worktree().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    file("plain", "text", 0o644);
    file("odd", "#!/no/such/interpreter\n", 0o755);
    in_cage(&spec, async |at| {
        let why = async |argv: &[&str]| match at.cage.spawn(payload(argv)).await {
            Err(SpawnError::NotStarted { why }) => why,
            other => panic!("{argv:?}: {other:?}"),
        };
        let looked = why(&["no-such-tool"]).await;
        assert!(
            looked.contains("no-such-tool was not found in the cage; looked in /run"),
            "{looked}"
        );
        assert!(
            why(&["/no/such"])
                .await
                .contains("/no/such does not exist in the cage")
        );
        assert!(
            why(&["./plain"])
                .await
                .contains("./plain is not executable in the cage")
        );
        assert!(
            why(&["./odd"])
                .await
                .contains("its interpreter or loader is not there")
        );
        assert!(why(&["/usr"]).await.contains("is not executable"));
        assert!(why(&[""]).await.contains("an empty command"));
        assert!(why(&[]).await.contains("an empty command"));
        assert!(why(&["a\0b"]).await.contains("NUL byte"));
        assert_eq!(at.cage.processes(), [], "a failed start left a process");
        // It is of no consequence for the next.
        assert_eq!(run(&at.cage, &["true"]).await.exit, Exit::Code(0));
    });
    let elsewhere = foreman_cage::CageSpec {
        workdir: "/no/such".into(),
        ..spec
    };
    in_cage(&elsewhere, async |at| {
        let error = at.cage.spawn(payload(&["true"])).await.unwrap_err();
        assert!(
            error.to_string().contains("working directory /no/such"),
            "{error}"
        );
    });
}

pub fn a_terminal_controls_its_program() {
    in_cage(&spec(), async |at| {
        let line = "stty size; tty; echo > /dev/tty && echo has-tty; trap 'stty size' WINCH; echo go; \
            read x; echo got $x; read y; exec sleep 1060.5";
        let stdio = PayloadStdio::Terminal {
            columns: 91,
            rows: 17,
        };
        let argv = ["sh", "-c", line].map(String::from).into();
        let child = at
            .cage
            .spawn(Payload {
                argv,
                env: vec![],
                stdio,
            })
            .await
            .unwrap();
        let terminal = child.terminal.unwrap();
        let mut reader = std::fs::File::from(terminal.try_clone().unwrap());
        let mut writer = std::fs::File::from(terminal.try_clone().unwrap());
        let mut seen = String::new();
        let mut read_until = |wanted: &str| {
            let mut buffer = [0; 1024];
            while !seen.contains(wanted) {
                let length = reader.read(&mut buffer).unwrap();
                seen.push_str(&String::from_utf8_lossy(&buffer[..length]));
            }
            std::mem::take(&mut seen)
        };
        let start = read_until("go\r\n");
        assert!(
            start.contains("17 91") && start.contains("/dev/pts/"),
            "{start}"
        );
        assert!(start.contains("has-tty"), "{start}");
        writer.write_all(b"word\n").unwrap();
        read_until("got word");
        at.cage.resize(terminal.as_fd(), 44, 33).unwrap();
        writer.write_all(b"\n").unwrap();
        read_until("33 44");
        // Ctrl-C, as a terminal does it; the shell might have swallowed it.
        until("it sleeps", || on_host("sleep\u{0}1060.5").len() == 1).await;
        writer.write_all(&[3]).unwrap();
        assert_eq!(at.cage.wait(child.pid).await, Exit::Signal(2));
    });
}

pub fn a_long_command_line_arrives_whole() {
    in_cage(&spec(), async |at| {
        let long = "x".repeat(100_000);
        let words: Vec<&str> = std::iter::repeat_n(long.as_str(), 10).collect();
        let mut argv = vec!["sh", "-c", "printf %s \"$@\" | wc -c", "sh"];
        argv.extend(words);
        let ended = run(&at.cage, &argv).await;
        assert_eq!(ended.out.trim(), "1000000", "{}", ended.error);
        let too_long = "x".repeat(200_000);
        let error = at
            .cage
            .spawn(payload(&["true", &too_long]))
            .await
            .unwrap_err();
        assert!(error.to_string().contains("too long"), "{error}");
    });
}

pub fn programs_run_side_by_side() {
    in_cage(&spec(), async |at| {
        let one = at
            .cage
            .spawn(payload(&["sh", "-c", "read x < fifo-a; exit $x"]));
        let cage = &at.cage;
        shell(cage, "mkfifo fifo-a").await;
        let one = one.await.unwrap();
        let others = futures_of(cage, 8).await;
        assert!(others.into_iter().all(|exit| exit == Exit::Code(3)));
        shell(cage, "echo 5 > fifo-a").await;
        assert_eq!(finish(cage, one).await.exit, Exit::Code(5));
    });
}

async fn futures_of(cage: &foreman_cage::Cage, count: usize) -> Vec<Exit> {
    let one = || async { run(cage, &["sh", "-c", "exit 3"]).await.exit };
    let mut exits = vec![];
    for _ in 0..count / 4 {
        let (a, b, c, d) = tokio::join!(one(), one(), one(), one());
        exits.extend([a, b, c, d]);
    }
    exits
}

pub fn a_script_without_a_first_line_is_a_shells() {
    let spec = spec();
    let path = worktree().join("script");
    std::fs::write(&path, "echo \"$0 $1\"\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    in_cage(&spec, async |at| {
        let ended = run(&at.cage, &["./script", "word"]).await;
        assert_eq!(
            (ended.exit, ended.out.as_str()),
            (Exit::Code(0), "./script word\n")
        );
    });
}

pub fn a_signal_reaches_the_whole_group() {
    in_cage(&spec(), async |at| {
        let line = "sleep 1000.25 & sleep 1000.25 & touch ready; wait";
        let child = at.cage.spawn(payload(&["sh", "-c", line])).await.unwrap();
        until("it is ready", || worktree().join("ready").exists()).await;
        until("three processes", || at.cage.processes().len() == 3).await;
        assert!(at.cage.processes().iter().any(|one| one.pid == child.pid));
        assert!(at.cage.processes().iter().any(|one| one.rss_bytes > 0));
        at.cage.signal(child.pid, libc::SIGTERM).unwrap();
        assert_eq!(at.cage.wait(child.pid).await, Exit::Signal(15));
        until("none is left", || at.cage.processes().is_empty()).await;
        // Signalling what has ended is no error and reaches nobody.
        at.cage.signal(child.pid, libc::SIGKILL).unwrap();
        assert_eq!(run(&at.cage, &["true"]).await.exit, Exit::Code(0));
    });
}

pub fn common_tools_work() {
    in_cage(&spec(), async |at| {
        shell(
            &at.cage,
            "mkdir r && cd r && git init -q && git -c user.name=a -c user.email=a@b \
            commit -q --allow-empty -m m && git log --oneline | wc -l",
        )
        .await;
        shell(
            &at.cage,
            "echo x > /tmp/a && mv /tmp/a /tmp/b && ln /tmp/b /tmp/c && echo y > ~/z",
        )
        .await;
        shell(
            &at.cage,
            "echo over > /dev/stdout; echo over > /dev/stderr; test -r /dev/urandom",
        )
        .await;
        assert_eq!(
            shell(&at.cage, "sort /etc/hostname | tr -d '\\n'").await,
            "cage-under-test"
        );
        shell(&at.cage, "mkdir -p /dev/shm/a && ps > /dev/null; true").await;
    });
}
