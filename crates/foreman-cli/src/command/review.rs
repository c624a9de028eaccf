//! `foreman diff` and `merge`.

use super::{Done, ask, commits, gate, needs_expect};
use crate::answer::Answer;
use crate::args::{DiffArgs, MergeArgs};
use crate::error::CliError;
use crate::paint::{Paint, Tone};
use crate::words;
use foreman_domain::{Code, ExitCode, Failure, RunState, sanitize_line};
use foreman_engine::api::{Commands, DiffFile, DiffRequest, DiffView, MergeRequest, RefusedFor};
use std::io;

/// Shows what a run changed.
pub async fn diff(args: DiffArgs, engine: &impl Commands, answer: &Answer) -> Done {
    let request = DiffRequest::new(&*args.run)
        .since(args.since.clone())
        .of_commit(args.commit.clone());
    let view = engine.run_diff(request).await?;
    if answer.is_json() {
        answer.object(&view)?;
        return Ok(ExitCode::Ok);
    }
    let is_part = args.since.is_some() || args.commit.is_some();
    if !is_part {
        commits::above(&args.run, engine, answer).await?;
    }
    show(&view, answer)?;
    match &view.refusal {
        None if is_part => answer.line(&format!(
            "That is only a part of it; `foreman diff {}` shows all of it.",
            sanitize_line(&args.run)
        ))?,
        None => answer.line(&format!(
            "`foreman merge {}` takes it over.",
            sanitize_line(&args.run)
        ))?,
        Some(why) => answer.line(&format!(
            "A merge would be refused now: {}.",
            sanitize_line(why)
        ))?,
    }
    Ok(ExitCode::Ok)
}

/// Takes over what was reviewed.
pub async fn merge(args: MergeArgs, engine: &impl Commands, answer: &Answer) -> Done {
    let expect = match args.expect {
        Some(expect) => expect,
        None if !answer.can_ask() => {
            return Err(needs_expect("merge", "foreman diff RUN --json").into());
        }
        None => {
            let request = DiffRequest::new(&*args.run);
            let view = engine.run_diff(request).await?;
            show(&view, answer)?;
            // The queue syncs and checks; and a reason was given for checks that did not pass.
            let is_meant = match view.refused_for {
                Some(RefusedFor::Checks) => args.despite_checks.is_some(),
                Some(RefusedFor::Secret) => args.with_secret,
                _ => false,
            };
            let is_met = args.queue || is_meant;
            if let Some(why) = &view.refusal
                && !is_met
            {
                return Err(Failure::new(Code::Conflict, sanitize_line(why)).into());
            }
            if !ask("Merge this?")? {
                answer.line("Nothing was merged.")?;
                return Ok(ExitCode::Ok);
            }
            view.expect
        }
    };
    let request = MergeRequest {
        run: args.run.clone(),
        expect,
        despite_checks: args.despite_checks,
        with_secrets: args.with_secret,
    };
    if args.queue {
        let entry = engine.merge_queue(request).await?;
        if !answer.is_json() && !args.no_wait {
            answer.line("It is in the merge queue; waiting for it …")?;
        }
        let entry = match args.no_wait {
            true => entry,
            false => gate::wait_for(&args.run, entry, engine).await?,
        };
        return gate::tell_entry(&entry, answer);
    }
    let run = match engine.run_merge(request).await {
        Err(failure) => return Err(refused(failure, &args.run, engine, answer).await),
        Ok(run) => run,
    };
    if answer.is_json() {
        answer.object(&run)?;
        return Ok(ExitCode::Ok);
    }
    match &run.state {
        RunState::Merged { commit } => {
            answer.line(&format!(
                "Merged: {} is now at {}.",
                sanitize_line(&run.base_branch),
                words::short(commit)
            ))?;
            let id = &run.id;
            answer.line(&format!(
                "`foreman discard {id}` cleans its worktree and branch up."
            ))?;
            super::compare::tell_of_others(id, engine, answer).await?;
        }
        state => answer.line(&format!("Run {}: {}.", run.id, words::state(state)))?,
    }
    Ok(ExitCode::Ok)
}

