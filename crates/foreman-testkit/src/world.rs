//! A private internet: `foreman-shim world` with the test server on its far side.
//!
//! The product runs on the near side, entered with `nsenter`, and knows nothing of it. The far side
//! holds addresses of the documentation ranges and records whatever reaches it ([`Seen`]), so a test
//! can say "nothing left" from where it would have arrived.

use crate::seen::{Seen, read_seen};
use crate::{Bench, eventually, until};
use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use std::ffi::OsStr;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

/// The address that names have unless they say otherwise.
pub const MAIN_V4: &str = "203.0.113.10";
/// The same, IPv6.
pub const MAIN_V6: &str = "2001:db8::10";
/// Another host: what no name leads to.
pub const OTHER_V4: &str = "198.51.100.20";
/// Another host, IPv6.
pub const OTHER_V6: &str = "2001:db8:1::20";
/// A private host of the far side.
pub const PRIVATE_V4: &str = "10.20.30.40";
/// The world's resolver.
pub const RESOLVER: &str = "203.0.113.53";
/// A "public" resolver that is not the world's.
pub const OTHER_RESOLVER: &str = "192.0.2.129";
/// The near side's own address.
pub const NEAR_V4: &str = "192.0.2.2";

/// A world that is up.
#[derive(Debug)]
pub struct World {
    process: Child,
    first: Pid,
    own_user_namespace: bool,
    folder: PathBuf,
    _stdin: ChildStdin,
}

impl World {
    /// Makes a world that belongs to the bench's user, with the usual servers.
    ///
    /// # Errors
    /// The world or its servers did not come up; the message has what they said.
    pub fn new(bench: &Bench) -> Result<Self> {
        Self::with_programs(bench, &[])
    }

    /// As [`World::new`], and starts these programs on the far side as well (sshd, a database).
    ///
    /// # Errors
    /// As [`World::new`].
    pub fn with_programs(bench: &Bench, programs: &[Vec<String>]) -> Result<Self> {
        Self::make(bench, programs, &[])
    }

    /// A world that is another machine: what the user keeps on this one (home, repositories, data,
    /// sockets) is not there, and only the programs are. Reached by [`World::command`] alone, as by ssh.
    ///
    /// # Errors
    /// As [`World::new`].
    pub fn elsewhere(bench: &Bench) -> Result<Self> {
        let scratch = bench.scratch("any")?;
        let scratch = scratch.parent().context("a folder")?.to_owned();
        Self::make(bench, &[], &[bench.home(), bench.runtime(), scratch])
    }

