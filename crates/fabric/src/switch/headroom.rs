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

use rdma::{Rate, Span};

use crate::packet::{GAP_BYTES, PFC_BYTES, PREAMBLE_BYTES};
use crate::pfc::PfcConfig;
use crate::rate::bytes_in;

/// The headroom of a port at `rate`, `propagation` away from its neighbour, for frames of up to
/// `frame_bytes`; `pfc` says how fast the neighbour obeys. `latency` is from a packet's arrival to
/// its being counted.
///
/// The least with which nothing is lost, if all frames are that long: every frame that the neighbour
/// has begun between the one that was one too many, and obeying.
pub fn headroom_bytes(
    rate: Rate,
    propagation: Span,
    latency: Span,
    frame_bytes: u32,
    pfc: &PfcConfig,
) -> u32 {
    let frame = u64::from(frame_bytes);
    let spacing = PREAMBLE_BYTES + frame + GAP_BYTES;
    let waiting = spacing;
    let pause = PREAMBLE_BYTES + u64::from(PFC_BYTES);
    let cable = bytes_in(rate, propagation) + 1;
    let response = u64::from(pfc.response_quanta) * wire::pause::QUANTUM_BITS / 8;
    let begun = PREAMBLE_BYTES + frame;
    let bytes = waiting + pause + 2 * cable + bytes_in(rate, latency) + response + begun;
    (bytes / spacing * frame).min(u64::from(u32::MAX)) as u32
}

/// By rate in Gb/s: how long a neighbour takes to obey, in quanta, as SONiC assumes.
const SONIC_RESPONSE_QUANTA: [(u64, u64); 7] =
    [(10, 67), (25, 80), (40, 118), (50, 147), (100, 394), (200, 453), (400, 905)];

/// The headroom that SONiC's dynamic buffer model computes (its document on dynamic headroom
/// calculation): an MTU that waits here, the cable there and back, what the neighbour sends until it
/// obeys, and a lossless packet. The switch chip's own share is not in it, and a cell counts as full.
/// `None` for rates that the document does not name.
pub fn sonic_headroom_bytes(rate: Rate, propagation: Span, lossless_mtu: u32) -> Option<u64> {
    let quanta = SONIC_RESPONSE_QUANTA.iter().find(|(gbps, _)| rate == Rate::from_gbps(*gbps))?.1;
    let response = quanta * wire::pause::QUANTUM_BITS / 8;
    let cable = 2 * bytes_in(rate, propagation);
    Some(SONIC_MTU_BYTES + cable + response + u64::from(lossless_mtu))
}

/// The MTU of a SONiC port.
const SONIC_MTU_BYTES: u64 = 9_100;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::propagation;

    #[test]
    fn sonic_computes_its_own_example() {
        // 9,100 + 2 x 10,000 + 57,920, and the lossless packet.
        let bytes = sonic_headroom_bytes(Rate::from_gbps(400), propagation(40), 1_500);
        assert_eq!(bytes, Some(87_020 + 1_500));
        assert_eq!(sonic_headroom_bytes(Rate::from_gbps(800), propagation(40), 1_500), None);
    }

    #[test]
    fn three_hundred_metres_at_40_gigabits_need_about_what_the_paper_reserves() {
        let pfc = PfcConfig::default();
        let bytes = headroom_bytes(Rate::from_gbps(40), propagation(300), Span::ZERO, 1_518, &pfc);
        // Zhu 15 reserves 22.4 KB.
        assert!((20_000..24_000).contains(&bytes), "{bytes}");
        let short = headroom_bytes(Rate::from_gbps(40), propagation(2), Span::ZERO, 1_518, &pfc);
        assert!(short < bytes / 2, "{short}");
    }
}
