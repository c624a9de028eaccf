//! The demo within its world: repository, run, card, diff, merge.

use super::story::{BEGINNING, REVIEW, Story};
use super::{SHORT, story};
use crate::answer::Answer;
use crate::command::{Done, show_diff};
use crate::error::{CliError, environment};
use crate::paint::Tone;
use crate::terminal::ask_key;
use crate::watch::{self, Ended, Watching};
use crate::words;
use foreman_domain::{Code, EventSeq, ExitCode, Failure, RunState, sanitize_line};
use foreman_engine::api::{Commands, DiffView, MergeRequest, Remote, RunCreate, RunRef, RunView};
use foreman_engine::place;
use foreman_engine::{Host, HostOptions};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const AGENT: &str = include_str!("agent.sh");

/// Runs the demo in `dir`.
pub async fn run(dir: &Path, keep: bool, answer: &Answer) -> Done {
    let repo = make_repository(dir)?;
    let engine = Remote(Host::open(places(dir)?).await?);
    let done = play(&repo, keep, &engine, answer).await;
    engine.0.close().await;
    done
}

/// Where the demo's engine keeps its things.
pub(super) fn places(dir: &Path) -> Result<HostOptions, Failure> {
    let data_dir = dir.join("data");
    let runtime_dir = match data_dir.as_os_str().len() {
        0..SHORT => None,
        _ => place::from_environment()?.runtime_dir,
    };
    Ok(HostOptions {
        data_dir,
        runtime_dir,
        shim_program: Some(foreman_engine::shim_program()?),
    })
}

async fn play(repo: &Path, keep: bool, engine: &impl Commands, answer: &Answer) -> Done {
    say(answer, story::BEGINNING_TITLE, BEGINNING)?;
    let run = engine.run_create(order(repo)).await?;
    let mut story = Story::new(answer.can_ask());
    let mut watching = Watching::after(EventSeq(0));
    watching.narrator = Some(Box::new(move |event| story.tell(event)));
    watching.amends_itself = !answer.can_ask();
    let ended = watch::follow(engine, &run, watching, answer).await?;
    let name = RunRef {
        run: run.id.to_string(),
    };
    if ended != Ended::Over {
        // The world ends with this process, and takes the run with it.
        engine.run_stop(name).await?;
        return Ok(ExitCode::Cancelled);
    }
    let run = engine.run_show(name.clone()).await?;
    let RunState::Review { .. } = run.state else {
        let text = format!(
            "the demo's run ended otherwise than it should: {}",
            words::state(&run.state)
        );
        if let Some(outcome) = &run.outcome
            && words::run_exit(outcome, false, true) == ExitCode::Cancelled
        {
            return Ok(ExitCode::Cancelled);
        }
        return Err(Failure::new(Code::Environment, text)
            .hint("`foreman doctor` shows whether a wall is missing on this machine.")
            .into());
    };
    let view = engine.run_diff(name.into()).await?;
    review(&run, &view, repo, keep, engine, answer).await
}

async fn review(
    run: &RunView,
    view: &DiffView,
    repo: &Path,
    keep: bool,
    engine: &impl Commands,
    answer: &Answer,
) -> Done {
    if !answer.is_json() {
        answer.line("")?;
        say(answer, "Review", REVIEW)?;
        show_diff(view, answer)?;
        answer.line("")?;
        if answer.can_ask() {
            let question = "Press m to merge it into the branch main, any other key to leave it: ";
            if ask_key(question).await? != Some('m') {
                answer.line("Left as it is: nothing was merged.")?;
                return farewell(keep, answer);
            }
        } else {
            answer.line("There is no terminal to ask on, so the demo merges it now by itself.")?;
        }
    }
    let request = MergeRequest {
        with_secrets: false,
        run: run.id.to_string(),
        expect: view.expect.clone(),
        despite_checks: None,
    };
    let merged = engine.run_merge(request).await?;
    if answer.is_json() {
        answer.object(&json!({ "demo": { "run": merged, "diff": view } }))?;
        return Ok(ExitCode::Ok);
    }
    let RunState::Merged { commit } = &merged.state else {
        let text = format!("the merge did not happen: {}", words::state(&merged.state));
        return Err(Failure::new(Code::Conflict, text).into());
    };
    let paint = answer.paint();
    answer.line(&paint.paint(
        Tone::Good,
        &format!("Merged: main is now at {}.", words::short(commit)),
    ))?;
    for line in git(repo, &["log", "--format=%h %an: %s", "-4"])?.lines() {
        answer.line(&format!("  {}", sanitize_line(line)))?;
    }
    let release = std::fs::read_to_string(repo.join("RELEASE.txt")).unwrap_or_default();
    if !release.is_empty() {
        answer.line(&format!(
            "  RELEASE.txt: {}",
            sanitize_line(release.trim_end())
        ))?;
    }
    farewell(keep, answer)
}

fn farewell(keep: bool, answer: &Answer) -> Done {
    answer.line("")?;
    answer.line(if keep {
        "That was all of it. The demo's directory is kept."
    } else {
        "That was all of it. The demo's directory is removed now."
    })?;
    answer.paragraph(
        "Next, in a repository of yours: `foreman run -- YOUR-AGENT ARGS`; `foreman --help` has the rest.")?;
    Ok(ExitCode::Ok)
}

/// The order's title, and its agent.
pub(super) const TITLE: &str = "take over the newest release";
pub(super) const AGENT_ARGV: [&str; 2] = ["bash", "agent.sh"];

fn order(repo: &Path) -> RunCreate {
    RunCreate {
        title: Some(TITLE.into()),
        ..RunCreate::new(repo.to_owned(), AGENT_ARGV.map(String::from).to_vec())
    }
}

fn say(answer: &Answer, title: &str, text: &str) -> Result<(), CliError> {
    if !answer.is_json() {
        answer.line(&answer.paint().paint(Tone::Strong, title))?;
        answer.paragraph(text)?;
        answer.line("")?;
    }
    Ok(())
}

/// Makes the demo's repository and says where it is.
pub(super) fn make_repository(dir: &Path) -> Result<PathBuf, Failure> {
    let repo = dir.join("repo");
    let write = |name: &str, text: &str| {
        std::fs::write(repo.join(name), text)
            .map_err(|error| environment("the demo's repository cannot be written", &error))
    };
    std::fs::create_dir(&repo)
        .map_err(|error| environment("the demo's repository cannot be made", &error))?;
    git(&repo, &["init", "--quiet", "--initial-branch=main"])?;
    git(&repo, &["config", "user.name", "Demo Operator"])?;
    git(&repo, &["config", "user.email", "operator@demo.example"])?;
    write(
        "README.md",
        "# demo\n\nA throw-away repository of `foreman demo`.\n",
    )?;
    write("NOTES.md", "# notes\n\n")?;
    write("agent.sh", AGENT)?;
    git(&repo, &["add", "."])?;
    git(
        &repo,
        &["commit", "--quiet", "--message", "demo: a small repository"],
    )?;
    Ok(repo)
}

/// Runs git as the demo's operator: nobody's configuration, no prompts.
fn git(repo: &Path, args: &[&str]) -> Result<String, Failure> {
    let mut command = Command::new("git");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GIT_") {
            command.env_remove(name);
        }
    }
    let output = command
        .current_dir(repo)
        .args(args)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| environment("the program git cannot be started", &error))?;
    if !output.status.success() {
        let said = sanitize_line(String::from_utf8_lossy(&output.stderr).trim());
        let text = format!(
            "`git {}` failed in the demo's repository: {said}",
            args.join(" ")
        );
        return Err(Failure::new(Code::Environment, text));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
