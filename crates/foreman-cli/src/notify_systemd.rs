//! Telling the service manager how far a service is, where it asked to be told.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends a state (`READY=1`) to the socket that `NOTIFY_SOCKET` names; nothing without one.
///
/// # Errors
/// When the socket cannot be reached.
pub fn notify(socket: Option<&OsStr>, state: &str) -> io::Result<()> {
    let Some(socket) = socket.filter(|name| !name.is_empty()) else {
        return Ok(());
    };
    let address = match socket.as_bytes() {
        // An abstract socket.
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        path => SocketAddr::from_pathname(OsStr::from_bytes(path))?,
    };
    UnixDatagram::unbound()?
        .send_to_addr(state.as_bytes(), &address)
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_is_told_where_it_listens_and_nobody_where_nobody_asked() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        notify(Some(path.as_os_str()), "READY=1").unwrap();
        let mut heard = [0; 32];
        let count = manager.recv(&mut heard).unwrap();
        assert_eq!(&heard[..count], b"READY=1");
        notify(None, "READY=1").unwrap();
        let gone = scratch.path().join("gone");
        assert!(notify(Some(gone.as_os_str()), "READY=1").is_err());
        let name = format!("foreman-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        notify(Some(OsStr::new(&format!("@{name}"))), "STOPPING=1").unwrap();
        let count = manager.recv(&mut heard).unwrap();
        assert_eq!(&heard[..count], b"STOPPING=1");
    }
}
