//! A caller of another process's engine who never takes its place: where that engine must not be
//! hosted here, because it belongs to a world of its own.

use crate::HostOptions;
use crate::api::Transport;
use crate::control::{CallError, Client};
use crate::layout::Layout;
use foreman_domain::{Code, Failure};
use foreman_store::RequestKey;

/// Answers [`Commands`](crate::api::Commands) through [`Remote`](crate::api::Remote), for as long as
/// that engine lives.
#[derive(Debug)]
pub struct Guest(Client);

impl Guest {
    /// Joins the engine that serves a data directory now.
    ///
    /// # Errors
    /// [`Code::Busy`] when none answers there, [`Code::Environment`] when it is another user's.
    pub async fn join(options: &HostOptions) -> Result<Self, Failure> {
        let socket = Layout::prepare(options)?.control_socket();
        Client::join(&socket).await.map(Self).map_err(refusal)
    }

    /// Waits until that engine ends, or cannot be reached any more.
    pub async fn until_it_ends(&self) {
        self.0.until_it_ends().await;
    }
}

impl Transport for Guest {
    async fn call(
        &self,
        name: &'static str,
        params: serde_json::Value,
    ) -> Result<serde_json::Value, Failure> {
        let key = RequestKey(format!("{:032x}", rand::random::<u128>()));
        self.0.call(&key, name, &params).await.map_err(refusal)
    }
}

fn refusal(error: CallError) -> Failure {
    match error {
        CallError::Refused(failure) => failure,
        CallError::Gone { .. } => Failure::new(Code::Busy, "that engine has ended"),
    }
}
