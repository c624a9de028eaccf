//! The first program of a cage, started before its launch has returned, so that the cage works while
//! its supervisor still makes itself ready.
//!
//! It is confined like any other program. Then, still as our own code, it tries the walls, tells what
//! it saw and waits at a gate, a socket of its own: it executes nothing before
//! [`Cage::spawn`](crate::Cage::spawn) lets it through, and ends when the gate is closed instead. So
//! it never runs in a cage whose walls were not proven first, and they were proven where it runs.

use crate::exchange::{Begun, Exchange, Started};
use crate::files::watch::Watch;
use crate::wire::{self, Go, What};
use crate::{Payload, ProbeResult, SpawnError, kernel};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// How long a program that was started for nothing may take to end.
const END_LIMIT: Duration = Duration::from_secs(5);

/// A program that waits at its gate.
#[derive(Debug)]
pub(crate) struct First {
    payload: Payload,
    begun: Begun,
    gate: OwnedFd,
    /// Whether every wall held against it, once it has told.
    all_held: Option<bool>,
}

impl First {
    /// Asks process 1 for it, also where there is no runtime yet.
    pub fn begin(payload: Payload, exchange: &Exchange) -> io::Result<Self> {
        let memory = payload.memory_file(None)?;
        let (gate, waiting) = wire::pair()?;
        kernel::do_not_block(gate.as_fd())?;
        let begun = exchange.begin(What::Waiting, payload.stdio.into(), &[memory, waiting])?;
        Ok(Self {
            payload,
            begun,
            gate,
            all_held: None,
        })
    }

    /// What it saw of the walls; nothing when that was told before, or when it ended instead.
    pub async fn results(&mut self) -> Option<Vec<ProbeResult>> {
        if self.all_held.is_some() {
            return None;
        }
        self.all_held = Some(false);
        let gate = self.gate.try_clone().and_then(kernel::on_runtime).ok()?;
        let received = loop {
            let mut readable = gate.readable().await.ok()?;
            if let Ok(received) = readable.try_io(|gate| wire::receive(gate.get_ref().as_fd())) {
                break received;
            }
        };
        let (results, _): (Vec<ProbeResult>, _) = received.ok()??;
        self.all_held = Some(results.iter().all(|result| result.holds));
        Some(results)
    }

    /// Lets it go, if it is what is asked for; otherwise it has ended when this returns. One that broke
    /// through a wall may have kept something of what is behind, and does not go either. Comes with its
    /// gate, the door of one that is watched.
    pub async fn release<'it>(
        self,
        asked: &Payload,
        watch: Option<Watch>,
        exchange: &'it Exchange,
    ) -> Option<(Started<'it>, OwnedFd)> {
        if self.payload != *asked || self.all_held != Some(true) {
            self.dismiss(exchange).await;
            return None;
        }
        let started = exchange.adopt(self.begun).await.ok()?;
        match wire::send(self.gate.as_fd(), &Go { watch }, &[]) {
            Ok(()) => Some((started, self.gate)),
            // It was killed: it is started anew.
            Err(_) => None,
        }
    }

    /// Ends it; nothing of it was executed.
    pub async fn dismiss(self, exchange: &Exchange) {
        let end = async {
            let started = exchange.adopt(self.begun).await?;
            started.kill();
            exchange.exit(started.pid).await;
            started.keep();
            Ok::<_, SpawnError>(())
        };
        // Where that fails, it ends with the cage.
        let _ = tokio::time::timeout(END_LIMIT, end).await;
    }
}
