//! Recurring orders: each slot that is due becomes an order of its own, once.
//!
//! A recurring order itself never runs. Its slots run one at a time unless it names a concurrency
//! class of its own.

use super::record::{decode, encode};
use crate::api::OrderSpec;
use crate::engine::Engine;
use crate::failures::{OrFail, internal};
use foreman_domain::{At, Failure, OrderId};
use foreman_schedule::Recurrence;
use foreman_store::{NewOrder, StoredOrder};
use jiff::tz::TimeZone;

/// Says why a recurrence cannot be used, as a sentence.
pub(super) fn check(recurrence: &Recurrence) -> Result<(), String> {
    recurrence.check().map_err(|error| error.to_string())?;
    zone(recurrence).map(drop)
}

/// The time zone that a recurrence is read in.
pub(super) fn zone(recurrence: &Recurrence) -> Result<TimeZone, String> {
    match &recurrence.zone {
        None => Ok(TimeZone::system()),
        Some(name) => TimeZone::get(name).map_err(|_| {
            let name = super::tree::shown(name);
            format!("\"{name}\" is no time zone that is known here")
        }),
    }
}

/// Slots up to here are dealt with: those before the order was handed in never were any.
fn taken(order: &StoredOrder, not_before: Option<At>) -> At {
    let begin = order.slots_until.unwrap_or(order.created_at);
    match not_before {
        // A slot at that very time counts.
        Some(at) => begin.max(At::from_millis(at.as_millis().saturating_sub(1))),
        None => begin,
    }
}

/// The next slot of a recurring order.
pub(super) fn next(
    order: &StoredOrder,
    recurrence: &Recurrence,
    not_before: Option<At>,
) -> Option<At> {
    let zone = zone(recurrence).ok()?;
    let after = taken(order, not_before).max(At::now());
    recurrence.next(&zone, after).ok().flatten()
}

impl Engine {
    /// Makes the orders of slots that are due; true when slots passed, taken or skipped.
    pub(super) async fn make_slots(
        &self,
        order: &StoredOrder,
        spec: &OrderSpec,
        now: At,
    ) -> Result<bool, Failure> {
        let Some(recurrence) = &spec.hints.recurrence else {
            return Ok(false);
        };
        let zone = zone(recurrence).map_err(internal)?;
        let due = recurrence
            .due(&zone, taken(order, spec.hints.not_before), now)
            .map_err(internal)?;
        let Some(through) = due.through else {
            return Ok(false);
        };
        let orders = due
            .run
            .iter()
            .map(|slot| of_slot(order, *slot, now))
            .collect::<Result<Vec<_>, _>>()?;
        self.store
            .add_slots(self.epoch, &order.id, through, &orders)
            .await
            .or_fail()?;
        for order in &orders {
            self.order_changed(&order.id);
        }
        Ok(true)
    }

    /// Makes an order of a recurring one now, whatever its slots.
    pub(super) async fn extra_slot(&self, order: &StoredOrder) -> Result<OrderId, Failure> {
        let now = At::now();
        let extra = of_slot(order, now, now)?;
        let id = extra.id.clone();
        let until = order.slots_until.unwrap_or(order.created_at);
        self.store
            .add_slots(self.epoch, &order.id, until, &[extra])
            .await
            .or_fail()?;
        self.order_changed(&id);
        Ok(id)
    }
}

/// The order of one slot: as the recurring one is now, without its recurrence.
fn of_slot(order: &StoredOrder, slot: At, now: At) -> Result<NewOrder, Failure> {
    let mut spec = decode(order)?;
    spec.hints.recurrence = None;
    spec.hints.not_before = None;
    let class = spec.hints.concurrency_class.take();
    spec.hints.concurrency_class = class.or_else(|| Some(format!("schedule:{}", order.id)));
    let time = slot.0.strftime("%Y%m%dT%H%M%SZ");
    Ok(NewOrder {
        id: format!("{}.{time}", order.id).parse().map_err(internal)?,
        repo_key: order.repo_key.clone(),
        title: order.title.clone(),
        spec: encode(&spec)?,
        parent: order.parent.clone(),
        group: None,
        source: order.source.clone(),
        slot: Some((order.id.clone(), slot)),
        at: now,
    })
}
