//! Orders that were handed in: recorded, read, edited. How they move on is in [`crate::order_moves`].

use crate::error::{During, parse, write};
use crate::open::{remember_request, unsigned};
use crate::{RequestKey, Store, StoreError};
use foreman_domain::{At, Epoch, OrderId, OrderState, RunId};
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row, Sqlite, Transaction};

/// An order to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOrder {
    /// Its id; new.
    pub id: OrderId,
    /// Names its repository, however it was reached.
    pub repo_key: String,
    /// Its title.
    pub title: String,
    /// What was ordered; opaque here.
    pub spec: String,
    /// The order that it is a part of.
    pub parent: Option<OrderId>,
    /// Name of its group of attempts side by side.
    pub group: Option<String>,
    /// The file that it came from.
    pub source: Option<String>,
    /// The recurring order that made it, and for which slot.
    pub slot: Option<(OrderId, At)>,
    /// Now.
    pub at: At,
}

/// What of an order can be edited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderEdit {
    /// Names its repository.
    pub repo_key: String,
    /// Its title.
    pub title: String,
    /// What is ordered.
    pub spec: String,
    /// The order that it is a part of.
    pub parent: Option<OrderId>,
}

/// An order as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredOrder {
    /// Its id.
    pub id: OrderId,
    /// Names its repository.
    pub repo_key: String,
    /// Its title.
    pub title: String,
    /// What was ordered.
    pub spec: String,
    /// Where it stands.
    pub state: OrderState,
    /// The run that it has, or had last.
    pub run: Option<RunId>,
    /// The order that it is a part of.
    pub parent: Option<OrderId>,
    /// Name of its group of attempts side by side.
    pub group: Option<String>,
    /// Runs that counted.
    pub attempts: u32,
    /// When and why it is tried again.
    pub retry: Option<(At, String)>,
    /// The operator asked for it by hand, and it has not started yet.
    pub manual: bool,
    /// Why it could not be dispatched as it is.
    pub fault: Option<StoredFault>,
    /// The recurring order that made it, and for which slot.
    pub slot: Option<(OrderId, At)>,
    /// Of a recurring order: slots up to here are dealt with.
    pub slots_until: Option<At>,
    /// The file that it came from.
    pub source: Option<String>,
    /// When it was handed in.
    pub created_at: At,
    /// When it last changed.
    pub changed_at: At,
}

/// Why an order could not be dispatched as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFault {
    /// As a sentence.
    pub message: String,
    /// When that was found.
    pub at: At,
    /// How often in a row.
    pub times: u32,
}

/// Just enough of an order to know what others that name it may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderStanding {
    /// Its id.
    pub id: OrderId,
    /// Where it stands.
    pub state: OrderState,
    /// The order that it is a part of.
    pub parent: Option<OrderId>,
    /// Name of its group.
    pub group: Option<String>,
}

/// Which orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderFilter {
    /// Queued and dispatched ones, oldest first.
    Open,
    /// The newest ones of all, newest first, at most so many.
    Newest(u32),
}

const COLUMNS: &str = "SELECT w.id, o.repo_key, o.title, w.spec, w.state_json, w.run, w.parent, \
    w.group_name, w.attempts, w.retry_at, w.retry_why, w.manual, w.fault, w.fault_at, w.faults, \
    w.schedule, w.slot, w.slots_until, w.source, w.created_at, w.changed_at \
    FROM work_orders AS w JOIN orders AS o ON o.id = w.id ";

impl Store {
    /// Records orders: all of them, or none. The request's subject is a JSON array of their ids.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`], [`StoreError::OrderExists`]; [`StoreError::Statement`] and
    /// [`StoreError::DiskFull`].
    pub async fn add_orders(
        &self,
        epoch: Epoch,
        orders: &[NewOrder],
        key: Option<&RequestKey>,
    ) -> Result<(), StoreError> {
        let mut tx = self.write(epoch).await?;
        for order in orders {
            insert(&mut tx, order).await?;
        }
        if let Some(first) = orders.first() {
            let ids: Vec<&OrderId> = orders.iter().map(|order| &order.id).collect();
            let subject = write("list of orders", &ids)?;
            remember_request(&mut tx, key, &subject, first.at).await?;
        }
        tx.commit().await.during("record orders")
    }

    /// One order.
    ///
    /// # Errors
    /// [`StoreError::NoOrder`]; [`StoreError::Statement`] and [`StoreError::Unreadable`].
    pub async fn order(&self, id: &OrderId) -> Result<StoredOrder, StoreError> {
        let mut query = QueryBuilder::<Sqlite>::new(COLUMNS);
        query.push("WHERE w.id = ").push_bind(id.as_str());
        let row = query
            .build()
            .fetch_optional(&self.reader)
            .await
            .during("read an order")?
            .ok_or_else(|| StoreError::NoOrder(id.clone()))?;
        stored(&row)
    }

