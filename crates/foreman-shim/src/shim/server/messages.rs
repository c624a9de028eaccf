//! Where what the operator says goes while an agent runs that can be told something.
//!
//! A message is taken once, whoever asks how often: its id is remembered for as long as the shim lives. It is
//! acknowledged when it is in the journal, so that no engine that dies takes one with it.

use crate::wire::{Refusal, RpcError};
use foreman_agent::LONGEST_TEXT;
use foreman_domain::MessageId;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// Messages that are on their way to the conversation.
const WAITING: usize = 16;
/// Longest wait for the conversation, which may be busy with what its agent says.
const PATIENCE: Duration = Duration::from_secs(8);

/// Something that the operator says to the agent.
#[derive(Debug)]
pub(in crate::shim) struct Saying {
    pub(in crate::shim) message: MessageId,
    pub(in crate::shim) by: String,
    pub(in crate::shim) text: String,
    /// Closed when nobody waits any more: it is not to be taken then.
    pub(in crate::shim) answer: oneshot::Sender<Result<(), RpcError>>,
}

/// The place where the running conversation is found; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(in crate::shim) struct MessagePort(Arc<Mutex<Open>>);

#[derive(Debug, Default)]
struct Open {
    conversation: Option<mpsc::Sender<Saying>>,
    taken: BTreeSet<MessageId>,
}

impl MessagePort {
    /// Opens the port for a conversation; it closes when the receiver is dropped.
    pub(in crate::shim) fn open(&self) -> mpsc::Receiver<Saying> {
        let (sender, receiver) = mpsc::channel(WAITING);
        self.lock().conversation = Some(sender);
        receiver
    }

    /// Whether the conversation has that message already.
    pub(in crate::shim) fn has(&self, message: &MessageId) -> bool {
        self.lock().taken.contains(message)
    }

    /// The conversation has taken it.
    pub(in crate::shim) fn note(&self, message: MessageId) {
        self.lock().taken.insert(message);
    }

    /// Says something; returns when it is in the journal.
    pub(in crate::shim) async fn say(
        &self,
        message: MessageId,
        by: String,
        text: String,
    ) -> Result<(), RpcError> {
        if self.has(&message) {
            return Ok(());
        }
        if text.trim().is_empty() || text.len() > LONGEST_TEXT {
            return Err(Refusal::Malformed.says("A message is empty, or longer than 16 KiB"));
        }
        let nobody = || Refusal::NotHeard.says("No agent that can be told something runs now");
        let conversation = self.lock().conversation.clone().ok_or_else(nobody)?;
        let (answer, answered) = oneshot::channel();
        let saying = Saying {
            message,
            by,
            text,
            answer,
        };
        let exchange = async {
            conversation.send(saying).await.map_err(|_| nobody())?;
            answered.await.map_err(|_| nobody())?
        };
        match timeout(PATIENCE, exchange).await {
            Ok(said) => said,
            Err(_) => Err(Refusal::Busy.says("The conversation with the agent is busy")),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_message_is_taken_once_and_refused_where_nobody_hears() {
        let port = MessagePort::default();
        let id = MessageId::of("m1").unwrap();
        let say = || port.say(id.clone(), "op".into(), "go on".into());
        assert_eq!(say().await.unwrap_err().data, Refusal::NotHeard);
        let mut heard = port.open();
        let hears = async {
            let saying = heard.recv().await.unwrap();
            assert_eq!(saying.text, "go on");
            port.note(saying.message);
            saying.answer.send(Ok(())).unwrap();
        };
        let (said, ()) = tokio::join!(say(), hears);
        said.unwrap();
        drop(heard);
        // Said again by an engine that did not hear the answer.
        say().await.unwrap();
        let other = port.say(MessageId::of("m2").unwrap(), "op".into(), "x".into());
        assert_eq!(other.await.unwrap_err().data, Refusal::NotHeard);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_given_up_on_is_not_taken_later() {
        let port = MessagePort::default();
        let mut heard = port.open();
        let said = port.say(MessageId::of("m1").unwrap(), "op".into(), "x".into());
        assert_eq!(said.await.unwrap_err().data, Refusal::Busy);
        assert!(heard.recv().await.unwrap().answer.is_closed());
    }
}
