//! WRITE, SEND and READ over paths that have a rate, a queue and a delay, and that lose, reorder and duplicate:
//! everything arrives, in a time that is bounded by what the path needs, and paths are filled and shared.

use rdma::{Mtu, QpState, QpType, Rate, Span};
use std::format;
use std::vec::Vec;

use crate::congestion::{Bbr, Congestion};
use crate::testing::Pair;
use crate::testing::load::{Load, Program, Verb, config};
use crate::testing::path::{MILLION, Path};
use crate::testing::trial::Trial;

const BBR: Congestion = Congestion::Bbr(Bbr::DEFAULT);

/// How much longer than on a perfect path a trial may take: a few times as long, some round trips for each
/// message in turn, and the timeouts of a beginning that is lost whole (67, 134 and 268 ms).
fn bound(trial: &Trial) -> Span {
    trial.ideal() * 8 + (trial.path.delay + trial.path.late) * 400 + Span::from_ms(2_000)
}

#[test]
fn everything_comes_over_any_path_in_a_bounded_time() {
    for seed in 0..240 {
        let trial = Trial::new(seed);
        if let Err(error) = trial.run(BBR, bound(&trial)) {
            panic!("{trial}: {error}");
        }
    }
}

/// A path of 200 Mb/s.
fn path(delay_us: u64, lost: u64, reordered: u64) -> Path {
    let path = Path::new(Rate::from_mbps(200), Span::from_us(delay_us));
    Path { lost, reordered, queue_bytes: 200_000, ..path }
}

/// What part of a path's rate is payload, after a second.
fn goodput(load: Load, path: Path) -> f64 {
    let mut program = Program::new(config(BBR), load, path, 1, None);
    let second = Span::from_ms(1_000);
    program.go_on_for(second).unwrap();
    let bytes: u64 = program.go_on_for(second).unwrap().iter().sum();
    bytes as f64 * 8.0 / path.rate.as_bps() as f64
}

#[test]
fn a_path_is_filled_whatever_its_delay_and_its_losses() {
    for mtu in [Mtu::B1024, Mtu::B4096] {
        // Headers of Ethernet, IP, UDP and RoCE, and what is sent again.
        let payload = f64::from(mtu.bytes()) / (f64::from(mtu.bytes()) + 90.0);
        for (delay_us, lost, reordered) in [
            (1_000, 0, 0),
            (1_000, 1_000, 0),
            (1_000, 10_000, 0),
            (1_000, 0, 10_000),
            (10_000, 0, 0),
        ] {
            for verb in Verb::ALL {
                let load = Load { depth: 64, ..Load::new(verb, mtu) };
                let part = goodput(load, path(delay_us, lost, reordered)) / payload;
                let told = (mtu, delay_us, lost, reordered, verb);
                assert!(part > if lost == 10_000 { 0.8 } else { 0.85 }, "{part:.3} {told:?}");
            }
        }
    }
}

/// Packets that overtake others by more than a quarter of a round trip count as lost until it shows that they were late.
#[test]
fn a_path_is_filled_though_packets_overtake_each_other_by_far() {
    let of = |mbps, delay_us| Path::new(Rate::from_mbps(mbps), Span::from_us(delay_us));
    let jitter = |us| move |path| Path { jitter: Span::from_us(us), ..path };
    let ahead = |path| Path { ahead: MILLION / 100, ..path };
    let lossy = |path| Path { lost: MILLION / 100, ..path };
    for path in [
        jitter(500)(of(1_000, 100)),
        jitter(1_000)(of(1_000, 1_000)),
        jitter(2_000)(of(1_000, 1_000)),
        jitter(4_000)(of(100, 5_000)),
        ahead(of(1_000, 1_000)),
        ahead(of(100, 5_000)),
        ahead(lossy(of(1_000, 1_000))),
        jitter(500)(lossy(of(1_000, 1_000))),
    ] {
        for (verb, least) in [(Verb::Write, 0.9), (Verb::Send, 0.9), (Verb::Read, 0.85)] {
            let part = goodput(Load::new(verb, Mtu::B1024), path);
            assert!(part > least, "{verb:?}: {part:.3} over {path:?}");
        }
    }
}

