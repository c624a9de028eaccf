//! The engine against real repositories, a real store and real processes; the supervisor is scripted
//! (`examples/scripted_shim.rs`), because a cage cannot be built on every machine that builds this.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::expect_used, reason = "a test that cannot go on fails")]

mod crashing;
mod deciding;
mod fencing;
mod gating;
mod going_on;
mod hosting;
mod interface;
mod keeping;
mod policies;
mod queue;
mod reviewing;
mod running;
mod scene;
mod serving;
mod watching;