    /// Orders. One that is unreadable stands among them as its id and what is wrong with it, and
    /// never hides the others.
    ///
    /// # Errors
    /// [`StoreError::Statement`].
    pub async fn orders(
        &self,
        filter: OrderFilter,
    ) -> Result<Vec<Result<StoredOrder, (OrderId, StoreError)>>, StoreError> {
        let mut query = QueryBuilder::<Sqlite>::new(COLUMNS);
        match filter {
            OrderFilter::Open => {
                query.push("WHERE w.state IN ('queued', 'dispatched') ORDER BY w.number");
            }
            OrderFilter::Newest(limit) => {
                query
                    .push("ORDER BY w.number DESC LIMIT ")
                    .push_bind(i64::from(limit));
            }
        }
        let rows = query
            .build()
            .fetch_all(&self.reader)
            .await
            .during("read orders")?;
        Ok(rows
            .iter()
            .map(|row| stored(row).map_err(|error| (OrderId::from(row.get::<String, _>(0)), error)))
            .collect())
    }

    /// Orders of a group, in the order they were handed in.
    ///
    /// # Errors
    /// [`StoreError::Statement`] and [`StoreError::Unreadable`].
    pub async fn orders_of_group(&self, group: &str) -> Result<Vec<StoredOrder>, StoreError> {
        let mut query = QueryBuilder::<Sqlite>::new(COLUMNS);
        query
            .push("WHERE w.group_name = ")
            .push_bind(group)
            .push(" ORDER BY w.number");
        let rows = query
            .build()
            .fetch_all(&self.reader)
            .await
            .during("read orders")?;
        rows.iter().map(stored).collect()
    }

    /// Where every order stands, finished ones included.
    ///
    /// # Errors
    /// [`StoreError::Statement`].
    pub async fn order_standings(&self) -> Result<Vec<OrderStanding>, StoreError> {
        let rows = sqlx::query(
            "SELECT id, state_json, parent, group_name FROM work_orders ORDER BY number",
        )
        .fetch_all(&self.reader)
        .await
        .during("read orders")?;
        // An unreadable one is told of where it is listed; here it is one that is not done.
        Ok(rows
            .iter()
            .filter_map(|row| {
                Some(OrderStanding {
                    id: OrderId::from(row.get::<String, _>(0)),
                    state: parse("state of an order", row.get(1)).ok()?,
                    parent: row.get::<Option<String>, _>(2).map(OrderId::from),
                    group: row.get(3),
                })
            })
            .collect())
    }

    /// Orders whose id begins like this, newest first, at most `limit`.
    ///
    /// # Errors
    /// [`StoreError::Statement`].
    pub async fn orders_beginning(
        &self,
        prefix: &str,
        limit: u32,
    ) -> Result<Vec<OrderId>, StoreError> {
        let rows = sqlx::query(
            "SELECT id FROM work_orders WHERE substr(id, 1, length(?1)) = ?1
             ORDER BY number DESC LIMIT ?2",
        )
        .bind(prefix)
        .bind(i64::from(limit))
        .fetch_all(&self.reader)
        .await
        .during("look up an order")?;
        Ok(rows
            .iter()
            .map(|row| OrderId::from(row.get::<String, _>(0)))
            .collect())
    }

    /// Runs of an order, oldest first.
    ///
    /// # Errors
    /// [`StoreError::Statement`].
    pub async fn runs_of_order(&self, id: &OrderId) -> Result<Vec<RunId>, StoreError> {
        let rows = sqlx::query("SELECT id FROM runs WHERE order_id = ? ORDER BY number")
            .bind(id.as_str())
            .fetch_all(&self.reader)
            .await
            .during("read the runs of an order")?;
        Ok(rows
            .iter()
            .filter_map(|row| row.get::<&str, _>(0).parse().ok())
            .collect())
    }

    /// Changes an order that is queued; what kept it from being dispatched is looked at anew.
    ///
    /// # Errors
    /// [`StoreError::StaleEpoch`], [`StoreError::NoOrder`], [`StoreError::OrderMoved`];
    /// [`StoreError::Statement`] and [`StoreError::DiskFull`].
    pub async fn edit_order(
        &self,
        epoch: Epoch,
        id: &OrderId,
        edit: &OrderEdit,
        at: At,
    ) -> Result<(), StoreError> {
        let mut tx = self.write(epoch).await?;
        edit_in(&mut tx, id, edit, at).await?;
        tx.commit().await.during("edit an order")
    }
}

