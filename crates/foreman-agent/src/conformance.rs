//! The suite that every driver passes: what whoever runs an agent relies on, whatever the agent.
//!
//! A driver is tried as a [`Candidate`], with what a real agent of its printed during a whole run. A case that fails
//! says what it expected and what it saw; nothing here panics.

use crate::{Driver, Effect, Hearing, Input, LONGEST_LINE, Line, Lines};
use foreman_domain::{AgentEvent, AgentOutcome, StepResult};

/// Longest text of one event, in bytes.
const LONGEST_TEXT: usize = 16 << 10;
/// Pieces of one character that are sent.
const PIECES: usize = 10_000;

/// A driver with what its agent prints.
pub trait Candidate {
    /// A new driver.
    fn driver(&self) -> Box<dyn Driver>;

    /// What the agent printed during a run that came to its end: at least a message and a tool call.
    fn recording(&self) -> &[u8];

    /// A line by which the agent says this piece of a message; none where it says messages only whole.
    fn piece(&self, text: &str) -> Option<String>;
}

/// What was expected, and what was seen instead.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Broken(String);

/// A case: its name, and what it does.
pub type Case = (&'static str, fn(&dyn Candidate) -> Result<(), Broken>);

macro_rules! cases {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), $name)),*] };
}

/// All cases.
pub const CASES: &[Case] = cases![
    a_recorded_run_is_told_and_completed,
    the_exit_code_decides_nothing,
    without_its_closing_message_an_agent_is_never_complete,
    what_ended_it_from_outside_is_the_outcome,
    folding_again_gives_the_same_however_the_bytes_arrive,
    garbage_between_messages_changes_nothing_else,
    a_line_that_is_cut_short_is_told,
    giant_lines_are_told_and_what_follows_is_whole,
    unknown_messages_are_told,
    pieces_of_one_character_are_put_together_without_loss,
    what_is_said_to_it_is_taken_once_or_not_at_all,
];

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), Broken> {
    if holds {
        Ok(())
    } else {
        Err(Broken(otherwise()))
    }
}

/// The effects of a run that printed this, in chunks of at most `chunk` bytes, and ended so.
fn fold(candidate: &dyn Candidate, printed: &[u8], chunk: usize, end: &StepResult) -> Vec<Effect> {
    let mut driver = candidate.driver();
    let mut out = Vec::new();
    let mut lines = Lines::default();
    driver.take(Input::Begin, &mut out);
    for bytes in printed.chunks(chunk.max(1)) {
        lines.push(bytes, |line| driver.take(Input::Line(line), &mut out));
    }
    lines.finish(|line| driver.take(Input::Line(line), &mut out));
    driver.take(Input::End(end), &mut out);
    out
}

fn events(effects: &[Effect]) -> Vec<&AgentEvent> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Tell(event) => Some(event),
            _ => None,
        })
        .collect()
}

/// The outcome, told once and last.
fn outcome(effects: &[Effect]) -> Result<AgentOutcome, Broken> {
    let told: Vec<_> = events(effects)
        .into_iter()
        .filter_map(|event| match event {
            AgentEvent::Ended { outcome, .. } => Some(*outcome),
            _ => None,
        })
        .collect();
    let is_last = matches!(effects.last(), Some(Effect::Tell(AgentEvent::Ended { .. })));
    match told.as_slice() {
        [outcome] if is_last => Ok(*outcome),
        told => Err(Broken(format!(
            "the end is to be told once and last, not as {told:?}"
        ))),
    }
}

fn recorded(candidate: &dyn Candidate) -> Vec<Effect> {
    fold(
        candidate,
        candidate.recording(),
        usize::MAX,
        &StepResult::Succeeded,
    )
}

fn recorded_lines(candidate: &dyn Candidate) -> Vec<&[u8]> {
    let lines = candidate.recording().split(|byte| *byte == b'\n');
    lines.filter(|line| !line.is_empty()).collect()
}

