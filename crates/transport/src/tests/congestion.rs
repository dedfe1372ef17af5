//! Pacing, marks, and the notification packets between them.

use rdma::{CompletionStatus, Psn, QKey, QpType, Qpn, Rate, RecvRequest, Span, Time};
use std::vec;
use std::vec::Vec;
use wire::opcode::Operation;
use wire::{Opcode, cnp, roce};

use super::{only, statuses};
use crate::congestion::{
    Congestion, Dcqcn, Dctcp, Hop, Hpcc, Notification, Share, Swift, Telemetry,
};
use crate::limits::{DEADLINES_SPARE, LINK_HEADER_BYTES};
use crate::testing::{Node, Pair, Verdict, Wire};
use crate::{Arrival, Config, Drop};

const ECT_0: u8 = 2;

fn config(congestion: Congestion) -> Config {
    Config { congestion, ..Config::default() }
}

fn connected(kind: QpType, config: Config) -> Pair {
    let mut pair = Pair::new(config);
    pair.connect(kind, [None, None], |_| {});
    pair.record();
    pair
}

fn dcqcn() -> Congestion {
    Congestion::Dcqcn(Dcqcn::default())
}

/// Packets that node `from` has sent.
fn sent(pair: &Pair, from: usize) -> Vec<&Wire> {
    pair.sent.iter().filter(|packet| packet.from == from).collect()
}

fn cnps(pair: &Pair, from: usize) -> Vec<&Wire> {
    let is_cnp = |packet: &&Wire| packet.header.bth.opcode == Opcode::CNP;
    sent(pair, from).into_iter().filter(is_cnp).collect()
}

/// Each packet left when the one before it had been sent at `rate`, and not later.
#[track_caller]
fn assert_paced(packets: &[&Wire], rate: Rate) {
    assert!(packets.len() > 5);
    for pair in packets.windows(2) {
        let took = rate.time_of(pair[0].bytes.len() as u64 + LINK_HEADER_BYTES);
        assert_eq!(pair[1].at, pair[0].at + took);
    }
}

fn write(pair: &mut Pair, length: u32) {
    let from = pair.nodes[0].sge(0, length);
    pair.post(0, 1, pair.write(1, 0), &[from]);
}

#[test]
fn without_a_controller_everything_leaves_at_once_and_unmarkable() {
    let mut pair = connected(QpType::Rc, Config::default());
    write(&mut pair, 20_000);
    pair.drive();
    let packets = sent(&pair, 0);
    assert_eq!(packets.len(), 20);
    assert!(packets.iter().all(|packet| packet.at == Time::from_ns(1)));
    assert!(pair.sent.iter().all(|packet| packet.traffic_class == 0));
}

#[test]
fn a_fixed_rate_is_kept_to_the_picosecond() {
    let rate = Rate::from_mbps(900);
    for kind in [QpType::Rc, QpType::Uc] {
        let mut pair = connected(kind, config(Congestion::Fixed(rate)));
        write(&mut pair, 20_000);
        pair.drive();
        assert_paced(&sent(&pair, 0), rate);
        assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
        assert_eq!(pair.nodes[0].endpoint.stats().retransmitted_pkts, 0);
    }
}

#[test]
fn pacing_leaves_no_deadlines_behind() {
    // While they leave, the oldest waits for its acknowledgement: each pause between two is a nearer
    // deadline than that.
    let mut pair = Pair::with_memory(config(Congestion::Fixed(Rate::from_mbps(900))), 1 << 20);
    pair.connect(QpType::Rc, [None, None], |_| {});
    write(&mut pair, 500_000);
    let mut most = 0;
    for _ in 0..100 {
        pair.drive_for(Span::from_us(50));
        most = most.max(pair.nodes[0].endpoint.deadlines());
    }
    assert!((2..=2 + DEADLINES_SPARE).contains(&most), "{most}");
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
}

#[test]
fn datagrams_are_paced_too() {
    let rate = Rate::from_mbps(100);
    let mut pair = connected(QpType::Ud, config(Congestion::Fixed(rate)));
    for id in 0..10 {
        let (from, to) = (pair.nodes[0].sge(0, 500), pair.nodes[1].sge(0, 1_000));
        pair.post_recv(1, id, &[to]);
        let operation = pair.datagram(1, QKey(0x1111));
        pair.post(0, id, operation, &[from]);
    }
    pair.drive();
    assert_paced(&sent(&pair, 0), rate);
    assert_eq!(pair.nodes[1].completions().len(), 10);
}