/// As far as another continent, where a round trip takes longer than the timeout that most programs choose (67 ms); and where what
/// is late, or is a READ of many packets, looks like a queue, so that each loss by chance seemed to come of one.
#[test]
fn a_long_path_is_filled_though_it_loses_and_packets_overtake_each_other() {
    let of = |delay_ms| Path {
        queue_bytes: 500_000,
        ..Path::new(Rate::from_mbps(100), Span::from_ms(delay_ms))
    };
    let lossy = |path| Path { lost: MILLION / 100, ..path };
    let jitter = |ms| move |path| Path { jitter: Span::from_ms(ms), ..path };
    for (path, least) in [
        (lossy(of(20)), 0.8),
        (jitter(10)(lossy(of(20))), 0.7),
        (jitter(5)(lossy(of(5))), 0.85),
        (of(50), 0.7),
        (of(100), 0.7),
    ] {
        for verb in Verb::ALL {
            for seed in 1..=3 {
                let mut program =
                    Program::new(config(BBR), Load::new(verb, Mtu::B1024), path, seed, None);
                program.go_on_for(Span::from_ms(6_000)).unwrap();
                let bytes: u64 = program.go_on_for(Span::from_ms(4_000)).unwrap().iter().sum();
                let part = bytes as f64 * 8.0 / 400e6;
                assert!(part > least, "{verb:?}, {seed}: {part:.3} over {path:?}");
            }
        }
    }
}

/// A responder answers READs in their order, so a request that is lost holds back all behind it.
#[test]
fn lost_requests_cost_reads_no_more_than_lost_packets_cost_writes() {
    for (mtu, delay_us) in [(Mtu::B1024, 300), (Mtu::B4096, 3_000)] {
        let path = Path::new(Rate::from_mbps(1_000), Span::from_us(delay_us));
        let path = Path { lost: 10_000, ..path };
        let [write, read] =
            [Verb::Write, Verb::Read].map(|verb| goodput(Load::new(verb, mtu), path));
        assert!(read > 0.95 * write, "READ {read:.3}, WRITE {write:.3}: {mtu:?}, {delay_us} us");
    }
}

#[test]
fn how_things_stand_and_why_packets_were_repeated_is_told() {
    let load = Load { depth: 16, ..Load::new(Verb::ALL[0], Mtu::B1024) };
    let mut program = Program::new(config(BBR), load, path(1_000, 10_000, 0), 1, None);
    program.go_on_for(Span::from_ms(500)).unwrap();
    let endpoint = &program.pair.nodes[0].endpoint;
    let stats = endpoint.stats();
    let reasons = [
        stats.retransmitted_after_timeout,
        stats.retransmitted_after_nak,
        stats.retransmitted_after_rnr,
        stats.retransmitted_selectively,
        stats.retransmitted_as_probe,
    ];
    assert_eq!(reasons.iter().sum::<u64>(), stats.retransmitted_pkts);
    assert!(stats.retransmitted_selectively > 0 && stats.retransmitted_after_rnr == 0, "{stats}");
    let control = endpoint.control();
    assert_eq!(control.cc_queue_pairs, 1);
    // The path takes a millisecond each way, and 200 Mb/s.
    assert!((2_000..3_000).contains(&control.rtt_min_us), "{control:?}");
    assert!(control.rtt_smoothed_us >= control.rtt_min_us, "{control:?}");
    assert!((100..600).contains(&control.cc_rate_mbps), "{control:?}");
    assert!((20_000..500_000).contains(&control.cc_window_bytes), "{control:?}");
}

#[test]
fn reordering_alone_repeats_next_to_nothing() {
    for verb in Verb::ALL {
        let load = Load { depth: 16, ..Load::new(verb, Mtu::B1024) };
        let path = Path { queue_bytes: 10_000_000, ..path(1_000, 0, MILLION / 10) };
        let mut program = Program::new(config(BBR), load, path, 1, None);
        program.go_on_for(Span::from_ms(1_000)).unwrap();
        let [sent, again] =
            [program.counts().passed, program.pair.nodes[0].endpoint.stats().retransmitted_pkts];
        assert!(again * 50 < sent, "{verb:?}: {again} of {sent}");
    }
}

/// The answers to what was asked for again overtake each other, too.
#[test]
fn repetitions_that_overtake_each_other_are_no_losses() {
    for verb in Verb::ALL {
        let path = Path::new(Rate::from_mbps(1_000), Span::from_ms(5));
        let path = Path { lost: MILLION / 100, jitter: Span::from_us(2_500), ..path };
        let mut program = Program::new(config(BBR), Load::new(verb, Mtu::B1024), path, 1, None);
        let mut so_far = || {
            program.go_on_for(Span::from_ms(1_000)).unwrap();
            let stats = program.pair.nodes[0].endpoint.stats();
            [program.counts().passed, stats.retransmitted_pkts]
        };
        let before = so_far();
        let [sent, again] = so_far();
        let [sent, again] = [sent - before[0], again - before[1]];
        assert!(again * 1_000 < sent * 14, "{verb:?}: {again} of {sent}");
    }
}

