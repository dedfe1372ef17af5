//! What can be held is bounded: each limit at its bound.
//!
//! Those of the connection manager are tested where it is, and that of regions beside their table.

use rdma::{Access, Key, Operation, Psn, QpState, QpType, SendFlags, Sge};
use std::vec::Vec;
use wire::aeth::{NakCode, Syndrome};
use wire::{Opcode, atomic_eth, reth, roce};

use super::take_one;
use crate::limits::{
    CQE_MAX, CQS_MAX, EVENTS_MAX, INLINE_MAX, MESSAGE_BYTES_MAX, PDS_MAX, QPS_MAX, RD_ATOMIC_MAX,
    REPLIES_MAX, SGE_MAX, SRQ_WR_MAX, SRQS_MAX, WR_MAX, XRCDS_MAX,
};
use crate::testing::{Pair, TestMemory, Verdict};
use crate::{
    Arrival, Config, CqId, CreateError, Endpoint, Mask, ModifyError, PdId, PostError, QpCapacity,
    QpChange, QpSpec, RegionSpec, SrqAttributes,
};

/// Makes objects until there is no room, which must be after `limit`; then room for one, and makes
/// that.
fn fills_up<T>(limit: u32, mut make: impl FnMut() -> Result<T, CreateError>) -> Vec<T> {
    let mut made = Vec::new();
    loop {
        match make() {
            Ok(object) => made.push(object),
            Err(error) => {
                assert_eq!(error, CreateError::Exhausted);
                break;
            }
        }
    }
    assert_eq!(made.len(), limit as usize);
    made
}

fn spec(pd: PdId, cq: CqId) -> QpSpec {
    QpSpec {
        kind: QpType::Rc,
        pd,
        send_cq: cq,
        recv_cq: cq,
        srq: None,
        capacity: QpCapacity::default(),
        signal_all: false,
    }
}

const SRQ: SrqAttributes = SrqAttributes { max_wr: 1, max_sge: 1, limit: 0 };

#[test]
fn an_endpoint_has_so_many_objects_and_no_more() {
    let mut endpoint = Endpoint::new(Config { qpns: 0..1 << 24, ..Config::default() });
    let pds = fills_up(PDS_MAX, || endpoint.alloc_pd());
    endpoint.dealloc_pd(pds[5]).unwrap();
    let pd = endpoint.alloc_pd().unwrap();
    let cqs = fills_up(CQS_MAX, || endpoint.create_cq(1));
    endpoint.destroy_cq(cqs[5]).unwrap();
    let cq = endpoint.create_cq(1).unwrap();
    let srqs = fills_up(SRQS_MAX, || endpoint.create_srq(pd, SRQ));
    endpoint.destroy_srq(srqs[5]).unwrap();
    assert!(endpoint.create_srq(pd, SRQ).is_ok());
    let xrcds = fills_up(XRCDS_MAX, || endpoint.alloc_xrcd());
    endpoint.dealloc_xrcd(xrcds[5]).unwrap();
    assert!(endpoint.alloc_xrcd().is_ok());
    let qps = fills_up(QPS_MAX, || endpoint.create_qp(spec(pd, cq)));
    endpoint.destroy_qp(qps[5]).unwrap();
    assert_eq!(endpoint.create_qp(spec(pd, cq)), Ok(qps[5]));
}

#[test]
fn queue_pairs_are_as_many_as_there_are_numbers() {
    let mut endpoint = Endpoint::new(Config { qpns: 100..103, ..Config::default() });
    let (pd, cq) = (endpoint.alloc_pd().unwrap(), endpoint.create_cq(1).unwrap());
    assert_eq!(fills_up(3, || endpoint.create_qp(spec(pd, cq)))[2].value(), 102);
}

