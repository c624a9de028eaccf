//! `foreman disk`: what uses space, what could go and why the rest may not; cleaning up; the quota.

use super::{Done, ask};
use crate::answer::Answer;
use crate::args::{DiskCleanArgs, DiskCommand, DiskEventsArgs, DiskQuotaArgs};
use crate::layout::{fit, pad};
use crate::paint::Tone;
use crate::words;
use foreman_domain::{At, ExitCode, RunId, sanitize_line};
use foreman_engine::api::{
    Commands, DiskClean, DiskCleaned, DiskKept, DiskPolicy, DiskReport, DiskRequest, DiskRun,
    RetentionChange, RetentionRequest, RetentionView,
};
use foreman_policy::duration_in_words;
use serde_json::json;
use std::io;

/// Does what is asked about disk space.
pub async fn disk(command: Option<DiskCommand>, engine: &impl Commands, answer: &Answer) -> Done {
    match command {
        None => show(engine, answer).await,
        Some(DiskCommand::Clean(args)) => clean(args, engine, answer).await,
        Some(DiskCommand::Quota(args)) => quota(args, engine, answer).await,
        Some(DiskCommand::Events(args)) => events(args, engine, answer).await,
    }
}

async fn show(engine: &impl Commands, answer: &Answer) -> Done {
    let report = engine.disk_show(DiskRequest::default()).await?;
    if answer.is_json() {
        answer.object(&report)?;
    } else {
        draw(&report, answer)?;
        let events = engine.retention_show(RetentionRequest {}).await?;
        answer.paragraph(&events_in_words(&events))?;
    }
    Ok(ExitCode::Ok)
}

async fn events(args: DiskEventsArgs, engine: &impl Commands, answer: &Answer) -> Done {
    let view = match (args.per_run, args.total) {
        (None, None) => engine.retention_show(RetentionRequest {}).await?,
        (per_run, total) => {
            engine
                .retention_set(RetentionChange { per_run, total })
                .await?
        }
    };
    if answer.is_json() {
        answer.object(&view)?;
    } else {
        answer.paragraph(&events_in_words(&view))?;
    }
    Ok(ExitCode::Ok)
}

fn events_in_words(view: &RetentionView) -> String {
    format!(
        "Stored events take {} of at most {} ({} a run); beyond that the oldest output goes, and a gap \
         says so.",
        words::bytes(view.used),
        words::bytes(view.total),
        words::bytes(view.per_run)
    )
}

/// Shows what would go and asks; removes exactly what was shown.
async fn clean(args: DiskCleanArgs, engine: &impl Commands, answer: &Answer) -> Done {
    let older_than_seconds = args.older_than;
    let request = DiskRequest { older_than_seconds };
    let report = engine.disk_show(request).await?;
    let going: Vec<RunId> = runs(&report)
        .filter(|run| run.may_go)
        .map(|run| run.run.clone())
        .collect();
    if !answer.is_json() {
        preview(&report, answer)?;
    }
    let agreed = args.yes || (!going.is_empty() && answer.can_ask() && ask("Remove these?")?);
    if !agreed {
        if answer.is_json() {
            let mut value = serde_json::to_value(&report).map_err(io::Error::other)?;
            value["dry_run"] = json!(true);
            answer.object(&value)?;
        } else if going.is_empty() {
            answer.line("There is nothing that may go.")?;
        } else {
            answer.line("Nothing was removed. Remove these with: foreman disk clean --yes")?;
        }
        return Ok(ExitCode::Ok);
    }
    // With --yes also what stays is gone through once more, so that the reasons are on record.
    let runs = (!args.yes).then_some(going);
    let cleaned = engine
        .disk_clean(DiskClean {
            older_than_seconds,
            runs,
        })
        .await?;
    let failed = !cleaned.failed.is_empty();
    if answer.is_json() {
        answer.object(&cleaned)?;
    } else {
        tell(&cleaned, answer)?;
    }
    Ok(match failed {
        true => ExitCode::Environment,
        false => ExitCode::Ok,
    })
}

async fn quota(args: DiskQuotaArgs, engine: &impl Commands, answer: &Answer) -> Done {
    let policy = DiskPolicy {
        quota_bytes: args.size.0,
        keep_seconds: args.keep,
    };
    let policy = engine.disk_quota(policy).await?;
    if answer.is_json() {
        answer.object(&policy)?;
    } else {
        answer.paragraph(&policy_in_words(&policy))?;
    }
    Ok(ExitCode::Ok)
}

fn policy_in_words(policy: &DiskPolicy) -> String {
    let keep = policy.keep_seconds.unwrap_or(7 * 86_400);
    match policy.quota_bytes {
        None => "No quota is set: nothing is removed by itself.".to_owned(),
        Some(quota) => format!(
            "While more than {} are used, files of runs that are merged or changed nothing, ended more \
             than {} ago and hold nothing that is not landed, go by themselves, the oldest first, each \
             into a snapshot.",
            words::bytes(quota),
            duration_in_words(keep)
        ),
    }
}

fn runs(report: &DiskReport) -> impl Iterator<Item = &DiskRun> {
    report.repositories.iter().flat_map(|repo| &repo.runs)
}

