//! `foreman events`: the stored log of a run, and what is still to come.

use super::Done;
use crate::answer::Answer;
use crate::args::EventsArgs;
use crate::feed::Feed;
use crate::watch::{self, Watching};
use foreman_domain::{Code, EventKind, EventSeq, ExitCode, Failure};
use foreman_engine::api::{Commands, EventsRequest, RunRef, RunView};

/// Prints events.
pub async fn events(args: EventsArgs, engine: &impl Commands, answer: &Answer) -> Done {
    check_kinds(&args.kind)?;
    let run = engine
        .run_show(RunRef {
            run: args.run.clone(),
        })
        .await?;
    if let Some(before) = args.before {
        return page_before(&args, &run, EventSeq(before), engine, answer).await;
    }
    let after = EventSeq(args.after);
    if args.follow && answer.is_json() {
        watch::json(engine, &run, after, &args.kind, answer).await?;
        return Ok(ExitCode::Ok);
    }
    if args.follow && args.kind.is_empty() {
        let watching = Watching::after(after);
        watch::lines(engine, &run, watching, answer).await?;
        return Ok(ExitCode::Ok);
    }
    stored(&args, &run, engine, answer).await?;
    Ok(ExitCode::Ok)
}

/// Prints the newest events before one of them.
async fn page_before(
    args: &EventsArgs,
    run: &RunView,
    before: EventSeq,
    engine: &impl Commands,
    answer: &Answer,
) -> Done {
    let request = EventsRequest {
        run: run.id.to_string(),
        limit: 512,
        kinds: args.kind.clone(),
        before: Some(before),
        ..EventsRequest::default()
    };
    let page = engine.run_events(request).await?;
    let mut feed = Feed::new(run.created_at, false);
    for event in &page.events {
        if answer.is_json() {
            answer.object(event)?;
        } else {
            feed.push(event);
        }
    }
    feed.flush();
    let width = answer.columns();
    for entry in feed.take() {
        answer.lines(&feed.render(&entry, width, answer.paint()))?;
    }
    if page.has_older && !answer.is_json() {
        answer.line(&format!(
            "There are older ones: foreman events {} --before {}",
            run.id, page.cursor
        ))?;
    }
    Ok(ExitCode::Ok)
}

/// Prints pages as they are stored, and with `--follow` waits for more until the run ends.
async fn stored(
    args: &EventsArgs,
    run: &RunView,
    engine: &impl Commands,
    answer: &Answer,
) -> Result<(), crate::error::CliError> {
    let mut feed = Feed::new(run.created_at, false);
    let mut after = EventSeq(args.after);
    loop {
        let request = EventsRequest {
            run: run.id.to_string(),
            after,
            limit: 512,
            wait_ms: if args.follow { 20_000 } else { 0 },
            kinds: args.kind.clone(),
            ..EventsRequest::default()
        };
        let page = engine.run_events(request).await?;
        for event in &page.events {
            if answer.is_json() {
                answer.object(event)?;
            } else {
                feed.push(event);
            }
        }
        feed.flush();
        let width = answer.columns();
        for entry in feed.take() {
            answer.lines(&feed.render(&entry, width, answer.paint()))?;
        }
        let moved = page.cursor != after;
        after = page.cursor;
        let is_done = if args.follow { page.ended } else { !moved };
        if page.events.is_empty() && is_done {
            return Ok(());
        }
    }
}

pub(super) fn check_kinds(kinds: &[String]) -> Result<(), Failure> {
    match kinds
        .iter()
        .find(|kind| !EventKind::TAGS.contains(&kind.as_str()))
    {
        None => Ok(()),
        Some(kind) => Err(Failure::new(
            Code::Usage,
            format!("there is no kind of event \"{kind}\""),
        )
        .hint(format!("Kinds are {}.", EventKind::TAGS.join(", ")))),
    }
}
