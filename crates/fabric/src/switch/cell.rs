//! Cells: the unit in which a switch gives out its packet memory.
//!
//! A frame takes whole cells, so a short one takes several times its bytes. Chips differ in the length
//! of theirs: 208 bytes in those of guo16's time (Trident 2, as SONiC's pool sizes are multiples of it).

use core::fmt;
use core::num::NonZeroU32;

/// The length of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell(NonZeroU32);

impl Cell {
    /// Memory is given out to the byte.
    pub const BYTE: Self = Self(NonZeroU32::MIN);

    /// Cells of so many bytes; `None` of none.
    pub const fn new(bytes: u32) -> Option<Self> {
        match NonZeroU32::new(bytes) {
            Some(bytes) => Some(Self(bytes)),
            None => None,
        }
    }

    /// How long it is, in bytes.
    pub const fn bytes(self) -> u32 {
        self.0.get()
    }

    /// What a frame of `bytes`, which is not near the largest number, takes.
    #[inline]
    pub(crate) const fn taken_by(self, bytes: u32) -> u32 {
        if self.bytes() == 1 { bytes } else { bytes.div_ceil(self.bytes()) * self.bytes() }
    }
}

/// To the byte.
impl Default for Cell {
    fn default() -> Self {
        Self::BYTE
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_take_whole_cells() {
        let cell = Cell::new(208).unwrap();
        let taken = [0, 1, 208, 209, 1_086].map(|bytes| cell.taken_by(bytes));
        assert_eq!(taken, [0, 208, 208, 416, 1_248]);
        assert_eq!((Cell::new(0), Cell::BYTE.taken_by(1_086)), (None, 1_086));
    }
}
