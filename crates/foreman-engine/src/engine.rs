//! The engine's state, and the command list answered from it.

use crate::HostOptions;
use crate::api::*;
use crate::awake::Awake;
use crate::layout::Layout;
use crate::lease::Lease;
use crate::live::LiveRuns;
use crate::news::News;
use crate::orders::Queue;
use crate::provision::Fetches;
use crate::recent::Recent;
use crate::runs::Behind;
use crate::service::Service;
use crate::toolchains::LoginPath;
use foreman_domain::{Epoch, Failure, RunId};
use foreman_runner::RunnerContext;
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
    /// How sure this engine is to be in charge.
    pub lease: Lease,
    /// Whether this process hosts for its own sake, and how that ends.
    pub service: Service,
    /// Where runs are carried.
    pub runner: Arc<dyn RunnerContext>,
    /// Whether the machine is kept awake.
    pub awake: Awake,
    /// Runs whose shims are followed.
    pub live: LiveRuns,
    /// Orders that are being started, and what wakes the queue.
    pub queue: Queue,
    /// Tells waiting readers that a run has news.
    pub news: News,
    /// What remotes answered lately.
    pub fetches: Fetches,
    /// What is known of base branches that moved.
    pub behind: Behind,
    /// Every task that must end before the data directory is given back.
    pub tasks: TaskTracker,
    /// Decisions of this process, for undoing by a clock that does not jump.
    pub decided: Recent,
    /// Where the operator's login shell looks for programs.
    pub login_path: LoginPath,
    /// Fires when hosting ends.
    pub cancel: CancellationToken,
    turns: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Engine {
    pub fn new(
        options: HostOptions,
        layout: Layout,
        store: Store,
        epoch: Epoch,
        lease: Lease,
    ) -> Arc<Self> {
        Arc::new(Self {
            runner: crate::carrying::context(&options),
            awake: Awake::default(),
            options,
            layout,
            store,
            epoch,
            lease,
            service: Service::default(),
            live: LiveRuns::default(),
            queue: Queue::default(),
            news: News::default(),
            fetches: Fetches::default(),
            behind: Behind::default(),
            tasks: TaskTracker::new(),
            decided: Recent::default(),
            login_path: LoginPath::default(),
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

    /// A turn at anything that has a name.
    pub fn turn_at(&self, what: &str) -> Arc<tokio::sync::Mutex<()>> {
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
        self.engine.show_run(&run).await
    }
    async fn run_details(&self, request: RunRef) -> Result<RunDetailsView, Failure> {
        self.engine.run_in_full(&request.run).await
    }
    async fn run_samples(&self, request: SamplesRequest) -> Result<Samples, Failure> {
        self.engine.samples(request).await
    }
    async fn run_events(&self, request: EventsRequest) -> Result<EventPage, Failure> {
        self.engine.page_of_events(request).await
    }
    async fn run_stop(&self, request: RunRef) -> Result<RunView, Failure> {
        self.engine.stop_run(&request.run).await
    }
    async fn run_diff(&self, request: DiffRequest) -> Result<DiffView, Failure> {
        self.engine.diff(request).await
    }
    async fn run_diff_file(&self, request: DiffFileRequest) -> Result<DiffFileView, Failure> {
        self.engine.diff_file(request).await
    }
    async fn run_commits(&self, request: CommitsRequest) -> Result<CommitPage, Failure> {
        self.engine.commits(request).await
    }
    async fn run_gate(&self, request: RunRef) -> Result<GateSummary, Failure> {
        self.engine.gate(request).await
    }
    async fn run_sync(&self, request: SyncRequest) -> Result<SyncView, Failure> {
        let _once = self.once().await;
        self.engine.sync(request).await
    }
    async fn merge_queue(&self, request: MergeRequest) -> Result<MergeEntry, Failure> {
        let _once = self.once().await;
        self.engine.queue(request, &self.key).await
    }
    async fn merge_list(&self, request: MergeList) -> Result<Merges, Failure> {
        self.engine.merges(request).await
    }
    async fn run_push(&self, request: PushRequest) -> Result<PushView, Failure> {
        let _once = self.once().await;
        self.engine.push(request, &self.key).await
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
    async fn run_retry(&self, request: RunRetry) -> Result<Retried, Failure> {
        let _once = self.once().await;
        self.engine.retry(request, &self.key).await
    }
    async fn run_follow_up(&self, request: FollowUp) -> Result<RunView, Failure> {
        let _once = self.once().await;
        self.engine.follow_up(request, &self.key).await
    }
    async fn run_say(&self, request: Say) -> Result<Said, Failure> {
        let _once = self.once().await;
        self.engine.say(request, &self.key).await
    }
    async fn repo_inspect(&self, request: RepoRequest) -> Result<RepoView, Failure> {
        self.engine.inspect_repository(request).await
    }
    async fn repo_list(&self, _: RepoList) -> Result<Repos, Failure> {
        self.engine.list_repositories().await
    }
    async fn agents_find(&self, _: AgentsRequest) -> Result<Agents, Failure> {
        self.engine.find_agents().await
    }
    async fn project_show(&self, request: ProjectRequest) -> Result<ProjectView, Failure> {
        self.engine.show_project(request).await
    }
    async fn project_trust(&self, request: ProjectRequest) -> Result<ProjectView, Failure> {
        self.engine.trust_project(request).await
    }
    async fn run_input(&self, request: InputRequest) -> Result<Nothing, Failure> {
        self.engine.input(request).await
    }
    async fn run_resize(&self, request: ResizeRequest) -> Result<Nothing, Failure> {
        self.engine.resize(request).await
    }
    async fn port_open(&self, request: PortOpen) -> Result<PortView, Failure> {
        self.engine.open_port(request).await
    }

    async fn port_list(&self, request: RunRef) -> Result<Ports, Failure> {
        self.engine.list_ports(request).await
    }

    async fn port_close(&self, request: PortRef) -> Result<PortView, Failure> {
        self.engine.close_port(request).await
    }

    async fn shell_open(&self, request: ShellOpen) -> Result<ShellView, Failure> {
        self.engine.open_shell(request).await
    }
    async fn shell_read(&self, request: ShellRead) -> Result<ShellWritten, Failure> {
        self.engine.read_shell(request).await
    }
    async fn shell_input(&self, request: ShellInput) -> Result<Nothing, Failure> {
        self.engine.type_in_shell(request).await
    }
    async fn shell_resize(&self, request: ShellResize) -> Result<Nothing, Failure> {
        self.engine.resize_shell(request).await
    }
    async fn shell_end(&self, request: ShellRef) -> Result<Nothing, Failure> {
        self.engine.end_shell(request).await
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
    async fn amendment_list(&self, request: AmendmentList) -> Result<Amendments, Failure> {
        self.engine.list_amendments(request).await
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
    async fn shutdown(&self, request: ShutdownRequest) -> Result<ShutdownReport, Failure> {
        self.engine.shut_down(request).await
    }
    async fn watch(&self, request: WatchRequest) -> Result<Hints, Failure> {
        self.engine.watch(request).await
    }
    async fn run_compare(&self, request: CompareRequest) -> Result<Comparison, Failure> {
        self.engine.compare_attempts(request).await
    }
    async fn run_attempts(&self, request: RunRef) -> Result<OtherAttempts, Failure> {
        self.engine.other_attempts(&request.run).await
    }
    async fn disk_show(&self, request: DiskRequest) -> Result<DiskReport, Failure> {
        self.engine.disk(request).await
    }
    async fn disk_clean(&self, request: DiskClean) -> Result<DiskCleaned, Failure> {
        let _once = self.once().await;
        self.engine.clean_disk(request).await
    }
    async fn disk_quota(&self, request: DiskPolicy) -> Result<DiskPolicy, Failure> {
        self.engine.set_disk_policy(request).await
    }
    async fn event_search(&self, request: SearchRequest) -> Result<SearchPage, Failure> {
        self.engine.search(request).await
    }
    async fn retention_show(&self, _: RetentionRequest) -> Result<RetentionView, Failure> {
        self.engine.retention().await
    }
    async fn retention_set(&self, change: RetentionChange) -> Result<RetentionView, Failure> {
        self.engine.set_retention(change).await
    }
    async fn order_add(&self, request: OrderAdd) -> Result<Orders, Failure> {
        let _once = self.once().await;
        self.engine.add_orders(request, &self.key).await
    }
    async fn order_list(&self, request: OrderList) -> Result<Orders, Failure> {
        self.engine.list_orders(request).await
    }
    async fn order_show(&self, request: OrderRef) -> Result<OrderView, Failure> {
        self.engine.show_order(&request.order).await
    }
    async fn order_edit(&self, request: OrderChanges) -> Result<OrderView, Failure> {
        self.engine.edit_order(request).await
    }
    async fn order_cancel(&self, request: OrderRef) -> Result<OrderView, Failure> {
        self.engine.cancel_order(&request.order).await
    }
    async fn order_dispatch(&self, request: OrderRef) -> Result<OrderView, Failure> {
        let _once = self.once().await;
        self.engine.dispatch_order(&request.order, &self.key).await
    }
    async fn orders_pause(&self, request: QueuePause) -> Result<QueueView, Failure> {
        self.engine.pause_queue(request).await
    }
    async fn orders_limits(&self, request: LimitsChange) -> Result<QueueView, Failure> {
        self.engine.change_limits(request).await
    }
    async fn orders_watch(&self, request: WatchChange) -> Result<Watched, Failure> {
        self.engine.change_watch(request).await
    }
    async fn orders_watched(&self, _request: WatchList) -> Result<Watched, Failure> {
        self.engine.watched().await
    }
    async fn secret_set(&self, request: SecretSet) -> Result<SecretView, Failure> {
        self.engine.set_secret(request).await
    }
    async fn secret_list(&self, _: SecretList) -> Result<Secrets, Failure> {
        self.engine.list_secrets().await
    }
    async fn secret_remove(&self, request: SecretRef) -> Result<SecretView, Failure> {
        self.engine.remove_secret(request).await
    }
    async fn awake(&self, request: AwakeRequest) -> Result<AwakeView, Failure> {
        self.engine.keeping_awake(request).await
    }
    async fn doctor(&self, request: DoctorRequest) -> Result<DoctorReport, Failure> {
        self.engine.doctor(request).await
    }
}
