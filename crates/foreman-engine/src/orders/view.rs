//! Orders as they are shown: what runs, what is next, what waits and for what.

use super::record::decode;
use super::slots;
use super::snapshot::{Look, Picture};
use crate::api::{
    FaultyOrder, FileFault, OrderList, OrderSpec, OrderView, Orders, QueueView, Waiting,
};
use crate::engine::Engine;
use crate::failures::OrFail;
use foreman_domain::{At, Failure, OrderId, OrderState};
use foreman_schedule::{Amounts, BudgetUse, OrderFault, WaitReason};
use foreman_store::{OrderFilter, StoredOrder};
use std::path::PathBuf;
use std::sync::Arc;

const DEFAULT_FINISHED: u32 = 50;
const MOST_FINISHED: u32 = 1_000;
/// Characters of a prompt in a list; all of it is shown with the order.
const LISTED_PROMPT: usize = 200;

impl Engine {
    /// Orders in the order of the queue, and how the queue stands.
    pub async fn list_orders(self: &Arc<Self>, request: OrderList) -> Result<Orders, Failure> {
        self.settle_orders().await?;
        let picture = self.picture(Look::ToShow, At::now()).await?;
        let mut orders = Vec::with_capacity(picture.orders.len());
        for id in in_order(&picture) {
            if let Some((order, spec)) = picture.orders.get(&id) {
                orders.push(
                    self.view_order(order, spec, waiting(&picture, &id), true)
                        .await?,
                );
            }
        }
        if request.all {
            let limit = request
                .limit
                .unwrap_or(DEFAULT_FINISHED)
                .clamp(1, MOST_FINISHED);
            let newest = self
                .store
                .orders(OrderFilter::Newest(limit))
                .await
                .or_fail()?;
            for order in newest.into_iter().flatten() {
                if order.state.is_open() {
                    continue;
                }
                match decode(&order) {
                    Ok(spec) => orders.push(self.view_order(&order, &spec, None, true).await?),
                    Err(error) => {
                        tracing::warn!(order = %order.id, %error, "an order cannot be shown");
                    }
                }
            }
        }
        let faults = faults(&picture);
        Ok(Orders {
            orders,
            faults,
            file_faults: self.file_faults().await?,
            queue: self.queue_of(&picture).await?,
        })
    }

    /// Only these orders, with the queue.
    pub(super) async fn orders_named(self: &Arc<Self>, ids: &[OrderId]) -> Result<Orders, Failure> {
        let mut orders = self.list_orders(OrderList::default()).await?;
        orders.orders.retain(|order| ids.contains(&order.id));
        let listed: Vec<OrderId> = orders.orders.iter().map(|order| order.id.clone()).collect();
        for id in ids.iter().filter(|id| !listed.contains(id)) {
            orders.orders.push(self.show_order(id.as_str()).await?);
        }
        orders
            .orders
            .sort_by_key(|order| ids.iter().position(|id| *id == order.id));
        orders.faults.retain(|fault| ids.contains(&fault.order));
        orders.file_faults.clear();
        Ok(orders)
    }

    /// One order.
    pub async fn show_order(self: &Arc<Self>, typed: &str) -> Result<OrderView, Failure> {
        let id = self.find_order(typed).await?;
        self.settle_orders().await?;
        let order = self.store.order(&id).await.or_fail()?;
        let spec = decode(&order)?;
        let wait = match order.state {
            OrderState::Queued => waiting(&self.picture(Look::ToShow, At::now()).await?, &id),
            _ => None,
        };
        self.view_order(&order, &spec, wait, false).await
    }

    /// How the queue stands.
    pub(super) async fn queue_view(&self) -> Result<QueueView, Failure> {
        let picture = self.picture(Look::ToShow, At::now()).await?;
        self.queue_of(&picture).await
    }

    async fn queue_of(&self, picture: &Picture) -> Result<QueueView, Failure> {
        let limits = self.limits().await?;
        let pauses = self.pauses().await?;
        let book = self.book(&limits, At::now()).await?;
        let waiting = picture
            .orders
            .values()
            .filter(|(order, spec)| {
                order.state == OrderState::Queued && spec.hints.recurrence.is_none()
            })
            .count();
        let watched = self.store.watched_folders().await.or_fail()?;
        Ok(QueueView {
            dispatching: self.dispatches(),
            waiting: u32::try_from(waiting).unwrap_or(u32::MAX),
            paused: pauses.all,
            paused_repos: pauses.repos.into_values().collect(),
            limits,
            tokens_used: sum(&book, |amounts| amounts.tokens),
            cost_used_micros: sum(&book, |amounts| amounts.cost_micros),
            wall_used_seconds: sum(&book, |amounts| amounts.wall_seconds),
            watched: watched.into_iter().map(PathBuf::from).collect(),
        })
    }

