//! A load balancer: of two next hops that a flow's hash names, the one with less before it.
//!
//! ```text
//!   hash ──┬─► next hop 1: 90 KB ─┐
//!          └─► next hop 3: 20 KB ─┴─► 3, which the flow keeps until it was silent for a gap
//! ```
//!
//! Of n next hops, the most loaded of hashed flows has about log n / log log n times the mean; with two choices it
//! is log log n (Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing", 2001). To look at
//! all of them is no better by much, and sends all new flows of a moment to the same one.
//!
//! A flow keeps its next hop, so that its packets do not overtake each other, as a flowlet does (Vanini et al.,
//! "Let It Flow", NSDI 2017). Flows that share an entry of the table are one to it.

use fabric::extend::{Arrival, CustomBalance, Hop, Hops, LoadBalancer, LoadBalancerKind, Setting};
use rdma::{Span, Time};

const GAP: Setting = Setting::new(
    "gap_us",
    0..=1_000_000,
    500,
    "A flow of which nothing came for longer may take another next hop.",
);

/// What is registered.
pub static TWO_CHOICES: LoadBalancerKind = LoadBalancerKind::new(
    "two-choices",
    "Of two next hops by hash, the one with less before it: what two-choices is set to.",
    |custom| Box::new(TwoChoices::new(custom)),
)
.with_settings(&[GAP])
.in_order();

/// Entries of the table of a switch.
const ENTRIES: usize = 1 << 12;

/// The balancer of one switch.
#[derive(Debug)]
struct TwoChoices {
    gap: Span,
    /// By hash: when the last packet came, and which next hop it took.
    flows: Vec<Option<(Time, usize)>>,
}

impl TwoChoices {
    fn new(custom: &CustomBalance) -> Self {
        Self { gap: Span::from_us(custom.get(&GAP)), flows: vec![None; ENTRIES] }
    }
}

impl LoadBalancer for TwoChoices {
    fn choose<'s>(&mut self, packet: &Arrival, hops: &Hops<'s>) -> Hop<'s> {
        let flow = &mut self.flows[packet.hash as usize % ENTRIES];
        let hop = match *flow {
            Some((last, index)) if packet.now.since(last) <= self.gap => hops.at(index),
            _ => {
                // What the bits turned over name is independent of what they name.
                let [one, other] = [hops.hashed(packet.hash), hops.hashed(!packet.hash)];
                if hops.backlog_bytes(other) < hops.backlog_bytes(one) { other } else { one }
            }
        };
        *flow = Some((packet.now, hop.index()));
        hop
    }
}
