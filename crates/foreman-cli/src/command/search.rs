//! `foreman search`: events in which words occur.

use super::Done;
use super::events::check_kinds;
use crate::answer::Answer;
use crate::args::SearchArgs;
use crate::feed::{Feed, GUTTER};
use crate::layout::fit;
use crate::paint::Tone;
use foreman_domain::{Event, ExitCode};
use foreman_engine::api::{Commands, SearchRequest};

/// Looks for events and prints them, newest first.
pub async fn search(args: SearchArgs, engine: &impl Commands, answer: &Answer) -> Done {
    check_kinds(&args.kind)?;
    let found = engine
        .event_search(SearchRequest {
            text: args.text.join(" "),
            run: args.run,
            kinds: args.kind,
            before: args.before,
            limit: Some(args.limit),
        })
        .await?;
    if answer.is_json() {
        answer.object(&found)?;
        return Ok(ExitCode::Ok);
    }
    let mut run = None;
    for event in &found.events {
        if run != Some(&event.run) {
            answer.line(
                &answer
                    .paint()
                    .paint(Tone::Strong, &format!("run {}", event.run)),
            )?;
            run = Some(&event.run);
        }
        for line in lines_of(event, answer) {
            answer.line(&line)?;
        }
    }
    if found.events.is_empty() && found.next.is_none() {
        answer.line("Nothing was found.")?;
    }
    if found.incomplete {
        answer.line("Some runs are not searchable yet: ask again in a moment.")?;
    }
    if let Some(next) = &found.next {
        answer.line(&format!(
            "There may be older ones: go on with --before {next}"
        ))?;
    }
    Ok(ExitCode::Ok)
}

/// An event in the words of the feed, behind its number and its time.
fn lines_of(event: &Event, answer: &Answer) -> Vec<String> {
    let mut feed = Feed::new(event.at, false);
    feed.push(event);
    feed.flush();
    let entries = feed.take();
    let at = event.at.0.strftime("%F %T");
    let head = format!("  {:>7}  {at}  ", event.seq);
    if entries.is_empty() {
        return vec![format!("{head}{}", event.kind.tag())];
    }
    let inner = |width: usize| width.saturating_sub(head.len()).max(8);
    let draw = |entry: &crate::feed::Entry| {
        let edge = if entry.is_of_cage() { GUTTER } else { "" };
        let text = format!("{edge}{}", entry.text());
        let text = match answer.columns() {
            Some(width) => fit(&text, inner(width)),
            None => text,
        };
        format!("{head}{text}")
    };
    entries.iter().map(draw).collect()
}
