//! `foreman project show` and `trust`: what a repository itself says about making its runs ready.

use super::{Done, absolute, ask, needs_expect};
use crate::answer::Answer;
use crate::args::provisioning::{ProjectArgs, ProjectTrustArgs};
use crate::paint::Tone;
use foreman_domain::{ExitCode, sanitize_line, sanitize_text};
use foreman_engine::api::{Commands, ProjectRequest, ProjectView};
use foreman_policy::bytes_in_words;

/// Shows what would be copied and run.
pub async fn show(args: ProjectArgs, engine: &impl Commands, answer: &Answer) -> Done {
    let request = ProjectRequest {
        repo: absolute(&args.repo)?,
        expect: None,
    };
    let view = engine.project_show(request).await?;
    if answer.is_json() {
        answer.object(&view)?;
    } else {
        draw(&view, answer)?;
    }
    Ok(ExitCode::Ok)
}

/// Trusts what was shown.
pub async fn trust(args: ProjectTrustArgs, engine: &impl Commands, answer: &Answer) -> Done {
    let repo = absolute(&args.repo)?;
    let expect = match args.expect {
        Some(expect) => expect,
        None if answer.can_ask() => {
            let request = ProjectRequest {
                repo: repo.clone(),
                expect: None,
            };
            let view = engine.project_show(request).await?;
            draw(&view, answer)?;
            if view.sources.is_empty() || view.standing == "trusted" {
                return Ok(ExitCode::Ok);
            }
            if !ask("Have every run of this repository made ready like this?")? {
                return Ok(ExitCode::Ok);
            }
            view.expect
        }
        None => return Err(needs_expect("project trust", "foreman project show --json").into()),
    };
    let request = ProjectRequest {
        repo,
        expect: Some(expect),
    };
    let view = engine.project_trust(request).await?;
    if answer.is_json() {
        answer.object(&view)?;
    } else {
        answer.line("Trusted, exactly as it is now.")?;
    }
    Ok(ExitCode::Ok)
}

fn draw(view: &ProjectView, answer: &Answer) -> std::io::Result<()> {
    let heading = |text: &str| answer.line(&answer.paint().paint(Tone::Strong, text));
    if view.sources.is_empty() {
        return answer.paragraph(
            "This repository says nothing about making its runs ready. It could, in a file \
             .foreman/project.toml with `copy = [\"PATH\", ...]` and `setup = \"COMMAND\"`.",
        );
    }
    heading("Files")?;
    for source in &view.sources {
        let counts = if source.counts {
            ""
        } else {
            "  (left out: another one comes first)"
        };
        answer.line(&format!("  {}{counts}", sanitize_line(&source.file)))?;
        for pattern in &source.copy {
            answer.line(&format!("    copy   {}", sanitize_line(pattern)))?;
        }
        if let Some(setup) = &source.setup {
            for line in sanitize_text(setup).lines() {
                answer.line(&format!("    run    {}", sanitize_line(line)))?;
            }
        }
        for note in &source.notes {
            answer.line(&format!("    note   {}", sanitize_line(note)))?;
        }
    }
    heading("Copied from this checkout into each worktree, as things are now")?;
    if view.copies.is_empty() {
        answer.line("  nothing")?;
    }
    for (path, bytes) in &view.copies {
        answer.line(&format!(
            "  {}  {}",
            sanitize_line(path),
            bytes_in_words(*bytes)
        ))?;
    }
    if view.more > 0 {
        answer.line(&format!("  and {} more", view.more))?;
    }
    for warning in &view.warnings {
        answer.line(&format!("  {}", sanitize_line(warning)))?;
    }
    heading("Run in the cage before the agent")?;
    match &view.setup {
        None => answer.line("  nothing")?,
        Some(setup) => {
            for line in sanitize_text(setup).lines() {
                answer.line(&format!("  {}", sanitize_line(line)))?;
            }
        }
    }
    let standing = match view.standing.as_str() {
        "trusted" => "Trusted as it is: runs are made ready like this.",
        "changed" => {
            "Changed since it was trusted, so nothing of it is done; see `foreman project trust`."
        }
        _ => "Not trusted, so nothing of it is done; see `foreman project trust`.",
    };
    answer.line(standing)
}