fn draw(report: &DiskReport, answer: &Answer) -> io::Result<()> {
    let paint = answer.paint();
    let free = report
        .free_bytes
        .map_or_else(String::new, |free| format!(", {} free", words::bytes(free)));
    let head = format!(
        "{} used in {}{free}",
        words::bytes(report.bytes),
        sanitize_line(&report.data.to_string_lossy())
    );
    answer.line(&paint.paint(Tone::Strong, &head))?;
    answer.line(&format!("  {} database", size(report.database_bytes)))?;
    for repo in &report.repositories {
        let name = sanitize_line(&repo.repo.to_string_lossy());
        let line = format!("  {} {name}", size(repo.bytes));
        answer.line(&paint.paint(Tone::Strong, &line))?;
        for run in &repo.runs {
            answer.line(&row(run, answer))?;
        }
    }
    for stranger in &report.strangers {
        let path = sanitize_line(&stranger.path.to_string_lossy());
        let line = format!(
            "  {} {path}: of no recorded run; look at it and remove it by hand",
            size(stranger.bytes)
        );
        answer.line(&paint.paint(Tone::Warn, &line))?;
    }
    if let Some(over) = report.over_bytes {
        let line = format!("  {} over the quota", words::bytes(over));
        answer.line(&paint.paint(Tone::Warn, &line))?;
    }
    let could = match report.removable_bytes {
        0 => "Nothing may go now.".to_owned(),
        bytes => format!(
            "{} could go: foreman disk clean shows which, and asks.",
            words::bytes(bytes)
        ),
    };
    answer.line(&could)?;
    answer.paragraph(&policy_in_words(&report.policy))
}

fn preview(report: &DiskReport, answer: &Answer) -> io::Result<()> {
    let paint = answer.paint();
    let (going, staying): (Vec<_>, Vec<_>) = runs(report).partition(|run| run.may_go);
    if !going.is_empty() {
        let head = format!(
            "{} would go, each into a snapshot that `foreman restore` brings back:",
            words::bytes(report.removable_bytes)
        );
        answer.line(&paint.paint(Tone::Strong, &head))?;
    }
    for run in going {
        answer.line(&row(run, answer))?;
    }
    if !staying.is_empty() {
        answer.line(&paint.paint(Tone::Strong, "These stay:"))?;
    }
    for run in staying {
        answer.line(&row(run, answer))?;
    }
    Ok(())
}

fn size(bytes: u64) -> String {
    pad(&words::bytes(bytes), 9)
}

fn row(run: &DiskRun, answer: &Answer) -> String {
    let bytes = run.worktree_bytes + run.shadow_bytes + run.home_bytes + run.record_bytes;
    let left = format!(
        "    {} {}  {}  ",
        size(bytes),
        run.run,
        pad(words::state_word(&run.state), 11)
    );
    let (tone, why) = match (&run.removal, &run.kept) {
        (Some(removal), _) => {
            let error = removal.error.as_deref().unwrap_or("it was cut short");
            let why = format!("being removed, tried again: {}", sanitize_line(error));
            (Tone::Bad, why)
        }
        (None, Some(kept)) => (Tone::Plain, format!("stays: {}", kept_in_words(kept))),
        (None, None) if run.may_go => (Tone::Good, "may go".to_owned()),
        (None, None) => (Tone::Dim, String::new()),
    };
    let room = answer.columns().unwrap_or(usize::MAX);
    let room = room.saturating_sub(crate::layout::cells(&left)).max(20);
    format!("{left}{}", answer.paint().paint(tone, &fit(&why, room)))
}

/// Why a run's files stay, as the end of a sentence.
pub fn kept_in_words(kept: &DiskKept) -> String {
    match kept {
        DiskKept::Live => "it is not over".into(),
        DiskKept::Busy => "somebody works in it right now".into(),
        DiskKept::Recent { until } => {
            let now = At::now();
            let left = words::millis_between(now, *until);
            format!("it is recent (for {} more)", words::duration(left))
        }
        DiskKept::Undecided => "its work was neither merged nor discarded".into(),
        DiskKept::Unlanded { commits } => format!(
            "{} of it are not on the base branch",
            words::count(*commits, "commit")
        ),
        DiskKept::Dirty { files, first } => {
            let names: Vec<_> = first.iter().map(|name| sanitize_line(name)).collect();
            let more = match usize::try_from(*files) {
                Ok(files) if files <= names.len() => "",
                _ => ", …",
            };
            format!(
                "{} not committed ({}{more})",
                words::count(*files, "file"),
                names.join(", ")
            )
        }
        DiskKept::ByHand { what } => sanitize_line(&what.join("; ")),
        DiskKept::Unknown { why } => {
            format!("what would be lost is not known: {}", sanitize_line(why))
        }
    }
}

fn tell(cleaned: &DiskCleaned, answer: &Answer) -> io::Result<()> {
    let paint = answer.paint();
    for removed in &cleaned.removed {
        answer.line(&format!(
            "run {}: {} removed, kept in {}",
            removed.run,
            words::bytes(removed.bytes),
            sanitize_line(&removed.snapshot)
        ))?;
    }
    for failed in &cleaned.failed {
        let line = format!(
            "run {}: not removed, tried again: {}",
            failed.run,
            sanitize_line(&failed.error)
        );
        answer.line(&paint.paint(Tone::Bad, &line))?;
    }
    answer.line(&format!(
        "{} freed from {}; {} kept.",
        words::bytes(cleaned.freed_bytes),
        words::count(cleaned.removed.len() as u64, "run"),
        words::count(cleaned.kept.len() as u64, "run")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_a_worktree_cannot_steer_the_terminal() {
        let kept = DiskKept::Dirty {
            files: 9,
            first: vec!["a\u{1b}[2J".into()],
        };
        let words = kept_in_words(&kept);
        assert!(!words.contains('\u{1b}'), "{words}");
        assert_eq!(words, "9 files not committed (a␛[2J, …)");
    }

    #[test]
    fn the_policy_reads_as_a_sentence() {
        let policy = DiskPolicy {
            quota_bytes: Some(20 << 30),
            keep_seconds: Some(7200),
        };
        let words = policy_in_words(&policy);
        assert!(words.contains("more than 2 hours ago"), "{words}");
    }
}
