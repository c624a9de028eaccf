//! Runs commands for a test: takes `N.request` files, starts each as a process, writes `N.reply`.
//! `N.kill` kills one, `end` ends the agent. Prints `arena ready` when it listens.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Most output of a command that a reply keeps.
const KEPT: usize = 200_000;

pub fn serve(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    // The test may be another user than the payload.
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777))?;
    println!("arena ready");
    loop {
        if folder.join("end").exists() {
            return Ok(());
        }
        for entry in fs::read_dir(folder)?.flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|ending| ending == "request") {
                let request: Value = serde_json::from_slice(&fs::read(&path)?)?;
                fs::remove_file(&path)?;
                std::thread::spawn(move || answer(&path, &request));
            }
        }
        std::thread::sleep(Duration::from_millis(3));
    }
}

fn answer(path: &Path, request: &Value) {
    let begin = Instant::now();
    let mut reply = match perform(path, request) {
        Ok(reply) => reply,
        Err(error) => json!({"code": 127, "stdout": "", "stderr": format!("{error:#}")}),
    };
    reply["millis"] = json!(u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX));
    let draft = path.with_extension("reply-draft");
    let written = fs::write(&draft, reply.to_string())
        .and_then(|()| fs::set_permissions(&draft, fs::Permissions::from_mode(0o666)))
        .and_then(|()| fs::rename(&draft, path.with_extension("reply")));
    if let Err(error) = written {
        eprintln!("arena: {error}");
    }
}

fn perform(path: &Path, request: &Value) -> Result<Value> {
    let argv: Vec<&str> = request["argv"]
        .as_array()
        .context("argv")?
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let (program, arguments) = argv.split_first().context("an empty argv")?;
    let (out_file, err_file) = (scratch(path, "out"), scratch(path, "err"));
    let mut child = Command::new(program)
        .args(arguments)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(fs::File::create(&out_file)?)
        .stderr(fs::File::create(&err_file)?)
        .spawn()
        .with_context(|| format!("start {program}"))?;
    let kill = path.with_extension("kill");
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if kill.exists() {
            let group = nix::unistd::Pid::from_raw(child.id().cast_signed());
            let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    let reply = json!({"code": code, "stdout": text(&out_file), "stderr": text(&err_file)});
    let _ = fs::remove_file(out_file);
    let _ = fs::remove_file(err_file);
    Ok(reply)
}

fn scratch(path: &Path, ending: &str) -> PathBuf {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    std::env::temp_dir().join(format!("arena-{name}.{ending}"))
}

fn text(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes[..bytes.len().min(KEPT)]).into_owned()
}
