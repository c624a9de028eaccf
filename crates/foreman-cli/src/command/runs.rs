//! `foreman runs`, `show`, `stop`, `discard` and `restore`.

use super::Done;
use crate::answer::Answer;
use crate::args::RunsArgs;
use crate::layout::{fit, pad};
use crate::paint::Tone;
use crate::words;
use foreman_domain::{At, ExitCode, RunState, Spent, sanitize_line};
use foreman_engine::api::{BaseSource, Commands, GateSummary, RunList, RunRef, RunView};
use foreman_policy::{microusd_in_words, tokens_in_words};
use std::io;

/// Lists runs, newest first.
pub async fn list(args: RunsArgs, engine: &impl Commands, answer: &Answer) -> Done {
    let is_first_page = args.before.is_none();
    let request = RunList {
        limit: args.limit,
        before: args.before,
        open: args.open,
    };
    let runs = engine.run_list(request).await?;
    if answer.is_json() {
        answer.object(&runs)?;
        return Ok(ExitCode::Ok);
    }
    if runs.runs.is_empty() && !is_first_page {
        answer.line("There are no older runs.")?;
    } else if runs.runs.is_empty() && args.open {
        answer.line(
            "No run is at work, and none waits for you. `foreman runs` lists those that are over.",
        )?;
    } else if runs.runs.is_empty() {
        answer.line(
            "There are no runs yet. `foreman demo` shows one; `foreman run -- CMD` starts one.",
        )?;
    }
    let (now, width) = (At::now(), answer.width());
    for run in &runs.runs {
        answer.line(&row(run, now, width, answer))?;
    }
    if let Some(last) = runs.runs.last().filter(|_| runs.older > 0) {
        let more = words::count(runs.older, "older run");
        answer.line(&format!("{more}: foreman runs --before {}", last.id))?;
    }
    Ok(ExitCode::Ok)
}

fn row(run: &RunView, now: At, width: usize, answer: &Answer) -> String {
    let state = words::state_word(&run.state);
    let needs_you = if run.open_blocks > 0 {
        format!("{} held  ", run.open_blocks)
    } else {
        String::new()
    };
    let left = format!("{}  {}  ", run.id, pad(state, 11));
    let middle = format!("{needs_you}{}  ", pad(&words::ago(run.created_at, now), 16));
    let used = crate::layout::cells(&left) + crate::layout::cells(&middle);
    let repo = run
        .repo
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let rest = format!(
        "{}{}:{}  {}",
        if run.repo_reachable {
            ""
        } else {
            "unreachable "
        },
        sanitize_line(&repo.unwrap_or_default()),
        sanitize_line(&run.base_branch),
        sanitize_line(&run.title)
    );
    let tone = if run.open_blocks > 0 {
        Tone::Warn
    } else {
        Tone::Plain
    };
    let paint = answer.paint();
    format!(
        "{}{}{}",
        paint.paint(tone_of(&run.state), &left),
        paint.paint(tone, &middle),
        fit(&rest, width.saturating_sub(used).max(10))
    )
}

fn tone_of(state: &RunState) -> Tone {
    match state {
        RunState::Provisioning | RunState::Running { .. } | RunState::Merging => Tone::Strong,
        RunState::Stopping { .. } | RunState::Cancelled { .. } => Tone::Warn,
        RunState::Review { .. } | RunState::Merged { .. } => Tone::Good,
        RunState::NoChanges | RunState::Discarded { .. } => Tone::Dim,
        RunState::Failed { .. } | RunState::Interrupted { .. } => Tone::Bad,
    }
}

/// Shows one run.
pub async fn show(run: RunRef, engine: &impl Commands, answer: &Answer) -> Done {
    let view = engine.run_show(run.clone()).await?;
    let gate = match view.state {
        // What cannot be gathered (a repository that is not there) keeps nobody from the rest.
        RunState::Review { .. } | RunState::Merging | RunState::Merged { .. } => {
            engine.run_gate(run).await.ok()
        }
        _ => None,
    };
    if answer.is_json() {
        answer.object(&Shown { run: &view, gate })?;
        return Ok(ExitCode::Ok);
    }
    facts(&view, answer)?;
    if let Some(gate) = gate {
        super::gate::summary(&gate, answer)?;
    }
    Ok(ExitCode::Ok)
}

