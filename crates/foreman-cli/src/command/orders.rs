//! `foreman orders`: the queue as a whole.

use super::{Done, absolute};
use crate::answer::Answer;
use crate::args::{LimitsArgs, OrderListArgs, OrdersCommand, OrdersWatchCommand};
use crate::error::CliError;
use crate::layout::{cells, fit, pad};
use crate::paint::Tone;
use crate::words;
use foreman_domain::{ExitCode, OrderDone, OrderFailure, OrderState, sanitize_line};
use foreman_engine::api::{
    Commands, LimitsChange, OrderList, OrderView, Orders, QueuePause, QueueView, WatchChange,
    WatchList, Watched,
};
use foreman_policy::{duration_in_words, microusd_in_words, tokens_in_words};
use std::io;

/// Does what is asked about the queue.
pub async fn orders(
    command: Option<OrdersCommand>,
    args: OrderListArgs,
    engine: &impl Commands,
    answer: &Answer,
) -> Done {
    let pause = |repo: Option<std::path::PathBuf>, paused: bool| {
        let repo = repo.as_deref().map(absolute).transpose()?;
        Ok::<_, CliError>(QueuePause { repo, paused })
    };
    match command {
        None => list(args, engine, answer).await,
        Some(OrdersCommand::Pause(of)) => {
            let queue = engine.orders_pause(pause(of.repo, true)?).await?;
            tell_queue(&queue, answer)
        }
        Some(OrdersCommand::Resume(of)) => {
            let queue = engine.orders_pause(pause(of.repo, false)?).await?;
            tell_queue(&queue, answer)
        }
        Some(OrdersCommand::Limits(args)) => {
            let queue = engine.orders_limits(limits(args)).await?;
            tell_queue(&queue, answer)
        }
        Some(OrdersCommand::Watch(command)) => watch(command, engine, answer).await,
    }
}

/// Lists orders in the order of the queue.
pub async fn list(args: OrderListArgs, engine: &impl Commands, answer: &Answer) -> Done {
    let request = OrderList {
        all: args.all,
        limit: args.limit,
    };
    let orders = engine.order_list(request).await?;
    if answer.is_json() {
        answer.object(&orders)?;
    } else {
        draw(&orders, answer)?;
    }
    Ok(ExitCode::Ok)
}

fn draw(orders: &Orders, answer: &Answer) -> io::Result<()> {
    let paint = answer.paint();
    if orders.orders.is_empty() {
        answer.line("No order waits or runs. `foreman order add -- CMD` hands one in.")?;
    }
    let width = orders
        .orders
        .iter()
        .map(|order| order.id.as_str().len())
        .max();
    let width = width.unwrap_or_default().clamp(8, 28);
    for order in &orders.orders {
        let left = format!(
            "{}  {}  ",
            pad(order.id.as_str(), width),
            pad(word(order), 9)
        );
        let group = order
            .group
            .as_deref()
            .map(|group| format!(" [{}]", sanitize_line(group)));
        let rest = format!(
            "{}{}: {}",
            sanitize_line(&order.title),
            group.unwrap_or_default(),
            standing(order, &orders.queue)
        );
        let room = answer.width().saturating_sub(cells(&left)).max(20);
        answer.line(&format!(
            "{}{}",
            paint.paint(tone(order), &left),
            fit(&rest, room)
        ))?;
    }
    for fault in &orders.faults {
        let text = format!("order {}: {}", fault.order, sanitize_line(&fault.words));
        answer.paragraph(&paint.paint(Tone::Bad, &text))?;
    }
    for fault in &orders.file_faults {
        let text = format!(
            "not taken in: {}: {}",
            sanitize_line(&fault.file),
            sanitize_line(&fault.message)
        );
        answer.paragraph(&paint.paint(Tone::Bad, &text))?;
    }
    if orders.queue.paused {
        answer.line("The queue is paused. `foreman orders resume` goes on.")?;
    }
    for repo in &orders.queue.paused_repos {
        let repo = sanitize_line(&repo.to_string_lossy());
        answer.line(&format!(
            "Paused in {repo}. `foreman orders resume --repo {repo}` goes on."
        ))?;
    }
    say_who_dispatches(&orders.queue, answer)
}

