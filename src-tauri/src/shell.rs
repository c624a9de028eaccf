//! What the window, the panel's icon, notifications and links share: one state, and the ways between
//! them. It knows no window system; that side is a [`Surface`].
//!
//! Nothing here decides about a block. A link, a notification and the panel's menu open a card.

mod links;
mod quit;

use crate::app::{AppInfo, Navigation};
use crate::bus::Bus;
use crate::demo::Demo;
use crate::engines::Engines;
use crate::link::Tokens;
use crate::navigations::Navigations;
use crate::notice::{Notice, Target};
use crate::settings::SettingsFile;
use crate::tray::menu::Picture;
use foreman_domain::{BlockId, Code, Failure, sanitize_line};
use foreman_engine::api::{Commands, QueuePause, Remote};
use futures::StreamExt;
use quit::Leaving;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The most notifications whose clicks are waited for; the oldest are forgotten first.
const MOST_SHOWN: usize = 64;
/// Longest wait for the program that knows who opens links.
const PATIENCE: Duration = Duration::from_secs(3);

/// The window and the icon in the panel.
pub trait Surface: Send + Sync {
    /// Tells the page where to go.
    fn tell(&self, to: &Navigation);
    /// Shows the window, in front.
    fn show(&self);
    /// Hides it.
    fn hide(&self);
    /// True while the operator is at the window.
    fn is_focused(&self) -> bool;
    /// Shows the icon's menu.
    fn paint(&self, picture: &Picture);
    /// Lets the operator choose a folder.
    ///
    /// # Errors
    /// Where there is no such dialog.
    fn choose_folder(&self, chosen: oneshot::Sender<Option<PathBuf>>) -> Result<(), Failure>;
    /// Ends the app.
    fn end(&self);
}

/// The state of the app.
pub struct Shell {
    /// Who answers commands.
    pub engines: Arc<Engines>,
    /// What the operator set.
    pub settings: SettingsFile,
    /// Where the window is to go.
    pub navigations: Navigations,
    /// The session bus.
    pub bus: Bus,
    /// Everything that goes on by itself. It ends with `cancel`.
    pub tasks: TaskTracker,
    /// The app ends.
    pub cancel: CancellationToken,
    /// Something is to be looked at before its time.
    pub nudge: Notify,
    /// Which blocks were notified.
    pub marks_file: PathBuf,
    pub(crate) demo: Mutex<Option<Demo>>,
    pub(crate) starting_demo: tokio::sync::Mutex<()>,
    surface: OnceLock<Box<dyn Surface>>,
    tokens: Mutex<Tokens>,
    shown: Mutex<Vec<(u32, Target)>>,
    has_icon: AtomicBool,
    leaving: Leaving,
}

impl Shell {
    /// The state of an app that keeps its own files in `folder`.
    #[must_use]
    pub fn new(engines: Engines, folder: &std::path::Path) -> Self {
        Self {
            engines: Arc::new(engines),
            settings: SettingsFile::new(folder.join("settings.json")),
            navigations: Navigations::default(),
            bus: Bus::default(),
            tasks: TaskTracker::new(),
            cancel: CancellationToken::new(),
            nudge: Notify::new(),
            marks_file: folder.join("notified"),
            demo: Mutex::default(),
            starting_demo: tokio::sync::Mutex::default(),
            surface: OnceLock::new(),
            tokens: Mutex::default(),
            shown: Mutex::default(),
            has_icon: AtomicBool::new(false),
            leaving: Leaving::default(),
        }
    }

    /// Gives it a window; only the first one counts.
    pub fn appear(&self, surface: Box<dyn Surface>) {
        // A second one would be an error of this program's and changes nothing.
        let _ = self.surface.set(surface);
    }

    /// Says whether there is an icon in the panel, where a panel shows it.
    pub fn has_icon(&self, has: bool) {
        self.has_icon.store(has, Ordering::Release);
    }

    pub(crate) fn surface(&self) -> Option<&dyn Surface> {
        self.surface.get().map(AsRef::as_ref)
    }

    /// Shows the window.
    pub fn show(&self) {
        if let Some(surface) = self.surface() {
            surface.show();
        }
    }

    /// Shows the window and lets it go somewhere.
    pub fn navigate(&self, to: Navigation) {
        if let Some(to) = self.navigations.add(to)
            && let Some(surface) = self.surface()
        {
            surface.tell(&to);
        }
        self.show();
    }

    /// Says something in the inbox.
    pub fn say(&self, sentence: impl Into<String>) {
        self.navigate(Navigation::Inbox {
            sentence: Some(sentence.into()),
        });
    }

    /// True when the icon is in a panel that shows it.
    pub async fn has_tray(&self) -> bool {
        self.has_icon.load(Ordering::Acquire) && self.bus.has_tray_host().await
    }

