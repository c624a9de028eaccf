//! Calls on files that wait: each is asked about, and ends as it was answered.

use crate::fixture::{ATTACKER, attack, finish, home, payload, run, until, worktree};
use crate::operator::{Held, Told, belongs_to_the_cage, held, held_with, outside};
use foreman_cage::Exit;
use foreman_cage::files::{Config, FileVerdict, Target};
use foreman_domain::FileAccess;
use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

fn show(root: &Path) -> FileVerdict {
    FileVerdict::Show {
        root: root.to_owned(),
        access: FileAccess::Write,
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The answers of an attack, by name.
fn answers(text: &str) -> HashMap<&str, &str> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .collect()
}

#[cfg(target_arch = "x86_64")]
const OLD: &[&str] = &[
    "open",
    "creat",
    "mkdir",
    "mknod",
    "unlink",
    "rename",
    "renameat",
    "link",
    "symlink",
    "chmod",
    "chown",
    "lchown",
    "utime",
    "utimes",
    "futimesat",
    "rmdir",
];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[&str] = &[];

const FAMILY: &[&str] = &[
    "openat",
    "openat-old",
    "openat-tmpfile",
    "openat2",
    "mkdirat",
    "mknodat",
    "unlinkat",
    "renameat2",
    "linkat",
    "symlinkat",
    "truncate",
    "fchmodat",
    "fchmodat2",
    "fchownat",
    "utimensat",
    "setxattr",
    "lsetxattr",
    "removexattr",
];

pub fn each_call_that_writes_waits_and_goes_on_in_what_is_shown() {
    held(async |mut held| {
        let outside = outside();
        let calls: Vec<&str> = FAMILY.iter().chain(OLD).copied().collect();
        for call in &calls {
            let folder = outside.join(call);
            std::fs::create_dir_all(folder.join("empty")).unwrap();
            std::fs::write(folder.join("old"), "old words").unwrap();
            for path in [&folder, &folder.join("old"), &folder.join("empty")] {
                belongs_to_the_cage(path);
            }
        }
        let cage = &held.at.cage;
        let arguments = ["family", text(&outside)];
        let family = attack(cage, "file", &arguments);
        let answering = async {
            for call in &calls {
                let asked = held.asked.recv().await.unwrap();
                let attempt = &asked.attempt;
                assert_eq!(attempt.call, call.split('-').next().unwrap());
                assert_eq!(attempt.access, FileAccess::Write, "{call}");
                let folder = outside.join(call);
                assert!(attempt.path.starts_with(&folder), "{call}: {attempt:?}");
                assert!(
                    attempt.process.argv.join(" ").contains("family"),
                    "{attempt:?}"
                );
                asked.answer(show(&folder));
            }
        };
        let (said, ()) = tokio::join!(family, answering);
        let said = answers(&said);
        for call in &calls {
            // There is no attribute to take away; that is the file system's own answer.
            let wanted: &[&str] = match *call {
                "removexattr" => &["61"],
                "setxattr" | "lsetxattr" => &["done", "95"],
                _ => &["done"],
            };
            assert!(wanted.contains(&said[call]), "{call}: {}", said[call]);
        }
        for made in ["openat", "mkdirat", "mknodat", "renameat2", "linkat"] {
            assert!(outside.join(made).join("new").exists(), "{made}");
        }
        assert!(!outside.join("unlinkat/old").exists());
        assert_eq!(std::fs::read(outside.join("truncate/old")).unwrap(), b"o");
        held.nobody_asks();
    });
}

pub fn once_gives_a_descriptor_with_the_callers_mode_and_flags() {
    held(async |mut held| {
        let path = outside().join("once");
        let cage = &held.at.cage;
        let answering = async {
            let asked = held.asked.recv().await.unwrap();
            let attempt = &asked.attempt;
            assert_eq!(
                (attempt.path.as_path(), attempt.target),
                (path.as_path(), Target::Absent)
            );
            assert!(attempt.can_once && attempt.needs_folder);
            asked.answer(FileVerdict::Once);
        };
        let arguments = ["make", text(&path)];
        let (said, ()) = tokio::join!(attack(cage, "file", &arguments), answering);
        let said = answers(&said);
        for name in ["append", "mode", "cloexec"] {
            assert_eq!(said[name], "true", "{name}");
        }
        assert_eq!(said["write"], "done");
        // Nor can it be opened anew, to be read as well.
        assert_eq!(
            (said["again"], said["read"], said["around"]),
            ("13", "13", "20")
        );
        assert_eq!(std::fs::read(&path).unwrap(), b"word");
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o640, "its mask counted");
        // Nothing but that one descriptor was given.
        let line = format!("test -e '{}'", path.display());
        assert_eq!(run(cage, &["sh", "-c", &line]).await.exit, Exit::Code(1));
    });
}

