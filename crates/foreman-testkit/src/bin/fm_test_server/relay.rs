//! A way into a world for a test that is outside of it: from a Unix socket to a port of the near side.

use anyhow::{Context, Result};
use std::net::Ipv4Addr;
use std::path::Path;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpStream, UnixListener};

/// Passes every connection on until it is killed.
///
/// # Errors
/// The socket cannot be made.
pub async fn run(socket: &Path, port: u16) -> Result<()> {
    let listener =
        UnixListener::bind(socket).with_context(|| format!("listen on {}", socket.display()))?;
    loop {
        let (mut near, _) = listener.accept().await?;
        tokio::spawn(async move {
            // Nobody there yet: the connection closes, and who waits for it tries again.
            if let Ok(mut far) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
                let _ = copy_bidirectional(&mut near, &mut far).await;
            }
        });
    }
}
