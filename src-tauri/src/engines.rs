//! Which engine answers: the operator's own, or the demo's while that is on.
//!
//! The operator's own is opened when it is first asked for, and again by the next call where that
//! failed (a newer database, an engine that does not answer): the failure is the answer of the call,
//! and the window stays. Callers that come while it is being opened share that attempt.

use foreman_domain::{Code, Failure};
use foreman_engine::api::Transport;
use foreman_engine::{Guest, Host, HostOptions};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::watch;

/// Commands that only wait for news. They end when another engine begins to answer.
const WAITING: &[&str] = &[
    "watch",
    "run.events",
    "run.samples",
    "run.shell.read",
    "merge.list",
];

/// Whoever answers now.
#[derive(Debug)]
pub struct Engines {
    options: Result<HostOptions, Failure>,
    own: tokio::sync::Mutex<Own>,
    /// The operator's own, for those who do not want to wait until it is open.
    open: Mutex<Option<Arc<Host>>>,
    demo: Mutex<Option<Arc<Guest>>>,
    /// Counts up whenever another engine begins to answer.
    switched: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Own {
    host: Option<Arc<Host>>,
    /// When opening it failed last, and how.
    failed: Option<(Instant, Failure)>,
    /// The app is about to end: it is not opened again.
    over: bool,
}

/// One engine, as a caller holds it.
#[derive(Debug, Clone)]
pub struct Engine {
    which: Which,
    switched: watch::Receiver<u64>,
}

#[derive(Debug, Clone)]
enum Which {
    Own(Arc<Host>),
    Demo(Arc<Guest>),
}

impl Engines {
    /// The engine at these places; a failure to name them is the answer to every call.
    #[must_use]
    pub fn new(options: Result<HostOptions, Failure>) -> Self {
        Self {
            options,
            own: tokio::sync::Mutex::default(),
            open: Mutex::default(),
            demo: Mutex::default(),
            switched: watch::channel(0).0,
        }
    }

    /// Where the operator's own engine keeps its things.
    ///
    /// # Errors
    /// When the environment names no place.
    pub fn options(&self) -> Result<&HostOptions, Failure> {
        self.options.as_ref().map_err(Clone::clone)
    }

    /// The operator's data directory, where one is named.
    #[must_use]
    pub fn data_dir(&self) -> Option<&Path> {
        self.options
            .as_ref()
            .ok()
            .map(|options| options.data_dir.as_path())
    }

    /// Whoever answers now.
    ///
    /// # Errors
    /// What opening the operator's own engine answers.
    pub async fn current(&self) -> Result<Engine, Failure> {
        let switched = self.switched.subscribe();
        if let Some(guest) = self.demo() {
            return Ok(Engine {
                which: Which::Demo(guest),
                switched,
            });
        }
        let host = self.own().await?;
        Ok(Engine {
            which: Which::Own(host),
            switched,
        })
    }

    /// The operator's own, also while the demo is on.
    ///
    /// # Errors
    /// What opening it answers.
    pub async fn own(&self) -> Result<Arc<Host>, Failure> {
        let asked = Instant::now();
        let mut own = self.own.lock().await;
        if let Some(host) = &own.host {
            return Ok(Arc::clone(host));
        }
        if own.over {
            return Err(Failure::new(Code::Busy, "the app is about to end"));
        }
        if let Some((at, failure)) = &own.failed
            && *at >= asked
        {
            return Err(failure.clone());
        }
        match Host::open(self.options()?.clone()).await {
            Ok(host) => {
                let host = Arc::new(host);
                host.dispatch_orders();
                own.failed = None;
                own.host = Some(Arc::clone(&host));
                *lock(&self.open) = Some(Arc::clone(&host));
                Ok(host)
            }
            Err(failure) => {
                tracing::warn!(%failure, "the engine could not be opened");
                own.failed = Some((Instant::now(), failure.clone()));
                Err(failure)
            }
        }
    }

    /// True while this process is the operator's own engine.
    #[must_use]
    pub fn is_hosting(&self) -> bool {
        lock(&self.open)
            .as_ref()
            .is_some_and(|host| host.is_hosting())
    }

    /// The operator's own, if it is open.
    #[must_use]
    pub fn open(&self) -> Option<Arc<Host>> {
        lock(&self.open).clone()
    }

    /// Ends hosting in good order. Nothing is opened afterwards.
    pub async fn close(&self) {
        let mut own = self.own.lock().await;
        own.over = true;
        *lock(&self.open) = None;
        if let Some(host) = own.host.take() {
            host.close().await;
        }
    }

    /// The demo's engine, while it is on.
    #[must_use]
    pub fn demo(&self) -> Option<Arc<Guest>> {
        lock(&self.demo).clone()
    }

    /// Tells whenever another engine begins to answer.
    #[must_use]
    pub fn switches(&self) -> watch::Receiver<u64> {
        self.switched.subscribe()
    }

    /// Lets the demo's engine answer from now on, or the operator's own.
    pub fn switch(&self, demo: Option<Arc<Guest>>) {
        *lock(&self.demo) = demo;
        self.switched
            .send_modify(|count| *count = count.wrapping_add(1));
    }
}

impl Engine {
    /// True while it is the one that answers.
    #[must_use]
    pub fn is_current(&self) -> bool {
        !self.switched.has_changed().unwrap_or(true)
    }

    /// True for the demo's.
    #[must_use]
    pub fn is_demo(&self) -> bool {
        matches!(self.which, Which::Demo(_))
    }

    async fn ask(&self, name: &'static str, params: serde_json::Value) -> Answer {
        match &self.which {
            Which::Own(host) => host.call(name, params).await,
            Which::Demo(guest) => guest.call(name, params).await,
        }
    }
}

type Answer = Result<serde_json::Value, Failure>;

impl Transport for Engine {
    async fn call(&self, name: &'static str, params: serde_json::Value) -> Answer {
        if !WAITING.contains(&name) {
            return self.ask(name, params).await;
        }
        let mut switched = self.switched.clone();
        tokio::select! {
            answer = self.ask(name, params) => answer,
            _ = switched.changed() => Err(Failure::new(
                Code::Busy,
                "another engine answers now",
            )
            .hint("Read the lists anew.")),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
