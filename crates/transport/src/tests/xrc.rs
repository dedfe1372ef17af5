//! XRC: one target, several queues, and memory that only its own queue's domain reaches.

use rdma::completion::Attached;
use rdma::{
    CompletionOpcode, CompletionStatus, Key, Operation, QpState, QpType, Qpn, RecvRequest,
    SendFlags, Span, WorkRequest,
};
use std::vec::Vec;
use wire::opcode::{Headers, Service};

use super::only;
use crate::testing::{Pair, TestMemory, Verdict};
use crate::{
    CqId, CreateError, DestroyError, Event, PdId, PostError, QpCapacity, QpChange, QpSpec,
    SrqAttributes, SrqId, XrcdId,
};

const SIZES: SrqAttributes = SrqAttributes { max_wr: 64, max_sge: 4, limit: 0 };

/// Node 0 is the initiator; node 1 has the target, and two queues in its domain.
struct Scene {
    pair: Pair,
    domain: XrcdId,
    queues: [SrqId; 2],
    /// Where the second queue completes; the first uses the node's own.
    second_cq: CqId,
}

impl Scene {
    fn new() -> Self {
        let mut pair = Pair::default();
        let node = &mut pair.nodes[1];
        let domain = node.endpoint.alloc_xrcd().unwrap();
        let second_cq = node.endpoint.create_cq(64).unwrap();
        let queues = [node.cq, second_cq]
            .map(|cq| node.endpoint.create_xrc_srq(node.pd, domain, cq, SIZES).unwrap());
        node.qpn = node.endpoint.create_xrc_target(domain).unwrap();
        pair.nodes[0].qpn = pair.nodes[0].create_qp(QpType::XrcInitiator, None);
        pair.bring_up(0, QpType::XrcInitiator, &|_| {});
        pair.bring_up(1, QpType::XrcTarget, &|_| {});
        Self { pair, domain, queues, second_cq }
    }

    fn number(&self, queue: usize) -> Qpn {
        self.pair.nodes[1].endpoint.srq_number(self.queues[queue]).unwrap()
    }

    fn post(&mut self, srq: Qpn, operation: Operation, length: u32) -> Result<(), PostError> {
        let node = &mut self.pair.nodes[0];
        let sges = [node.sge(0, length)];
        let flags = SendFlags::SIGNALED;
        let request = WorkRequest { id: 1, operation, flags, sges: &sges, inline: None };
        node.endpoint.post_send_xrc(self.pair.now, node.qpn, srq, &request)
    }

    fn post_recv(&mut self, queue: usize, id: u64, offset: u64) {
        let node = &mut self.pair.nodes[1];
        let sges = [node.sge(offset, 8192)];
        node.endpoint.post_srq_recv(self.queues[queue], &RecvRequest { id, sges: &sges }).unwrap();
    }

    /// Posts to the first queue, and says how it ended.
    fn run(&mut self, operation: Operation, length: u32) -> CompletionStatus {
        self.post(self.number(0), operation, length).unwrap();
        self.pair.drive();
        only(&mut self.pair.nodes[0]).status
    }
}

#[test]
fn a_message_goes_to_the_queue_that_it_names() {
    let mut scene = Scene::new();
    scene.pair.record();
    scene.pair.nodes[0].fill(0, 3000, 5);
    let expected = scene.pair.nodes[0].bytes(0, 3000);
    scene.post_recv(0, 100, 0);
    scene.post_recv(1, 200, 65536);
    let immediate = Some([1, 2, 3, 4]);
    scene.post(scene.number(1), Operation::Send { immediate, address: None }, 3000).unwrap();
    scene.pair.drive();
    assert_eq!(only(&mut scene.pair.nodes[0]).status, CompletionStatus::Success);
    let node = &mut scene.pair.nodes[1];
    let received = node.endpoint.poll_cq(scene.second_cq).unwrap();
    assert_eq!((received.id, received.status), (200, CompletionStatus::Success));
    assert_eq!((received.byte_len, received.opcode), (3000, CompletionOpcode::Recv));
    assert_eq!((received.qpn, received.attached), (node.qpn, Attached::Immediate([1, 2, 3, 4])));
    assert_eq!(node.endpoint.poll_cq(node.cq), None, "the other queue keeps its request");
    assert_eq!(node.bytes(65536, 3000), expected);
    // Every request packet has the header, no answer has it, and all are of the service.
    let number = scene.number(1);
    for packet in &scene.pair.sent {
        let facts = packet.header.facts();
        assert_eq!(facts.service, Service::Xrc);
        assert_eq!(facts.headers.has(Headers::XRCETH), packet.from == 0);
        assert_eq!(packet.header.xrc_srqn, (packet.from == 0).then_some(number));
    }
    assert_eq!(scene.pair.sent.len(), 4, "three packets and an acknowledgement");
}