fn a_recorded_run_is_told_and_completed(candidate: &dyn Candidate) -> Result<(), Broken> {
    let effects = recorded(candidate);
    let outcome = outcome(&effects)?;
    ensure(outcome.is_complete(), || {
        format!("the recorded run ended as {outcome:?}")
    })?;
    let events = events(&effects);
    let has = |what: &str, is: fn(&AgentEvent) -> bool| {
        ensure(events.iter().any(|event| is(event)), || {
            format!("no {what} was told: {events:#?}")
        })
    };
    has(
        "session",
        |event| matches!(event, AgentEvent::Session { session, .. } if !session.is_empty()),
    )?;
    has(
        "message",
        |event| matches!(event, AgentEvent::Message { text, .. } if !text.is_empty()),
    )?;
    has("usage", |event| matches!(event, AgentEvent::Usage { .. }))?;
    let calls = |wanted: fn(&AgentEvent) -> Option<&String>| -> Vec<&String> {
        events.iter().filter_map(|event| wanted(event)).collect()
    };
    let started = calls(|event| match event {
        AgentEvent::ToolStarted { call, .. } => Some(call),
        _ => None,
    });
    let ended = calls(|event| match event {
        AgentEvent::ToolEnded { call, .. } => Some(call),
        _ => None,
    });
    ensure(!started.is_empty() && started == ended, || {
        format!("calls {started:?} began and {ended:?} ended")
    })?;
    let strange: Vec<_> = events
        .iter()
        .filter(|event| {
            matches!(
                event,
                AgentEvent::Unknown { .. } | AgentEvent::Unreadable { .. }
            )
        })
        .collect();
    ensure(strange.is_empty(), || {
        format!("its own messages are not known: {strange:?}")
    })
}

fn the_exit_code_decides_nothing(candidate: &dyn Candidate) -> Result<(), Broken> {
    let first = outcome(&recorded(candidate))?;
    for code in [1, 70, 255] {
        let end = StepResult::Exited { code };
        let other = outcome(&fold(candidate, candidate.recording(), usize::MAX, &end))?;
        ensure(first == other, || {
            format!("{first:?} became {other:?} by exit code {code}")
        })?;
    }
    let silent = outcome(&fold(candidate, b"", 1, &StepResult::Succeeded))?;
    ensure(silent == AgentOutcome::Lost, || {
        format!("one that says nothing ends as {silent:?}")
    })
}

fn without_its_closing_message_an_agent_is_never_complete(
    candidate: &dyn Candidate,
) -> Result<(), Broken> {
    let lines = recorded_lines(candidate);
    // The closing message is the last line that changes the outcome: before it, no prefix is complete.
    let mut completes_at = None;
    for count in 0..=lines.len() {
        let printed = lines.get(..count).unwrap_or_default().join(&b'\n');
        let told = outcome(&fold(
            candidate,
            &printed,
            usize::MAX,
            &StepResult::Succeeded,
        ))?;
        match (told.is_complete(), completes_at) {
            (true, None) => completes_at = Some(count),
            (false, Some(at)) => {
                return Err(Broken(format!(
                    "complete after {at} lines, and not any more after {count}"
                )));
            }
            _ => {}
        }
    }
    let late = completes_at.is_some_and(|at| at * 10 >= lines.len() * 9);
    ensure(late, || {
        format!("complete after {completes_at:?} of {} lines", lines.len())
    })
}

fn what_ended_it_from_outside_is_the_outcome(candidate: &dyn Candidate) -> Result<(), Broken> {
    let signalled = StepResult::Signalled { signal: 9 };
    let told = outcome(&fold(
        candidate,
        candidate.recording(),
        usize::MAX,
        &signalled,
    ))?;
    ensure(told == AgentOutcome::Killed, || {
        format!("one that is killed ends as {told:?}")
    })?;
    let mut driver = candidate.driver();
    let mut out = Vec::new();
    driver.take(Input::Begin, &mut out);
    driver.take(Input::Interrupt, &mut out);
    let why = "the operator stopped the run".to_owned();
    driver.take(Input::End(&StepResult::Stopped { why }), &mut out);
    let told = outcome(&out)?;
    ensure(told == AgentOutcome::Cancelled, || {
        format!("one that is stopped ends as {told:?}")
    })
}

fn folding_again_gives_the_same_however_the_bytes_arrive(
    candidate: &dyn Candidate,
) -> Result<(), Broken> {
    let first = recorded(candidate);
    for chunk in [1, 7, 4_096] {
        let again = fold(
            candidate,
            candidate.recording(),
            chunk,
            &StepResult::Succeeded,
        );
        ensure(first == again, || {
            format!("other effects from chunks of {chunk} bytes")
        })?;
    }
    Ok(())
}

