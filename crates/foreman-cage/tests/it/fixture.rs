//! What a case starts from: a scratch home with a worktree, a specification, a gateway that refuses
//! everything, and a runtime.

use foreman_cage::gateway::{self, Attempt, Closed, ConnectionId, Judge, ProxyConfig, Verdict};
use foreman_cage::{
    Bind, Cage, CageSpec, Child, Exit, Facts, LaunchError, Launched, Payload, PayloadStdio, launch,
};
use foreman_domain::{Host, Protocol};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt as _;
use tokio_util::sync::CancellationToken;

/// An ordinary user that need not have a name.
pub const ORDINARY: u32 = 61_234;
/// What root becomes in these tests.
pub const ROOT_MAPS_TO: u32 = 61_235;
/// Where the test's own program is seen in a cage.
pub const ATTACKER: &str = "/run/attacker/it";
/// Nothing here takes longer.
pub const DEADLINE: Duration = Duration::from_secs(20);

pub fn title(identity: Option<u32>) -> &'static str {
    match identity {
        Some(_) => "ordinary user",
        None if nix::unistd::geteuid().is_root() => "root",
        None => "this user",
    }
}

/// A folder that everybody can reach, with a copy of this program.
pub struct Stage(tempfile::TempDir);

impl Stage {
    pub fn new() -> Self {
        let dir = tempfile::Builder::new()
            .prefix("foreman-cage-it-")
            .tempdir()
            .unwrap();
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let program = dir.path().join("it");
        std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        Self(dir)
    }

    pub fn program(&self) -> PathBuf {
        self.0.path().join("it")
    }

    /// A private folder for one case.
    pub fn folder(&self, name: &str, identity: Option<u32>) -> PathBuf {
        let path = self
            .0
            .path()
            .join(format!("{name}-{}", identity.unwrap_or(0)));
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .unwrap();
        if identity.is_some() {
            chown(&path, identity, identity).unwrap();
        }
        path
    }
}

/// A case's folder.
pub fn folder() -> PathBuf {
    std::env::var_os("FIXTURE").unwrap().into()
}

pub fn home() -> PathBuf {
    folder().join("home")
}

pub fn worktree() -> PathBuf {
    home().join("trees/run")
}

/// A home with a secret in it, a worktree with a `.git` file, and a specification for both.
pub fn spec() -> CageSpec {
    let worktree = worktree();
    std::fs::create_dir_all(&worktree).unwrap();
    std::fs::write(home().join("secret"), "of the operator").unwrap();
    std::fs::write(worktree.join(".git"), "gitdir: /nowhere\n").unwrap();
    if nix::unistd::geteuid().is_root() {
        chown(&worktree, Some(ROOT_MAPS_TO), Some(ROOT_MAPS_TO)).unwrap();
        chown(
            worktree.join(".git"),
            Some(ROOT_MAPS_TO),
            Some(ROOT_MAPS_TO),
        )
        .unwrap();
    }
    let program = std::env::current_exe().unwrap();
    let bind = |source: &Path, target: &Path, writable: bool| Bind {
        source: source.to_owned(),
        target: target.to_owned(),
        writable,
    };
    let git = worktree.join(".git");
    CageSpec {
        hostname: "cage-under-test".into(),
        workdir: worktree.clone(),
        home: home(),
        binds: vec![
            bind(&worktree, &worktree, true),
            bind(&git, &git, false),
            bind(&program, Path::new(ATTACKER), false),
        ],
        env: vec![
            (
                "PATH".into(),
                "/run/foreman/bin:/usr/local/bin:/usr/bin:/bin".into(),
            ),
            ("HOME".into(), home().display().to_string()),
            ("USER".into(), "tester".into()),
        ],
        why_program: "/bin/echo".into(),
        processes: 200,
        root_maps_to: ROOT_MAPS_TO,
        hidden: vec![],
        accept_weaker: vec![],
        confinement: foreman_cage::Confinement::Namespaces,
        private: None,
    }
}

struct RefuseAll;

