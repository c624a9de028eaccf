//! This machine: a detached process, a unix socket, and files that are where they are needed.

use crate::port::{Launch, Line, Place, RunnerContext, RunnerError, Seen};
use foreman_shim::client::{self, Hello, ShimClient, Welcome};
use foreman_shim::launch::{is_on_its_way, start_shim};
use foreman_shim::protocol::{RunSpec, ShimIdentity};
use foreman_shim::station::Presence;
use futures::FutureExt;
use futures::future::BoxFuture;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Runs carried on this machine.
#[derive(Clone)]
pub struct Local {
    find: Arc<dyn Fn() -> io::Result<PathBuf> + Send + Sync>,
}

impl std::fmt::Debug for Local {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Local")
    }
}

impl Local {
    /// With this program as the shim.
    #[must_use]
    pub fn new(shim: PathBuf) -> Self {
        Self::finding(move || Ok(shim.clone()))
    }

    /// With the program that this finds at each launch.
    #[must_use]
    pub fn finding(find: impl Fn() -> io::Result<PathBuf> + Send + Sync + 'static) -> Self {
        Self {
            find: Arc::new(find),
        }
    }
}

impl RunnerContext for Local {
    fn name(&self) -> &'static str {
        "local"
    }

    fn needs_bundle(&self) -> bool {
        false
    }

    fn launch<'a>(
        &'a self,
        launch: &'a Launch,
    ) -> BoxFuture<'a, Result<ShimIdentity, RunnerError>> {
        let (find, launch) = (Arc::clone(&self.find), launch.clone());
        blocking(move || {
            if let Some(identity) = identity(&launch.place) {
                return Ok(identity);
            }
            let shim = find().map_err(|source| RunnerError::File {
                doing: "find the program",
                path: "foreman-shim".into(),
                source,
            })?;
            let path = launch.place.spec;
            write_spec(&path, &launch.spec).map_err(|source| RunnerError::File {
                doing: "write",
                path: path.clone(),
                source,
            })?;
            Ok(start_shim(&shim, &path, &launch.secrets)?)
        })
    }

    fn open<'a>(&'a self, place: &'a Place) -> BoxFuture<'a, Result<Line, RunnerError>> {
        async move {
            let (read, write) = client::dial(&place.files.socket).await?.into_split();
            Ok(Line {
                read: Box::new(read),
                write: Box::new(write),
            })
        }
        .boxed()
    }

    fn connect<'a>(
        &'a self,
        place: &'a Place,
        hello: Hello,
    ) -> BoxFuture<'a, Result<(ShimClient, Welcome), RunnerError>> {
        async move { Ok(ShimClient::connect(&place.files.socket, hello).await?) }.boxed()
    }

    fn look<'a>(&'a self, place: &'a Place) -> BoxFuture<'a, Result<Seen, RunnerError>> {
        let place = place.clone();
        blocking(move || Ok(look(&place)))
    }

    fn collect<'a>(&'a self, _place: &'a Place) -> BoxFuture<'a, Result<(), RunnerError>> {
        // The shim writes where the engine reads.
        async { Ok(()) }.boxed()
    }

    fn kill<'a>(&'a self, place: &'a Place) -> BoxFuture<'a, Result<(), RunnerError>> {
        let place = place.clone();
        blocking(move || match identity(&place) {
            Some(shim) => shim.kill().map_err(|source| RunnerError::File {
                doing: "kill the supervisor that is named in",
                path: place.files.identity,
                source,
            }),
            None => Ok(()),
        })
    }

    fn remove<'a>(&'a self, place: &'a Place) -> BoxFuture<'a, Result<(), RunnerError>> {
        let spec = place.spec.clone();
        blocking(move || match std::fs::remove_file(&spec) {
            Err(source) if source.kind() != ErrorKind::NotFound => Err(RunnerError::File {
                doing: "remove",
                path: spec,
                source,
            }),
            Ok(()) | Err(_) => Ok(()),
        })
    }
}

fn look(place: &Place) -> Seen {
    let identity = identity(place);
    let presence = match &identity {
        Some(shim) if shim.is_alive() => Presence::Alive,
        None if is_on_its_way(&place.spec) => Presence::Unborn,
        Some(_) | None => Presence::Gone,
    };
    Seen { presence, identity }
}

fn identity(place: &Place) -> Option<ShimIdentity> {
    serde_json::from_slice(&std::fs::read(&place.files.identity).ok()?).ok()
}

/// Writes a spec where only this user can read it, on disk when this returns.
fn write_spec(path: &Path, spec: &RunSpec) -> io::Result<()> {
    let text = serde_json::to_vec(spec)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(&text)?;
    file.sync_all()
}

/// Runs what may wait for the disk on a thread for that.
fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RunnerError> + Send + 'static,
) -> BoxFuture<'static, Result<T, RunnerError>> {
    async {
        match tokio::task::spawn_blocking(work).await {
            Ok(done) => done,
            Err(error) => Err(RunnerError::Broken {
                place: "this machine".to_owned(),
                said: format!("a task ended early: {error}"),
            }),
        }
    }
    .boxed()
}