/// A run with its gate, as one object.
#[derive(serde::Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    run: &'a RunView,
    #[serde(skip_serializing_if = "Option::is_none")]
    gate: Option<GateSummary>,
}

/// Stops a run.
pub async fn stop(run: RunRef, engine: &impl Commands, answer: &Answer) -> Done {
    let view = engine.run_stop(run).await?;
    let killed = match view.killed {
        Some(0) => "; no process had to be killed".to_owned(),
        Some(count) => format!("; {} killed", processes_were(count)),
        None => String::new(),
    };
    let next = format!("Nothing of it runs any more{killed}. What it did so far is kept.");
    tell(&view, answer, &next)
}

fn processes_were(count: u32) -> String {
    match count {
        1 => "1 process was".to_owned(),
        _ => format!("{count} processes were"),
    }
}

/// Removes a run's worktree and branch.
pub async fn discard(run: RunRef, engine: &impl Commands, answer: &Answer) -> Done {
    let view = engine.run_discard(run).await?;
    let what = match view.state {
        RunState::Merged { .. } => "Its worktree and branch are removed; ",
        _ => "",
    };
    let next = format!("{what}`foreman restore {}` brings it back.", view.id);
    tell(&view, answer, &next)
}

/// Brings a discarded run back.
pub async fn restore(run: RunRef, engine: &impl Commands, answer: &Answer) -> Done {
    let view = engine.run_restore(run).await?;
    let next = match view.worktree.exists() {
        true => format!(
            "Its worktree is at {}.",
            sanitize_line(&view.worktree.to_string_lossy())
        ),
        // It was removed by hand before the run was discarded.
        false => format!(
            "Its branch {} is back; it had no worktree any more.",
            sanitize_line(&view.branch)
        ),
    };
    tell(&view, answer, &next)
}

fn tell(view: &RunView, answer: &Answer, next: &str) -> Done {
    if answer.is_json() {
        answer.object(view)?;
    } else {
        answer.line(&format!("Run {}: {}.", view.id, words::state(&view.state)))?;
        answer.line(next)?;
    }
    Ok(ExitCode::Ok)
}

/// How fresh the commit is that a run started from.
fn freshness(run: &RunView) -> String {
    let Some(base) = &run.freshness else {
        return "not known yet".to_owned();
    };
    let age = base.committed_at.map(|at| words::ago(at, At::now()));
    let age = age.map(|age| format!("its commit was made {age}"));
    let from = match (base.source, &base.remote) {
        (BaseSource::Remote, Some(remote)) => Some(format!("from {}", sanitize_line(remote))),
        (BaseSource::Local, Some(remote)) if base.fetched && base.stale.is_none() => {
            Some(format!("as fresh as {}", sanitize_line(remote)))
        }
        _ => None,
    };
    let stale = base.stale.as_deref().map(sanitize_line);
    let parts: Vec<String> = [from, age, stale].into_iter().flatten().collect();
    parts.join("; ")
}

