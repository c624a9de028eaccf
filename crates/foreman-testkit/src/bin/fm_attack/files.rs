//! Files outside: by every call that can make, change or reach one.

use crate::{Saw, failed, result};
use anyhow::Context;
use serde_json::{Value, json};
use std::ffi::CString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

pub fn attack(name: &str, words: &[&str]) -> Option<Saw> {
    Some(match name {
        "write" => write(words),
        "read" => read(words),
        "alter" => alter(words),
        "link" => link(words),
        "open-ways" => open_ways(words),
        "swap-link" => swap_link(words),
        "devices" => Ok(devices()),
        _ => return None,
    })
}

/// `write PATH…`: creates or overwrites.
fn write(words: &[&str]) -> Saw {
    let mut saw = json!({"ok": true});
    for path in words {
        saw[*path] = result(fs::write(path, b"attack"));
    }
    Ok(saw)
}

/// `read PATH…`: what can be read, with its beginning.
fn read(words: &[&str]) -> Saw {
    let mut saw = json!({"ok": true});
    for path in words {
        saw[*path] = match fs::metadata(path).and_then(|meta| {
            if meta.is_dir() {
                let names: Vec<String> = fs::read_dir(path)?
                    .flatten()
                    .map(|entry| entry.file_name().to_string_lossy().into_owned())
                    .collect();
                Ok(json!({"ok": true, "names": names}))
            } else {
                let bytes = fs::read(path)?;
                let head = String::from_utf8_lossy(&bytes[..bytes.len().min(400)]).into_owned();
                Ok(json!({"ok": true, "text": head}))
            }
        }) {
            Ok(value) => value,
            Err(error) => failed(&error),
        };
    }
    Ok(saw)
}

/// `alter PATH`: changes an existing file or folder without opening it for writing.
fn alter(words: &[&str]) -> Saw {
    let path = *words.first().context("a path")?;
    let c = CString::new(path)?;
    let moved = format!("{path}.moved");
    // SAFETY: the path is a C string that lives over each call; no other memory is passed.
    let (times, truncated, own) = unsafe {
        (
            crate::answer(i64::from(libc::utimensat(
                libc::AT_FDCWD,
                c.as_ptr(),
                std::ptr::null(),
                0,
            ))),
            crate::answer(i64::from(libc::truncate(c.as_ptr(), 0))),
            crate::answer(i64::from(libc::chown(c.as_ptr(), 0, 0))),
        )
    };
    // SAFETY: name and value are C strings of the given sizes that live over the call.
    let attribute = crate::answer(i64::from(unsafe {
        libc::setxattr(c.as_ptr(), c"user.fm".as_ptr(), c"x".as_ptr().cast(), 1, 0)
    }));
    Ok(json!({
        "ok": true,
        "times": times, "truncate": truncated, "own": own, "attribute": attribute,
        "mode": result(fs::set_permissions(path, fs::Permissions::from_mode(0o777))),
        "rename": result(fs::rename(path, &moved)),
        "remove": result(fs::remove_file(path)),
        "append": result(fs::OpenOptions::new().append(true).open(path)),
        "make_folder": result(fs::create_dir(format!("{path}.folder"))),
        "make_link": result(std::os::unix::fs::symlink("/etc/passwd", format!("{path}.link"))),
    }))
}

/// `link FROM TO`: a hard link.
fn link(words: &[&str]) -> Saw {
    Ok(result(fs::hard_link(
        words.first().context("from")?,
        words.get(1).context("to")?,
    )))
}

fn open_how(path: &CString, flags: i32, resolve: u64) -> Value {
    let how = [
        flags as u64,
        if flags & libc::O_CREAT != 0 { 0o600 } else { 0 },
        resolve,
    ];
    // SAFETY: the path is a C string and `how` has the 24 bytes that are named; both live over the
    // call. A descriptor that comes back is closed when this program ends.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_openat2,
            libc::AT_FDCWD,
            path.as_ptr(),
            how.as_ptr(),
            24,
        )
    };
    crate::answer(fd)
}

