//! Any place that a byte pipe leads to: a station answers at its far end.
//!
//! Each question has a pipe of its own, dialled for it; so has each line to a shim. Nothing is kept
//! between them, so a pipe may end at any moment, an engine with it, and the next one goes on.

mod conversation;
mod dial;
mod fetch;

pub use dial::{Dial, Dialled};

use crate::port::{Launch, Line, Place, RunnerContext, RunnerError, Seen, Source};
use conversation::Conversation;
use foreman_shim::protocol::{RunFiles, RunSpec, ShimIdentity, Stdio};
use foreman_shim::station::{Answer, Offer, Presence, Reason, Request};
use futures::FutureExt;
use futures::future::BoxFuture;
use std::path::PathBuf;
use std::sync::Arc;

/// Runs carried at the far end of a pipe.
#[derive(Debug, Clone)]
pub struct Pipe {
    dial: Arc<dyn Dial>,
}

impl Pipe {
    /// With pipes that this makes.
    #[must_use]
    pub fn new(dial: impl Dial + 'static) -> Self {
        Self {
            dial: Arc::new(dial),
        }
    }

    /// With pipes that are the standard streams of a program: `ssh HOST foreman-shim station --stdio`.
    /// `place` says in words where it leads.
    #[must_use]
    pub fn to_program(place: impl Into<String>, argv: Vec<std::ffi::OsString>) -> Self {
        Self::new(dial::Program::new(place.into(), argv))
    }

    async fn converse(&self) -> Result<Conversation, RunnerError> {
        Conversation::begin(self.dial.as_ref()).await
    }

    fn unexpected(&self, found: &Answer) -> RunnerError {
        RunnerError::Garbled {
            place: self.dial.place().to_owned(),
            what: format!("the answer {found:?} to another question"),
        }
    }

    async fn ask_done(&self, request: Request) -> Result<(), RunnerError> {
        match self.converse().await?.ask(request).await? {
            Answer::Done => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    async fn launch(&self, launch: &Launch) -> Result<ShimIdentity, RunnerError> {
        let Source::Bundle {
            file,
            branch,
            base_branch,
        } = &launch.source
        else {
            return Err(RunnerError::Unsupported {
                place: self.dial.place().to_owned(),
                why: "its repository was not packed",
            });
        };
        if !launch.spec.handed_over().is_empty() {
            return Err(RunnerError::Unsupported {
                place: self.dial.place().to_owned(),
                why: "secrets are not handed to a run elsewhere",
            });
        }
        let offer = Offer {
            spec: without_places(launch.spec.clone()),
            branch: branch.clone(),
            base_branch: base_branch.clone(),
        };
        let mut conversation = self.converse().await?;
        match conversation.start(offer, file).await? {
            Answer::Started { identity } => Ok(identity),
            other => Err(self.unexpected(&other)),
        }
    }

    async fn look(&self, place: &Place) -> Result<Seen, RunnerError> {
        let (run, nonce) = (place.run.clone(), place.nonce.clone());
        match self
            .converse()
            .await?
            .ask(Request::Look { run, nonce })
            .await
        {
            Ok(Answer::Seen { presence, identity }) => Ok(Seen { presence, identity }),
            Ok(other) => Err(self.unexpected(&other)),
            // What never came there is not there.
            Err(RunnerError::Refused {
                reason: Reason::NotFound,
                ..
            }) => Ok(Seen {
                presence: Presence::Gone,
                identity: None,
            }),
            Err(error) => Err(error),
        }
    }
}

impl RunnerContext for Pipe {
    fn name(&self) -> &'static str {
        "pipe"
    }

    fn needs_bundle(&self) -> bool {
        true
    }

    fn launch<'a>(
        &'a self,
        launch: &'a Launch,
    ) -> BoxFuture<'a, Result<ShimIdentity, RunnerError>> {
        self.launch(launch).boxed()
    }

    fn open<'a>(&'a self, place: &'a Place) -> BoxFuture<'a, Result<Line, RunnerError>> {
        let run = place.run.clone();
        async move { self.converse().await?.attach(run).await }.boxed()
    }

    fn look<'a>(&'a self, place: &'a Place) -> BoxFuture<'a, Result<Seen, RunnerError>> {
        self.look(place).boxed()
    }

    fn collect<'a>(&'a self, place: &'a Place) -> BoxFuture<'a, Result<(), RunnerError>> {
        async move { fetch::collect(&mut self.converse().await?, place).await }.boxed()
    }

    fn kill<'a>(&'a self, place: &'a Place) -> BoxFuture<'a, Result<(), RunnerError>> {
        let (run, nonce) = (place.run.clone(), place.nonce.clone());
        self.ask_done(Request::Kill { run, nonce }).boxed()
    }

    fn remove<'a>(&'a self, place: &'a Place) -> BoxFuture<'a, Result<(), RunnerError>> {
        let (run, nonce) = (place.run.clone(), place.nonce.clone());
        async move {
            match self.ask_done(Request::Remove { run, nonce }).await {
                Err(RunnerError::Refused {
                    reason: Reason::NotFound,
                    ..
                }) => Ok(()),
                done => done,
            }
        }
        .boxed()
    }
}

/// The spec without what names a place of this machine: the station fills in its own.
fn without_places(mut spec: RunSpec) -> RunSpec {
    let nowhere = PathBuf::new;
    spec.files = RunFiles {
        journal: nowhere(),
        exit: nowhere(),
        socket: nowhere(),
        identity: nowhere(),
        bundle: nowhere(),
        log: nowhere(),
    };
    spec.cage.workdir = nowhere();
    spec.cage.home = nowhere();
    spec.cage.binds = Vec::new();
    spec.cage.hidden = Vec::new();
    spec.cage.why_program = nowhere();
    for step in &mut spec.steps {
        if let Stdio::File { path, .. } = &mut step.stdio {
            *path = nowhere();
        }
    }
    spec
}
