//! What the operator says to a run's agent, as an engine passes it on.

use super::{ClientError, ShimClient};
use crate::protocol::Request;
use crate::wire::Refusal;
use foreman_domain::MessageId;

impl ShimClient {
    /// Says something to the agent that runs. It is in the shim's journal when this returns, and is given to the agent
    /// when its turn ends. Saying it again with the same id changes nothing.
    ///
    /// # Errors
    /// [`Refusal::NotHeard`] when no agent runs that can be told something; when the connection is closed.
    pub async fn say(&self, message: MessageId, by: &str, text: &str) -> Result<(), ClientError> {
        // A shim of an earlier version would take the request for a broken line, and hang up.
        if !self.hears {
            return Err(ClientError::Refused {
                reason: Refusal::NotHeard,
                message: "This run was started by an earlier version, which passes nothing on"
                    .to_owned(),
            });
        }
        self.ask_done(Request::Say {
            message,
            by: by.to_owned(),
            text: text.to_owned(),
        })
        .await
    }
}
