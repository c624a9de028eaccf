//! The engine, as every command here uses it: hosted by this process or joined.

use foreman_domain::Failure;
use foreman_engine::Host;
use foreman_engine::api::Remote;
use foreman_engine::place;

/// Answers the declared command list.
pub type Engine = Remote<Host>;

/// Opens the engine of this environment's data directory.
///
/// # Errors
/// What opening it answers.
pub async fn open() -> Result<Engine, Failure> {
    Ok(Remote(Host::open(place::from_environment()?).await?))
}