#[test]
fn sizes_are_taken_up_to_their_limits() {
    let mut endpoint = Endpoint::new(Config::default());
    let pd = endpoint.alloc_pd().unwrap();
    let cq = endpoint.create_cq(CQE_MAX).unwrap();
    assert_eq!(endpoint.create_cq(CQE_MAX + 1), Err(CreateError::Limit));
    assert_eq!(endpoint.resize_cq(cq, CQE_MAX + 1), Err(CreateError::Limit));

    let largest = SrqAttributes { max_wr: SRQ_WR_MAX, max_sge: SGE_MAX, limit: SRQ_WR_MAX };
    let srq = endpoint.create_srq(pd, largest).unwrap();
    for larger in [
        SrqAttributes { max_wr: SRQ_WR_MAX + 1, ..largest },
        SrqAttributes { max_sge: SGE_MAX + 1, ..largest },
        SrqAttributes { limit: SRQ_WR_MAX + 1, ..largest },
    ] {
        assert_eq!(endpoint.create_srq(pd, larger), Err(CreateError::Limit), "{larger:?}");
    }
    assert_eq!(endpoint.modify_srq(srq, None, Some(SRQ_WR_MAX + 1)), Err(CreateError::Limit));

    let largest = QpCapacity {
        send_wr: WR_MAX,
        recv_wr: WR_MAX,
        send_sge: SGE_MAX,
        recv_sge: SGE_MAX,
        inline: INLINE_MAX,
    };
    let mut create = |capacity| endpoint.create_qp(QpSpec { capacity, ..spec(pd, cq) });
    assert!(create(largest).is_ok());
    for larger in [
        QpCapacity { send_wr: WR_MAX + 1, ..largest },
        QpCapacity { recv_wr: WR_MAX + 1, ..largest },
        QpCapacity { send_sge: SGE_MAX + 1, ..largest },
        QpCapacity { recv_sge: SGE_MAX + 1, ..largest },
        QpCapacity { inline: INLINE_MAX + 1, ..largest },
    ] {
        assert_eq!(create(larger), Err(CreateError::Limit), "{larger:?}");
    }
}

#[test]
fn reads_and_atomics_outstanding_are_granted_up_to_their_limit() {
    for (depth, result) in [
        (RD_ATOMIC_MAX, Ok(())),
        (RD_ATOMIC_MAX + 1, Err(ModifyError::Value(Mask::MAX_DEST_RD_ATOMIC))),
    ] {
        let mut pair = Pair::default();
        pair.nodes[1].qpn = pair.nodes[1].create_qp(QpType::Rc, None);
        let qpn = pair.nodes[1].qpn;
        let none = |_: &mut QpChange| {};
        let init = pair.change(1, QpType::Rc, QpState::Init, &none);
        let mut rtr = pair.change(1, QpType::Rc, QpState::Rtr, &none);
        rtr.max_dest_rd_atomic = Some(depth);
        pair.nodes[1].endpoint.modify_qp(qpn, &init).unwrap();
        assert_eq!(pair.nodes[1].endpoint.modify_qp(qpn, &rtr), result);
    }
}

#[test]
fn a_message_is_as_long_as_the_specification_allows() {
    let mut pair = Pair::connected(QpType::Rc);
    let half = Sge { length: MESSAGE_BYTES_MAX / 2, ..pair.nodes[0].sge(0, 0) };
    let write = pair.write(1, 0);
    let byte = Sge { length: 1, ..half };
    let longer = pair.try_post(0, 1, write, &[half, half, byte], SendFlags::NONE);
    assert_eq!(longer, Err(PostError::TooLong));
    assert_eq!(pair.try_post(0, 2, write, &[half, half], SendFlags::NONE), Ok(()));
}

/// A responder that nobody drives, and its peer's address.
struct Victim {
    pair: Pair,
    expected: Psn,
}

impl Victim {
    fn new() -> Self {
        let mut pair = Pair::connected(QpType::Rc);
        pair.rule(|_| Verdict::Drop);
        let node = &pair.nodes[1];
        let expected = node.endpoint.query_qp(node.qpn).unwrap().rq_psn;
        Self { pair, expected }
    }

    fn send(&mut self, header: &roce::Repr) {
        let arrival = Arrival {
            source: self.pair.nodes[0].gid,
            destination: self.pair.nodes[1].gid,
            traffic_class: 0,
            hop_limit: 64,
        };
        let mut bytes = std::vec![0; header.header_len()];
        header.emit(&mut bytes);
        self.pair.inject(1, &arrival, &bytes);
    }

    fn read(&self, psn: Psn, length: u32) -> roce::Repr {
        let mut header = roce::Repr::new(Opcode::RC_READ_REQUEST, self.pair.nodes[1].qpn, psn);
        let r_key = self.pair.nodes[1].key;
        header.reth = Some(reth::Repr { address: TestMemory::BASE, r_key, length });
        header
    }

    fn add(&self, psn: Psn) -> roce::Repr {
        let mut header = roce::Repr::new(Opcode::RC_FETCH_ADD, self.pair.nodes[1].qpn, psn);
        header.atomic = Some(atomic_eth::Repr {
            address: TestMemory::BASE,
            r_key: self.pair.nodes[1].key,
            swap_or_add: 1,
            compare: 0,
        });
        header
    }

    /// What waits to be sent, by its syndrome if it has one, and what it carries of an atomic.
    fn answers(&mut self) -> Vec<(Option<Syndrome>, Option<u64>)> {
        let now = self.pair.now;
        let endpoint = &mut self.pair.nodes[1].endpoint;
        core::iter::from_fn(|| {
            let header = take_one(endpoint, now)?;
            Some((header.aeth.map(|aeth| aeth.syndrome), header.atomic_ack))
        })
        .collect()
    }
}

