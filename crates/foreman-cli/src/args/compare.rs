//! What can be typed behind `foreman compare`.

use clap::Args;

/// Arguments of `foreman compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// A group of orders (see `foreman orders`), or two runs and more.
    #[arg(required = true, value_name = "GROUP|RUN")]
    pub of: Vec<String>,
}
