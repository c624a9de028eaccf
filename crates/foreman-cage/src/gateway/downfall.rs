//! Notices that a part of the gateway can serve no more: it said so, or its task ended or panicked
//! although nobody cancelled it. A cage whose connections nobody takes must not run on in silence.

use std::future::Future;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What ended a gateway before its time; the first thing that did.
#[derive(Debug)]
pub(crate) struct Downfall {
    why: watch::Sender<Option<String>>,
    cancel: CancellationToken,
}

impl Downfall {
    /// Nothing happened yet. What ends once `cancel` fired has ended in its time.
    pub fn new(cancel: CancellationToken) -> Self {
        Self {
            why: watch::Sender::new(None),
            cancel,
        }
    }

    /// Says why something can serve no more, as a sentence.
    pub fn tell(&self, why: String) {
        if self.cancel.is_cancelled() {
            return;
        }
        self.why.send_if_modified(|known| {
            let is_first = known.is_none();
            known.get_or_insert(why);
            is_first
        });
    }

    /// Waits until it happened; for ever when everything ended in its time.
    pub async fn happened(&self) -> String {
        let mut why = self.why.subscribe();
        match why.wait_for(Option::is_some).await.map(|why| why.clone()) {
            Ok(Some(why)) => why,
            // The sender is in `self`, so this cannot be.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Work that must go on until the gateway is cancelled; `what` it serves.
    pub fn of<W>(self: &Arc<Self>, what: &'static str, work: W) -> impl Future<Output = ()> + use<W>
    where
        W: Future<Output = ()>,
    {
        let watched = Watched {
            what,
            downfall: self.clone(),
        };
        async move {
            let _told_when_dropped = watched;
            work.await;
        }
    }
}

/// Tells when it is dropped, however that comes about.
struct Watched {
    what: &'static str,
    downfall: Arc<Downfall>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        let why = format!(
            "the part of the gateway that serves {} ended unexpectedly",
            self.what
        );
        self.downfall.tell(why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn downfall() -> (Arc<Downfall>, CancellationToken) {
        let cancel = CancellationToken::new();
        (Arc::new(Downfall::new(cancel.clone())), cancel)
    }

    #[tokio::test]
    async fn a_part_that_ends_or_panics_is_noticed() {
        let (ending, _cancel) = downfall();
        ending.of("UDP", async {}).await;
        assert!(ending.happened().await.contains("serves UDP ended"));

        let (panicking, _cancel) = downfall();
        let work = panicking.of("DNS", async { panic!("on purpose") });
        assert!(tokio::spawn(work).await.is_err());
        assert!(panicking.happened().await.contains("serves DNS ended"));
    }

    #[tokio::test]
    async fn the_first_reason_stays() {
        let (downfall, _cancel) = downfall();
        let told = downfall.clone();
        let work = async move { told.tell("the gate is gone".into()) };
        downfall.of("TCP", work).await;
        assert_eq!(downfall.happened().await, "the gate is gone");
    }

    #[tokio::test]
    async fn what_ends_when_it_was_told_to_is_no_downfall() {
        let (downfall, cancel) = downfall();
        cancel.cancel();
        downfall.of("TCP", async {}).await;
        let waited = tokio::time::timeout(Duration::from_millis(20), downfall.happened()).await;
        assert!(waited.is_err());
    }
}