pub fn what_is_refused_is_seen_as_the_kernels_own_refusal() {
    let config = Config {
        reads: true,
        ..Config::default()
    };
    held_with(&crate::fixture::spec(), config, async |mut held| {
        let outside = outside();
        std::fs::write(outside.join("there"), "words").unwrap();
        belongs_to_the_cage(&outside.join("there"));
        for (arguments, answer) in [
            (["make", text(&outside.join("new"))], "open 13"),
            (["read", text(&outside.join("there"))], "read 2"),
        ] {
            let said = refused(&mut held, &arguments).await;
            assert_eq!(said.trim(), answer);
        }
        // A read that is allowed is one of the folder as it is.
        let file = outside.join("there");
        let cage = &held.at.cage;
        let answering = async {
            let asked = held.asked.recv().await.unwrap();
            assert_eq!(asked.attempt.access, FileAccess::Read);
            asked.answer(FileVerdict::Show {
                root: outside.clone(),
                access: FileAccess::Read,
            });
        };
        let arguments = ["read", text(&file)];
        let (said, ()) = tokio::join!(attack(cage, "file", &arguments), answering);
        assert_eq!(said.trim(), "read words");
        // Writing is another question.
        let said = refused(&mut held, &["make", text(&outside.join("new"))]).await;
        assert_eq!(said.trim(), "open 13");
        assert!(!outside.join("new").exists());
    });
}

/// Runs an attack whose one question is refused.
async fn refused(held: &mut Held, arguments: &[&str]) -> String {
    let cage = &held.at.cage;
    let refusing = async { held.asked.recv().await.unwrap().answer(FileVerdict::Refuse) };
    tokio::join!(attack(cage, "file", arguments), refusing).0
}

pub fn eight_calls_wait_while_a_ninth_thread_goes_on() {
    held(async |mut held| {
        let outside = outside();
        let cage = &held.at.cage;
        let answering = async {
            let mut waiting = vec![];
            for _ in 0..8 {
                waiting.push(held.asked.recv().await.unwrap());
            }
            // Level: the ninth has done more since all the others wait.
            let count = || std::fs::read_to_string(worktree().join("count")).unwrap_or_default();
            let before = count();
            until("the ninth goes on", || {
                !count().is_empty() && count() != before
            })
            .await;
            waiting.pop().unwrap().answer(show(&outside));
            waiting
                .into_iter()
                .for_each(|asked| asked.answer(show(&outside)));
        };
        let arguments = ["threads", text(&outside)];
        let (said, ()) = tokio::join!(attack(cage, "file", &arguments), answering);
        assert_eq!(said, "outside 8\ninside true\n");
    });
}

pub fn programs_are_held_side_by_side() {
    held(async |mut held| {
        let outside = outside();
        let cage = &held.at.cage;
        let mut children = vec![];
        let mut waiting = vec![];
        for name in ["one", "two", "three"] {
            let line = format!("echo {name} > '{}'", outside.join(name).display());
            let program = payload(&["sh", "-c", &line]);
            children.push(cage.spawn_beside(program).await.unwrap());
            waiting.push(held.asked.recv().await.unwrap());
        }
        // The last one first; the others go on waiting.
        for asked in waiting.into_iter().rev() {
            assert!(!asked.attempt.path.exists());
            asked.answer(FileVerdict::Once);
            assert_eq!(cage.wait(children.pop().unwrap().pid).await, Exit::Code(0));
        }
        let made = std::fs::read_dir(&outside).unwrap().count();
        assert_eq!(made, 3);
    });
}

pub fn signals_that_do_not_kill_leave_a_call_waiting() {
    held(async |mut held| {
        let outside = outside();
        for name in ["interrupted", "restarted"] {
            let path = outside.join(name);
            let cage = &held.at.cage;
            let answering = async {
                let asked = held.asked.recv().await.unwrap();
                // Many times as long as the timer.
                let pid = asked.attempt.process.pid;
                let ticks = || signals_caught(cage, pid);
                until("signals are pending", ticks).await;
                tokio::time::timeout(
                    std::time::Duration::from_millis(100),
                    asked.attempt.gone.cancelled(),
                )
                .await
                .unwrap_err();
                asked.answer(FileVerdict::Once);
            };
            let arguments = [name, text(&path)];
            let (said, ()) = tokio::join!(attack(cage, "file", &arguments), answering);
            assert_eq!(said, "open done\n", "{name}");
            held.nobody_asks();
        }
    });
}