#[test]
fn one_sided_operations_reach_the_memory_of_the_queues_domain() {
    let mut scene = Scene::new();
    let write = scene.pair.write(1, 128);
    scene.pair.nodes[0].fill(0, 5000, 9);
    let expected = scene.pair.nodes[0].bytes(0, 5000);
    assert_eq!(scene.run(write, 5000), CompletionStatus::Success);
    assert_eq!(scene.pair.nodes[1].bytes(128, 5000), expected);

    scene.pair.nodes[1].fill(0, 5000, 3);
    let expected = scene.pair.nodes[1].bytes(0, 5000);
    let read = scene.pair.read(1, 0);
    assert_eq!(scene.run(read, 5000), CompletionStatus::Success);
    assert_eq!(scene.pair.nodes[0].bytes(0, 5000), expected);

    let (remote_address, r_key) = (TestMemory::BASE + 8, scene.pair.nodes[1].key);
    let before = scene.pair.nodes[1].bytes(8, 8);
    let add = Operation::FetchAdd { remote_address, r_key, add: 1 };
    assert_eq!(scene.run(add, 8), CompletionStatus::Success);
    assert_eq!(scene.pair.nodes[0].bytes(0, 8), before);
}

#[test]
fn a_queue_of_another_protection_domain_does_not_reach_the_region() {
    let mut scene = Scene::new();
    let node = &mut scene.pair.nodes[1];
    let other = node.endpoint.alloc_pd().unwrap();
    let foreign = node.endpoint.create_xrc_srq(other, scene.domain, node.cq, SIZES).unwrap();
    let number = node.endpoint.srq_number(foreign).unwrap();
    let write = scene.pair.write(1, 0);
    scene.post(number, write, 8).unwrap();
    scene.pair.drive();
    assert_eq!(only(&mut scene.pair.nodes[0]).status, CompletionStatus::RemoteAccess);
    let qpn = scene.pair.nodes[1].qpn;
    assert!(scene.pair.nodes[1].events.contains(&Event::QpAccessError(qpn)));
}

#[test]
fn a_number_that_names_no_queue_of_the_domain_is_an_invalid_request() {
    let numbers: [fn(&mut Scene) -> Qpn; 4] = [
        |_| Qpn::new(0),
        |_| Qpn::new(0xff_ffff),
        // Of XRC, but of another domain.
        |scene| {
            let node = &mut scene.pair.nodes[1];
            let other = node.endpoint.alloc_xrcd().unwrap();
            let queue = node.endpoint.create_xrc_srq(node.pd, other, node.cq, SIZES).unwrap();
            node.endpoint.srq_number(queue).unwrap()
        },
        // Not of XRC.
        |scene| {
            let node = &mut scene.pair.nodes[1];
            let plain = node.endpoint.create_srq(node.pd, SIZES).unwrap();
            assert_eq!(node.endpoint.srq_number(plain), None);
            plain.number()
        },
    ];
    for number in numbers {
        let mut scene = Scene::new();
        scene.post_recv(0, 100, 0);
        let number = number(&mut scene);
        scene.post(number, Pair::send(), 8).unwrap();
        scene.pair.drive();
        let sent = only(&mut scene.pair.nodes[0]);
        assert_eq!(sent.status, CompletionStatus::RemoteInvalidRequest, "{number}");
        assert_eq!(scene.pair.nodes[1].completions(), [], "the request stays");
    }
}

