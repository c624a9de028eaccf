//! Published ports, as an engine drives them.

use super::{ClientError, ShimClient, unexpected};
use crate::protocol::{PublishedPort, Request, Response};
use crate::wire::Refusal;
use std::time::Duration;

impl ShimClient {
    /// Publishes a port of the cage at a port of this machine's 127.0.0.1: at `to`; else at the same number
    /// or, unless `exact`, any.
    ///
    /// # Errors
    /// [`Refusal::NoStep`] when there is no cage, [`Refusal::PortTaken`] when the port cannot be had; when the
    /// connection is closed.
    pub async fn publish_port(
        &self,
        port: u16,
        to: Option<u16>,
        exact: bool,
        by: &str,
    ) -> Result<PublishedPort, ClientError> {
        let request = Request::PublishPort {
            port,
            to,
            exact,
            by: by.to_owned(),
        };
        self.one_port(request).await
    }

    /// The published ports of the run.
    ///
    /// # Errors
    /// [`Refusal::NoStep`] when there is no cage; when the connection is closed.
    pub async fn published_ports(&self) -> Result<Vec<PublishedPort>, ClientError> {
        self.must_publish()?;
        match self.ask(Request::PublishedPorts, Duration::ZERO).await? {
            Response::Ports { ports } => Ok(ports),
            other => Err(unexpected("published ports", &other)),
        }
    }

    /// Closes a published port; what it was.
    ///
    /// # Errors
    /// [`Refusal::NoPort`] when it is not published; when the connection is closed.
    pub async fn close_port(&self, port: u16) -> Result<PublishedPort, ClientError> {
        self.one_port(Request::ClosePort { port }).await
    }

    async fn one_port(&self, request: Request) -> Result<PublishedPort, ClientError> {
        self.must_publish()?;
        match self.ask(request, Duration::ZERO).await? {
            Response::Ports { mut ports } if ports.len() == 1 => Ok(ports.remove(0)),
            other => Err(unexpected("one published port", &other)),
        }
    }

    /// A shim of an earlier version would take the request for a broken line, and hang up.
    fn must_publish(&self) -> Result<(), ClientError> {
        match self.publishes {
            true => Ok(()),
            false => Err(ClientError::Refused {
                reason: Refusal::Malformed,
                message: "This run was started by an earlier version, which publishes no ports"
                    .to_owned(),
            }),
        }
    }
}
