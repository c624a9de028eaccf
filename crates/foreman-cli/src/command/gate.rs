//! `foreman sync`, `merges`, `push`, and the gate's summary as it is shown.

use super::{Done, ask, needs_expect, review};
use crate::answer::Answer;
use crate::args::{MergesArgs, PushArgs, SyncArgs};
use crate::error::CliError;
use crate::paint::Tone;
use crate::words;
use foreman_domain::{At, ExitCode, Failure, sanitize_line};
use foreman_engine::api::{
    CheckResult, Commands, DiffRequest, GateSummary, MergeEntry, MergeList, PushRequest,
    QueueStanding, SyncOutcome, SyncRequest,
};
use std::io;

/// Lines of a failed check's output that are shown.
const TAIL: usize = 10;
/// Longest wait of one question how the queue stands.
const WAIT_MS: u32 = 20_000;

/// Brings a run onto its base branch as it is now, and checks it again.
pub async fn sync(args: SyncArgs, engine: &impl Commands, answer: &Answer) -> Done {
    if !answer.is_json() {
        answer.line("Bringing the run onto its base branch, and checking it again …")?;
    }
    let view = engine.run_sync(SyncRequest { run: args.run }).await?;
    let passed = view.checks_now.iter().all(CheckResult::has_passed);
    let code = match (&view.sync, passed) {
        (SyncOutcome::Conflict { .. }, _) => ExitCode::Conflict,
        (_, false) => ExitCode::AgentFailed,
        (_, true) => ExitCode::Ok,
    };
    if answer.is_json() {
        answer.object(&view)?;
        return Ok(code);
    }
    let (id, base) = (&view.run.id, sanitize_line(&view.run.base_branch));
    match &view.sync {
        SyncOutcome::UpToDate => {
            answer.line(&format!("It builds on {base} as it is now."))?;
        }
        SyncOutcome::Synced {
            head,
            base: on,
            replayed,
            dropped,
            same_changes,
            ..
        } => {
            let how = if *replayed {
                "replayed onto"
            } else {
                "merged with"
            };
            answer.line(&format!(
                "Its commits were {how} {base} at {}; its tip is {} now.",
                words::short(on),
                words::short(head)
            ))?;
            if *dropped > 0 {
                answer.line(&format!(
                    "{} had nothing left to change and went.",
                    words::count((*dropped).into(), "commit")
                ))?;
            }
            if !same_changes {
                let text = "What it changes is not quite what it was before: look at it again.";
                answer.line(&answer.paint().paint(Tone::Warn, text))?;
            }
        }
        SyncOutcome::Conflict { commit, paths, .. } => {
            let which = commit
                .as_ref()
                .map(|commit| format!(" (its commit {})", words::short(commit)))
                .unwrap_or_default();
            answer.line(&format!(
                "Nothing was moved: the run{which} and {base} changed the same in"
            ))?;
            for path in paths {
                answer.line(&format!("  {}", sanitize_line(path)))?;
            }
            answer.paragraph(&format!(
                "Next: merge {base} into {} by hand in {}, and `foreman diff {id}` shows what came of \
                 it; or `foreman retry {id}` asks for it anew.",
                sanitize_line(&view.run.branch),
                sanitize_line(&view.run.worktree.to_string_lossy())
            ))?;
            return Ok(code);
        }
    }
    checks(&view.checks_now, answer)?;
    answer.line(&format!(
        "Next: `foreman diff {id}`, then `foreman merge {id}`."
    ))?;
    Ok(code)
}

/// Shows the merge queue.
pub async fn merges(args: MergesArgs, engine: &impl Commands, answer: &Answer) -> Done {
    let request = MergeList {
        run: args.run,
        all: args.all,
        wait_ms: 0,
    };
    let queue = engine.merge_list(request).await?;
    if answer.is_json() {
        answer.object(&queue)?;
        return Ok(ExitCode::Ok);
    }
    if queue.merges.is_empty() {
        answer.line("Nothing waits to be merged. `foreman merge --queue RUN` puts a run here.")?;
    }
    for entry in &queue.merges {
        answer.line(&row(entry))?;
    }
    Ok(ExitCode::Ok)
}

fn row(entry: &MergeEntry) -> String {
    let by = if entry.by_itself { ", by itself" } else { "" };
    format!(
        "{}  {}{by}  ({})",
        entry.run,
        standing(&entry.standing),
        words::ago(entry.queued_at, At::now())
    )
}

/// Where an entry of the queue stands, in words.
pub fn standing(standing: &QueueStanding) -> String {
    match standing {
        QueueStanding::Waiting => "waits to be merged".into(),
        QueueStanding::Working => "is being synced, checked or merged".into(),
        QueueStanding::Merged { commit } => format!("was merged as {}", words::short(commit)),
        QueueStanding::Returned { reason } => {
            format!("went back to review: {}", sanitize_line(reason))
        }
    }
}