fn garbage_between_messages_changes_nothing_else(candidate: &dyn Candidate) -> Result<(), Broken> {
    let deep = "[".repeat(100_000).into_bytes();
    let deep_object = [b"{\"a\":".repeat(100_000), b"1".to_vec()].concat();
    let garbage: [&[u8]; 8] = [
        b"warning: not JSON",
        b"\xff\xfe\x00\x01",
        b"[1,2,3]",
        b"\"text\"",
        b"null",
        b"{\"type\":",
        &deep,
        &deep_object,
    ];
    let mut printed = Vec::new();
    let lines = recorded_lines(candidate);
    for (index, line) in lines.iter().enumerate() {
        printed.extend_from_slice(
            garbage
                .get(index % garbage.len())
                .copied()
                .unwrap_or_default(),
        );
        printed.push(b'\n');
        printed.extend_from_slice(line);
        printed.push(b'\n');
    }
    let effects = fold(candidate, &printed, usize::MAX, &StepResult::Succeeded);
    let (strange, others): (Vec<_>, Vec<_>) = effects
        .into_iter()
        .partition(|effect| matches!(effect, Effect::Tell(AgentEvent::Unreadable { .. })));
    ensure(strange.len() == lines.len(), || {
        format!(
            "{} of {} lines of garbage were told",
            strange.len(),
            lines.len()
        )
    })?;
    // Text in pieces comes in other pieces when something is between; the text is the same.
    let clean = recorded(candidate);
    ensure(text_of(&clean) == text_of(&others), || {
        "garbage changed the text".to_owned()
    })?;
    let rest = |effects: &[Effect]| -> Vec<Effect> {
        let is_text = |effect: &&Effect| {
            matches!(
                effect,
                Effect::Tell(AgentEvent::Message { .. } | AgentEvent::Thought { .. })
            )
        };
        effects
            .iter()
            .filter(|effect| !is_text(effect))
            .cloned()
            .collect()
    };
    ensure(rest(&clean) == rest(&others), || {
        "garbage changed what is told or sent".to_owned()
    })
}

fn a_line_that_is_cut_short_is_told(candidate: &dyn Candidate) -> Result<(), Broken> {
    for line in recorded_lines(candidate) {
        let half = line.get(..line.len() / 2).unwrap_or_default();
        let effects = fold(candidate, half, usize::MAX, &StepResult::Succeeded);
        let told = events(&effects);
        let is_told = told
            .iter()
            .any(|event| matches!(event, AgentEvent::Unreadable { .. }));
        ensure(is_told, || format!("half a message was not told: {told:?}"))?;
        let outcome = outcome(&effects)?;
        ensure(!outcome.is_complete(), || {
            "half a message completed a run".to_owned()
        })?;
    }
    Ok(())
}

fn giant_lines_are_told_and_what_follows_is_whole(candidate: &dyn Candidate) -> Result<(), Broken> {
    let clean = recorded(candidate);
    let text = "x".repeat(5 << 20);
    let known =
        format!("{{\"type\":\"never heard of\",\"method\":\"never heard of\",\"x\":\"{text}\"}}\n");
    let endless = [vec![b'{'; LONGEST_LINE + 1], b"\n".to_vec()].concat();
    for giant in [known.as_bytes(), &endless] {
        let printed = [giant, candidate.recording()].concat();
        let effects = fold(candidate, &printed, 64 << 10, &StepResult::Succeeded);
        let is_strange = |effect: &&Effect| {
            matches!(
                effect,
                Effect::Tell(AgentEvent::Unknown { .. } | AgentEvent::Unreadable { .. })
            )
        };
        let strange = effects.iter().filter(is_strange).count();
        ensure(strange == 1, || {
            format!("a line of {} bytes was told {strange} times", giant.len())
        })?;
        let others: Vec<_> = effects
            .iter()
            .filter(|effect| !is_strange(effect))
            .cloned()
            .collect();
        ensure(others == clean, || {
            "a giant line changed what follows".to_owned()
        })?;
    }
    Ok(())
}

