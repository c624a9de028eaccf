//! Arguments of `foreman awake`.

use clap::{Args, ValueEnum};
use foreman_engine::api::KeepAwake;

/// When the machine is kept awake, as typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WhenArg {
    /// Never.
    Never,
    /// While a run is at work and the machine is on external power.
    Power,
    /// While a run is at work, on battery down to the floor.
    Always,
}

impl From<WhenArg> for KeepAwake {
    fn from(when: WhenArg) -> Self {
        match when {
            WhenArg::Never => Self::Never,
            WhenArg::Power => Self::Power,
            WhenArg::Always => Self::Always,
        }
    }
}

/// Arguments of `foreman awake`.
#[derive(Debug, Args)]
pub struct AwakeArgs {
    /// When to hold sleep off; only shows how it stands when absent.
    #[arg(value_enum)]
    pub when: Option<WhenArg>,
    /// Battery charge in percent below which the machine may sleep, whatever runs.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub floor: Option<u8>,
}
