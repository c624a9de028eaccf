//! The engine's state, and the command list answered from it.

use crate::HostOptions;
use crate::api::*;
use crate::layout::Layout;
use crate::live::LiveRuns;
use crate::news::News;
use foreman_domain::{Epoch, Failure, RunId};
use foreman_store::{RequestKey, Store};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OwnedMutexGuard;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The engine of one data directory, while this process holds it.
#[derive(Debug)]
pub(crate) struct Engine {
    pub options: HostOptions,
    pub layout: Layout,
    pub store: Store,
    pub epoch: Epoch,
    /// Runs whose shims are followed.
    pub live: LiveRuns,
    /// Tells waiting readers that a run has news.
    pub news: News,
    /// Every task that must end before the data directory is given back.
    pub tasks: TaskTracker,
    /// Fires when hosting ends.
    pub cancel: CancellationToken,
    turns: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Engine {
    pub fn new(options: HostOptions, layout: Layout, store: Store, epoch: Epoch) -> Arc<Self> {
        Arc::new(Self {
            options,
            layout,
            store,
            epoch,
            live: LiveRuns::default(),
            news: News::default(),
            tasks: TaskTracker::new(),
            cancel: CancellationToken::new(),
            turns: Mutex::default(),
        })
    }

    /// A turn at a run: what begins, ends, merges or removes it happens one after the other.
    pub async fn turn(&self, run: &RunId) -> OwnedMutexGuard<()> {
        self.turn_at(run.as_str()).lock_owned().await
    }

    /// A turn at a run, if nobody has it.
    pub fn try_turn(&self, run: &RunId) -> Option<OwnedMutexGuard<()>> {
        self.turn_at(run.as_str()).try_lock_owned().ok()
    }

    fn turn_at(&self, what: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, lock| Arc::strong_count(lock) > 1);
        Arc::clone(turns.entry(what.to_owned()).or_default())
    }
}

/// One request of one caller.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub engine: Arc<Engine>,
    /// Stays the same however often the caller has to ask.
    pub key: RequestKey,
}

impl Session {
    /// Held while a request is answered that must not be done twice: the same request on another
    /// connection waits, and then finds what the first one did.
    async fn once(&self) -> OwnedMutexGuard<()> {
        self.engine
            .turn_at(&format!("request {}", self.key.0))
            .lock_owned()
            .await
    }
}

impl Commands for Session {
    async fn run_create(&self, request: RunCreate) -> Result<RunView, Failure> {
        let _once = self.once().await;
        self.engine.create_run(None, request, &self.key).await
    }
    async fn run_list(&self, request: RunList) -> Result<Runs, Failure> {
        self.engine.list_runs(request).await
    }
    async fn run_show(&self, request: RunRef) -> Result<RunView, Failure> {
        let run = self.engine.find_run(&request.run).await?;
        self.engine.view_of(&run).await
    }
    async fn run_events(&self, request: EventsRequest) -> Result<EventPage, Failure> {
        self.engine.page_of_events(request).await
    }
    async fn run_stop(&self, request: RunRef) -> Result<RunView, Failure> {
        self.engine.stop_run(&request.run).await
    }
    async fn run_diff(&self, request: RunRef) -> Result<DiffView, Failure> {
        self.engine.diff(&request.run).await
    }
    async fn run_merge(&self, request: MergeRequest) -> Result<RunView, Failure> {
        let _once = self.once().await;
        self.engine.merge(request, &self.key).await
    }
    async fn run_discard(&self, request: RunRef) -> Result<RunView, Failure> {
        self.engine.discard(&request.run).await
    }
    async fn run_restore(&self, request: RunRef) -> Result<RunView, Failure> {
        let _once = self.once().await;
        self.engine.restore(&request.run, &self.key).await
    }
    async fn run_input(&self, request: InputRequest) -> Result<Nothing, Failure> {
        self.engine.input(request).await
    }
    async fn run_resize(&self, request: ResizeRequest) -> Result<Nothing, Failure> {
        self.engine.resize(request).await
    }
    async fn block_list(&self, request: BlockList) -> Result<Blocks, Failure> {
        self.engine.list_blocks(request).await
    }
    async fn block_show(&self, request: BlockRef) -> Result<BlockView, Failure> {
        self.engine.show_block(&request.block).await
    }
    async fn block_amend(&self, request: AmendRequest) -> Result<Decided, Failure> {
        let _once = self.once().await;
        self.engine.amend(request, &self.key).await
    }
    async fn block_deny(&self, request: DenyRequest) -> Result<Decided, Failure> {
        let _once = self.once().await;
        self.engine.deny(request, &self.key).await
    }
    async fn undo(&self, request: UndoRequest) -> Result<Decided, Failure> {
        let _once = self.once().await;
        self.engine.undo(request, &self.key).await
    }
    async fn policy_revoke(&self, request: RevokeRequest) -> Result<Decided, Failure> {
        let _once = self.once().await;
        self.engine.revoke(request, &self.key).await
    }
    async fn policy_show(&self, request: PolicyQuery) -> Result<PolicyView, Failure> {
        self.engine.show_policy(request).await
    }
    async fn policy_why(&self, request: PolicyWhy) -> Result<Explanation, Failure> {
        self.engine.explain(request).await
    }
    async fn policy_trust(&self, request: TrustRequest) -> Result<TrustView, Failure> {
        self.engine.trust(request).await
    }
    async fn policy_write(&self, request: RevokeRequest) -> Result<TrustView, Failure> {
        self.engine.write_policy(request).await
    }
    async fn doctor(&self, request: DoctorRequest) -> Result<DoctorReport, Failure> {
        self.engine.doctor(request).await
    }
}