#[test]
fn read_responses_are_paced_where_they_are_sent() {
    let rate = Rate::from_gbps(2);
    let mut pair = connected(QpType::Rc, config(Congestion::Fixed(rate)));
    let to = pair.nodes[0].sge(0, 20_000);
    pair.post(0, 1, pair.read(1, 0), &[to]);
    pair.drive();
    let is_response = |packet: &&Wire| packet.header.facts().operation == Operation::ReadResponse;
    let responses: Vec<&Wire> = sent(&pair, 1).into_iter().filter(is_response).collect();
    assert_eq!(responses.len(), 20);
    assert_paced(&responses, rate);
    assert_eq!(only(&mut pair.nodes[0]).status, CompletionStatus::Success);
}

#[test]
fn acknowledgements_do_not_wait_for_the_rate() {
    // Node 1 has a message of its own under way, at a rate that makes it last 8 ms.
    let mut pair = connected(QpType::Rc, config(Congestion::Fixed(Rate::from_mbps(20))));
    let from = pair.nodes[1].sge(0, 20_000);
    pair.post(1, 2, pair.write(0, 1 << 20), &[from]);
    write(&mut pair, 8);
    pair.drive_for(Span::from_us(10));
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
    assert_eq!(pair.nodes[1].completions(), []);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[1]), [(2, CompletionStatus::Success)]);
}

#[test]
fn a_slow_sender_asks_in_time_for_acknowledgements() {
    // Timeouts of 1 ms, and packets 9 ms and 87 us apart: a question every sixteenth would come
    // too late.
    for mbps in [1, 100] {
        let mut pair = Pair::new(config(Congestion::Fixed(Rate::from_mbps(mbps))));
        pair.connect(QpType::Rc, [None, None], |change| {
            change.timeout = change.timeout.map(|_| 8);
            change.retry_count = change.retry_count.map(|_| 0);
        });
        write(&mut pair, 40_000);
        pair.drive();
        assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
        assert_eq!(pair.nodes[0].endpoint.stats().local_ack_timeout_err, 0);
        // At 100 Mb/s not every packet asks.
        let acks = pair.nodes[1].endpoint.stats().acks_sent;
        assert!(if mbps == 1 { acks == 40 } else { (10..30).contains(&acks) }, "{acks}");
    }
}

#[test]
fn the_wait_for_a_rate_is_no_retry() {
    // Packets are 9 ms apart, a timeout is 1 ms, and one retry is all there is.
    let mut pair = Pair::new(config(Congestion::Fixed(Rate::from_mbps(1))));
    pair.connect(QpType::Rc, [None, None], |change| {
        change.timeout = change.timeout.map(|_| 8);
        change.retry_count = change.retry_count.map(|_| 1);
    });
    pair.rule(|packet| if packet.index == 4 { Verdict::Drop } else { Verdict::Deliver });
    write(&mut pair, 10_000);
    pair.drive();
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
    let stats = *pair.nodes[0].endpoint.stats();
    assert_eq!((stats.local_ack_timeout_err, stats.retransmitted_pkts), (1, 1));
}

#[test]
fn data_says_that_marks_are_heard_and_control_does_not() {
    for kind in [QpType::Rc, QpType::Uc] {
        let mut pair = Pair::new(config(dcqcn()));
        pair.record();
        pair.connect(kind, [None, None], |change| {
            // DSCP 26, and an ECN field that is not for the application to choose.
            if let Some(path) = &mut change.path {
                path.traffic_class = 26 << 2 | 1;
            }
        });
        write(&mut pair, 5_000);
        if kind == QpType::Rc {
            let to = pair.nodes[0].sge(0, 5_000);
            pair.post(0, 2, pair.read(1, 0), &[to]);
        }
        pair.drive();
        for packet in &pair.sent {
            let is_control = packet.header.facts().operation == Operation::Acknowledge;
            let expected = if is_control { 26 << 2 | 1 } else { 26 << 2 | ECT_0 };
            assert_eq!(packet.traffic_class, expected, "{}", packet.header);
        }
    }
}

