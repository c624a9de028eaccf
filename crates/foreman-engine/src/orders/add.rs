//! Handing orders in: all of a request are looked at before any is recorded, in one transaction.

use super::check::{Drafted, circle, expand};
use super::file;
use super::record::{encode, title_of};
use crate::api::{OrderAdd, OrderDraft, Orders};
use crate::create::unusable;
use crate::engine::Engine;
use crate::failures::{OrFail, internal, join};
use crate::policies::open_repository;
use foreman_domain::{About, At, Code, Failure, OrderId};
use foreman_store::{NewOrder, RequestKey};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Engine {
    /// Hands orders in. Nothing is recorded where one of them cannot be.
    pub async fn add_orders(
        self: &Arc<Self>,
        request: OrderAdd,
        key: &RequestKey,
    ) -> Result<Orders, Failure> {
        if let Some(before) = self.store.subject_of_request(key).await.or_fail()? {
            // Asked again after an engine went away.
            let ids: Vec<OrderId> = serde_json::from_str(&before).map_err(internal)?;
            return self.orders_named(&ids).await;
        }
        let drafts = drafts_of(request)?;
        let new = self.prepare_orders(drafts, None).await?;
        self.store
            .add_orders(self.epoch, &new, Some(key))
            .await
            .or_fail()?;
        let ids: Vec<OrderId> = new.into_iter().map(|order| order.id).collect();
        for id in &ids {
            self.order_changed(id);
        }
        self.orders_named(&ids).await
    }

    /// Looks at everything that could refuse drafts, and gives what to record.
    pub(super) async fn prepare_orders(
        &self,
        drafts: Vec<OrderDraft>,
        source: Option<&str>,
    ) -> Result<Vec<NewOrder>, Failure> {
        let mut orders = Vec::new();
        for draft in drafts {
            orders.extend(expand(draft, rand::random())?);
        }
        let mut ids = BTreeSet::new();
        for order in &orders {
            if !ids.insert(&order.id) {
                let message = format!("there are two orders with the id \"{}\"", order.id);
                return Err(
                    Failure::new(Code::BadInput, message).hint("Give each an id of its own.")
                );
            }
        }
        self.refuse_circles(&orders).await?;
        let mut new = Vec::with_capacity(orders.len());
        for order in &orders {
            new.push(NewOrder {
                id: order.id.clone(),
                repo_key: self.repo_key(order).await?,
                title: title_of(order),
                spec: encode(&order.spec)?,
                parent: order.spec.parent.clone(),
                group: order.group.clone(),
                source: source.map(str::to_owned),
                slot: None,
                at: At::now(),
            });
        }
        Ok(new)
    }

    /// Names the repository of an order, which must be there; so must the branch that the order names.
    pub(super) async fn repo_key(&self, order: &Drafted) -> Result<String, Failure> {
        let of_order = |failure: Failure| Failure {
            message: format!("order {}: {}", order.id, failure.message),
            ..failure
        };
        let run = &order.spec.run;
        let repo = open_repository(&run.repo)
            .await
            .map_err(|failure| of_order(failure.about(About::Repo)))?;
        let slug = repo.slug();
        if let Some(base) = run.base.clone() {
            let looking = tokio::task::spawn_blocking(move || repo.preflight(Some(&base)));
            let looked = looking.await.map_err(join)?;
            looked.map_err(|error| of_order(unusable(error, true)))?;
        }
        Ok(slug)
    }

    /// Refuses orders that would wait for each other for ever.
    pub(super) async fn refuse_circles(&self, new: &[Drafted]) -> Result<(), Failure> {
        if new.iter().all(|order| order.spec.depends_on.is_empty()) {
            return Ok(());
        }
        let (open, _) = self.open_orders().await?;
        let mut needs: BTreeMap<OrderId, Vec<OrderId>> = open
            .into_iter()
            .map(|(id, (_, spec))| (id, spec.depends_on))
            .collect();
        for order in new {
            needs.insert(order.id.clone(), order.spec.depends_on.clone());
        }
        let starts: Vec<OrderId> = new.iter().map(|order| order.id.clone()).collect();
        let Some(members) = circle(&needs, &starts) else {
            return Ok(());
        };
        let members: Vec<&str> = members.iter().map(OrderId::as_str).collect();
        Err(Failure::new(
            Code::BadInput,
            format!(
                "orders would wait for each other for ever: {}",
                members.join(", ")
            ),
        )
        .about(About::DependsOn)
        .hint("Take one of these dependencies out."))
    }
}

fn drafts_of(request: OrderAdd) -> Result<Vec<OrderDraft>, Failure> {
    match (request.draft, request.source) {
        (Some(draft), None) => Ok(vec![draft]),
        (None, Some(source)) => {
            if !source.folder.is_absolute() {
                return Err(Failure::new(
                    Code::Usage,
                    "the folder of an order file must be named by an absolute path",
                ));
            }
            file::parse(&source)
        }
        (Some(_), Some(_)) | (None, None) => Err(Failure::new(
            Code::Usage,
            "an order is given either by its fields or by a file",
        )),
    }
}
