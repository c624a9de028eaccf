//! What the engine remembers: runs, their events, blocks and decisions, in one SQLite file.
//!
//! - Opened by one process at a time (the engine holds the data directory's lock); a file that a
//!   newer binary has migrated is refused with a sentence.
//! - Every write names the engine's [`Epoch`](foreman_domain::Epoch) and is refused as
//!   [`StoreError::StaleEpoch`] inside the same transaction that would apply it.
//! - One writer connection, `BEGIN IMMEDIATE`, WAL with `synchronous=FULL`: an acknowledged write
//!   survives a power cut. Readers have their own connections and never wait for it.
//! - Events are taken in exactly once by (run, seq), without holes; what they say about states,
//!   steps, blocks and decisions is folded into its tables in the same transaction.
//! - A decision is one transaction: the record, the next policy revision, the block.
//!
//! It knows no scheduling rule, no file outside its own, no process. Time comes in as an argument.

mod amendments;
mod blocks;
mod decisions;
mod error;
mod events;
mod fold;
mod ingest;
mod open;
mod revisions;
mod runs;
mod trust;

pub use amendments::StoredAmendment;
pub use blocks::{BlockFilter, StoredBlock};
pub use decisions::{NewDecision, NewPolicy, Recorded, Ruled};
pub use error::StoreError;
pub use events::EventSlice;
pub use ingest::Ingested;
pub use open::{RequestKey, Store};
pub use runs::{NewRun, StoredRun, StoredStep};
