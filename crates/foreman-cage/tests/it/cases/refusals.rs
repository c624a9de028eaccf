//! Cages that are not built, and what is said then.

use crate::fixture::{ROOT_MAPS_TO, folder, home, in_cage, shell, spec, words, worktree};
use foreman_cage::{Bind, CageSpec, LaunchError, Step, launch};
use foreman_domain::Wall;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use std::os::unix::fs::symlink;
use std::path::Path;

fn refused(spec: &CageSpec) -> LaunchError {
    launch(spec).map(|_| ()).expect_err("a cage was built")
}

fn with_bind(source: &Path, target: &Path) -> CageSpec {
    let mut spec = spec();
    spec.binds.push(Bind {
        source: source.into(),
        target: target.into(),
        writable: true,
    });
    spec
}

pub fn a_linked_source_is_refused() {
    let real = folder().join("real");
    std::fs::create_dir(&real).unwrap();
    symlink(&real, folder().join("link")).unwrap();
    std::fs::create_dir(real.join("below")).unwrap();
    for source in ["link", "link/below"] {
        let error = refused(&with_bind(&folder().join(source), &home().join("x")));
        assert_eq!(
            (error.step, error.errno()),
            (Step::OpenSource, Some(libc::ELOOP))
        );
        assert_eq!(error.wall, None);
        assert!(error.remedy.unwrap().contains("symbolic links"));
        assert!(error.detail.contains(source));
    }
    let error = refused(&with_bind(&folder().join("absent"), &home().join("x")));
    assert_eq!(
        (error.step, error.errno()),
        (Step::OpenSource, Some(libc::ENOENT))
    );
}

pub fn a_source_that_is_no_file_is_refused() {
    let socket = folder().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for source in [socket.as_path(), Path::new("/dev/null")] {
        let error = refused(&with_bind(source, &home().join("x")));
        assert_eq!(error.step, Step::OpenSource, "{}", words(&error));
        assert!(
            error.to_string().contains("only files and directories"),
            "{}",
            words(&error)
        );
    }
}

pub fn a_missing_target_in_a_host_directory_is_refused() {
    let source = folder().join("real");
    std::fs::create_dir(&source).unwrap();
    let error = refused(&with_bind(&source, &worktree().join("not/there")));
    assert_eq!(error.step, Step::PlaceBind);
    assert!(
        error
            .to_string()
            .contains("none is made in a directory of the host")
    );
    assert!(!worktree().join("not").exists());
}

pub fn a_linked_target_is_refused() {
    let source = folder().join("real");
    std::fs::create_dir(&source).unwrap();
    let spec = with_bind(&source, &worktree().join("planted"));
    symlink("/usr", worktree().join("planted")).unwrap();
    let error = refused(&spec);
    assert_eq!(
        (error.step, error.errno()),
        (Step::PlaceBind, Some(libc::ELOOP))
    );
}

pub fn a_second_thread_is_refused() {
    let spec = spec();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || stopped.recv());
    let error = refused(&spec);
    assert_eq!(error.step, Step::CountThreads);
    assert!(error.to_string().contains("2 threads"), "{}", words(&error));
    drop(stop);
    let _ = thread.join();
}

pub fn an_impossible_specification_is_refused() {
    for spec in [
        CageSpec {
            hostname: "a b".into(),
            ..spec()
        },
        CageSpec {
            home: "/".into(),
            ..spec()
        },
        CageSpec {
            processes: 0,
            ..spec()
        },
        with_bind(&home(), Path::new("/usr")),
    ] {
        assert_eq!(refused(&spec).step, Step::CheckSpec);
    }
    if nix::unistd::geteuid().is_root() {
        let error = refused(&CageSpec {
            root_maps_to: 0,
            ..spec()
        });
        assert_eq!(error.step, Step::DropRoot, "{}", words(&error));
    }
}

pub fn a_missing_program_of_why_is_refused() {
    let error = refused(&CageSpec {
        why_program: "/no/such".into(),
        ..spec()
    });
    assert_eq!(
        (error.step, error.errno()),
        (Step::OpenSource, Some(libc::ENOENT))
    );
}

pub fn a_failed_launch_leaves_no_process() {
    for _ in 0..5 {
        refused(&with_bind(&folder().join("absent"), &home().join("x")));
    }
    let me = std::process::id();
    let children = std::fs::read_to_string(format!("/proc/{me}/task/{me}/children")).unwrap();
    assert_eq!(children.trim(), "", "a child is left");
}

/// Moves this process into namespaces in which it may do anything, as the given user.
fn own_namespaces(inside: u32) {
    let outside = nix::unistd::geteuid().as_raw();
    let group = nix::unistd::getegid().as_raw();
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS).unwrap();
    std::fs::write("/proc/self/setgroups", "deny").unwrap();
    std::fs::write("/proc/self/uid_map", format!("{inside} {outside} 1")).unwrap();
    std::fs::write("/proc/self/gid_map", format!("{inside} {group} 1")).unwrap();
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

pub fn a_machine_without_user_namespaces_is_named() {
    if is_root() {
        println!("skipped as root: the machine's own limit would have to be changed");
        return;
    }
    let spec = spec();
    own_namespaces(nix::unistd::geteuid().as_raw());
    std::fs::write("/proc/sys/user/max_user_namespaces", "0").unwrap();
    let error = refused(&spec);
    assert_eq!(
        (error.step, error.errno()),
        (Step::UserNamespace, Some(libc::ENOSPC))
    );
    assert_eq!(error.wall, Some(Wall::UserNamespace));
    assert!(error.remedy.unwrap().contains("user.max_user_namespaces"));
}

pub fn a_masked_proc_is_named() {
    let spec = spec();
    if is_root() {
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
    } else {
        own_namespaces(nix::unistd::geteuid().as_raw());
    }
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>).unwrap();
    let bind = MsFlags::MS_BIND;
    mount(
        Some("/dev/null"),
        "/proc/timer_list",
        None::<&str>,
        bind,
        None::<&str>,
    )
    .unwrap();
    let error = refused(&spec);
    assert_eq!(
        (error.step, error.errno()),
        (Step::Proc, Some(libc::EPERM)),
        "{}",
        words(&error)
    );
    assert_eq!(error.wall, Some(Wall::Mounts));
    assert!(error.remedy.unwrap().contains("systempaths=unconfined"));
}

pub fn root_by_name_only_is_caged_as_an_unprivileged_number() {
    if is_root() {
        let spec = spec();
        own_namespaces(0);
        let error = refused(&spec);
        assert_eq!(error.step, Step::DropRoot, "{}", words(&error));
        return;
    }
    let spec = spec();
    own_namespaces(0);
    in_cage(&spec, async |at| {
        assert_eq!(
            shell(&at.cage, "id -u; touch made").await,
            format!("{ROOT_MAPS_TO}\n")
        );
        assert!(worktree().join("made").exists());
    });
}
