//! Starting what may start: on news and every few seconds, while a process that stays hosts the
//! engine. The decision is the scheduler's; here it is carried out, each start in a task of its own.
//!
//! A start is asked for under the key `order-<id>-<attempt>`. An engine that dies between the decision
//! and the run's record has started nothing; one that dies after it left a run under that key, which
//! the next engine follows, or undoes and starts anew. The store refuses a second live run.

use super::record::request_of;
use super::snapshot::{Look, Picture};
use crate::api::{OrderSpec, RunCreate, RunView};
use crate::engine::Engine;
use crate::failures::{OrFail, internal};
use foreman_agent::profile;
use foreman_domain::{At, Code, Failure, OrderId, OrderState};
use foreman_schedule::{Amounts, WaitReason};
use foreman_store::{RequestKey, StoredOrder};
use std::sync::Arc;
use std::time::Duration;

/// Longest time between two looks.
const EVERY: Duration = Duration::from_secs(2);

/// An order that is being started.
pub(super) type Starting = tokio::task::JoinHandle<Result<RunView, Failure>>;

/// Dispatches orders until hosting ends.
pub(crate) async fn keep_dispatching(engine: Arc<Engine>) {
    loop {
        if engine.dispatches()
            && let Err(error) = engine.tick().await
        {
            tracing::warn!(%error, "the queue could not be looked at");
        }
        tokio::select! {
            () = engine.queue.news.notified() => {}
            () = tokio::time::sleep(EVERY) => {}
            () = engine.cancel.cancelled() => return,
        }
    }
}

impl Engine {
    /// Whether orders are dispatched: this process stays, and does not end yet.
    pub(super) fn dispatches(&self) -> bool {
        self.queue.is_open() && !self.is_draining() && !self.cancel.is_cancelled()
    }

    /// Looks at the queue once, and begins what may start.
    pub(super) async fn tick(self: &Arc<Self>) -> Result<(), Failure> {
        let _turn = self.queue.turn.lock().await;
        self.settle_orders().await?;
        let now = At::now();
        let mut picture = self.picture(Look::ToStart, now).await?;
        if self.make_all_slots(&picture, now).await {
            picture = self.picture(Look::ToStart, now).await?;
        }
        for id in &picture.decision.start {
            let Some((order, spec)) = picture.orders.get(id) else {
                continue;
            };
            self.begin_order(order.clone(), spec.clone(), picture.reserved(id));
        }
        Ok(())
    }

    /// Makes the orders of slots that are due; true when there were any.
    async fn make_all_slots(&self, picture: &Picture, now: At) -> bool {
        let mut any = false;
        for (order, spec) in picture.orders.values() {
            if order.state != OrderState::Queued {
                continue;
            }
            match self.make_slots(order, spec, now).await {
                Ok(made) => any |= made,
                Err(error) => {
                    tracing::warn!(order = %order.id, %error, "slots of an order could not be made");
                }
            }
        }
        any
    }

    /// Starts an order in a task of its own; the caller has the queue's turn.
    pub(super) fn begin_order(
        self: &Arc<Self>,
        order: StoredOrder,
        spec: OrderSpec,
        amounts: Amounts,
    ) -> Option<Starting> {
        if !self.queue.begin(&order.id) {
            return None;
        }
        let engine = Arc::clone(self);
        Some(self.tasks.spawn(async move {
            let started = engine.start_order(&order, &spec, amounts).await;
            if let Err(failure) = &started {
                tracing::info!(order = %order.id, %failure, "an order could not be started");
                if let Err(error) = engine.could_not_start(&order, failure).await {
                    tracing::warn!(order = %order.id, %error, "that could not be noted");
                }
            }
            engine.queue.end(&order.id);
            engine.order_changed(&order.id);
            started
        }))
    }

    async fn start_order(
        self: &Arc<Self>,
        order: &StoredOrder,
        spec: &OrderSpec,
        amounts: Amounts,
    ) -> Result<RunView, Failure> {
        let attempt = order.attempts.saturating_add(1);
        let key = RequestKey(format!("order-{}-{attempt}", order.id));
        let request = request_of(order, spec, |name| std::env::var(name).ok())?;
        if self.limits().await?.budgets.cost_micros.is_some() {
            refuse_untold_cost(&request)?;
        }
        let reserved = serde_json::to_string(&amounts).map_err(internal)?;
        self.store
            .reserve(self.epoch, &order.id, attempt, &reserved)
            .await
            .or_fail()?;
        self.create_run(Some(order.id.clone()), request, &key).await
    }

    /// Notes what kept an order from being started. One that was claimed has a run that tells it.
    async fn could_not_start(&self, order: &StoredOrder, failure: &Failure) -> Result<(), Failure> {
        let now = self.store.order(&order.id).await.or_fail()?;
        if now.state != OrderState::Queued {
            return Ok(());
        }
        self.store
            .settle_reservation(
                self.epoch,
                &order.id,
                order.attempts.saturating_add(1),
                None,
            )
            .await
            .or_fail()?;
        let message = match &failure.hint {
            Some(hint) => format!("{}. {hint}", failure.message),
            None => failure.message.clone(),
        };
        self.store
            .fault_order(self.epoch, &order.id, &message, At::now())
            .await
            .or_fail()
    }

    /// What an order waits for, if it cannot start now; else it is begun, as the operator wishes. The
    /// caller has the queue's turn, and the order is not being started.
    pub(super) async fn begin_by_hand(
        self: &Arc<Self>,
        id: &OrderId,
    ) -> Result<Result<Starting, WaitReason>, Failure> {
        let picture = self.picture(Look::ByHand(id), At::now()).await?;
        let mut waiting = picture.decision.waiting.iter();
        if let Some((_, reason)) = waiting.find(|(waiting, _)| waiting == id) {
            return Ok(Err(reason.clone()));
        }
        let Some((order, spec)) = picture.orders.get(id) else {
            return Err(internal(format!("order {id} is not in the queue")));
        };
        self.begin_order(order.clone(), spec.clone(), picture.reserved(id))
            .map(Ok)
            .ok_or_else(|| internal(format!("order {id} is being started already")))
    }
}

/// Under a budget of cost, refuses an agent that does not say what it costs: nothing of it would be in the book.
fn refuse_untold_cost(request: &RunCreate) -> Result<(), Failure> {
    let Some(choice) = &request.agent else {
        return Ok(());
    };
    match profile(&choice.name) {
        Ok(agent) if !agent.reports_cost => {
            let what = format!(
                "{} does not say what it costs, and orders have a budget of cost",
                agent.title
            );
            Err(Failure::new(Code::BadInput, what).hint(
                "Take that budget away (`foreman orders limits --budget-cost none`), or use one of tokens.",
            ))
        }
        _ => Ok(()),
    }
}