/// `open-ways PATH`: other ways to open a file for writing than open().
fn open_ways(words: &[&str]) -> Saw {
    let text = *words.first().context("a path")?;
    let path = CString::new(text)?;
    let folder = Path::new(text).parent().unwrap_or(Path::new("/"));
    let folder = CString::new(folder.as_os_str().to_string_lossy().as_bytes())?;
    // SAFETY: both are C strings that live over the calls; descriptors close when the program ends.
    let (by_path, temporary) = unsafe {
        (
            libc::open(path.as_ptr(), libc::O_PATH),
            libc::open(folder.as_ptr(), libc::O_TMPFILE | libc::O_WRONLY, 0o600),
        )
    };
    let reopened = result(
        fs::OpenOptions::new()
            .write(true)
            .open(format!("/proc/self/fd/{by_path}")),
    );
    let linked = if temporary >= 0 {
        let from = CString::new(format!("/proc/self/fd/{temporary}"))?;
        let to = CString::new(format!("{text}.linked"))?;
        // SAFETY: both are C strings that live over the call.
        crate::answer(i64::from(unsafe {
            libc::linkat(
                libc::AT_FDCWD,
                from.as_ptr(),
                libc::AT_FDCWD,
                to.as_ptr(),
                libc::AT_SYMLINK_FOLLOW,
            )
        }))
    } else {
        json!({"ok": false, "errno": "no temporary file"})
    };
    let mut handle = [0_u8; 136];
    handle[0] = 128;
    let mut mount = 0_i32;
    // SAFETY: the handle has room for the 128 bytes that it announces; the others live over the call.
    let named = crate::answer(unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            libc::AT_FDCWD,
            path.as_ptr(),
            handle.as_mut_ptr(),
            &raw mut mount,
            0,
        )
    });
    // SAFETY: the handle is the one just filled (or zeros), and lives over the call.
    let by_handle = crate::answer(unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            libc::AT_FDCWD,
            handle.as_ptr(),
            libc::O_RDWR,
        )
    });
    Ok(json!({
        "ok": true,
        "open": result(fs::OpenOptions::new().write(true).open(text)),
        "openat2": open_how(&path, libc::O_WRONLY, 0),
        "openat2_create": open_how(&path, libc::O_WRONLY | libc::O_CREAT, 0),
        "path_reopened": reopened,
        "temporary_linked": linked,
        "handle": named,
        "by_handle": by_handle,
    }))
}

/// `swap-link LINK GOOD BAD COUNT`: a thread keeps swapping where a link leads while another writes
/// through it.
fn swap_link(words: &[&str]) -> Saw {
    let [link, good, bad] =
        [words.first(), words.get(1), words.get(2)].map(|word| *word.unwrap_or(&""));
    let count: u32 = crate::number(words, 3, 2000);
    let next = format!("{link}.next");
    let mut written = 0_u32;
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop = &stop;
        scope.spawn(move || {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                for to in [good, bad] {
                    let _ = std::os::unix::fs::symlink(to, &next);
                    let _ = fs::rename(&next, link);
                }
            }
        });
        for _ in 0..count {
            written += u32::from(fs::write(link, b"attack").is_ok());
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    Ok(json!({"ok": true, "written": written}))
}

/// `devices`: device nodes, made or found.
fn devices() -> Value {
    let mut saw = json!({"ok": true});
    for (name, number) in [("null", (1_u64, 3_u64)), ("mem", (1, 1)), ("disk", (8, 0))] {
        let path = CString::new(format!("/tmp/fm-{name}")).unwrap_or_default();
        let device = libc::makedev(number.0 as u32, number.1 as u32);
        // SAFETY: the path is a C string that lives over the call.
        let made = unsafe { libc::mknod(path.as_ptr(), libc::S_IFCHR | 0o666, device) };
        saw[name] = crate::answer(i64::from(made));
    }
    let names: Vec<String> = fs::read_dir("/dev")
        .map(|all| {
            all.flatten()
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .collect()
        })
        .unwrap_or_default();
    saw["seen"] = json!(names);
    saw
}