    /// What this app is and what it finds around it.
    pub async fn info(&self) -> AppInfo {
        let (tray, notifications, deep_links) =
            tokio::join!(self.has_tray(), self.bus.can_notify(), opens_links());
        let mut warnings = Vec::new();
        if !tray {
            warnings.push(
                "No panel shows an icon of this app, so closing its window ends it. Runs can be \
                 left going."
                    .to_owned(),
            );
        }
        if !notifications {
            warnings.push(
                "Nothing on this desktop shows notifications, so what is held is only seen in the \
                 window."
                    .to_owned(),
            );
        }
        if !deep_links {
            warnings.push(
                "Links of the form sdf:// are opened by no app. Installing the package of this app \
                 sets that up."
                    .to_owned(),
            );
        }
        AppInfo {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            hosting: self.engines.is_hosting(),
            data_dir: self
                .engines
                .data_dir()
                .map(|path| path.display().to_string())
                .unwrap_or_default(),
            platform: std::env::consts::OS.to_owned(),
            tray,
            notifications,
            deep_links,
            warnings,
        }
    }

    /// Lets the operator choose a folder.
    ///
    /// # Errors
    /// Where there is no such dialog.
    pub async fn choose_folder(&self) -> Result<Option<String>, Failure> {
        let (sender, chosen) = oneshot::channel();
        let surface = self.surface().ok_or_else(|| {
            Failure::new(
                Code::Environment,
                "there is no window to choose a folder in",
            )
        })?;
        surface.choose_folder(sender)?;
        let Some(path) = chosen.await.unwrap_or(None) else {
            return Ok(None);
        };
        path.into_os_string()
            .into_string()
            .map(Some)
            .map_err(|path| {
                let text = format!(
                    "{} is no path of valid UTF-8",
                    sanitize_line(&path.to_string_lossy())
                );
                Failure::new(Code::BadInput, text)
            })
    }

    /// Pauses the queue, or resumes it.
    pub async fn pause(&self, paused: bool) {
        let asked = async {
            let engine = Remote(self.engines.current().await?);
            engine.orders_pause(QueuePause { repo: None, paused }).await
        };
        match asked.await {
            Ok(_) => self.nudge.notify_one(),
            Err(failure) => self.say(format!(
                "The queue could not be {}: {}.",
                if paused { "paused" } else { "resumed" },
                failure.message
            )),
        }
    }

    /// Shows a notification, where somebody does; else it is only logged.
    pub async fn notify(&self, notice: Notice) {
        match self.bus.notify(&notice).await {
            Ok(number) => {
                let mut shown = lock(&self.shown);
                shown.retain(|(known, _)| *known != number);
                if shown.len() == MOST_SHOWN {
                    shown.remove(0);
                }
                shown.push((number, notice.target));
            }
            Err(error) => tracing::info!(%error, summary = %notice.summary, "not notified"),
        }
    }

    /// Follows clicks on notifications until the app ends.
    pub async fn follow_clicks(self: Arc<Self>) {
        let mut clicks = match self.bus.clicks().await {
            Ok(clicks) => clicks,
            Err(error) => {
                tracing::info!(%error, "clicks on notifications are not heard");
                return;
            }
        };
        loop {
            let number = tokio::select! {
                number = clicks.next() => number,
                () = self.cancel.cancelled() => return,
            };
            let Some(number) = number else {
                return;
            };
            let target = {
                let mut shown = lock(&self.shown);
                let place = shown.iter().position(|(known, _)| *known == number);
                place.map(|place| shown.remove(place).1)
            };
            if let Some(target) = target {
                self.follow(target).await;
            }
        }
    }

    /// Opens a card.
    pub async fn go_to_block(&self, id: BlockId) {
        self.follow(Target::Block(id)).await;
    }

    /// Goes where a click leads: for a card or a run by a link that is good for this one time.
    async fn follow(&self, target: Target) {
        let (place, id) = match target {
            Target::Block(id) => ("block", id.to_string()),
            Target::Run(id) => ("run", id.to_string()),
            Target::Inbox => return self.navigate(Navigation::Inbox { sentence: None }),
            Target::Window => return self.show(),
        };
        let token = lock(&self.tokens).give(&id, rand::random(), Instant::now());
        self.open_link(&format!("sdf://{place}/{id}?t={token}"))
            .await;
    }
}

/// True when links of our scheme are opened by an app.
async fn opens_links() -> bool {
    let asked = tokio::process::Command::new("xdg-mime")
        .args(["query", "default", "x-scheme-handler/sdf"])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    matches!(
        tokio::time::timeout(PATIENCE, asked).await,
        Ok(Ok(output)) if !output.stdout.trim_ascii().is_empty()
    )
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
