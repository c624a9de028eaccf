//! How orders move on: claimed by a run, tried again, ended, wished for; and the budget's book.
//!
//! A claim is part of the transaction that records the run ([`Store::insert_run`]), so an order never
//! has two live runs and no run is ever left without its order knowing of it.

use crate::error::{During, write};
use crate::open::unsigned;
use crate::orders::{NewOrder, insert, state_in};
use crate::{Store, StoreError};
use foreman_domain::{At, Epoch, OrderEvent, OrderId, OrderState, RunId};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, Sqlite, Transaction};

/// What a move of an order brings with it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OrderMove {
    /// When and why it is tried again.
    pub retry: Option<(At, String)>,
    /// The last run does not count: nothing of it was started.
    pub uncounted: bool,
    /// The run whose end this follows from: refused when the order has another one by now.
    pub of_run: Option<RunId>,
}

/// A line of the budget's book.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredReservation {
    /// The order.
    pub order: OrderId,
    /// Which attempt of it, from 1.
    pub attempt: u32,
    /// What is reserved or, once settled, was spent; opaque here.
    pub amounts: String,
    /// When it was settled.
    pub settled: Option<At>,
}

impl Store {
    /// Moves an order on, by the table of [`OrderState`].
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`], [`StoreError::NoOrder`]; [`StoreError::OrderMoved`] when the table
    /// does not have it; [`StoreError::Statement`] and [`StoreError::DiskFull`].
    pub async fn advance_order(
        &self,
        epoch: Epoch,
        id: &OrderId,
        event: OrderEvent,
        brings: &OrderMove,
        at: At,
    ) -> Result<OrderState, StoreError> {
        let what = "move an order on";
        let mut tx = self.write(epoch).await?;
        let state = state_in(&mut tx, id).await?;
        let has_another = match (&state, &brings.of_run) {
            (OrderState::Dispatched { run }, Some(wanted)) => run != wanted,
            _ => false,
        };
        if has_another {
            return Err(StoreError::OrderMoved {
                order: id.clone(),
                state: state.tag(),
            });
        }
        let next = state.next(event).map_err(|_| StoreError::OrderMoved {
            order: id.clone(),
            state: state.tag(),
        })?;
        let run = match &next {
            OrderState::Dispatched { run } => Some(run.as_str()),
            OrderState::Queued
            | OrderState::Done { .. }
            | OrderState::Failed { .. }
            | OrderState::Cancelled => None,
        };
        sqlx::query(
            "UPDATE work_orders SET state = ?1, state_json = ?2, run = coalesce(?3, run),
                 attempts = max(attempts - ?4, 0),
                 retry_at = ?5, retry_why = ?6, manual = 0, fault = NULL, fault_at = NULL,
                 faults = 0, changed_at = ?7
             WHERE id = ?8",
        )
        .bind(next.tag())
        .bind(write("state of an order", &next)?)
        .bind(run)
        .bind(i64::from(brings.uncounted))
        .bind(brings.retry.as_ref().map(|(at, _)| at.as_millis()))
        .bind(brings.retry.as_ref().map(|(_, why)| why))
        .bind(at.as_millis())
        .bind(id.as_str())
        .execute(&mut *tx)
        .await
        .during(what)?;
        tx.commit().await.during(what)?;
        Ok(next)
    }

    /// Gives an order that waits for one run's review to a run that goes on from that one. Does nothing
    /// when the order is not that run's, or there is none.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`]; [`StoreError::Statement`] and [`StoreError::DiskFull`].
    pub async fn hand_over_order(
        &self,
        epoch: Epoch,
        id: &OrderId,
        from: &RunId,
        to: &RunId,
    ) -> Result<(), StoreError> {
        let what = "hand an order over";
        let mut tx = self.write(epoch).await?;
        let next = OrderState::Dispatched { run: to.clone() };
        sqlx::query(
            "UPDATE work_orders SET state_json = ?, run = ?
             WHERE id = ? AND state = 'dispatched' AND run = ?",
        )
        .bind(write("state of an order", &next)?)
        .bind(to.as_str())
        .bind(id.as_str())
        .bind(from.as_str())
        .execute(&mut *tx)
        .await
        .during(what)?;
        tx.commit().await.during(what)
    }

    /// Notes that an order cannot be dispatched as it is.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`]; [`StoreError::Statement`] and [`StoreError::DiskFull`].
    pub async fn fault_order(
        &self,
        epoch: Epoch,
        id: &OrderId,
        message: &str,
        at: At,
    ) -> Result<(), StoreError> {
        let what = "note a fault of an order";
        let mut tx = self.write(epoch).await?;
        sqlx::query(
            "UPDATE work_orders SET fault = ?, fault_at = ?, faults = faults + 1, manual = 0
             WHERE id = ? AND state = 'queued'",
        )
        .bind(message)
        .bind(at.as_millis())
        .bind(id.as_str())
        .execute(&mut *tx)
        .await
        .during(what)?;
        tx.commit().await.during(what)
    }

    /// Notes that the operator wants an order started, so that the wish survives this engine.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`], [`StoreError::NoOrder`], [`StoreError::OrderMoved`];
    /// [`StoreError::Statement`] and [`StoreError::DiskFull`].
    pub async fn ask_dispatch(&self, epoch: Epoch, id: &OrderId) -> Result<(), StoreError> {
        let what = "note that an order is wanted";
        let mut tx = self.write(epoch).await?;
        let rows = sqlx::query(
            "UPDATE work_orders SET manual = 1, fault = NULL, fault_at = NULL, faults = 0
             WHERE id = ? AND state = 'queued'",
        )
        .bind(id.as_str())
        .execute(&mut *tx)
        .await
        .during(what)?
        .rows_affected();
        if rows == 0 {
            let state = state_in(&mut tx, id).await?;
            return Err(StoreError::OrderMoved {
                order: id.clone(),
                state: state.tag(),
            });
        }
        tx.commit().await.during(what)
    }

    /// Records what is made of a recurring order's slots, and that all up to `until` are dealt with.
    /// A slot that has an order already gets no second one.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`], [`StoreError::OrderExists`]; [`StoreError::Statement`] and
    /// [`StoreError::DiskFull`].
    pub async fn add_slots(
        &self,
        epoch: Epoch,
        schedule: &OrderId,
        until: At,
        orders: &[NewOrder],
    ) -> Result<(), StoreError> {
        let what = "record the slots of a schedule";
        let mut tx = self.write(epoch).await?;
        for order in orders {
            let Some((_, slot)) = &order.slot else {
                continue;
            };
            let known = sqlx::query("SELECT 1 FROM work_orders WHERE schedule = ? AND slot = ?")
                .bind(schedule.as_str())
                .bind(slot.as_millis())
                .fetch_optional(&mut *tx)
                .await
                .during(what)?;
            if known.is_none() {
                insert(&mut tx, order).await?;
            }
        }
        sqlx::query(
            "UPDATE work_orders SET slots_until = max(coalesce(slots_until, ?1), ?1)
             WHERE id = ?2",
        )
        .bind(until.as_millis())
        .bind(schedule.as_str())
        .execute(&mut *tx)
        .await
        .during(what)?;
        tx.commit().await.during(what)
    }

    /// Reserves what an attempt may use; said again, the newer figures count.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`]; [`StoreError::Statement`] and [`StoreError::DiskFull`].
    pub async fn reserve(
        &self,
        epoch: Epoch,
        order: &OrderId,
        attempt: u32,
        amounts: &str,
    ) -> Result<(), StoreError> {
        let what = "reserve a budget";
        let mut tx = self.write(epoch).await?;
        sqlx::query(
            "INSERT INTO reservations (order_id, attempt, amounts) VALUES (?, ?, ?)
             ON CONFLICT (order_id, attempt)
                 DO UPDATE SET amounts = excluded.amounts, settled_at = NULL",
        )
        .bind(order.as_str())
        .bind(i64::from(attempt))
        .bind(amounts)
        .execute(&mut *tx)
        .await
        .during(what)?;
        tx.commit().await.during(what)
    }

    /// Settles a reservation by what was used; `None` when nothing was, because nothing started.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`]; [`StoreError::Statement`] and [`StoreError::DiskFull`].
    pub async fn settle_reservation(
        &self,
        epoch: Epoch,
        order: &OrderId,
        attempt: u32,
        used: Option<(&str, At)>,
    ) -> Result<(), StoreError> {
        let what = "settle a budget";
        let mut tx = self.write(epoch).await?;
        let query = match used {
            Some((amounts, at)) => sqlx::query(
                "UPDATE reservations SET amounts = ?, settled_at = ?
                 WHERE order_id = ? AND attempt = ? AND settled_at IS NULL",
            )
            .bind(amounts.to_owned())
            .bind(at.as_millis()),
            None => sqlx::query(
                "DELETE FROM reservations WHERE order_id = ? AND attempt = ? AND settled_at IS NULL",
            ),
        };
        query
            .bind(order.as_str())
            .bind(i64::from(attempt))
            .execute(&mut *tx)
            .await
            .during(what)?;
        tx.commit().await.during(what)
    }

    /// What is reserved and not settled.
    ///
    /// # Errors
    /// [`StoreError::Statement`].
    pub async fn open_reservations(&self) -> Result<Vec<StoredReservation>, StoreError> {
        let rows = sqlx::query(
            "SELECT order_id, attempt, amounts, settled_at FROM reservations
             WHERE settled_at IS NULL ORDER BY order_id, attempt",
        )
        .fetch_all(&self.reader)
        .await
        .during("read the budget's book")?;
        Ok(rows.iter().map(reservation).collect())
    }

    /// Orders whose discarded result was brought back, and the run that has it.
    ///
    /// # Errors
    /// [`StoreError::Statement`].
    pub async fn restored_orders(&self) -> Result<Vec<(OrderId, RunId)>, StoreError> {
        let rows = sqlx::query(
            "SELECT w.id, r.id FROM work_orders AS w JOIN runs AS r ON r.id = w.run
             WHERE w.state = 'failed' AND r.state = 'review'
                 AND json_extract(w.state_json, '$.why.failure') = 'discarded'",
        )
        .fetch_all(&self.reader)
        .await
        .during("look for orders that were brought back")?;
        Ok(rows
            .iter()
            .filter_map(|row| {
                let run = row.get::<&str, _>(1).parse().ok()?;
                Some((OrderId::from(row.get::<String, _>(0)), run))
            })
            .collect())
    }

    /// The budget's book: what is open, and what was settled since.
    ///
    /// # Errors
    /// [`StoreError::Statement`].
    pub async fn reservations_since(
        &self,
        since: At,
    ) -> Result<Vec<StoredReservation>, StoreError> {
        let rows = sqlx::query(
            "SELECT order_id, attempt, amounts, settled_at FROM reservations
             WHERE settled_at IS NULL OR settled_at >= ? ORDER BY order_id, attempt",
        )
        .bind(since.as_millis())
        .fetch_all(&self.reader)
        .await
        .during("read the budget's book")?;
        Ok(rows.iter().map(reservation).collect())
    }
}

