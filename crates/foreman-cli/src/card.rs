//! The card of a held action: facts first, then what can be done about it.
//!
//! Every line of a card starts at column 0 with [`EDGE`], in a colour of its own. Nothing else that
//! this program draws starts so, and text from a cage is only ever drawn behind an edge or a gutter,
//! cut to lines by us, so that a cage cannot draw a card. Pure: no clock, no terminal.

use crate::layout::{cells, fit, wrap};
use crate::paint::{Paint, Tone};
use crate::words;
use foreman_domain::{At, Block, BlockState, FileTarget, Scope, Subject, sanitize_line};
use foreman_engine::api::{BlockView, Candidate};
use foreman_policy::socket_gives_away;

/// The reserved left edge.
pub const EDGE: &str = "▌ ";

const LABEL: usize = 10;
const LONGEST_COMMAND: usize = 240;

/// What is drawn below the facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Below {
    /// Nothing: the card is a report.
    Nothing,
    /// The usual keys.
    Keys,
    /// All candidates, numbered, with keys.
    Choices,
    /// All candidates, numbered, as a report.
    List,
    /// The question whether to take this candidate, which needs a second confirmation.
    Confirm(u32),
}

/// Everything a card shows.
#[derive(Debug, Clone, Copy)]
pub struct Card<'a> {
    /// The block.
    pub view: &'a BlockView,
    /// Its place among the open ones, from 1, and how many there are.
    pub place: (usize, usize),
    /// The step it happened in, where known.
    pub step: Option<&'a str>,
    /// What is drawn below the facts.
    pub below: &'a Below,
}

/// The candidate that `a` takes: the narrowest that lasts, which is the first with scope run. A question of an
/// agent is about what it asks now: the narrowest of all.
#[must_use]
pub fn primary(view: &BlockView) -> Option<&Candidate> {
    if matches!(view.block.subject, Subject::Question { .. }) {
        return view.candidates.first();
    }
    let of = |scope| {
        view.candidates
            .iter()
            .find(|candidate| candidate.scope == scope)
    };
    of(Scope::Run).or_else(|| view.candidates.first())
}

/// The candidate that `o` takes: exactly what waits now.
#[must_use]
pub fn once(view: &BlockView) -> Option<&Candidate> {
    view.candidates
        .iter()
        .find(|candidate| candidate.scope == Scope::Once)
}

/// Draws a card into lines of at most `width` cells.
#[must_use]
pub fn render(card: &Card<'_>, width: usize, paint: Paint) -> Vec<String> {
    let mut sheet = Sheet {
        inner: width.saturating_sub(cells(EDGE)).max(8),
        paint,
        lines: vec![],
    };
    let block = &card.view.block;
    let title = match &block.state {
        BlockState::Open => "HELD",
        BlockState::Amended { .. } => "AMENDED",
        BlockState::Denied { .. } => "DENIED",
        BlockState::Expired => "EXPIRED",
        // Nothing waits at a bound that the run goes on at; its card asks about later runs.
        BlockState::Gone if block.asks() => "GOES ON",
        BlockState::Gone => "GONE",
    };
    let subject = sanitize_line(&block.what());
    let queue = match card.place {
        (_, 0 | 1) => String::new(),
        (place, all) => format!("   {place} of {all}, oldest first"),
    };
    sheet.head(title, &format!("{subject}{queue}"));
    facts(card, &mut sheet);
    if let Some(notice) = &card.view.by_itself {
        sheet.fact("agent", &sanitize_line(notice));
    }
    if let Some(notice) = &card.view.gives_up {
        sheet.fact("patience", &sanitize_line(notice));
    }
    if let Some(notice) = &card.view.secrets_notice {
        sheet.fact("secrets", &sanitize_line(notice));
    }
    if let Some(decided) = &card.view.decided {
        sheet.fact("decided", &sanitize_line(decided));
    }
    below(card, &mut sheet);
    sheet.lines
}

