//! Queue pairs that wait because there is no room where their packets go.

use std::vec::Vec;

use rdma::{Gid, QKey, QpType, Qpn};

use crate::testing::Pair;

/// What leaves, if there is no room at some queue pairs of the peer.
fn leaves(pair: &mut Pair, full: &dyn Fn(Gid, Qpn) -> bool) -> Vec<Qpn> {
    let now = pair.now;
    let endpoint = &mut pair.nodes[0].endpoint;
    core::iter::from_fn(|| {
        let run = endpoint.poll_transmit_but(now, 64, Some(full))?;
        let to = run.header().bth.destination;
        run.sent();
        Some(to)
    })
    .collect()
}

#[test]
fn who_has_no_room_keeps_nobody_else_from_sending() {
    for kind in [QpType::Rc, QpType::Uc, QpType::Ud] {
        let mut pair = Pair::default();
        let mut peers = Vec::new();
        for _ in 0..2 {
            pair.connect(kind, [None, None], |_| {});
            let sge = pair.nodes[0].sge(0, 8);
            let is_datagram = kind == QpType::Ud;
            let datagram = || pair.datagram(1, QKey(0x1111));
            let operation = if is_datagram { datagram() } else { Pair::send() };
            pair.post(0, 1, operation, &[sge]);
            peers.push(pair.nodes[1].qpn);
        }
        let (to, other) = (peers[0], peers[1]);
        assert_eq!(leaves(&mut pair, &|_, qpn| qpn == to), [other], "{kind:?}");
        assert_eq!(leaves(&mut pair, &|_, _| false), [], "it has no turn before it is resumed");
        pair.nodes[0].endpoint.resume();
        assert_eq!(leaves(&mut pair, &|_, qpn| qpn == to), [], "{kind:?}");
        pair.nodes[0].endpoint.resume();
        assert_eq!(leaves(&mut pair, &|_, qpn| qpn == other), [to], "{kind:?}");
    }
}

#[test]
fn a_queue_pair_that_waits_for_room_can_be_destroyed() {
    let mut pair = Pair::connected(QpType::Rc);
    let sge = pair.nodes[0].sge(0, 8);
    pair.post(0, 1, Pair::send(), &[sge]);
    assert_eq!(leaves(&mut pair, &|_, _| true), []);
    let qpn = pair.nodes[0].qpn;
    pair.nodes[0].endpoint.destroy_qp(qpn).unwrap();
    pair.nodes[0].endpoint.resume();
    assert_eq!(leaves(&mut pair, &|_, _| false), []);
}
