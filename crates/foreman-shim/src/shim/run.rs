//! From the spec to the exit record: the order in which a shim does things.
//!
//! One thread until the cage is built, because building it forks. Whatever fails after that point
//! ends in an exit record with a typed verdict; only a spec, journal or socket that cannot be used at
//! all ends the process with an error, and the cage with it.

use super::arbiter::{Arbiter, FileFloor};
use super::bounds::{self, Keeper, Tier};
use super::disk::Disk;
use super::feed::{Feed, FeedThread};
use super::fence::FenceKeeper;
use super::gauge::Gauge;
use super::handed::{Handed, forwarded, take_key, take_secrets};
use super::plan::{Lifecycle, Meter, Plan, PlanResult, SharedTally, payload_of};
use super::pointer::Pointer;
use super::ports::Ports;
use super::record::{ExitSlot, write_identity};
use super::self_test::SelfTest;
use super::server::{self, Desk, MessagePort, TerminalPort};
use super::shells::Shells;
use super::stop::StopSwitch;
use super::verdict::{End, conclude, could_not_launch};
use super::walls::{prove_gateway, prove_walls};
use super::why_server;
use crate::ProcessIdentity;
use crate::forward::Forwarder;
use crate::identity::IdentityError;
use crate::journal::JournalError;
use crate::protocol::{ExitRecord, RunSpec, ShimIdentity, cage_identity};
use foreman_cage::gateway::{self, Gateway, ProxyConfig};
use foreman_cage::{Cage, Confinement, Facts, LaunchError, Launched, files};
use foreman_domain::{At, CancelCause, EventKind, FailReason, Wall, without_error_numbers};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Grace of a stop that a signal to the shim asks for.
const SIGNAL_GRACE: Duration = Duration::from_secs(5);
/// Grace of a stop because the disk fails.
const DISK_GRACE: Duration = Duration::from_secs(2);
/// Grace of a stop because the gateway fails.
const NETWORK_GRACE: Duration = Duration::from_secs(5);
/// Longest wait for an engine to read the end, and for the gateway to end.
const FAREWELL: Duration = Duration::from_secs(5);
/// A run whose directory holds this version is understood.
const SPEC_VERSION: u8 = 1;
/// 128 bits in hexadecimal.
const NONCE_DIGITS: usize = 32;

