//! What is in the menu: pure, over what is known of the engine.

use crate::notice::short;
use foreman_domain::BlockId;

/// The most blocks that are listed.
const BLOCKS: usize = 3;
/// Longest entry, in characters.
const LONGEST: usize = 60;

/// What the menu shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Picture {
    /// Open blocks.
    pub needs_you: usize,
    /// Runs that are at work.
    pub running: usize,
    /// The oldest open blocks, with words for each. Untrusted text.
    pub blocks: Vec<(BlockId, String)>,
    /// True when the queue is paused.
    pub paused: bool,
    /// True while the demo's engine answers.
    pub demo: bool,
    /// Why no engine answers. The rest is as it was last known.
    pub down: Option<String>,
}

/// One line of the menu.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// Says something.
    Words(String),
    /// Does something.
    Choice {
        /// What.
        choice: Choice,
        /// What it is called.
        text: String,
    },
    /// A line.
    Separator,
}

/// What can be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// Open a card.
    Block(BlockId),
    /// Open the inbox.
    Inbox,
    /// Show the window.
    Open,
    /// Start nothing from the queue.
    Pause,
    /// Start what waits again.
    Resume,
    /// End the app, and let its runs go on.
    QuitAndKeep,
    /// End the app and its runs.
    QuitAndStop,
}

impl Choice {
    /// Its name in the menu.
    #[must_use]
    pub fn id(&self) -> String {
        match self {
            Self::Block(id) => format!("block:{id}"),
            Self::Inbox => "inbox".into(),
            Self::Open => "open".into(),
            Self::Pause => "pause".into(),
            Self::Resume => "resume".into(),
            Self::QuitAndKeep => "quit-keep".into(),
            Self::QuitAndStop => "quit-stop".into(),
        }
    }

    /// The choice of this name.
    #[must_use]
    pub fn of_id(id: &str) -> Option<Self> {
        match id {
            "inbox" => Some(Self::Inbox),
            "open" => Some(Self::Open),
            "pause" => Some(Self::Pause),
            "resume" => Some(Self::Resume),
            "quit-keep" => Some(Self::QuitAndKeep),
            "quit-stop" => Some(Self::QuitAndStop),
            other => other.strip_prefix("block:")?.parse().ok().map(Self::Block),
        }
    }
}

/// The lines of the menu.
#[must_use]
pub fn entries(picture: &Picture) -> Vec<Entry> {
    let entry = |choice, text: &str| Entry::Choice {
        choice,
        text: text.to_owned(),
    };
    let mut all = Vec::new();
    if picture.demo {
        all.push(Entry::Words("Demo".into()));
    }
    match &picture.down {
        Some(why) => all.push(Entry::Words(short(why, LONGEST))),
        None => {
            all.push(entry(
                Choice::Inbox,
                &format!("Needs you: {}", picture.needs_you),
            ));
            all.push(entry(
                Choice::Open,
                &format!("Running: {}", picture.running),
            ));
            if !picture.blocks.is_empty() {
                all.push(Entry::Separator);
            }
            for (id, words) in picture.blocks.iter().take(BLOCKS) {
                all.push(entry(Choice::Block(id.clone()), &short(words, LONGEST)));
            }
            all.push(Entry::Separator);
            all.push(match picture.paused {
                false => entry(Choice::Pause, "Pause the queue"),
                true => entry(Choice::Resume, "Resume the queue"),
            });
        }
    }
    all.push(entry(Choice::Open, "Open SDF"));
    all.push(Entry::Separator);
    all.push(entry(Choice::QuitAndKeep, "Quit, and keep runs going"));
    all.push(entry(Choice::QuitAndStop, "Quit, and stop runs"));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use foreman_domain::RunId;

    fn texts(picture: &Picture) -> Vec<String> {
        entries(picture)
            .into_iter()
            .map(|entry| match entry {
                Entry::Words(text) => format!("({text})"),
                Entry::Choice { choice, text } => format!("{}: {text}", choice.id()),
                Entry::Separator => "-".into(),
            })
            .collect()
    }

    fn block(number: u32) -> (BlockId, String) {
        let id = BlockId::new(RunId::from_random(0), number);
        (id, format!("fix it: host{number}.example:443"))
    }

    #[test]
    fn with_nothing_to_do_it_says_so() {
        assert_eq!(
            texts(&Picture::default()),
            [
                "inbox: Needs you: 0",
                "open: Running: 0",
                "-",
                "pause: Pause the queue",
                "open: Open SDF",
                "-",
                "quit-keep: Quit, and keep runs going",
                "quit-stop: Quit, and stop runs",
            ]
        );
    }

    #[test]
    fn the_top_three_blocks_are_in_it() {
        let picture = Picture {
            needs_you: 4,
            running: 2,
            blocks: (1..=4).map(block).collect(),
            paused: true,
            ..Picture::default()
        };
        let all = texts(&picture);
        assert_eq!(all[0], "inbox: Needs you: 4");
        assert_eq!(all[3], "block:rbbbbbbb-b1: fix it: host1.example:443");
        assert_eq!(
            all.iter().filter(|text| text.starts_with("block:")).count(),
            3
        );
        assert!(all.contains(&"resume: Resume the queue".to_owned()));
    }

    #[test]
    fn without_an_engine_it_says_why_and_can_still_be_left() {
        let picture = Picture {
            down: Some("a\u{202e}b".into()),
            ..Picture::default()
        };
        let all = texts(&picture);
        assert!(
            all[0].starts_with("(a") && !all[0].contains('\u{202e}'),
            "{}",
            all[0]
        );
        assert!(all.iter().any(|text| text.starts_with("quit-keep")));
    }

    #[test]
    fn what_is_chosen_is_known_by_its_name() {
        let all = [
            Choice::Block(block(3).0),
            Choice::Inbox,
            Choice::Open,
            Choice::Pause,
            Choice::Resume,
            Choice::QuitAndKeep,
            Choice::QuitAndStop,
        ];
        for choice in all {
            assert_eq!(Choice::of_id(&choice.id()), Some(choice));
        }
        assert_eq!(Choice::of_id("block:../x"), None);
    }
}