#[test]
fn a_mark_comes_back_as_a_notification_and_slows_the_sender_down() {
    for kind in [QpType::Rc, QpType::Uc] {
        let mut pair = connected(kind, config(dcqcn()));
        pair.rule(|packet| if packet.index == 3 { Verdict::Mark } else { Verdict::Deliver });
        write(&mut pair, 200_000);
        pair.drive();
        let [notification] = cnps(&pair, 1)[..] else { panic!("not one CNP") };
        let expected = cnp::Repr { destination: pair.nodes[0].qpn, p_key: rdma::PKey::DEFAULT };
        assert_eq!(notification.header.bth, expected.bth());
        assert_eq!(cnp::Repr::parse(&notification.bytes), Ok(expected));
        assert_eq!(notification.bytes[12..], [0; cnp::RESERVED_LEN]);
        // DSCP 48 and not ECT.
        assert_eq!(notification.traffic_class, 48 << 2);

        let heard = notification.at + pair.latency;
        let gaps: Vec<(bool, Span)> = sent(&pair, 0)
            .windows(2)
            .map(|pair| (pair[0].at >= heard, pair[1].at.since(pair[0].at)))
            .collect();
        let bytes = 1_024 + 12 + LINK_HEADER_BYTES;
        let before = Rate::from_gbps(40).time_of(bytes);
        let after = Rate::from_gbps(20).time_of(bytes);
        assert!(gaps.contains(&(false, before)) && gaps.contains(&(true, after)), "{gaps:?}");

        let [source, destination] = pair.nodes.each_ref().map(|node| *node.endpoint.stats());
        assert_eq!((source.rp_cnp_handled, source.rp_cnp_ignored), (1, 0));
        assert_eq!((destination.np_ecn_marked_roce_packets, destination.np_cnp_sent), (1, 1));
        assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
    }
}

#[test]
fn marked_read_responses_slow_the_responder_down() {
    let mut pair = connected(QpType::Rc, config(dcqcn()));
    pair.rule(|packet| if packet.from == 1 { Verdict::Mark } else { Verdict::Deliver });
    let to = pair.nodes[0].sge(0, 100_000);
    pair.post(0, 1, pair.read(1, 0), &[to]);
    pair.drive();
    assert_eq!(only(&mut pair.nodes[0]).status, CompletionStatus::Success);
    let handled = pair.nodes[1].endpoint.stats().rp_cnp_handled;
    assert!(handled >= 1);
    assert_eq!(cnps(&pair, 0).len() as u64, handled);
    assert_eq!(pair.nodes[0].endpoint.stats().np_ecn_marked_roce_packets, 98);
}

#[test]
fn notifications_leave_once_an_interval_and_none_for_what_cannot_be_marked() {
    let mut pair = connected(QpType::Rc, config(dcqcn()));
    pair.rule(|_| Verdict::Mark);
    write(&mut pair, 500_000);
    pair.drive();
    let times: Vec<Time> = cnps(&pair, 1).iter().map(|packet| packet.at).collect();
    let gaps: Vec<Span> = times.windows(2).map(|pair| pair[1].since(pair[0])).collect();
    assert!(gaps.iter().all(|gap| *gap >= Span::from_us(50)), "{gaps:?}");
    // As long as packets come faster than that, it is the interval which decides.
    assert!(gaps.len() > 5 && gaps[..3] == [Span::from_us(50); 3], "{gaps:?}");
    // Neither acknowledgements nor CNPs are marked, so nothing comes back for them.
    assert!(cnps(&pair, 0).is_empty());
    assert_eq!(pair.nodes[0].endpoint.stats().np_ecn_marked_roce_packets, 0);
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
}

#[test]
fn the_notification_point_has_settings() {
    let congestion = dcqcn();
    let notification = Some(Notification { interval: Span::from_us(8), dscp: 7 });
    let mut pair = connected(QpType::Rc, Config { notification, ..config(congestion) });
    pair.rule(|_| Verdict::Mark);
    write(&mut pair, 200_000);
    pair.drive();
    let notifications = cnps(&pair, 1);
    assert!(notifications.iter().all(|packet| packet.traffic_class == 7 << 2));
    assert_eq!(notifications[1].at.since(notifications[0].at), Span::from_us(8));

    let mut pair = connected(QpType::Rc, Config { notification: None, ..config(congestion) });
    pair.rule(|_| Verdict::Mark);
    write(&mut pair, 200_000);
    pair.drive();
    assert!(cnps(&pair, 1).is_empty());
    assert_eq!(pair.nodes[1].endpoint.stats().np_ecn_marked_roce_packets, 196);
}

