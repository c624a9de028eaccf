//! What the desktop's own commands take and answer.

use foreman_domain::{BlockId, RunId};
use serde::{Deserialize, Serialize};

/// What this app is and what it finds around it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, specta::Type)]
pub struct AppInfo {
    /// Its version.
    pub version: String,
    /// True while this process is the engine; false while another one is, or none could be opened.
    pub hosting: bool,
    /// Where the engine keeps its data.
    pub data_dir: String,
    /// `linux`, `macos`, `windows`.
    pub platform: String,
    /// True when a panel shows this app's icon.
    pub tray: bool,
    /// True when somebody shows notifications.
    pub notifications: bool,
    /// True when links of the scheme `sdf` are opened by an app.
    pub deep_links: bool,
    /// What the operator should know, as sentences.
    pub warnings: Vec<String>,
}

/// Colours of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, specta::Type)]
#[serde(rename_all = "snake_case")]
pub enum Theme {
    /// As the desktop says.
    System,
    /// Dark.
    #[default]
    Dark,
    /// Light.
    Light,
}

/// What the operator set in the window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, specta::Type)]
pub struct Settings {
    /// Colours.
    pub theme: Theme,
    /// Whether held actions and ended runs are notified.
    pub notify: bool,
    /// Program that opens a worktree, by name or path; one that is found when absent.
    pub editor: Option<String>,
    /// Program that opens a terminal in a worktree, by name or path; one that is found when absent.
    pub terminal: Option<String>,
    /// Whether closing the window leaves the icon in the panel, where there is one.
    pub keep_in_tray: bool,
    /// Whether the first run was gone through or skipped.
    pub first_run_done: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            theme: Theme::default(),
            notify: true,
            editor: None,
            terminal: None,
            keep_in_tray: true,
            first_run_done: false,
        }
    }
}

/// Where the window is to go. It never decides anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, specta::Type)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Navigation {
    /// To a block's card.
    Block {
        /// Which.
        id: BlockId,
    },
    /// To a run.
    Run {
        /// Which.
        id: RunId,
    },
    /// To the inbox.
    Inbox {
        /// Why it is not what was asked for.
        sentence: Option<String>,
    },
    /// To a new work order's form, filled in. Nothing is handed in by it.
    Order {
        /// What stands in the form. Untrusted text.
        draft: LinkedOrder,
    },
    /// The window was closed, and there is no panel to leave an icon in: what is to become of the runs?
    QuitAsked {
        /// How many run.
        running: u32,
    },
}

/// What a link says of a new work order. Untrusted text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, specta::Type)]
pub struct LinkedOrder {
    /// Its title.
    pub title: Option<String>,
    /// What the agent is to do.
    pub prompt: Option<String>,
    /// An absolute path.
    pub repo: Option<String>,
}

/// The window is to go somewhere, now.
#[derive(
    Debug, Clone, PartialEq, Eq, Serialize, Deserialize, specta::Type, tauri_specta::Event,
)]
pub struct Navigate(pub Navigation);

/// With what a worktree is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, specta::Type)]
#[serde(rename_all = "snake_case")]
pub enum OpenWith {
    /// The operator's editor.
    Editor,
    /// A terminal.
    Terminal,
    /// The file browser.
    Files,
}

/// Open a run's worktree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, specta::Type)]
pub struct OpenWorktree {
    /// The run.
    pub run: RunId,
    /// With what.
    pub with: OpenWith,
    /// True when the operator has seen the flags and opens it all the same.
    pub confirmed: bool,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, specta::Type)]
pub struct Opened {
    /// True when a program was started.
    pub opened: bool,
    /// What the agent planted that an editor, a shell or a tool would load by itself. Untrusted text.
    pub flags: Vec<String>,
    /// What happened, or what to do, as a sentence.
    pub words: String,
}

/// The demo that is on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, specta::Type)]
pub struct DemoView {
    /// Its throw-away repository.
    pub repo: String,
    /// Its agent: program and arguments.
    pub argv: Vec<String>,
    /// The title of its order.
    pub title: String,
}

/// What becomes of runs when the app ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, specta::Type)]
#[serde(rename_all = "snake_case")]
pub enum RunsOnQuit {
    /// They go on, and what waits in the queue is started by a service that is left behind.
    Keep,
    /// They are stopped.
    Stop,
}

/// End the app.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, specta::Type)]
pub struct Quit {
    /// What becomes of the runs.
    pub runs: RunsOnQuit,
}
