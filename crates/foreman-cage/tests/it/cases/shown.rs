//! What is shown in a running cage, and hidden again.

use crate::fixture::{
    ATTACKER, ROOT_MAPS_TO, attack, folder, home, in_cage, payload, run, shell, spec, until,
    worktree,
};
use crate::operator::{Told, belongs_to_the_cage, held, held_with, outside};
use foreman_cage::files::{Config, FileVerdict, ShowError};
use foreman_cage::{Bind, Cage, Exit, Launched, launch_ahead};
use foreman_domain::FileAccess::{Read, Write};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

async fn fails(cage: &Cage, line: &str) {
    let ended = run(cage, &["sh", "-c", line]).await;
    assert_ne!(ended.exit, Exit::Code(0), "{line}: {ended:?}");
}

pub fn what_is_shown_is_live_and_hidden_again() {
    in_cage(&spec(), async |at| {
        let outside = outside();
        std::fs::write(outside.join("file"), "words").unwrap();
        let out = outside.display();
        let cage = &at.cage;
        fails(cage, &format!("cat '{out}/file'")).await;
        cage.show(&outside, Read).await.unwrap();
        assert_eq!(shell(cage, &format!("cat '{out}/file'")).await, "words");
        fails(cage, &format!("echo > '{out}/new'")).await;
        // Shown already; then more of it.
        cage.show(&outside, Read).await.unwrap();
        cage.show(&outside, Write).await.unwrap();
        shell(cage, &format!("echo inside > '{out}/new'")).await;
        let made = outside.join("new").metadata().unwrap();
        if nix::unistd::geteuid().is_root() {
            assert_eq!(made.uid(), ROOT_MAPS_TO);
        }
        let options = shell(cage, "grep outside /proc/self/mountinfo").await;
        assert!(
            options
                .lines()
                .all(|line| line.contains("nosuid") && line.contains("nodev")),
            "{options}"
        );
        assert!(cage.hide(&outside).await.unwrap());
        fails(cage, &format!("ls '{out}'")).await;
        assert!(!cage.hide(&outside).await.unwrap());
        assert!(outside.join("new").exists(), "hiding takes nothing away");
        // Whoever makes the folder now makes the cage's own.
        let listed = shell(cage, "ls -A ~").await;
        assert_eq!(listed, "trees\n", "no mount point is left");
        // And once more.
        cage.show(&outside, Write).await.unwrap();
        assert_eq!(shell(cage, &format!("cat '{out}/new'")).await, "inside\n");
    });
    assert!(!worktree().join("outside").exists());
}

pub fn a_single_file_is_shown_and_hidden_again() {
    in_cage(&spec(), async |at| {
        let file = outside().join("one");
        std::fs::write(&file, "one").unwrap();
        std::fs::write(file.with_file_name("other"), "other").unwrap();
        belongs_to_the_cage(&file);
        let (cage, path) = (&at.cage, file.display());
        cage.show(&file, Write).await.unwrap();
        assert_eq!(
            shell(
                cage,
                &format!("cat '{path}'; echo more >> '{path}'; ls ~/outside")
            )
            .await,
            "oneone\n"
        );
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "onemore\n");
        assert!(cage.hide(&file).await.unwrap());
        fails(cage, &format!("cat '{path}'")).await;
        assert_eq!(shell(cage, "ls -A ~").await, "trees\n");
    });
}

pub fn what_is_open_stays_open_when_it_is_hidden() {
    in_cage(&spec(), async |at| {
        let outside = outside();
        let cage = &at.cage;
        cage.show(&outside, Write).await.unwrap();
        let line = format!(
            "exec 3>'{0}/log'; touch open; while ! test -e go; do :; done; echo last >&3; echo > '{0}/new'",
            outside.display()
        );
        let child = cage.spawn(payload(&["sh", "-c", &line])).await.unwrap();
        until("it is open", || worktree().join("open").exists()).await;
        assert!(cage.hide(&outside).await.unwrap());
        std::fs::write(worktree().join("go"), "").unwrap();
        assert_ne!(cage.wait(child.pid).await, Exit::Code(0));
        assert_eq!(
            std::fs::read_to_string(outside.join("log")).unwrap(),
            "last\n"
        );
        assert!(!outside.join("new").exists());
    });
}

