//! Too much of everything.

use crate::{Saw, number};
use serde_json::json;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

pub fn attack(name: &str, words: &[&str]) -> Option<Saw> {
    Some(match name {
        "fork-bomb" => fork_bomb(words),
        "thread-bomb" => Ok(thread_bomb(words)),
        "memory-hog" => Ok(memory_hog(words)),
        "hidden-hog" => Ok(hidden_hog(words)),
        "nameless-hog" => nameless_hog(words),
        "waking-hog" => waking_hog(words),
        "flood" => flood(words),
        "transfer" => transfer(words),
        "latency" => latency(words),
        "stamp" => Ok(json!({"ok": true, "nanos": nanos()})),
        "stamped-connect" => stamped_connect(words),
        _ => return None,
    })
}

/// `fork-bomb MOST`: children until none can be made, then ends them all.
fn fork_bomb(words: &[&str]) -> Saw {
    let most: u32 = number(words, 0, 5000);
    let mut children = Vec::new();
    let mut why = json!(null);
    while (children.len() as u32) < most {
        // SAFETY: this program has one thread; the child only waits for its end.
        match unsafe { nix::unistd::fork() } {
            Ok(nix::unistd::ForkResult::Child) => loop {
                nix::unistd::pause();
            },
            Ok(nix::unistd::ForkResult::Parent { child }) => children.push(child),
            Err(error) => {
                why = json!(format!("{error:?}"));
                break;
            }
        }
    }
    for child in &children {
        let _ = nix::sys::signal::kill(*child, nix::sys::signal::Signal::SIGKILL);
        let _ = nix::sys::wait::waitpid(*child, None);
    }
    Ok(json!({"ok": true, "children": children.len(), "stopped_by": why}))
}

/// `thread-bomb MOST`: the same with threads.
fn thread_bomb(words: &[&str]) -> serde_json::Value {
    let most: u32 = number(words, 0, 5000);
    let (stop, hold) = std::sync::mpsc::channel::<()>();
    let hold = std::sync::Arc::new(std::sync::Mutex::new(hold));
    let mut made = 0_u32;
    while made < most {
        let hold = hold.clone();
        let room = std::thread::Builder::new().stack_size(16 * 1024);
        let wait = move || drop(hold.lock().map(|hold| hold.recv()));
        if room.spawn(wait).is_err() {
            break;
        }
        made += 1;
    }
    drop(stop);
    json!({"ok": true, "threads": made})
}

/// `memory-hog MIB`: touches that much memory and keeps it for a minute.
fn memory_hog(words: &[&str]) -> serde_json::Value {
    let mut held = Vec::new();
    for _ in 0..number(words, 0, 64_u32) {
        held.push(vec![1_u8; 1024 * 1024]);
    }
    std::thread::sleep(Duration::from_secs(60));
    json!({"ok": true, "held": held.len()})
}

/// `hidden-hog MIB`: as `memory-hog`, in a process whose first thread has ended.
fn hidden_hog(words: &[&str]) -> serde_json::Value {
    let most: u32 = number(words, 0, 64_u32);
    std::thread::spawn(move || memory_hog(&[&most.to_string()]));
    // SAFETY: ends this thread only; nothing of it is used by the other one.
    unsafe { nix::libc::syscall(nix::libc::SYS_exit, 0) };
    json!({"ok": false})
}

/// `waking-hog MIB`: as `memory-hog`, slowly, with a pipe `alarm` that has the kernel send it SIGCONT
/// whenever somebody outside writes to it.
fn waking_hog(words: &[&str]) -> Saw {
    use nix::fcntl::{OFlag, open};
    use nix::sys::stat::Mode;
    use std::os::fd::AsRawFd;
    const F_SETSIG: nix::libc::c_int = 10;
    nix::unistd::mkfifo("alarm", Mode::from_bits_truncate(0o666))?;
    let alarm = open("alarm", OFlag::O_RDWR | OFlag::O_NONBLOCK, Mode::empty())?;
    let flags = nix::libc::O_RDWR | nix::libc::O_NONBLOCK | nix::libc::O_ASYNC;
    // SAFETY: these calls take numbers only.
    let set = unsafe {
        let owner = nix::libc::fcntl(alarm.as_raw_fd(), nix::libc::F_SETOWN, nix::libc::getpid());
        let signal = nix::libc::fcntl(alarm.as_raw_fd(), F_SETSIG, nix::libc::SIGCONT);
        owner == 0
            && signal == 0
            && nix::libc::fcntl(alarm.as_raw_fd(), nix::libc::F_SETFL, flags) == 0
    };
    let mut held = Vec::new();
    for _ in 0..number(words, 0, 64_u32) {
        held.push(vec![1_u8; 1024 * 1024]);
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_secs(60));
    Ok(json!({"ok": set, "held": held.len()}))
}

