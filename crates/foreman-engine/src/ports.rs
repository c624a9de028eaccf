//! Published ports of live runs, opened, listed and closed through the run's shim, which keeps them.

use crate::api::{PortOpen, PortRef, PortView, Ports, RunRef};
use crate::engine::Engine;
use crate::environment::Account;
use crate::failures::with_causes;
use crate::live::LiveRun;
use crate::shells::over_a_line;
use foreman_domain::{Code, Failure, sanitize_line};
use foreman_shim::client::{ClientError, ShimClient};
use foreman_shim::protocol::PublishedPort;
use foreman_shim::wire::Refusal;
use futures::FutureExt;
use std::sync::Arc;

/// What a run without a cage cannot do.
const WHAT: &str = "publish a port of";

impl Engine {
    /// Publishes a port of a live run's cage.
    pub async fn open_port(&self, request: PortOpen) -> Result<PortView, Failure> {
        if request.port == 0 || request.to == Some(0) {
            let what = "0 is not a port that can be reached";
            return Err(Failure::new(Code::BadInput, what));
        }
        if request.bind && request.to.is_some_and(|to| to != request.port) {
            let what = "--bind asks for the same number and --to for another";
            return Err(Failure::new(Code::Usage, what).hint("Give one of them."));
        }
        let live = self.run_with_a_cage(&request.run, WHAT).await?;
        let by = Account::of_this_process(|name| std::env::var_os(name)).user;
        let (by, request) = (&by, &request);
        let ask = |line: Arc<ShimClient>| {
            async move {
                line.publish_port(request.port, request.to, request.bind, by)
                    .await
            }
            .boxed()
        };
        let port = over_a_line(&live, refused, ask).await?;
        Ok(view(&live, port))
    }

    /// The published ports of a live run.
    pub async fn list_ports(&self, request: RunRef) -> Result<Ports, Failure> {
        let live = self.run_with_a_cage(&request.run, WHAT).await?;
        let ask = |line: Arc<ShimClient>| async move { line.published_ports().await }.boxed();
        let ports = over_a_line(&live, refused, ask).await?;
        Ok(Ports {
            ports: ports.into_iter().map(|port| view(&live, port)).collect(),
        })
    }

    /// Closes a published port.
    pub async fn close_port(&self, request: PortRef) -> Result<PortView, Failure> {
        let live = self.run_with_a_cage(&request.run, WHAT).await?;
        let port = request.port;
        let ask = |line: Arc<ShimClient>| async move { line.close_port(port).await }.boxed();
        let port = over_a_line(&live, refused, ask).await?;
        Ok(view(&live, port))
    }
}

fn view(live: &LiveRun, published: PublishedPort) -> PortView {
    let PublishedPort {
        port,
        at,
        listening,
        open,
        connections,
        sent,
        received,
    } = published;
    PortView {
        run: live.run.clone(),
        port,
        at,
        url: format!("http://127.0.0.1:{at}/"),
        listening,
        open,
        connections,
        sent,
        received,
    }
}

fn refused(live: &LiveRun, reason: Refusal, message: String) -> Failure {
    let message = sanitize_line(message.trim_end_matches('.'));
    match reason {
        Refusal::NoStep | Refusal::Ended => Failure::new(
            Code::Conflict,
            format!(
                "run {} has no cage now whose port could be published",
                live.run
            ),
        ),
        Refusal::PortTaken => {
            Failure::new(Code::Conflict, message).hint("Name a free port: --to PORT.")
        }
        Refusal::NoPort => Failure::new(Code::NotFound, message)
            .hint(format!("`foreman port {}` lists those that are.", live.run)),
        Refusal::Busy => Failure::new(Code::Busy, message),
        Refusal::Malformed => Failure::new(Code::Conflict, message),
        _ => Failure::new(
            Code::Environment,
            with_causes(&ClientError::Refused { reason, message }),
        ),
    }
}
