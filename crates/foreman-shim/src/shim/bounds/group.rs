//! A control group of the second version: its files as they are read and written.
//!
//! The group holds a cage and nothing else. Memory is throttled at the bound and limited by force a little
//! above it, so that the watcher has time to pause the group; swap is not given at all.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is given beyond the memory bound before the kernel kills: a quarter, and at least this much.
const HEADROOM: u64 = 64 << 20;
/// Period of processor time, in microseconds.
const PERIOD: u64 = 100_000;
/// How long a group may take to come to rest.
const REST_LIMIT: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A group that is ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::shim) struct Group {
    dir: PathBuf,
}

/// What happened in a group so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    /// Times that memory was held back at the bound.
    pub(super) held_back: u64,
    /// Processes that the kernel killed because there was no memory left for the group.
    pub(super) oom_kills: u64,
    /// Times that a process or a thread more was refused.
    pub(super) forks_refused: u64,
}

impl Group {
    /// Makes a group below one that may be divided.
    pub(super) fn make(parent: &Path, name: &str) -> io::Result<Self> {
        let dir = parent.join(name);
        std::fs::create_dir(&dir)?;
        Ok(Self { dir })
    }

    /// Gives it the controllers that the bounds need. The group above must have no processes of its own.
    pub(super) fn give_controllers(&self) -> io::Result<()> {
        enable(self.dir.parent().ok_or(io::ErrorKind::NotFound)?)
    }

    /// Takes a process in; what it forks from then on is in, too.
    pub(super) fn take_in(&self, process: u32) -> io::Result<()> {
        self.write("cgroup.procs", &process.to_string())
    }

