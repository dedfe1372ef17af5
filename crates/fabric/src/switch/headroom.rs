//! How much headroom a lossless priority group needs.
//!
//! ```text
//!   XOFF due                                                        last packet in
//!      │ wait: an MTU │ pause frame │ cable │ response │ an MTU │ cable │
//!      └──────── the sender goes on sending all the while ──────────────┘
//! ```
//!
//! When XOFF is due, a frame may just have begun to leave our port; the pause frame follows it, takes
//! the cable's time, and is obeyed after the response time of the other end, where a frame may just
//! have begun as well; what is on the cable still comes (guo16, 2; SONiC's headroom calculation has
//! the same terms).
//!
//! What comes in that time is bytes on a link; what it takes of the buffer depends on how it is cut into
//! frames. To the byte, long frames take most, as they leave least room to preambles and gaps. In cells
//! the shortest do: 64 bytes take one of 208, two and a half times what they are on the link.

use rdma::{Rate, Span};

use super::cell::Cell;
use crate::packet::{GAP_BYTES, PFC_BYTES, PREAMBLE_BYTES};
use crate::pfc::PfcConfig;
use crate::rate::bytes_in;

/// The shortest frame of Ethernet, FCS included (IEEE 802.3).
const SHORTEST_BYTES: u32 = 64;

/// What frames there are, and what they take of the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frames {
    /// The longest. Shorter ones matter where there are cells.
    pub longest_bytes: u32,
    /// Of the buffer.
    pub cell: Cell,
}

impl Frames {
    /// Those of one length, in a buffer that counts bytes.
    pub const fn of(bytes: u32) -> Self {
        Self { longest_bytes: bytes, cell: Cell::BYTE }
    }

    /// The lengths of which one takes most: the longest and, of those that begin the same cell, the
    /// shortest.
    fn worst(self) -> impl Iterator<Item = u32> {
        let cells = match self.cell {
            Cell::BYTE => 0,
            _ => self.longest_bytes.div_ceil(self.cell.bytes()),
        };
        let begins = (0..cells).map(move |cell| (cell * self.cell.bytes() + 1).max(SHORTEST_BYTES));
        begins.filter(move |&bytes| bytes < self.longest_bytes).chain([self.longest_bytes])
    }

    /// The most that whole frames of one length take of the buffer, which came in the time of so many
    /// bytes.
    fn taken_within(self, bytes: u64) -> u64 {
        let taken = |frame: u32| {
            let spacing = PREAMBLE_BYTES + u64::from(frame) + GAP_BYTES;
            bytes / spacing * u64::from(self.cell.taken_by(frame))
        };
        self.worst().map(taken).max().unwrap_or(0)
    }
}

/// The headroom of a port at `rate`, `propagation` away from its neighbour, for such frames; `pfc` says
/// how fast the neighbour obeys. `latency` is from a packet's arrival to its being counted.
///
/// The least with which nothing is lost, if all frames that come have the worst length: every frame
/// that the neighbour has begun between the one that was one too many, and obeying.
pub fn headroom_bytes(
    rate: Rate,
    propagation: Span,
    latency: Span,
    frames: Frames,
    pfc: &PfcConfig,
) -> u32 {
    let longest = u64::from(frames.longest_bytes);
    let waiting = PREAMBLE_BYTES + longest + GAP_BYTES;
    let pause = PREAMBLE_BYTES + u64::from(PFC_BYTES);
    let cable = bytes_in(rate, propagation) + 1;
    let response = u64::from(pfc.response_quanta) * wire::pause::QUANTUM_BITS / 8;
    let begun = PREAMBLE_BYTES + longest;
    let bytes = waiting + pause + 2 * cable + bytes_in(rate, latency) + response + begun;
    frames.taken_within(bytes).min(u64::from(u32::MAX)) as u32
}

/// By rate in Gb/s: how long a neighbour takes to obey, in quanta, as SONiC assumes.
const SONIC_RESPONSE_QUANTA: [(u64, u64); 7] =
    [(10, 67), (25, 80), (40, 118), (50, 147), (100, 394), (200, 453), (400, 905)];

/// The headroom that SONiC's dynamic buffer model computes (its document on dynamic headroom
/// calculation): an MTU that waits here, the cable there and back, what the neighbour sends until it
/// obeys, and a lossless packet. The switch chip's own share is not in it, and a cell counts as full.
/// `None` for rates that the document does not name. `port_mtu` is that of the port ([`SONIC_MTU_BYTES`] if
/// nothing else is said), `lossless_mtu` that of the packets of lossless classes.
pub fn sonic_headroom_bytes(
    rate: Rate,
    propagation: Span,
    port_mtu: u32,
    lossless_mtu: u32,
) -> Option<u64> {
    let quanta = SONIC_RESPONSE_QUANTA.iter().find(|(gbps, _)| rate == Rate::from_gbps(*gbps))?.1;
    let response = quanta * wire::pause::QUANTUM_BITS / 8;
    let cable = 2 * bytes_in(rate, propagation);
    Some(u64::from(port_mtu) + cable + response + u64::from(lossless_mtu))
}

/// The MTU of a SONiC port.
pub const SONIC_MTU_BYTES: u32 = 9_100;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::propagation;

    #[test]
    fn sonic_computes_its_own_example() {
        // 9,100 + 2 x 10,000 + 57,920, and the lossless packet.
        let of = |gbps, port_mtu| {
            sonic_headroom_bytes(Rate::from_gbps(gbps), propagation(40), port_mtu, 1_500)
        };
        assert_eq!(of(400, SONIC_MTU_BYTES), Some(87_020 + 1_500));
        assert_eq!(of(400, 1_500), Some(87_020 - 9_100 + 1_500 + 1_500));
        assert_eq!(of(800, SONIC_MTU_BYTES), None);
    }

    #[test]
    fn three_hundred_metres_at_40_gigabits_need_about_what_the_paper_reserves() {
        let pfc = PfcConfig::default();
        let of = |metres, frames| {
            headroom_bytes(Rate::from_gbps(40), propagation(metres), Span::ZERO, frames, &pfc)
        };
        let bytes = of(300, Frames::of(1_518));
        // Zhu 15 reserves 22.4 KB.
        assert!((20_000..24_000).contains(&bytes), "{bytes}");
        let short = of(2, Frames::of(1_518));
        assert!(short < bytes / 2, "{short}");
        // In cells, frames of 64 bytes take 208 of every 84 on the link.
        let cells = of(300, Frames { longest_bytes: 1_518, cell: Cell::new(208).unwrap() });
        assert!((2.4..2.7).contains(&(f64::from(cells) / f64::from(bytes))), "{cells}");
        assert_eq!(cells % 208, 0);
    }
}
