//! `foreman order add|show|edit|cancel|dispatch`.

use super::{Done, absolute, leave_behind, orders, run};
use crate::answer::Answer;
use crate::args::{HintArgs, OrderAddArgs, OrderCommand, OrderEditArgs, RecurrenceArgs, TextArgs};
use crate::engine::Engine;
use crate::error::CliError;
use crate::paint::Tone;
use crate::words;
use foreman_domain::{At, Code, ExitCode, Failure, OrderId, OrderState, sanitize_line};
use foreman_engine::api::{
    Commands, OrderAdd, OrderChanges, OrderDraft, OrderGate, OrderRef, OrderSource, OrderSpec,
    OrderView, Orders,
};
use foreman_schedule::{
    Autonomy, Cadence, Complexity, Enforcement, Hints, Impact, Recurrence, ScopeClaim,
};
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

/// Largest text that is read from a file: the engine refuses what is larger than it can use.
const LARGEST: u64 = 2 << 20;
/// Between two looks at an order that is waited for.
const LOOK: Duration = Duration::from_millis(300);
/// Said by lists that are to be empty.
const NONE: &str = "none";

/// Does what is asked about one order.
pub async fn order(command: OrderCommand, engine: &Engine, answer: &Answer) -> Done {
    match command {
        OrderCommand::Add(args) => add(*args, engine, answer).await,
        OrderCommand::List(args) => orders::list(args, engine, answer).await,
        OrderCommand::Show(name) => {
            let view = engine.order_show(reference(name.order)).await?;
            tell(&view, answer)
        }
        OrderCommand::Edit(args) => edit(*args, engine, answer).await,
        OrderCommand::Cancel(name) => {
            let view = engine.order_cancel(reference(name.order)).await?;
            tell(&view, answer)
        }
        OrderCommand::Dispatch(name) => {
            let view = engine.order_dispatch(reference(name.order)).await?;
            tell(&view, answer)
        }
    }
}

fn reference(order: String) -> OrderRef {
    OrderRef { order }
}

async fn add(mut args: OrderAddArgs, engine: &Engine, answer: &Answer) -> Done {
    let (wait, serve) = (args.wait, args.serve);
    let request = match args.file.take() {
        Some(file) => OrderAdd {
            draft: None,
            source: Some(source(&file, &args.run.repo)?),
        },
        None => OrderAdd {
            draft: Some(draft(args, answer)?),
            source: None,
        },
    };
    let added = engine.order_add(request).await?;
    if wait {
        return wait_for(&added, engine, answer).await;
    }
    let left = match serve && !added.queue.dispatching {
        true => {
            // It takes over when this command ends.
            leave_behind()?.or(Some("`foreman serve` is there to start it.".to_owned()))
        }
        false => None,
    };
    if answer.is_json() {
        answer.object(&added)?;
        return Ok(ExitCode::Ok);
    }
    for order in &added.orders {
        answer.line(&format!(
            "{} {}  {}",
            answer.paint().paint(Tone::Strong, "order"),
            order.id,
            sanitize_line(&order.title)
        ))?;
        answer.line(&format!("  {}", orders::standing(order, &added.queue)))?;
    }
    match left {
        Some(left) => answer.paragraph(&left)?,
        None => orders::say_who_dispatches(&added.queue, answer)?,
    }
    Ok(ExitCode::Ok)
}

fn source(file: &Path, repo: &Path) -> Result<OrderSource, Failure> {
    let text = read_text(file)?;
    let here = absolute(Path::new("."))?;
    let (name, folder) = if file == Path::new("-") {
        ("standard input".to_owned(), here)
    } else {
        let whole = absolute(file)?;
        let name = whole
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let folder = whole.parent().map(Path::to_owned);
        (name.unwrap_or_default(), folder.unwrap_or(here))
    };
    Ok(OrderSource {
        name,
        text,
        folder,
        repo: Some(absolute(repo)?),
    })
}

fn read_text(file: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if file == Path::new("-") {
        io::stdin().lock().take(LARGEST).read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|opened| opened.take(LARGEST).read_to_string(&mut text))
    };
    read.map_err(|error| {
        Failure::new(
            Code::BadInput,
            format!("{} cannot be read: {error}", file.display()),
        )
    })?;
    Ok(text)
}