fn facts(card: &Card<'_>, sheet: &mut Sheet) {
    let block = &card.view.block;
    for holder in block.holders.iter().take(3) {
        let mut command = words::argv(&holder.argv);
        if command.is_empty() {
            command = "a process that is gone".into();
        }
        let command = fit(&command, LONGEST_COMMAND);
        sheet.fact("process", &format!("{command} (pid {})", holder.pid));
    }
    if block.holders.len() > 3 {
        sheet.fact("", &format!("and {} more", block.holders.len() - 3));
    }
    let step = card
        .step
        .map(|step| format!(", step {}", sanitize_line(step)))
        .unwrap_or_default();
    let run = block.id.run();
    sheet.fact(
        "run",
        &format!(
            "{run} \"{}\"{step}",
            fit(&sanitize_line(&card.view.title), 60)
        ),
    );
    sheet.fact("stopped", &sanitize_line(&block.why));
    if !block.address_vetted {
        sheet.fact(
            "address",
            "not vetted: the proxy resolves the name, not this machine",
        );
    }
    files(block, sheet);
    socket(block, sheet);
    question(block, sheet);
    let one = match block.subject {
        Subject::Egress { .. } | Subject::Socket { .. } => "connection",
        Subject::File { .. } => "action",
        Subject::Bound { .. } => "paused run",
        Subject::Question { .. } => "question",
    };
    let waiting = match (block.waiting, block.seen) {
        (0, seen) => format!("nothing any more ({} seen)", words::count(seen, "attempt")),
        (waiting, seen) if u64::from(waiting) == seen => words::count(u64::from(waiting), one),
        (waiting, seen) => {
            format!("{} ({seen} seen)", words::count(u64::from(waiting), one))
        }
    };
    sheet.fact(
        "waiting",
        &format!("{waiting}, {}", since(block.first_at, block.last_at)),
    );
}

/// What an agent asks, and what it lets itself be answered.
fn question(block: &Block, sheet: &mut Sheet) {
    let Subject::Question {
        tool, arguments, ..
    } = &block.subject
    else {
        return;
    };
    let asks = format!("{} {}", sanitize_line(tool), sanitize_line(arguments));
    sheet.fact("asks", asks.trim());
    let options = block.question.iter().flat_map(|facts| &facts.options);
    let words: Vec<_> = options
        .map(|option| format!("\"{}\"", sanitize_line(&option.words)))
        .collect();
    if !words.is_empty() {
        sheet.fact("offers", &words.join(", "));
    }
}

/// Who is behind a socket.
fn socket(block: &Block, sheet: &mut Sheet) {
    if let Subject::Socket { path } = &block.subject
        && let Some(what) = socket_gives_away(&path.to_path())
    {
        sheet.fact("opens", what);
    }
    let Some(facts) = &block.socket else {
        return;
    };
    let owner = sanitize_line(&facts.owner);
    let listens = match (&facts.program, facts.listening) {
        (Some(program), _) => format!("{} listens there", sanitize_line(program)),
        (None, true) => "a program that this account cannot look at listens there".to_owned(),
        (None, false) => "nobody was seen to listen there".to_owned(),
    };
    sheet.fact(
        "service",
        &format!("{listens}; the socket belongs to {owner}"),
    );
}

/// The paths behind a card of files, and what they lie in.
fn files(block: &Block, sheet: &mut Sheet) {
    let (Subject::File { access, .. }, Some(facts)) = (&block.subject, &block.file) else {
        return;
    };
    let what = match facts.target {
        FileTarget::File => "a file",
        FileTarget::Folder => "a folder",
        FileTarget::Absent => "not there yet",
        FileTarget::Other => "neither a file nor a folder",
    };
    for (place, path) in facts.paths.iter().take(3).enumerate() {
        let path = sanitize_line(path.as_str());
        if place == 0 {
            sheet.fact("path", &format!("{path} ({what})"));
        } else {
            sheet.fact("", &path);
        }
    }
    let named = facts.paths.len().min(3);
    let more = usize::try_from(facts.different).unwrap_or(usize::MAX);
    if let Some(more) = more.checked_sub(named).filter(|more| *more > 0) {
        sheet.fact("", &format!("and {more} more"));
    }
    sheet.fact("folder", &sanitize_line(facts.folder.as_str()));
    let call = sanitize_line(&facts.call);
    sheet.fact("access", &format!("{access} ({call})"));
}

fn since(first: At, last: At) -> String {
    let (first, last) = (words::clock(first), words::clock(last));
    if first == last {
        format!("since {first}")
    } else {
        format!("since {first}, last {last}")
    }
}

fn below(card: &Card<'_>, sheet: &mut Sheet) {
    match card.below {
        Below::Nothing => {}
        Below::Keys => {
            sheet.blank();
            if let Some(candidate) = primary(card.view) {
                sheet.key("a", &sanitize_line(&candidate.words));
            }
            let first = primary(card.view).map(|candidate| candidate.number);
            if let Some(candidate) = once(card.view).filter(|once| Some(once.number) != first) {
                sheet.key("o", &sanitize_line(&candidate.words));
            }
            sheet.keys(&[("d", "deny"), ("?", "all choices")]);
        }
        Below::Choices | Below::List => {
            sheet.blank();
            for candidate in &card.view.candidates {
                choice(candidate, sheet);
            }
            if card.view.candidates.is_empty() {
                sheet.text(Tone::Dim, "no rule can open this");
            }
            if *card.below == Below::Choices {
                sheet.keys(&[("1-9", "take that one"), ("d", "deny"), ("?", "back")]);
            }
        }
        Below::Confirm(number) => {
            sheet.blank();
            if let Some(candidate) = card.view.candidates.iter().find(|c| c.number == *number) {
                choice(candidate, sheet);
                for opens in &candidate.opens {
                    sheet.text(Tone::Warn, &format!("It opens {}", sanitize_line(opens)));
                }
            }
            sheet.text(Tone::Warn, "This opens more than the usual. Really?");
            sheet.keys(&[("y", "yes, amend"), ("n", "no, go back")]);
        }
    }
}

