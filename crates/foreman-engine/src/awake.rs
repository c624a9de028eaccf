//! Keeps the machine awake while runs are at work: on external power, unless the operator set it
//! otherwise, and never on a battery below the floor.
//!
//! Where sleep cannot be held off (no login manager, no system bus, no permission) nothing fails: the
//! doctor says so, and it is tried again from time to time.

mod inhibitor;
mod supply;
#[cfg(test)]
mod tests;

use crate::api::{AwakeRequest, AwakeView, KeepAwake};
use crate::engine::Engine;
use crate::failures::OrFail;
use foreman_domain::{Code, Failure};
use inhibitor::Inhibitor;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use supply::{SUPPLIES, Supply, look};
use tokio::time::Instant;

/// How often the supplies and the runs are looked at.
const EVERY: Duration = Duration::from_secs(5);
/// How long after a failure the lock is asked for again.
const AGAIN: Duration = Duration::from_secs(60);
/// The setting's key.
const KEY: &str = "awake";

/// What the operator has set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Setting {
    when: KeepAwake,
    floor: u8,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            when: KeepAwake::default(),
            floor: 20,
        }
    }
}

/// How it stands, for whoever asks.
#[derive(Debug, Default)]
pub(crate) struct Awake(Mutex<Standing>);

#[derive(Debug, Clone, Default)]
struct Standing {
    holding: bool,
    /// Why the lock could not be had, the last time it was asked for.
    trouble: Option<String>,
}

impl Awake {
    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why sleep is held off, or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Hold,
    NothingRuns,
    SetToNever,
    OnBattery,
    BatteryLow(u8),
}

/// Whether sleep is to be held off.
fn judge(live: usize, supply: Supply, setting: Setting) -> Verdict {
    if setting.when == KeepAwake::Never {
        return Verdict::SetToNever;
    }
    if live == 0 {
        return Verdict::NothingRuns;
    }
    if supply.external {
        return Verdict::Hold;
    }
    match (setting.when, supply.charge) {
        (KeepAwake::Power | KeepAwake::Never, _) => Verdict::OnBattery,
        (KeepAwake::Always, Some(charge)) if charge < setting.floor => Verdict::BatteryLow(charge),
        (KeepAwake::Always, _) => Verdict::Hold,
    }
}

/// Holds sleep off whenever it should be, until hosting ends.
pub(crate) async fn keep_awake(engine: Arc<Engine>) {
    let mut held: Option<Inhibitor> = None;
    let mut not_before = Instant::now();
    loop {
        let verdict = match engine.awake_setting().await {
            Ok(setting) => judge(engine.live.ids().len(), look(Path::new(SUPPLIES)), setting),
            Err(error) => {
                tracing::warn!(%error, "the setting for sleep cannot be read");
                Verdict::NothingRuns
            }
        };
        if verdict != Verdict::Hold {
            held = None;
        } else if held.is_none() && Instant::now() >= not_before {
            let taken = Inhibitor::take(|name| std::env::var(name).ok()).await;
            let trouble = taken.as_ref().err().cloned();
            if let Some(why) = &trouble {
                tracing::info!(%why, "sleep cannot be held off");
                not_before = Instant::now() + AGAIN;
            }
            engine.awake.standing().trouble = trouble;
            held = taken.ok();
        }
        engine.awake.standing().holding = held.is_some();
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = engine.cancel.cancelled() => return,
        }
    }
}

impl Engine {
    async fn awake_setting(&self) -> Result<Setting, Failure> {
        Ok(self.store.setting(KEY).await.or_fail()?.unwrap_or_default())
    }

    /// Sets what is to be set, and says how it stands.
    pub async fn keeping_awake(&self, request: AwakeRequest) -> Result<AwakeView, Failure> {
        let mut setting = self.awake_setting().await?;
        if request.floor.is_some_and(|floor| floor > 100) {
            let what = "the battery floor is a percentage, from 0 to 100";
            return Err(Failure::new(Code::BadInput, what));
        }
        if request.when.is_some() || request.floor.is_some() {
            setting.when = request.when.unwrap_or(setting.when);
            setting.floor = request.floor.unwrap_or(setting.floor);
            self.store
                .set_setting(self.epoch, KEY, &setting)
                .await
                .or_fail()?;
        }
        let verdict = judge(self.live.ids().len(), look(Path::new(SUPPLIES)), setting);
        let standing = self.awake.standing().clone();
        Ok(AwakeView {
            when: setting.when,
            floor: setting.floor,
            holding: standing.holding,
            words: in_words(verdict, &standing),
        })
    }

    /// One line for the doctor.
    pub async fn awake_in_words(&self) -> Result<String, Failure> {
        let view = self.keeping_awake(AwakeRequest::default()).await?;
        Ok(format!("sleep: {}", view.words))
    }
}

fn in_words(verdict: Verdict, standing: &Standing) -> String {
    match (verdict, standing.holding, &standing.trouble) {
        (Verdict::Hold, true, _) => "held off, because a run is at work".to_owned(),
        (Verdict::Hold, false, Some(why)) => {
            format!("cannot be held off on this machine ({why}), so it may sleep under a run")
        }
        (Verdict::Hold, false, None) => "about to be held off for a run".to_owned(),
        (Verdict::NothingRuns, _, Some(why)) => {
            format!("not held off, because nothing runs; last time it could not be ({why})")
        }
        (Verdict::NothingRuns, _, None) => "not held off, because nothing runs".to_owned(),
        (Verdict::SetToNever, ..) => "not held off, because it is set so".to_owned(),
        (Verdict::OnBattery, ..) => "not held off, because the machine runs on battery".to_owned(),
        (Verdict::BatteryLow(charge), ..) => {
            format!("not held off, because the battery is at {charge} %")
        }
    }
}
