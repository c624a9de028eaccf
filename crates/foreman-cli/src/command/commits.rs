//! `foreman log`: the commits of a run.

use super::Done;
use crate::answer::Answer;
use crate::args::LogArgs;
use crate::layout::fit;
use crate::paint::{Paint, Tone};
use crate::words;
use foreman_domain::{ExitCode, sanitize_line};
use foreman_engine::api::{Commands, CommitPage, CommitView, CommitsRequest};
use std::io;

/// Commits that stand above a diff.
const ABOVE: u32 = 10;

/// Lists the commits that a merge would bring, newest first.
pub async fn log(args: LogArgs, engine: &impl Commands, answer: &Answer) -> Done {
    let request = CommitsRequest {
        run: args.run.clone(),
        expect: None,
        skip: args.skip,
        limit: args.limit,
    };
    let page = engine.run_commits(request).await?;
    if answer.is_json() {
        answer.object(&page)?;
        return Ok(ExitCode::Ok);
    }
    lines(&page, answer)?;
    if page.commits.is_empty() {
        answer.line("There are no commits there.")?;
    }
    let run = sanitize_line(&args.run);
    if let Some(next) = page.next {
        let left = words::count(u64::from(page.total.saturating_sub(next)), "more commit");
        answer.line(&format!(
            "There are {left}: `foreman log {run} --skip {next}`."
        ))?;
    }
    if page.truncated {
        let listed = page.total;
        answer.line(&format!("Only the newest {listed} are listed."))?;
    }
    Ok(ExitCode::Ok)
}

/// The newest commits, above a diff of all of them.
pub(super) async fn above(run: &str, engine: &impl Commands, answer: &Answer) -> Done {
    let request = CommitsRequest {
        limit: Some(ABOVE),
        ..CommitsRequest::new(run)
    };
    let page = engine.run_commits(request).await?;
    lines(&page, answer)?;
    if let Some(next) = page.next {
        let left = words::count(u64::from(page.total.saturating_sub(next)), "more commit");
        answer.line(&format!(
            "  and {left}: `foreman log {}`",
            sanitize_line(run)
        ))?;
    }
    Ok(ExitCode::Ok)
}

fn lines(page: &CommitPage, answer: &Answer) -> io::Result<()> {
    for commit in &page.commits {
        // Colours would be counted as characters.
        let plain = line(commit, Paint::new(false));
        match answer.columns().map(|width| fit(&plain, width)) {
            Some(cut) if cut != plain => answer.line(&cut)?,
            _ => answer.line(&line(commit, answer.paint()))?,
        }
    }
    Ok(())
}

/// One commit. Its words are the run's.
fn line(commit: &CommitView, paint: Paint) -> String {
    let figures = match (commit.added, commit.removed) {
        (Some(added), Some(removed)) => format!(
            "{} {}",
            paint.paint(Tone::Good, &format!("+{added}")),
            paint.paint(Tone::Bad, &format!("-{removed}"))
        ),
        _ => "lines not counted".to_owned(),
    };
    let subject = match commit.subject.as_str() {
        "" => "(no message)".to_owned(),
        subject => sanitize_line(subject),
    };
    let merge = if commit.parents > 1 { "  merge" } else { "" };
    format!(
        "  {}  {}  {subject}  {}, {figures}{merge}",
        paint.paint(Tone::Key, &words::short(&commit.sha)),
        commit.authored_at.0.strftime("%F %R"),
        words::count(u64::from(commit.files), "file"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreman_domain::At;

    #[test]
    fn a_commit_is_one_line_that_cannot_steer_the_terminal() {
        let commit = CommitView {
            sha: "a".repeat(40),
            subject: "x\u{1b}[2J\u{202e}\ny".into(),
            authored_at: At::from_millis(0),
            parents: 2,
            files: 1,
            added: Some(3),
            removed: Some(0),
        };
        let shown = line(&commit, Paint::new(false));
        assert_eq!(
            shown,
            "  aaaaaaaaaa  1970-01-01 00:00  x␛[2J<U+202E>␊y  1 file, +3 -0  merge"
        );
        let nameless = CommitView {
            subject: String::new(),
            added: None,
            ..commit
        };
        let shown = line(&nameless, Paint::new(false));
        assert!(shown.contains("(no message)") && shown.contains("lines not counted"));
    }
}