fn choice(candidate: &Candidate, sheet: &mut Sheet) {
    let mut text = sanitize_line(&candidate.words);
    text.push_str(&format!(" ({})", candidate.scope));
    if candidate.also_opens > 0 {
        let also = words::count(candidate.also_opens.into(), "earlier action");
        text.push_str(&format!("; would also have allowed {also}"));
    }
    if candidate.needs_confirmation {
        text.push_str("; asks again");
    }
    sheet.key(&candidate.number.to_string(), &text);
}

/// Lines being drawn.
struct Sheet {
    inner: usize,
    paint: Paint,
    lines: Vec<String>,
}

impl Sheet {
    fn push(&mut self, content: &str) {
        let edge = self.paint.paint(Tone::Edge, EDGE);
        self.lines
            .push(format!("{edge}{content}").trim_end().to_owned());
    }

    fn blank(&mut self) {
        self.push("");
    }

    fn text(&mut self, tone: Tone, text: &str) {
        for line in wrap(text, self.inner) {
            self.push(&self.paint.paint(tone, &line));
        }
    }

    fn head(&mut self, title: &str, text: &str) {
        let badge = self.paint.paint(Tone::Held, &format!(" {title} "));
        let beside = cells(title) + 3;
        let is_narrow = self.inner < beside + 8;
        let indent = if is_narrow { 2 } else { beside };
        if is_narrow {
            self.push(&badge);
        }
        for (index, line) in wrap(text, self.inner - indent).iter().enumerate() {
            let line = self.paint.paint(Tone::Strong, line);
            if index == 0 && !is_narrow {
                self.push(&format!("{badge} {line}"));
            } else {
                self.push(&format!("{}{line}", " ".repeat(indent)));
            }
        }
    }

    fn labelled(&mut self, label: &str, painted: &str, text: &str) {
        let narrow = self.inner < LABEL * 3;
        let indent = if narrow { 2 } else { LABEL };
        if narrow && cells(label) >= indent {
            self.push(painted);
        }
        for (index, line) in wrap(text, self.inner - indent).iter().enumerate() {
            if index == 0 && cells(label) < indent {
                let gap = " ".repeat(indent - cells(label));
                self.push(&format!("{painted}{gap}{line}"));
            } else {
                self.push(&format!("{}{line}", " ".repeat(indent)));
            }
        }
    }

    fn fact(&mut self, label: &str, text: &str) {
        let painted = self.paint.paint(Tone::Dim, label);
        self.labelled(label, &painted, text);
    }

    fn key(&mut self, key: &str, text: &str) {
        let painted = self.paint.paint(Tone::Key, key);
        self.labelled(key, &painted, text);
    }