/// Gives a CNP to node 0, as if from its peer if `change` does not say otherwise.
fn inject(pair: &mut Pair, change: impl FnOnce(&mut Arrival, &mut cnp::Repr)) {
    let mut arrival = Arrival {
        source: pair.nodes[1].gid,
        destination: pair.nodes[0].gid,
        traffic_class: 48 << 2,
        hop_limit: 64,
    };
    let mut repr = cnp::Repr { destination: pair.nodes[0].qpn, p_key: rdma::PKey::DEFAULT };
    change(&mut arrival, &mut repr);
    let mut bytes = [0; cnp::HEADER_LEN];
    repr.emit(&mut bytes);
    pair.inject(0, &arrival, &bytes);
}

#[test]
fn notifications_from_strangers_are_counted_and_change_nothing() {
    let mut pair = connected(QpType::Rc, config(dcqcn()));
    inject(&mut pair, |_, repr| repr.destination = Qpn::new(0x3fff));
    inject(&mut pair, |arrival, _| arrival.source = arrival.destination);
    inject(&mut pair, |_, repr| repr.p_key = rdma::PKey(0x1234));
    let stats = *pair.nodes[0].endpoint.stats();
    assert_eq!((stats.drop_unknown_qpn, stats.drop_wrong_source, stats.drop_pkey), (1, 1, 1));
    // Without its reserved bytes.
    let arrival = Arrival {
        source: pair.nodes[1].gid,
        destination: pair.nodes[0].gid,
        traffic_class: 0,
        hop_limit: 64,
    };
    let header = roce::Repr::new(Opcode::CNP, pair.nodes[0].qpn, Psn::new(0));
    let node = &mut pair.nodes[0];
    let result = node.endpoint.handle(pair.now, &arrival, &header, &[][..], 0, &mut node.memory);
    assert_eq!(result, Err(Drop::BadLength));
    let stats = *pair.nodes[0].endpoint.stats();
    assert_eq!((stats.rp_cnp_handled, stats.rp_cnp_ignored), (0, 4));
    write(&mut pair, 20_000);
    pair.drive();
    assert_paced(&sent(&pair, 0), Rate::from_gbps(40));
}

#[test]
fn a_notification_for_datagrams_is_dropped() {
    let mut pair = connected(QpType::Ud, config(dcqcn()));
    inject(&mut pair, |_, _| {});
    let stats = *pair.nodes[0].endpoint.stats();
    assert_eq!((stats.drop_wrong_transport, stats.rp_cnp_ignored), (1, 1));
}

#[test]
fn a_marked_datagram_is_counted_and_not_answered() {
    let mut pair = connected(QpType::Ud, config(dcqcn()));
    let (from, to) = (pair.nodes[0].sge(0, 500), pair.nodes[1].sge(0, 1_000));
    pair.post_recv(1, 1, &[to]);
    let operation = pair.datagram(1, QKey(0x1111));
    pair.post(0, 1, operation, &[from]);
    pair.drive();
    // Ours cannot be marked; those of others may.
    assert_eq!(pair.sent[0].traffic_class, 0);
    let bytes = pair.sent[0].bytes.clone();
    let receive = RecvRequest { id: 2, sges: &[to] };
    let node = &mut pair.nodes[1];
    node.endpoint.post_recv(node.qpn, &receive).unwrap();
    let arrival = Arrival {
        source: pair.nodes[0].gid,
        destination: pair.nodes[1].gid,
        traffic_class: 3,
        hop_limit: 64,
    };
    pair.inject(1, &arrival, &bytes);
    pair.drive();
    assert_eq!(pair.nodes[1].completions().len(), 2);
    assert_eq!(pair.nodes[1].endpoint.stats().np_ecn_marked_roce_packets, 1);
    assert!(cnps(&pair, 1).is_empty());
}

#[test]
fn a_flood_of_notifications_leads_to_the_minimum_rate_and_no_further() {
    let minimum_rate = Rate::from_mbps(250);
    let settings = Dcqcn { minimum_rate: Share::Fixed(minimum_rate), ..Dcqcn::default() };
    let mut pair = connected(QpType::Rc, config(Congestion::Dcqcn(settings)));
    for _ in 0..10_000 {
        inject(&mut pair, |_, _| {});
    }
    write(&mut pair, 7_000);
    // It climbs again after 55 us; at this rate that is no more than two packets.
    pair.drive();
    let packets = sent(&pair, 0);
    let took = packets[1].at.since(packets[0].at);
    assert_eq!(took, minimum_rate.time_of(packets[0].bytes.len() as u64 + LINK_HEADER_BYTES));
    assert_eq!(pair.nodes[0].endpoint.stats().rp_cnp_handled, 10_000);
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
}