impl Judge for RefuseAll {
    async fn judge(&self, _: Attempt) -> Verdict {
        Verdict::Refuse
    }
    fn looked_up(&self, _: &str) {}
    fn closed(&self, _: ConnectionId, _: Closed) {}
    fn refused(&self, _: Protocol, _: Host, _: u16, _: &str) {}
}

/// What a case works with.
pub struct Running {
    pub cage: Cage,
    pub why: OwnedFd,
    pub facts: Facts,
}

/// Builds a cage and runs a case in it.
pub fn in_cage<F: Future<Output = ()>>(spec: &CageSpec, case: impl FnOnce(Running) -> F) {
    let launched = launch(spec).unwrap_or_else(|error| panic!("{}", words(&error)));
    serve(launched, case);
}

/// Serves a cage that was built, and runs a case in it.
pub fn serve<F: Future<Output = ()>>(launched: Launched, case: impl FnOnce(Running) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let Launched {
            cage,
            sockets,
            why,
            facts,
        } = launched;
        let cancel = CancellationToken::new();
        let gateway = sockets.ok().map(|sockets| {
            let config = gateway::Config {
                sockets,
                init_pid: cage.init_pid(),
                proxy: ProxyConfig::default(),
                forward: None,
            };
            gateway::start(config, Arc::new(RefuseAll), cancel.clone())
        });
        tokio::time::timeout(DEADLINE, case(Running { cage, why, facts }))
            .await
            .unwrap();
        cancel.cancel();
        if let Some(gateway) = gateway {
            gateway.join().await;
        }
    });
}

pub fn words(error: &LaunchError) -> String {
    format!("{error}: {} (remedy: {:?})", error.source, error.remedy)
}

/// What a program left behind.
#[derive(Debug)]
pub struct Ended {
    pub exit: Exit,
    pub out: String,
    pub error: String,
}

pub fn payload(argv: &[&str]) -> Payload {
    let argv = argv.iter().map(|word| (*word).to_owned()).collect();
    Payload {
        argv,
        env: vec![],
        stdio: PayloadStdio::Pipes,
    }
}

/// Runs a program to its end.
pub async fn run(cage: &Cage, argv: &[&str]) -> Ended {
    let child = cage
        .spawn(payload(argv))
        .await
        .unwrap_or_else(|error| panic!("{argv:?}: {error}"));
    finish(cage, child).await
}

/// Waits for a program's end and output.
pub async fn finish(cage: &Cage, child: Child) -> Ended {
    let (out, error) = tokio::join!(read(child.stdout.unwrap()), read(child.stderr.unwrap()));
    Ended {
        exit: cage.wait(child.pid).await,
        out,
        error,
    }
}

/// Runs a line of shell and returns what it printed; it must succeed.
pub async fn shell(cage: &Cage, line: &str) -> String {
    let ended = run(cage, &["sh", "-c", line]).await;
    assert_eq!(ended.exit, Exit::Code(0), "{line}: {ended:?}");
    ended.out
}

/// Runs one of this program's own attacks and returns what it printed; it must succeed.
pub async fn attack(cage: &Cage, name: &str, arguments: &[&str]) -> String {
    let argv: Vec<&str> = [ATTACKER, "attack", name]
        .into_iter()
        .chain(arguments.iter().copied())
        .collect();
    let ended = run(cage, &argv).await;
    assert_eq!(ended.exit, Exit::Code(0), "{name}: {ended:?}");
    ended.out
}

async fn read(pipe: OwnedFd) -> String {
    nix::fcntl::fcntl(
        &pipe,
        nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK),
    )
    .unwrap();
    let mut pipe = tokio::net::unix::pipe::Receiver::from_owned_fd(pipe).unwrap();
    let mut bytes = vec![];
    pipe.read_to_end(&mut bytes).await.unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Waits until something is so.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE / 2;
    while !is_so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Processes of the host whose command line holds a text.
pub fn on_host(text: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != std::process::id())
        .filter(|pid| {
            std::fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).contains(text))
        })
        .collect()
}
