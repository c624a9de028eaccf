//! Orders that are edited, cancelled, or dispatched by hand.

use super::check::{Drafted, check};
use super::record::{decode, encode, title_of};
use crate::api::{OrderChanges, OrderView};
use crate::engine::Engine;
use crate::failures::{OrFail, join};
use foreman_domain::{At, Code, Failure, OrderEvent, OrderId, OrderState, sanitize_line};
use foreman_store::{OrderEdit, OrderMove, RequestKey};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Longest wait for an order that is being started.
const STARTING: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

impl Engine {
    /// The order that is meant: an id, or an unambiguous beginning of one.
    pub async fn find_order(&self, typed: &str) -> Result<OrderId, Failure> {
        let unknown = || {
            let typed = sanitize_line(&typed.chars().take(80).collect::<String>());
            Failure::new(Code::NotFound, format!("there is no order \"{typed}\""))
                .hint("See `foreman orders --all`.")
        };
        let id: OrderId = typed.parse().map_err(|_| unknown())?;
        let found = self
            .store
            .orders_beginning(id.as_str(), 5)
            .await
            .or_fail()?;
        if found.contains(&id) || self.store.order(&id).await.is_ok() {
            return Ok(id);
        }
        match found.as_slice() {
            [] => Err(unknown()),
            [one] => Ok(one.clone()),
            several => {
                let ids: Vec<&str> = several.iter().map(OrderId::as_str).collect();
                let ids = ids.join(", ");
                let message = format!("\"{id}\" is the beginning of several orders: {ids}");
                Err(Failure::new(Code::BadInput, message).hint("Type one more letter."))
            }
        }
    }

    /// Changes an order that has not started.
    pub async fn edit_order(self: &Arc<Self>, changes: OrderChanges) -> Result<OrderView, Failure> {
        let id = self.find_order(&changes.order).await?;
        let turn = self.queue.turn.lock().await;
        let order = self.store.order(&id).await.or_fail()?;
        if order.state != OrderState::Queued || self.queue.starting().contains(&id) {
            return Err(not_queued(&id, &order.state, "edited"));
        }
        let mut spec = decode(&order)?;
        spec.run.title = changes.title.or(spec.run.title);
        spec.run.repo = changes.repo.unwrap_or(spec.run.repo);
        spec.run.base = changes.base.or(spec.run.base);
        spec.run.argv = changes.argv.unwrap_or(spec.run.argv);
        spec.prompt = changes.prompt.or(spec.prompt);
        spec.hints = changes.hints.unwrap_or(spec.hints);
        spec.depends_on = changes.depends_on.unwrap_or(spec.depends_on);
        spec.gate = changes.gate.unwrap_or(spec.gate);
        if let Some(claim) = changes.scope {
            spec.scope = Some(claim).filter(|claim| !claim.patterns.is_empty());
        }
        check(&id, &spec)?;
        let drafted = Drafted {
            id: id.clone(),
            group: order.group.clone(),
            spec,
        };
        self.refuse_circles(std::slice::from_ref(&drafted)).await?;
        let edit = OrderEdit {
            repo_key: self.repo_key(&drafted).await?,
            title: title_of(&drafted),
            spec: encode(&drafted.spec)?,
            parent: drafted.spec.parent.clone(),
        };
        self.store
            .edit_order(self.epoch, &id, &edit, At::now())
            .await
            .or_fail()?;
        drop(turn);
        self.order_changed(&id);
        self.show_order(id.as_str()).await
    }

    /// Takes an order out of the queue; its live run is stopped. A result that waits for a review is
    /// merged or discarded by its run instead.
    pub async fn cancel_order(self: &Arc<Self>, typed: &str) -> Result<OrderView, Failure> {
        let id = self.find_order(typed).await?;
        self.settle_orders().await?;
        let order = self.store.order(&id).await.or_fail()?;
        let live = match &order.state {
            OrderState::Cancelled => {
                // The same wish again, perhaps of one whose engine went away while the run stopped.
                if let Some(run) = &order.run {
                    self.stop_run(run.as_str()).await?;
                }
                return self.show_order(id.as_str()).await;
            }
            OrderState::Done { .. } => {
                return Err(Failure::new(
                    Code::Conflict,
                    format!("order {id} is done already"),
                ));
            }
            OrderState::Queued | OrderState::Failed { .. } => None,
            OrderState::Dispatched { run } => {
                if !self.store.run(run).await.or_fail()?.state.is_live() {
                    return Err(Failure::new(
                        Code::Conflict,
                        format!("run {run} of order {id} waits for your review"),
                    )
                    .hint(format!(
                        "`foreman merge {run}` takes it over, `foreman discard {run}` removes it."
                    )));
                }
                Some(run.clone())
            }
        };
        // The wish is recorded first, so that it holds whatever becomes of this engine.
        self.move_order(&id, OrderEvent::Cancelled, OrderMove::default())
            .await?;
        if let Some(run) = live {
            self.stop_run(run.as_str()).await?;
        }
        self.show_order(id.as_str()).await
    }

