//! Other processes: signals, memory, descriptors, sockets of the host, and outliving the run.

use crate::{Saw, answer, failed, number, result};
use anyhow::Context;
use serde_json::json;
use std::os::unix::net::UnixStream;

pub fn attack(name: &str, words: &[&str]) -> Option<Saw> {
    Some(match name {
        "process" => process(words),
        "processes" => processes(),
        "unix" => unix(words),
        "abstract" => abstract_socket(words),
        "listen-abstract" => listen_abstract(words),
        "receive" => receive(words),
        "hand-over" => hand_over(words),
        "daemonise" => daemonise(words),
        "memory-exec" => memory_exec(words),
        _ => return None,
    })
}

/// `process PID`: signal, trace, memory and descriptors of another process.
fn process(words: &[&str]) -> Saw {
    let pid: i32 = number(words, 0, 1);
    let byte = 0_u8;
    let local = libc::iovec {
        iov_base: (&raw const byte).cast_mut().cast(),
        iov_len: 1,
    };
    let remote = libc::iovec {
        iov_base: 0x40_0000 as *mut _,
        iov_len: 1,
    };
    // SAFETY: signal 0 only asks whether the process may be signalled.
    let kill = answer(i64::from(unsafe { libc::kill(pid, 0) }));
    // SAFETY: PTRACE_SEIZE takes no memory; a process seized here goes on when this one ends.
    let trace = answer(unsafe { libc::ptrace(libc::PTRACE_SEIZE, pid, 0, 0) });
    // SAFETY: writes at most one byte into `byte`, which lives over the call and is read no more.
    let read =
        answer(
            unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) }
                as i64,
        );
    // SAFETY: takes a process id and no flags.
    let handle = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let opened = answer(handle);
    // SAFETY: takes two descriptors and no flags; what it makes is closed when this program ends.
    let got = answer(unsafe { libc::syscall(libc::SYS_pidfd_getfd, handle, 0, 0) });
    let memory = result(
        std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(format!("/proc/{pid}/mem")),
    );
    Ok(json!({
        "ok": true, "kill": kill, "trace": trace, "read": read, "pidfd": opened, "getfd": got, "memory": memory,
        "environment": result(std::fs::read(format!("/proc/{pid}/environ"))),
        "root": result(std::fs::read_dir(format!("/proc/{pid}/root/"))),
        "descriptors": result(std::fs::read_dir(format!("/proc/{pid}/fd"))),
    }))
}

/// `processes`: ids and names of all that can be seen.
fn processes() -> Saw {
    let mut all = serde_json::Map::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.bytes().all(|byte| byte.is_ascii_digit()) {
            let comm = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            all.insert(name, json!(comm.trim()));
        }
    }
    Ok(json!({"ok": true, "processes": all}))
}

/// `unix PATH…`: connects to sockets by path.
fn unix(words: &[&str]) -> Saw {
    let mut saw = json!({"ok": true});
    for path in words {
        saw[*path] = result(UnixStream::connect(path));
    }
    Ok(saw)
}

fn abstract_address(name: &str) -> std::io::Result<std::os::unix::net::SocketAddr> {
    use std::os::linux::net::SocketAddrExt;
    std::os::unix::net::SocketAddr::from_abstract_name(name.as_bytes())
}

/// `abstract NAME`: connects to an abstract socket.
fn abstract_socket(words: &[&str]) -> Saw {
    let address = abstract_address(words.first().context("a name")?)?;
    Ok(result(UnixStream::connect_addr(&address)))
}

/// `listen-abstract NAME`: listens on one until killed, for tests on the host.
fn listen_abstract(words: &[&str]) -> Saw {
    let address = abstract_address(words.first().context("a name")?)?;
    let listener = std::os::unix::net::UnixListener::bind_addr(&address)?;
    println!("listening");
    for stream in listener.incoming() {
        drop(stream);
    }
    Ok(json!({"ok": true}))
}

/// `hand-over PATH FILE`: listens at a path and hands an open descriptor of the file to who connects.
fn hand_over(words: &[&str]) -> Saw {
    use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
    use std::os::fd::AsRawFd;
    let listener = std::os::unix::net::UnixListener::bind(words.first().context("a path")?)?;
    let file = std::fs::File::open(words.get(1).context("a file")?)?;
    println!("listening");
    for stream in listener.incoming() {
        let stream = stream?;
        let fds = [file.as_raw_fd()];
        let parts = [std::io::IoSlice::new(b"x")];
        let control = [ControlMessage::ScmRights(&fds)];
        let _ = sendmsg::<()>(
            stream.as_raw_fd(),
            &parts,
            &control,
            MsgFlags::empty(),
            None,
        );
    }
    Ok(json!({"ok": true}))
}

/// `receive PATH`: connects, takes a descriptor, reads from it.
fn receive(words: &[&str]) -> Saw {
    use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
    use std::io::Read;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    let stream = match UnixStream::connect(words.first().context("a path")?) {
        Ok(stream) => stream,
        Err(error) => return Ok(failed(&error)),
    };
    let mut byte = [0_u8];
    let mut parts = [std::io::IoSliceMut::new(&mut byte)];
    let mut space = nix::cmsg_space!([i32; 1]);
    let message = recvmsg::<()>(
        stream.as_raw_fd(),
        &mut parts,
        Some(&mut space),
        MsgFlags::empty(),
    )?;
    for part in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(fds) = part {
            let Some(&fd) = fds.first() else { continue };
            // SAFETY: the kernel just installed this descriptor for us; nobody else owns it.
            let owned = unsafe { OwnedFd::from_raw_fd(fd) };
            let mut text = String::new();
            std::fs::File::from(owned).read_to_string(&mut text)?;
            return Ok(json!({"ok": true, "read": text}));
        }
    }
    Ok(json!({"ok": false, "errno": "no descriptor"}))
}

/// `daemonise FILE MARK`: leaves a process behind by double fork and a session of its own, which keeps
/// writing to the file and carries the mark in its arguments.
fn daemonise(words: &[&str]) -> Saw {
    let (file, mark) = (
        words.first().context("a file")?,
        words.get(1).context("a mark")?,
    );
    let script =
        format!("while :; do date +%s%N > '{file}' 2>/dev/null; sleep 0.02; done # {mark}");
    let starter = format!(
        "trap '' HUP TERM INT; (setsid nohup /bin/sh -c \"{}\" </dev/null >/dev/null 2>&1 &) &",
        script.replace('"', "\\\"")
    );
    let status = std::process::Command::new("/bin/sh")
        .args(["-c", &starter])
        .status()?;
    Ok(json!({"ok": status.success()}))
}

/// `memory-exec PROGRAM ARGUMENTS…`: runs a copy of a program that has no file.
fn memory_exec(words: &[&str]) -> Saw {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    let program = std::fs::read(words.first().context("a program")?)?;
    let fd = nix::sys::memfd::memfd_create(c"x", nix::sys::memfd::MFdFlags::empty())?;
    let mut file = std::fs::File::from(fd);
    file.write_all(&program)?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let out = std::process::Command::new(path).args(&words[1..]).output();
    Ok(match out {
        Ok(out) => {
            json!({"ok": out.status.success(), "stdout": String::from_utf8_lossy(&out.stdout)})
        }
        Err(error) => failed(&error),
    })
}