/// Whether a signal waits for a process that is held.
fn signals_caught(cage: &foreman_cage::Cage, inside: u32) -> bool {
    let _ = cage;
    let status = crate::fixture::on_host("\0file\0")
        .into_iter()
        .find_map(|pid| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let line = status.lines().find(|line| line.starts_with("NSpid:"))?;
            line.ends_with(&format!("\t{inside}")).then_some(status)
        });
    status.is_some_and(|status| {
        let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:"));
        pending.is_some_and(|bits| bits.trim() != "0000000000000000")
    })
}

pub fn a_caller_that_is_killed_leaves_nothing_behind() {
    held(async |mut held| {
        let path = outside().join("killed");
        let child = held
            .at
            .cage
            .spawn(payload(&[ATTACKER, "attack", "file", "make", text(&path)]))
            .await
            .unwrap();
        let asked = held.next().await;
        held.at.cage.signal(child.pid, libc::SIGKILL).unwrap();
        asked.attempt.gone.cancelled().await;
        assert_eq!(held.at.cage.wait(child.pid).await, Exit::Signal(9));
        asked.answer(FileVerdict::Once);
        assert_eq!(run(&held.at.cage, &["true"]).await.exit, Exit::Code(0));
        assert!(!path.exists());
    });
}

pub fn when_nobody_answers_any_more_calls_fail() {
    held(async |mut held| {
        let outside = outside();
        let steps = worktree().join("steps");
        nix::unistd::mkfifo(&steps, nix::sys::stat::Mode::from_bits_truncate(0o666)).unwrap();
        belongs_to_the_cage(&steps);
        let child = held
            .at
            .cage
            .spawn(payload(&[
                ATTACKER,
                "attack",
                "file",
                "steps",
                text(&steps),
            ]))
            .await
            .unwrap();
        let mut lines = std::fs::OpenOptions::new()
            .write(true)
            .open(&steps)
            .unwrap();
        let first = outside.join("first");
        let inside = worktree().join("inside");
        use std::io::Write as _;
        writeln!(
            lines,
            "{}\n{}\n{}",
            inside.display(),
            first.display(),
            inside.display()
        )
        .unwrap();
        let asked = held.next().await;
        held.cancel.cancel();
        drop(lines);
        let ended = finish(&held.at.cage, child).await;
        let answers: Vec<&str> = ended
            .out
            .lines()
            .map(|line| line.rsplit_once(' ').unwrap().1)
            .collect();
        // The one that waited, and every later one, allowed as it may be.
        assert_eq!(answers, ["done", "38", "38"], "{ended:?}");
        asked.answer(show(&outside));
        assert!(!first.exists());
        // Not even a program can be started behind a filter that nobody serves.
        held.at.cage.spawn(payload(&["true"])).await.unwrap_err();
        assert!(!home().join("outside/first").exists());
    });
}

pub fn a_hidden_program_waits_where_reads_do() {
    let config = Config {
        reads: true,
        ..Config::default()
    };
    held_with(&crate::fixture::spec(), config, async |mut held| {
        let outside = outside();
        let tool = outside.join("tool");
        std::fs::write(&tool, "#!/bin/sh\nexit 3\n").unwrap();
        std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
        let cage = &held.at.cage;
        let answering = async {
            let asked = held.asked.recv().await.unwrap();
            let attempt = &asked.attempt;
            assert_eq!((attempt.call, attempt.access), ("execve", FileAccess::Read));
            assert_eq!(
                (attempt.path.as_path(), attempt.can_once),
                (tool.as_path(), false)
            );
            asked.answer(FileVerdict::Show {
                root: outside.clone(),
                access: FileAccess::Read,
            });
        };
        let argv = ["sh", "-c", text(&tool)];
        let (ended, ()) = tokio::join!(run(cage, &argv), answering);
        assert_eq!(ended.exit, Exit::Code(3), "{ended:?}");
        held.nobody_asks();
        let told = held.told.lock().unwrap();
        let is_tool =
            |told: &&Told| matches!(told, Told::Executed(program) if program.path == tool);
        assert_eq!(told.iter().filter(is_tool).count(), 1, "{told:?}");
    });
}