fn draft(mut args: OrderAddArgs, answer: &Answer) -> Result<OrderDraft, Failure> {
    if args.run.argv.is_empty() {
        return Err(Failure::new(Code::Usage, "there is no command to run")
            .hint("Name it behind `--`: foreman order add -- COMMAND; or hand in a file: --file FILE."));
    }
    if args.run.tty {
        return Err(
            Failure::new(Code::Usage, "an order's agent has no terminal")
                .hint("Leave --tty out, or use `foreman run`."),
        );
    }
    let (given, env_from): (Vec<String>, Vec<String>) =
        args.run.env.drain(..).partition(|item| item.contains('='));
    args.run.env = given;
    let mut hints = hints(&args.hints, Hints::default())?;
    hints.recurrence = recurrence(args.recurrence)?;
    let spec = OrderSpec {
        run: run::request(args.run, answer)?,
        env_from,
        prompt: prompt(args.text)?,
        hints,
        scope: claim(&args.hints),
        depends_on: ids(&args.hints.depends_on)?,
        parent: args.parent.map(|parent| parse_id(&parent)).transpose()?,
        gate: args.hints.gate.map(Into::into).unwrap_or_default(),
        estimate_wall_seconds: args.estimate_wall,
    };
    Ok(OrderDraft {
        id: args.id,
        spec,
        attempts: args.attempts,
        agents: Vec::new(),
    })
}

fn prompt(text: TextArgs) -> Result<Option<String>, Failure> {
    match (text.prompt, text.prompt_file) {
        (Some(prompt), _) => Ok(Some(prompt)),
        (None, Some(file)) => read_text(&file).map(Some),
        (None, None) => Ok(None),
    }
}

fn recurrence(args: RecurrenceArgs) -> Result<Option<Recurrence>, Failure> {
    let cadence = match (args.every, args.calendar) {
        (Some(every_seconds), _) => Cadence::Every {
            every_seconds,
            from: At::from_millis(0),
        },
        (None, Some(calendar)) => Cadence::Calendar { calendar },
        (None, None) if args.missed.is_some() => {
            return Err(
                Failure::new(Code::Usage, "--missed is about an order that comes again")
                    .hint("Say when, with --every or --calendar."),
            );
        }
        (None, None) => return Ok(None),
    };
    Ok(Some(Recurrence {
        cadence,
        zone: args.zone,
        missed: args.missed.unwrap_or_default(),
    }))
}

/// The hints that were typed, on top of those that are.
fn hints(args: &HintArgs, known: Hints) -> Result<Hints, Failure> {
    let not_before = match &args.not_before {
        None => known.not_before,
        Some(text) if text == NONE => None,
        Some(text) => Some(time(text)?),
    };
    let named = |typed: &Option<String>, known: Option<String>| match typed {
        Some(text) if text == NONE => None,
        Some(text) => Some(text.clone()),
        None => known,
    };
    Ok(Hints {
        priority: args.priority || known.priority,
        impact: args.impact.map(Into::into).or(known.impact),
        complexity: args.complexity.map(Into::into).or(known.complexity),
        autonomy: args.autonomy.map_or(known.autonomy, Into::into),
        kind: named(&args.kind, known.kind),
        concurrency_class: named(&args.class, known.concurrency_class),
        not_before,
        recurrence: known.recurrence,
        retries: args.retries.unwrap_or(known.retries),
    })
}

fn time(text: &str) -> Result<At, Failure> {
    let zone = jiff::tz::TimeZone::system();
    let civil = || {
        let civil = text.parse::<jiff::civil::DateTime>().ok()?;
        let zoned = zone.to_ambiguous_zoned_datetime(civil).compatible().ok()?;
        Some(zoned.timestamp())
    };
    let time = text.parse::<jiff::Timestamp>().ok().or_else(civil);
    time.map(At).ok_or_else(|| {
        Failure::new(
            Code::Usage,
            format!("\"{}\" is no time", sanitize_line(text)),
        )
        .hint("Write it as 2027-01-31T08:00, or with Z for UTC.")
    })
}

fn claim(args: &HintArgs) -> Option<ScopeClaim> {
    let enforcement = match args.mandatory {
        true => Enforcement::Mandatory,
        false => Enforcement::Advisory,
    };
    (!args.scope.is_empty()).then(|| ScopeClaim {
        patterns: args.scope.clone(),
        enforcement,
        strict: args.strict,
    })
}

fn ids(typed: &[String]) -> Result<Vec<OrderId>, Failure> {
    typed.iter().map(|id| parse_id(id)).collect()
}

