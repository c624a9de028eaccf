//! The terminal as the live view uses it: the feed with its panel, or lent to the agent, or our
//! clean screen over the agent's.
//!
//! | mode | keys go to | shown |
//! |---|---|---|
//! | Feed | the panel | feed, and the panel below it |
//! | Lent | the agent, but for Ctrl-] | the agent's own bytes |
//! | Over | the panel | a cleared screen with the panel; the agent's bytes wait |

use crate::feed::{Entry, Feed};
use crate::lent::Lent;
use crate::paint::{Paint, Tone};
use crate::panel::Panel;
use crate::screen::Screen;
use crate::terminal::{Guard, LEAVE_FULL_SCREEN, PLAIN, size};
use foreman_domain::At;
use std::collections::VecDeque;
use std::io::{self, Write};

/// Most of the agent's bytes that wait while our screen is over them; then no more are fetched.
const WAITING: usize = 4 << 20;

/// Entries of the feed that can be drawn anew.
const RECENT: usize = 200;

/// Who has the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The feed.
    Feed,
    /// The agent.
    Lent,
    /// Our screen over the agent's.
    Over,
}

/// Draws on the terminal.
#[derive(Debug)]
pub struct Display {
    mode: Mode,
    guard: Guard,
    screen: Screen,
    paint: Paint,
    lent: Lent,
    waiting: Vec<u8>,
    recent: VecDeque<Entry>,
    columns: u16,
}

impl Display {
    /// Takes the terminal, in feed mode.
    ///
    /// # Errors
    /// When there is none.
    pub fn new(paint: Paint) -> io::Result<Self> {
        Ok(Self {
            mode: Mode::Feed,
            guard: Guard::raw()?,
            screen: Screen::default(),
            paint,
            lent: Lent::default(),
            waiting: vec![],
            recent: VecDeque::new(),
            columns: size().0,
        })
    }

    /// Who has the terminal.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether the agent shows a full screen, which ours has overwritten.
    #[must_use]
    pub fn is_lent_full_screen(&self) -> bool {
        self.lent.is_full_screen()
    }

