//! Arguments of `foreman secret`.

use clap::{Args, Subcommand, ValueEnum};
use foreman_engine::api::SecretStore;

/// `foreman secret ...`
#[derive(Debug, Subcommand)]
pub enum SecretCommand {
    /// Keep a secret under a name, in place of the one before. Its value is read from standard input, or
    /// asked for without showing it; it is never an argument.
    Set(SecretSetArgs),
    /// List the names of secrets, and where each is kept.
    List,
    /// Forget a secret. Runs that were handed it keep it until they end.
    Remove(SecretName),
}

/// Arguments of `foreman secret set`.
#[derive(Debug, Args)]
pub struct SecretSetArgs {
    /// Its name: letters, digits and underscores.
    pub name: String,
    /// Where it is kept: the keyring of your session, or a file in the data directory that only your account
    /// can read, not encrypted.
    #[arg(long, value_enum, default_value = "keyring")]
    pub store: StoreArg,
}

/// Names one secret.
#[derive(Debug, Args)]
pub struct SecretName {
    /// Its name.
    pub name: String,
}

/// Stores as typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StoreArg {
    /// The keyring of your session.
    Keyring,
    /// A file of the data directory.
    File,
}

impl From<StoreArg> for SecretStore {
    fn from(store: StoreArg) -> Self {
        match store {
            StoreArg::Keyring => Self::Keyring,
            StoreArg::File => Self::File,
        }
    }
}
