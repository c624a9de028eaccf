//! `foreman shell`: beside the agent, behind its walls, on a terminal and without one.

use anyhow::{Context, Result, ensure};
use foreman_domain::EventKind;
use foreman_testkit::suite::Case;
use foreman_testkit::{Arena, Product, Ran, Screen, Stage, cases_of, repos};
use serde_json::Value;

pub fn cases(stage: &Stage) -> Vec<Case<'_>> {
    cases_of!(
        stage,
        "shells",
        [
            a_command_in_the_cage_passes_its_output_and_its_exit_code_on,
            a_shell_meets_the_walls_that_the_agent_meets,
            what_a_shell_tries_is_held_like_the_agents_and_goes_on_when_amended,
            keys_go_to_the_shell_and_its_exit_code_comes_back,
            a_shell_that_wrecked_the_terminal_leaves_it_as_it_was,
            bytes_of_the_cage_that_a_terminal_shows_are_neutralised,
            the_shell_ends_with_the_cage_and_the_work_is_what_the_agent_left,
            without_a_live_run_or_a_command_there_is_a_sentence,
        ]
    )
}

fn arena(stage: &Stage) -> Result<Arena<'_>> {
    Arena::new(stage.product()?, &[])
}

/// `foreman shell RUN -- …`, without a terminal.
fn shell(product: &Product<'_>, run: &str, argv: &[&str]) -> Result<Ran> {
    let mut arguments = vec!["shell", run, "--"];
    arguments.extend(argv);
    product.call(arguments)
}

fn a_command_in_the_cage_passes_its_output_and_its_exit_code_on(stage: &Stage) -> Result<()> {
    let arena = arena(stage)?;
    let (product, run) = (arena.product(), arena.id());
    let script = "pwd; echo beside > from-shell.ignored; echo oops >&2; exit 42";
    let ran = shell(product, run, &["sh", "-c", script])?;
    ensure!(ran.code == 42, "{ran:?}");
    ensure!(ran.stderr == "oops\n", "{ran:?}");
    let worktree = arena.worktree().display().to_string();
    ensure!(ran.stdout == format!("{worktree}\n"), "{ran:?}");
    let seen = arena.exec(&["cat", "from-shell.ignored"])?;
    ensure!(seen.stdout == "beside\n", "not the agent's files: {seen:?}");
    let killed = shell(product, run, &["sh", "-c", "kill -9 $$"])?;
    ensure!(killed.code == 137, "{killed:?}");
    let missing = shell(product, run, &["no-such-program"])?;
    ensure!(missing.code == 3, "{missing:?}");
    let json = product.call(["shell", run, "--json", "--", "sh", "-c", "echo hi; exit 5"])?;
    ensure!(json.code == 5, "{json:?}");
    let lines: Vec<Value> = json
        .stdout
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?;
    let [chunk, end] = lines.as_slice() else {
        anyhow::bail!("{json:?}");
    };
    ensure!(
        chunk["stream"] == "stdout" && chunk["bytes"] == "aGkK",
        "{chunk}"
    );
    ensure!(end["ended"]["code"] == 5 && end["v"] == 1, "{end}");
    // Who, what and how is on record; what was said is not.
    let user = stage.bench.user();
    arena.run().wait_for("the shell is on record", |event| {
        let EventKind::ShellOpened { by, argv, .. } = &event.kind else {
            return None;
        };
        (*by == user && argv.last().is_some_and(|word| word == script)).then_some(())
    })?;
    arena.run().wait_for("its end is on record", |event| {
        let EventKind::ShellEnded { result, .. } = &event.kind else {
            return None;
        };
        (serde_json::to_value(result).ok()?["code"] == 42).then_some(())
    })?;
    ensure!(
        !arena.run().story().contains("oops\""),
        "its output was kept"
    );
    arena.finish()?;
    Ok(())
}

