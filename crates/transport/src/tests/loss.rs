//! Many queue pairs over a link that is slower than theirs, with a short queue and no marks: what
//! congestion control makes of losses.

use core::sync::atomic::{AtomicU64, Ordering};
use std::format;
use std::sync::Arc;

use rdma::{Mtu, QpType, Rate, Span, Time};

use super::statuses;
use crate::Config;
use crate::congestion::{Congestion, Dcqcn};
use crate::testing::storm::random::Random;
use crate::testing::{Pair, Verdict};

const QPS: u64 = 8;
const MESSAGE_BYTES: u32 = 1 << 20;
const LINE: Rate = Rate::from_gbps(10);
const BOTTLENECK: Rate = Rate::from_gbps(1);
const QUEUE_BYTES: u64 = 64 << 10;

struct Outcome {
    dropped: u64,
    took: Span,
}

/// Writes a message by each queue pair; the seed draws when they begin and how long answers take.
fn run(congestion: Congestion, mtu: Mtu, seed: u64) -> Outcome {
    let window_bytes = 512 << 10;
    let config = Config { congestion, window_bytes, ..Config::default() };
    let mut pair = Pair::new(config);
    pair.rate = Some(LINE);
    let dropped = Arc::new(AtomicU64::new(0));
    let (drops, mut random) = (Arc::clone(&dropped), Random::new(seed));
    let mut free_at = Time::ZERO;
    pair.rule(move |packet| {
        if packet.from == 1 {
            return Verdict::Delay(Span::from_ns(random.below(10_000)));
        }
        let waits = free_at.since(packet.at);
        let took = BOTTLENECK.time_of(packet.bytes.len() as u64 + 50);
        if waits + took > BOTTLENECK.time_of(QUEUE_BYTES) {
            drops.fetch_add(1, Ordering::Relaxed);
            return Verdict::Drop;
        }
        free_at = free_at.max(packet.at) + took;
        Verdict::Delay(free_at.since(packet.at))
    });
    let mut random = Random::new(!seed);
    for id in 0..QPS {
        pair.connect(QpType::Rc, [None, None], |change| {
            change.path_mtu = change.path_mtu.map(|_| mtu);
        });
        let from = pair.nodes[0].sge(0, MESSAGE_BYTES);
        pair.post(0, id, pair.write(1, 0), &[from]);
        pair.drive_for(Span::from_ns(random.below(100_000)));
    }
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]).len() as u64, QPS);
    Outcome { dropped: dropped.load(Ordering::Relaxed), took: pair.now.since(Time::ZERO) }
}

#[test]
fn losses_slow_a_sender_down_and_become_a_tenth() {
    let dcqcn = Dcqcn { line_rate: LINE, ..Dcqcn::scaled() };
    for (mtu, seed) in
        [Mtu::B1024, Mtu::B4096].into_iter().flat_map(|mtu| (0..8).map(move |it| (mtu, it)))
    {
        let none = run(Congestion::None, mtu, seed);
        let slowed = run(Congestion::Dcqcn(dcqcn), mtu, seed);
        let words = format!(
            "{mtu:?}, seed {seed}: {} dropped in {}, and {} in {}",
            none.dropped, none.took, slowed.dropped, slowed.took
        );
        assert!(slowed.dropped * 10 < none.dropped && slowed.took < none.took, "{words}");
    }
    // It is the losses that it hears of.
    let deaf = Congestion::Dcqcn(Dcqcn { cut_on_loss: false, ..dcqcn });
    let [deaf, none] = [deaf, Congestion::None].map(|it| run(it, Mtu::B1024, 0));
    assert!(deaf.dropped * 2 > none.dropped, "{}", deaf.dropped);
}
