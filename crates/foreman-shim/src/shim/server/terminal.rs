//! Where keys and sizes from the engine go while a step with a terminal runs.

use crate::wire::{Refusal, RpcError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Orders that wait; a program that does not read its terminal makes the engine wait, then fail.
const WAITING: usize = 64;
const PATIENCE: Duration = Duration::from_secs(2);

/// Something for the terminal of the running step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::shim) enum TerminalOrder {
    Input(Vec<u8>),
    Resize { columns: u16, rows: u16 },
}

/// The place where the running step's terminal is found; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(in crate::shim) struct TerminalPort(Arc<Mutex<Option<mpsc::Sender<TerminalOrder>>>>);

impl TerminalPort {
    /// Opens the port for a step; it closes when the receiver is dropped.
    pub(in crate::shim) fn open(&self) -> mpsc::Receiver<TerminalOrder> {
        let (sender, receiver) = mpsc::channel(WAITING);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        receiver
    }

    pub(in crate::shim) async fn order(&self, order: TerminalOrder) -> Result<(), RpcError> {
        let sender = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let none = || Refusal::NoTerminal.says("No step with a terminal runs");
        let sender = sender.ok_or_else(none)?;
        match timeout(PATIENCE, sender.send(order)).await {
            Ok(sent) => sent.map_err(|_| none()),
            Err(_) => Err(Refusal::Busy.says("The program does not read its terminal")),
        }
    }
}