fn unknown_messages_are_told(candidate: &dyn Candidate) -> Result<(), Broken> {
    let unknown = b"{\"type\":\"never/heard of\",\"method\":\"never/heard of\"}\n{}\n";
    let effects = fold(candidate, unknown, usize::MAX, &StepResult::Succeeded);
    let told = events(&effects);
    let names: Vec<_> = told
        .iter()
        .filter_map(|event| match event {
            AgentEvent::Unknown { name } => Some(name.as_str()),
            _ => None,
        })
        .collect();
    ensure(names == ["never/heard of", ""], || {
        format!("unknown messages were told as {names:?}")
    })
}

fn pieces_of_one_character_are_put_together_without_loss(
    candidate: &dyn Candidate,
) -> Result<(), Broken> {
    let mut driver = candidate.driver();
    let mut out = Vec::new();
    driver.take(Input::Begin, &mut out);
    let before = out.len();
    let mut wanted = String::new();
    for index in 0..PIECES {
        let piece = ["é", "\n", "日", "x"]
            .get(index % 4)
            .copied()
            .unwrap_or("x");
        let Some(line) = candidate.piece(piece) else {
            return Ok(());
        };
        wanted.push_str(piece);
        driver.take(Input::Line(Line::Whole(line.as_bytes())), &mut out);
    }
    driver.take(Input::Pause, &mut out);
    let said = out.get(before..).unwrap_or_default();
    ensure(text_of(said) == wanted, || {
        "the pieces do not make the text".to_owned()
    })?;
    let most = wanted.len() / LONGEST_TEXT + 1;
    ensure(said.len() <= most, || {
        format!("{PIECES} pieces became {} events", said.len())
    })?;
    ensure(
        said.iter().all(|effect| !matches!(effect, Effect::Tell(AgentEvent::Message { text, .. }) if text.len() > LONGEST_TEXT)),
        || "a text is longer than an event may be".to_owned(),
    )
}

/// What a follow-up message relies on: the driver says whether it takes it, tells it once, gives it at most once, and takes
/// nothing after the end.
fn what_is_said_to_it_is_taken_once_or_not_at_all(candidate: &dyn Candidate) -> Result<(), Broken> {
    let mut driver = candidate.driver();
    let mut out = Vec::new();
    driver.take(Input::Begin, &mut out);
    let hears = driver.hears();
    let words = "and one thing more: 7c1e";
    let mut said = Vec::new();
    let say = Input::Say {
        by: "op",
        text: words,
    };
    driver.take(say, &mut said);
    let told = Effect::Tell(AgentEvent::Told {
        by: "op".to_owned(),
        text: words.to_owned(),
    });
    match hears {
        Hearing::Hears => ensure(said == [told], || {
            format!("what was said was told as {said:?}")
        })?,
        Hearing::Full | Hearing::Over | Hearing::Never => ensure(said.is_empty(), || {
            format!("it does not hear, and what was said gave {said:?}")
        })?,
    }
    let mut lines = Lines::default();
    let mut take = |line: Line<'_>| driver.take(Input::Line(line), &mut out);
    lines.push(candidate.recording(), &mut take);
    lines.finish(&mut take);
    let given = |effect: &&Effect| matches!(effect, Effect::Tell(AgentEvent::Given { .. }));
    let passed_on = |effect: &&Effect| matches!(effect, Effect::Send(line) if line.contains(words));
    let counts = (
        out.iter().filter(given).count(),
        out.iter().filter(passed_on).count(),
    );
    let hung_up = out.contains(&Effect::HangUp);
    let wanted = match hears {
        // The recorded run comes to its end of one turn: the message is the next one's prompt.
        Hearing::Hears => ((1, 1), false),
        Hearing::Full | Hearing::Over | Hearing::Never => ((0, 0), hung_up),
    };
    ensure((counts, hung_up) == wanted, || {
        format!("told as given and given {counts:?}, hung up {hung_up}")
    })?;
    driver.take(Input::Interrupt, &mut out);
    let mut late = Vec::new();
    driver.take(say, &mut late);
    ensure(driver.hears() != Hearing::Hears && late.is_empty(), || {
        format!("one that is to stop takes {late:?}")
    })
}

fn text_of(effects: &[Effect]) -> String {
    let texts = effects.iter().filter_map(|effect| match effect {
        Effect::Tell(AgentEvent::Message { text, .. }) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}