pub fn what_the_cage_shows_in_its_own_way_is_never_covered() {
    let mut spec = spec();
    let hidden = home().join("engine");
    std::fs::create_dir_all(&hidden).unwrap();
    spec.hidden.push(hidden.clone());
    let (private, code) = (folder().join("private"), home().join("code"));
    for path in [&private, &code.join(".git/hooks")] {
        std::fs::create_dir_all(path).unwrap();
    }
    spec.binds.push(Bind {
        source: private,
        target: code.join(".git"),
        writable: true,
    });
    let closed = home().join("closed");
    std::fs::create_dir_all(&closed).unwrap();
    let config = Config {
        closed: vec![closed.clone()],
        ..Config::default()
    };
    held_with(&spec, config, async |mut held| {
        let cage = &held.at.cage;
        for root in [
            Path::new("/"),
            Path::new("/tmp"),
            Path::new("/usr"),
            Path::new("/usr/bin"),
            Path::new("/etc/ssh"),
            Path::new("/proc/self"),
            Path::new("/dev/shm"),
            Path::new("/run/foreman/bin"),
            &home(),
            &folder(),
            &worktree().join(".git"),
            &home().join("trees"),
            &code,
            &code.join(".git"),
            &code.join(".git/hooks"),
            &hidden,
            &hidden.join("state"),
            &closed,
            &closed.join("x"),
            Path::new("relative"),
            &home().join("a/../b"),
        ] {
            let error = cage.show(root, Write).await.unwrap_err();
            let is_fixed = matches!(error, ShowError::Closed { .. } | ShowError::Covers { .. });
            assert!(is_fixed, "{}: {error}", root.display());
        }
        let line = format!(
            "echo > '{}/x' || echo > '{}/hooks/x'",
            closed.display(),
            code.join(".git").display()
        );
        fails(cage, &line).await;
        held.nobody_asks();
    });
}

