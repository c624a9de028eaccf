//! What the engine remembers: runs, their events, blocks and decisions, in one SQLite file.
//!
//! - Opened by one process at a time (the engine holds the data directory's lock); a file that a
//!   newer binary has migrated is refused with a sentence.
//! - Every write names the engine's [`Epoch`](foreman_domain::Epoch), one to a run its whole
//!   [`Fence`](foreman_domain::Fence), and is refused as [`StoreError::StaleEpoch`] or
//!   [`StoreError::StaleClaim`] inside the same transaction that would apply it.
//! - One writer connection, `BEGIN IMMEDIATE`, WAL with `synchronous=FULL`: an acknowledged write
//!   survives a power cut. Readers have their own connections and never wait for it.
//! - Events are taken in exactly once by (run, seq), without holes; what they say about states,
//!   steps, blocks and decisions is folded into its tables in the same transaction.
//! - A decision is one transaction: the record, the next policy revision, the block.
//!
//! It knows no scheduling rule, no file outside its own, no process. Time comes in as an argument.

mod amendments;
mod blocks;
mod checks;
mod decisions;
mod disk;
mod error;
mod events;
mod fold;
mod heads;
mod ingest;
mod intake;
mod journals;
mod leases;
mod open;
mod order_files;
mod order_moves;
mod orders;
mod queue;
mod requests;
mod retention;
mod revisions;
mod rows;
mod runs;
mod search;
mod settings;
mod trust;
mod upkeep;

pub use amendments::StoredAmendment;
pub use blocks::{BlockFilter, StoredBlock};
pub use checks::StoredRound;
pub use decisions::{NewDecision, NewPolicy, Recorded, Ruled};
pub use disk::{DiskAction, DiskEntry, PendingRemoval};
pub use error::StoreError;
pub use events::{EventSlice, Way};
pub use heads::Head;
pub use ingest::Ingested;
pub use journals::IdleJournal;
pub use leases::{RunLease, Taken};
pub use open::{RequestKey, Store};
pub use order_files::OrderFile;
pub use order_moves::{OrderMove, StoredReservation};
pub use orders::{NewOrder, OrderEdit, OrderFilter, OrderStanding, StoredFault, StoredOrder};
pub use queue::{AskedBy, MergeFilter, MergeStanding, NewMerge, StoredMerge};
pub use retention::{EventBudget, EventUsage, RETENTION_SLICE, Retained};
pub use runs::{FIRST_CLAIM, NewRun, StoredRun, StoredStep, UsedRepository};
pub use search::{Found, INDEXED_KINDS, SearchCursor, SearchText};
pub use upkeep::FileSizes;