/// Over a slow path, after short messages, whose round trips take 0.14 ms, long ones, which take up to 3.4 ms.
#[test]
fn what_takes_longer_than_before_is_not_probed_for_long() {
    for length in [8_192, 12_288, 40_000] {
        let mut pair = Pair::with_memory(config(Congestion::None), 1 << 16);
        let path = Path::new(Rate::from_mbps(100), Span::from_us(60));
        let (rule, counts) = path.rule_beside(1, None);
        pair.rule(rule);
        pair.latency = Span::ZERO;
        pair.connect(QpType::Rc, [None, None], |change| {
            change.path_mtu = change.path_mtu.map(|_| Mtu::B4096);
            if change.state == Some(QpState::Rtr) {
                change.between_hosts = Some(true);
            }
        });
        for message in 0..600 {
            let length = if message < 60 { 8 } else { length };
            let from = pair.nodes[0].sge(0, length);
            pair.post(0, message, pair.write(1, 0), &[from]);
            pair.drive();
        }
        let again = pair.nodes[0].endpoint.stats().retransmitted_pkts;
        let sent = counts.get().passed;
        assert!(again * 100 < sent, "{length} bytes: {again} of {sent}");
    }
}

/// Jain's index of eight queue pairs, over as many seconds as they have had.
fn jain(delay_us: u64, lost: u64, seed: u64, seconds: u64) -> f64 {
    let load = Load { depth: 16, qps: 8, ..Load::new(Verb::Write, Mtu::B1024) };
    let mut program = Program::new(config(BBR), load, path(delay_us, lost, 0), seed, None);
    let time = Span::from_ms(1_000 * seconds);
    program.go_on_for(time).unwrap();
    let parts = program.go_on_for(time).unwrap();
    let [sum, squares] = [1, 2].map(|power| parts.iter().map(|it| (*it as f64).powi(power)).sum());
    let sum: f64 = sum;
    sum * sum / 8.0 / squares
}

/// Over a long path a window falls and rises in a second or two: it takes some of these until shares are even. Draws differ by
/// a thousandth of the delay, and by what is lost.
#[test]
fn eight_queue_pairs_share_a_path() {
    for (delay_us, lost, seconds) in [(1_000, 10_000, 5), (1_000, 0, 5), (10_000, 0, 15)] {
        let draws = 1..=8_u64;
        let mut indices: Vec<f64> = draws
            .map(|draw| jain(delay_us + draw * delay_us / 1_000, lost, draw, seconds))
            .collect();
        indices.sort_by(f64::total_cmp);
        let (least, median) = (indices[0], indices[indices.len() / 2]);
        let told = format!("over {delay_us} us, {lost} lost: {indices:.3?}");
        assert!(median > 0.95 && least > 0.93, "{told}");
    }
}

/// A packet of each is about what the queue holds, so nearly all that leaves after a timeout finds it full. Before timeouts
/// differed, and were probed in, and as long as path probes left together with repetitions, retries ran out in two seconds.
#[test]
fn many_queue_pairs_get_over_a_slow_port_with_a_short_queue() {
    for seed in 1..=4 {
        let path = Path::new(Rate::from_mbps(100), Span::from_ms(1));
        let path = Path { queue_bytes: 25_000, jitter: Span::from_us(200), ..path };
        let load = Load { depth: 16, qps: 16, ..Load::new(Verb::Write, Mtu::B1024) };
        let mut program = Program::new(config(BBR), load, path, seed, None);
        let bytes: u64 = program.go_on_for(Span::from_ms(4_000)).unwrap().iter().sum();
        assert!(bytes > 40_000_000, "{bytes}");
    }
}

#[test]
fn a_path_is_shared_with_tcp() {
    // Of the last, where each has a large window, TCP had a quarter as long as the flow did not fall with it (`others.rs`).
    for (mbps, delay_us, queue_bytes) in
        [(500, 1_000, 250_000), (200, 100, 250_000), (2_000, 1_000, 512_000)]
    {
        let path =
            Path { queue_bytes, ..Path::new(Rate::from_mbps(mbps), Span::from_us(delay_us)) };
        let load = Load { depth: 64, ..Load::new(Verb::Write, Mtu::B1024) };
        // When TCP begins is left to chance.
        let ratios = (1..=8).map(|seed| {
            let mut program = Program::new(config(BBR), load, path, seed, Some(0));
            program.go_on_for(Span::from_ms(3_000)).unwrap();
            let before = program.counts().tcp_bytes;
            let ours: u64 = program.go_on_for(Span::from_ms(6_000)).unwrap().iter().sum();
            ours as f64 / (program.counts().tcp_bytes - before) as f64
        });
        let mut ratios: Vec<f64> = ratios.collect();
        ratios.sort_by(f64::total_cmp);
        let (least, median, most) = (ratios[0], ratios[4], ratios[7]);
        let is_fair = least > 0.5 && (0.6..1.6).contains(&median) && most < 2.5;
        assert!(is_fair, "{ratios:.2?} of TCP's over {mbps} Mb/s, {delay_us} us");
    }
}
