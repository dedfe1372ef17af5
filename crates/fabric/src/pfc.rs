//! Priorities, and the pause frames that stop one of them: what switches and NICs agree on.

/// How many traffic classes, priority groups, queues and PFC priorities there are, each.
pub const PRIORITIES: usize = 8;

/// DSCP 0 to 7 are the classes 0 to 7 (guo16, 3); of the others, the upper three bits are, as IP
/// precedence had it.
pub(crate) fn default_dscp_map() -> [u8; 64] {
    core::array::from_fn(|dscp| if dscp < PRIORITIES { dscp as u8 } else { (dscp >> 3) as u8 })
}

/// Pause frames (IEEE 802.1Q, priority-based flow control).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PfcConfig {
    /// How long a pause lasts unless it is renewed, in times of 512 bits. It is renewed at half.
    pub quanta: u16,
    /// How long this end takes to obey, in the same unit.
    pub response_quanta: u16,
}

impl Default for PfcConfig {
    /// The longest pause; 60 quanta to obey.
    fn default() -> Self {
        Self { quanta: u16::MAX, response_quanta: 60 }
    }
}