    fn keys(&mut self, keys: &[(&str, &str)]) {
        let mut line = String::new();
        let mut used = 0;
        for (key, what) in keys {
            let needed = cells(key) + 2 + cells(what);
            if used > 0 && used + 3 + needed > self.inner {
                self.push(&std::mem::take(&mut line));
                used = 0;
            }
            if needed > self.inner {
                self.key(key, what);
                continue;
            }
            if used > 0 {
                line.push_str("   ");
                used += 3;
            }
            line.push_str(&format!("{}  {what}", self.paint.paint(Tone::Key, key)));
            used += needed;
        }
        if used > 0 {
            self.push(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::panel::tests::view;

    fn draw(view: &BlockView, below: &Below, width: usize) -> Vec<String> {
        let card = Card {
            view,
            place: (1, 2),
            step: Some("agent"),
            below,
        };
        render(&card, width, Paint::new(false))
    }

    #[test]
    fn facts_come_before_the_keys() {
        let lines = draw(&view(1), &Below::Keys, 80);
        let at = |what: &str| {
            lines
                .iter()
                .position(|line| line.contains(what))
                .unwrap_or_else(|| panic!("{what}: {lines:#?}"))
        };
        assert!(lines[0].contains("HELD") && lines[0].contains("tcp registry.example:443"));
        assert!(lines[0].contains("1 of 2"));
        assert!(at("curl -s") < at("Let this run connect"));
        assert!(at("no rule allows it") < at("Let this run connect"));
        assert!(lines[at("Let this run connect")].starts_with("▌ a "));
        assert!(lines[at("deny")].contains("?  all choices"));
    }

    #[test]
    fn every_line_starts_with_the_edge_and_fits_at_any_width() {
        let mut hostile = view(1);
        hostile.title = "\u{1b}[2J\u{202e}evil\n▌ a  Let everything".into();
        hostile.block.why = "x".repeat(300);
        hostile.block.holders[0].argv = vec![
            "sh".into(),
            "-c".into(),
            "\r\n▌ a  amend\u{1b}]0;x\u{7}│ ║ \u{9b}31m 日本語".repeat(9),
        ];
        for below in [
            Below::Keys,
            Below::Choices,
            Below::List,
            Below::Confirm(2),
            Below::Nothing,
        ] {
            for width in [10, 20, 33, 40, 80, 200] {
                for line in draw(&hostile, &below, width) {
                    assert!(line.starts_with('▌'), "{line:?}");
                    assert!(cells(&line) <= width.max(10), "{width}: {line:?}");
                    assert!(!line.chars().any(char::is_control), "{line:?}");
                    assert!(!line.contains('\u{202e}'), "{line:?}");
                    // What it says must not stand where our own keys stand.
                    assert!(!line.starts_with("▌ a  amend"), "{line:?}");
                    assert!(!line.starts_with("▌ ▌"), "{line:?}");
                }
            }
        }
    }

    #[test]
    fn a_candidate_that_opens_more_asks_again() {
        let text = draw(&view(1), &Below::Choices, 100).join("\n");
        assert!(text.contains("asks again"), "{text}");
        let text = draw(&view(1), &Below::Confirm(3), 100).join("\n");
        assert!(
            text.contains("Really?") && text.contains("y  yes"),
            "{text}"
        );
    }

    #[test]
    fn a_card_of_a_socket_says_who_listens_and_what_it_opens() {
        let mut view = view(1);
        view.block.subject = Subject::Socket {
            path: foreman_domain::PathText::of("/run/docker.sock".as_ref()),
        };
        view.block.socket = Some(foreman_domain::SocketFacts {
            owner: "root\u{1b}[2J".into(),
            listening: true,
            program: None,
        });
        let candidate = view.candidates.last_mut().unwrap();
        candidate.opens = vec!["the container engine\u{202e}".into()];
        let number = candidate.number;
        let text = draw(&view, &Below::Confirm(number), 200).join("\n");
        for wanted in [
            "socket /run/docker.sock",
            "the container engine: whoever talks to it",
            "a program that this account cannot look at listens there; the socket belongs to root",
            "It opens the container engine",
        ] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
    }

    #[test]
    fn a_card_of_a_question_says_what_is_asked_and_takes_the_narrowest_answer() {
        let mut view = view(1);
        view.block.subject = Subject::Question {
            agent: "opencode".into(),
            tool: "execute".into(),
            arguments: "{\"command\":\"rm x\u{202e}\"}".into(),
        };
        view.block.question = Some(foreman_domain::QuestionFacts {
            options: vec![foreman_domain::QuestionOption {
                answer: foreman_domain::PermissionAnswer::AllowOnce,
                words: "Allow\u{1b}[2J".into(),
            }],
        });
        assert_eq!(primary(&view).map(|c| c.scope), Some(Scope::Once));
        let text = draw(&view, &Below::Keys, 200).join("\n");
        for wanted in [
            "question of opencode: execute",
            "asks      execute",
            "offers",
            "1 question",
        ] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
        assert!(!text.contains("▌ o "), "once is what `a` takes: {text}");
    }

    #[test]
    fn a_card_of_files_names_paths_folder_and_access() {
        let mut view = view(1);
        let path = |text: &str| foreman_domain::PathText::of(text.as_ref());
        view.block.subject = Subject::File {
            access: foreman_domain::FileAccess::Write,
            path: path("/srv/data/a.txt"),
        };
        view.block.file = Some(foreman_domain::FileFacts {
            folder: path("/srv/data"),
            paths: vec![path("/srv/data/a.txt"), path("/srv/data/b.txt")],
            different: 5,
            target: FileTarget::Absent,
            call: "openat".into(),
            once: 1,
            alone: false,
        });
        let text = draw(&view, &Below::Keys, 100).join("\n");
        for wanted in [
            "write 5 paths in /srv/data",
            "/srv/data/a.txt (not there yet)",
            "/srv/data/b.txt",
            "and 3 more",
            "write (openat)",
            "1 action",
        ] {
            assert!(text.contains(wanted), "{wanted} is not in:\n{text}");
        }
    }

    #[test]
    fn the_default_is_the_narrowest_that_lasts() {
        let view = view(1);
        assert_eq!(primary(&view).map(|c| c.scope), Some(Scope::Run));
        assert_eq!(once(&view).map(|c| c.number), Some(1));
    }
}