    async fn view_order(
        &self,
        order: &StoredOrder,
        spec: &OrderSpec,
        wait: Option<Waiting>,
        is_listed: bool,
    ) -> Result<OrderView, Failure> {
        let last_run = match &order.run {
            // One unreadable record never hides the others.
            Some(run) => match self.view_of(run).await {
                Ok(view) => Some(view),
                Err(error) => {
                    tracing::warn!(%run, %error, "a run cannot be shown");
                    None
                }
            },
            None => None,
        };
        let runs = match last_run.is_some() && !is_listed {
            true => self.store.runs_of_order(&order.id).await.or_fail()?,
            false => order.run.clone().into_iter().collect(),
        };
        let prompt = spec.prompt.as_ref().map(|prompt| match is_listed {
            true => prompt.chars().take(LISTED_PROMPT).collect(),
            false => prompt.clone(),
        });
        let next_slot = match (&spec.hints.recurrence, &order.state) {
            (Some(recurrence), OrderState::Queued) => {
                slots::next(order, recurrence, spec.hints.not_before)
            }
            _ => None,
        };
        Ok(OrderView {
            id: order.id.clone(),
            title: order.title.clone(),
            state: order.state.clone(),
            wait,
            repo: spec.run.repo.clone(),
            base: spec.run.base.clone(),
            argv: spec.run.argv.clone(),
            prompt,
            hints: spec.hints.clone(),
            scope: spec.scope.clone(),
            depends_on: spec.depends_on.clone(),
            parent: spec.parent.clone(),
            gate: spec.gate,
            checks: spec.run.checks.clone(),
            group: order.group.clone(),
            attempts: order.attempts,
            schedule: order.slot.as_ref().map(|(schedule, _)| schedule.clone()),
            next_slot,
            source: order.source.clone(),
            created_at: order.created_at,
            last_run,
            runs,
        })
    }

    async fn file_faults(&self) -> Result<Vec<FileFault>, Failure> {
        let watched = self.store.watched_folders().await.or_fail()?;
        let files = self.store.order_files().await.or_fail()?;
        Ok(files
            .into_iter()
            .filter(|file| watched.contains(&file.folder))
            .filter_map(|file| {
                Some(FileFault {
                    file: file.path,
                    message: file.fault?,
                })
            })
            .collect())
    }
}

/// What runs or waits for a review, what is next, what waits; recurring ones last.
fn in_order(picture: &Picture) -> Vec<OrderId> {
    let mut ids: Vec<OrderId> = picture
        .orders
        .values()
        .filter(|(order, _)| order.state != OrderState::Queued)
        .map(|(order, _)| order.clone())
        .map(|order| order.id)
        .collect();
    ids.extend(picture.decision.start.iter().cloned());
    ids.extend(picture.decision.waiting.iter().map(|(id, _)| id.clone()));
    let recurs = |apart: &&(OrderId, bool)| apart.1;
    let apart: Vec<(OrderId, bool)> = picture
        .apart
        .iter()
        .map(|(id, reason)| (id.clone(), reason.is_none()))
        .collect();
    ids.extend(
        apart
            .iter()
            .filter(|one| !recurs(one))
            .map(|(id, _)| id.clone()),
    );
    ids.extend(apart.iter().filter(recurs).map(|(id, _)| id.clone()));
    // Being started right now, or not known to the decision: shown all the same.
    let rest: Vec<OrderId> = picture
        .orders
        .keys()
        .filter(|id| !ids.contains(id))
        .cloned()
        .collect();
    ids.extend(rest);
    ids
}

fn waiting(picture: &Picture, id: &OrderId) -> Option<Waiting> {
    let decided = picture
        .decision
        .waiting
        .iter()
        .find(|(waiting, _)| waiting == id);
    let reason: Option<WaitReason> = match decided {
        Some((_, reason)) => Some(reason.clone()),
        None => picture.apart.get(id).cloned().flatten(),
    };
    reason.map(|reason| Waiting {
        words: reason.words(),
        reason,
    })
}

fn faults(picture: &Picture) -> Vec<FaultyOrder> {
    let unreadable = picture.unreadable.iter().map(|(id, failure)| {
        let message = failure.message.clone();
        (id.clone(), OrderFault::Unusable { message })
    });
    picture
        .decision
        .errors
        .iter()
        .cloned()
        .chain(unreadable)
        .map(|(order, fault)| FaultyOrder {
            order,
            words: fault.to_string(),
            fault,
        })
        .collect()
}

/// So much of something counts in the book.
fn sum(book: &[BudgetUse], of: impl Fn(&Amounts) -> u64) -> u64 {
    let amounts = book.iter().map(|line| of(&line.amounts));
    amounts.fold(0, u64::saturating_add)
}
