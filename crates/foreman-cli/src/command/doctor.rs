//! `foreman doctor`: which walls hold on this machine, proven by live probes.

use super::Done;
use crate::answer::Answer;
use crate::args::DoctorArgs;
use crate::layout::{pad, wrap};
use crate::paint::Tone;
use crate::words;
use foreman_domain::{ExitCode, sanitize_line};
use foreman_engine::api::{Commands, DoctorReport, DoctorRequest, TruthView};
use std::io;

/// Rows of the comparison that are shown.
const SHOWN: usize = 50;

/// Shows what holds; the exit code says whether a run could start.
pub async fn doctor(args: DoctorArgs, engine: &impl Commands, answer: &Answer) -> Done {
    let repair = args.repair;
    let report = engine.doctor(DoctorRequest { repair }).await?;
    if answer.is_json() {
        answer.object(&report)?;
    } else {
        show(&report, answer)?;
        if repair && report.truths.iter().all(|truth| truth.done.is_empty()) {
            answer.line("Nothing had to be repaired.")?;
        }
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
    truths(&report.truths, answer)
}

/// Runs that go on and what does not add up, four truths side by side.
fn truths(truths: &[TruthView], answer: &Answer) -> io::Result<()> {
    if truths.is_empty() {
        return Ok(());
    }
    let paint = answer.paint();
    let row = |cells: [&str; 5]| {
        let [run, stored, git, disk, processes] = cells.map(sanitize_line);
        let left = format!("{} {} {}", pad(&run, 10), pad(&stored, 13), pad(&git, 23));
        format!("  {left} {} {processes}", pad(&disk, 32))
    };
    let head = row(["run", "stored", "git", "disk", "processes"]);
    answer.line(&paint.paint(Tone::Strong, &head))?;
    for truth in truths.iter().take(SHOWN) {
        let cells = [&truth.run, &truth.stored, &truth.git, &truth.disk];
        let [run, stored, git, disk] = cells.map(String::as_str);
        answer.line(&row([run, stored, git, disk, &truth.processes]))?;
        for (tone, mark, lines) in [
            (Tone::Warn, "", &truth.differences),
            (Tone::Strong, "would ", &truth.would),
            (Tone::Good, "did ", &truth.done),
        ] {
            for line in lines {
                let line = format!("    {mark}{}", sanitize_line(line));
                answer.line(&paint.paint(tone, &line))?;
            }
        }
    }
    if let Some(more) = truths.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        answer.line(&format!("  and {more} more; see `foreman doctor --json`"))?;
    }
    if truths.iter().any(|truth| !truth.would.is_empty()) {
        answer.line("  `foreman doctor --repair` does what it says that it would do.")?;
    }
    Ok(())
}
