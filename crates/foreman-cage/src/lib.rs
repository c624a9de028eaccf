//! The sandbox and, as the module [`gateway`], everything that may leave it.

mod spec;
pub mod gateway;

pub use spec::{Bind, CageSpec};