#[test]
fn who_does_not_listen_counts_notifications_as_ignored() {
    for congestion in [Congestion::None, Congestion::Fixed(Rate::from_gbps(1))] {
        let mut pair = connected(QpType::Rc, config(congestion));
        inject(&mut pair, |_, _| {});
        let stats = *pair.nodes[0].endpoint.stats();
        assert_eq!((stats.rp_cnp_handled, stats.rp_cnp_ignored), (0, 1));
    }
}

#[test]
fn what_is_held_back_when_a_queue_pair_ends_is_held_for_ever() {
    let mut pair = connected(QpType::Rc, config(Congestion::Fixed(Rate::from_mbps(1))));
    write(&mut pair, 20_000);
    pair.drive_for(Span::from_us(10));
    let qpn = pair.nodes[0].qpn;
    pair.nodes[0].endpoint.destroy_qp(qpn).unwrap();
    assert_eq!(pair.nodes[0].endpoint.poll_timeout(), None);
    let before = pair.sent.len();
    pair.drive();
    assert_eq!(sent(&pair, 0).len(), 1);
    assert!(pair.sent.len() <= before + 1);
    assert_eq!(pair.nodes[0].completions(), vec![]);
}

fn dctcp() -> Congestion {
    Congestion::Dctcp(Dctcp::default())
}

/// How many packets node 0 has sent at each moment at which it sent any.
fn bursts(pair: &Pair) -> Vec<usize> {
    let packets = sent(pair, 0);
    packets.chunk_by(|a, b| a.at == b.at).map(<[_]>::len).collect()
}

#[test]
fn a_window_of_dctcp_is_halved_by_a_mark_that_an_acknowledgement_echoes() {
    let mut pair = connected(QpType::Rc, config(dctcp()));
    pair.rule(|packet| if packet.index == 3 { Verdict::Mark } else { Verdict::Deliver });
    write(&mut pair, 20 * 1_024);
    pair.drive();
    assert_eq!(bursts(&pair), [10, 5, 5]);
    assert!(sent(&pair, 0).iter().all(|packet| packet.traffic_class == ECT_0));
    let echoes = sent(&pair, 1).iter().filter(|packet| packet.header.bth.becn).count();
    assert_eq!((echoes, cnps(&pair, 1).len()), (1, 0));
    assert_eq!(pair.nodes[1].endpoint.stats().np_ecn_marked_roce_packets, 1);
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
}

#[test]
fn a_marked_read_response_halves_the_window_of_who_asked_for_it() {
    let mut pair = connected(QpType::Rc, config(dctcp()));
    pair.rule(|packet| if packet.index == 5 { Verdict::Mark } else { Verdict::Deliver });
    let to = pair.nodes[0].sge(0, 20_000);
    pair.post(0, 1, pair.read(1, 0), &[to]);
    pair.drive();
    assert!(cnps(&pair, 0).is_empty());
    assert_eq!(only(&mut pair.nodes[0]).status, CompletionStatus::Success);
    pair.sent.clear();
    write(&mut pair, 5 * 1_024);
    pair.drive();
    assert_eq!(bursts(&pair), [5]);
    pair.sent.clear();
    write(&mut pair, 6 * 1_024);
    pair.drive();
    assert_eq!(bursts(&pair), [5, 1]);
}

#[test]
fn a_window_of_swift_below_a_packet_spaces_packets_by_parts_of_a_round_trip() {
    let swift = Swift {
        target: Span::from_us(1),
        scaling_range: Span::ZERO,
        initial_window: 1,
        minimum_window: 250,
        ..Swift::default()
    };
    let mut pair = connected(QpType::Rc, config(Congestion::Swift(swift)));
    write(&mut pair, 8 * 1_024);
    pair.drive();
    let packets = sent(&pair, 0);
    let gaps: Vec<u64> =
        packets.windows(2).map(|two| two[1].at.since(two[0].at).as_ps() / 1_000).collect();
    // Round trips of 2 us are twice the target: 0.6 of the window is left of each, and a quarter of a packet
    // in the end.
    assert_eq!(gaps, [3_333, 5_555, 8_000, 8_000, 8_000, 8_000, 8_000]);
    assert_eq!(statuses(&mut pair.nodes[0]), [(1, CompletionStatus::Success)]);
}