#[test]
fn a_peer_that_asks_for_too_long_a_read_is_refused() {
    for (length, code) in [
        // No region is as long as that here.
        (MESSAGE_BYTES_MAX, NakCode::RemoteAccess),
        (MESSAGE_BYTES_MAX + 1, NakCode::InvalidRequest),
        (u32::MAX, NakCode::InvalidRequest),
    ] {
        let mut victim = Victim::new();
        victim.send(&victim.read(victim.expected, length));
        assert_eq!(victim.answers(), [(Some(Syndrome::Nak(code)), None)], "{length}");
    }
}

#[test]
fn a_peer_that_asks_again_and_again_fills_no_memory() {
    // READs, and atomics of which each is a duplicate: none is taken out by a driver.
    let mut victim = Victim::new();
    let first = victim.expected;
    victim.send(&victim.read(first, 1));
    for turn in 0..10_000 {
        victim.send(&victim.read(first, 1));
        victim.send(&victim.read(first.plus(5 + turn), 1));
    }
    assert!(victim.answers().len() <= REPLIES_MAX);

    let mut victim = Victim::new();
    for turn in 0..4 * REPLIES_MAX as u32 {
        victim.send(&victim.add(first.plus(turn)));
    }
    assert_eq!(victim.answers().len(), REPLIES_MAX);
    let done = victim.pair.nodes[1].endpoint.stats().rx_atomic_requests;
    let word = victim.pair.nodes[1].bytes(0, 8);
    assert_eq!(u64::from_ne_bytes(word.try_into().unwrap()), done, "each is done once");
}

#[test]
fn as_many_answers_are_kept_for_duplicates_as_the_queue_pair_was_asked_for() {
    // Four, as `Pair` asks.
    let mut victim = Victim::new();
    let first = victim.expected;
    for turn in 0..6 {
        victim.send(&victim.add(first.plus(turn)));
    }
    assert_eq!(victim.answers().len(), 6);
    for turn in 0..6_u32 {
        victim.send(&victim.add(first.plus(turn)));
        let again: Vec<u64> = victim.answers().iter().filter_map(|(_, word)| *word).collect();
        let expected: &[u64] = if turn < 2 { &[] } else { &[turn.into()] };
        assert_eq!(again, expected, "the answer to request {turn}");
    }
    assert_eq!(victim.pair.nodes[1].bytes(0, 1), [6], "nothing is done twice");
}

#[test]
fn a_peer_has_no_more_reads_outstanding_than_it_was_granted() {
    let mut victim = Victim::new();
    let first = victim.expected;
    for turn in 0..5 {
        victim.send(&victim.read(first.plus(turn), 1));
    }
    let answers = victim.answers();
    assert_eq!(answers.len(), 5);
    assert_eq!(answers[4].0, Some(Syndrome::Nak(NakCode::InvalidRequest)));
}

#[test]
fn events_that_nobody_fetches_are_bounded() {
    let mut victim = Victim::new();
    let qpn = victim.pair.nodes[1].qpn;
    let none = |_: &mut QpChange| {};
    let ups = [QpState::Init, QpState::Rtr, QpState::Rts]
        .map(|state| victim.pair.change(1, QpType::Rc, state, &none));
    let wrong = {
        let mut header = victim.read(victim.expected, 1);
        header.reth = header.reth.map(|reth| reth::Repr { r_key: Key(0), ..reth });
        header
    };
    for _ in 0..EVENTS_MAX + 10 {
        victim.send(&wrong);
        let endpoint = &mut victim.pair.nodes[1].endpoint;
        endpoint.modify_qp(qpn, &QpChange::to(QpState::Reset)).unwrap();
        for up in &ups {
            endpoint.modify_qp(qpn, up).unwrap();
        }
    }
    let endpoint = &mut victim.pair.nodes[1].endpoint;
    let events = core::iter::from_fn(|| endpoint.poll_event()).count();
    assert_eq!(events, EVENTS_MAX);
}

#[test]
fn a_region_may_be_all_that_there_is_and_a_peer_reaches_what_is_mapped() {
    let mut pair = Pair::connected(QpType::Rc);
    let pd = pair.nodes[1].pd;
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    let everything = RegionSpec { address: 0, length: u64::MAX, iova: 0, access };
    let r_key = pair.nodes[1].endpoint.register(pd, everything).unwrap();
    let sge = pair.nodes[0].sge(0, 8);
    for (remote_address, status) in [
        (TestMemory::BASE + 8, rdma::CompletionStatus::Success),
        (u64::MAX - 8, rdma::CompletionStatus::RemoteAccess),
    ] {
        pair.post(0, 1, Operation::Write { remote_address, r_key, immediate: None }, &[sge]);
        pair.drive();
        assert_eq!(super::only(&mut pair.nodes[0]).status, status);
    }
}
