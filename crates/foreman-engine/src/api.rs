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
                $($wire => {
                    let request: $request = decode(params)?;
                    encode(&host.$name(request).await?)
                })*
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

commands! {
    /// Prepares and starts a run; returns as soon as its shim is up. Progress is in its events.
    run_create = "run.create": RunCreate => RunView;
    /// Runs, newest first.
    run_list = "run.list": RunList => Runs;
    /// One run.
    run_show = "run.show": RunRef => RunView;
    /// A page of a run's events; waits for news when asked to.
    run_events = "run.events": EventsRequest => EventPage;
    /// Stops a run: asks, interrupts, terminates, kills. Returns when the cage is empty.
    run_stop = "run.stop": RunRef => RunView;
    /// The three-dot diff of a run against its recorded base.
    run_diff = "run.diff": RunRef => DiffView;
    /// Fast-forwards the base branch to what was reviewed.
    run_merge = "run.merge": MergeRequest => RunView;
    /// Removes a run's worktree and branch, after a snapshot.
    run_discard = "run.discard": RunRef => RunView;
    /// Brings a discarded run's worktree and branch back from its snapshot.
    run_restore = "run.restore": RunRef => RunView;
    /// Sends bytes to the terminal of a run.
    run_input = "run.input": InputRequest => Nothing;
    /// Tells a run its terminal's new size.
    run_resize = "run.resize": ResizeRequest => Nothing;
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
    /// What holds on this machine, and what the engine sees.
    doctor = "doctor": DoctorRequest => DoctorReport;
}
