//! Calls on files, each made by its number, as a program of the cage would make it.

use super::{raw, say};
use std::ffi::{CStr, CString};
use std::io::{BufRead as _, Read as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

const CWD: i64 = libc::AT_FDCWD as i64;

fn c(path: &str) -> CString {
    CString::new(path).unwrap()
}

fn at(path: &CStr) -> i64 {
    path.as_ptr() as i64
}

/// Makes each call of the write family on a file of its own: `folder/<call>/`, where `old` is.
pub fn family(folder: &str) {
    let times = [[0_i64; 2]; 2];
    let how = [libc::O_WRONLY as u64 | libc::O_CREAT as u64, 0o640, 0];
    let (times, how, value) = (times.as_ptr() as i64, how.as_ptr() as i64, c"v");
    let create = i64::from(libc::O_WRONLY | libc::O_CREAT);
    let temporary = i64::from(libc::O_TMPFILE | libc::O_WRONLY);
    let write = i64::from(libc::O_WRONLY | libc::O_TRUNC);
    // Name, number, and what to do with `<call>/new` (n), `<call>/old` (o) and `<call>` (f).
    type Arguments = fn(i64, i64, i64, [i64; 4]) -> Vec<i64>;
    let calls: &[(&str, i64, Arguments)] = &[
        ("openat", libc::SYS_openat, |n, _, _, x| {
            vec![CWD, n, x[0], 0o640]
        }),
        ("openat-old", libc::SYS_openat, |_, o, _, x| {
            vec![CWD, o, x[3], 0]
        }),
        ("openat-tmpfile", libc::SYS_openat, |_, _, f, x| {
            vec![CWD, f, x[2], 0o600]
        }),
        ("openat2", libc::SYS_openat2, |n, _, _, x| {
            vec![CWD, n, x[1], 24]
        }),
        ("mkdirat", libc::SYS_mkdirat, |n, _, _, _| {
            vec![CWD, n, 0o750]
        }),
        ("mknodat", libc::SYS_mknodat, |n, _, _, _| {
            vec![CWD, n, 0o100_600, 0]
        }),
        ("unlinkat", libc::SYS_unlinkat, |_, o, _, _| vec![CWD, o, 0]),
        ("renameat2", libc::SYS_renameat2, |n, o, _, _| {
            vec![CWD, o, CWD, n, 0]
        }),
        ("linkat", libc::SYS_linkat, |n, o, _, _| {
            vec![CWD, o, CWD, n, 0]
        }),
        ("symlinkat", libc::SYS_symlinkat, |n, o, _, _| {
            vec![o, CWD, n]
        }),
        ("truncate", libc::SYS_truncate, |_, o, _, _| vec![o, 1]),
        ("fchmodat", libc::SYS_fchmodat, |_, o, _, _| {
            vec![CWD, o, 0o600]
        }),
        ("fchmodat2", libc::SYS_fchmodat2, |_, o, _, _| {
            vec![CWD, o, 0o600, 0]
        }),
        ("fchownat", libc::SYS_fchownat, |_, o, _, _| {
            vec![CWD, o, -1, -1, 0]
        }),
    ];
    for (name, number, arguments) in calls {
        let places = ["new", "old", ""].map(|end| c(&format!("{folder}/{name}/{end}")));
        let [new, old, here] = &places;
        let extra = [create, how, temporary, write];
        say(
            name,
            raw(*number, &arguments(at(new), at(old), at(here), extra)),
        );
    }
    for (name, number) in [
        ("utimensat", libc::SYS_utimensat),
        ("setxattr", libc::SYS_setxattr),
        ("lsetxattr", libc::SYS_lsetxattr),
        ("removexattr", libc::SYS_removexattr),
    ] {
        let old = c(&format!("{folder}/{name}/old"));
        let attribute = at(c"user.cage");
        let arguments = match name {
            "utimensat" => vec![CWD, at(&old), times, 0],
            "removexattr" => vec![at(&old), attribute],
            _ => vec![at(&old), attribute, at(value), 1, 0],
        };
        say(name, raw(number, &arguments));
    }
    old_family(folder, times, create);
}

/// Those that only this architecture still has.
#[cfg(target_arch = "x86_64")]
fn old_family(folder: &str, times: i64, create: i64) {
    type Arguments = fn(i64, i64, i64, i64) -> Vec<i64>;
    let calls: &[(&str, i64, Arguments)] = &[
        ("open", libc::SYS_open, |n, _, _, create| {
            vec![n, create, 0o600]
        }),
        ("creat", libc::SYS_creat, |n, _, _, _| vec![n, 0o600]),
        ("mkdir", libc::SYS_mkdir, |n, _, _, _| vec![n, 0o700]),
        ("mknod", libc::SYS_mknod, |n, _, _, _| vec![n, 0o100_600, 0]),
        ("unlink", libc::SYS_unlink, |_, o, _, _| vec![o]),
        ("rename", libc::SYS_rename, |n, o, _, _| vec![o, n]),
        ("renameat", libc::SYS_renameat, |n, o, _, _| {
            vec![CWD, o, CWD, n]
        }),
        ("link", libc::SYS_link, |n, o, _, _| vec![o, n]),
        ("symlink", libc::SYS_symlink, |n, o, _, _| vec![o, n]),
        ("chmod", libc::SYS_chmod, |_, o, _, _| vec![o, 0o600]),
        ("chown", libc::SYS_chown, |_, o, _, _| vec![o, -1, -1]),
        ("lchown", libc::SYS_lchown, |_, o, _, _| vec![o, -1, -1]),
        ("utime", libc::SYS_utime, |_, o, times, _| vec![o, times]),
        ("utimes", libc::SYS_utimes, |_, o, times, _| vec![o, times]),
        ("futimesat", libc::SYS_futimesat, |_, o, times, _| {
            vec![CWD, o, times]
        }),
    ];
    for (name, number, arguments) in calls {
        let new = c(&format!("{folder}/{name}/new"));
        let old = c(&format!("{folder}/{name}/old"));
        say(
            name,
            raw(*number, &arguments(at(&new), at(&old), times, create)),
        );
    }
    let gone = c(&format!("{folder}/rmdir/empty"));
    say("rmdir", raw(libc::SYS_rmdir, &[at(&gone)]));
}

#[cfg(not(target_arch = "x86_64"))]
fn old_family(_: &str, _: i64, _: i64) {}

/// Opens a path to make it, writes a word, and tells mode bits and flags of the descriptor.
pub fn make(path: &str) {
    // SAFETY: sets the mask of this process.
    unsafe { libc::umask(0o027) };
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_CLOEXEC | libc::O_EXCL;
    let fd = raw(libc::SYS_openat, &[CWD, at(&c(path)), flags.into(), 0o666]);
    say("open", fd);
    if fd < 0 {
        return;
    }
    let fd = fd as i32;
    // SAFETY: reads flags of a descriptor.
    let (status, own) = unsafe {
        (
            libc::fcntl(fd, libc::F_GETFL),
            libc::fcntl(fd, libc::F_GETFD),
        )
    };
    println!("append {}", status & libc::O_APPEND != 0);
    println!("mode {}", status & libc::O_ACCMODE == libc::O_WRONLY);
    println!("cloexec {}", own == libc::FD_CLOEXEC);
    // SAFETY: the word is valid for the call.
    say(
        "write",
        unsafe { libc::write(fd, c"word".as_ptr().cast(), 4) } as i64,
    );
    // The same file in another way, and what is around it.
    let again = c(&format!("/proc/self/fd/{fd}"));
    say(
        "again",
        raw(libc::SYS_openat, &[CWD, at(&again), libc::O_RDWR.into(), 0]),
    );
    say(
        "read",
        raw(
            libc::SYS_openat,
            &[CWD, at(&again), libc::O_RDONLY.into(), 0],
        ),
    );
    say(
        "around",
        raw(
            libc::SYS_openat,
            &[fd.into(), at(c".."), libc::O_PATH.into(), 0],
        ),
    );
}

/// One open by its flags: `path flags`.
pub fn open(path: &str, flags: &str) {
    let flags: i64 = flags.parse().unwrap();
    say(
        "open",
        raw(libc::SYS_openat, &[CWD, at(&c(path)), flags, 0o600]),
    );
}

/// Eight threads make files outside, while a ninth makes them here until they have ended.
pub fn threads(folder: &str) {
    let barrier = Arc::new(Barrier::new(9));
    let ended = Arc::new(AtomicBool::new(false));
    let outside: Vec<_> = (0..8)
        .map(|number| {
            let path = c(&format!("{folder}/{number}"));
            let barrier = Arc::clone(&barrier);
            std::thread::spawn(move || {
                barrier.wait();
                let flags = i64::from(libc::O_WRONLY | libc::O_CREAT);
                raw(libc::SYS_openat, &[CWD, at(&path), flags, 0o600]) >= 0
            })
        })
        .collect();
    let stop = Arc::clone(&ended);
    barrier.wait();
    let inside = std::thread::spawn(move || {
        let mut count = 0;
        while !stop.load(Ordering::Relaxed) {
            std::fs::write("inside", "x").unwrap();
            count += 1;
            std::fs::write("count", count.to_string()).unwrap();
        }
        count
    });
    let done = outside.into_iter().filter_map(|thread| thread.join().ok());
    let done = done.filter(|done| *done).count();
    ended.store(true, Ordering::Relaxed);
    println!("outside {done}");
    println!("inside {}", inside.join().unwrap() > 0);
}

/// Makes a file while a timer interrupts every 5 ms.
pub fn interrupted(path: &str, restart: bool) {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: an all-zero action is one without flags and mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
    action.sa_flags = if restart { libc::SA_RESTART } else { 0 };
    let every = libc::timeval {
        tv_sec: 0,
        tv_usec: 5_000,
    };
    let timer = libc::itimerval {
        it_interval: every,
        it_value: every,
    };
    // SAFETY: the handler does nothing; both structures are valid for the calls.
    unsafe {
        libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut());
        libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut());
    }
    let flags = i64::from(libc::O_WRONLY | libc::O_CREAT);
    say(
        "open",
        raw(libc::SYS_openat, &[CWD, at(&c(path)), flags, 0o600]),
    );
}