fn reservation(row: &SqliteRow) -> StoredReservation {
    StoredReservation {
        order: OrderId::from(row.get::<String, _>(0)),
        attempt: u32::try_from(unsigned(row.get(1))).unwrap_or(u32::MAX),
        amounts: row.get(2),
        settled: row.get::<Option<i64>, _>(3).map(At::from_millis),
    }
}

/// Claims an order for a run, inside the transaction that records the run. The order of a single
/// run has nothing to claim but that it has no other live run.
pub(crate) async fn claim(
    tx: &mut Transaction<'_, Sqlite>,
    order: &OrderId,
    run: &RunId,
    follows: Option<&RunId>,
    at: At,
) -> Result<(), StoreError> {
    let what = "claim an order";
    let live = sqlx::query(
        "SELECT id FROM runs WHERE order_id = ? AND id <> ?
             AND state IN ('provisioning', 'running', 'stopping')",
    )
    .bind(order.as_str())
    .bind(run.as_str())
    .fetch_optional(&mut **tx)
    .await
    .during(what)?;
    if let Some(row) = live {
        return Err(StoreError::OrderHasRun {
            order: order.clone(),
            run: row.get(0),
        });
    }
    let state = match state_in(tx, order).await {
        Ok(state) => state,
        Err(StoreError::NoOrder(_)) => return Ok(()),
        Err(error) => return Err(error),
    };
    if let (OrderState::Dispatched { run: now }, Some(follows)) = (&state, follows)
        && now == follows
    {
        return Ok(());
    }
    let next = state
        .next(OrderEvent::Claimed { run: run.clone() })
        .map_err(|_| StoreError::OrderMoved {
            order: order.clone(),
            state: state.tag(),
        })?;
    sqlx::query(
        "UPDATE work_orders SET state = ?, state_json = ?, run = ?, attempts = attempts + 1,
             retry_at = NULL, retry_why = NULL, manual = 0, fault = NULL, fault_at = NULL,
             faults = 0, changed_at = ?
         WHERE id = ? AND state = 'queued'",
    )
    .bind(next.tag())
    .bind(write("state of an order", &next)?)
    .bind(run.as_str())
    .bind(at.as_millis())
    .bind(order.as_str())
    .execute(&mut **tx)
    .await
    .during(what)?;
    Ok(())
}
