//! Where there are no user namespaces: what is refused, what a run that accepts that may do, and attacks that
//! must fail in it. What this tier does not stop is asserted, too: it is named, and not forgotten.

use crate::Place;
use anyhow::{Context, Result, ensure};
use foreman_domain::{EventKind, ExitCode, Wall};
use foreman_testkit::suite::Case;
use foreman_testkit::{LiveRun, PATIENCE, cases_of, eventually, expect_exit, repos};
use serde_json::Value;
use std::path::Path;

const ACCEPT: [&str; 2] = ["--accept-weaker", "user_namespace"];

pub fn cases<'a>(place: &'a Place<'a>) -> Vec<Case<'a>> {
    cases_of!(
        place,
        "no_namespaces",
        [
            the_machine_is_told_what_it_lacks_and_refuses_by_default,
            a_run_that_accepts_it_works_says_so_and_is_collected,
            nothing_outside_of_the_worktree_is_written_or_read,
            there_is_no_network_and_no_socket_of_the_machine,
            supervisors_cannot_be_signalled_traced_or_read,
            what_it_leaves_running_ends_with_the_run,
            a_pointer_that_the_run_replaced_is_put_back,
        ]
    )
}

/// A run of this script, to its end.
fn script(place: &Place<'_>, name: &str, text: &str) -> Result<(LiveRun, Value)> {
    let product = place.alone()?;
    let repo = repos::plain(place.bench, name)?;
    let run = product.run_to_end(&repo, &ACCEPT, &["python3", "-c", text])?;
    let view = product.show(&run.id()?)?;
    ensure!(
        view["confinement"] == "no_namespaces",
        "{view} {}",
        run.story()
    );
    Ok((run, view))
}

/// Tries of a script, each printed as `try NAME ANSWER`; `ok` where it succeeded.
const TRIES: &str = r#"
import errno, os, socket, sys, ctypes
def t(name, f):
    try:
        f(); print("try", name, "ok", flush=True)
    except OSError as e:
        print("try", name, errno.errorcode.get(e.errno, str(e.errno)), flush=True)
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    if libc.syscall(number, *args) == -1:
        raise OSError(ctypes.get_errno(), "")
"#;

/// Every try of a run, by its name.
fn answers(run: &LiveRun) -> Vec<(String, String)> {
    let events = run.events();
    let lines = events.iter().filter_map(|event| match &event.kind {
        EventKind::Output { text, .. } => text.trim().strip_prefix("try ").map(str::to_owned),
        _ => None,
    });
    lines
        .filter_map(|line| {
            let (name, answer) = line.split_once(' ')?;
            Some((name.to_owned(), answer.to_owned()))
        })
        .collect()
}

/// All of these were tried, and none of them succeeded.
fn none_succeeded(run: &LiveRun, names: &[&str]) -> Result<()> {
    let answers = answers(run);
    for name in names {
        let answer = answers.iter().find(|(tried, _)| tried == name);
        let (_, answer) =
            answer.with_context(|| format!("{name} was not tried: {}", run.story()))?;
        ensure!(
            ["EACCES", "EPERM", "ENOSYS", "EROFS", "EXDEV"].contains(&answer.as_str()),
            "{name}: {answer}"
        );
    }
    Ok(())
}

fn the_machine_is_told_what_it_lacks_and_refuses_by_default(place: &Place<'_>) -> Result<()> {
    let product = place.alone()?;
    let ran = product.call(["doctor", "--json"])?;
    expect_exit(&ran, ExitCode::WallMissing)?;
    let report = ran.json()?;
    ensure!(report["tier"] == "no_namespaces", "{report}");
    let first = &report["walls"][0];
    ensure!(
        first["wall"] == "user_namespace" && first["holds"] == false,
        "{first}"
    );
    ensure!(
        first["remedy"]
            .as_str()
            .is_some_and(|it| it.contains("sysctl")),
        "{first}"
    );
    let repo = repos::plain(place.bench, "refused")?;
    let path = repo.display().to_string();
    for accepted in [None, Some("network"), Some("seccomp")] {
        let mut words = vec!["run", "--json", "--repo", &path];
        words.extend(accepted.iter().flat_map(|wall| ["--accept-weaker", wall]));
        words.extend(["--", "true"]);
        let ran = product.call(&words)?;
        expect_exit(&ran, ExitCode::WallMissing)?;
        let hint = ran.json()?["error"]["hint"].to_string();
        ensure!(hint.contains("--accept-weaker user_namespace"), "{hint}");
    }
    Ok(())
}

