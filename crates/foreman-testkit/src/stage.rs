//! An identity with a world: what most cases of a suite share.

use crate::{Bench, Product, Who, World};
use anyhow::Result;

/// A bench and its world. The world ends before the bench's user is removed.
#[derive(Debug)]
pub struct Stage {
    /// The world.
    pub world: World,
    /// The identity.
    pub bench: Bench,
}

impl Stage {
    /// Makes both.
    ///
    /// # Errors
    /// The identity or the world could not be made.
    pub fn new(who: Who) -> Result<Self> {
        let bench = Bench::new(who)?;
        let world = World::new(&bench)?;
        Ok(Self { world, bench })
    }

    /// The product with a data directory of its own, so that cases do not meet. On the bare machine where
    /// `FOREMAN_TEST_BARE` is set: what the user's service manager does for a run it does only there.
    ///
    /// # Errors
    /// The directory could not be made.
    pub fn product(&self) -> Result<Product<'_>> {
        let data = self.bench.scratch("data")?;
        let product = match std::env::var_os("FOREMAN_TEST_BARE") {
            Some(_) => Product::on_host(&self.bench),
            None => Product::in_world(&self.bench, &self.world),
        };
        Ok(product.with_data(&data))
    }
}
