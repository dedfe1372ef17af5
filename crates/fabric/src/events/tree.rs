//! The least of sixteen heads, as a tree of winners.
//!
//! ```text
//!             winner
//!          /           \            a changed head is played up to the root: four comparisons,
//!       w0               w1         where looking at every head would take sixteen
//!     /     \          /     \
//!   head0  head1 ... head14 head15
//! ```
//!
//! A key is (time, head) in one number, so that a comparison is one and the winner says where it
//! comes from.

pub(super) const HEADS: usize = 16;

/// Bits of a head's number.
const HEAD_BITS: u32 = HEADS.trailing_zeros();

/// A time, and in the low bits the number of the head: thirteen days of picoseconds.
type Key = u64;

/// Nothing is due.
const EMPTY: Key = Key::MAX;
/// The latest time that a key holds.
const LATEST: u64 = (1 << (64 - HEAD_BITS)) - 2;

#[derive(Debug)]
pub(super) struct Tree {
    /// The root at 1, the heads from [`HEADS`] on.
    nodes: [Key; 2 * HEADS],
}

impl Default for Tree {
    fn default() -> Self {
        Self { nodes: [EMPTY; 2 * HEADS] }
    }
}

impl Tree {
    /// Sets a head to an event at a time, or to none.
    #[inline]
    pub(super) fn set(&mut self, head: usize, at: Option<u64>) {
        let head = head & (HEADS - 1);
        let mut place = HEADS + head;
        let mut winner = at.map_or(EMPTY, |at| at.min(LATEST) << HEAD_BITS | head as Key);
        self.nodes[place] = winner;
        for _ in 0..HEAD_BITS {
            winner = winner.min(self.nodes[(place ^ 1) & (2 * HEADS - 1)]);
            place /= 2;
            self.nodes[place & (2 * HEADS - 1)] = winner;
        }
    }

    /// The least key's time and head.
    #[inline]
    pub(super) fn least(&self) -> Option<(u64, usize)> {
        let key = self.nodes[1];
        (key != EMPTY).then_some((key >> HEAD_BITS, (key & (HEADS as Key - 1)) as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_found_whichever_head_changed() {
        let mut tree = Tree::default();
        assert_eq!(tree.least(), None);
        tree.set(5, Some(10));
        tree.set(9, Some(9));
        assert_eq!(tree.least(), Some((9, 9)));
        tree.set(9, Some(11));
        assert_eq!(tree.least(), Some((10, 5)));
        tree.set(0, Some(8));
        assert_eq!(tree.least(), Some((8, 0)));
        tree.set(0, None);
        tree.set(5, None);
        assert_eq!(tree.least(), Some((11, 9)));
        tree.set(9, Some(u64::MAX));
        assert_eq!(tree.least(), Some((LATEST, 9)));
    }
}