fn a_run_that_accepts_it_works_says_so_and_is_collected(place: &Place<'_>) -> Result<()> {
    let product = place.alone()?;
    let repo = repos::plain(place.bench, "works")?;
    let agent = "echo one > one.txt && git add one.txt && git commit -qm 'one' && echo two > two.txt \
                 && git status --short && echo home > ~/own && cat ~/own && mktemp";
    let run = product.run_to_end(&repo, &ACCEPT, &["sh", "-ec", agent])?;
    let id = run.id()?;
    let view = product.show(&id)?;
    ensure!(view["state"] == "review", "{view} {}", run.story());
    ensure!(view["confinement"] == "no_namespaces", "{view}");
    let tier = view["tier"].as_str().unwrap_or_default();
    ensure!(
        tier.contains("No namespaces") && tier.contains("as accepted"),
        "{view}"
    );
    let told = |pick: &dyn Fn(&EventKind) -> bool| run.events().iter().any(|it| pick(&it.kind));
    ensure!(
        told(
            &|kind| matches!(kind, EventKind::Warning { message } if message.contains("no namespaces, as accepted"))
        ),
        "{}",
        run.story()
    );
    for (wall, stands) in [
        (Wall::UserNamespace, false),
        (Wall::Mounts, false),
        (Wall::Git, false),
        (Wall::Landlock, true),
        (Wall::Seccomp, true),
        (Wall::Network, true),
    ] {
        ensure!(
            told(
                &|kind| matches!(kind, EventKind::Probe { wall: found, holds, .. } if *found == wall && *holds == stands)
            ),
            "{wall:?}: {}",
            run.story()
        );
    }
    let merged = product.ask(&["diff", &id])?;
    let files = merged.to_string();
    ensure!(
        files.contains("one.txt") && files.contains("two.txt"),
        "{merged}"
    );
    Ok(())
}

fn nothing_outside_of_the_worktree_is_written_or_read(place: &Place<'_>) -> Result<()> {
    let bench = place.bench;
    let secret = bench.home().join(".ssh/id_test");
    bench.write(&secret, "secret")?;
    let file = bench.scratch("outside")?.join("precious");
    bench.write(&file, "precious")?;
    let (secret, outside) = (secret.display(), file.display());
    let text = format!(
        r#"{TRIES}
S, O = "{secret}", "{outside}"
D = os.path.dirname(O)
t("read", lambda: open(S).read())
t("list", lambda: os.listdir(os.path.dirname(S)))
t("write", lambda: open(O, "a"))
t("create", lambda: open(D + "/new", "w"))
t("mkdir", lambda: os.mkdir(D + "/dir"))
t("unlink", lambda: os.unlink(O))
t("rename", lambda: os.rename(O, "mine"))
t("link", lambda: os.link(O, "mine"))
t("chmod", lambda: os.chmod(O, 0o777))
t("utime", lambda: os.utime(O, (1, 1)))
t("truncate", lambda: os.truncate(O, 0))
t("setxattr", lambda: os.setxattr(O, "user.x", b"1"))
t("through-link", lambda: (os.symlink(O, "way"), open("way", "a")))
t("reopen", lambda: open("/proc/self/fd/%d" % os.open(O, os.O_PATH), "a"))
t("tmp", lambda: open("/tmp/foreman-test", "w"))
t("shm", lambda: open("/dev/shm/foreman-test", "w"))
t("usr", lambda: open("/usr/foreman-test", "w"))
t("sysv", lambda: call(29, 0, 4096, 0o1600))
t("own", lambda: open("own", "w"))
"#
    );
    let (run, _) = script(place, "outside", &text)?;
    none_succeeded(
        &run,
        &[
            "read",
            "list",
            "write",
            "create",
            "mkdir",
            "unlink",
            "rename",
            "link",
            "chmod",
            "utime",
            "truncate",
            "setxattr",
            "through-link",
            "reopen",
            "tmp",
            "shm",
            "usr",
            "sysv",
        ],
    )?;
    ensure!(
        answers(&run).contains(&("own".to_owned(), "ok".to_owned())),
        "not even its own: {}",
        run.story()
    );
    let kept = std::fs::read_to_string(&file)?;
    ensure!(kept == "precious", "the file is {kept:?} now");
    Ok(())
}

