//! Forged packets: a plain UDP socket sends them to a NIC in the middle of a conversation. They change
//! nothing, and each is counted under its cause.

use core::net::Ipv4Addr;
use std::time::Instant;

use rdma::{Operation, PKey, Psn, QpState, QpType, Qpn};
use softnic::limits::SLOT_SHIFT;
use softnic::{Counts, Options, PathChoice};
use transport::Stats;
use wire::aeth::{self, NakCode, Syndrome};
use wire::opcode::{Attach, Part, Service};
use wire::udp::ROCE_PORT;
use wire::{Opcode, reth, roce};

use crate::forger::Forger;
use crate::support::{FIRST_PSN, Host, PATIENCE, SEND, pair_with};

/// What is counted at the victim.
type Counter = fn(&Counts, &Stats) -> u64;

fn read(host: &Host, counter: Counter) -> u64 {
    let stats = host.nic.with(|endpoint, _, _| *endpoint.stats());
    counter(&host.nic.counts(), &stats)
}

#[test]
fn forged_packets_change_nothing_and_are_counted() {
    let options = Options { path: PathChoice::Udp, ..Options::default() };
    let (a, b) = pair_with(73, QpType::Rc, 8192, &options);
    let [peer, victim, stranger, own] = [1, 2, 9, 10].map(|last| Ipv4Addr::new(127, 0, 73, last));
    let stranger = Forger::new(stranger, ROCE_PORT, stranger);
    let peer = Forger::new(own, ROCE_PORT, peer);
    let genuine = |a: &Host, b: &Host| {
        b.post_recv(7, b.sge(4096, 100));
        a.post(8, SEND, a.sge(0, 100));
        a.completions(1);
        b.completions(1);
    };
    for _ in 0..3 {
        genuine(&a, &b);
    }
    let before = b.memory.to_vec();
    let expected = FIRST_PSN.plus(3);
    // All rights are granted: only what each case below names is wrong.
    let write = |service, psn| {
        let mut header = roce::Repr::new(Opcode::write(service, Part::Only, false), b.qpn, psn);
        header.reth = Some(reth::Repr { address: b.address(), r_key: b.key, length: 64 });
        header.bth.ack_request = true;
        header
    };
    let payload = [0xbd; 64];
    let right = write(Service::Rc, expected);
    let with = |change: &dyn Fn(&mut roce::Repr)| {
        let mut header = right;
        change(&mut header);
        peer.seal(victim, &header, &payload)
    };
    let answer = |opcode, syndrome| {
        let mut header = roce::Repr::new(opcode, b.qpn, FIRST_PSN.plus(1000));
        header.aeth = Some(aeth::Repr { syndrome, msn: 1 });
        header.atomic_ack = Some(1);
        peer.seal(victim, &header, &[])
    };
    let mut ud =
        roce::Repr::new(Opcode::send(Service::Ud, Part::Only, Attach::Nothing), b.qpn, expected);
    ud.deth = Some(wire::deth::Repr { q_key: rdma::QKey(0), source: Qpn::new(9) });
    let notification = |from: &Forger, destination, reserved| {
        let header = roce::Repr::new(Opcode::CNP, destination, Psn::new(0));
        from.seal(victim, &header, &vec![0; reserved])
    };
    let mut corrupt = with(&|_| {});
    corrupt[40] ^= 1;
    let unknown_slot = (1..1 << 10).map(|slot| slot << SLOT_SHIFT).find(|first| {
        let mine = [a.qpn.value(), b.qpn.value()];
        mine.iter().all(|qpn| qpn >> SLOT_SHIFT != first >> SLOT_SHIFT)
    });
    let unknown_slot = unknown_slot.unwrap();
    let mut bth = [0; wire::bth::LEN];
    right.bth.emit(&mut bth);
    let cases: Vec<(&str, &Forger, Vec<u8>, Counter)> = vec![
        ("another source", &stranger, stranger.seal(victim, &right, &payload), |_, s| {
            s.drop_wrong_source
        }),
        (
            "the end of the window",
            &peer,
            with(&|h| h.bth.psn = expected.plus((1 << 23) - 1)),
            |_, s| s.out_of_seq_request,
        ),
        ("ahead, told already", &peer, with(&|h| h.bth.psn = expected.plus(1)), |_, s| {
            s.drop_out_of_order
        }),
        ("just done", &peer, with(&|h| h.bth.psn = expected.minus(1)), |_, s| s.duplicate_request),
        ("the far past", &peer, with(&|h| h.bth.psn = expected.minus(1 << 23)), |_, s| {
            s.duplicate_request
        }),
        (
            "unreliable",
            &peer,
            peer.seal(victim, &write(Service::Uc, expected), &payload),
            |_, s| s.drop_wrong_transport,
        ),
        ("a datagram", &peer, peer.seal(victim, &ud, &payload), |_, s| s.drop_wrong_transport),
        ("another partition", &peer, with(&|h| h.bth.p_key = PKey(0x7123)), |_, s| s.drop_pkey),
        (
            "a queue pair that is not",
            &peer,
            with(&|h| h.bth.destination = Qpn::new(b.qpn.value() + 1)),
            |_, s| s.drop_unknown_qpn,
        ),
        (
            "an acknowledgement of nothing",
            &peer,
            answer(Opcode::RC_ACKNOWLEDGE, Syndrome::ACK),
            |_, s| s.drop_unexpected_response,
        ),
        (
            "a refusal of nothing",
            &peer,
            answer(Opcode::RC_ACKNOWLEDGE, Syndrome::Nak(NakCode::RemoteAccess)),
            |_, s| s.drop_unexpected_response,
        ),
        (
            "a response to nothing",
            &peer,
            answer(Opcode::read_response(Part::Only), Syndrome::ACK),
            |_, s| s.drop_unexpected_response,
        ),
        (
            "the result of no atomic",
            &peer,
            answer(Opcode::RC_ATOMIC_ACKNOWLEDGE, Syndrome::ACK),
            |_, s| s.drop_unexpected_response,
        ),
        ("a notification of a stranger", &stranger, notification(&stranger, b.qpn, 16), |_, s| {
            s.drop_wrong_source.min(s.rp_cnp_ignored)
        }),
        (
            "a notification for nobody",
            &peer,
            notification(&peer, Qpn::new(b.qpn.value() + 1), 16),
            |_, s| s.drop_unknown_qpn.min(s.rp_cnp_ignored),
        ),
        ("a notification too short", &peer, notification(&peer, b.qpn, 12), |_, s| {
            s.drop_bad_length
        }),
        ("a notification without a rate", &peer, notification(&peer, b.qpn, 16), |_, s| {
            s.rp_cnp_ignored
        }),
        ("a wrong ICRC", &peer, corrupt, |c, _| c.rx_icrc_encapsulated),
        (
            "a slot of nobody",
            &peer,
            with(&|h| h.bth.destination = Qpn::new(unknown_slot + 5)),
            |c, s| c.rx_unknown_slot + c.rx_handed_over + s.drop_unknown_qpn,
        ),
        ("nothing at all", &peer, vec![], |c, _| c.rx_malformed_truncated),
        ("half a header", &peer, with(&|_| {})[..11].to_vec(), |c, _| c.rx_malformed_truncated),
        ("no room for its RETH", &peer, peer.close(victim, bth.to_vec()), |c, _| {
            c.rx_malformed_truncated
        }),
    ];
    for (name, forger, bytes, counter) in cases {
        let count = read(&b, counter);
        forger.send(victim, &bytes);
        let began = Instant::now();
        while read(&b, counter) == count {
            assert!(began.elapsed() < PATIENCE, "{name} is not counted");
            b.nic.poll();
        }
        let query = b.nic.with(|endpoint, _, _| endpoint.query_qp(b.qpn)).unwrap();
        assert_eq!((query.state, query.rq_psn), (QpState::Rts, expected), "{name}");
        assert!(*b.memory == before, "{name}");
    }
    // The conversation goes on, in both directions.
    let mut source = a;
    source.memory[..100].fill(0x77);
    genuine(&source, &b);
    assert_eq!(b.memory[4096..4196], [0x77; 100]);
    let read = Operation::Read { remote_address: source.address(), r_key: source.key };
    b.post(9, read, b.sge(0, 100));
    b.completions(1);
    assert_eq!(source.state(source.qpn), QpState::Rts);
    let refused = b.nic.with(|endpoint, _, _| endpoint.stats().resp_remote_access_errors);
    assert_eq!(refused, 0);
}