/// Says what has to be done where orders wait and nobody starts them.
pub fn say_who_dispatches(queue: &QueueView, answer: &Answer) -> io::Result<()> {
    if queue.dispatching || (queue.waiting == 0 && queue.watched.is_empty()) {
        return Ok(());
    }
    let waiting = match queue.waiting {
        0 => "Folders are watched".to_owned(),
        1 => "1 order waits".to_owned(),
        many => format!("{many} orders wait"),
    };
    answer.line(&answer.paint().paint(
        Tone::Warn,
        &format!("{waiting}; no engine is up that starts orders: `foreman serve`, or `foreman serve --detach`."),
    ))
}

fn word(order: &OrderView) -> &'static str {
    match &order.state {
        OrderState::Queued if order.hints.recurrence.is_some() => "recurs",
        OrderState::Queued if order.wait.is_some() => "waits",
        OrderState::Queued => "next",
        OrderState::Dispatched { .. } => match &order.last_run {
            Some(run) => words::state_word(&run.state),
            None => "running",
        },
        OrderState::Done { .. } => "done",
        OrderState::Failed { .. } => "failed",
        OrderState::Cancelled => "cancelled",
    }
}

fn tone(order: &OrderView) -> Tone {
    match &order.state {
        OrderState::Queued if order.wait.is_none() => Tone::Strong,
        OrderState::Queued => Tone::Warn,
        OrderState::Dispatched { .. } | OrderState::Done { .. } => Tone::Good,
        OrderState::Failed { .. } => Tone::Bad,
        OrderState::Cancelled => Tone::Dim,
    }
}

/// Where an order stands, with what it waits for, as a phrase.
pub fn state(order: &OrderView) -> String {
    match &order.state {
        OrderState::Queued => match (&order.wait, order.next_slot) {
            (_, Some(at)) => format!("comes again at {at}"),
            (Some(wait), _) => format!("waits: {}", sanitize_line(&wait.words)),
            (None, None) if order.hints.recurrence.is_some() => "never comes again".into(),
            (None, None) => "is next".into(),
        },
        OrderState::Dispatched { run } => match &order.last_run {
            Some(view) => format!("run {run}: {}", words::state(&view.state)),
            None => format!("run {run}"),
        },
        OrderState::Done {
            how: OrderDone::Merged { run, commit },
        } => format!("done: run {run} is merged, as {}", words::short(commit)),
        OrderState::Done {
            how: OrderDone::NoChanges { run },
        } => format!("done: run {run} had nothing to change"),
        OrderState::Failed { why } => failure(why),
        OrderState::Cancelled => "cancelled".into(),
    }
}

/// The same for a list: one that is next does not start where nobody dispatches.
pub fn standing(order: &OrderView, queue: &QueueView) -> String {
    match (&order.state, &order.wait, order.next_slot) {
        (OrderState::Queued, None, None) if !queue.dispatching => {
            "starts as soon as an engine is up that starts orders".into()
        }
        _ => state(order),
    }
}

fn failure(why: &OrderFailure) -> String {
    match why {
        OrderFailure::Run { run, cause } => {
            format!("failed: run {run}: {}", words::fail_reason(cause))
        }
        OrderFailure::Stopped { run, .. } => format!("failed: run {run} was stopped"),
        OrderFailure::Interrupted { run, .. } => {
            format!("failed: run {run} was interrupted; it is not started again by itself")
        }
        OrderFailure::Checks { run, checks } => format!(
            "failed: run {run} changed nothing, and checks did not pass: {}",
            sanitize_line(&checks.join("; "))
        ),
        OrderFailure::Discarded { run } => format!("not done: run {run} was discarded"),
    }
}

fn limits(args: LimitsArgs) -> LimitsChange {
    let accept = match args.accept.as_slice() {
        [] => None,
        [all] if all == "all" => Some(Vec::new()),
        _ => Some(args.accept),
    };
    LimitsChange {
        total: args.total,
        per_repository: args.per_repo,
        per_class: args.class,
        per_kind: args.kind,
        kinds_accepted: accept,
        budget_wall_seconds: args.budget_wall,
        window_seconds: args.window,
        budget_tokens: args.budget_tokens,
        budget_cost_micros: args.budget_cost,
    }
}

