//! One handle for every front end: hosts the engine or joins the one that is up.
//!
//! A call whose engine goes away in the middle is asked again of the next one (this process, if
//! nobody else is faster). Each call has a key that stays the same however often it is asked, so that
//! what the first try did is not done twice.

use crate::HostOptions;
use crate::api::Transport;
use crate::control::{self, CallError, Client};
use crate::hosting::{Hosting, Lock};
use crate::layout::Layout;
use foreman_domain::{Code, Failure};
use foreman_store::RequestKey;
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
        })
    }

    /// True while this process is the engine.
    #[must_use]
    pub fn is_hosting(&self) -> bool {
        matches!(self.role(), Role::Hosting(_))
    }

    /// Ends hosting in good order: what was asked is finished, runs stay with their shims.
    pub async fn close(self) {
        let role = self
            .role
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        if let Role::Hosting(hosting) = role {
            hosting.close().await;
        }
    }

    fn role(&self) -> Role {
        self.role
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Replaces an engine that went away.
    async fn replace(&self, gone: &Arc<Client>) -> Result<(), Failure> {
        let _one_at_a_time = self.changing.lock().await;
        match self.role() {
            Role::Joined(client) if Arc::ptr_eq(&client, gone) => {}
            Role::Joined(_) | Role::Hosting(_) => return Ok(()),
        }
        let role = take_or_join(&self.options).await?;
        *self.role.write().unwrap_or_else(PoisonError::into_inner) = role;
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
                Role::Hosting(hosting) => return hosting.call(key, name, params).await,
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
    let deadline = Instant::now() + PATIENCE;
    let mut pause = Duration::from_millis(2);
    loop {
        if let Some(lock) = Lock::take(&layout)? {
            let hosting = Hosting::start(options.clone(), layout, lock).await?;
            return Ok(Role::Hosting(hosting));
        }
        let holder = Lock::holder(&layout);
        if let Some(holder) = &holder
            && let Ok(client) = Client::join(&holder.socket).await
        {
            return Ok(Role::Joined(Arc::new(client)));
        }
        if Instant::now() >= deadline {
            let who = holder
                .map(|holder| format!(" (process {})", holder.pid))
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