/// The shim could not do its work at all.
#[derive(Debug, thiserror::Error)]
pub enum ShimError {
    /// The spec could not be read.
    #[error("could not read the run's spec {path}")]
    ReadSpec {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The spec is not one.
    #[error("the run's spec {path} is damaged")]
    ParseSpec {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// The spec was written by another version.
    #[error("the run's spec {path} has version {found}, which this shim does not know")]
    SpecVersion {
        /// Which file.
        path: PathBuf,
        /// Which version.
        found: u8,
    },
    /// The spec's nonce is not a secret of 128 bits.
    #[error("the run's spec {path} has no nonce of 128 bits")]
    NoNonce {
        /// Which file.
        path: PathBuf,
    },
    /// Something of the process itself failed.
    #[error("could not {action}")]
    Process {
        /// What was tried.
        action: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The identity could not be found out.
    #[error("could not find out the shim's own identity")]
    Identity {
        /// Why.
        #[from]
        source: IdentityError,
    },
    /// The journal cannot be used.
    #[error("the journal cannot be used")]
    Journal {
        /// Why.
        #[from]
        source: JournalError,
    },
}

pub(super) fn process(action: &'static str) -> impl Fn(io::Error) -> ShimError {
    move |source| ShimError::Process { action, source }
}

/// Carries the run of `spec_file` to its end. Returns when the exit record is in place and an engine
/// has read the end, or did not come for it.
///
/// # Errors
/// Only when there is no way to say so in an exit record.
pub fn run(spec_file: &Path) -> Result<(), ShimError> {
    close_inherited_descriptors();
    // Fails only when this process leads a session already.
    let _ = nix::unistd::setsid();
    let mut spec = read_spec(spec_file)?;
    let handed = take_secrets(&mut spec)?;
    let first = spec.steps.first().map(payload_of);
    // All is forked before the rest is made ready, so that this may make threads.
    let (launched, ready) =
        foreman_cage::launch_ahead(&spec.cage, first, || make_ready(&spec, handed));
    let (runtime, own) = ready?;
    // On a worker: the main thread would be one more to wake for each tick of a watchdog.
    let supervising = runtime.spawn(supervise(spec, launched, own));
    let ended = runtime.block_on(supervising);
    runtime.shutdown_timeout(Duration::from_secs(1));
    ended.map_err(|error| process("go on after a panic")(io::Error::other(error)))?
}

/// What the shim itself needs, beside its cage.
struct Own {
    identity: ShimIdentity,
    feed: Feed,
    journal: FeedThread,
    /// Room for the result, and the identity in place: until then nothing of the run may begin.
    files: JoinHandle<Result<ExitSlot, ShimError>>,
    /// Adds the run's key to what its cage asks of the key's host.
    forwarder: Option<Forwarder>,
}

/// Everything that needs no cage. The disk's part of it goes on after this has returned.
fn make_ready(spec: &RunSpec, handed: Handed) -> Result<(Runtime, Own), ShimError> {
    // From here on every file is the operator's own. The cage keeps the umask it was made with.
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o077));
    let (redactor, forwarder) = take_key(spec, handed)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(8)
        .thread_name("shim")
        .enable_all()
        .build()
        .map_err(process("start the runtime"))?;
    let identity = ShimIdentity::of_this_process(spec.run.clone())?;
    let (exit_file, identity_file) = (spec.files.exit.clone(), spec.files.identity.clone());
    let written = identity.clone();
    let files = runtime.spawn_blocking(move || {
        let exit = ExitSlot::reserve(&exit_file).map_err(process("keep room for the result"))?;
        write_identity(&identity_file, &written).map_err(process("write the identity"))?;
        Ok(exit)
    });
    let (feed, journal) = Feed::open(&spec.files.journal, &spec.run)?;
    feed.redact(redactor);
    let own = Own {
        identity,
        feed,
        journal,
        files,
        forwarder,
    };
    Ok((runtime, own))
}

/// A lock or a socket of whoever started us must not live as long as we do.
fn close_inherited_descriptors() {
    // SAFETY: nothing of this process has opened a descriptor beyond the standard streams yet, so no
    // owner of one is deceived. An old kernel's refusal leaves them open, which is only less tidy.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0_u32);
    }
}

fn read_spec(path: &Path) -> Result<RunSpec, ShimError> {
    let path = path.to_owned();
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(source) => return Err(ShimError::ReadSpec { path, source }),
    };
    let spec: RunSpec = match serde_json::from_slice(&bytes) {
        Ok(spec) => spec,
        Err(source) => return Err(ShimError::ParseSpec { path, source }),
    };
    if spec.v != SPEC_VERSION {
        return Err(ShimError::SpecVersion {
            path,
            found: spec.v,
        });
    }
    // Without a secret everybody who reaches the socket could steer the run.
    if spec.nonce.len() < NONCE_DIGITS {
        return Err(ShimError::NoNonce { path });
    }
    Ok(spec)
}