pub(crate) async fn edit_in(
    tx: &mut Transaction<'_, Sqlite>,
    id: &OrderId,
    edit: &OrderEdit,
    at: At,
) -> Result<(), StoreError> {
    let what = "edit an order";
    let rows = sqlx::query(
        "UPDATE work_orders SET spec = ?, parent = ?, changed_at = ?, fault = NULL,
             fault_at = NULL, faults = 0 WHERE id = ? AND state = 'queued'",
    )
    .bind(&edit.spec)
    .bind(edit.parent.as_ref().map(OrderId::as_str))
    .bind(at.as_millis())
    .bind(id.as_str())
    .execute(&mut **tx)
    .await
    .during(what)?
    .rows_affected();
    if rows == 0 {
        let state = state_in(tx, id).await?;
        return Err(StoreError::OrderMoved {
            order: id.clone(),
            state: state.tag(),
        });
    }
    sqlx::query("UPDATE orders SET repo_key = ?, title = ? WHERE id = ?")
        .bind(&edit.repo_key)
        .bind(&edit.title)
        .bind(id.as_str())
        .execute(&mut **tx)
        .await
        .during(what)?;
    Ok(())
}

/// Records one order inside a transaction.
pub(crate) async fn insert(
    tx: &mut Transaction<'_, Sqlite>,
    order: &NewOrder,
) -> Result<(), StoreError> {
    let what = "record an order";
    let new = sqlx::query(
        "INSERT INTO orders (id, repo_key, title, created_at) VALUES (?, ?, ?, ?)
         ON CONFLICT (id) DO NOTHING",
    )
    .bind(order.id.as_str())
    .bind(&order.repo_key)
    .bind(&order.title)
    .bind(order.at.as_millis())
    .execute(&mut **tx)
    .await
    .during(what)?
    .rows_affected();
    // Also when it is the order of a single run: two things of one name are never joined.
    if new == 0 {
        return Err(StoreError::OrderExists(order.id.clone()));
    }
    let state = OrderState::Queued;
    sqlx::query(
        "INSERT INTO work_orders (id, spec, state, state_json, parent, group_name, schedule, slot,
             source, created_at, changed_at)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(order.id.as_str())
    .bind(&order.spec)
    .bind(state.tag())
    .bind(write("state of an order", &state)?)
    .bind(order.parent.as_ref().map(OrderId::as_str))
    .bind(&order.group)
    .bind(order.slot.as_ref().map(|(schedule, _)| schedule.as_str()))
    .bind(order.slot.as_ref().map(|(_, slot)| slot.as_millis()))
    .bind(&order.source)
    .bind(order.at.as_millis())
    .bind(order.at.as_millis())
    .execute(&mut **tx)
    .await
    .during(what)?;
    Ok(())
}

/// Where an order stands, inside a transaction.
pub(crate) async fn state_in(
    tx: &mut Transaction<'_, Sqlite>,
    id: &OrderId,
) -> Result<OrderState, StoreError> {
    let row = sqlx::query("SELECT state_json FROM work_orders WHERE id = ?")
        .bind(id.as_str())
        .fetch_optional(&mut **tx)
        .await
        .during("read an order")?
        .ok_or_else(|| StoreError::NoOrder(id.clone()))?;
    parse("state of an order", row.get(0))
}

fn stored(row: &SqliteRow) -> Result<StoredOrder, StoreError> {
    let time = |index: usize| row.get::<Option<i64>, _>(index).map(At::from_millis);
    let count = |index: usize| u32::try_from(unsigned(row.get(index))).unwrap_or(u32::MAX);
    let run: Option<&str> = row.get(5);
    let order = |index: usize| row.get::<Option<String>, _>(index).map(OrderId::from);
    Ok(StoredOrder {
        id: OrderId::from(row.get::<String, _>(0)),
        repo_key: row.get(1),
        title: row.get(2),
        spec: row.get(3),
        state: parse("state of an order", row.get(4))?,
        run: run
            .map(|run| parse("run id", &format!("\"{run}\"")))
            .transpose()?,
        parent: order(6),
        group: row.get(7),
        attempts: count(8),
        retry: time(9).zip(row.get(10)),
        manual: row.get::<i64, _>(11) != 0,
        fault: row.get::<Option<String>, _>(12).map(|message| StoredFault {
            message,
            at: time(13).unwrap_or(At::from_millis(0)),
            times: count(14),
        }),
        slot: order(15).zip(time(16)),
        slots_until: time(17),
        source: row.get(18),
        created_at: At::from_millis(row.get(19)),
        changed_at: At::from_millis(row.get(20)),
    })
}
