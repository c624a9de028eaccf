use super::*;
use std::io::{IoSlice, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};

fn setting(when: KeepAwake) -> Setting {
    Setting { when, floor: 20 }
}

fn supply(external: bool, charge: u8) -> Supply {
    Supply {
        external,
        charge: Some(charge),
    }
}

#[test]
fn sleep_is_held_off_only_while_a_run_is_live_and_power_comes_from_outside() {
    let power = setting(KeepAwake::Power);
    assert_eq!(judge(1, supply(true, 5), power), Verdict::Hold);
    assert_eq!(judge(0, supply(true, 90), power), Verdict::NothingRuns);
    assert_eq!(judge(3, supply(false, 90), power), Verdict::OnBattery);
    let never = setting(KeepAwake::Never);
    assert_eq!(judge(1, supply(true, 90), never), Verdict::SetToNever);
}

#[test]
fn on_battery_it_is_held_off_only_by_wish_and_down_to_the_floor() {
    let always = setting(KeepAwake::Always);
    assert_eq!(judge(1, supply(false, 20), always), Verdict::Hold);
    assert_eq!(judge(1, supply(false, 19), always), Verdict::BatteryLow(19));
    assert_eq!(judge(0, supply(false, 90), always), Verdict::NothingRuns);
    let unknown = Supply {
        external: false,
        charge: None,
    };
    assert_eq!(judge(1, unknown, always), Verdict::Hold);
}

#[test]
fn a_machine_that_cannot_is_told_in_words() {
    let standing = Standing {
        holding: false,
        trouble: Some("no bus".into()),
    };
    assert!(
        in_words(Verdict::Hold, &standing).contains("cannot be held off on this machine (no bus)")
    );
}

/// A system bus with a login manager on it, as far as one lock needs them.
struct Login {
    address: String,
    asked: std::sync::mpsc::Receiver<String>,
    let_go: std::sync::mpsc::Receiver<()>,
    _dir: tempfile::TempDir,
}

impl Login {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bus");
        let listener = UnixListener::bind(&path).unwrap();
        let (tell_asked, asked) = std::sync::mpsc::channel();
        let (tell_let_go, let_go) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            serve(stream, &tell_asked, &tell_let_go);
        });
        Self {
            address: format!("unix:path={}", path.display()),
            asked,
            let_go,
            _dir: dir,
        }
    }
}

/// The handshake, then method calls: each is answered with what it asks for.
fn serve(
    mut stream: UnixStream,
    asked: &std::sync::mpsc::Sender<String>,
    let_go: &std::sync::mpsc::Sender<()>,
) {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        stream.read_exact(&mut byte).unwrap();
        line.push(byte[0]);
        if !line.ends_with(b"\r\n") {
            continue;
        }
        let text = String::from_utf8_lossy(&line).into_owned();
        line.clear();
        let answer: &[u8] = match text.trim_start_matches('\0').trim() {
            "BEGIN" => break,
            "NEGOTIATE_UNIX_FD" => b"AGREE_UNIX_FD\r\n",
            text if text.starts_with("AUTH") && text.len() < 16 => b"DATA\r\n",
            _ => b"OK 0123456789abcdef0123456789abcdef\r\n",
        };
        stream.write_all(answer).unwrap();
    }
    let mut held = None;
    while let Some((serial, text)) = next_call(&mut stream) {
        if text.contains("Inhibit") && text.contains("org.freedesktop.login1") {
            asked.send(text).unwrap();
            let (ours, theirs) = UnixStream::pair().unwrap();
            reply(&stream, serial, "h", &0_u32.to_le_bytes(), Some(&theirs));
            held = Some(ours);
        } else {
            let mut name = 4_u32.to_le_bytes().to_vec();
            name.extend(b":1.7\0");
            reply(&stream, serial, "s", &name, None);
        }
        if let Some(mut lock) = held.take() {
            let let_go = let_go.clone();
            // The lock is held as long as somebody holds its other end.
            std::thread::spawn(move || {
                let _ = lock.read(&mut [0]);
                let _ = let_go.send(());
            });
        }
    }
}

