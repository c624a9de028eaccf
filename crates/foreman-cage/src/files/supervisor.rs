//! The thread that takes calls from every program of a cage.
//!
//! One thread for all listeners of a cage. It answers at once what nobody is to be asked about, and
//! gives the rest to tasks of their own ([`super::hold`]), so that one call that waits keeps no other
//! from going on.

use super::calls::{self, Call, Operand};
use super::feed::Feed;
use super::resolve::{self, Blocked};
use super::sockets::{self, Relays};
use super::view::View;
use super::{Config, FileJudge, caller, hold};
use crate::kernel::{self, Events, Notification};
use foreman_domain::FileAccess;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Calls that wait at one time; more are refused at once.
const MOST_HELD: usize = 1024;

/// What is told when it is to end.
const STOP: u64 = 0;

/// Where calls of one program and its children are taken and answered.
pub(crate) type Listener = Arc<OwnedFd>;

/// Takes calls from the programs of one cage.
#[derive(Debug)]
pub(crate) struct Supervisor {
    shared: Arc<Shared>,
    reads: bool,
    cancel: CancellationToken,
}

/// What the thread shares with those who add programs.
#[derive(Debug)]
struct Shared {
    events: Events,
    listeners: Mutex<Option<HashMap<u64, Listener>>>,
    next: AtomicU64,
}

impl Shared {
    fn listeners(&self) -> MutexGuard<'_, Option<HashMap<u64, Listener>>> {
        self.listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn token(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn add(&self, listener: OwnedFd) -> io::Result<()> {
        kernel::wake_in_step(listener.as_fd());
        let token = self.token();
        // Before it is waited for, so that whoever hears of it finds it.
        let mut listeners = self.listeners();
        let Some(listeners) = listeners.as_mut() else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        self.events.add(listener.as_fd(), token)?;
        listeners.insert(token, Arc::new(listener));
        Ok(())
    }

    /// The last copy of a listener that is closed fails every call that waits for it.
    fn close(&self) {
        *self.listeners() = None;
    }
}

impl Supervisor {
    /// Starts to take calls; must be called on a runtime. Ends when `cancel` fires.
    pub fn start<J: FileJudge>(
        view: Arc<View>,
        init: u32,
        config: &Config,
        judge: Arc<J>,
        cancel: CancellationToken,
    ) -> io::Result<Self> {
        let depth = caller::depth(init).ok_or(io::ErrorKind::NotFound)?;
        let events = Events::new()?;
        let (stop, stopping) = io::pipe()?;
        events.add(stop.as_fd(), STOP)?;
        let shared = Arc::new(Shared {
            events,
            listeners: Mutex::new(Some(HashMap::new())),
            next: AtomicU64::new(STOP + 1),
        });
        let context = Arc::new(Context {
            view,
            feed: Mutex::new(Feed::new(Arc::clone(&judge), depth)),
            shared: Arc::clone(&shared),
            judge,
            cancel: cancel.clone(),
            depth,
            reads: config.reads,
            gives: kernel::landlock_abi().is_some(),
            relays: Relays::in_folder(&config.meeting)?,
        });
        let taker = Taker {
            shared: Arc::clone(&shared),
            context,
            room: Arc::new(Semaphore::new(MOST_HELD)),
            runtime: Handle::current(),
            _stop: stop,
        };
        std::thread::Builder::new()
            .name("files".to_owned())
            .stack_size(256 << 10)
            .spawn(move || taker.run())?;
        let ended = cancel.clone();
        tokio::spawn(async move {
            ended.cancelled().await;
            // Closed, which the thread hears.
            drop(stopping);
        });
        Ok(Self {
            shared,
            reads: config.reads,
            cancel,
        })
    }

    /// What is to be watched of each program.
    pub fn watch(&self) -> super::watch::Watch {
        super::watch::Watch { reads: self.reads }
    }

    /// Takes calls of one more program from now on.
    pub fn add(&self, listener: OwnedFd) -> io::Result<()> {
        self.shared.add(listener)
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.cancel.cancel();
        self.shared.close();
    }
}

/// What every held call needs.
#[derive(Debug)]
pub(crate) struct Context<J> {
    pub view: Arc<View>,
    pub judge: Arc<J>,
    pub cancel: CancellationToken,
    pub depth: usize,
    feed: Mutex<Feed<J>>,
    shared: Arc<Shared>,
    /// Whether what is to be read is asked about, too.
    reads: bool,
    /// Whether descriptors may be given: Landlock refuses to open what they name in another way.
    pub gives: bool,
    pub relays: Relays,
}

impl<J: FileJudge> Context<J> {
    fn feed(&self) -> MutexGuard<'_, Feed<J>> {
        self.feed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a call go on. Tells of the program that it executes.
    pub fn go_on(&self, listener: &Listener, waiting: &Notification) {
        self.note(waiting);
        answered(kernel::let_go_on(listener.as_fd(), waiting.id()));
    }