pub fn a_place_that_is_bent_meanwhile_is_no_way_into_the_host() {
    in_cage(&spec(), async |at| {
        let source = home().join("way/shown");
        std::fs::create_dir_all(&source).unwrap();
        let cage = &at.cage;
        let place = home();
        let argv = [ATTACKER, "attack", "file", "bend", text(&place)];
        let child = cage.spawn(payload(&argv)).await.unwrap();
        let mut shown = 0;
        for _ in 0..40 {
            match cage.show(&source, Write).await {
                Ok(()) => {
                    shown += 1;
                    assert!(cage.hide(&source).await.unwrap());
                }
                Err(ShowError::NoPlace { .. } | ShowError::Kernel { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        cage.signal(child.pid, 9).unwrap();
        cage.wait(child.pid).await;
        assert!(!worktree().join("shown").exists(), "made on the host");
        let mounts = shell(cage, "cat /proc/self/mountinfo").await;
        assert!(!mounts.contains("shown"), "{shown}: {mounts}");
    });
}

pub fn a_source_that_is_not_what_was_shown_is_refused() {
    in_cage(&spec(), async |at| {
        let outside = outside();
        let cage = &at.cage;
        std::os::unix::fs::symlink("/etc", outside.join("link")).unwrap();
        let error = cage
            .show(&outside.join("link/ssl"), Read)
            .await
            .unwrap_err();
        assert!(matches!(error, ShowError::Linked(_)), "{error}");
        let error = cage.show(&outside.join("link"), Read).await.unwrap_err();
        assert!(matches!(error, ShowError::Linked(_)), "{error}");
        let error = cage.show(&outside.join("gone"), Read).await.unwrap_err();
        assert!(matches!(error, ShowError::Gone(_)), "{error}");
        let pipe = outside.join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
        let error = cage.show(&pipe, Read).await.unwrap_err();
        assert!(matches!(error, ShowError::NoFile(_)), "{error}");
        // What a program puts in the way of a mount point.
        shell(cage, "ln -s /etc ~/bent; touch ~/file").await;
        for name in ["bent", "file"] {
            let source = home().join(name).join("in");
            std::fs::create_dir_all(&source).unwrap();
            let error = cage.show(&source, Write).await.unwrap_err();
            assert!(
                matches!(error, ShowError::NoPlace { .. }),
                "{name}: {error}"
            );
        }
        assert_eq!(
            shell(cage, "ls -A ~ | sort | tr '\\n' ' '").await,
            "bent file trees "
        );
    });
}

pub fn host_sockets_need_another_question() {
    in_cage(&spec(), async |at| {
        let outside = outside();
        let socket = outside.join("d/s");
        std::fs::create_dir_all(socket.parent().unwrap()).unwrap();
        let _listener = UnixListener::bind(&socket).unwrap();
        for root in [&outside, &socket] {
            let error = at.cage.show(root, Read).await.unwrap_err();
            let ShowError::Sockets { at: found, .. } = error else {
                panic!("{error}");
            };
            assert_eq!(found.components().collect::<std::path::PathBuf>(), socket);
        }
        assert_eq!(shell(&at.cage, "ls -A ~").await, "trees\n");
        at.cage.show_with_sockets(&outside, Read).await.unwrap();
        shell(&at.cage, &format!("test -S '{}'", socket.display())).await;
    });
}

pub fn a_verdict_that_cannot_be_carried_out_refuses_the_call() {
    held(async |mut held| {
        let outside = outside();
        let path = outside.join("new");
        let cage = &held.at.cage;
        let answering = async {
            let asked = held.asked.recv().await.unwrap();
            asked.answer(FileVerdict::Show {
                root: home(),
                access: Write,
            });
        };
        let arguments = ["make", text(&path)];
        let (said, ()) = tokio::join!(attack(cage, "file", &arguments), answering);
        assert_eq!(said, "open 13\n");
        let told = held.told.lock().unwrap();
        let not_shown = |told: &&Told| matches!(told, Told::NotShown(root, _) if *root == home());
        assert_eq!(told.iter().filter(not_shown).count(), 1, "{told:?}");
    });
}

pub fn a_link_of_the_host_leads_to_what_is_shown() {
    held(async |mut held| {
        let outside = outside();
        let linked = home().join("linked");
        std::os::unix::fs::symlink(&outside, &linked).unwrap();
        let path = linked.join("new");
        let cage = &held.at.cage;
        let answering = async {
            let asked = held.asked.recv().await.unwrap();
            assert_eq!(asked.attempt.path, outside.join("new"));
            asked.answer(FileVerdict::Show {
                root: outside.clone(),
                access: Write,
            });
        };
        let line = format!("echo words > '{}'", path.display());
        let (_, ()) = tokio::join!(shell(cage, &line), answering);
        assert_eq!(
            std::fs::read_to_string(outside.join("new")).unwrap(),
            "words\n"
        );
        // Hidden again, it is asked about again.
        assert!(held.at.cage.hide(&outside).await.unwrap());
        let cage = &held.at.cage;
        let refusing = async {
            let asked = held.asked.recv().await.unwrap();
            assert_eq!(asked.attempt.path, outside.join("new"));
            asked.answer(FileVerdict::Refuse);
        };
        tokio::join!(fails(cage, &line), refusing);
    });
}

pub fn a_program_started_ahead_is_held_like_any() {
    let path = outside().join("ahead");
    let script = payload(&["sh", "-c", &format!("echo words > '{}'", path.display())]);
    let (launched, ()) = launch_ahead(&spec(), Some(script.clone()), || ());
    let launched: Launched = launched.unwrap();
    crate::fixture::serve(launched, async |at| {
        let mut held = crate::operator::Held::begin(at, Config::default());
        assert!(held.at.cage.probe().await.iter().all(|result| result.holds));
        held.nobody_asks();
        let child = held.at.cage.spawn(script).await.unwrap();
        let asked = held.next().await;
        assert_eq!(asked.attempt.process.pid, child.pid);
        asked.answer(FileVerdict::Once);
        assert_eq!(held.at.cage.wait(child.pid).await, Exit::Code(0));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "words\n");
        assert_eq!(held.at.cage.why_files_are_not_held(), None);
    });
}

pub fn programs_are_told_with_their_arguments_and_ends() {
    held(async |held| {
        let line = "/bin/echo one two; cd sub && ../fail; no-such-tool; (exec sleep 3000.5) & kill -9 $!; wait";
        std::fs::create_dir(worktree().join("sub")).unwrap();
        let script = worktree().join("fail");
        std::fs::write(&script, "#!/bin/sh\nexit 7\n").unwrap();
        for path in [worktree().join("sub"), script.clone()] {
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
                .unwrap();
        }
        let child = held
            .at
            .cage
            .spawn(payload(&["sh", "-c", line]))
            .await
            .unwrap();
        held.at.cage.wait(child.pid).await;
        let told = std::sync::Arc::clone(&held.told);
        let exits = || {
            let told = told.lock().unwrap();
            told.iter()
                .filter(|told| matches!(told, Told::Exited(_)))
                .count()
        };
        until("three ends are told", || exits() >= 3).await;
        let told = told.lock().unwrap().clone();
        let executed: Vec<_> = told
            .iter()
            .filter_map(|told| match told {
                Told::Executed(program) => Some(program),
                _ => None,
            })
            .collect();
        let find = |name: &str| {
            let found = executed.iter().find(|program| program.path.ends_with(name));
            *found.unwrap_or_else(|| panic!("{name}: {executed:?}"))
        };
        let (shell, echo, fail) = (find("sh"), find("echo"), find("fail"));
        assert_eq!((shell.pid, shell.parent), (child.pid, 1));
        assert_eq!(
            (echo.parent, echo.argv.as_slice()),
            (
                child.pid,
                &["/bin/echo", "one", "two"].map(str::to_owned)[..]
            )
        );
        assert_eq!(echo.cwd, worktree());
        assert_eq!(
            (fail.cwd.clone(), fail.argv[0].as_str()),
            (worktree().join("sub"), "../fail")
        );
        assert!(
            !executed
                .iter()
                .any(|program| program.path.ends_with("no-such-tool"))
        );
        let end = |pid: u32| {
            told.iter().find_map(|told| match told {
                Told::Exited(end) if end.pid == pid => Some(end.exit),
                _ => None,
            })
        };
        assert_eq!(end(echo.pid), Some(Some(Exit::Code(0))));
        assert_eq!(end(fail.pid), Some(Some(Exit::Code(7))));
    });
}

pub fn a_folder_that_may_be_written_stays_so_below_one_that_may_be_read() {
    in_cage(&spec(), async |at| {
        let outside = outside();
        let inner = outside.join("inner");
        std::fs::create_dir(&inner).unwrap();
        belongs_to_the_cage(&inner);
        let (cage, out) = (&at.cage, outside.display());
        cage.show(&inner, Write).await.unwrap();
        cage.show(&outside, Read).await.unwrap();
        shell(cage, &format!("echo > '{out}/inner/one'")).await;
        fails(cage, &format!("echo > '{out}/one'")).await;
        assert!(cage.hide(&outside).await.unwrap());
        shell(cage, &format!("echo > '{out}/inner/two'")).await;
        assert_eq!(shell(cage, &format!("ls '{out}'")).await, "inner\n");
        assert!(cage.hide(&inner).await.unwrap());
        assert_eq!(shell(cage, "ls -A ~").await, "trees\n");
    });
}

pub fn what_is_mounted_below_it_later_on_the_host_does_not_appear() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped as an ordinary user: only root can mount something on the host");
        return;
    }
    // In a copy of the host's mounts that shares what is mounted, as a desktop's do.
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).unwrap();
    let mount = |source: Option<&str>, at: &Path, kind: Option<&str>, flags| {
        nix::mount::mount(source, at, kind, flags, None::<&str>).unwrap();
    };
    use nix::mount::MsFlags;
    mount(
        None,
        Path::new("/"),
        None,
        MsFlags::MS_REC | MsFlags::MS_PRIVATE,
    );
    let outside = outside();
    mount(Some("shared"), &outside, Some("tmpfs"), MsFlags::empty());
    mount(None, &outside, None, MsFlags::MS_SHARED);
    let later = outside.join("later");
    std::fs::create_dir(&later).unwrap();
    in_cage(&spec(), async |at| {
        at.cage.show(&outside, Read).await.unwrap();
        mount(Some("later"), &later, Some("tmpfs"), MsFlags::empty());
        std::fs::write(later.join("secret"), "secret").unwrap();
        let line = format!("ls -A '{}'", later.display());
        assert_eq!(shell(&at.cage, &line).await, "");
    });
    nix::mount::umount2(&later, nix::mount::MntFlags::MNT_DETACH).unwrap();
    nix::mount::umount2(&outside, nix::mount::MntFlags::MNT_DETACH).unwrap();
}