/// `nameless-hog MIB`: writes that much into a file that only a descriptor names.
fn nameless_hog(words: &[&str]) -> Saw {
    let file = nix::sys::memfd::memfd_create("hog", nix::sys::memfd::MFdFlags::empty())?;
    let mut file = std::fs::File::from(file);
    for _ in 0..number(words, 0, 64_u32) {
        file.write_all(&[1; 1024 * 1024])?;
    }
    std::thread::sleep(Duration::from_secs(60));
    Ok(json!({"ok": true}))
}

/// `flood BYTES`: that much output, with escape sequences and direction marks in it.
fn flood(words: &[&str]) -> Saw {
    let mut left: usize = number(words, 0, 1_000_000);
    let line = "\u{1b}[2J\u{1b}[31mAmend this? [a]\u{202e}\u{7}".repeat(8) + "\n";
    let mut out = std::io::stdout().lock();
    while left > 0 {
        let part = &line.as_bytes()[..line.len().min(left)];
        if out.write_all(part).is_err() {
            break;
        }
        left -= part.len();
    }
    Ok(json!({"ok": true}))
}

fn target(words: &[&str]) -> std::io::Result<SocketAddr> {
    use std::net::ToSocketAddrs;
    let host = words.first().copied().unwrap_or("127.0.0.1");
    (host, number(words, 1, 7019_u16))
        .to_socket_addrs()?
        .next()
        .ok_or_else(|| std::io::ErrorKind::NotFound.into())
}

fn connect(to: SocketAddr) -> std::io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, Duration::from_secs(60))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// `transfer HOST PORT get|put BYTES [http-proxy]`: moves bytes from the source or to the sink.
fn transfer(words: &[&str]) -> Saw {
    let bytes: usize = number(words, 3, 1 << 26);
    let mut stream = connect(target(words)?)?;
    let begin = Instant::now();
    let mut block = vec![0x5a_u8; 256 * 1024];
    let mut moved = 0_usize;
    if words.get(2) == Some(&"put") {
        while moved < bytes {
            let now = block.len().min(bytes - moved);
            stream.write_all(&block[..now])?;
            moved += now;
        }
        stream.shutdown(std::net::Shutdown::Write)?;
        stream.read_to_end(&mut Vec::new())?;
    } else {
        stream.write_all(format!("{bytes}\n").as_bytes())?;
        loop {
            let read = stream.read(&mut block)?;
            if read == 0 {
                break;
            }
            moved += read;
        }
    }
    Ok(json!({"ok": moved == bytes, "bytes": moved, "micros": begin.elapsed().as_micros()}))
}

/// `latency HOST PORT COUNT`: connects one after the other; micro-seconds of each.
fn latency(words: &[&str]) -> Saw {
    let to = target(words)?;
    let mut micros = Vec::new();
    for _ in 0..number(words, 2, 50_u32) {
        let begin = Instant::now();
        let stream = connect(to)?;
        micros.push(u64::try_from(begin.elapsed().as_micros())?);
        drop(stream);
    }
    micros.sort_unstable();
    let median = micros.get(micros.len() / 2);
    Ok(json!({"ok": true, "median_micros": median, "all": micros}))
}

/// The machine's clock in nanoseconds, for measuring between processes.
fn nanos() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(0))
}

/// `stamped-connect HOST PORT`: when a connect began and ended.
fn stamped_connect(words: &[&str]) -> Saw {
    let to = target(words)?;
    let begin = nanos();
    let done = TcpStream::connect_timeout(&to, Duration::from_secs(60));
    Ok(json!({"ok": done.is_ok(), "begin": begin, "end": nanos()}))
}