fn parse_id(text: &str) -> Result<OrderId, Failure> {
    text.parse::<OrderId>()
        .map_err(|error| Failure::new(Code::BadInput, error.to_string()))
}

async fn edit(args: OrderEditArgs, engine: &Engine, answer: &Answer) -> Done {
    let before = engine.order_show(reference(args.order)).await?;
    let mut known = before.hints.clone();
    known.priority &= !args.no_priority;
    let empties = |list: &[String]| matches!(list, [one] if one == NONE);
    let scope = match empties(&args.hints.scope) {
        true => Some(ScopeClaim {
            patterns: Vec::new(),
            enforcement: Enforcement::default(),
            strict: false,
        }),
        false => claim(&args.hints),
    };
    let depends_on = match args.hints.depends_on.as_slice() {
        [] => None,
        list if empties(list) => Some(Vec::new()),
        list => Some(ids(list)?),
    };
    let changes = OrderChanges {
        order: before.id.to_string(),
        title: args.title,
        repo: args.repo.as_deref().map(absolute).transpose()?,
        base: args.base,
        argv: (!args.argv.is_empty()).then_some(args.argv),
        prompt: prompt(args.text)?,
        hints: Some(hints(&args.hints, known)?).filter(|hints| *hints != before.hints),
        scope,
        depends_on,
        gate: args.hints.gate.map(Into::into),
    };
    if is_empty(&changes) {
        return Err(Failure::new(
            Code::Usage,
            format!("nothing of order {} would change", before.id),
        )
        .hint("Say what is to be otherwise, as with `foreman order add`: see `foreman order edit --help`.")
        .into());
    }
    let view = engine.order_edit(changes).await?;
    tell(&view, answer)
}

fn is_empty(changes: &OrderChanges) -> bool {
    let OrderChanges {
        order: _,
        title,
        repo,
        base,
        argv,
        prompt,
        hints,
        scope,
        depends_on,
        gate,
    } = changes;
    let texts = [title, base, prompt].iter().all(|text| text.is_none());
    let place = hints.is_none() && scope.is_none() && depends_on.is_none() && gate.is_none();
    texts && place && repo.is_none() && argv.is_none()
}

/// Stays until the runs of these orders have ended, and dispatches where nobody else does.
async fn wait_for(added: &Orders, engine: &Engine, answer: &Answer) -> Done {
    engine.0.dispatch_orders();
    let mut worst = ExitCode::Ok;
    let mut views = Vec::new();
    for order in &added.orders {
        let mut said = String::new();
        let view = loop {
            let view = engine.order_show(reference(order.id.to_string())).await?;
            let now = orders::standing(&view, &added.queue);
            if now != said && !answer.is_json() {
                answer.line(&format!("{}  {now}", view.id))?;
                said = now;
            }
            let is_over = match &view.state {
                OrderState::Queued => view.hints.recurrence.is_some(),
                OrderState::Dispatched { .. } => view
                    .last_run
                    .as_ref()
                    .is_some_and(|run| run.outcome.is_some()),
                OrderState::Done { .. } | OrderState::Failed { .. } | OrderState::Cancelled => true,
            };
            if is_over {
                break view;
            }
            tokio::time::sleep(LOOK).await;
        };
        let code = view.last_run.as_ref().and_then(|run| {
            let outcome = run.outcome.as_ref()?;
            let passed = run.failed_checks == 0;
            Some(words::run_exit(outcome, run.denied_unattended, passed))
        });
        if let Some(code) = code
            && code as u8 > worst as u8
        {
            worst = code;
        }
        views.push(view);
    }
    if answer.is_json() {
        answer.object(&serde_json::json!({ "orders": views }))?;
    }
    Ok(worst)
}

fn tell(view: &OrderView, answer: &Answer) -> Done {
    if answer.is_json() {
        answer.object(view)?;
    } else {
        facts(view, answer)?;
    }
    Ok(ExitCode::Ok)
}