    fn note(&self, waiting: &Notification) {
        let Some(arguments) = calls::arguments_of_exec(waiting) else {
            return;
        };
        let Some(path) = caller::program(waiting) else {
            return;
        };
        // A shell tries one folder after the other; what is not there is no program.
        if self.view.look(&path, true).is_err() {
            return;
        }
        let token = || self.shared.token();
        let events = &self.shared.events;
        self.feed()
            .executes(waiting, path, arguments, token, events);
    }

    /// The first of a call's operands that is to be asked about.
    pub fn blocked(&self, waiting: &Notification, call: &Call) -> Option<Blocked> {
        let thread = waiting.thread();
        let asked = |operand: &&Operand| self.reads || operand.need.access() == FileAccess::Write;
        let mut operands = call.operands.iter().flatten().filter(asked);
        operands.find_map(|operand| {
            let path = caller::absolute(thread, operand.folder, operand.path)?;
            resolve::blocked(&self.view, &path, *operand)
        })
    }
}

struct Taker<J> {
    shared: Arc<Shared>,
    context: Arc<Context<J>>,
    room: Arc<Semaphore>,
    runtime: Handle,
    /// Readable when it is to end; kept for as long as it is waited for.
    _stop: io::PipeReader,
}

impl<J: FileJudge> Taker<J> {
    fn run(self) {
        // Also when this thread comes to a bad end: then nobody answers any more, and every call fails.
        let _closing = Closing(Arc::clone(&self.shared));
        loop {
            let happened = match self.shared.events.wait() {
                Ok(happened) => happened,
                Err(error) => {
                    tracing::error!(%error, "calls on files can be taken no more");
                    return;
                }
            };
            for event in happened {
                if event.token == STOP {
                    return;
                }
                let listener = match self.shared.listeners().as_ref() {
                    Some(listeners) => listeners.get(&event.token).cloned(),
                    None => return,
                };
                match listener {
                    Some(listener) if event.readable => self.take(&listener),
                    // Nobody is left behind its filter.
                    Some(listener) if event.ended => self.forget(event.token, &listener),
                    Some(_) => {}
                    None => {
                        let events = &self.shared.events;
                        let mut feed = self.context.feed();
                        feed.happened(event.token, event.ended, events);
                    }
                }
            }
        }
    }

    fn forget(&self, token: u64, listener: &Listener) {
        if let Err(error) = self.shared.events.remove(listener.as_fd()) {
            tracing::warn!(%error, "a listener cannot be taken off");
        }
        if let Some(listeners) = self.shared.listeners().as_mut() {
            listeners.remove(&token);
        }
    }

    /// Takes one call.
    fn take(&self, listener: &Listener) {
        let waiting = match kernel::receive_call(listener.as_fd()) {
            Ok(waiting) => waiting,
            // Its caller ended meanwhile.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return,
            Err(error) => {
                tracing::warn!(%error, "a call on a file cannot be taken");
                return;
            }
        };
        if waiting.number() == libc::SYS_connect {
            return self.take_connect(listener, waiting);
        }
        let how = |address, size| caller::words(waiting.thread(), address, size);
        let call = calls::decode(&waiting, how);
        let blocked = call.and_then(|call| Some((call, self.context.blocked(&waiting, &call)?)));
        match blocked {
            // What was read may have been another's by now.
            Some((call, blocked)) if kernel::call_waits(listener.as_fd(), waiting.id()) => {
                self.hold(listener, waiting, call, blocked);
            }
            Some(_) => {}
            None => self.context.go_on(listener, &waiting),
        }
    }

    /// Takes a call that connects: to a network in nearly all cases, which the gateway looks after.
    fn take_connect(&self, listener: &Listener, waiting: Notification) {
        let Some(blocked) = sockets::blocked(&self.context, &waiting) else {
            return self.context.go_on(listener, &waiting);
        };
        // What was read may have been another's by now.
        if !kernel::call_waits(listener.as_fd(), waiting.id()) {
            return;
        }
        let Ok(room) = Arc::clone(&self.room).try_acquire_owned() else {
            hold::refuse(listener, &waiting, blocked.access);
            return;
        };
        let (context, listener) = (Arc::clone(&self.context), Arc::clone(listener));
        self.runtime.spawn(async move {
            sockets::hold(&context, listener, waiting, blocked).await;
            drop(room);
        });
    }

    fn hold(&self, listener: &Listener, waiting: Notification, call: Call, blocked: Blocked) {
        let Ok(room) = Arc::clone(&self.room).try_acquire_owned() else {
            hold::refuse(listener, &waiting, blocked.access);
            return;
        };
        let context = Arc::clone(&self.context);
        let listener = Arc::clone(listener);
        self.runtime.spawn(async move {
            hold::hold(&context, listener, waiting, call, blocked).await;
            drop(room);
        });
    }
}

struct Closing(Arc<Shared>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A caller that ended meanwhile needs no answer.
pub(crate) fn answered(answer: io::Result<()>) {
    match answer {
        Err(error) if error.raw_os_error() != Some(libc::ENOENT) => {
            tracing::warn!(%error, "a call on a file cannot be answered");
        }
        _ => {}
    }
}
