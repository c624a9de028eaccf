//! Runs of the past: many of them, or large ones, put into a store that an engine made, as copies of a run that
//! the product ran.

use anyhow::{Context, Result};
use foreman_domain::{At, Epoch, Event, EventSeq, Fence, OrderId, RunId};
use foreman_policy::Policy;
use foreman_store::{FIRST_CLAIM, NewRun, Store};
use foreman_testkit::{PATIENCE, Product, eventually, repos};

/// Where past runs are added to.
#[derive(Debug)]
pub struct Past {
    /// The product's own store, which no engine holds meanwhile.
    pub store: Store,
    epoch: Epoch,
    details: String,
    events: Vec<Event>,
}

impl Past {
    /// Lets the product run one run, waits until no engine is up, and gives its store to `add`.
    ///
    /// # Errors
    /// The run failed, an engine stays up, or the store refuses.
    pub fn of<T>(product: &Product<'_>, add: impl AsyncFnOnce(&Self) -> Result<T>) -> Result<T> {
        let bench = product.bench();
        product.run_to_end(&repos::plain(bench, "past")?, &[], &["true"])?;
        let state = product.data().join("state");
        let lock = std::fs::File::open(state.join("engine.lock"))?;
        eventually("no engine is up", PATIENCE, || lock.try_lock().is_ok())?;
        lock.unlock()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        let added = runtime.block_on(async {
            let store = Store::open(&state.join("foreman.db")).await?;
            let pattern = store.runs(1).await?.pop().context("no run")?;
            let page = store.events(&pattern.id, EventSeq(0), 512, &[]).await?;
            let past = Self {
                epoch: store.take_epoch().await?,
                store,
                details: pattern.details,
                events: page.events,
            };
            let added = add(&past).await?;
            past.store.release(past.epoch).await?;
            past.store.close().await;
            anyhow::Ok(added)
        })?;
        for name in ["foreman.db", "foreman.db-wal", "foreman.db-shm"] {
            let path = state.join(name);
            if path.exists() {
                bench.own(&path)?;
            }
        }
        Ok(added)
    }

    /// What writes to the runs carry.
    #[must_use]
    pub fn fence(&self) -> Fence {
        Fence {
            engine: self.epoch,
            run: FIRST_CLAIM,
        }
    }

    /// One more run like the product's own, and the number of its last event.
    ///
    /// # Errors
    /// The store refuses.
    pub async fn run(&self, bits: u64, title: &str) -> Result<(RunId, EventSeq)> {
        let id = RunId::from_random(bits);
        let new = NewRun {
            order: OrderId::of_single_run(&id),
            id: id.clone(),
            repo_key: "past".into(),
            title: title.to_owned(),
            details: self.details.clone(),
            base_policy: Policy::default(),
            at: At::from_millis(1_700_000_000_000),
            key: None,
            follows: None,
        };
        self.store.insert_run(self.epoch, &new).await?;
        let own = |event: &Event| Event {
            run: id.clone(),
            ..event.clone()
        };
        let own: Vec<_> = self.events.iter().map(own).collect();
        self.store.ingest(self.fence(), &id, &own).await?;
        let last = own.last().map_or(EventSeq(0), |event| event.seq);
        Ok((id, last))
    }
}