fn facts(order: &OrderView, answer: &Answer) -> Result<(), CliError> {
    let listed = |ids: &[OrderId]| {
        let ids: Vec<&str> = ids.iter().map(OrderId::as_str).collect();
        ids.join(", ")
    };
    let mut rows = vec![
        ("title", sanitize_line(&order.title)),
        ("state", orders::state(order)),
        ("repository", sanitize_line(&order.repo.to_string_lossy())),
        ("command", words::argv(&order.argv)),
    ];
    if let Some(base) = &order.base {
        rows.push(("base", sanitize_line(base)));
    }
    if let Some(group) = &order.group {
        rows.push((
            "group",
            format!("{}; `foreman compare {0}`", sanitize_line(group)),
        ));
    }
    if let Some(prompt) = &order.prompt {
        let first = prompt.lines().next().unwrap_or_default();
        rows.push(("prompt", sanitize_line(first)));
    }
    rows.push(("queue", place(&order.hints)));
    if let Some(not_before) = order.hints.not_before {
        rows.push(("not before", not_before.to_string()));
    }
    if !order.checks.is_empty() {
        rows.push(("checks", sanitize_line(&order.checks.join("; "))));
    }
    let gate = match order.gate {
        OrderGate::Review => "your review",
        OrderGate::Checks => "its checks: merged by itself when all pass",
    };
    rows.push(("gate", gate.to_owned()));
    if let Some(claim) = &order.scope {
        let how = match (claim.enforcement, claim.strict) {
            (Enforcement::Advisory, _) => "while it runs",
            (Enforcement::Mandatory, false) => "until it is finished",
            (Enforcement::Mandatory, true) => "until it is finished, strictly",
        };
        let patterns = sanitize_line(&claim.patterns.join(", "));
        rows.push(("scope", format!("{patterns} ({how})")));
    }
    if !order.depends_on.is_empty() {
        rows.push(("depends on", listed(&order.depends_on)));
    }
    if let Some(parent) = &order.parent {
        rows.push(("part of", parent.to_string()));
    }
    if let Some(next) = order.next_slot {
        rows.push(("next slot", next.to_string()));
    }
    if let Some(source) = &order.source {
        rows.push(("from", sanitize_line(source)));
    }
    rows.push((
        "handed in",
        format!(
            "{} ({})",
            words::ago(order.created_at, At::now()),
            order.created_at
        ),
    ));
    if !order.runs.is_empty() {
        let runs: Vec<&str> = order.runs.iter().map(|run| run.as_str()).collect();
        rows.push(("runs", runs.join(", ")));
    }
    Ok(answer.facts("order", &order.id, &rows)?)
}

/// An order's place in the queue, in words.
fn place(hints: &Hints) -> String {
    let mut words = Vec::new();
    if hints.priority {
        words.push("with priority".to_owned());
    }
    words.extend(hints.impact.map(|impact| match impact {
        Impact::High => "high impact".to_owned(),
        Impact::Medium => "medium impact".to_owned(),
        Impact::Low => "low impact".to_owned(),
    }));
    words.extend(hints.complexity.map(|complexity| match complexity {
        Complexity::Small => "small".to_owned(),
        Complexity::Medium => "of medium size".to_owned(),
        Complexity::Large => "large".to_owned(),
    }));
    words.extend(
        hints
            .kind
            .as_ref()
            .map(|kind| format!("kind {}", sanitize_line(kind))),
    );
    let class = hints.concurrency_class.as_ref();
    words.extend(class.map(|class| format!("class {}", sanitize_line(class))));
    words.push(match hints.autonomy {
        Autonomy::HumanOnly => "dispatched by hand only".to_owned(),
        Autonomy::Supervised => "supervised".to_owned(),
        Autonomy::Autonomous => "autonomous".to_owned(),
    });
    if hints.retries > 0 {
        words.push(format!("{} retries", hints.retries));
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_changes_what_was_typed_and_keeps_the_rest() {
        let known = Hints {
            retries: 3,
            kind: Some("docs".into()),
            autonomy: Autonomy::HumanOnly,
            ..Hints::default()
        };
        let typed = HintArgs {
            priority: true,
            kind: Some(NONE.into()),
            ..HintArgs::default()
        };
        let edited = hints(&typed, known).unwrap();
        assert!(edited.priority);
        assert_eq!((edited.retries, edited.kind), (3, None));
        assert_eq!(edited.autonomy, Autonomy::HumanOnly);
    }

    #[test]
    fn a_policy_for_missed_slots_without_slots_is_a_mistake() {
        let args = RecurrenceArgs {
            missed: Some(foreman_schedule::Missed::Skip),
            ..RecurrenceArgs::default()
        };
        assert_eq!(recurrence(args).unwrap_err().code, Code::Usage);
        assert_eq!(recurrence(RecurrenceArgs::default()).unwrap(), None);
    }
}