fn tell_queue(queue: &QueueView, answer: &Answer) -> Done {
    if answer.is_json() {
        answer.object(queue)?;
        return Ok(ExitCode::Ok);
    }
    let paint = answer.paint();
    let cap = |cap: Option<u32>| match cap {
        None | Some(0) => "no cap".to_owned(),
        Some(cap) => format!("{cap} at once"),
    };
    let limits = &queue.limits;
    let mut rows = vec![
        (
            "queue".to_owned(),
            if queue.paused { "paused" } else { "not paused" }.to_owned(),
        ),
        ("runs".to_owned(), cap(limits.total)),
        ("per repository".to_owned(), cap(limits.per_repository)),
    ];
    let named = |what: &str, name: &str| sanitize_line(&format!("{what} {name}"));
    for (name, value) in &limits.per_class {
        rows.push((named("class", name), cap(Some(*value))));
    }
    for (name, value) in &limits.per_kind {
        rows.push((named("kind", name), cap(Some(*value))));
    }
    if let Some(kinds) = &limits.kinds_accepted {
        rows.push(("kinds accepted".into(), sanitize_line(&kinds.join(", "))));
    }
    let window = duration_in_words(limits.budgets.window_seconds);
    if let Some(seconds) = limits.budgets.wall_seconds {
        rows.push((
            "wall time".into(),
            format!(
                "{} in {window}; {} used or reserved",
                duration_in_words(seconds),
                words::duration(queue.wall_used_seconds.saturating_mul(1000))
            ),
        ));
    }
    if let Some(tokens) = limits.budgets.tokens {
        let used = tokens_in_words(queue.tokens_used);
        let tokens = tokens_in_words(tokens);
        rows.push((
            "tokens".into(),
            format!("{tokens} in {window}; {used} used or reserved"),
        ));
    }
    if let Some(cost) = limits.budgets.cost_micros {
        let used = microusd_in_words(queue.cost_used_micros);
        let cost = microusd_in_words(cost);
        rows.push((
            "cost".into(),
            format!("{cost} in {window}; {used} used or reserved"),
        ));
    }
    for repo in &queue.paused_repos {
        rows.push(("paused in".into(), sanitize_line(&repo.to_string_lossy())));
    }
    for (label, text) in rows {
        answer.line(&format!(
            "  {} {text}",
            paint.paint(Tone::Dim, &pad(&label, 14))
        ))?;
    }
    say_who_dispatches(queue, answer)?;
    Ok(ExitCode::Ok)
}

async fn watch(command: OrdersWatchCommand, engine: &impl Commands, answer: &Answer) -> Done {
    let watched = match command {
        OrdersWatchCommand::List => engine.orders_watched(WatchList::default()).await?,
        OrdersWatchCommand::Add(name) => {
            let folder = absolute(&name.folder)?;
            let watched = true;
            engine.orders_watch(WatchChange { folder, watched }).await?
        }
        OrdersWatchCommand::Remove(name) => {
            let folder = absolute(&name.folder)?;
            let watched = false;
            engine.orders_watch(WatchChange { folder, watched }).await?
        }
    };
    if answer.is_json() {
        answer.object(&watched)?;
    } else {
        draw_watched(&watched, answer)?;
    }
    Ok(ExitCode::Ok)
}

fn draw_watched(watched: &Watched, answer: &Answer) -> io::Result<()> {
    let paint = answer.paint();
    if watched.folders.is_empty() {
        answer.line("No folder is watched. `foreman orders watch add DIR` watches one.")?;
    }
    for folder in &watched.folders {
        let folder = sanitize_line(&folder.to_string_lossy());
        answer.line(&paint.paint(Tone::Strong, &folder))?;
    }
    for file in &watched.files {
        let what = match &file.fault {
            Some(fault) => paint.paint(Tone::Bad, &sanitize_line(fault)),
            None => {
                let ids: Vec<&str> = file.orders.iter().map(|order| order.as_str()).collect();
                ids.join(", ")
            }
        };
        answer.line(&format!("  {}: {what}", sanitize_line(&file.file)))?;
    }
    for warning in &watched.warnings {
        let text = sanitize_line(&format!("Mind: {warning}."));
        answer.paragraph(&paint.paint(Tone::Warn, &text))?;
    }
    Ok(())
}