    pub(super) fn limit_memory(&self, bytes: u64) -> io::Result<()> {
        let most = bytes.saturating_add((bytes / 4).max(HEADROOM));
        self.write("memory.max", &most.to_string())?;
        self.write("memory.high", &bytes.to_string())?;
        // Absent where the kernel does not account swap: then there is none to give either.
        match self.write("memory.swap.max", "0") {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    pub(super) fn limit_processes(&self, most: u64) -> io::Result<()> {
        self.write("pids.max", &most.to_string())
    }

    pub(super) fn limit_cpu(&self, millicores: u64) -> io::Result<()> {
        let quota = millicores.saturating_mul(PERIOD) / 1_000;
        // The kernel takes no quota below a millisecond.
        self.write("cpu.max", &format!("{} {PERIOD}", quota.max(1_000)))
    }

    /// Bytes of its processes and of its files in memory; what could be given back at once is not counted.
    pub(super) fn memory(&self) -> io::Result<u64> {
        let current = number(&self.read("memory.current")?)?;
        // The page cache of files on a disk is the machine's, not the run's.
        let stat = self.read("memory.stat")?;
        let of = |key| field(&stat, key).unwrap_or(0);
        let cache = of("inactive_file").saturating_add(of("active_file"));
        Ok(current.saturating_sub(cache))
    }

    /// The most memory that it ever had, where the kernel keeps that.
    pub(super) fn memory_peak(&self) -> Option<u64> {
        number(&self.read("memory.peak").ok()?).ok()
    }

    pub(super) fn processes(&self) -> io::Result<u64> {
        number(&self.read("pids.current")?)
    }

    /// Processor time so far, in milliseconds.
    pub(super) fn cpu_ms(&self) -> io::Result<u64> {
        let micros = field(&self.read("cpu.stat")?, "usage_usec");
        micros
            .map(|micros| micros / 1_000)
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    pub(super) fn counts(&self) -> Counts {
        let of = |file, key| {
            let text = self.read(file).unwrap_or_default();
            field(&text, key).unwrap_or(0)
        };
        Counts {
            held_back: of("memory.events", "high"),
            oom_kills: of("memory.events", "oom_kill"),
            forks_refused: of("pids.events", "max"),
        }
    }

    /// Freezes everything in it, and returns when it is.
    pub(super) async fn freeze(&self) -> io::Result<()> {
        self.write("cgroup.freeze", "1")?;
        let begun = tokio::time::Instant::now();
        while !self.is_frozen()? {
            if begun.elapsed() > REST_LIMIT {
                return Err(io::ErrorKind::TimedOut.into());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    pub(super) fn thaw(&self) -> io::Result<()> {
        self.write("cgroup.freeze", "0")
    }

    pub(super) fn is_frozen(&self) -> io::Result<bool> {
        let events = self.read("cgroup.events")?;
        Ok(field(&events, "frozen") == Some(1))
    }

    /// Takes it away. One that is not empty stays; the service manager removes it with its scope.
    pub(super) fn remove(&self) {
        if let Err(error) = std::fs::remove_dir(&self.dir) {
            tracing::debug!(%error, group = %self.dir.display(), "a control group stays");
        }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    fn read(&self, file: &str) -> io::Result<String> {
        std::fs::read_to_string(self.dir.join(file))
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        write(&self.dir.join(file), text)
    }
}

/// Never makes a file: one that is not there is a controller that is not.
fn write(path: &Path, text: &str) -> io::Result<()> {
    use std::io::Write as _;
    let mut file = std::fs::OpenOptions::new().write(true).open(path)?;
    file.write_all(text.as_bytes())
}

/// Lets groups below have the controllers that bounds need, and processor time where there is that.
fn enable(parent: &Path) -> io::Result<()> {
    let control = parent.join("cgroup.subtree_control");
    let enabled = std::fs::read_to_string(&control)?;
    let has = |name: &str| enabled.split_whitespace().any(|known| known == name);
    for (name, is_needed) in [("memory", true), ("pids", true), ("cpu", false)] {
        if has(name) {
            continue;
        }
        match write(&control, &format!("+{name}")) {
            Err(error) if is_needed => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn number(text: &str) -> io::Result<u64> {
    text.trim()
        .parse()
        .map_err(|_| io::ErrorKind::InvalidData.into())
}

/// The figure behind a key, of a file that has one of each a line.
fn field(text: &str, wanted: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    let (_, figure) = lines.find(|(key, _)| *key == wanted)?;
    figure.trim().parse().ok()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A folder with the files of a group, which keep what is written.
    pub(in crate::shim::bounds) fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        dir
    }

    fn group(files: &[(&str, &str)]) -> (tempfile::TempDir, Group) {
        let dir = folder(files);
        let group = Group {
            dir: dir.path().to_owned(),
        };
        (dir, group)
    }

    fn written(dir: &tempfile::TempDir, file: &str) -> String {
        std::fs::read_to_string(dir.path().join(file)).unwrap()
    }

    #[test]
    fn limits_are_written_as_the_kernel_reads_them() {
        let (dir, group) = group(&[
            ("memory.max", ""),
            ("memory.high", ""),
            ("memory.swap.max", ""),
            ("pids.max", ""),
            ("cpu.max", ""),
        ]);
        group.limit_memory(1 << 30).unwrap();
        group.limit_processes(512).unwrap();
        group.limit_cpu(2_500).unwrap();
        assert_eq!(written(&dir, "memory.high"), (1_u64 << 30).to_string());
        assert_eq!(written(&dir, "memory.max"), (5_u64 << 28).to_string());
        assert_eq!(written(&dir, "memory.swap.max"), "0");
        assert_eq!(written(&dir, "pids.max"), "512");
        assert_eq!(written(&dir, "cpu.max"), "250000 100000");
    }

    #[test]
    fn a_controller_that_is_not_there_is_an_error_and_no_new_file() {
        let (dir, group) = group(&[]);
        assert!(group.limit_processes(512).is_err());
        assert!(group.limit_memory(1 << 30).is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn figures_are_read_and_the_cache_of_a_disk_is_not_the_runs() {
        let (_dir, group) = group(&[
            ("memory.current", "1000000\n"),
            (
                "memory.stat",
                "anon 500000\ninactive_file 300000\nactive_file 100000\n",
            ),
            ("memory.events", "low 0\nhigh 7\nmax 1\noom 2\noom_kill 3\n"),
            ("memory.peak", "2000000\n"),
            ("pids.current", "12\n"),
            ("pids.events", "max 4\n"),
            ("cpu.stat", "usage_usec 1500000\nuser_usec 1\n"),
            ("cgroup.events", "populated 1\nfrozen 1\n"),
        ]);
        assert_eq!(group.memory().unwrap(), 600_000);
        assert_eq!(group.memory_peak(), Some(2_000_000));
        assert_eq!(group.processes().unwrap(), 12);
        assert_eq!(group.cpu_ms().unwrap(), 1_500);
        assert!(group.is_frozen().unwrap());
        let counts = Counts {
            held_back: 7,
            oom_kills: 3,
            forks_refused: 4,
        };
        assert_eq!(group.counts(), counts);
    }

    #[test]
    fn a_group_is_made_below_one_that_gives_its_controllers() {
        let parent = folder(&[("cgroup.subtree_control", "cpu pids\n")]);
        let made = Group::make(parent.path(), "cage").unwrap();
        assert!(made.dir().is_dir());
        made.give_controllers().unwrap();
        assert!(written(&parent, "cgroup.subtree_control").starts_with("+memory"));
        made.remove();
        assert!(!made.dir().exists());
        let cannot = folder(&[]);
        let made = Group::make(cannot.path(), "cage").unwrap();
        assert!(made.give_controllers().is_err());
    }

    #[tokio::test]
    async fn a_group_is_frozen_when_the_kernel_says_so() {
        let (dir, group) = group(&[
            ("cgroup.freeze", "0"),
            ("cgroup.events", "populated 1\nfrozen 0\n"),
        ]);
        let (frozen, ()) = tokio::join!(group.freeze(), async {
            while written(&dir, "cgroup.freeze") != "1" {
                tokio::task::yield_now().await;
            }
            std::fs::write(dir.path().join("cgroup.events"), "populated 1\nfrozen 1\n").unwrap();
        });
        frozen.unwrap();
        group.thaw().unwrap();
        assert_eq!(written(&dir, "cgroup.freeze"), "0");
    }

    /// Where this machine has groups of the second version, whatever controllers they have.
    fn mounted() -> Option<PathBuf> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
        mounts.lines().find_map(|line| {
            let mut words = line.split(' ');
            let (_, point, kind) = (words.next()?, words.next()?, words.next()?);
            (kind == "cgroup2").then(|| PathBuf::from(point))
        })
    }

    /// A process that spins until it is killed, in a group that is removed with it.
    struct Spinning {
        group: Group,
        child: std::process::Child,
    }

    impl Drop for Spinning {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
            let _ = self.group.thaw();
            self.group.remove();
        }
    }

    impl Spinning {
        fn ticks(&self) -> u64 {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
            let (_, fields) = stat.rsplit_once(')').unwrap();
            let fields: Vec<u64> = fields
                .split_whitespace()
                .skip(11)
                .take(2)
                .map(|field| field.parse().unwrap())
                .collect();
            fields.iter().sum()
        }
    }

    #[tokio::test]
    async fn the_kernel_freezes_a_group_and_lets_it_go_on() {
        let name = format!("foreman-test-{}", std::process::id());
        let made = mounted().map(|mount| mount.join(name));
        let made = made.filter(|dir| std::fs::create_dir(dir).is_ok());
        let Some(dir) = made else {
            eprintln!("skipped: this user may make no control group here");
            return;
        };
        let mut command = std::process::Command::new("/bin/sh");
        let child = command.args(["-c", "while :; do :; done"]).spawn().unwrap();
        let group = Group { dir };
        let spinning = Spinning { group, child };
        spinning.group.take_in(spinning.child.id()).unwrap();
        spinning.group.freeze().await.unwrap();
        assert!(spinning.group.is_frozen().unwrap());
        let before = spinning.ticks();
        // What is frozen gets no time, however long one looks.
        for _ in 0..20 {
            assert_eq!(spinning.ticks(), before);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        spinning.group.thaw().unwrap();
        let begun = std::time::Instant::now();
        while spinning.ticks() == before {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "it does not go on"
            );
            tokio::task::yield_now().await;
        }
    }
}