/// The next call: its serial number, and all of it as text.
fn next_call(stream: &mut UnixStream) -> Option<(u32, String)> {
    let mut head = [0; 16];
    stream.read_exact(&mut head).ok()?;
    let number = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap());
    let (body, serial, fields) = (number(4), number(8), number(12));
    let mut rest = vec![0; (fields as usize).next_multiple_of(8) + body as usize];
    stream.read_exact(&mut rest).ok()?;
    Some((serial, String::from_utf8_lossy(&rest).into_owned()))
}

/// A method's return.
fn reply(stream: &UnixStream, to: u32, signature: &str, body: &[u8], fd: Option<&UnixStream>) {
    let mut fields = Vec::new();
    let mut field = |code: u8, kind: &str, value: &[u8]| {
        fields.resize(fields.len().next_multiple_of(8), 0);
        fields.push(code);
        fields.push(u8::try_from(kind.len()).unwrap());
        fields.extend(kind.as_bytes());
        fields.push(0);
        if kind != "g" {
            fields.resize(fields.len().next_multiple_of(4), 0);
        }
        fields.extend(value);
    };
    let text = |text: &str| {
        let length = u32::try_from(text.len()).unwrap();
        [&length.to_le_bytes()[..], text.as_bytes(), &[0]].concat()
    };
    field(5, "u", &to.to_le_bytes());
    field(6, "s", &text(":1.7"));
    field(7, "s", &text("org.freedesktop.DBus"));
    let length = u8::try_from(signature.len()).unwrap();
    field(
        8,
        "g",
        &[&[length][..], signature.as_bytes(), &[0]].concat(),
    );
    if fd.is_some() {
        field(9, "u", &1_u32.to_le_bytes());
    }
    let size = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap().to_le_bytes();
    let mut message = vec![b'l', 2, 0, 1];
    message.extend(size(body));
    message.extend(7_u32.to_le_bytes());
    message.extend(size(&fields));
    message.extend(&fields);
    message.resize(message.len().next_multiple_of(8), 0);
    message.extend(body);
    let raw = fd.map(|fd| [fd.as_raw_fd()]);
    let rights: Vec<_> = raw
        .iter()
        .map(|raw| nix::sys::socket::ControlMessage::ScmRights(raw))
        .collect();
    let data = [IoSlice::new(&message)];
    let flags = nix::sys::socket::MsgFlags::empty();
    nix::sys::socket::sendmsg::<()>(stream.as_raw_fd(), &data, &rights, flags, None).unwrap();
}

#[tokio::test]
async fn the_login_manager_is_asked_for_a_lock_and_sees_it_let_go_of() {
    let path = std::env::var("PATH").unwrap_or_default();
    let has_program =
        std::env::split_paths(&path).any(|folder| folder.join("systemd-inhibit").is_file());
    if !has_program {
        println!("skipped: systemd-inhibit is not installed here");
        return;
    }
    let login = Login::start();
    let address = login.address.clone();
    let taken = Inhibitor::take(|name| match name {
        "DBUS_SYSTEM_BUS_ADDRESS" => Some(address.clone()),
        name => std::env::var(name).ok(),
    });
    let held = taken.await.unwrap();
    let asked = login.asked.recv_timeout(Duration::from_secs(10)).unwrap();
    for wanted in ["sleep:idle", "Foreman", "A run is at work", "block"] {
        assert!(asked.contains(wanted), "{wanted} in {asked:?}");
    }
    assert!(login.let_go.try_recv().is_err(), "it is not held");
    drop(held);
    login.let_go.recv_timeout(Duration::from_secs(10)).unwrap();
}

#[tokio::test]
async fn without_a_bus_there_is_a_phrase_and_no_error() {
    let nowhere = |name: &str| match name {
        "DBUS_SYSTEM_BUS_ADDRESS" => Some("unix:path=/nonexistent/bus".to_owned()),
        name => std::env::var(name).ok(),
    };
    let why = Inhibitor::take(nowhere).await.unwrap_err();
    assert!(!why.is_empty());
    let no_programs = |name: &str| (name == "PATH").then(|| "/nonexistent".to_owned());
    assert!(Inhibitor::take(no_programs).await.is_err());
}
