//! The shim from outside: its journal, its launch, and real runs in real cages.

mod journal;
mod launch;
mod network;
mod runs;
mod stage;
mod terminal;