    /// True while more of the agent's bytes may be fetched.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.waiting.len() < WAITING
    }

    /// Draws what is new of the feed, and the panel.
    ///
    /// # Errors
    /// When the terminal cannot be written.
    pub fn draw(&mut self, feed: &mut Feed, panel: &Panel) -> io::Result<()> {
        let (columns, rows) = size();
        let width = usize::from(columns);
        match self.mode {
            Mode::Feed => {
                let entries = feed.take();
                let draw = |entries: &mut dyn Iterator<Item = &Entry>| -> Vec<String> {
                    entries
                        .flat_map(|entry| feed.render(entry, Some(width), self.paint))
                        .collect()
                };
                let height = usize::from(rows).saturating_sub(2);
                let mut panel = panel.lines(width, height, self.paint);
                if !panel.is_empty() {
                    panel.insert(0, String::new());
                }
                let is_narrower = columns < self.columns;
                self.columns = columns;
                let lines = draw(&mut entries.iter());
                self.recent.extend(entries);
                let surplus = self.recent.len().saturating_sub(RECENT);
                self.recent.drain(..surplus);
                if is_narrower {
                    let lines = draw(&mut self.recent.iter());
                    return self.screen.again(&lines, &panel, (columns, rows));
                }
                self.screen.print(&lines, &panel, columns)
            }
            // The feed has nothing to say over an agent's screen; `foreman events` keeps it all.
            Mode::Lent => {
                drop(feed.take());
                Ok(())
            }
            Mode::Over => {
                let mut text = String::from("\u{1b}[2J\u{1b}[H");
                let mut lines = vec![self.paint.paint(
                    Tone::Strong,
                    "Foreman. The agent's output is paused, and your keys come here.",
                )];
                lines.push(String::new());
                let shown = panel.lines(width, usize::from(rows).saturating_sub(7), self.paint);
                if panel.open_count() == 0 {
                    lines.push("Nothing is held.".into());
                }
                lines.extend(shown);
                lines.push(String::new());
                for (key, what) in [
                    ("Esc", "back to the agent"),
                    ("Ctrl-]", "send Ctrl-] to it"),
                    ("s", "stop the run"),
                    ("q", "leave it running"),
                ] {
                    lines.push(format!("{:<8}{what}", key));
                }
                lines.truncate(usize::from(rows));
                text.push_str(&lines.join("\r\n"));
                self.write(text.as_bytes())
            }
        }
    }

    /// Gives the terminal to the agent.
    ///
    /// # Errors
    /// When the terminal cannot be written.
    pub fn lend(&mut self) -> io::Result<()> {
        if self.mode != Mode::Feed {
            return Ok(());
        }
        self.screen.print(&[], &[], size().0)?;
        self.guard.lent();
        self.mode = Mode::Lent;
        // The window's title is put aside as well.
        self.write(b"\x1b[22;0t\x1b[?7h\x1b[?25h")
    }

    /// Takes it back, whatever state the agent left it in.
    ///
    /// # Errors
    /// When the terminal cannot be written.
    pub fn take_back(&mut self) -> io::Result<()> {
        if self.mode == Mode::Over {
            self.back_to_agent()?;
        }
        if self.mode == Mode::Lent {
            self.mode = Mode::Feed;
            if self.lent.is_full_screen() {
                self.write(LEAVE_FULL_SCREEN.as_bytes())?;
            }
            self.lent = Lent::default();
            self.columns = size().0;
            self.guard.full_screen(false);
            self.write(PLAIN.as_bytes())?;
            self.write(b"\x1b[23;0t\r\n")?;
        }
        Ok(())
    }

    /// The agent's bytes: to the terminal, or behind our screen.
    ///
    /// # Errors
    /// When the terminal cannot be written.
    pub fn agent_wrote(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.mode == Mode::Over {
            self.waiting.extend_from_slice(bytes);
            return Ok(());
        }
        self.lent.follow(bytes);
        self.guard.full_screen(self.lent.is_full_screen());
        self.write(bytes)
    }

    /// Puts our screen over the agent's.
    ///
    /// # Errors
    /// When the terminal cannot be written.
    pub fn come_between(&mut self) -> io::Result<()> {
        if self.mode == Mode::Lent {
            self.mode = Mode::Over;
            self.guard.full_screen(true);
            self.write(b"\x1b[?1049h")?;
            // The agent must not have left a character set, an origin or a margin that changes what
            // our screen says.
            self.write(PLAIN.as_bytes())?;
            self.write(b"\x1b[?6l\x1b[?7l\x1b[?25l")?;
        }
        Ok(())
    }

    /// Takes our screen away. The agent must then be made to draw its own anew.
    ///
    /// # Errors
    /// When the terminal cannot be written.
    pub fn back_to_agent(&mut self) -> io::Result<()> {
        if self.mode == Mode::Over {
            self.mode = Mode::Lent;
            self.write(PLAIN.as_bytes())?;
            self.write(LEAVE_FULL_SCREEN.as_bytes())?;
            self.guard.full_screen(self.lent.is_full_screen());
            let again = self.lent.again();
            self.write(again.as_bytes())?;
            let waiting = std::mem::take(&mut self.waiting);
            self.agent_wrote(&waiting)?;
        }
        Ok(())
    }

    /// Says by bell and window title that something is held, or that nothing is any more.
    ///
    /// # Errors
    /// When the terminal cannot be written.
    pub fn announce(&mut self, held: usize, is_new: bool) -> io::Result<()> {
        if self.mode != Mode::Lent {
            return Ok(());
        }
        let title = match held {
            0 => "foreman".to_owned(),
            1 => "1 held: press Ctrl-] (foreman)".to_owned(),
            held => format!("{held} held: press Ctrl-] (foreman)"),
        };
        let bell = if is_new && held > 0 { "\u{7}" } else { "" };
        self.write(format!("\u{1b}]0;{title}\u{1b}\\{bell}").as_bytes())
    }

    /// Ends the feed: no panel, the cursor on a line of its own.
    ///
    /// # Errors
    /// When the terminal cannot be written.
    pub fn finish(&mut self, feed: &mut Feed) -> io::Result<()> {
        self.take_back()?;
        self.draw(feed, &Panel::new(false))
    }

    /// A line of ours in the feed.
    pub fn note(&self, feed: &mut Feed, tone: Tone, text: &str) {
        feed.note(At::now(), tone, text);
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()
    }
}
