//! Attacks that need raw system calls, each printing one JSON line of what it saw. Runs inside cages,
//! where each must fail, and uncaged as the control, where each must succeed.
//!
//! `fm-attack ATTACK ARGUMENTS…`; `fm-attack agent FOLDER` runs such commands for a test (see
//! `foreman_testkit::Arena`); `fm-attack without-nf-tables PROGRAM…` and
//! `fm-attack without-namespaces PROGRAM…` play poorer machines.

mod agent;
mod files;
mod kernel;
mod lacking;
mod load;
mod network;
mod processes;
mod sockets;

use anyhow::{Result, bail};
use serde_json::{Value, json};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let Some((&attack, rest)) = words.split_first() else {
        bail!("usage: fm-attack ATTACK ARGUMENTS…");
    };
    if attack == "agent" {
        return agent::serve(rest.first().copied().unwrap_or(".arena").as_ref());
    }
    if attack == "without-nf-tables" {
        return lacking::nf_tables(rest);
    }
    if attack == "without-namespaces" {
        return lacking::namespaces(rest);
    }
    let saw = network::attack(attack, rest)
        .or_else(|| kernel::attack(attack, rest))
        .or_else(|| processes::attack(attack, rest))
        .or_else(|| sockets::attack(attack, rest))
        .or_else(|| files::attack(attack, rest))
        .or_else(|| load::attack(attack, rest));
    let Some(saw) = saw else {
        bail!("there is no attack \"{attack}\"")
    };
    println!("{}", saw?);
    Ok(())
}

/// What an attack saw: a JSON object.
type Saw = Result<Value>;

/// The answer of a system call as JSON: `{"ok":true,"value":n}` or `{"ok":false,"errno":"EPERM"}`.
fn answer(value: i64) -> Value {
    if value >= 0 {
        json!({"ok": true, "value": value})
    } else {
        failed(&last_error())
    }
}

fn last_error() -> std::io::Error {
    std::io::Error::last_os_error()
}

fn failed(error: &std::io::Error) -> Value {
    let name = match error.raw_os_error() {
        Some(number) => format!("{:?}", nix::errno::Errno::from_raw(number)),
        None => match error.kind() {
            std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock => "ETIMEDOUT".to_owned(),
            kind => format!("{kind:?}"),
        },
    };
    json!({"ok": false, "errno": name})
}

fn result<T>(value: std::io::Result<T>) -> Value {
    match value {
        Ok(_) => json!({"ok": true}),
        Err(error) => failed(&error),
    }
}

fn number<T: std::str::FromStr>(words: &[&str], index: usize, default: T) -> T {
    words
        .get(index)
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}