/// Records of a link of 100 Gb/s that was full from `at_us` on.
fn full_link(at_us: u64) -> Telemetry {
    let at = Time::ZERO + Span::from_us(at_us);
    let (sent_bytes, queue_bytes) = (12_500 * at_us, 1_000_000);
    Telemetry {
        path: 1,
        hops: vec![Hop { at, sent_bytes, queue_bytes, rate: Rate::from_gbps(100) }],
    }
}

/// The next packet of node `from` arrives at the other one, into which switches have written `telemetry`, or
/// which tells of it. Returns what it told itself.
fn pass(
    pair: &mut Pair,
    from: usize,
    source: usize,
    telemetry: Option<Telemetry>,
) -> Option<Telemetry> {
    let gids = [pair.nodes[source].gid, pair.nodes[1 - from].gid];
    let arrival =
        Arrival { source: gids[0], destination: gids[1], traffic_class: 0, hop_limit: 64 };
    let mut run = pair.nodes[from].endpoint.poll_transmit(pair.now, 1).unwrap();
    let (header, told) = (*run.header(), run.take_telemetry());
    let length = run.payload().len() as usize;
    run.sent();
    let Node { endpoint, memory, .. } = &mut pair.nodes[1 - from];
    if let Some(telemetry) = telemetry.or_else(|| told.clone()) {
        endpoint.observe(&arrival, &header, telemetry);
    }
    // Whatever it carries.
    let payload = &[0; 4_096][..length];
    let _ = endpoint.handle(pair.now, &arrival, &header, payload, length, memory);
    told
}

fn hpcc() -> Congestion {
    Congestion::Hpcc(Hpcc::default())
}

/// The window of node 0, in full packets, as what it sends at once.
fn window_packets(pair: &mut Pair) -> usize {
    let mut count = 0;
    write(pair, 200 * 1_024);
    while let Some(run) = pair.nodes[0].endpoint.poll_transmit(pair.now, 1) {
        run.sent();
        count += 1;
        pair.now += Span::from_us(20);
    }
    count
}

#[test]
fn an_acknowledgement_tells_once_what_switches_have_written_into_its_request() {
    let mut pair = connected(QpType::Rc, config(hpcc()));
    for at_us in [1, 14] {
        write(&mut pair, 100);
        pass(&mut pair, 0, 0, Some(full_link(at_us)));
        assert_eq!(pass(&mut pair, 1, 1, None), Some(full_link(at_us)));
        pair.now += Span::from_us(13);
    }
    // U is 6.15 for the queue and 1 for the link; 65,000 x 0.95 / 7.15 + 80 bytes are 7.6 packets of 1,148.
    assert_eq!(window_packets(&mut pair), 8);
    let mut other = connected(QpType::Rc, config(hpcc()));
    assert_eq!(window_packets(&mut other), 57);
}

#[test]
fn a_read_response_tells_its_requester_by_itself() {
    let mut pair = connected(QpType::Rc, config(hpcc()));
    for at_us in [1, 14] {
        let to = pair.nodes[0].sge(0, 100);
        pair.post(0, 1, pair.read(1, 0), &[to]);
        assert_eq!(pass(&mut pair, 0, 0, None), None);
        assert_eq!(pass(&mut pair, 1, 1, Some(full_link(at_us))), None);
        pair.now += Span::from_us(13);
    }
    assert_eq!(window_packets(&mut pair), 8);
}

#[test]
fn records_from_a_stranger_or_for_another_controller_count_for_nothing() {
    for (congestion, source) in [(hpcc(), 1), (dctcp(), 0)] {
        let mut pair = connected(QpType::Rc, config(congestion));
        write(&mut pair, 100);
        pass(&mut pair, 0, source, Some(full_link(1)));
        pair.now += Span::from_us(13);
        write(&mut pair, 100);
        pass(&mut pair, 0, 0, None);
        let answer = &mut pair.nodes[1].endpoint;
        while let Some(mut run) = answer.poll_transmit(pair.now, 1) {
            assert_eq!(run.take_telemetry(), None);
            run.sent();
        }
    }
}