    fn make(bench: &Bench, programs: &[Vec<String>], cover: &[PathBuf]) -> Result<Self> {
        let folder = bench.scratch("world")?;
        let site = folder.join("site");
        fs::create_dir(&site)?;
        bench.own(&site)?;
        let config = json!({
            "log": folder.join("seen.jsonl"),
            "authority": folder.join("authority.pem"),
            "site": site,
            "programs": programs,
            "main": [MAIN_V4, MAIN_V6],
        });
        bench.write(&folder.join("server.json"), config.to_string())?;
        let serve = [
            bench.program("fm-test-server").display().to_string(),
            "serve".to_owned(),
            folder.join("server.json").display().to_string(),
        ];
        let log = fs::File::create(folder.join("world.log"))?;
        let mut command = bench.command(bench.program("foreman-shim"));
        command.arg("world");
        for address in [
            MAIN_V4,
            MAIN_V6,
            OTHER_V4,
            OTHER_V6,
            PRIVATE_V4,
            RESOLVER,
            OTHER_RESOLVER,
        ] {
            let length = if address.contains(':') { 128 } else { 32 };
            command.arg("--address").arg(format!("{address}/{length}"));
        }
        for folder in cover {
            command.arg("--cover").arg(folder);
        }
        if !cover.is_empty() {
            command.arg("--show").arg(&folder);
        }
        command
            .args([
                "--resolver",
                RESOLVER,
                "--serve",
                &json!(serve).to_string(),
                "--",
            ])
            .arg(bench.program("fm-test-server"))
            .arg("hold")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log);
        let mut process = command.spawn().context("start foreman-shim world")?;
        let stdin = process.stdin.take().context("a pipe")?;
        let said = first_line(&mut process)?;
        ensure!(
            said == "held",
            "the world did not come up: {said} {}",
            fs::read_to_string(folder.join("world.log")).unwrap_or_default()
        );
        let above = Pid::from_raw(process.id().cast_signed());
        let first = only_child(above)?;
        let own_user_namespace = fs::read_link(format!("/proc/{first}/ns/user"))?
            != fs::read_link("/proc/self/ns/user")?;
        Ok(Self {
            process,
            first,
            own_user_namespace,
            folder,
            _stdin: stdin,
        })
    }

    /// A command that runs in this world as the bench's user.
    #[must_use]
    pub fn command(&self, bench: &Bench, program: impl AsRef<OsStr>) -> Command {
        let mut command = bench.command("nsenter");
        command.args([
            "--target",
            &self.first.to_string(),
            "--net",
            "--mount",
            "--pid",
        ]);
        if self.own_user_namespace {
            command.args(["--user", "--preserve-credentials"]);
        }
        command
            .arg(format!("--wdns={}", bench.home().display()))
            .arg("--")
            .arg(program.as_ref());
        command
    }

    /// Folder that the far side serves over HTTP, HTTPS.
    #[must_use]
    pub fn site(&self) -> PathBuf {
        self.folder.join("site")
    }

    /// Certificate of the authority that signs every name here, as PEM.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.folder.join("authority.pem")
    }

    /// Everything that reached the far side so far.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn seen(&self) -> Result<Vec<Seen>> {
        read_seen(&self.folder.join("seen.jsonl"))
    }

    /// What reached the far side on this port.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn seen_on(&self, port: u16) -> Result<Vec<Seen>> {
        Ok(self
            .seen()?
            .into_iter()
            .filter(|seen| seen.port == port)
            .collect())
    }

    /// Names that the world's resolvers were asked for, in lower case.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn names_asked(&self) -> Result<Vec<String>> {
        Ok(self
            .seen()?
            .into_iter()
            .filter_map(|seen| seen.name)
            .collect())
    }

    /// Heads of the requests over TLS that named this host.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn asked(&self, host: &str) -> Result<Vec<String>> {
        let named = format!("host: {host}\r\n");
        let mut heads = self.asked_all()?;
        heads.retain(|head| head.to_ascii_lowercase().contains(&named));
        Ok(heads)
    }

    /// Heads of all requests over TLS.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn asked_all(&self) -> Result<Vec<String>> {
        let text = match fs::read_to_string(self.folder.join("asked.jsonl")) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            read => read?,
        };
        let lines = text.lines();
        lines.map(|line| Ok(serde_json::from_str(line)?)).collect()
    }

    /// What the far side's servers and the world itself wrote to standard error.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("world.log")).unwrap_or_default()
    }

    /// The world's first process, as the host numbers it.
    #[must_use]
    pub fn first_process(&self) -> i32 {
        self.first.as_raw()
    }

    /// True when this address can be used inside (IPv6 may be off on this machine).
    #[must_use]
    pub fn has(&self, address: IpAddr) -> bool {
        address.is_ipv4() || Path::new("/proc/sys/net/ipv6").exists()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = kill(self.first, Signal::SIGKILL);
        let _ = eventually("the world has ended", Duration::from_secs(5), || {
            !matches!(self.process.try_wait(), Ok(None))
        });
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn first_line(process: &mut Child) -> Result<String> {
    use std::io::BufRead;
    let out = process.stdout.take().context("a pipe")?;
    let mut line = String::new();
    let mut reader = std::io::BufReader::new(out);
    reader.read_line(&mut line)?;
    // Kept open: the programs inside would otherwise write to a broken pipe.
    std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
    Ok(line.trim_end().to_owned())
}

/// The one child of a process.
fn only_child(of: Pid) -> Result<Pid> {
    until(
        "the world has its first process",
        Duration::from_secs(5),
        || Ok(children(of.as_raw()).first().map(|&pid| Pid::from_raw(pid))),
    )
}

/// Children of a process, all threads of it.
#[must_use]
pub fn children(of: i32) -> Vec<i32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{of}/task")) else {
        return Vec::new();
    };
    tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|text| {
            text.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<i32>>()
        })
        .collect()
}

/// A process's children, their children, and so on.
#[must_use]
pub fn descendants(of: i32) -> Vec<i32> {
    let mut all = children(of);
    let mut next = 0;
    while let Some(&pid) = all.get(next) {
        all.extend(children(pid));
        next += 1;
    }
    all
}
