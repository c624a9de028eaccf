//! A database in a scratch directory, and the events to put into it.

use foreman_domain::{
    At, Block, BlockId, BlockState, Epoch, Event, EventKind, EventSeq, Fence, HoldId, Host,
    LogStream, OrderId, Protocol, Revision, RunId, Subject, WIRE_VERSION,
};
use foreman_policy::{EgressRule, HostPattern, Layer, Origin, Policy, Rule, RuleId, Use};
use foreman_store::{FIRST_CLAIM, NewRun, Store};
use tempfile::TempDir;

pub struct Scratch {
    _dir: Option<TempDir>,
    pub store: Store,
    pub epoch: Epoch,
}

impl Scratch {
    pub async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut scratch = Self::in_folder(dir.path()).await;
        scratch._dir = Some(dir);
        scratch
    }

    /// In a folder that somebody else looks after.
    pub async fn in_folder(folder: &std::path::Path) -> Self {
        let store = Store::open(&folder.join("foreman.db")).await.unwrap();
        let epoch = store.take_epoch().await.unwrap();
        Self {
            _dir: None,
            store,
            epoch,
        }
    }

    /// What the engine that recorded a run writes under.
    pub fn fence(&self) -> Fence {
        Fence {
            engine: self.epoch,
            run: FIRST_CLAIM,
        }
    }

    pub async fn run(&self, bits: u64) -> RunId {
        self.run_in(bits, "repo").await
    }

    pub async fn run_in(&self, bits: u64, repo_key: &str) -> RunId {
        let id = RunId::from_random(bits);
        let new = NewRun {
            order: OrderId::of_single_run(&id),
            id: id.clone(),
            repo_key: repo_key.into(),
            title: format!("run {bits}"),
            details: "{}".into(),
            base_policy: Policy::default(),
            at: At::from_millis(1000),
            key: None,
            follows: None,
        };
        self.store.insert_run(self.epoch, &new).await.unwrap();
        id
    }

    pub async fn ingest(&self, run: &RunId, events: &[Event]) {
        self.store.ingest(self.fence(), run, events).await.unwrap();
    }
}

pub fn event(run: &RunId, seq: u64, kind: EventKind) -> Event {
    Event {
        v: WIRE_VERSION,
        run: run.clone(),
        seq: EventSeq(seq),
        at: At::from_millis(seq as i64),
        step: None,
        process: None,
        kind,
    }
}

pub fn output(run: &RunId, seq: u64) -> Event {
    let text = format!("line {seq}");
    event(
        run,
        seq,
        EventKind::Output {
            stream: LogStream::Stdout,
            text,
            raw: None,
            continued: false,
        },
    )
}

pub fn subject(host: &str) -> Subject {
    Subject::Egress {
        protocol: Protocol::Tcp,
        host: Host::Name(host.into()),
        port: 443,
        resolved: None,
    }
}

pub fn block(run: &RunId, number: u32, state: BlockState) -> Block {
    Block {
        id: BlockId::new(run.clone(), number),
        subject: subject("a.example"),
        state,
        why: "no rule".into(),
        address_vetted: true,
        file: None,
        waiting: 1,
        seen: 1,
        last_hold: HoldId(1),
        revision: Revision(1),
        first_at: At::from_millis(1),
        last_at: At::from_millis(1),
        holders: vec![],
        socket: None,
        breach: None,
        question: None,
    }
}

pub fn rule(host: &str) -> Rule {
    Rule::Egress(EgressRule {
        origin: Origin {
            id: RuleId("offer".into()),
            layer: Layer::Amendment,
            source: "offer".into(),
            amendment: None,
            reason: None,
        },
        protocol: Protocol::Tcp,
        host: HostPattern::Name(host.into()),
        port: 443,
        resolves_to: None,
        applies: Use::Always,
        expires: None,
    })
}
