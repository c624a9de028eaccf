//! Bounds: how much a run may use, what is done when it is near and when it is reached.
//!
//! Near, at 80 %, is told once. At the bound the cage is paused, a card asks, and the run goes on where it
//! was once the bound was raised; whoever denies, or does not answer within the run's limit, ends the run
//! with that reason. Where nobody attends it ends at once. Two bounds are kept by the kernel without a pause:
//! processor time is rationed, and a process or a descriptor more than allowed is refused to whoever asks for
//! it; the card of those is for later runs.
//!
//! `limits` are the figures as they are now, `tier` who keeps them, `brake` pauses, `watch` looks and decides,
//! `hold` asks, `ration` keeps processor time, `samples` is what is told of it all, `oom` whether memory ran
//! out. A bound that cannot be kept ends the run: nothing here goes on without one.

mod brake;
mod group;
mod hold;
mod keeper;
mod limits;
mod oom;
mod ration;
mod samples;
mod scope;
mod tier;
mod watch;

pub(super) use brake::Brake;
pub(super) use keeper::Keeper;
pub(super) use limits::{Clock, Limits};
pub(crate) use tier::where_bounds_are_kept;
pub(super) use tier::{Tier, choose};
pub(super) use watch::keep;