fn a_shell_meets_the_walls_that_the_agent_meets(stage: &Stage) -> Result<()> {
    let arena = arena(stage)?;
    let attack = stage.bench.program("fm-attack").display().to_string();
    for attempt in [
        "privileges",
        "calls",
        "namespaces",
        "mounts",
        "keys",
        "io-uring",
        "foreign-calls",
        "priority",
    ] {
        let agents = arena.attack(&[attempt])?;
        let ran = shell(arena.product(), arena.id(), &[&attack, attempt])?;
        let shells = ran.json()?;
        ensure!(agents == shells, "{attempt}: {agents} but {shells}");
    }
    // The same cage, not one like it; a user namespace of its own, as every payload has.
    let names = "for n in net mnt pid ipc uts cgroup; do readlink /proc/self/ns/$n; done; \
                 grep -E '^(Seccomp|Seccomp_filters|NoNewPrivs|CapEff|CapBnd):' /proc/self/status; \
                 cat /proc/self/uid_map /proc/sys/user/max_user_namespaces; env | sort";
    let agents = arena.shell(names)?;
    let shells = shell(arena.product(), arena.id(), &["/bin/sh", "-c", names])?;
    ensure!(agents.stdout.contains("net:["), "{agents:?}");
    ensure!(agents.stdout == shells.stdout, "{agents:?} but {shells:?}");
    for outside in [
        stage.bench.home().join(".gitconfig"),
        arena.product().data().join("state/foreman.db"),
        stage.bench.runtime(),
    ] {
        let outside = outside.display().to_string();
        let ran = shell(arena.product(), arena.id(), &["ls", "-d", &outside])?;
        ensure!(ran.code != 0, "{outside} is seen: {ran:?}");
    }
    let script = "echo x > /usr/x || echo no; echo x > .git || echo no; kill -9 1 || echo no";
    let ran = shell(arena.product(), arena.id(), &["sh", "-c", script])?;
    ensure!(
        ran.stdout == "no\nno\nno\n" || ran.stdout == "no\nno\n",
        "{ran:?}"
    );
    let alive = shell(arena.product(), arena.id(), &["echo", "still here"])?;
    ensure!(alive.stdout == "still here\n", "{alive:?}");
    arena.finish()?;
    Ok(())
}

fn what_a_shell_tries_is_held_like_the_agents_and_goes_on_when_amended(
    stage: &Stage,
) -> Result<()> {
    let arena = arena(stage)?;
    let product = arena.product();
    let mut curl = product.foreman([
        "shell",
        arena.id(),
        "--",
        "curl",
        "-sS",
        "-m",
        "100",
        "http://shell.example/",
    ]);
    let curl = curl
        .stdout(std::process::Stdio::piped())
        .spawn()
        .context("start foreman shell")?;
    let block = arena.block("tcp shell.example:80")?;
    product.amend(&block, &[])?;
    let out = curl.wait_with_output()?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    ensure!(out.status.success(), "{out:?}");
    ensure!(text.contains("hello from the far side"), "{text}");
    arena.finish()?;
    Ok(())
}

fn keys_go_to_the_shell_and_its_exit_code_comes_back(stage: &Stage) -> Result<()> {
    let arena = arena(stage)?;
    let mut screen = Screen::new(arena.product(), &["shell", arena.id(), "--", "/bin/sh"])?;
    screen.shows("Ctrl-] q ends it")?;
    screen.types("tty; stty size; echo in-$((40+2))\r")?;
    screen.shows("/dev/pts/")?;
    screen.shows("40 100")?;
    screen.shows("in-42")?;
    // Ctrl-C is the shell's, not ours.
    screen.types("echo sl''eeps; sleep 1000\r")?;
    screen.shows("sleeps")?;
    screen.types("\u{3}")?;
    screen.types("echo again-$?\r")?;
    screen.shows("again-130")?;
    screen.types("exit 9\r")?;
    ensure!(screen.ended()? == 9, "{}", screen.text());
    // Our own key ends it as well, and the run goes on.
    let mut screen = Screen::new(arena.product(), &["shell", arena.id()])?;
    screen.shows("Ctrl-] q ends it")?;
    screen.types("echo here-$((1+1))\r")?;
    screen.shows("here-2")?;
    screen.types("\u{1d}q")?;
    screen.ended()?;
    let alive = arena.exec(&["echo", "alive"])?;
    ensure!(alive.stdout == "alive\n", "{alive:?}");
    arena.finish()?;
    Ok(())
}

