//! The second file wall: Landlock, as far as the kernel has it.
//!
//! What it adds to the mounts: process 1 cannot be traced or read, no mount call works even in a
//! nested user namespace, abstract sockets and signals do not leave the program's own domain. A
//! domain is fixed when a program starts, so the rules foresee paths that are mounted later: they
//! allow writing below every directory that is empty or read-only by its mount.

use crate::CageSpec;
use crate::root::SYSTEM;
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};
use std::io;
use std::path::{Path, PathBuf};

/// The newest interface that these rules were thought through for.
const NEWEST: ABI = ABI::V9;

/// Top-level directories that are only ever read.
const READ_ONLY: [&str; 3] = ["/etc", "/proc", "/sys"];

/// Devices that a program may use where the machine's own `/dev` is seen.
const DEVICES: [&str; 8] = [
    "null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts",
];

/// Makes the rules, from inside the finished cage. Applied by each program with `restrict_self`.
pub(crate) fn rules(spec: &CageSpec) -> io::Result<RulesetCreated> {
    make(spec).map_err(io::Error::other)
}

fn make(spec: &CageSpec) -> Result<RulesetCreated, RulesetError> {
    if !spec.confinement.has_namespaces() {
        return make_alone(spec);
    }
    let everything = AccessFs::from_all(NEWEST);
    let reading = AccessFs::from_read(NEWEST);
    // A socket of the host below a bind must not be reachable where the kernel can tell.
    let no_sockets = everything & !BitFlags::from(AccessFs::ResolveUnix);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(everything)?
        .scope(Scope::from_all(NEWEST))?
        .create()?;
    let list = BitFlags::from(AccessFs::ReadDir);
    rules = allow(rules, Path::new("/"), list)?;
    let top = std::fs::read_dir("/")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    for path in top.filter(|path| !path.is_symlink()) {
        let is_system = SYSTEM.iter().any(|name| Path::new("/").join(name) == path);
        let sealed = is_system || READ_ONLY.iter().any(|sealed| path == Path::new(sealed));
        rules = allow(rules, &path, if sealed { reading } else { everything })?;
    }
    rules = allow(rules, &spec.home, everything)?;
    let binds = spec.binds.iter();
    for (path, writable) in binds.map(|bind| (PathBuf::from(&bind.target), bind.writable)) {
        rules = allow(rules, &path, if writable { no_sockets } else { reading })?;
    }
    Ok(rules)
}

/// Where these rules are the only wall around files: what is not named is closed. Nothing is mounted later.
fn make_alone(spec: &CageSpec) -> Result<RulesetCreated, RulesetError> {
    let everything = AccessFs::from_all(NEWEST) & !BitFlags::from(AccessFs::ResolveUnix);
    let reading = AccessFs::from_read(NEWEST);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?;
    let system = SYSTEM.iter().map(|name| Path::new("/").join(name));
    for path in system.chain(READ_ONLY.map(PathBuf::from)) {
        rules = allow(rules, &path, reading)?;
    }
    for device in DEVICES {
        let device = Path::new("/dev").join(device);
        rules = allow(
            rules,
            &device,
            AccessFs::from_file(NEWEST) | AccessFs::ReadDir,
        )?;
    }
    // Without targets: what is shown is where it is.
    for bind in &spec.binds {
        rules = allow(
            rules,
            &bind.source,
            if bind.writable { everything } else { reading },
        )?;
    }
    for private in spec.private.iter().flat_map(|private| {
        [crate::plain::HOME, crate::plain::SCRATCH].map(|name| private.join(name))
    }) {
        rules = allow(rules, &private, everything)?;
    }
    Ok(rules)
}

fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    // What vanished or is closed to us needs no rule.
    let (Ok(at), Ok(seen)) = (PathFd::new(path), path.metadata()) else {
        return Ok(rules);
    };
    let access = if seen.is_dir() {
        access
    } else {
        access & AccessFs::from_file(NEWEST)
    };
    rules.add_rule(PathBeneath::new(at, access))
}