/// Waits until the run's entry is over, and gives it.
pub async fn wait_for(
    run: &str,
    mut entry: MergeEntry,
    engine: &impl Commands,
) -> Result<MergeEntry, CliError> {
    loop {
        match entry.standing {
            QueueStanding::Merged { .. } | QueueStanding::Returned { .. } => return Ok(entry),
            QueueStanding::Waiting | QueueStanding::Working => {}
        }
        let request = MergeList {
            run: Some(run.to_owned()),
            all: true,
            wait_ms: WAIT_MS,
        };
        let listed = engine.merge_list(request).await?.merges;
        let now = listed.into_iter().find(|now| now.number == entry.number);
        entry = now.unwrap_or(entry);
    }
}

/// Pushes what was reviewed.
pub async fn push(args: PushArgs, engine: &impl Commands, answer: &Answer) -> Done {
    let expect = match args.expect {
        Some(expect) => expect,
        None if !answer.can_ask() => {
            return Err(needs_expect("push", "foreman diff RUN --json").into());
        }
        None => {
            let request = DiffRequest::new(&*args.run);
            let view = engine.run_diff(request).await?;
            review::show(&view, answer)?;
            if !ask(&format!("Push this to {}?", sanitize_line(&args.remote)))? {
                answer.line("Nothing was pushed.")?;
                return Ok(ExitCode::Ok);
            }
            view.expect
        }
    };
    let request = PushRequest {
        run: args.run,
        expect,
        remote: args.remote,
        branch: args.branch,
        replace: args.replace,
        with_secrets: args.with_secret,
    };
    let pushed = engine.run_push(request).await?;
    if answer.is_json() {
        answer.object(&pushed)?;
        return Ok(ExitCode::Ok);
    }
    answer.line(&format!(
        "Pushed {} to {} of {} ({}).",
        words::short(&pushed.head),
        sanitize_line(&pushed.branch),
        sanitize_line(&pushed.remote),
        sanitize_line(&pushed.address)
    ))?;
    for line in &pushed.said {
        answer.line(&format!("  remote: {}", sanitize_line(line)))?;
    }
    if let Some(web) = &pushed.web {
        answer.line(&format!("Open a pull request: {}", sanitize_line(web)))?;
    }
    Ok(ExitCode::Ok)
}

/// What a reviewer weighs, each on a line; nothing where there is nothing to say.
pub fn summary(gate: &GateSummary, answer: &Answer) -> io::Result<()> {
    let paint = answer.paint();
    for sentence in &gate.secrets {
        let text = format!("  SECRET: {}", sanitize_line(sentence));
        answer.line(&paint.paint(Tone::Bad, &text))?;
    }
    let lists = [
        ("decided", &gate.amendments),
        ("held", &gate.open),
        ("refused", &gate.denied),
        ("bound reached", &gate.bounds),
        ("outside of its scope", &gate.outside_scope),
        ("steers checks or tools", &gate.steering),
        ("links another repository", &gate.submodules),
    ];
    for (label, list) in lists {
        for item in list {
            let text = format!("  {label}: {}", sanitize_line(item));
            answer.line(&paint.paint(Tone::Warn, &text))?;
        }
    }
    if gate.base_moved > 0 {
        let commits = words::count(gate.base_moved.into(), "commit");
        let text = format!("  its base branch has {commits} that it does not build on");
        answer.line(&paint.paint(Tone::Warn, &text))?;
    }
    if let Some(entry) = &gate.queue {
        answer.line(&format!("  merge queue: it {}", standing(&entry.standing)))?;
    }
    checks(&gate.checks, answer)
}

/// Checks with their results, and the end of what failed ones said.
pub fn checks(checks: &[CheckResult], answer: &Answer) -> io::Result<()> {
    let paint = answer.paint();
    for check in checks {
        let passed = check.has_passed();
        let tone = if passed { Tone::Good } else { Tone::Bad };
        let text = format!("  check {}", sanitize_line(&check.words));
        answer.line(&paint.paint(tone, &text))?;
        let from = check.tail.len().saturating_sub(TAIL);
        for line in check.tail.get(from..).unwrap_or_default() {
            if !passed {
                let text = format!("    | {}", sanitize_line(line));
                answer.line(&paint.paint(Tone::Dim, &text))?;
            }
        }
    }
    Ok(())
}

/// The exit code and, unless it is shown as JSON, the sentence of an entry that is over.
pub fn tell_entry(entry: &MergeEntry, answer: &Answer) -> Done {
    let id = &entry.run;
    match &entry.standing {
        QueueStanding::Returned { reason } => Err(Failure::new(
            foreman_domain::Code::Conflict,
            format!("run {id} was not merged: {}", sanitize_line(reason)),
        )
        .hint(format!("It waits for your review: `foreman diff {id}`."))
        .into()),
        standing_now => {
            if answer.is_json() {
                answer.object(entry)?;
            } else {
                answer.line(&format!("Run {id} {}.", standing(standing_now)))?;
            }
            Ok(ExitCode::Ok)
        }
    }
}
