//! The least of sixteen heads, as a tree of winners.
//!
//! ```text
//!             winner
//!          /          \\            a changed head is played up to the root: four comparisons,
//!       w0               w1         where looking at every head would take sixteen
//!     /    \\           /    \\
//!   head0  head1 ... head14 head15
//! ```
//!
//! A key is (time, sequence, head) in one number, so that a comparison is one and the winner says
//! where it comes from.

pub(super) const HEADS: usize = 16;

/// Bits of a head's number.
const HEAD_BITS: u32 = HEADS.trailing_zeros();

/// A time and a sequence, and in the low bits the number of the head.
type Key = u128;

/// Nothing is due.
const EMPTY: Key = Key::MAX;

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
    /// Sets a head to an event at `at`, or to none.
    #[inline]
    pub(super) fn set(&mut self, head: usize, key: Option<(u64, u64)>) {
        let head = head & (HEADS - 1);
        let mut at = HEADS + head;
        self.nodes[at] = key.map_or(EMPTY, |(time, sequence)| {
            Key::from(time) << 64 | Key::from(sequence << HEAD_BITS) | head as Key
        });
        while at > 1 {
            at /= 2;
            self.nodes[at] = self.nodes[2 * at].min(self.nodes[2 * at + 1]);
        }
    }

    /// The least key's time and head.
    #[inline]
    pub(super) fn least(&self) -> Option<(u64, usize)> {
        let key = self.nodes[1];
        (key != EMPTY).then_some(((key >> 64) as u64, (key & (HEADS as Key - 1)) as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_found_whichever_head_changed() {
        let mut tree = Tree::default();
        assert_eq!(tree.least(), None);
        tree.set(5, Some((10, 3)));
        tree.set(9, Some((10, 2)));
        assert_eq!(tree.least(), Some((10, 9)));
        tree.set(9, Some((11, 4)));
        assert_eq!(tree.least(), Some((10, 5)));
        tree.set(0, Some((9, 100)));
        assert_eq!(tree.least(), Some((9, 0)));
        tree.set(0, None);
        tree.set(5, None);
        assert_eq!(tree.least(), Some((11, 9)));
    }
}
