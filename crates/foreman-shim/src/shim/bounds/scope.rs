//! A transient scope of the user's service manager, which gives a run a control group of its own.
//!
//! The cage's processes are put into a group below the scope, which is delegated to us; the supervisor stays
//! outside, because a scope whose memory runs out would otherwise take it along. The manager removes the
//! scope when its last process has ended.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::timeout;
use zbus::connection::Builder;
use zbus::zvariant::Value;

/// Longest wait for the manager.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at whether the processes have arrived.
const LOOK_EVERY: Duration = Duration::from_millis(2);

#[zbus::proxy(
    interface = "org.freedesktop.systemd1.Manager",
    default_service = "org.freedesktop.systemd1",
    default_path = "/org/freedesktop/systemd1",
    gen_blocking = false
)]
trait Manager {
    fn start_transient_unit(
        &self,
        name: &str,
        mode: &str,
        properties: &[(&str, Value<'_>)],
        auxiliary: &[(&str, &[(&str, Value<'_>)])],
    ) -> zbus::Result<zbus::zvariant::OwnedObjectPath>;

    fn attach_processes_to_unit(
        &self,
        name: &str,
        group: &str,
        processes: &[u32],
    ) -> zbus::Result<()>;
}

/// Where the user's bus is.
pub(super) fn bus() -> Option<PathBuf> {
    let bus = PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR")?).join("bus");
    bus.exists().then_some(bus)
}

/// Has the manager at `bus` make a scope with these processes, and with all that come of them meanwhile; gives
/// the scope's group below `mount`.
pub(super) async fn begin(
    bus: &Path,
    mount: &Path,
    run: &str,
    processes: impl Fn() -> Vec<u32>,
) -> io::Result<PathBuf> {
    let known = processes();
    let first = *known.first().ok_or(io::ErrorKind::InvalidInput)?;
    let asking = async {
        let address = format!("unix:path={}", bus.display());
        let connection = Builder::address(address.as_str())?.build().await?;
        let manager = ManagerProxy::new(&connection).await?;
        let description = format!("Foreman run {run}");
        let properties = [
            ("Description", Value::from(description)),
            ("PIDs", Value::from(known)),
            ("Delegate", Value::from(true)),
            // A process too large is the run's affair: its scope goes on.
            ("OOMPolicy", Value::from("continue")),
            ("CollectMode", Value::from("inactive-or-failed")),
            ("Slice", Value::from("app.slice")),
        ];
        let name = format!("foreman-run-{run}.scope");
        manager
            .start_transient_unit(&name, "fail", &properties, &[])
            .await
            .map(|_job| (name, manager))
    };
    let asked = timeout(PATIENCE, asking).await;
    let (name, manager) = asked
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
        .map_err(io::Error::other)?;
    // The answer says that there is a job for it, not that it is done.
    let arriving = async {
        loop {
            let text = std::fs::read_to_string(format!("/proc/{first}/cgroup"))?;
            if let Some(group) = group_of(&text)
                && group
                    .file_name()
                    .is_some_and(|known| known == name.as_str())
            {
                return Ok::<_, io::Error>(group);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    // What was forked before its parent had arrived was left behind, in a group that only the manager may take
    // it out of.
    let gathering = async {
        let group = arriving.await?;
        loop {
            let outside = processes()
                .into_iter()
                .filter(|pid| is_outside(*pid, &group));
            let outside: Vec<u32> = outside.collect();
            if outside.is_empty() {
                return Ok(mount.join(group));
            }
            let attached = manager.attach_processes_to_unit(&name, "", &outside).await;
            if let Err(error) = attached {
                // One of them may have ended meanwhile.
                tracing::debug!(%error, "processes could not be taken into the scope");
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    };
    timeout(PATIENCE, gathering)
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

/// Whether a process lives in another group than this one or one below it. One that has ended lives in none.
fn is_outside(process: u32, group: &Path) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap_or_default();
    group_of(&text).is_some_and(|found| !found.starts_with(group))
}

/// The group of the second version that `/proc/<pid>/cgroup` names, without its leading slash.
pub(super) fn group_of(text: &str) -> Option<PathBuf> {
    let line = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(PathBuf::from(line.trim_end_matches(" (deleted)")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn the_group_of_a_process_is_read_beside_those_of_the_first_version() {
        let text = "4:memory:/a\n0::/user.slice/user-1000.slice/foreman-run-x.scope\n";
        let group = Path::new("user.slice/user-1000.slice/foreman-run-x.scope");
        assert_eq!(group_of(text).as_deref(), Some(group));
        assert_eq!(group_of("4:memory:/a\n"), None);
    }

    #[tokio::test]
    async fn a_bus_that_is_none_is_an_error_and_no_wait_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bus");
        let (mount, process) = (Path::new("/nowhere"), std::process::id());
        assert!(begin(&path, mount, "x", || vec![process]).await.is_err());
        // One that hangs up at once.
        let listener = UnixListener::bind(&path).unwrap();
        let hanging_up = std::thread::spawn(move || drop(listener.accept()));
        assert!(begin(&path, mount, "x", || vec![process]).await.is_err());
        hanging_up.join().unwrap();
        assert!(begin(&path, mount, "x", Vec::new).await.is_err());
    }
}
