//! Turns events into the lines of a run's feed.
//!
//! Output of the cage is drawn behind [`GUTTER`], cut to the terminal's width by us, so that nothing
//! from the cage ever starts at column 0; our own lines start with a time. Repeats are one line with
//! a count. Pure: the width comes in as an argument.

mod agent;

use crate::layout::{cells, chop, pad, wrap};
use crate::paint::{Paint, Tone};
use crate::words;
use foreman_domain::{
    Amendment, AmendmentState, At, Block, BlockId, BlockState, ConnectVerdict, Decision, Event,
    EventKind, LogStream, RunState, StepKind, Wall, sanitize_line,
};
use std::collections::HashMap;
use std::path::Path;

/// The left edge of everything the cage prints.
pub const GUTTER: &str = "│ ";

const TIME: usize = 12;

/// One entry of the feed; may take several lines of a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    body: Body,
    count: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Body {
    /// A line of ours.
    Ours { at: At, tone: Tone, text: String },
    /// A line of the cage's output, sanitised.
    Cage { is_error: bool, text: String },
}

impl Entry {
    /// What it says, without time, colour or repeats.
    #[must_use]
    pub fn text(&self) -> &str {
        match &self.body {
            Body::Ours { text, .. } | Body::Cage { text, .. } => text,
        }
    }

    /// True for output of the cage, which is drawn behind [`GUTTER`].
    #[must_use]
    pub fn is_of_cage(&self) -> bool {
        matches!(self.body, Body::Cage { .. })
    }
}

/// Builds the feed of one run.
#[derive(Debug)]
pub struct Feed {
    started: At,
    latest: At,
    /// True when cards are drawn elsewhere, so that a held action is only a short line here.
    has_cards: bool,
    probes: Vec<(Wall, bool, String)>,
    steps: HashMap<String, StepKind>,
    blocks: HashMap<BlockId, BlockState>,
    amendments: HashMap<String, AmendmentState>,
    ready: Vec<Entry>,
}

impl Feed {
    /// The feed of a run created at `started`.
    #[must_use]
    pub fn new(started: At, has_cards: bool) -> Self {
        Self {
            started,
            latest: started,
            has_cards,
            probes: vec![],
            steps: HashMap::new(),
            blocks: HashMap::new(),
            amendments: HashMap::new(),
            ready: vec![],
        }
    }

    /// Takes the next event.
    pub fn push(&mut self, event: &Event) {
        self.latest = event.at;
        if let EventKind::Probe {
            wall,
            holds,
            detail,
        } = &event.kind
        {
            self.probes.push((*wall, *holds, detail.clone()));
            return;
        }
        self.flush_probes(event.at);
        self.take_event(event);
    }

    /// A line of our own that is no event.
    pub fn note(&mut self, at: At, tone: Tone, text: impl Into<String>) {
        self.ours(at, tone, text.into());
    }

    /// Ends what waits for more of its kind: probes become their line.
    pub fn flush(&mut self) {
        self.flush_probes(self.latest);
    }