#[test]
fn a_message_that_changes_its_queue_half_way_is_refused_and_the_receive_fails() {
    let mut scene = Scene::new();
    scene.post_recv(0, 100, 0);
    scene.post_recv(1, 200, 65536);
    let (first, second) = (scene.number(0), scene.number(1));
    // The second packet is replaced by one that names the other queue.
    let mut forged = None;
    scene.pair.record();
    scene.pair.rule(move |packet| match packet.header.xrc_srqn {
        Some(number) if number == first && packet.bytes[0] != 0xa0 => Verdict::Drop,
        _ => Verdict::Deliver,
    });
    scene.post(first, Pair::send(), 2000).unwrap();
    scene.pair.drive_for(Span::from_us(10));
    for packet in &scene.pair.sent {
        if packet.from == 0 && packet.bytes[0] != 0xa0 {
            let mut bytes = packet.bytes.clone();
            bytes[12..16].copy_from_slice(&second.value().to_be_bytes());
            forged = Some(bytes);
        }
    }
    let (from, to) = (scene.pair.nodes[0].gid, scene.pair.nodes[1].gid);
    let arrival = crate::Arrival { source: from, destination: to, traffic_class: 0, hop_limit: 64 };
    scene.pair.inject(1, &arrival, &forged.expect("a second packet was sent"));
    scene.pair.drive();
    assert_eq!(only(&mut scene.pair.nodes[0]).status, CompletionStatus::RemoteInvalidRequest);
    let failed = only(&mut scene.pair.nodes[1]);
    assert_eq!((failed.id, failed.status), (100, CompletionStatus::Flushed));
    let node = &mut scene.pair.nodes[1];
    assert_eq!(node.endpoint.poll_cq(scene.second_cq), None);
}

#[test]
fn what_is_lost_is_sent_again_and_an_empty_queue_waited_for() {
    let mut scene = Scene::new();
    let mut count = 0;
    scene.pair.rule(move |_| {
        count += 1;
        if count % 5 == 0 { Verdict::Drop } else { Verdict::Deliver }
    });
    scene.pair.nodes[0].fill(0, 8192, 5);
    let expected = scene.pair.nodes[0].bytes(0, 8192);
    scene.post(scene.number(1), Pair::send(), 8192).unwrap();
    scene.pair.drive_for(Span::from_ms(2));
    assert!(scene.pair.nodes[0].endpoint.stats().rcvd_rnr_err > 0);
    scene.post_recv(1, 200, 65536);
    scene.pair.drive();
    assert_eq!(only(&mut scene.pair.nodes[0]).status, CompletionStatus::Success);
    let node = &mut scene.pair.nodes[1];
    assert_eq!(node.endpoint.poll_cq(scene.second_cq).map(|completion| completion.id), Some(200));
    assert_eq!(node.bytes(65536, 8192), expected);
}

#[test]
fn each_half_has_one_direction() {
    let mut scene = Scene::new();
    let request = WorkRequest {
        id: 1,
        operation: Pair::send(),
        flags: SendFlags::NONE,
        sges: &[],
        inline: None,
    };
    let (now, number) = (scene.pair.now, scene.number(0));
    let target = &mut scene.pair.nodes[1];
    let post = target.endpoint.post_send_xrc(now, target.qpn, number, &request);
    assert_eq!(post, Err(PostError::Opcode));
    let recv = RecvRequest { id: 1, sges: &[] };
    assert_eq!(target.endpoint.post_recv(target.qpn, &recv), Err(PostError::Address));
    let initiator = &mut scene.pair.nodes[0];
    assert_eq!(initiator.endpoint.post_recv(initiator.qpn, &recv), Err(PostError::Address));
    let unaddressed = initiator.endpoint.post_send(now, initiator.qpn, &request);
    assert_eq!(unaddressed, Err(PostError::Address));
    // Connected to one another the wrong way round, neither hears the other.
    let mut pair = Pair::connected(QpType::XrcInitiator);
    let node = &mut pair.nodes[0];
    node.endpoint.post_send_xrc(pair.now, node.qpn, number, &request).unwrap();
    pair.drive();
    assert_eq!(only(&mut pair.nodes[0]).status, CompletionStatus::RetryExceeded);
}

