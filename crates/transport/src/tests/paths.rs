//! Queue pairs of two hosts over a path that has a rate, a queue and a delay, and that loses and reorders: they
//! use it, and nothing stands still.

use std::vec::Vec;

use rdma::{CompletionStatus, Mtu, QpState, QpType, Rate, Span, Time};

use crate::congestion::Bbr;
use crate::limits::STRIDE_MAX;
use crate::testing::storm::random::Random;
use crate::testing::{Pair, Verdict, Wire, on_wire};
use crate::{BetweenHosts, Config, Congestion, QpChange};

/// Bytes of a message, and how many are posted at a time: as perftest does it.
const MESSAGE: u32 = 64 << 10;
const POSTED: u64 = 128;
const RATE: Rate = Rate::from_gbps(2);
const QUEUE_BYTES: u64 = 512_000;

/// A path, the same in both directions.
#[derive(Clone, Copy, Debug)]
struct Path {
    mtu: Mtu,
    /// One way.
    delay: Span,
    /// Packets that are lost, and that others may overtake, of 10,000.
    lost: u64,
    late: u64,
}

const PATH: Path = Path { mtu: Mtu::B4096, delay: Span::from_us(1_000), lost: 0, late: 0 };

#[derive(Clone, Copy, Debug)]
enum Verb {
    Write,
    Read,
}

/// What a run was like.
#[derive(Debug)]
struct Outcome {
    gbps: f64,
    /// The longest time in which no message was done, but for the first.
    longest: Span,
}

fn config() -> Config {
    let between_hosts = BetweenHosts {
        congestion: Congestion::Bbr(Bbr::default()),
        window_bytes: u64::MAX,
        refill_bytes: 32 << 10,
        signs: true,
        out_of_order_packets: 8192,
        out_of_order_bytes: 16 << 20,
        stride_max: STRIDE_MAX,
    };
    let between_hosts = Some(between_hosts);
    Config { between_hosts, ack_interval_packets: 30, ..Config::default() }
}

/// The ends of the path, connected.
fn pair(path: Path, seed: u64) -> Pair {
    let mut pair = Pair::new(config());
    pair.latency = path.delay;
    pair.connect(QpType::Rc, [None, None], |change: &mut QpChange| match change.state {
        Some(QpState::Rtr) => {
            change.between_hosts = Some(true);
            change.path_mtu = Some(path.mtu);
            change.max_dest_rd_atomic = Some(128);
        }
        // 67 ms, seven times.
        Some(QpState::Rts) => (change.timeout, change.max_rd_atomic) = (Some(14), Some(128)),
        _ => {}
    });
    let mut random = Random::new(seed);
    let mut idle_at = [Time::ZERO; 2];
    pair.rule(move |packet: &Wire| {
        let idle_at = &mut idle_at[packet.from];
        let waits = idle_at.since(packet.at);
        if waits > RATE.time_of(QUEUE_BYTES) {
            return Verdict::Drop;
        }
        *idle_at = packet.at + waits + RATE.time_of(on_wire(packet.bytes.len()));
        let is_late = random.below(10_000) < path.late;
        let late = if is_late { Span::from_ns(random.below(200_000)) } else { Span::ZERO };
        if random.below(10_000) < path.lost {
            Verdict::Drop
        } else {
            Verdict::Delay(idle_at.since(packet.at) + late)
        }
    });
    pair
}

/// Messages for so long, one after the other, and as many at a time as are posted.
fn run(verb: Verb, path: Path, seed: u64, lasts: Span) -> Outcome {
    let mut pair = pair(path, seed);
    let offset = |id: u64| id % POSTED * u64::from(MESSAGE);
    pair.nodes[1].fill(0, offset(POSTED - 1) as usize + MESSAGE as usize, 7);
    let (mut posted, mut done) = (0, 0);
    let begin = pair.now;
    let (mut last, mut longest) = (None, Span::ZERO);
    while pair.now < begin + lasts {
        while posted < done + POSTED {
            let sge = pair.nodes[0].sge(offset(posted), MESSAGE);
            let operation = match verb {
                Verb::Write => pair.write(1, offset(posted)),
                Verb::Read => pair.read(1, offset(posted)),
            };
            pair.post(0, posted, operation, &[sge]);
            posted += 1;
        }
        pair.drive_for(Span::from_us(100));
        for completion in pair.nodes[0].completions() {
            let said = (completion.id, completion.status);
            assert_eq!(said, (done, CompletionStatus::Success), "seed {seed}, {path:?}");
            let [here, there] = &mut pair.nodes;
            let [here, there] = [here, there].map(|node| node.bytes(offset(done), 4096));
            assert!(here == there, "seed {seed}, {path:?}");
            if let Verb::Read = verb {
                pair.nodes[0].fill(offset(done), 4096, done as u8);
            }
            done += 1;
            longest = longest.max(last.map_or(Span::ZERO, |last| pair.now.since(last)));
            last = Some(pair.now);
        }
    }
    longest = longest.max(pair.now.since(last.unwrap_or(begin)));
    let bits = (done * u64::from(MESSAGE) * 8) as f64;
    Outcome { gbps: bits / (lasts.as_ps() as f64 / 1e3), longest }
}

#[test]
fn a_path_that_loses_and_reorders_is_used_by_writes_and_reads() {
    let lasts = Span::from_ms(150);
    for (delay, lost, late, least) in [
        (100, 0, 0, 1.8),
        (100, 100, 0, 1.6),
        (1_000, 0, 0, 1.5),
        (1_000, 10, 0, 1.5),
        (1_000, 100, 0, 1.2),
        (1_000, 0, 100, 1.4),
    ] {
        for verb in [Verb::Write, Verb::Read] {
            let path = Path { delay: Span::from_us(delay), lost, late, ..PATH };
            let outcome = run(verb, path, delay + lost, lasts);
            assert!(outcome.gbps >= least, "{verb:?}, {path:?}: {outcome:?}");
        }
    }
}

#[test]
fn a_queue_that_was_filled_at_the_start_costs_milliseconds() {
    for verb in [Verb::Write, Verb::Read] {
        let path = Path { mtu: Mtu::B1024, delay: Span::from_us(100), ..PATH };
        let outcome = run(verb, path, 0, Span::from_ms(100));
        assert!(outcome.longest < Span::from_ms(10), "{verb:?}: {outcome:?}");
    }
}

#[test]
fn repeated_reads_do_not_slow_each_other_down() {
    for seed in 0..8 {
        let mut pair = pair(Path { mtu: Mtu::B1024, delay: Span::from_us(100), ..PATH }, seed);
        let to = pair.nodes[0].sge(0, MESSAGE);
        pair.post(0, 0, pair.read(1, 0), &[to]);
        pair.drive();
        assert_eq!(pair.nodes[0].completions().len(), 1);
        // Most answers are lost for a while.
        let heals = pair.now + Span::from_ms(200);
        let mut random = Random::new(seed);
        pair.rule(move |packet| {
            let is_lost = packet.from == 1 && packet.at < heals && random.below(100) < 90;
            if is_lost { Verdict::Drop } else { Verdict::Deliver }
        });
        for id in 1..32 {
            pair.post(0, id, pair.read(1, 0), &[to]);
        }
        let mut done = Vec::new();
        while done.len() < 31 {
            pair.drive_for(Span::from_ms(1));
            done.extend(pair.nodes[0].completions().iter().map(|it| it.status));
            assert!(pair.now < heals + Span::from_ms(200), "seed {seed}: {} done", done.len());
        }
        assert!(done.iter().all(|status| *status == CompletionStatus::Success), "{done:?}");
    }
}