    /// The entries since the last call.
    pub fn take(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.ready)
    }

    /// Draws an entry; `width` is `None` where lines need not be cut.
    #[must_use]
    pub fn render(&self, entry: &Entry, width: Option<usize>, paint: Paint) -> Vec<String> {
        match &entry.body {
            Body::Cage { is_error, text } => {
                let tone = if *is_error { Tone::Bad } else { Tone::Dim };
                let gutter = paint.paint(tone, GUTTER);
                let inner = width.map_or(usize::MAX, |width| width.saturating_sub(cells(GUTTER)));
                chop(text, inner)
                    .iter()
                    .map(|piece| format!("{gutter}{piece}"))
                    .collect()
            }
            Body::Ours { at, tone, text } => {
                let mut text = text.clone();
                if entry.count > 1 {
                    text.push_str(&format!(" ×{}", entry.count));
                }
                let time = format!(
                    "+{}",
                    words::duration(words::millis_between(self.started, *at))
                );
                let narrow = width.is_some_and(|width| width < 50);
                let left = if narrow { 2 } else { TIME + 1 };
                let inner = width.map_or(usize::MAX, |width| width.saturating_sub(left).max(8));
                let mut lines = Vec::new();
                for (index, line) in wrap(&text, inner).iter().enumerate() {
                    let start = match (index, narrow) {
                        (0, false) => {
                            format!("{} ", paint.paint(Tone::Dim, &pad(&time, TIME)))
                        }
                        (0, true) => paint.paint(Tone::Dim, "+ "),
                        _ => " ".repeat(left),
                    };
                    lines.push(format!("{start}{}", paint.paint(*tone, line)));
                }
                lines
            }
        }
    }

    fn ours(&mut self, at: At, tone: Tone, text: String) {
        self.counted(at, tone, text, 1);
    }

    /// Adds a line, or adds to the count of an equal one that is not drawn yet.
    fn counted(&mut self, at: At, tone: Tone, text: String, count: u64) {
        let equal = self.ready.iter_mut().rev().take(64).find(|entry| {
            matches!(&entry.body, Body::Ours { tone: t, text: same, .. } if *t == tone && *same == text)
        });
        match equal {
            Some(entry) => entry.count += count,
            None => self.ready.push(Entry {
                body: Body::Ours { at, tone, text },
                count,
            }),
        }
    }

    fn flush_probes(&mut self, at: At) {
        if self.probes.is_empty() {
            return;
        }
        let probes = std::mem::take(&mut self.probes);
        let mut holding: Vec<&str> = Vec::new();
        for (wall, _, _) in probes.iter().filter(|(_, holds, _)| *holds) {
            if !holding.contains(&words::wall(*wall)) {
                holding.push(words::wall(*wall));
            }
        }
        if !holding.is_empty() {
            self.ours(
                at,
                Tone::Good,
                format!("walls hold: {}", holding.join(", ")),
            );
        }
        for (wall, _, detail) in probes.iter().filter(|(_, holds, _)| !*holds) {
            let tone = if wall.is_required() {
                Tone::Bad
            } else {
                Tone::Warn
            };
            let detail = sanitize_line(detail);
            self.ours(
                at,
                tone,
                format!("wall does not hold: {}: {detail}", words::wall(*wall)),
            );
        }
    }

    fn take_event(&mut self, event: &Event) {
        let at = event.at;
        match &event.kind {
            EventKind::State {
                to: RunState::Stopping { .. },
            } => {
                self.ours(at, Tone::Warn, "the run is being stopped".into());
            }
            // Steps and the end of a run have lines of their own.
            EventKind::State { .. } | EventKind::Probe { .. } | EventKind::Sample { .. } => {}
            EventKind::Progress { message, .. } => {
                self.ours(at, Tone::Plain, sanitize_line(message));
            }
            EventKind::Warning { message } => {
                self.ours(
                    at,
                    Tone::Warn,
                    format!("warning: {}", sanitize_line(message)),
                );
            }
            EventKind::StepStarted { what, argv } => {
                let step = self.step(event);
                match what {
                    StepKind::Setup | StepKind::Agent | StepKind::Check => {
                        let text = format!("step {step} starts: {}", shortened(&words::argv(argv)));
                        self.ours(at, Tone::Strong, text);
                    }
                    // Our own steps; their commands are long and say nothing to the reader.
                    StepKind::Finish => {
                        let text = "committing in the cage what the agent left uncommitted";
                        self.ours(at, Tone::Plain, text.into());
                    }
                    StepKind::Harvest => {
                        self.ours(at, Tone::Plain, "collecting the commits".into());
                    }
                }
                self.steps.insert(step, *what);
            }
            EventKind::StepEnded { result, millis } => {
                let step = self.step(event);
                let is_ours = matches!(
                    self.steps.get(&step),
                    Some(StepKind::Finish | StepKind::Harvest)
                );
                if is_ours && result.is_success() {
                    return;
                }
                let tone = if result.is_success() {
                    Tone::Good
                } else {
                    Tone::Bad
                };
                let how = words::step_result(result, *millis);
                self.ours(at, tone, format!("step {step} {how}"));
            }
            EventKind::ShellOpened {
                by, argv, terminal, ..
            } => {
                let by = sanitize_line(by);
                let how = if *terminal { " on a terminal" } else { "" };
                let what = shortened(&words::argv(argv));
                self.ours(
                    at,
                    Tone::Strong,
                    format!("shell of {by} opens{how}: {what}"),
                );
            }
            EventKind::ShellEnded { result, millis, .. } => {
                let how = words::step_result(result, *millis);
                self.ours(at, Tone::Plain, format!("shell {how}"));
            }
            EventKind::PortOpened {
                port,
                to,
                by,
                listening,
            } => {
                let by = sanitize_line(by);
                let yet = if *listening {
                    ""
                } else {
                    "; nothing listens there yet"
                };
                self.ours(
                    at,
                    Tone::Strong,
                    format!("port {port} published by {by} at http://127.0.0.1:{to}/{yet}"),
                );
            }
            EventKind::PortClosed {
                port,
                connections,
                sent,
                received,
                ..
            } => {
                let traffic = format!(
                    "{}, sent {}, received {}",
                    words::count(*connections, "connection"),
                    words::bytes(*sent),
                    words::bytes(*received)
                );
                self.ours(at, Tone::Plain, format!("port {port} closed: {traffic}"));
            }
            // What its driver understood of them has lines of its own.
            EventKind::Output {
                stream: LogStream::Received | LogStream::Sent,
                ..
            } => {}
            EventKind::Output { stream, text, .. } => self.output(*stream, text),
            EventKind::Agent { event } => self.agent(at, event),
            EventKind::NameLookedUp { name } => {
                let name = sanitize_line(name);
                self.ours(
                    at,
                    Tone::Dim,
                    format!("name looked up: {name} (nothing left the cage)"),
                );
            }
            EventKind::Egress {
                subject,
                verdict,
                count,
            } => {
                let subject = sanitize_line(&subject.to_string());
                self.egress(at, &subject, verdict, *count);
            }
            EventKind::ConnectionClosed {
                subject,
                sent,
                received,
                millis,
                cut,
            } => {
                let how = if *cut { "cut" } else { "closed" };
                let subject = sanitize_line(&subject.to_string());
                let text = format!(
                    "{how}: {subject}, sent {}, received {}, open {}",
                    words::bytes(*sent),
                    words::bytes(*received),
                    words::duration(*millis)
                );
                self.ours(at, if *cut { Tone::Warn } else { Tone::Dim }, text);
            }
            EventKind::File {
                subject,
                verdict,
                count,
            } => {
                let subject = sanitize_line(&subject.to_string());
                self.egress(at, &subject, verdict, *count);
            }
            EventKind::Exec {
                program,
                cwd,
                count,
                ..
            } => {
                let argv = event
                    .process
                    .as_ref()
                    .map(|process| words::argv(&process.argv));
                let what = argv
                    .filter(|argv| !argv.is_empty())
                    .unwrap_or_else(|| sanitize_line(program.as_str()));
                let mut text = format!("runs: {}", shortened(&what));
                // A run's worktree is named after it; that a program runs there is no news.
                if !Path::new(cwd.as_str()).ends_with(event.run.as_str()) {
                    text = format!("{text} (in {})", sanitize_line(cwd.as_str()));
                }
                self.counted(at, Tone::Dim, text, *count);
            }
            // That a program ended well is no news; its step says the rest.
            EventKind::Exit {
                code: Some(0) | None,
                signal: None,
                ..
            } => {}
            EventKind::Exit {
                program,
                code,
                signal,
                millis,
                count,
            } => {
                let program = program.as_ref().map_or("a program", |path| path.as_str());
                let how = match (code, signal) {
                    (_, Some(signal)) => format!("was ended by signal {signal}"),
                    (code, None) => format!("ended with code {}", code.unwrap_or_default()),
                };
                let text = format!(
                    "{} {how} after {}",
                    sanitize_line(program),
                    words::duration(*millis)
                );
                self.counted(at, Tone::Dim, text, *count);
            }
            EventKind::Block { block } => self.block(at, block),
            EventKind::Amendment { amendment } => self.amendment(at, amendment),
            EventKind::PolicyApplied {
                revision,
                released,
                refused,
                cut,
            } => {
                let mut text = format!("rules in force: revision {revision}");
                for (figure, one, what) in [
                    (released, "action", "let go"),
                    (refused, "action", "refused"),
                    (cut, "connection", "cut"),
                ] {
                    if *figure > 0 {
                        let figure = words::count(u64::from(*figure), one);
                        text.push_str(&format!(", {figure} {what}"));
                    }
                }
                self.ours(at, Tone::Dim, text);
            }
            EventKind::Bound {
                bound,
                figure,
                limit,
                reached,
            } => {
                let (tone, how) = match reached {
                    true => (Tone::Bad, "bound reached"),
                    false => (Tone::Warn, "bound is near"),
                };
                let [bound, figure, limit] = [bound, figure, limit].map(|text| sanitize_line(text));
                self.ours(at, tone, format!("{how}: {bound} {figure} of {limit}"));
            }
            EventKind::Commits {
                head,
                count,
                finished_by_us,
            } => {
                let commits = words::count(u64::from(*count), "commit");
                let mut text = format!("{commits} collected, tip {}", words::short(head));
                if *finished_by_us {
                    text.push_str("; the last one holds what the agent had left uncommitted");
                }
                self.ours(at, Tone::Good, text);
            }
            EventKind::Gap { count, reason, .. } => {
                let events = words::count(*count, "event");
                let text = format!("{events} not kept: {}", sanitize_line(reason));
                self.ours(at, Tone::Warn, text);
            }
        }
    }

    fn step(&self, event: &Event) -> String {
        event
            .step
            .as_ref()
            .map(|step| sanitize_line(&step.0))
            .unwrap_or_else(|| "?".into())
    }

    fn output(&mut self, stream: LogStream, text: &str) {
        let is_error = stream == LogStream::Stderr;
        let text = text.strip_suffix('\n').unwrap_or(text);
        // A terminal's chunk holds several lines; each gets the gutter.
        for line in text.split('\n') {
            let line = sanitize_line(line.strip_suffix('\r').unwrap_or(line));
            self.ready.push(Entry {
                body: Body::Cage {
                    is_error,
                    text: line,
                },
                count: 1,
            });
        }
    }

    fn egress(&mut self, at: At, subject: &str, verdict: &ConnectVerdict, count: u64) {
        let (tone, detail) = match verdict {
            ConnectVerdict::Allowed { rule } => (Tone::Dim, format!(" by {}", sanitize_line(rule))),
            // Its block says all of it.
            ConnectVerdict::Held { .. } => return,
            ConnectVerdict::Refused { why, .. } => (Tone::Bad, format!(": {}", sanitize_line(why))),
            ConnectVerdict::Unreachable { why } => {
                (Tone::Warn, format!(": {}", sanitize_line(why)))
            }
        };
        self.counted(
            at,
            tone,
            format!("{}: {subject}{detail}", words::verdict(verdict)),
            count,
        );
    }

    fn block(&mut self, at: At, block: &Block) {
        let before = self.blocks.insert(block.id.clone(), block.state.clone());
        if before.as_ref() == Some(&block.state) {
            return;
        }
        let subject = sanitize_line(&block.what());
        match &block.state {
            BlockState::Open => {
                let why = sanitize_line(&block.why);
                self.ours(at, Tone::Held, format!(" HELD {subject} "));
                if !self.has_cards {
                    if let Some(holder) = block.holders.first() {
                        let command = shortened(&words::argv(&holder.argv));
                        self.ours(
                            at,
                            Tone::Plain,
                            format!("by {command} (pid {})", holder.pid),
                        );
                    }
                    self.ours(at, Tone::Plain, format!("stopped: {why}"));
                    let id = &block.id;
                    let text = format!(
                        "it waits for you: `foreman amend {id}` lets it go on, `foreman deny {id}` refuses it"
                    );
                    self.ours(at, Tone::Warn, text);
                }
            }
            BlockState::Gone if block.asks() => {
                let id = &block.id;
                let text = format!(
                    "{subject}: more is refused to the run, which goes on; `foreman amend {id}` raises it for later runs"
                );
                self.ours(at, Tone::Warn, text);
            }
            BlockState::Gone => {
                self.ours(
                    at,
                    Tone::Dim,
                    format!("nobody waits any more for {subject}"),
                );
            }
            BlockState::Expired => {
                self.ours(
                    at,
                    Tone::Warn,
                    format!("expired without a decision: {subject}"),
                );
            }
            // A decision has a line of its own, and so has what is refused without one.
            BlockState::Amended { .. } | BlockState::Denied { .. } => {}
        }
    }

    fn amendment(&mut self, at: At, amendment: &Amendment) {
        let before = self
            .amendments
            .insert(amendment.id.to_string(), amendment.state);
        if before == Some(amendment.state) {
            return;
        }
        let words = sanitize_line(&amendment.words);
        let id = &amendment.id;
        match (amendment.state, &amendment.decision) {
            (AmendmentState::Active, Decision::Allow) => {
                self.ours(at, Tone::Good, format!("amended: {words} ({id})"));
            }
            (AmendmentState::Active, Decision::Deny { .. }) => {
                self.ours(at, Tone::Warn, format!("denied: {words} ({id})"));
            }
            (AmendmentState::Revoked, _) => {
                self.ours(at, Tone::Warn, format!("taken back: {words} ({id})"));
            }
            (AmendmentState::Lapsed, _) => {
                self.ours(at, Tone::Dim, format!("used up: {words} ({id})"));
            }
        }
    }
}

fn shortened(command: &str) -> String {
    crate::layout::fit(command, 200)
}

#[cfg(test)]
mod tests;