/// A refused merge; where commits were added since they were reviewed, these are shown first.
async fn refused(failure: Failure, run: &str, engine: &impl Commands, answer: &Answer) -> CliError {
    let since = failure.hint.as_deref().and_then(|hint| {
        let after = hint.split_once("--since ")?.1;
        after.split('`').next().map(str::to_owned)
    });
    if failure.code == Code::Stale
        && !answer.is_json()
        && let Some(since) = since
    {
        let request = DiffRequest::new(run).since(Some(since));
        let shown = match engine.run_diff(request).await {
            Ok(view) => show(&view, answer),
            Err(_) => Ok(()),
        };
        if let Err(error) = shown {
            return error.into();
        }
    }
    failure.into()
}

/// Draws a diff: what a reviewer must see first, the files, the patch. All of it is untrusted text.
pub fn show(view: &DiffView, answer: &Answer) -> io::Result<()> {
    let paint = answer.paint();
    let commits = format!(
        "{} against {}",
        words::short(&view.head),
        words::short(&view.base)
    );
    answer.line(&paint.paint(Tone::Strong, &format!("Changes, {commits}")))?;
    for flag in &view.flags {
        let text = format!("! look at this first: {}", sanitize_line(flag));
        answer.line(&paint.paint(Tone::Warn, &text))?;
    }
    for left in &view.uncommitted {
        let text = format!("! before you open it: {}", sanitize_line(left));
        answer.line(&paint.paint(Tone::Warn, &text))?;
    }
    if let Some(gate) = &view.gate {
        gate::summary(gate, answer)?;
    }
    for file in &view.files {
        answer.line(&stat(file, paint))?;
    }
    if view.files.is_empty() {
        answer.line("  no files changed")?;
    }
    answer.line("")?;
    for line in patch(&view.patch, paint) {
        answer.line(&line)?;
    }
    if view.truncated {
        let text = "The diff is longer; the rest is not shown. The run's branch has all of it.";
        answer.line(&paint.paint(Tone::Warn, text))?;
    }
    Ok(())
}

fn stat(file: &DiffFile, paint: Paint) -> String {
    let figures = match (file.added, file.removed) {
        (Some(added), Some(removed)) => format!(
            "{} {}",
            paint.paint(Tone::Good, &format!("+{added}")),
            paint.paint(Tone::Bad, &format!("-{removed}"))
        ),
        _ => "binary".into(),
    };
    format!(
        "  {:<9} {}  {figures}",
        sanitize_line(&file.change),
        sanitize_line(&file.path)
    )
}

/// The patch, made safe line by line and coloured by each line's first character.
fn patch(text: &str, paint: Paint) -> Vec<String> {
    let mut in_hunk = false;
    let mut lines = Vec::new();
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        if line.starts_with("diff --git ") {
            in_hunk = false;
        } else if line.starts_with("@@") {
            in_hunk = true;
        }
        let tone = match line.chars().next() {
            Some('@') => Tone::Key,
            Some('+') if in_hunk => Tone::Good,
            Some('-') if in_hunk => Tone::Bad,
            _ if !in_hunk => Tone::Strong,
            _ => Tone::Plain,
        };
        // Tabs of source code stay tabs in effect; everything else that steers a terminal is shown.
        lines.push(paint.paint(tone, &sanitize_line(&line.replace('\t', "    "))));
    }
    if text.is_empty() { vec![] } else { lines }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_cannot_steer_the_terminal() {
        let text = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+\u{1b}[2Jb\u{202e}\r\n";
        let lines = patch(text, Paint::new(false));
        assert_eq!(lines.len(), 6);
        assert_eq!(lines[5], "+␛[2Jb<U+202E>␍");
    }

    #[test]
    fn only_lines_of_a_hunk_are_coloured_as_added_or_removed() {
        let lines = patch(
            "diff --git a/x b/x\n--- a/x\n@@ -1 +1 @@\n+new",
            Paint::new(true),
        );
        assert!(lines[1].starts_with("\u{1b}[1m"), "{:?}", lines[1]);
        assert!(lines[3].starts_with("\u{1b}[32m"), "{:?}", lines[3]);
    }
}
