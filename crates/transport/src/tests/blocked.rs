//! Why nothing leaves, and that it is counted once.

use std::vec::Vec;

use rdma::{Key, QpState, QpType, Rate, SendFlags, Sge, Span};

use crate::testing::Pair;
use crate::{Blocked, Config, Congestion, QpChange, Stats};

/// What blocks node 0, which has one queue pair.
fn reason(pair: &Pair) -> Option<Blocked> {
    let endpoint = &pair.nodes[0].endpoint;
    let reasons: Vec<_> = endpoint.blocked().collect();
    assert!(reasons.iter().all(|&(qpn, _)| qpn == pair.nodes[0].qpn));
    reasons.first().map(|&(_, why)| why)
}

/// Has node 0 blocked by `prepare`, and has it go on by `resume`.
fn blocks(
    config: Config,
    expected: (Blocked, Stats),
    prepare: impl FnOnce(&mut Pair),
    resume: impl FnOnce(&mut Pair),
) {
    let (why, counted) = expected;
    let mut pair = Pair::new(config);
    pair.connect(QpType::Rc, [None, None], |change| {
        change.max_rd_atomic = change.max_rd_atomic.map(|_| 1);
    });
    prepare(&mut pair);
    // An acknowledgement takes longer.
    pair.drive_for(Span::from_ns(1_500));
    assert_eq!(reason(&pair), Some(why));
    // Who asks again gets the same answer, which is not counted again.
    let now = pair.now;
    assert!(pair.nodes[0].endpoint.poll_transmit(now, 1).is_none());
    resume(&mut pair);
    pair.drive();
    assert_eq!(reason(&pair), None, "after {why}");
    let stats = *pair.nodes[0].endpoint.stats();
    let names = Stats::NAMES.iter().zip(stats.values());
    let blocked = |name: &str| name.starts_with("tx_blocked_");
    let found: Vec<_> = names.filter(|(name, value)| blocked(name) && *value > 0).collect();
    let names = Stats::NAMES.iter().zip(counted.values());
    assert_eq!(found, names.filter(|(_, value)| *value > 0).collect::<Vec<_>>());
}

fn read(pair: &mut Pair, id: u64) {
    let (read, sge) = (pair.read(1, 0), pair.nodes[0].sge(0, 8));
    pair.post(0, id, read, &[sge]);
}

fn write(pair: &mut Pair, length: u32) {
    let (write, sge) = (pair.write(1, 0), pair.nodes[0].sge(0, length));
    pair.post(0, 1, write, &[sge]);
}

#[test]
fn each_reason_is_told_while_it_lasts_and_counted_when_it_begins() {
    let usual = Config::default;
    let none = Stats::default();
    blocks(
        usual(),
        (Blocked::Rnr, Stats { tx_blocked_rnr: 1, ..none }),
        |pair| {
            let sge = pair.nodes[0].sge(0, 8);
            pair.post(0, 1, Pair::send(), &[sge]);
            pair.drive_for(Span::from_us(10));
        },
        |pair| {
            let sge = pair.nodes[1].sge(0, 8);
            pair.post_recv(1, 1, &[sge]);
        },
    );
    blocks(
        Config { window_bytes: 3_000, ..usual() },
        (Blocked::Window, Stats { tx_blocked_window: 1, ..none }),
        |pair| write(pair, 4 * 1024),
        |_| {},
    );
    blocks(
        usual(),
        (Blocked::ReadLimit, Stats { tx_blocked_read_limit: 1, ..none }),
        |pair| (1..3).for_each(|id| read(pair, id)),
        |_| {},
    );
    blocks(
        Config { congestion: Congestion::Fixed(Rate::from_gbps(1)), ..usual() },
        (Blocked::Pace, Stats { tx_blocked_pace: 3, ..none }),
        |pair| write(pair, 4 * 1024),
        |_| {},
    );
    blocks(
        usual(),
        (Blocked::Fence, Stats { tx_blocked_fence: 1, ..none }),
        |pair| {
            read(pair, 1);
            let (write, sge) = (pair.write(1, 64), pair.nodes[0].sge(0, 8));
            pair.try_post(0, 2, write, &[sge], SendFlags::FENCE).unwrap();
        },
        |_| {},
    );
    blocks(
        usual(),
        (Blocked::Drain, Stats { tx_blocked_drain: 1, ..none }),
        |pair| {
            write(pair, 8);
            pair.drive_for(Span::from_ns(1));
            let node = &mut pair.nodes[0];
            node.endpoint.modify_qp(node.qpn, &QpChange::to(QpState::Sqd)).unwrap();
            write(pair, 8);
        },
        |pair| {
            pair.drive();
            let node = &mut pair.nodes[0];
            node.endpoint.modify_qp(node.qpn, &QpChange::to(QpState::Rts)).unwrap();
        },
    );
    blocks(
        usual(),
        (Blocked::Failure, Stats { tx_blocked_failure: 1, ..none }),
        |pair| {
            write(pair, 8);
            let (write, sge) = (pair.write(1, 64), pair.nodes[0].sge(0, 8));
            pair.post(0, 2, write, &[Sge { l_key: Key(0x1234), ..sge }]);
        },
        |_| {},
    );
}

#[test]
fn a_full_path_is_told_until_it_has_room() {
    let mut pair = Pair::new(Config::default());
    pair.connect(QpType::Rc, [None, None], |_| {});
    let full = |pair: &mut Pair| {
        let now = pair.now;
        let endpoint = &mut pair.nodes[0].endpoint;
        endpoint.resume();
        assert!(endpoint.poll_transmit_but(now, 1, Some(&|_, _| true)).is_none());
    };
    write(&mut pair, 8);
    for _ in 0..2 {
        full(&mut pair);
        assert_eq!(reason(&pair), Some(Blocked::Path));
    }
    pair.nodes[0].endpoint.resume();
    pair.drive();
    assert_eq!(reason(&pair), None);
    // Who has nothing to send is not blocked.
    full(&mut pair);
    assert_eq!(reason(&pair), None);
    assert_eq!(pair.nodes[0].endpoint.stats().tx_blocked_path, 1);
}

#[test]
fn an_answer_that_the_rate_holds_back_is_told_too() {
    let congestion = Congestion::Fixed(Rate::from_gbps(1));
    let mut pair = Pair::new(Config { congestion, ..Config::default() });
    pair.connect(QpType::Rc, [None, None], |_| {});
    let (read, sge) = (pair.read(1, 0), pair.nodes[0].sge(0, 3 * 1024));
    pair.post(0, 1, read, &[sge]);
    pair.drive_for(Span::from_us(2));
    let answers = &pair.nodes[1];
    assert_eq!(answers.endpoint.blocked().collect::<Vec<_>>(), [(answers.qpn, Blocked::Pace)]);
    pair.drive();
    let answers = &pair.nodes[1];
    assert_eq!(answers.endpoint.blocked().count(), 0);
    assert_eq!(answers.endpoint.stats().tx_blocked_pace, 2);
}
