//! Services that tests start on the host, at Unix sockets and ports, and who talks to them.

use crate::{Saw, failed, number, result};
use anyhow::Context;
use serde_json::json;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

pub fn attack(name: &str, words: &[&str]) -> Option<Saw> {
    Some(match name {
        "serve-unix" => serve_unix(words),
        "serve-tcp" => serve_tcp(words),
        "talk-unix" => talk_unix(words),
        "talk-tcp" => talk_tcp(words),
        "flip-unix" => flip(words),
        "datagram-unix" => datagram(words),
        _ => return None,
    })
}

/// `serve-unix PATH NAME`: tells whoever connects its name, then says back whatever it hears.
fn serve_unix(words: &[&str]) -> Saw {
    let path = words.first().context("a path")?;
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o777))?;
    for stream in listener.incoming() {
        let stream = stream?;
        greet(stream.try_clone()?, stream, words)?;
    }
    Ok(json!({"ok": true}))
}

/// `serve-tcp ADDRESS NAME`: the same, at `127.0.0.1:5432` or `[::1]:5432`.
fn serve_tcp(words: &[&str]) -> Saw {
    let listener = TcpListener::bind(words.first().context("an address")?)?;
    for stream in listener.incoming() {
        let stream = stream?;
        greet(stream.try_clone()?, stream, words)?;
    }
    Ok(json!({"ok": true}))
}

fn greet(
    mut from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
    words: &[&str],
) -> anyhow::Result<()> {
    let name = format!("{}\n", words.get(1).context("a name")?);
    std::thread::spawn(move || -> std::io::Result<()> {
        to.write_all(name.as_bytes())?;
        let mut heard = [0; 4096];
        loop {
            let length = from.read(&mut heard)?;
            if length == 0 {
                return Ok(());
            }
            to.write_all(&heard[..length])?;
        }
    });
    Ok(())
}

/// `talk-unix PATH [stay]`: connects, says something and hears it; with `stay` until the other side ends it.
fn talk_unix(words: &[&str]) -> Saw {
    let connect = || {
        let stream = UnixStream::connect(words[0])?;
        Ok((stream.try_clone()?, stream))
    };
    talk(connect, words)
}

/// `talk-tcp ADDRESS [stay]`: the same, to `host:5432`.
fn talk_tcp(words: &[&str]) -> Saw {
    let connect = || {
        let stream = TcpStream::connect(words[0])?;
        Ok((stream.try_clone()?, stream))
    };
    talk(connect, words)
}

fn talk<S: Read + Write>(connect: impl Fn() -> std::io::Result<(S, S)>, words: &[&str]) -> Saw {
    words.first().context("an address")?;
    let pid = std::process::id();
    println!("talking as {pid}");
    let (from, mut to) = match connect() {
        Ok(ends) => ends,
        Err(error) => return Ok(failed(&error)),
    };
    let mut lines = BufReader::new(from);
    let mut line = || -> std::io::Result<String> {
        let mut line = String::new();
        lines.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    };
    let said = line()?;
    to.write_all(b"are you there\n")?;
    let heard = line()?;
    println!("{said} said {heard} to {pid}");
    if words.get(1) == Some(&"stay") {
        let rest = line().unwrap_or_default();
        println!("it is over for {pid}");
        return Ok(json!({"ok": true, "said": said, "rest": rest}));
    }
    Ok(json!({"ok": true, "said": said, "heard": heard}))
}

/// `flip-unix ONE OTHER ROUNDS`: connects again and again to an address that another thread keeps changing
/// between two paths; whom it reached.
fn flip(words: &[&str]) -> Saw {
    /// The kernel reads it while it is written.
    struct Address([AtomicU8; 110]);
    let address = Address(std::array::from_fn(|_| AtomicU8::new(0)));
    let family = (libc::AF_UNIX as u16).to_ne_bytes();
    for (to, from) in address.0.iter().zip(family) {
        to.store(from, Ordering::Relaxed);
    }
    let write = |path: &str| {
        let bytes = path.bytes().chain(std::iter::repeat(0));
        for (to, from) in address.0[2..].iter().zip(bytes) {
            to.store(from, Ordering::Relaxed);
        }
    };
    let (one, other) = (
        *words.first().context("a path")?,
        *words.get(1).context("another path")?,
    );
    let done = AtomicBool::new(false);
    let mut said = BTreeSet::new();
    let mut connected = 0;
    write(one);
    std::thread::scope(|scope| -> anyhow::Result<()> {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                write(other);
                write(one);
            }
        });
        for _ in 0..number(words, 2, 200) {
            // SAFETY: takes numbers only.
            let fd = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0) };
            // SAFETY: the kernel just made this descriptor for us; nobody else owns it.
            let socket = unsafe { OwnedFd::from_raw_fd(fd) };
            // SAFETY: the address is as long as is said, and atomics may be changed while they are read.
            let reached =
                unsafe { libc::connect(socket.as_raw_fd(), address.0.as_ptr().cast(), 110) };
            if reached == 0 {
                connected += 1;
                let mut name = String::new();
                BufReader::new(UnixStream::from(socket)).read_line(&mut name)?;
                said.insert(name.trim_end().to_owned());
            }
        }
        done.store(true, Ordering::Relaxed);
        Ok(())
    })?;
    Ok(json!({"ok": true, "said": said, "connected": connected}))
}

/// `datagram-unix PATH`: sends a datagram to a socket, connected and not.
fn datagram(words: &[&str]) -> Saw {
    let path = words.first().context("a path")?;
    let socket = UnixDatagram::unbound()?;
    Ok(json!({
        "send": result(socket.send_to(b"x", path)),
        "connect": result(socket.connect(path)),
    }))
}
