//! The cage's `/etc`: an allow-list of what the host has, and our own answers about users, hosts and
//! name look-ups.
//!
//! An ordinary `/etc` holds more than programs need: the operator's network, mail, backup and
//! database set-up, and sometimes a token. So nothing is seen because it exists. Files are copied
//! (a cage does not change while it runs, and a copy costs less than a mount); directories are shown
//! read-only; a link is kept when it leads into the system's directories and replaced by what it
//! leads to otherwise. What cannot be read is left out.

use crate::identity::Identity;
use crate::root::{NewRoot, is_system, make_dir, make_dirs};
use crate::wire::{During, Failed};
use crate::{CageSpec, Step, gateway};
use std::fmt::Write as _;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

/// What may be seen of the host, sorted. No entry may hold credentials by its usual use.
const ALLOWED: [&str; 51] = [
    "alternatives",
    "bash.bashrc",
    "bash_completion.d",
    "bashrc",
    "bindresvport.blacklist",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "default/locale",
    "ethertypes",
    "fedora-release",
    "fonts",
    "gai.conf",
    "host.conf",
    "inputrc",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "lsb-release",
    "magic",
    "magic.mime",
    "mailcap",
    "manpath.config",
    "maven/logging",
    "maven/m2.conf",
    "mime.types",
    "netconfig",
    "networks",
    "os-release",
    "perl",
    "pki/ca-trust",
    "pki/java",
    "pki/tls/cert.pem",
    "pki/tls/certs",
    "pki/tls/openssl.cnf",
    "profile",
    "protocols",
    "redhat-release",
    "rpc",
    "services",
    "shells",
    "ssl/cert.pem",
    "ssl/certs",
    "ssl/openssl.cnf",
    "system-release",
    "terminfo",
    "timezone",
];

/// What may be seen of the host by the beginning of its name: versioned toolchains.
const ALLOWED_PREFIXES: [&str; 6] = ["java", "node", "php", "python", "ruby", "R"];

/// Larger files are shown, not copied: from about here on that costs less.
const MOST_COPIED: u64 = 16 * 1024;

pub(crate) fn build(root: &NewRoot, spec: &CageSpec, identity: Identity) -> Result<(), Failed> {
    let etc = root.at("etc");
    let during = |name: &str| format!("/etc/{name}");
    for name in ALLOWED {
        adopt(root, name).during(Step::EtcView, || during(name))?;
    }
    for entry in std::fs::read_dir("/etc")
        .during(Step::EtcView, || "/etc".into())?
        .flatten()
    {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if is_toolchain(name) {
            adopt(root, name).during(Step::EtcView, || during(name))?;
        }
    }
    for (name, text) in own_files(spec, identity) {
        std::fs::write(etc.join(name), text).during(Step::EtcView, || during(name))?;
    }
    symlink("/proc/self/mounts", etc.join("mtab")).during(Step::EtcView, || during("mtab"))
}

fn is_toolchain(name: &str) -> bool {
    ALLOWED_PREFIXES.iter().any(|prefix| {
        name.strip_prefix(prefix).is_some_and(|rest| {
            rest.is_empty() || rest.starts_with(|next: char| next.is_ascii_digit() || next == '-')
        })
    })
}

/// Takes one entry over, if the host has it. On the way of every launch: few calls per entry.
fn adopt(root: &NewRoot, name: &str) -> io::Result<()> {
    let host = Path::new("/etc").join(name);
    let here = root.at("etc").join(name);
    let Ok(mut seen) = host.symlink_metadata() else {
        return Ok(());
    };
    if name.contains('/')
        && let Some(parent) = here.parent()
    {
        make_dirs(parent)?;
    }
    let mut real = host;
    if seen.is_symlink() {
        // A dangling link and a directory that is closed to us are as good as absent.
        let Ok(target) = real.canonicalize() else {
            return Ok(());
        };
        if is_system(&target) {
            return symlink(target, here);
        }
        let Ok(found) = target.symlink_metadata() else {
            return Ok(());
        };
        (real, seen) = (target, found);
    }
    if seen.is_dir() {
        make_dir(&here)?;
        root.show(&real, &here)
    } else if seen.is_file() && seen.len() > MOST_COPIED {
        std::fs::write(&here, "")?;
        root.show(&real, &here)
    } else if seen.is_file() {
        match std::fs::read(&real) {
            Ok(bytes) => std::fs::write(&here, bytes),
            Err(_) => Ok(()),
        }
    } else {
        Ok(())
    }
}

