//! One handle for every front end: hosts the engine or joins the one that is up.
//!
//! A call whose engine goes away in the middle is asked again of the next one (this process, if
//! nobody else is faster). Each call has a key that stays the same however often it is asked, so that
//! what the first try did is not done twice.

use crate::HostOptions;
use crate::api::Transport;
use crate::control::{self, CallError, Client};
use crate::hosting::{Begun, Hosting, Lock};
use crate::layout::Layout;
use crate::lease::TTL;
use foreman_domain::{Code, Failure};
use foreman_store::RequestKey;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::time::Instant;

/// Longest wait for a data directory that somebody holds and nobody answers for.
const PATIENCE: Duration = Duration::from_secs(15);
/// Longest pause between two looks at it.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Answers [`Commands`](crate::api::Commands), as the engine or as its client.
#[derive(Debug)]
pub struct Host {
    options: HostOptions,
    role: RwLock<Role>,
    /// Held while a lost engine is replaced, so that one of several callers does it.
    changing: tokio::sync::Mutex<()>,
    /// This process stays: orders are dispatched while it hosts.
    stays: AtomicBool,
}

#[derive(Debug, Clone)]
enum Role {
    Hosting(Arc<Hosting>),
    Joined(Arc<Client>),
}

impl Host {
    /// Takes the data directory and serves it, or joins the process that does.
    ///
    /// # Errors
    /// [`Code::Busy`] when the other engine does not answer or a newer one wrote the data,
    /// [`Code::DiskFull`] and [`Code::Environment`] when the directory cannot be used.
    pub async fn open(options: HostOptions) -> Result<Self, Failure> {
        let role = take_or_join(&options).await?;
        Ok(Self {
            options,
            role: RwLock::new(role),
            changing: tokio::sync::Mutex::new(()),
            stays: AtomicBool::new(false),
        })
    }

    /// Says that this process stays for a while: from now on, whenever it hosts, orders that wait are
    /// dispatched. One that only asks something and goes should not begin what others wait for.
    pub fn dispatch_orders(&self) {
        self.stays.store(true, Ordering::Release);
        if let Some(hosting) = self.hosting() {
            hosting.engine().queue.open();
        }
    }

    fn take_role(&self, role: Role) {
        *self.role.write().unwrap_or_else(PoisonError::into_inner) = role;
        if self.stays.load(Ordering::Acquire) {
            self.dispatch_orders();
        }
    }

    /// True while this process is the engine.
    #[must_use]
    pub fn is_hosting(&self) -> bool {
        matches!(self.role(), Role::Hosting(_))
    }

    /// Ends hosting in good order: what was asked is finished, runs stay with their shims.
    pub async fn close(&self) {
        if let Role::Hosting(hosting) = self.role() {
            hosting.close().await;
        }
    }

    /// This process as the engine, while it is.
    pub(crate) fn hosting(&self) -> Option<Arc<Hosting>> {
        match self.role() {
            Role::Hosting(hosting) => Some(hosting),
            Role::Joined(_) => None,
        }
    }

    /// Waits until the engine of another process has ended, and takes its place, unless somebody else
    /// is faster. Returns at once when this process hosts.
    pub(crate) async fn stand_by(&self) -> Result<(), Failure> {
        match self.role() {
            Role::Hosting(_) => Ok(()),
            Role::Joined(client) => {
                client.until_it_ends().await;
                self.replace(&client).await
            }
        }
    }

    fn role(&self) -> Role {
        self.role
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Stops being an engine that another one has fenced off.
    pub(crate) async fn step_down(&self, fenced: &Arc<Hosting>) -> Result<(), Failure> {
        let _one_at_a_time = self.changing.lock().await;
        match self.role() {
            Role::Hosting(hosting) if Arc::ptr_eq(&hosting, fenced) => {}
            Role::Joined(_) | Role::Hosting(_) => return Ok(()),
        }
        fenced.close().await;
        let role = take_or_join(&self.options).await?;
        self.take_role(role);
        Ok(())
    }

    /// Replaces an engine that went away.
    async fn replace(&self, gone: &Arc<Client>) -> Result<(), Failure> {
        let _one_at_a_time = self.changing.lock().await;
        match self.role() {
            Role::Joined(client) if Arc::ptr_eq(&client, gone) => {}
            Role::Joined(_) | Role::Hosting(_) => return Ok(()),
        }
        let role = take_or_join(&self.options).await?;
        self.take_role(role);
        Ok(())
    }
}

impl Transport for Host {
    async fn call(
        &self,
        name: &'static str,
        params: serde_json::Value,
    ) -> Result<serde_json::Value, Failure> {
        let key = RequestKey(format!("{:032x}", rand::random::<u128>()));
        loop {
            match self.role() {
                Role::Hosting(hosting) => {
                    let answer = hosting.call(key.clone(), name, params.clone()).await;
                    if !hosting.is_fenced() {
                        return answer;
                    }
                    // Whatever it answered, another engine was in charge: that one is asked.
                    self.step_down(&hosting).await?;
                    if control::may_not_repeat(name) {
                        return answer;
                    }
                }
                Role::Joined(client) => match client.call(&key, name, &params).await {
                    Ok(answer) => return Ok(answer),
                    Err(CallError::Refused(failure)) => return Err(failure),
                    Err(CallError::Gone { asked }) => {
                        self.replace(&client).await?;
                        if asked && control::may_not_repeat(name) {
                            return Err(Failure::new(
                                Code::Busy,
                                "the engine went away, so it is not known whether this arrived",
                            )
                            .hint("Look, and do it again if it did not."));
                        }
                    }
                },
            }
        }
    }
}

async fn take_or_join(options: &HostOptions) -> Result<Role, Failure> {
    let layout = Layout::prepare(options)?;
    let mut deadline = Instant::now() + PATIENCE;
    let latest = deadline + TTL + PATIENCE;
    let mut pause = Duration::from_millis(2);
    loop {
        let (socket, pid) = match Lock::take(&layout)? {
            Some(lock) => match Hosting::start(options.clone(), layout.clone(), lock).await? {
                Begun::Hosting(hosting) => return Ok(Role::Hosting(hosting)),
                // Its lock file was taken away, but it may well be up and answer.
                Begun::Held { pid, expires_in } => {
                    // A look at it takes a while, too, where it does not answer.
                    let expired = Instant::now() + expires_in + PATIENCE;
                    deadline = deadline.max(expired).min(latest);
                    (Some(layout.control_socket()), pid)
                }
            },
            None => match Lock::holder(&layout) {
                Some(holder) => (Some(holder.socket), Some(holder.pid)),
                None => (None, None),
            },
        };
        if let Some(socket) = &socket
            && let Ok(client) = Client::join(socket).await
        {
            return Ok(Role::Joined(Arc::new(client)));
        }
        if Instant::now() >= deadline {
            let who = pid
                .map(|pid| format!(" (process {pid})"))
                .unwrap_or_default();
            return Err(Failure::new(
                Code::Busy,
                format!(
                    "another engine{who} holds {} and does not answer",
                    layout.data.display()
                ),
            )
            .hint("End that process, or wait for it, and try again."));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
