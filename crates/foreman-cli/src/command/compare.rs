//! `foreman compare`: several attempts side by side.

use super::Done;
use crate::answer::Answer;
use crate::args::CompareArgs;
use crate::layout::{fit, pad};
use crate::paint::Tone;
use crate::words;
use foreman_domain::{ExitCode, RunId, RunState, sanitize_line};
use foreman_engine::api::{
    Attempt, AttemptPair, AttemptRun, Commands, CompareRequest, Comparison, OtherAttempts, RunRef,
};
use std::io;

/// Paths of a pair that are named.
const NAMED: usize = 12;

/// Compares attempts.
pub async fn compare(args: CompareArgs, engine: &impl Commands, answer: &Answer) -> Done {
    let comparison = engine.run_compare(CompareRequest { of: args.of }).await?;
    if answer.is_json() {
        answer.object(&comparison)?;
    } else {
        draw(&comparison, answer)?;
    }
    Ok(ExitCode::Ok)
}

/// Says what becomes of the other attempts at what a merged run attempted; nothing where there are none.
pub async fn tell_of_others(
    run: &RunId,
    engine: &impl Commands,
    answer: &Answer,
) -> Result<(), crate::error::CliError> {
    let run = run.to_string();
    let others = engine.run_attempts(RunRef { run }).await?;
    if let Some(words) = others_in_words(&others) {
        answer.paragraph(&words)?;
    }
    Ok(())
}

fn others_in_words(others: &OtherAttempts) -> Option<String> {
    let ids: Vec<_> = others.left.iter().map(RunId::to_string).collect();
    let how = ids
        .iter()
        .map(|id| format!("`foreman discard {id}`"))
        .collect::<Vec<_>>()
        .join(", ");
    match ids.len() {
        0 => None,
        1 => Some(format!(
            "1 other attempt stays as it is; discard it with {how}."
        )),
        count => Some(format!(
            "{count} other attempts stay as they are; discard them with {how}."
        )),
    }
}

fn draw(comparison: &Comparison, answer: &Answer) -> io::Result<()> {
    let paint = answer.paint();
    if let Some(group) = &comparison.group {
        let head = format!(
            "{} of {}",
            words::count(comparison.attempts.len() as u64, "attempt"),
            sanitize_line(group)
        );
        answer.line(&paint.paint(Tone::Strong, &head))?;
    }
    let columns: Vec<Vec<String>> = comparison.attempts.iter().map(column).collect();
    let width = answer.columns().map_or(30, |columns| {
        let count = comparison.attempts.len().max(1);
        (columns.saturating_sub(LABEL + 2) / count).clamp(14, 30)
    });
    for (index, label) in LABELS.iter().enumerate() {
        let mut line = format!("  {}", pad(label, LABEL));
        for column in &columns {
            let cell = column.get(index).map_or("", String::as_str);
            line.push_str(&pad(&fit(cell, width - 2), width));
        }
        answer.line(line.trim_end())?;
    }
    for attempt in comparison.attempts.iter().filter_map(|it| it.run.as_ref()) {
        for text in notes(attempt) {
            answer.line(&format!("  {} {text}", attempt.id))?;
        }
    }
    for pair in &comparison.pairs {
        answer.line(&pair_in_words(pair))?;
        for path in pair.differ.iter().take(NAMED) {
            answer.line(&format!("    {}", sanitize_line(path)))?;
        }
        if pair.differ.len() > NAMED {
            answer.line(&format!("    and {} more", pair.differ.len() - NAMED))?;
        }
    }
    let to_review = |attempt: &&Attempt| {
        let run = attempt.run.as_ref();
        run.is_some_and(|run| matches!(run.state, RunState::Review { .. }))
    };
    if comparison.attempts.iter().filter(to_review).count() > 1 {
        answer.paragraph(
            "Merging one does nothing to the others: they stay in Review until you discard them.",
        )?;
    }
    Ok(())
}

const LABEL: usize = 11;
const LABELS: [&str; 7] = [
    "attempt", "state", "files", "lines", "checks", "held", "time",
];

fn column(attempt: &Attempt) -> Vec<String> {
    let Some(run) = &attempt.run else {
        let state = attempt.order_state.as_ref().map_or("", |state| state.tag());
        return vec![sanitize_line(attempt.order.as_str()), state.to_owned()];
    };
    let (files, lines) = match &run.changes {
        Some(changes) => (
            changes.files.len().to_string(),
            format!("+{} -{}", changes.added, changes.removed),
        ),
        None => ("-".to_owned(), "-".to_owned()),
    };
    let checks = match (run.checks.len(), run.failed_checks) {
        (0, _) => "none".to_owned(),
        (all, 0) => format!("{all} passed"),
        (all, failed) => format!("{failed} of {all} not passed"),
    };
    let held = match run.blocks {
        0 => "nothing".to_owned(),
        blocks => format!("{blocks} ({} decided)", run.amendments),
    };
    vec![
        run.id.to_string(),
        words::state_word(&run.state).to_owned(),
        files,
        lines,
        checks,
        held,
        words::duration(run.millis),
    ]
}

/// What of an attempt does not fit into a column.
fn notes(run: &AttemptRun) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(
        run.checks
            .iter()
            .map(|check| format!("check {}", sanitize_line(check))),
    );
    if let Some(changes) = &run.changes {
        let flags = changes.flags.iter();
        notes.extend(flags.map(|flag| format!("look at this first: {}", sanitize_line(flag))));
        if let Some(refusal) = &changes.refusal {
            notes.push(format!("cannot be merged now: {}", sanitize_line(refusal)));
        }
    }
    notes
}

fn pair_in_words(pair: &AttemptPair) -> String {
    let AttemptPair { left, right, .. } = pair;
    match pair.differ.len() {
        0 => format!("{left} and {right} did the same."),
        count => format!(
            "{left} and {right} differ in {} ({} alike):",
            words::count(count as u64, "file"),
            pair.alike
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_becomes_of_the_others_is_said_with_the_way_to_remove_them() {
        let mut others = OtherAttempts {
            group: Some("g".into()),
            left: vec![],
        };
        assert_eq!(others_in_words(&others), None);
        others.left = vec![RunId::from_random(1), RunId::from_random(2)];
        let words = others_in_words(&others).unwrap();
        assert!(words.starts_with("2 other attempts stay as they are"));
        assert_eq!(words.matches("foreman discard").count(), 2);
    }
}