#[test]
fn a_domain_ends_after_what_is_in_it() {
    let mut scene = Scene::new();
    let node = &mut scene.pair.nodes[1];
    assert_eq!(node.endpoint.dealloc_xrcd(scene.domain), Err(DestroyError::InUse));
    assert_eq!(node.endpoint.destroy_cq(scene.second_cq), Err(DestroyError::InUse));
    assert_eq!(node.endpoint.target_xrcd(node.qpn), Some(scene.domain));
    for queue in scene.queues {
        node.endpoint.destroy_srq(queue).unwrap();
    }
    assert_eq!(node.endpoint.dealloc_xrcd(scene.domain), Err(DestroyError::InUse));
    node.endpoint.destroy_qp(node.qpn).unwrap();
    assert_eq!(node.endpoint.dealloc_xrcd(scene.domain), Ok(()));
    assert_eq!(node.endpoint.dealloc_xrcd(scene.domain), Err(DestroyError::NotFound));
    assert_eq!(node.endpoint.destroy_cq(scene.second_cq), Ok(()));
    assert_eq!(node.endpoint.create_xrc_target(scene.domain), Err(CreateError::NotFound));
}

#[test]
fn what_does_not_go_together_is_not_made() {
    let mut scene = Scene::new();
    let node = &mut scene.pair.nodes[1];
    let spec = |kind, pd: PdId, srq| QpSpec {
        kind,
        pd,
        send_cq: node.cq,
        recv_cq: node.cq,
        srq,
        capacity: QpCapacity::default(),
        signal_all: false,
    };
    let (pd, queue) = (node.pd, Some(scene.queues[0]));
    let wrong = [
        spec(QpType::XrcTarget, pd, None),
        spec(QpType::XrcInitiator, pd, queue),
        spec(QpType::Rc, pd, queue),
    ];
    for spec in wrong {
        assert_eq!(node.endpoint.create_qp(spec), Err(CreateError::Mismatch), "{spec:?}");
    }
    let nowhere = node.endpoint.create_xrc_srq(pd, XrcdId(77), node.cq, SIZES);
    assert_eq!(nowhere, Err(CreateError::NotFound));
}

#[test]
fn a_target_fails_when_a_queue_of_its_domain_loses_a_completion() {
    let mut scene = Scene::new();
    let node = &mut scene.pair.nodes[1];
    let cq = node.endpoint.create_cq(1).unwrap();
    let queue = node.endpoint.create_xrc_srq(node.pd, scene.domain, cq, SIZES).unwrap();
    let number = node.endpoint.srq_number(queue).unwrap();
    let sges = [node.sge(0, 64)];
    for id in [1, 2] {
        node.endpoint.post_srq_recv(queue, &RecvRequest { id, sges: &sges }).unwrap();
    }
    for _ in 0..2 {
        scene.post(number, Pair::send(), 8).unwrap();
    }
    scene.pair.drive();
    let node = &scene.pair.nodes[1];
    let events: Vec<Event> = node.events.clone();
    assert!(events.contains(&Event::CqError(cq)) && events.contains(&Event::QpFatal(node.qpn)));
    assert_eq!(node.endpoint.query_qp(node.qpn).map(|query| query.state), Some(QpState::Error));
}

#[test]
fn a_target_that_begins_anew_serves_again() {
    let mut scene = Scene::new();
    assert_eq!(
        scene.run(Operation::Read { remote_address: 0, r_key: Key(0) }, 8),
        CompletionStatus::RemoteAccess
    );
    for index in [0, 1] {
        let node = &mut scene.pair.nodes[index];
        node.endpoint.modify_qp(node.qpn, &QpChange::to(QpState::Reset)).unwrap();
    }
    scene.pair.bring_up(0, QpType::XrcInitiator, &|_| {});
    scene.pair.bring_up(1, QpType::XrcTarget, &|_| {});
    let write = scene.pair.write(1, 0);
    assert_eq!(scene.run(write, 8), CompletionStatus::Success);
}