fn a_shell_that_wrecked_the_terminal_leaves_it_as_it_was(stage: &Stage) -> Result<()> {
    let arena = arena(stage)?;
    let wreck =
        r"printf '\033[?1049h\033[?1000h\033[?2004h\033[5;6r\033(0\033[?25l'; echo wreck''ed";
    let mut screen = Screen::new(arena.product(), &["shell", arena.id(), "--", "/bin/sh"])?;
    screen.shows("Ctrl-] q ends it")?;
    screen.types(&format!("{wreck}\r"))?;
    screen.shows("wrecked")?;
    let before = screen.mark();
    screen.types("exit\r")?;
    ensure!(screen.ended()? == 0, "{}", screen.text());
    let raw = screen.raw();
    let after = String::from_utf8_lossy(&raw[before..]).into_owned();
    for undone in [
        "\u{1b}[?1049l",
        "\u{1b}[?1000l",
        "\u{1b}[?2004l",
        "\u{1b}[r",
        "\u{1b}(B",
        "\u{1b}[?25h",
    ] {
        ensure!(after.contains(undone), "{undone:?} is missing in {after:?}");
    }
    arena.finish()?;
    Ok(())
}

fn bytes_of_the_cage_that_a_terminal_shows_are_neutralised(stage: &Stage) -> Result<()> {
    let arena = arena(stage)?;
    let hostile =
        r"printf '\033]52;c;ZXZpbA==\007\033[2Jred\342\200\256neck\n'; printf '\033]0;x\007' >&2";
    let screen = Screen::new(
        arena.product(),
        &["shell", arena.id(), "--no-tty", "--", "sh", "-c", hostile],
    )?;
    ensure!(screen.ended()? == 0, "{}", screen.text());
    screen.shows("neck")?;
    let raw = String::from_utf8_lossy(&screen.raw()).into_owned();
    for bad in ["\u{1b}]52", "\u{1b}[2J", "\u{202e}", "\u{1b}]0;x"] {
        ensure!(!raw.contains(bad), "{bad:?} came through: {raw:?}");
    }
    // A pipe gets what was written.
    let ran = shell(arena.product(), arena.id(), &["printf", r"\033[2J"])?;
    ensure!(ran.stdout == "\u{1b}[2J", "{ran:?}");
    arena.finish()?;
    Ok(())
}

fn the_shell_ends_with_the_cage_and_the_work_is_what_the_agent_left(stage: &Stage) -> Result<()> {
    let arena = arena(stage)?;
    let script =
        "trap '' HUP INT TERM; echo in; while :; do sleep 0.05; echo late > late.txt; done";
    let mut command = arena
        .product()
        .foreman(["shell", arena.id(), "--", "sh", "-c", script]);
    let mut running = command
        .stdout(std::process::Stdio::piped())
        .spawn()
        .context("start foreman shell")?;
    arena.run().wait_for("the shell is on record", |event| {
        matches!(event.kind, EventKind::ShellOpened { .. }).then_some(())
    })?;
    let code = arena.finish()?;
    let ended = running.wait()?;
    ensure!(ended.code() == Some(137), "{ended:?}");
    ensure!(code == 0 || code == 1, "the run ended with {code}");
    let refused = shell(arena.product(), arena.id(), &["true"])?;
    ensure!(refused.code == 4, "{refused:?}");
    Ok(())
}

fn without_a_live_run_or_a_command_there_is_a_sentence(stage: &Stage) -> Result<()> {
    let product = stage.product()?;
    let none = shell(&product, "last", &["true"])?;
    ensure!(none.code == 3, "{none:?}");
    let repo = repos::plain(&stage.bench, "over")?;
    let run = product.run_to_end(&repo, &[], &["true"])?;
    let id = run.id()?;
    let over = shell(&product, &id, &["true"])?;
    ensure!(over.code == 4, "{over:?}");
    ensure!(over.stderr.contains("is not running"), "{over:?}");
    ensure!(
        over.stderr.contains(&format!("foreman diff {id}")),
        "{over:?}"
    );
    let bare = product.call(["shell", &id])?;
    ensure!(
        bare.code == 2 && bare.stderr.contains("needs a command"),
        "{bare:?}"
    );
    Ok(())
}