/// Opens a path for writing again and again, while another thread changes its text; tells what the
/// descriptors are.
pub fn flip(one: &str, other: &str) {
    assert_eq!(one.len(), other.len());
    let text: &'static mut [u8] = c(one).into_bytes_with_nul().leak();
    let address = text.as_mut_ptr() as usize;
    let (first, second) = (c(one), c(other));
    std::thread::spawn(move || {
        let place = address as *mut u8;
        let mut turn = 88_172_645_463_325_252_u64;
        loop {
            for text in [&first, &second] {
                // No rhythm: whoever looks finds each about as often.
                turn ^= turn << 13;
                turn ^= turn >> 7;
                turn ^= turn << 17;
                for _ in 0..turn % 1000 {
                    std::hint::spin_loop();
                }
                // SAFETY: both texts have the length of the place. That it is read meanwhile is the point.
                unsafe {
                    std::ptr::copy_nonoverlapping(text.as_ptr().cast(), place, text.count_bytes())
                };
            }
        }
    });
    let flags = i64::from(libc::O_WRONLY | libc::O_CREAT);
    let until = Instant::now() + Duration::from_secs(10);
    let mut got = 0;
    while got < 20 && Instant::now() < until {
        let fd = raw(libc::SYS_openat, &[CWD, address as i64, flags, 0o600]);
        if fd >= 0 {
            let name = std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap();
            println!("got {}", name.display());
            got += 1;
            // SAFETY: the descriptor is ours alone.
            unsafe { libc::close(fd as i32) };
        }
    }
    println!("end done");
}

