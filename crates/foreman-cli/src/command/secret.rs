//! `foreman secret set`, `list` and `remove`.

use super::Done;
use crate::answer::Answer;
use crate::args::{SecretName, SecretSetArgs};
use crate::error::{CliError, environment};
use crate::words;
use foreman_domain::{At, Code, ExitCode, Failure, sanitize_line};
use foreman_engine::api::{
    Commands, SecretList, SecretRef, SecretSet, SecretStore, SecretValue, SecretView,
};
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use std::io::{self, BufRead, IsTerminal, Read, Stdin, Write};

/// More than any value that is taken.
const LONGEST: u64 = 64 << 10;

/// Keeps a secret.
pub async fn set(args: SecretSetArgs, engine: &impl Commands, answer: &Answer) -> Done {
    let value = value_of(&args.name)?;
    let request = SecretSet {
        name: args.name,
        value: SecretValue(value),
        store: args.store.into(),
    };
    let kept = engine.secret_set(request).await?;
    if answer.is_json() {
        answer.object(&kept)?;
        return Ok(ExitCode::Ok);
    }
    answer.line(&format!(
        "The secret {} is kept in {}.",
        kept.name,
        place(kept.store)
    ))?;
    answer.line(&format!(
        "`foreman run --secret {}` hands it to a run, which may send it to any host that it reaches.",
        kept.name
    ))?;
    Ok(ExitCode::Ok)
}

/// Lists secrets.
pub async fn list(engine: &impl Commands, answer: &Answer) -> Done {
    let all = engine.secret_list(SecretList {}).await?;
    if answer.is_json() {
        answer.object(&all)?;
        return Ok(ExitCode::Ok);
    }
    if all.secrets.is_empty() {
        answer.line("There are no secrets. `foreman secret set NAME` keeps one.")?;
    }
    for secret in &all.secrets {
        answer.line(&row(secret))?;
    }
    if let Some(why) = &all.keyring {
        answer.paragraph(&format!(
            "The keyring was not looked at: {}.",
            sanitize_line(why)
        ))?;
    }
    Ok(ExitCode::Ok)
}

/// Forgets a secret.
pub async fn remove(name: SecretName, engine: &impl Commands, answer: &Answer) -> Done {
    let request = SecretRef { name: name.name };
    let gone = engine.secret_remove(request).await?;
    if answer.is_json() {
        answer.object(&gone)?;
    } else {
        let (name, place) = (&gone.name, place(gone.store));
        answer.line(&format!("The secret {name} is not in {place} any more."))?;
    }
    Ok(ExitCode::Ok)
}

fn row(secret: &SecretView) -> String {
    format!(
        "{}  in {}, set {}",
        sanitize_line(&secret.name),
        place(secret.store),
        words::ago(secret.set_at, At::now())
    )
}

fn place(store: SecretStore) -> &'static str {
    match store {
        SecretStore::Keyring => "your keyring",
        SecretStore::File => "a file of yours, not encrypted",
    }
}

/// The value: a line that is typed and not shown, or all of standard input without its last line end.
fn value_of(name: &str) -> Result<String, CliError> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return typed(name, &stdin)
            .map_err(|error| environment("the value was not read", &error).into());
    }
    let mut bytes = Vec::new();
    stdin
        .lock()
        .take(LONGEST)
        .read_to_end(&mut bytes)
        .map_err(|error| environment("the value was not read", &error))?;
    let text = String::from_utf8(bytes).map_err(|_| {
        Failure::new(Code::BadInput, "the value is no UTF-8 text")
            .hint("Encode it, in base64 for example.")
    })?;
    let value = text.strip_suffix('\n').unwrap_or(&text);
    Ok(value.strip_suffix('\r').unwrap_or(value).to_owned())
}

fn typed(name: &str, stdin: &Stdin) -> io::Result<String> {
    let shown = tcgetattr(stdin)?;
    let quiet = Quiet::begin(stdin, shown)?;
    let mut out = io::stderr().lock();
    write!(out, "Value of {} (it is not shown): ", sanitize_line(name))?;
    out.flush()?;
    let mut line = String::new();
    stdin.lock().take(LONGEST).read_line(&mut line)?;
    drop(quiet);
    writeln!(out)?;
    Ok(line.trim_end_matches(['\n', '\r']).to_owned())
}

/// A terminal that does not show what is typed; as before when this is dropped.
struct Quiet<'a> {
    stdin: &'a Stdin,
    shown: Termios,
}

impl<'a> Quiet<'a> {
    fn begin(stdin: &'a Stdin, shown: Termios) -> io::Result<Self> {
        let mut quiet = shown.clone();
        quiet.local_flags.remove(LocalFlags::ECHO);
        // What was typed before the question is no answer to it.
        tcsetattr(stdin, SetArg::TCSAFLUSH, &quiet)?;
        Ok(Self { stdin, shown })
    }
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        // Where the terminal is gone, nobody types any more.
        let _ = tcsetattr(self.stdin, SetArg::TCSAFLUSH, &self.shown);
    }
}