async fn supervise(
    spec: RunSpec,
    launched: Result<Launched, LaunchError>,
    own: Own,
) -> Result<(), ShimError> {
    let Own {
        identity,
        feed,
        journal,
        files,
        forwarder,
    } = own;
    let arbiter = Arbiter::new(
        spec.run.clone(),
        spec.policy.clone(),
        spec.hold,
        feed.clone(),
    );
    if let Some(before) = &spec.continues {
        arbiter.go_on_after(before);
    }
    arbiter.limit_holds(spec.bounds.hold_seconds);
    let desk = Arc::new(Desk {
        identity,
        nonce: spec.nonce.clone(),
        feed: feed.clone(),
        arbiter: arbiter.clone(),
        stop: StopSwitch::new(),
        terminal: TerminalPort::default(),
        messages: MessagePort::default(),
        shells: Shells::new(feed.clone()),
        ports: Ports::new(feed.clone()),
        gauge: Gauge::new(Disk::new(&spec.cage.workdir)),
        ended: watch::Sender::new(false),
        end_was_read: watch::Sender::new(false),
        fence: FenceKeeper::open(&spec.files.journal)
            .map_err(process("keep who is in charge of the run"))?,
    });
    let is_at_rest = spec.continues.as_ref().is_some_and(|run| run.at_rest);
    let lifecycle = Lifecycle::new(feed.clone(), is_at_rest);
    let closing = CancellationToken::new();
    let listening = async {
        let written = files.await.map_err(io::Error::other);
        let exit = written.map_err(process("go on after a panic"))??;
        let listener =
            server::listen(&spec.files.socket).map_err(process("listen on the run's socket"))?;
        let server = server::serve(listener, Arc::clone(&desk), closing.clone());
        Ok::<_, ShimError>((exit, tokio::spawn(server)))
    };
    let background = tokio::spawn(stand_by(Arc::clone(&desk), lifecycle.clone()));
    // Nothing of the run begins before both are done.
    let (listening, proven) = tokio::join!(listening, prove(&spec, launched, forwarder, &desk));
    let (exit, server) = listening?;
    let end = match proven {
        Ok(proven) => carry_out(&spec, proven, &desk, lifecycle).await,
        Err(error) => could_not_launch(&spec, &error, &feed),
    };
    arbiter.close();
    background.abort();
    let last_seq = tokio::task::spawn_blocking(move || journal.close())
        .await
        .map_err(|error| process("end the journal")(io::Error::other(error)))?;
    let run = spec.run.clone();
    let record = ExitRecord {
        run: spec.run,
        last_seq,
        steps: end.steps,
        verdict: end.verdict,
        head: end.head,
        killed: end.killed,
        breach: end.breach,
        fence: desk.fence.highest(),
    };
    // It has sentences in it, and where those say a secret, nothing may be left to say but how it ended.
    let record = desk
        .feed
        .redactor()
        .data(record.clone())
        .unwrap_or_else(|_| ExitRecord {
            run,
            steps: Vec::new(),
            verdict: None,
            breach: None,
            ..record
        });
    exit.write(&record).map_err(process("write the result"))?;
    desk.ended.send_replace(true);
    let mut end_was_read = desk.end_was_read.subscribe();
    let _ = timeout(FAREWELL, end_was_read.wait_for(|read| *read)).await;
    closing.cancel();
    let _ = timeout(FAREWELL, server).await;
    std::fs::remove_file(&spec.files.socket).map_err(process("remove the run's socket"))
}

