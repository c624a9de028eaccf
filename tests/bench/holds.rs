//! From a held connect to its card, from a decision to the connect going on, and a crowd under one card.

use crate::Size;
use crate::table::{Row, median, percentile};
use anyhow::{Context, Result, ensure};
use foreman_domain::EventKind;
use foreman_testkit::{Arena, PATIENCE, Stage};
use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

fn nanos(at: SystemTime) -> f64 {
    at.duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_nanos() as f64)
}

/// All three.
pub fn holds(stage: &Stage, size: Size) -> Result<Vec<Row>> {
    let arena = Arena::new(stage.product()?, &[])?;
    let (mut to_card, mut to_connect, mut command) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..size.holds {
        let host = format!("h{number}.amended.example");
        let subject = format!("tcp {host}:7007");
        let job = arena.start_attack(&["stamped-connect", &host, "7007"])?;
        let block = arena.block(&subject)?;
        let arrived = arena.run().arrival(|event| {
            matches!(&event.kind, EventKind::Block { block } if block.subject.to_string() == subject)
        });
        let card = arena.product().card(&block)?;
        let expect = card["expect"].as_str().context("a token")?;
        let begin = Instant::now();
        arena.product().ask(&["runs"])?;
        command.push(begin.elapsed().as_secs_f64() * 1e3);
        let clicked = nanos(SystemTime::now());
        arena
            .product()
            .ask(&["amend", &block, "--expect", expect])?;
        let saw = job.wait(PATIENCE)?.json()?;
        ensure!(saw["ok"] == true, "{saw}");
        to_card.push(
            (nanos(arrived.context("no card")?) - saw["begin"].as_f64().context("begin")?) / 1e6,
        );
        to_connect.push((saw["end"].as_f64().context("end")? - clicked) / 1e6);
    }
    let crowd = crowd(&arena)?;
    arena.finish()?;
    let idle = median(&mut command);
    Ok(vec![
        Row::at_most(
            "held connect to its card on another process's screen, p99",
            percentile(&mut to_card, 0.99),
            200.0,
            "ms",
        ),
        Row::plain(
            "a command line that only lists runs, p50 (start, join, answer)",
            format!("{idle:.1} ms"),
        ),
        Row::plain(
            "`foreman amend` started to the held connect completing, p50",
            format!("{:.1} ms", median(&mut to_connect)),
        ),
        Row::at_most(
            "click to the held connect completing, p99 (with the start of a command line)",
            percentile(&mut to_connect, 0.99),
            50.0,
            "ms",
        ),
        crowd,
    ])
}

/// A thousand parallel connects to one subject: one card, nothing let through.
fn crowd(arena: &Arena<'_>) -> Result<Row> {
    let job = arena.start_attack(&["many", "crowd.example", "443", "1000", "1000", "3000"])?;
    let block = arena.block("tcp crowd.example:443")?;
    let saw = job.wait(Duration::from_secs(120))?.json()?;
    ensure!(saw["made"] == 0, "let through: {saw}");
    let cards: BTreeSet<String> = arena
        .run()
        .events()
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::Block { block } if block.subject.to_string().contains("crowd") => {
                Some(block.id.to_string())
            }
            _ => None,
        })
        .collect();
    ensure!(cards.len() == 1 && cards.contains(&block), "{cards:?}");
    Ok(Row::at_most(
        "1,000 parallel connects to one subject, none let through",
        cards.len() as f64,
        1.0,
        "cards",
    ))
}