/// Small random numbers, the same on every machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % count
    }
}

#[test]
fn every_verb_is_done_once_and_in_order_over_a_network_that_does_its_worst() {
    const COUNT: u64 = 40;
    const STEP: u64 = 8192;
    const RECEIVED: u64 = 1 << 20;
    const WRITTEN: u64 = 4 << 20;
    const READ: u64 = 8 << 20;
    const COUNTER: u64 = 12 << 20;
    for seed in 1..=40 {
        let mut scene = Scene::new();
        let mut weather = Dice(seed);
        scene.pair.rule(move |_| match weather.below(20) {
            0 => Verdict::Drop,
            1 => Verdict::Duplicate,
            2 | 3 => Verdict::Delay(Span::from_us(weather.below(20))),
            _ => Verdict::Deliver,
        });
        for (queue, id) in (0..2).flat_map(|queue| (0..COUNT).map(move |id| (queue, id))) {
            scene.post_recv(queue, id, RECEIVED + (queue as u64 * COUNT + id) * STEP);
        }
        let mut dice = Dice(seed + 1000);
        // What each queue is to receive: how much, and where in the sender's memory it stood.
        let mut sent = [Vec::new(), Vec::new()];
        let mut adds = 0_u64;
        let mut checks = Vec::new();
        for id in 0..COUNT {
            let (at, length) = (id * STEP, dice.below(STEP) as u32);
            let queue = dice.below(2) as usize;
            scene.pair.nodes[0].fill(at, STEP as usize, id as u8);
            scene.pair.nodes[1].fill(READ + at, STEP as usize, !id as u8);
            let (mut length, operation) = match dice.below(4) {
                0 => {
                    sent[queue].push((at, length));
                    (length, Pair::send())
                }
                1 => {
                    checks.push((at, WRITTEN + at, length));
                    (length, scene.pair.write(1, WRITTEN + at))
                }
                2 => {
                    checks.push((at, READ + at, length));
                    (length, scene.pair.read(1, READ + at))
                }
                _ => {
                    adds += 1;
                    let remote_address = TestMemory::BASE + COUNTER;
                    let r_key = scene.pair.nodes[1].key;
                    (8, Operation::FetchAdd { remote_address, r_key, add: 1 })
                }
            };
            length = length.min(STEP as u32);
            let number = scene.number(queue);
            let node = &mut scene.pair.nodes[0];
            let sges = [node.sge(at, length)];
            let flags = SendFlags::SIGNALED;
            let request = WorkRequest { id, operation, flags, sges: &sges, inline: None };
            node.endpoint.post_send_xrc(scene.pair.now, node.qpn, number, &request).unwrap();
        }
        scene.pair.drive();
        let ended: Vec<u64> = scene.pair.nodes[0]
            .completions()
            .iter()
            .map(|done| {
                assert_eq!(
                    done.status,
                    CompletionStatus::Success,
                    "seed {seed}, request {}",
                    done.id
                );
                done.id
            })
            .collect();
        assert_eq!(ended, (0..COUNT).collect::<Vec<_>>(), "seed {seed}");
        let [here, there] = &mut scene.pair.nodes;
        for (queue, cq) in [there.cq, scene.second_cq].into_iter().enumerate() {
            for (id, &(at, length)) in sent[queue].iter().enumerate() {
                let received =
                    there.endpoint.poll_cq(cq).expect("a message for each that was sent");
                assert_eq!((received.id, received.byte_len), (id as u64, length), "seed {seed}");
                let to = RECEIVED + (queue as u64 * COUNT + received.id) * STEP;
                assert_eq!(there.bytes(to, length as usize), here.bytes(at, length as usize));
            }
            assert_eq!(there.endpoint.poll_cq(cq), None, "seed {seed}");
        }
        for (at, to, length) in checks {
            assert_eq!(here.bytes(at, length as usize), there.bytes(to, length as usize));
        }
        assert_eq!(there.bytes(COUNTER, 8), adds.to_ne_bytes(), "each once, seed {seed}");
    }
}