/// A run's facts, one a line.
fn facts(run: &RunView, answer: &Answer) -> io::Result<()> {
    let path = |path: &std::path::Path| sanitize_line(&path.to_string_lossy());
    let mut rows = vec![
        ("title", sanitize_line(&run.title)),
        ("state", words::state(&run.state)),
        ("repository", {
            let away = match run.repo_reachable {
                true => "",
                false => " (unreachable: put it back; nothing of the run is touched)",
            };
            path(&run.repo) + away
        }),
        ("branch", sanitize_line(&run.branch)),
        (
            "base",
            format!(
                "{} at {}",
                sanitize_line(&run.base_branch),
                words::short(&run.base)
            ),
        ),
        ("freshness", freshness(run)),
        ("worktree", {
            let there = run.worktree.exists();
            path(&run.worktree) + if there { "" } else { " (not there)" }
        }),
        ("isolation", sanitize_line(&run.tier)),
        (
            "created",
            format!(
                "{} ({})",
                words::ago(run.created_at, At::now()),
                run.created_at
            ),
        ),
    ];
    if let Some(ended) = run.ended_at {
        rows.push((
            "ran for",
            words::duration(words::millis_between(run.created_at, ended)),
        ));
    }
    if let Some(killed) = run.killed.filter(|killed| *killed > 0) {
        rows.push((
            "killed",
            format!("{} killed at its end", processes_were(killed)),
        ));
    }
    if run.open_blocks > 0 {
        let held = words::count(run.open_blocks.into(), "block");
        rows.push((
            "held",
            format!("{held}; see `foreman blocks --run {}`", run.id),
        ));
    }
    if run.subjects_blocked + run.subjects_allowed > 0 {
        let blocked = words::count(run.subjects_blocked.into(), "subject");
        rows.push((
            "blocked",
            format!("{blocked}; {} let go by a decision", run.subjects_allowed),
        ));
    }
    if let Some(changes) = run.changes {
        let files = words::count(changes.files.into(), "file");
        rows.push((
            "changes",
            format!("{files}, +{} -{}", changes.added, changes.removed),
        ));
    }
    if let Some(behind) = run.behind.filter(|behind| *behind > 0) {
        let commits = words::count(behind.into(), "commit");
        rows.push(("behind", format!("{commits} of the base branch")));
    }
    if let Some(last) = run.last_event_at {
        rows.push(("last event", words::ago(last, At::now())));
    }
    if let Some(kept) = &run.bounds_kept {
        rows.push(("bounds", sanitize_line(kept)));
    }
    if let Some(spent) = &run.spent {
        rows.push(("used", spent_in_words(spent)));
    }
    if !run.outside_scope.is_empty() {
        let named: Vec<String> = run
            .outside_scope
            .iter()
            .map(|path| sanitize_line(path))
            .collect();
        rows.push((
            "drift",
            format!("outside of its scope: {}", named.join(", ")),
        ));
    }
    if run.denied_unattended {
        rows.push((
            "denied",
            "something was refused while nobody attended".into(),
        ));
    }
    for check in &run.checks {
        rows.push(("check", sanitize_line(check)));
    }
    answer.facts("run", &run.id, &rows)
}

/// What an agent has used by its own word; what it never told is said to be not measured.
fn spent_in_words(spent: &Spent) -> String {
    let cost = spent.cost_microusd.map(microusd_in_words);
    let tokens = spent.tokens.map(tokens_in_words);
    format!(
        "{}, {}, {}",
        cost.unwrap_or_else(|| "cost not measured".to_owned()),
        tokens.unwrap_or_else(|| "tokens not measured".to_owned()),
        words::count(spent.turns, "turn"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreman_domain::{EventSeq, OrderId, Revision, RunId, Tier};
    use foreman_engine::api::ChangeCounts;

    #[test]
    fn a_run_in_any_state_survives_the_wire() {
        let id = RunId::from_random(1);
        let review = RunState::Review {
            head: "aa".into(),
            base: "bb".into(),
            agent_succeeded: true,
        };
        for state in [
            review,
            RunState::Provisioning,
            RunState::Merged {
                commit: "cc".into(),
            },
        ] {
            let view = RunView {
                id: id.clone(),
                order: OrderId::of_single_run(&id),
                title: "t".into(),
                state: state.clone(),
                repo: "/r".into(),
                branch: "foreman/x".into(),
                base_branch: "main".into(),
                base: "bb".into(),
                freshness: None,
                worktree: "/w".into(),
                tier: "full".into(),
                confinement: Tier::Full,
                open_blocks: 0,
                created_at: At::from_millis(0),
                ended_at: None,
                last_seq: EventSeq(1),
                outcome: None,
                checks: vec![],
                failed_checks: 0,
                outside_scope: vec![],
                denied_unattended: false,
                killed: Some(3),
                repo_reachable: true,
                last_event_at: None,
                bounds_kept: None,
                spent: None,
                subjects_blocked: 2,
                subjects_allowed: 1,
                changes: Some(ChangeCounts::default()),
                behind: None,
                revision: Revision(1),
                repo_name: "r".into(),
            };
            let wire = serde_json::to_value(&view).unwrap();
            let back: RunView = serde_json::from_value(wire).unwrap();
            assert_eq!(back.state, state);
        }
    }
}
