//! The one declared list of commands. The CLI, the control socket and later the app's typed IPC all
//! speak it; a host that misses a command does not compile.
//!
//! Each command is a request type, a response type and [`Failure`]. Answers that can be decided upon
//! carry `expect`, a token of what was shown; decisions require it and are refused as
//! [`Code::Stale`](foreman_domain::Code::Stale) when what was shown has moved.

mod types;

pub use types::*;

use foreman_domain::Failure;
use std::future::Future;
use std::pin::Pin;

macro_rules! commands {
    ($($(#[$doc:meta])* $name:ident = $wire:literal: $request:ty => $response:ty;)*) => {
        /// Everything that can be asked. Implemented by the engine itself and by the client of a
        /// control socket.
        pub trait Commands: Send + Sync {
            $($(#[$doc])*
            fn $name(&self, request: $request)
                -> impl Future<Output = Result<$response, Failure>> + Send;)*
        }

        /// Names of all commands on the wire.
        pub const COMMAND_NAMES: &[&str] = &[$($wire),*];

        /// JSON Schema of the machine interface: each command's request and answer by its wire
        /// name, the event and the refusal, with the types that they share under `$defs`.
        #[must_use]
        pub fn schema() -> serde_json::Value {
            let settings = schemars::generate::SchemaSettings::draft2020_12();
            let mut generator = settings.into_generator();
            let mut commands = serde_json::Map::new();
            $(commands.insert($wire.to_owned(), serde_json::json!({
                "request": generator.subschema_for::<$request>(),
                "response": generator.subschema_for::<$response>(),
            }));)*
            let event = generator.subschema_for::<foreman_domain::Event>();
            let failure = generator.subschema_for::<Failure>();
            let definitions = generator.take_definitions(true);
            serde_json::json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "title": "Foreman's machine interface",
                "v": foreman_domain::WIRE_VERSION,
                "commands": commands,
                "event": event,
                "failure": failure,
                "$defs": definitions,
            })
        }

        /// Calls the command with this wire name.
        ///
        /// # Errors
        /// What the command answers; [`Code::Usage`](foreman_domain::Code::Usage) for an unknown
        /// name or a request that does not parse.
        pub async fn dispatch<H: Commands>(
            host: &H,
            name: &str,
            params: serde_json::Value,
        ) -> Result<serde_json::Value, Failure> {
            match name {
                $($wire => apart(move || async move {
                    let request: $request = decode(params)?;
                    encode(&host.$name(request).await?)
                }).await,)*
                unknown => Err(Failure::new(
                    foreman_domain::Code::Usage,
                    format!("there is no command \"{unknown}\""),
                )),
            }
        }

        impl<T: Transport> Commands for Remote<T> {
            $(async fn $name(&self, request: $request) -> Result<$response, Failure> {
                decode(self.0.call($wire, encode(&request)?).await?)
            })*
        }

        impl Commands for crate::Host {
            $(async fn $name(&self, request: $request) -> Result<$response, Failure> {
                decode(Transport::call(self, $wire, encode(&request)?).await?)
            })*
        }
    };
}

/// A future that is made in a stack frame of its own, and kept on the heap. Where the futures of all commands stand in
/// one function, a build without optimisation has them all in its frame, which is more than a thread's stack.
#[inline(never)]
fn apart<'a, F>(make: impl FnOnce() -> F) -> Pin<Box<dyn Future<Output = F::Output> + Send + 'a>>
where
    F: Future + Send + 'a,
{
    Box::pin(make())
}

/// Carries a call to another process.
pub trait Transport: Send + Sync {
    /// Sends `params` to the command `name` and waits for the answer.
    fn call(
        &self,
        name: &'static str,
        params: serde_json::Value,
    ) -> impl Future<Output = Result<serde_json::Value, Failure>> + Send;
}

/// All commands, over a transport.
#[derive(Debug)]
pub struct Remote<T>(pub T);

fn decode<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> Result<T, Failure> {
    serde_json::from_value(value).map_err(|error| {
        Failure::new(
            foreman_domain::Code::Usage,
            format!("the message does not parse: {error}"),
        )
    })
}

fn encode<T: serde::Serialize>(value: &T) -> Result<serde_json::Value, Failure> {
    serde_json::to_value(value).map_err(|error| {
        Failure::new(
            foreman_domain::Code::Internal,
            format!("an answer does not encode: {error}"),
        )
    })
}

/// Calls `$callback` with every command: its documentation, its name in Rust and on the wire, its
/// request and its response. For hosts that need an adapter for each of them.
#[macro_export]
macro_rules! for_each_command {
    ($callback:ident) => {
        $callback! {
            /// Records a run and begins to prepare it; how that goes is in its events.
            run_create = "run.create": RunCreate => RunView;
            /// Runs, newest first.
            run_list = "run.list": RunList => Runs;
            /// One run.
            run_show = "run.show": RunRef => RunView;
            /// Everything about a run that its row in a list does not say.
            run_details = "run.details": RunRef => RunDetailsView;
            /// What a run uses; measured while somebody asks, and waits for the next when asked to.
            run_samples = "run.samples": SamplesRequest => Samples;
            /// A page of a run's events; waits for news when asked to.
            run_events = "run.events": EventsRequest => EventPage;
            /// Stops a run: asks, interrupts, terminates, kills. Returns when the cage is empty.
            run_stop = "run.stop": RunRef => RunView;
            /// The three-dot diff of a run against its recorded base.
            run_diff = "run.diff": DiffRequest => DiffView;
            /// What a run changed in one file.
            run_diff_file = "run.diff.file": DiffFileRequest => DiffFileView;
            /// A page of the commits that a merge of a run would bring, newest first.
            run_commits = "run.commits": CommitsRequest => CommitPage;
            /// What a reviewer of a run weighs beside its diff.
            run_gate = "run.gate": RunRef => GateSummary;
            /// Brings a run's commits onto its base branch as it is now, and checks them again.
            run_sync = "run.sync": SyncRequest => SyncView;
            /// Fast-forwards the base branch to what was reviewed.
            run_merge = "run.merge": MergeRequest => RunView;
            /// Approves a run for the merge queue of its repository.
            merge_queue = "merge.queue": MergeRequest => MergeEntry;
            /// The merge queue; waits for a run of it when asked to.
            merge_list = "merge.list": MergeList => Merges;
            /// Sends what was reviewed to a branch of a remote.
            run_push = "run.push": PushRequest => PushView;
            /// Removes a run's worktree and branch, after a snapshot.
            run_discard = "run.discard": RunRef => RunView;
            /// Brings a discarded run's worktree and branch back from its snapshot.
            run_restore = "run.restore": RunRef => RunView;
            /// Tries again what a run was asked to do: a new attempt, from the base as it is now.
            run_retry = "run.retry": RunRetry => Retried;
            /// Sends comments back: a new attempt that starts from the reviewed commits of a run.
            run_follow_up = "run.follow_up": FollowUp => RunView;
            /// Says something to the agent of a run: to one that works, or to the next that goes on from its commits.
            run_say = "run.say": Say => Said;
            /// A repository, looked at without running anything of it.
            repo_inspect = "repo.inspect": RepoRequest => RepoView;
            /// Repositories that had runs.
            repo_list = "repo.list": RepoList => Repos;
            /// Agent programs on this machine.
            agents_find = "agents.find": AgentsRequest => Agents;
            /// What a repository itself says about making its runs ready.
            project_show = "project.show": ProjectRequest => ProjectView;
            /// Trusts that, exactly as it is now.
            project_trust = "project.trust": ProjectRequest => ProjectView;
            /// Sends bytes to the terminal of a run.
            run_input = "run.input": InputRequest => Nothing;
            /// Tells a run its terminal's new size.
            run_resize = "run.resize": ResizeRequest => Nothing;
            /// Publishes a port of a live run's cage at 127.0.0.1 of this machine.
            port_open = "port.open": PortOpen => PortView;
            /// The published ports of a live run.
            port_list = "port.list": RunRef => Ports;
            /// Closes a published port and cuts its connections.
            port_close = "port.close": PortRef => PortView;
            /// Opens a shell in the cage of a live run, beside the step that runs.
            shell_open = "run.shell": ShellOpen => ShellView;
            /// What a shell wrote; waits for news when asked to.
            shell_read = "run.shell.read": ShellRead => ShellWritten;
            /// Types into a shell.
            shell_input = "run.shell.input": ShellInput => Nothing;
            /// Tells a shell its terminal's new size.
            shell_resize = "run.shell.resize": ShellResize => Nothing;
            /// Ends a shell; the run goes on.
            shell_end = "run.shell.end": ShellRef => Nothing;
            /// Blocks of one run or of all, oldest first.
            block_list = "block.list": BlockList => Blocks;
            /// One block with its candidates and token.
            block_show = "block.show": BlockRef => BlockView;
            /// Lets a held subject go on by the chosen rule.
            block_amend = "block.amend": AmendRequest => Decided;
            /// Refuses a held subject.
            block_deny = "block.deny": DenyRequest => Decided;
            /// Takes back the newest decision of the last ten seconds, or the named one.
            undo = "undo": UndoRequest => Decided;
            /// Recorded decisions of all runs, newest first, and what came of them.
            amendment_list = "amendment.list": AmendmentList => Amendments;
            /// Takes a recorded decision back, at any time.
            policy_revoke = "policy.revoke": RevokeRequest => Decided;
            /// The policy in force for a run or a repository.
            policy_show = "policy.show": PolicyQuery => PolicyView;
            /// Which rule decides about a destination, or that none matches.
            policy_why = "policy.why": PolicyWhy => Explanation;
            /// Trusts a repository's policy file as it is now.
            policy_trust = "policy.trust": TrustRequest => TrustView;
            /// Writes a project-scope decision into the repository's policy file.
            policy_write = "policy.write": RevokeRequest => TrustView;
            /// Ends a service in good order and says what it left.
            shutdown = "shutdown": ShutdownRequest => ShutdownReport;
            /// What changed since a cursor, as hints; waits for the first change when asked to.
            watch = "watch": WatchRequest => Hints;
            /// Several attempts side by side.
            run_compare = "run.compare": CompareRequest => Comparison;
            /// The other attempts at what a run attempts.
            run_attempts = "run.attempts": RunRef => OtherAttempts;
            /// What uses disk space, what could go, and why the rest stays.
            disk_show = "disk.show": DiskRequest => DiskReport;
            /// Removes what may go, each into a snapshot.
            disk_clean = "disk.clean": DiskClean => DiskCleaned;
            /// Sets what the engine may remove by itself.
            disk_quota = "disk.quota": DiskPolicy => DiskPolicy;
            /// Events in which words occur, in one run or in all, newest first.
            event_search = "event.search": SearchRequest => SearchPage;
            /// How many events are kept, and what they take.
            retention_show = "retention.show": RetentionRequest => RetentionView;
            /// Sets how many events are kept.
            retention_set = "retention.set": RetentionChange => RetentionView;
            /// Hands orders in: all of them are recorded, or none is.
            order_add = "order.add": OrderAdd => Orders;
            /// Orders in the order of the queue, each with what it waits for.
            order_list = "order.list": OrderList => Orders;
            /// One order.
            order_show = "order.show": OrderRef => OrderView;
            /// Changes an order that has not started.
            order_edit = "order.edit": OrderChanges => OrderView;
            /// Takes an order out of the queue; its live run is stopped.
            order_cancel = "order.cancel": OrderRef => OrderView;
            /// Starts one order now, past a pause; never past caps, scopes, budgets or dependencies.
            order_dispatch = "order.dispatch": OrderRef => OrderView;
            /// Pauses or resumes dispatching.
            orders_pause = "orders.pause": QueuePause => QueueView;
            /// Changes caps and budgets; with nothing to change, shows them.
            orders_limits = "orders.limits": LimitsChange => QueueView;
            /// Takes a folder's order files in from now on, or no longer.
            orders_watch = "orders.watch": WatchChange => Watched;
            /// Watched folders, and what became of their files.
            orders_watched = "orders.watched": WatchList => Watched;
            /// Keeps a secret under a name. Its value is in no answer.
            secret_set = "secret.set": SecretSet => SecretView;
            /// Names of all secrets that are kept.
            secret_list = "secret.list": SecretList => Secrets;
            /// Forgets a secret.
            secret_remove = "secret.remove": SecretRef => SecretView;
            /// Whether the machine is kept awake while runs are at work, and by which setting.
            awake = "awake": AwakeRequest => AwakeView;
            /// What holds on this machine, and what the engine sees.
            doctor = "doctor": DoctorRequest => DoctorReport;
        }
    };
}

for_each_command!(commands);