fn there_is_no_network_and_no_socket_of_the_machine(place: &Place<'_>) -> Result<()> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    let folder = place.bench.scratch("sockets")?;
    let path = folder.join("service.sock");
    let unix = std::os::unix::net::UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777))?;
    unix.set_nonblocking(true)?;
    let text = format!(
        r#"{TRIES}
def tcp(): socket.create_connection(("127.0.0.1", {port}), 5)
def unix(path):
    s = socket.socket(socket.AF_UNIX); s.connect(path)
t("tcp", tcp)
t("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", {port})))
t("mptcp", lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262))
t("six", lambda: socket.socket(socket.AF_INET6))
t("unix", lambda: unix("{path}"))
t("abstract", lambda: unix("\0foreman-test"))
t("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))
t("packet", lambda: socket.socket(17, socket.SOCK_RAW))
t("vsock", lambda: socket.socket(40, socket.SOCK_STREAM))
t("ring", lambda: call(425, 1, ctypes.byref(ctypes.create_string_buffer(256))))
t("pair", lambda: socket.socketpair())
"#,
        path = path.display()
    );
    let (run, _) = script(place, "sockets", &text)?;
    none_succeeded(
        &run,
        &[
            "tcp", "udp", "mptcp", "six", "unix", "abstract", "netlink", "packet", "vsock", "ring",
        ],
    )?;
    ensure!(
        answers(&run).contains(&("pair".to_owned(), "ok".to_owned())),
        "{}",
        run.story()
    );
    ensure!(listener.accept().is_err(), "a connection arrived");
    ensure!(unix.accept().is_err(), "a connection to the socket arrived");
    Ok(())
}

fn supervisors_cannot_be_signalled_traced_or_read(place: &Place<'_>) -> Result<()> {
    let text = format!(
        r#"{TRIES}
import signal
init = os.getppid()
shim = int(open("/proc/%d/stat" % init).read().rsplit(")", 1)[1].split()[1])
for name, pid in (("init", init), ("shim", shim)):
    t(name + "-kill", lambda: os.kill(pid, signal.SIGKILL))
    t(name + "-group", lambda: os.kill(-pid, signal.SIGKILL))
    t(name + "-thread", lambda: call(234, pid, pid, 9))
    t(name + "-tkill", lambda: call(200, pid, 9))
    t(name + "-queue", lambda: call(129, pid, 9, 0))
    t(name + "-pidfd", lambda: os.pidfd_open(pid))
    t(name + "-trace", lambda: call(101, 16, pid, 0, 0))
    t(name + "-memory", lambda: open("/proc/%d/mem" % pid, "rb"))
    t(name + "-environ", lambda: open("/proc/%d/environ" % pid, "rb").read())
    t(name + "-fd", lambda: os.readlink("/proc/%d/fd/0" % pid))
    t(name + "-open", lambda: os.open("/proc/%d/fd/0" % pid, os.O_RDONLY))
    t(name + "-limits", lambda: call(302, pid, 7, ctypes.byref(ctypes.create_string_buffer(16)), 0))
t("everybody", lambda: os.kill(-1, signal.SIGKILL))
t("nest", lambda: call(272, 0x10000000))
t("fown", lambda: call(72, 0, 8, shim))
print("still here", flush=True)
"#
    );
    let (run, view) = script(place, "supervisors", &text)?;
    let mut names = vec!["everybody".to_owned(), "nest".to_owned(), "fown".to_owned()];
    for who in ["init", "shim"] {
        for what in [
            "kill", "group", "thread", "tkill", "queue", "pidfd", "trace", "memory", "environ",
            "fd", "open", "limits",
        ] {
            names.push(format!("{who}-{what}"));
        }
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    none_succeeded(&run, &names)?;
    run.said("still here")?;
    ensure!(view["state"] != "interrupted", "{view}");
    Ok(())
}

fn what_it_leaves_running_ends_with_the_run(place: &Place<'_>) -> Result<()> {
    let text = r#"
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print("left", os.getpid(), flush=True)
        null = os.open("/dev/null", os.O_RDWR)
        for fd in range(3): os.dup2(null, fd)
        while True: time.sleep(1)
    os._exit(0)
os.wait()
time.sleep(0.2)
"#;
    let (run, view) = script(place, "left", text)?;
    let line = run.said("left ")?;
    let pid: u32 = line.rsplit(' ').next().unwrap_or_default().trim().parse()?;
    eventually("what it left has ended", PATIENCE, || {
        !Path::new(&format!("/proc/{pid}")).exists()
    })?;
    ensure!(view["killed"].as_u64() >= Some(1), "{view}");
    Ok(())
}

fn a_pointer_that_the_run_replaced_is_put_back(place: &Place<'_>) -> Result<()> {
    let text = r#"
import os
os.rename(".git", "old")
os.mkdir(".git")
open(".git/config", "w").write("[core]\n\tfsmonitor = touch fired\n")
open(".git/HEAD", "w").write("ref: refs/heads/main\n")
"#;
    let (run, view) = script(place, "pointer", text)?;
    let worktree = Path::new(view["worktree"].as_str().context("a worktree")?).to_owned();
    let pointer = worktree.join(".git");
    ensure!(pointer.is_file(), "it is no file: {}", run.story());
    let said = std::fs::read_to_string(&pointer)?;
    ensure!(
        said.starts_with("gitdir: ") && said.contains("/worktrees/"),
        "{said}"
    );
    place.bench.shell(&worktree, "git status >/dev/null")?;
    ensure!(
        !worktree.join("fired").exists(),
        "the run's configuration was used"
    );
    Ok(())
}
