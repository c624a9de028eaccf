//! `foreman doctor`: which walls hold on this machine, proven by live probes.

use super::Done;
use crate::answer::Answer;
use crate::layout::{pad, wrap};
use crate::paint::Tone;
use crate::words;
use foreman_domain::{ExitCode, sanitize_line};
use foreman_engine::api::{Commands, DoctorReport, DoctorRequest};
use std::io;

/// Shows what holds; the exit code says whether a run could start.
pub async fn doctor(engine: &impl Commands, answer: &Answer) -> Done {
    let report = engine.doctor(DoctorRequest {}).await?;
    if answer.is_json() {
        answer.object(&report)?;
    } else {
        show(&report, answer)?;
    }
    let is_missing = report.walls.iter().any(|wall| wall.required && !wall.holds);
    Ok(if is_missing {
        ExitCode::WallMissing
    } else {
        ExitCode::Ok
    })
}

/// Draws the report.
pub fn show(report: &DoctorReport, answer: &Answer) -> io::Result<()> {
    let paint = answer.paint();
    answer.line(&paint.paint(Tone::Strong, &sanitize_line(&report.words)))?;
    let inner = answer.width().saturating_sub(26).max(20);
    for wall in &report.walls {
        let (tone, word) = match (wall.holds, wall.required) {
            (true, _) => (Tone::Good, "holds"),
            (false, true) => (Tone::Bad, "MISSING"),
            (false, false) => (Tone::Warn, "absent"),
        };
        let remedy = (!wall.holds).then_some(wall.remedy.as_deref()).flatten();
        let details = wrap(&sanitize_line(&wall.detail), inner);
        let remedies = remedy
            .map(|text| wrap(&sanitize_line(text), inner))
            .unwrap_or_default();
        for (index, line) in details.iter().chain(&remedies).enumerate() {
            let left = if index == 0 {
                format!(
                    "{} {}",
                    paint.paint(tone, &pad(word, 7)),
                    pad(words::wall(wall.wall), 15)
                )
            } else {
                " ".repeat(23)
            };
            answer.line(&format!("  {left} {line}"))?;
        }
    }
    for (title, lines) in [
        ("Bounds enforced", &report.bounds),
        ("Notes", &report.notes),
    ] {
        if !lines.is_empty() {
            answer.line(&paint.paint(Tone::Strong, title))?;
        }
        for line in lines {
            answer.line(&format!("  {}", sanitize_line(line)))?;
        }
    }
    Ok(())
}
