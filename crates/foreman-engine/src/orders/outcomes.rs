//! What becomes of an order when its run comes to its end, is reviewed, discarded or brought back; and
//! the settling of what it had reserved. Idempotent: done by whichever engine looks next.

use super::record::decode;
use crate::api::OrderGate;
use crate::details::RunDetails;
use crate::engine::Engine;
use crate::failures::{OrFail, internal};
use foreman_domain::{
    At, Code, FailReason, Failure, OrderDone, OrderEvent, OrderFailure, OrderId, OrderState,
    Outcome, RunId, RunState,
};
use foreman_schedule::{Amounts, PassingFailure, retry};
use foreman_store::{OrderFilter, OrderMove, StoredOrder, StoredReservation, StoredRun};
use std::sync::Arc;

/// Attempts that end at a limit of a model's provider before an order gives up.
const LIMITS_WAITED_FOR: u32 = 24;

impl Engine {
    /// Brings every order to where its run says it is. One bad order never keeps the others from it.
    pub(super) async fn settle_orders(self: &Arc<Self>) -> Result<(), Failure> {
        // In this order: what is reserved was reserved by one that was being started by then.
        let reserved = self.store.open_reservations().await.or_fail()?;
        let starting = self.queue.starting();
        let mut dispatched = Vec::new();
        for order in self
            .store
            .orders(OrderFilter::Open)
            .await
            .or_fail()?
            .into_iter()
            .flatten()
        {
            if matches!(order.state, OrderState::Dispatched { .. }) {
                dispatched.push(order);
            }
        }
        self.settle_book(&reserved, &dispatched, &starting).await?;
        for order in dispatched {
            match self.settle_order(&order).await {
                Ok(()) => {}
                // Somebody else saw it first.
                Err(failure) if failure.code == Code::Conflict => {}
                Err(error) => {
                    tracing::warn!(order = %order.id, %error, "an order could not be settled")
                }
            }
        }
        for (order, run) in self.store.restored_orders().await.or_fail()? {
            let event = OrderEvent::Restored { run };
            if let Err(error) = self.move_order(&order, event, OrderMove::default()).await {
                tracing::warn!(%order, %error, "an order could not be brought back");
            }
        }
        Ok(())
    }

    pub(super) async fn move_order(
        &self,
        order: &OrderId,
        event: OrderEvent,
        brings: OrderMove,
    ) -> Result<OrderState, Failure> {
        let state = self
            .store
            .advance_order(self.epoch, order, event, &brings, At::now())
            .await
            .or_fail()?;
        self.order_changed(order);
        Ok(state)
    }

    /// An order has changed, and is in the store: others may start now, and whoever watches is told.
    pub(super) fn order_changed(&self, order: &OrderId) {
        self.news.tell_order(order);
        self.queue.wake();
    }

    async fn settle_order(self: &Arc<Self>, order: &StoredOrder) -> Result<(), Failure> {
        let OrderState::Dispatched { run: id } = &order.state else {
            return Ok(());
        };
        let run = self.store.run(id).await.or_fail()?;
        if let RunState::Review { head, .. } = &run.state {
            if decode(order)?.gate == OrderGate::Checks && self.queue.begin_gate(id, head) {
                self.tasks
                    .spawn(pass_gate(Arc::clone(self), id.clone(), head.clone()));
            }
            return Ok(());
        }
        let Some(end) = self.end_of(order, &run).await? else {
            return Ok(());
        };
        let (event, mut brings) = end;
        brings.of_run = Some(run.id);
        self.move_order(&order.id, event, brings).await?;
        Ok(())
    }

    /// What a run's end means for its order; nothing while it has not come to one.
    async fn end_of(
        &self,
        order: &StoredOrder,
        run: &StoredRun,
    ) -> Result<Option<(OrderEvent, OrderMove)>, Failure> {
        let id = run.id.clone();
        let outcome = match &run.state {
            RunState::Provisioning
            | RunState::Running { .. }
            | RunState::Stopping { .. }
            | RunState::Review { .. }
            | RunState::Merging => return Ok(None),
            RunState::Merged { commit } => {
                let commit = commit.clone();
                let done = OrderEvent::Done(OrderDone::Merged { run: id, commit });
                return Ok(Some((done, OrderMove::default())));
            }
            RunState::NoChanges
            | RunState::Failed { .. }
            | RunState::Cancelled { .. }
            | RunState::Interrupted { .. }
            | RunState::Discarded { .. } => run.outcome.clone(),
        };
        let failed = |why| (OrderEvent::Failed(why), OrderMove::default());
        Ok(Some(match outcome {
            Some(Outcome::NoChanges) => {
                let view = self.view_of(&run.id).await?;
                match view.failed_checks {
                    0 => (
                        OrderEvent::Done(OrderDone::NoChanges { run: id }),
                        OrderMove::default(),
                    ),
                    _ => failed(OrderFailure::Checks {
                        run: id,
                        checks: view.checks,
                    }),
                }
            }
            Some(Outcome::Failed { reason }) => self.after_failure(order, run, reason)?,
            Some(Outcome::Cancelled { by }) => failed(OrderFailure::Stopped { run: id, by }),
            Some(Outcome::Interrupted { reason }) => failed(OrderFailure::Interrupted {
                run: id,
                cause: reason,
            }),
            Some(Outcome::Changes { .. }) => failed(OrderFailure::Discarded { run: id }),
            None => {
                return Err(internal(format!("run {id} is over and has no outcome")));
            }
        }))
    }

