//! `foreman watch`: what changed, as hints.

use super::Done;
use crate::answer::Answer;
use crate::args::WatchArgs;
use foreman_domain::{ExitCode, sanitize_line};
use foreman_engine::api::{Commands, Hints, WatchRequest};
use std::io::{self, Write};

/// Longest wait of one question.
const WAIT_MS: u32 = 30_000;

/// Prints hints until it is interrupted, or once.
pub async fn watch(args: WatchArgs, engine: &impl Commands, answer: &Answer) -> Done {
    let mut cursor = args.cursor;
    let wait_ms = if args.once { 0 } else { WAIT_MS };
    loop {
        let is_first = cursor.is_none();
        let hints = engine.watch(WatchRequest { cursor, wait_ms }).await?;
        let is_empty = hints.runs.is_empty() && hints.orders.is_empty() && hints.blocks.is_empty();
        if answer.is_json() && (!is_empty || hints.resync || args.once) {
            answer.object(&hints)?;
        } else if !answer.is_json() {
            lines(&hints, is_first, answer)?;
        }
        // A reader that went away is noticed only by writing.
        io::stdout().flush()?;
        if args.once {
            return Ok(ExitCode::Ok);
        }
        cursor = Some(hints.to);
    }
}

fn lines(hints: &Hints, is_first: bool, answer: &Answer) -> io::Result<()> {
    if hints.resync && !is_first {
        answer.line("resync")?;
    }
    for hint in &hints.runs {
        let state = sanitize_line(&hint.state);
        answer.line(&format!("run {} {} {state}", hint.run, hint.last_seq))?;
    }
    for order in &hints.orders {
        answer.line(&format!("order {}", sanitize_line(order.as_str())))?;
    }
    for block in &hints.blocks {
        answer.line(&format!("block {block}"))?;
    }
    Ok(())
}