/// Hears signals, a failing disk and the wish to stop; tells what had to wait, and cuts what expires.
async fn stand_by(desk: Arc<Desk>, lifecycle: Lifecycle) {
    let signals = async {
        // A handler, not "ignore": programs in the cage would inherit that.
        let (Ok(mut hangup), Ok(mut terminate), Ok(mut interrupt)) = (
            signal(SignalKind::hangup()),
            signal(SignalKind::terminate()),
            signal(SignalKind::interrupt()),
        ) else {
            tracing::warn!("signals cannot be heard");
            return std::future::pending().await;
        };
        loop {
            tokio::select! {
                _ = hangup.recv() => continue,
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            tracing::info!("asked by a signal to stop the run");
            desk.stop.ask(CancelCause::Operator, SIGNAL_GRACE);
        }
    };
    let disk = async {
        let mut failure = desk.feed.failure();
        while let Ok(found) = failure
            .wait_for(Option::is_some)
            .await
            .map(|found| found.clone())
        {
            if let Some(failure) = found {
                desk.stop.ask(
                    CancelCause::Bound {
                        what: failure.message,
                        breach: None,
                    },
                    DISK_GRACE,
                );
            }
            if failure.changed().await.is_err() {
                break;
            }
        }
        std::future::pending::<()>().await;
    };
    let stop = async {
        let wish = desk.stop.asked().await;
        lifecycle.stopping(&wish, At::now());
        std::future::pending::<()>().await;
    };
    let (retell, expire) = (desk.arbiter.retell(), desk.arbiter.expire());
    let limit = desk.arbiter.expire_holds();
    tokio::join!(signals, disk, stop, retell, expire, limit);
}

/// A cage that serves nothing of the run yet.
struct Proven {
    cage: Arc<Cage>,
    /// Absent in a cage without any network.
    gateway: Option<Gateway>,
    gateway_ends: CancellationToken,
    why_server: JoinHandle<io::Result<()>>,
    /// Who keeps its bounds.
    tier: Tier,
    /// Whether the run may begin, and the walls that held.
    verdict: Result<Vec<Wall>, FailReason>,
}

/// Starts the gateway of a cage and proves its walls.
async fn prove(
    spec: &RunSpec,
    launched: Result<Launched, LaunchError>,
    forwarder: Option<Forwarder>,
    desk: &Arc<Desk>,
) -> Result<Proven, LaunchError> {
    let Launched {
        cage,
        sockets,
        why,
        facts,
    } = launched?;
    note_cage(spec, &cage);
    let feed = &desk.feed;
    tell_facts(feed, &facts, spec.cage.confinement);
    let proxy = ProxyConfig {
        https: spec.proxy.https.clone(),
        all: spec.proxy.all.clone(),
        no_proxy: spec.proxy.no_proxy.clone(),
    };
    let gateway_ends = CancellationToken::new();
    let (gateway, no_network) = match sockets {
        Ok(sockets) => {
            let config = gateway::Config {
                sockets,
                init_pid: cage.init_pid(),
                proxy,
                forward: forwarded(spec, forwarder),
            };
            let judge = Arc::new(desk.arbiter.clone());
            let gateway = gateway::start(config, judge, gateway_ends.clone());
            (Some(gateway), None)
        }
        Err(error) => {
            if spec.cage.confinement != Confinement::Nothing {
                desk.arbiter.has_no_network();
            }
            (None, Some(error))
        }
    };
    let why_server = tokio::spawn(why_server::serve(why, desk.arbiter.clone()));
    let failure = gateway.as_ref().and_then(Gateway::failure);
    // The cage gets its place while the first program, which waits, tries the walls.
    let run = spec.run.as_str();
    let (tier, verdict) = tokio::join!(bounds::choose(&cage, run), async {
        match prove_gateway(failure, feed) {
            Ok(()) => prove_walls(spec, &cage, feed, no_network.as_ref()).await,
            Err(reason) => Err(reason),
        }
    });
    feed.tell(EventKind::Progress {
        stage: "bounds".to_owned(),
        message: tier.to_string(),
    });
    Ok(Proven {
        cage: Arc::new(cage),
        gateway,
        gateway_ends,
        why_server,
        tier,
        verdict,
    })
}

async fn carry_out(spec: &RunSpec, proven: Proven, desk: &Arc<Desk>, lifecycle: Lifecycle) -> End {
    let Proven {
        cage,
        gateway,
        gateway_ends,
        why_server,
        tier,
        verdict,
    } = proven;
    let keeper = Keeper::of(spec, desk, tier);
    let pointer = Pointer::keep(spec.cage.confinement, &spec.cage.workdir);
    let tier_of_cage;
    let verdict = match verdict {
        Ok(held) => keeper.begin(&cage).await.map(|()| SelfTest::new(held)),
        Err(reason) => Err(reason),
    };
    let end = match verdict {
        Err(reason) => {
            tier_of_cage = keeper.tier;
            End::nothing_ran(spec, reason, 0)
        }
        Ok(self_test) => {
            // The probes tried some of what an agent may try; that is not to count for it.
            if let Some(gateway) = &gateway {
                gateway.forget_refusals();
            }
            hold_files(spec, &cage, desk, &gateway_ends).await;
            desk.ports.open_door(&cage).await;
            desk.arbiter.open();
            let collects = watch::Sender::new(false);
            desk.arbiter.tells_no_programs_while(collects.subscribe());
            let watcher = Some(Arc::clone(&keeper.said_too_much));
            let plan = Plan {
                cage: Arc::clone(&cage),
                feed: desk.feed.clone(),
                stop: desk.stop.clone(),
                lifecycle,
                terminal: desk.terminal.clone(),
                messages: desk.messages.clone(),
                shells: desk.shells.clone(),
                meter: Arc::new(Meter::new(
                    keeper.limits.clone(),
                    desk.stop.clone(),
                    watcher.filter(|_| !desk.arbiter.is_unattended()),
                    collects.subscribe(),
                )),
                tally: SharedTally::default(),
                keeper,
                collects,
                killed_by_bound: AtomicU32::default(),
            };
            let Keeper { clock, limits, .. } = &plan.keeper;
            clock.start_again();
            desk.gauge.open(&cage, clock, limits).await;
            let mut result = tokio::select! {
                result = plan.carry_out(&spec.steps) => result,
                () = bounds::keep(&plan) => PlanResult::default(),
                () = watch_gateway(gateway.as_ref(), desk) => PlanResult::default(),
                () = self_test.go_on(&plan, &desk.arbiter) => PlanResult::default(),
            };
            result.missing_wall = self_test.fallen().or(result.missing_wall);
            if let Some(why) = cage.why_files_are_not_held() {
                desk.feed.tell(files_are_not_held(why));
            }
            let end = conclude(result);
            tier_of_cage = plan.keeper.tier;
            end
        }
    };
    desk.ports.finish().await;
    desk.gauge.close().await;
    why_server.abort();
    desk.arbiter.let_go_of_cage().await;
    let killed = match Arc::into_inner(cage) {
        Some(cage) => cage.destroy().await,
        // Nobody else holds it by now; if somebody did, its end would still come with this process.
        None => 0,
    };
    if let Some(told) = pointer.and_then(|pointer| pointer.put_back()) {
        desk.feed.tell(told);
    }
    tier_of_cage.end();
    gateway_ends.cancel();
    if let Some(gateway) = gateway
        && timeout(FAREWELL, gateway.join()).await.is_err()
    {
        tracing::warn!("the gateway did not end in time");
    }
    End {
        killed: end.killed + killed,
        ..end
    }
}

/// From here on actions on files outside of the cage wait for the operator, and what rules open is shown.
async fn hold_files(spec: &RunSpec, cage: &Arc<Cage>, desk: &Desk, until: &CancellationToken) {
    if !cage.confinement().has_namespaces() {
        // Nothing could be shown, and what is let go on would be judged by nobody.
        return;
    }
    let config = files::Config {
        reads: spec.hold_reads,
        // The floor is judged: what is tried there is told.
        closed: Vec::new(),
        meeting: meeting(spec),
    };
    let judge = Arc::new(desk.arbiter.clone());
    let begun = files::available().and_then(|()| cage.hold_files(config, judge, until));
    if let Err(error) = begun {
        desk.feed.tell(files_are_not_held(&error.to_string()));
    }
    let floor = FileFloor {
        home: spec.cage.home.clone(),
        own: spec.cage.hidden.clone(),
    };
    let places = Arc::new(Arc::downgrade(cage));
    desk.arbiter
        .hold_files(floor, places, &spec.cage.binds)
        .await;
}

/// The run's own folder, which no cage shows.
fn meeting(spec: &RunSpec) -> PathBuf {
    let folder = spec.files.journal.parent();
    folder.unwrap_or(&spec.files.journal).to_owned()
}

fn files_are_not_held(why: &str) -> EventKind {
    EventKind::Warning {
        message: without_error_numbers(&format!(
            "Files outside of the worktree and sockets of the host are refused and not held: {why}"
        )),
    }
}

/// Stops the run when its gateway fails: what it tries would wait for ever. Runs until it is dropped.
async fn watch_gateway(gateway: Option<&Gateway>, desk: &Desk) {
    let Some(gateway) = gateway else {
        return std::future::pending().await;
    };
    let what = format!("network: {}", gateway.failed().await);
    desk.feed.tell(EventKind::Warning {
        message: what.clone(),
    });
    let cause = CancelCause::Bound { what, breach: None };
    desk.stop.ask(cause, NETWORK_GRACE);
    std::future::pending().await
}

/// Writes down who process 1 of the cage is, so that an engine can see that the cage has ended with a
/// shim that left no result. Without it the run is carried out all the same.
fn note_cage(spec: &RunSpec, cage: &Cage) {
    let path = cage_identity(&spec.files.journal);
    let note = || {
        let identity = ProcessIdentity::of(cage.init_pid()).map_err(io::Error::other)?;
        std::fs::write(&path, serde_json::to_vec(&identity)?)
    };
    if let Err(error) = note() {
        tracing::warn!(%error, path = %path.display(), "who the cage is could not be written down");
    }
}

fn tell_facts(feed: &Feed, facts: &Facts, confinement: Confinement) {
    let landlock = match facts.landlock_abi {
        Some(abi) => format!("Landlock version {abi}"),
        None => "no Landlock".to_owned(),
    };
    let connections = match &facts.gate {
        Some(gate) => format!("connections are held by {gate}"),
        None => "it has no network, so every connection is refused".to_owned(),
    };
    let message = match confinement {
        Confinement::Namespaces => format!("The cage is built: {connections}, {landlock}"),
        Confinement::Landlock => format!("The cage is built without namespaces: {landlock}"),
        Confinement::Nothing => "There is no cage: the run is not confined".to_owned(),
    };
    feed.tell(EventKind::Progress {
        stage: "cage".to_owned(),
        message,
    });
}