    /// Tried again where the failure may pass by itself: nothing of the order ran, so nothing is done
    /// twice.
    fn after_failure(
        &self,
        order: &StoredOrder,
        run: &StoredRun,
        reason: FailReason,
    ) -> Result<(OrderEvent, OrderMove), Failure> {
        let details = RunDetails::of(run)?;
        let passing = match (&reason, details.limited) {
            // The engine ended in the middle: that is no attempt of the order's.
            (FailReason::Provision { .. }, _) if details.undone => {
                let brings = OrderMove {
                    uncounted: true,
                    ..OrderMove::default()
                };
                return Ok((OrderEvent::Retried, brings));
            }
            (FailReason::Provision { message, .. }, _) => Some((
                PassingFailure::Provision {
                    message: message.clone(),
                },
                0,
            )),
            // It left no commits, and its model's provider named the reason: that passes by itself, and is waited
            // for without being asked to.
            (FailReason::Agent { message }, Some(limited)) => Some((
                PassingFailure::AgentLimit {
                    resets_at: limited.until,
                    message: format!("its model's provider lets it do no more: {message}"),
                },
                LIMITS_WAITED_FOR,
            )),
            _ => None,
        };
        if let Some((passing, at_least)) = passing {
            let retries = decode(order)?.hints.retries.max(at_least);
            let again = retry(&passing, order.attempts, retries, At::now(), rand::random());
            if let Some(again) = again {
                let brings = OrderMove {
                    retry: Some((again.at, again.why)),
                    ..OrderMove::default()
                };
                return Ok((OrderEvent::Retried, brings));
            }
        }
        let why = OrderFailure::Run {
            run: run.id.clone(),
            cause: reason,
        };
        Ok((OrderEvent::Failed(why), OrderMove::default()))
    }

    /// Settles what ended runs had reserved, and gives back what never started.
    async fn settle_book(
        &self,
        reserved: &[StoredReservation],
        dispatched: &[StoredOrder],
        starting: &std::collections::BTreeSet<OrderId>,
    ) -> Result<(), Failure> {
        for line in reserved {
            if starting.contains(&line.order) {
                continue;
            }
            let holder = dispatched
                .iter()
                .find(|order| order.id == line.order && order.attempts == line.attempt);
            let run = match holder.map(|order| &order.state) {
                Some(OrderState::Dispatched { run }) => Some(self.store.run(run).await.or_fail()?),
                // An order that was cancelled while its run lived is settled by that run.
                _ => self.run_of(&line.order).await?,
            };
            let used = match run {
                Some(run) if run.state.is_live() => continue,
                Some(run) if holder.is_some() || run.ended_at.is_some() => Some(spent(&run)?),
                _ => None,
            };
            let used = match used {
                Some((amounts, at)) => {
                    Some((serde_json::to_string(&amounts).map_err(internal)?, at))
                }
                None => None,
            };
            self.store
                .settle_reservation(
                    self.epoch,
                    &line.order,
                    line.attempt,
                    used.as_ref().map(|(amounts, at)| (amounts.as_str(), *at)),
                )
                .await
                .or_fail()?;
        }
        Ok(())
    }

    /// The run of an order that is finished; nothing for one that is queued.
    async fn run_of(&self, order: &OrderId) -> Result<Option<StoredRun>, Failure> {
        let order = self.store.order(order).await.or_fail()?;
        match (&order.state, &order.run) {
            (OrderState::Queued, _) | (_, None) => Ok(None),
            (_, Some(run)) => Ok(Some(self.store.run(run).await.or_fail()?)),
        }
    }
}

/// Asks the gate of a run whose order is merged by its checks alone. What it decides is told by the run.
async fn pass_gate(engine: Arc<Engine>, run: RunId, head: String) {
    if let Err(error) = engine.merge_by_itself(&run).await {
        tracing::warn!(%run, %error, "a run could not be asked about at its gate");
        // Asked again at the next look.
        engine.queue.end_gate(&run, &head);
    }
    engine.queue.wake();
}

/// What a run used, and when that is settled.
fn spent(run: &StoredRun) -> Result<(Amounts, At), Failure> {
    let told = RunDetails::of(run)?.spent.unwrap_or_default();
    let end = run.ended_at.unwrap_or_else(At::now);
    let millis = end.as_millis().saturating_sub(run.created_at.as_millis());
    let amounts = Amounts {
        tokens: told.tokens.unwrap_or(0),
        cost_micros: told.cost_microusd.unwrap_or(0),
        wall_seconds: u64::try_from(millis).unwrap_or(0).div_ceil(1000),
    };
    Ok((amounts, end))
}