/// Makes `here/made` again and again, while another thread lets `here` be a folder and a link in turn.
pub fn swap(outside: &str) {
    std::fs::create_dir("here").unwrap();
    std::os::unix::fs::symlink(outside, "bait").unwrap();
    std::thread::spawn(|| {
        loop {
            let exchange = i64::from(libc::RENAME_EXCHANGE);
            let (here, bait) = (at(c"here"), at(c"bait"));
            raw(libc::SYS_renameat2, &[CWD, here, CWD, bait, exchange]);
        }
    });
    let flags = i64::from(libc::O_WRONLY | libc::O_CREAT);
    let (mut made, mut refused) = (0, 0);
    let until = Instant::now() + Duration::from_secs(10);
    while (made < 50 || refused < 50) && Instant::now() < until {
        let fd = raw(libc::SYS_openat, &[CWD, at(c"here/made"), flags, 0o600]);
        if fd >= 0 {
            made += 1;
            // SAFETY: the descriptor is ours alone.
            unsafe { libc::close(fd as i32) };
        } else {
            refused += 1;
        }
    }
    println!("made {made}\nrefused {refused}");
}

/// Bends `~/way` for ever: a folder, a link into the worktree, a folder that was moved.
pub fn bend(home: &str) {
    std::env::set_current_dir(home).unwrap();
    loop {
        // Any of these may fail, by what was mounted meanwhile.
        let _ = std::fs::create_dir("way");
        let _ = std::fs::rename("way", "moved");
        let _ = std::os::unix::fs::symlink("trees/run", "way");
        let _ = std::fs::remove_file("way");
        let _ = std::fs::rename("moved", "way");
        let _ = std::fs::remove_dir("way");
        let _ = std::fs::remove_dir("moved");
    }
}

/// Opens each path that it reads, for appending; tells the answers.
pub fn steps(path: &str) {
    let mut lines = std::io::BufReader::new(std::fs::File::open(path).unwrap()).lines();
    while let Some(Ok(line)) = lines.next() {
        let tried = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(&line);
        let answer = tried.map_or_else(
            |error| error.raw_os_error().unwrap_or(0).to_string(),
            |_| "done".into(),
        );
        println!("{line} {answer}");
        std::io::stdout().flush().unwrap();
    }
}

/// Reads a file to its end and prints it.
pub fn read(path: &str) {
    let mut text = String::new();
    match std::fs::File::open(path).and_then(|mut file| file.read_to_string(&mut text)) {
        Ok(_) => println!("read {text}"),
        Err(error) => println!("read {}", error.raw_os_error().unwrap_or(0)),
    }
}