/// The files that are never the host's.
fn own_files(spec: &CageSpec, identity: Identity) -> [(&'static str, String); 9] {
    let user = user_name(spec);
    let home = spec.home.display().to_string();
    let home = if home.contains([':', '\n']) {
        "/".to_owned()
    } else {
        home
    };
    let shell = if Path::new("/bin/bash").exists() {
        "/bin/bash"
    } else {
        "/bin/sh"
    };
    let (uid, gid) = (identity.uid, identity.gid);
    let mut passwd = String::from("root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n");
    let _ = writeln!(passwd, "{user}:x:{uid}:{gid}::{home}:{shell}");
    let mut group = String::from("root:x:0:\n");
    let _ = writeln!(group, "{user}:x:{gid}:");
    if uid != 65534 {
        passwd.push_str("nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n");
    }
    if gid != 65534 {
        group.push_str("nogroup:x:65534:\n");
    }
    let name = &spec.hostname;
    let hosts = format!(
        "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.1.1\t{name}\n"
    );
    let nsswitch = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n\
        protocols: files\nservices: files\nethers: files\nrpc: files\n";
    [
        ("passwd", passwd),
        ("group", group),
        ("hosts", hosts),
        ("hostname", format!("{name}\n")),
        (
            "resolv.conf",
            format!("nameserver {}\n", gateway::resolver_address()),
        ),
        ("nsswitch.conf", nsswitch.to_owned()),
        ("machine-id", format!("{}\n", machine_id(name))),
        ("subuid", String::new()),
        ("subgid", String::new()),
    ]
}

/// The user's name inside: what the environment says, when it is a plain name.
fn user_name(spec: &CageSpec) -> &str {
    let of = |key: &str| {
        spec.env
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value)
    };
    let plain = |name: &&String| {
        let rest = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        name.as_bytes()
            .first()
            .is_some_and(|first| first.is_ascii_alphabetic() || *first == b'_')
            && name.len() <= 32
            && name.bytes().all(rest)
            && !matches!(name.as_str(), "root" | "nobody" | "nogroup")
    };
    of("USER")
        .filter(plain)
        .or_else(|| of("LOGNAME").filter(plain))
        .map_or("agent", String::as_str)
}

/// An id that says nothing about the host: the same for every cage of one name.
fn machine_id(name: &str) -> String {
    // FNV-1a, twice with different beginnings: it need only look like an id.
    let hash = |mut state: u64| {
        for byte in Path::new(name).as_os_str().as_bytes() {
            state = (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        state
    };
    format!(
        "{:016x}{:016x}",
        hash(0xcbf2_9ce4_8422_2325),
        hash(0x9e37_79b9_7f4a_7c15)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toolchains_are_known_by_name_and_version() {
        for name in [
            "java-17-openjdk",
            "python3.11",
            "python3",
            "node",
            "R",
            "php8",
        ] {
            assert!(is_toolchain(name), "{name}");
        }
        for name in [
            "nodesecrets",
            "javascript",
            "Rsync",
            "rsyncd.conf",
            "phpmyadmin",
        ] {
            assert!(!is_toolchain(name), "{name}");
        }
    }

    #[test]
    fn a_users_name_with_a_colon_or_a_line_break_is_not_believed() {
        let mut spec = CageSpec {
            hostname: "h".into(),
            workdir: "/w".into(),
            home: "/home/op".into(),
            binds: vec![],
            env: vec![("USER".into(), "op:x\n".into())],
            why_program: "/bin/true".into(),
            processes: 1,
            root_maps_to: 65534,
            hidden: vec![],
            accept_weaker: vec![],
            confinement: Default::default(),
            private: None,
        };
        assert_eq!(user_name(&spec), "agent");
        spec.env = vec![("USER".into(), "op".into())];
        assert_eq!(user_name(&spec), "op");
    }

    #[test]
    fn machine_ids_have_the_usual_form() {
        assert_eq!(machine_id("a").len(), 32);
        assert_ne!(machine_id("a"), machine_id("b"));
    }
}
