//! `[lab]`.

use super::super::table::table;
use super::super::value::{dilution, or};

table! {
    /// What `ferroce lab` does with the file, and `ferroce sim` does not need.
    struct Lab {
        /// How many times slower than the wall's the lab's time goes.
        factor = or("what a measurement of the machine says", dilution()) => factor: Option<f64>;
    }
}

impl Lab {
    pub(super) fn dilution(&self) -> Option<f64> {
        self.factor
    }
}