    /// Starts one order as the operator wishes: past a pause and past its autonomy, never past caps,
    /// scopes, budgets or what it depends on. One that failed or was cancelled is started over; of a
    /// recurring one an order is made now.
    pub async fn dispatch_order(
        self: &Arc<Self>,
        typed: &str,
        key: &RequestKey,
    ) -> Result<OrderView, Failure> {
        self.refuse_while_draining()?;
        if let Some(before) = self.store.subject_of_request(key).await.or_fail()? {
            // Asked again after an engine went away: that order was begun, or is in the queue.
            return self.show_order(&before).await;
        }
        let mut id = self.find_order(typed).await?;
        // From here to the beginning of its start nobody else starts it.
        let turn = self.queue.turn.lock().await;
        self.settle_orders().await?;
        let order = self.store.order(&id).await.or_fail()?;
        match &order.state {
            // It was its turn anyway.
            OrderState::Queued if self.queue.starting().contains(&id) => {
                drop(turn);
                return self.once_started(&id).await;
            }
            OrderState::Queued => {
                if decode(&order)?.hints.recurrence.is_some() {
                    id = self.extra_slot(&order).await?;
                }
            }
            OrderState::Failed { .. } | OrderState::Cancelled => {
                if let Some(run) = &order.run
                    && self.store.run(run).await.or_fail()?.state.is_live()
                {
                    let message = format!("run {run} of order {id} is still being stopped");
                    return Err(Failure::new(Code::Conflict, message));
                }
                self.move_order(&id, OrderEvent::Reopened, OrderMove::default())
                    .await?;
            }
            state @ (OrderState::Dispatched { .. } | OrderState::Done { .. }) => {
                return Err(not_queued(&id, state, "dispatched"));
            }
        }
        self.store
            .note_request(self.epoch, key, id.as_str(), At::now())
            .await
            .or_fail()?;
        let begun = self.begin_by_hand(&id).await?;
        drop(turn);
        let started = match begun {
            Ok(task) => task.await.map_err(join)?,
            Err(reason) => {
                let message = format!("order {id} cannot start now: {}", reason.words());
                return Err(Failure::new(Code::Conflict, message)
                    .hint("It keeps its place in the queue; `foreman orders` shows it."));
            }
        };
        started?;
        self.show_order(id.as_str()).await
    }

    /// An order that is being started, once that is over.
    async fn once_started(self: &Arc<Self>, id: &OrderId) -> Result<OrderView, Failure> {
        let deadline = Instant::now() + STARTING;
        while self.queue.starting().contains(id) && Instant::now() < deadline {
            tokio::time::sleep(LOOK).await;
        }
        self.show_order(id.as_str()).await
    }
}

fn not_queued(id: &OrderId, state: &OrderState, what: &str) -> Failure {
    let (is, hint) = match state {
        OrderState::Queued => ("is being started".to_owned(), None),
        OrderState::Dispatched { run } => (
            format!("has the run {run}"),
            Some(format!("`foreman show {run}` says where that stands.")),
        ),
        OrderState::Done { .. } => ("is done".to_owned(), None),
        OrderState::Failed { .. } => (
            "has failed".to_owned(),
            Some(format!("`foreman order dispatch {id}` starts it over.")),
        ),
        OrderState::Cancelled => (
            "was cancelled".to_owned(),
            Some(format!("`foreman order dispatch {id}` starts it over.")),
        ),
    };
    let failure = Failure::new(
        Code::Conflict,
        format!("order {id} {is}, so it cannot be {what}"),
    );
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
