//! What another host can do to a connection manager that it may send to.

use alloc::vec;
use alloc::vec::Vec;

use rdma::{Qpn, Span, Time};
use wire::cm::mra::About;
use wire::cm::{Mad, Message, brief, rej, req, sidr};

use super::{SERVICE, arrival, gid, manager, reply, request};
use crate::cm::{CmEvent, CommId, Discard, Manager};
use crate::limits::{CM_ANSWERS_MAX, CM_HALF_OPEN_MAX, CM_PENDING_PER_SOURCE_MAX};

const NOW: Time = Time::from_ns(1_000_000);
/// The host that is attacked, its honest peer, and the other.
const SERVER: usize = 1;
const CLIENT: usize = 0;
const OTHER: usize = 2;

/// A REQ with the most patience that it can ask for.
fn req(local_id: u32, qpn: u32, guid: u64) -> Mad {
    let patient = req::Repr { local_id, guid, local_timeout: 31, max_retries: 15, ..request(qpn) };
    Mad::new(u64::from(local_id), Message::Req(patient))
}

fn handle(server: &mut Manager, from: usize, mad: &Mad) -> Result<(), Discard> {
    handle_at(NOW, server, from, mad)
}

fn handle_at(now: Time, server: &mut Manager, from: usize, mad: &Mad) -> Result<(), Discard> {
    server.handle(now, &arrival(from, SERVER), || None, &mad.to_bytes())
}

fn sent(server: &mut Manager) -> usize {
    core::iter::from_fn(|| server.poll_transmit()).count()
}

fn events(server: &mut Manager) -> Vec<CmEvent> {
    core::iter::from_fn(|| server.poll_event()).collect()
}

fn server(backlog: u32) -> Manager {
    let mut server = manager(SERVER, 7);
    server.listen(SERVICE, None, backlog).unwrap();
    server
}

/// A connection that `CLIENT` has asked for, with its queue pair 0x11 and GUID 1, and uses.
fn established(server: &mut Manager) -> CommId {
    handle(server, CLIENT, &req(5, 0x11, 1)).unwrap();
    let Some(CmEvent::Request { id, .. }) = server.poll_event() else { panic!("a request") };
    server.accept(NOW, id, reply(0x22), 0).unwrap();
    server.confirm(id, [0; brief::RTU_PRIVATE_LEN]).unwrap();
    assert_eq!(events(server), [CmEvent::Established(id)]);
    id
}

#[test]
fn a_req_ends_no_connection_of_another_host() {
    let mut server = server(8);
    let id = established(&mut server);
    // It names the client's adapter and queue pair.
    handle(&mut server, OTHER, &req(6, 0x11, 1)).unwrap();
    let told = events(&mut server);
    assert!(matches!(told[..], [CmEvent::Request { .. }]), "{told:?}");
    // And what becomes of its own conversation leaves the client's as it was, in the tables too.
    let CmEvent::Request { id: other, .. } = told[0] else { unreachable!() };
    server.forget(NOW, other);
    handle(&mut server, CLIENT, &req(7, 0x11, 1)).unwrap();
    assert_eq!(events(&mut server), [CmEvent::Disconnected(id), CmEvent::Closed(id)]);
}

/// When the connections that were accepted at `NOW` have had time to be confirmed.
const LATER: Time = Time::from_ns(1_000_000 + 4_294_967_296);

/// REQs of one address, each accepted at once: its share. Returns the conversations.
fn burst(server: &mut Manager) -> Vec<CommId> {
    (1..=CM_PENDING_PER_SOURCE_MAX as u32)
        .map(|number| {
            assert_eq!(handle(server, OTHER, &req(number, number, 3)), Ok(()), "{number}");
            accept_all(server).expect("a request")
        })
        .collect()
}

#[test]
fn a_host_has_its_share_of_conversations_and_leaves_others_theirs() {
    let mut server = server(8);
    let accepted = burst(&mut server);
    sent(&mut server);
    // Those that a crowd makes at once do not end each other.
    assert_eq!(handle(&mut server, OTHER, &req(1 << 20, 1 << 20, 3)), Err(Discard::Excess));
    assert_eq!(sent(&mut server), 0, "nothing is said to a flood");
    established(&mut server);
    // A connection that is established counts no more.
    server.confirm(accepted[9], [0; brief::RTU_PRIVATE_LEN]).unwrap();
    assert_eq!(events(&mut server), [CmEvent::Established(accepted[9])]);
    assert_eq!(handle(&mut server, OTHER, &req(1 << 20, 1 << 20, 3)), Ok(()));
    assert!(accept_all(&mut server).is_some());
    assert_eq!(handle(&mut server, OTHER, &req(1 << 21, 1 << 21, 3)), Err(Discard::Excess));
}

#[test]
fn a_client_connects_after_a_burst_from_its_address() {
    let mut server = server(8);
    let accepted = burst(&mut server);
    // The first are ended in favour of the new ones, and the application hears of each once.
    for (number, gone) in (1..).zip(&accepted[..50]) {
        let asked = req((1 << 20) + number, 0x33, 4 + u64::from(number));
        assert_eq!(handle_at(LATER, &mut server, OTHER, &asked), Ok(()));
        let told = events(&mut server);
        let [CmEvent::Unreachable(ended), CmEvent::Request { id, .. }] = told[..] else {
            panic!("{told:?}")
        };
        assert_eq!(ended, *gone);
        server.accept(LATER, id, reply(0x22), 0).unwrap();
        let private = [0; brief::RTU_PRIVATE_LEN];
        let rtu = brief::Rtu { local_id: (1 << 20) + number, remote_id: id.0, private };
        assert_eq!(handle(&mut server, OTHER, &Mad::new(1, Message::Rtu(rtu))), Ok(()));
        assert_eq!(events(&mut server), [CmEvent::Established(id)]);
        // So there is room for one more.
        let next = req((1 << 21) + number, (1 << 21) + number, 3);
        assert_eq!(handle_at(LATER, &mut server, OTHER, &next), Ok(()));
        assert!(accept_all(&mut server).is_some());
    }
    assert_eq!(server.stats().cm_rx_excess, 0);
}

#[test]
fn what_is_over_makes_room_before_what_is_half_open() {
    let mut server = server(8);
    let accepted = burst(&mut server);
    // The last one was in use, and is over: it goes before the first.
    let last = *accepted.last().unwrap();
    server.confirm(last, [0; brief::RTU_PRIVATE_LEN]).unwrap();
    let (local_id, remote_id) = (accepted.len() as u32, last.0);
    let remote_qpn = Qpn::new(0x22);
    let private = [0; brief::DREQ_PRIVATE_LEN];
    let dreq = brief::Dreq { local_id, remote_id, remote_qpn, private };
    assert_eq!(handle(&mut server, OTHER, &Mad::new(9, Message::Dreq(dreq))), Ok(()));
    assert_eq!(events(&mut server), [CmEvent::Established(last), CmEvent::Disconnected(last)]);
    for (number, expected) in
        [(1 << 20, CmEvent::Closed(last)), (1 << 21, CmEvent::Unreachable(accepted[0]))]
    {
        let asked = req(number, number, 3);
        assert_eq!(handle_at(LATER, &mut server, OTHER, &asked), Ok(()));
        let told = events(&mut server);
        assert_eq!(told[0], expected);
        let CmEvent::Request { id, .. } = told[1] else { panic!("{told:?}") };
        server.accept(LATER, id, reply(0x22), 0).unwrap();
    }
}

#[test]
fn a_listener_that_answers_nothing_keeps_its_address_from_no_other_listener() {
    let mut server = server(1024);
    server.listen(SERVICE + 1, None, 8).unwrap();
    for number in 1..=1100 {
        let expected = if number > 1024 { Err(Discard::Excess) } else { Ok(()) };
        assert_eq!(handle(&mut server, OTHER, &req(number, number, 3)), expected);
    }
    assert_eq!(events(&mut server).len(), 1024);
    let elsewhere = req::Repr { local_id: 6, guid: 1, service: SERVICE + 1, ..request(0x11) };
    assert_eq!(handle(&mut server, OTHER, &Mad::new(6, Message::Req(elsewhere))), Ok(()));
    assert!(accept_all(&mut server).is_some());
}

#[test]
fn requests_that_are_taken_back_in_turn_are_so_many_a_second() {
    // By a REJ, and by another REQ in the place of the former.
    for anew_each_time in [false, true] {
        let mut server = server(8);
        let mut told = 0;
        for number in 0..4 * CM_PENDING_PER_SOURCE_MAX as u32 {
            let local_id = if anew_each_time { 5 } else { 1_000 + number };
            let _ = handle(&mut server, OTHER, &anew(req(local_id, 0x11, 3), number.into()));
            if !anew_each_time {
                let _ = handle(&mut server, OTHER, &given_up(local_id, 0, 3));
            }
            // The application reads nothing: it is as if it had stopped.
            told += events(&mut server).len();
        }
        assert!(told <= 3 * (CM_PENDING_PER_SOURCE_MAX + 1), "{told}");
        assert!(server.len() <= 1 + CM_PENDING_PER_SOURCE_MAX);
        // Others come in, and this address too, a second later.
        assert_eq!(handle(&mut server, CLIENT, &req(5, 0x11, 1)), Ok(()));
        assert_eq!(handle(&mut server, OTHER, &req(6, 0x12, 3)), Err(Discard::Excess));
        server.handle_timeout(NOW + Span::from_ms(1_100));
        assert_eq!(handle(&mut server, OTHER, &req(6, 0x12, 3)), Ok(()));
    }
}

#[test]
fn three_thousand_connections_in_turn_never_wait() {
    let mut server = server(8);
    let mut now = NOW;
    for number in 1..=3_000 {
        // Each is followed by a TIMEWAIT of 275 s.
        let long = req::Path { ack_timeout: 31, ..request(number).path };
        let asked = req::Repr { local_id: number, guid: 1, path: long, ..request(number) };
        let way = arrival(CLIENT, SERVER);
        let say = |server: &mut Manager, message| {
            let mad = Mad::new(number.into(), message);
            server.handle(now, &way, || None, &mad.to_bytes())
        };
        assert_eq!(say(&mut server, Message::Req(asked)), Ok(()), "{number}");
        let asked = events(&mut server).into_iter().find_map(|event| match event {
            CmEvent::Request { id, .. } => Some(id),
            _ => None,
        });
        let id = asked.expect("a request");
        server.accept(now, id, reply(0x22), 0).unwrap();
        let (local_id, remote_id) = (number, id.0);
        let rtu = brief::Rtu { local_id, remote_id, private: [0; brief::RTU_PRIVATE_LEN] };
        assert_eq!(say(&mut server, Message::Rtu(rtu)), Ok(()), "{number}");
        let dreq = brief::Dreq {
            local_id,
            remote_id,
            remote_qpn: Qpn::new(0x22),
            private: [0; brief::DREQ_PRIVATE_LEN],
        };
        assert_eq!(say(&mut server, Message::Dreq(dreq)), Ok(()), "{number}");
        now += Span::from_ms(1);
        server.handle_timeout(now);
        assert!(server.len() <= CM_PENDING_PER_SOURCE_MAX);
    }
    assert_eq!(server.stats().cm_rx_excess, 0);
}

#[test]
fn a_connection_is_not_half_open_for_longer_than_the_bound() {
    for excused in [false, true] {
        let mut server = server(8);
        handle(&mut server, OTHER, &req(5, 0x11, 3)).unwrap();
        let Some(CmEvent::Request { id, .. }) = server.poll_event() else { panic!("a request") };
        server.accept(NOW, id, reply(0x22), 0).unwrap();
        if excused {
            let about = About::Rep;
            let (local_id, remote_id) = (5, id.0);
            let private = [0; wire::cm::mra::PRIVATE_LEN];
            let mra =
                wire::cm::mra::Repr { local_id, remote_id, about, service_timeout: 31, private };
            handle(&mut server, OTHER, &Mad::new(5, Message::Mra(mra))).unwrap();
        }
        let mut now = NOW;
        while let Some(at) = server.poll_timeout() {
            now = at;
            server.handle_timeout(now);
            if events(&mut server).contains(&CmEvent::Unreachable(id)) {
                break;
            }
        }
        assert_eq!(now.since(NOW), CM_HALF_OPEN_MAX);
    }
}

#[test]
fn a_rejected_request_is_remembered_for_no_longer_than_the_bound() {
    let mut server = server(8);
    handle(&mut server, OTHER, &req(5, 0x11, 3)).unwrap();
    let Some(CmEvent::Request { id, .. }) = server.poll_event() else { panic!("a request") };
    server.forget(NOW, id);
    let bound = NOW + CM_HALF_OPEN_MAX + Span::from_ns(1);
    server.handle_timeout(bound);
    assert!(server.is_empty());
}

#[test]
fn a_message_that_comes_again_and_again_is_answered_so_often_and_no_more() {
    let mut server = server(8);
    let request = req(5, 0x11, 3);
    handle(&mut server, OTHER, &request).unwrap();
    let results: Vec<_> = (0..100).map(|_| handle(&mut server, OTHER, &request)).collect();
    assert_eq!(sent(&mut server), usize::from(CM_ANSWERS_MAX));
    let (answered, dropped) = results.split_at(CM_ANSWERS_MAX.into());
    assert!(answered.iter().all(|result| *result == Err(Discard::Duplicate)));
    assert!(dropped.iter().all(|result| *result == Err(Discard::Excess)));
    // An answer of the application begins the count anew.
    let Some(CmEvent::Request { id, .. }) = server.poll_event() else { panic!("a request") };
    server.accept(NOW, id, reply(0x22), 0).unwrap();
    assert_eq!(handle(&mut server, OTHER, &request), Err(Discard::Duplicate));
    assert_eq!(sent(&mut server), 2);
    // DREQs likewise.
    let dreq = brief::Dreq {
        local_id: 5,
        remote_id: id.0,
        remote_qpn: Qpn::new(0x22),
        private: [0; brief::DREQ_PRIVATE_LEN],
    };
    for _ in 0..100 {
        let _ = handle(&mut server, OTHER, &Mad::new(9, Message::Dreq(dreq)));
    }
    assert_eq!(sent(&mut server), usize::from(CM_ANSWERS_MAX));
}

/// A REJ that says that its sender has given up, and which GUID it has.
fn given_up(local_id: u32, remote_id: u32, guid: u64) -> Mad {
    let mut info = [0; rej::INFO_LEN];
    info[..8].copy_from_slice(&guid.to_be_bytes());
    Mad::new(
        1,
        Message::Rej(rej::Repr {
            local_id,
            remote_id,
            about: About::Rep,
            info_length: 8,
            reason: rej::Reason::TIMEOUT,
            info,
            private: [0; rej::PRIVATE_LEN],
        }),
    )
}

/// `mad`, a REQ, as one of another transaction.
fn anew(mad: Mad, transaction: u64) -> Mad {
    Mad { transaction, ..mad }
}

/// What the application does with a request, for each that has come.
fn accept_all(server: &mut Manager) -> Option<CommId> {
    let mut last = None;
    for event in events(server) {
        if let CmEvent::Request { id, .. } = event {
            server.accept(NOW, id, reply(0x22), 0).unwrap();
            last = Some(id);
        }
    }
    last
}

#[test]
fn who_pretends_to_be_the_peer_does_not_know_its_guid() {
    // The application accepts what it is asked for, or refuses it.
    for accepts in [true, false] {
        let [mut client, mut server] = [CLIENT, SERVER].map(|host| manager(host, 7));
        server.listen(SERVICE, None, 8).unwrap();
        let slot = 5 << 14;
        let honest =
            req::Repr { local_id: 5, guid: client.guid(gid(SERVER)), ..request(slot | 99) };
        handle(&mut server, CLIENT, &Mad::new(5, Message::Req(honest))).unwrap();
        let victim = accept_all(&mut server).expect("a request");
        server.confirm(victim, [0; brief::RTU_PRIVATE_LEN]).unwrap();
        assert_eq!(events(&mut server), [CmEvent::Established(victim)]);

        // The attacker asks the client for a connection from an address of its own, to hear a GUID.
        client.listen(SERVICE, None, 8).unwrap();
        let asked = client.handle(NOW, &arrival(OTHER, CLIENT), || None, &req(1, 1, 3).to_bytes());
        assert_eq!(asked, Ok(()));
        assert!(accept_all(&mut client).is_some());
        let said = client.poll_transmit().expect("a REP");
        let Message::Rep(told) = said.mad.message else { panic!("{said:?}") };

        // Then it tries each number of the slot, a thousand in four seconds, for more than a minute.
        let mut now = NOW;
        for guess in 0..1 << 14 {
            let qpn = slot | guess;
            let forged = req::Repr { local_id: 1_000 + guess, guid: told.guid, ..request(qpn) };
            let mad = Mad::new(guess.into(), Message::Req(forged));
            let taken = server.handle(now, &arrival(CLIENT, SERVER), || None, &mad.to_bytes());
            assert_eq!(taken, Ok(()), "{guess}");
            for event in events(&mut server) {
                assert_ne!(event.conversation(), victim, "{guess}: {event:?}");
                match event {
                    CmEvent::Request { id, .. } if accepts => {
                        server.accept(now, id, reply(0x23), 0).unwrap();
                    }
                    CmEvent::Request { id, .. } => server.forget(now, id),
                    _ => {}
                }
            }
            now += Span::from_ms(4);
            server.handle_timeout(now);
            while server.poll_transmit().is_some() {}
        }
        assert!(now.since(NOW) > Span::from_ms(60_000));
        // The client itself, which has lost its state, ends it.
        let again = req::Repr { local_id: 6, ..honest };
        let ended = [CmEvent::Disconnected(victim), CmEvent::Closed(victim)];
        events(&mut server);
        handle(&mut server, CLIENT, &Mad::new(6, Message::Req(again))).unwrap();
        assert_eq!(events(&mut server), ended);
    }
}

#[test]
fn each_peer_is_told_another_guid_and_the_same_each_time() {
    let [one, same, other] = [7, 7, 8].map(|seed| manager(CLIENT, seed));
    assert_eq!(one.guid(gid(1)), same.guid(gid(1)));
    assert_ne!(one.guid(gid(1)), one.guid(gid(2)));
    assert_ne!(one.guid(gid(1)), other.guid(gid(1)));
}

#[test]
fn a_req_for_a_service_that_nobody_offers_ends_nothing() {
    let mut server = server(8);
    established(&mut server);
    let elsewhere = req::Repr { local_id: 6, guid: 1, service: SERVICE + 1, ..request(0x11) };
    handle(&mut server, CLIENT, &Mad::new(6, Message::Req(elsewhere))).unwrap();
    assert_eq!(events(&mut server), []);
}

#[test]
fn a_req_with_a_number_in_use_and_another_guid_ends_nothing() {
    let mut server = server(8);
    let id = established(&mut server);
    handle(&mut server, CLIENT, &anew(req(5, 0x33, 99), 77)).unwrap();
    let told = events(&mut server);
    assert!(matches!(told[..], [CmEvent::Request { .. }]), "{told:?}");
    // The client itself may forget and begin anew.
    handle(&mut server, CLIENT, &anew(req(5, 0x33, 1), 78)).unwrap();
    let told = events(&mut server);
    assert_eq!(told[..2], [CmEvent::Disconnected(id), CmEvent::Closed(id)]);
    assert!(matches!(told[2..], [CmEvent::Request { .. }]), "{told:?}");
}

#[test]
fn what_ends_a_connection_names_both_numbers() {
    let mut server = server(8);
    let id = established(&mut server);
    let dreq = |local_id| {
        let (remote_id, remote_qpn) = (id.0, Qpn::new(0x22));
        let private = [0; brief::DREQ_PRIVATE_LEN];
        Mad::new(9, Message::Dreq(brief::Dreq { local_id, remote_id, remote_qpn, private }))
    };
    let forged = [
        given_up(0, id.0, 1),
        given_up(5, 0, 1),
        given_up(5, 0, 0),
        given_up(0, 0, 1),
        given_up(6, id.0, 1),
        dreq(0),
        dreq(6),
    ];
    for mad in forged {
        assert_eq!(handle(&mut server, CLIENT, &mad), Err(Discard::Stray), "{mad:?}");
        assert_eq!(events(&mut server), []);
    }
    assert_eq!(handle(&mut server, CLIENT, &given_up(5, id.0, 1)), Ok(()));
    assert_eq!(events(&mut server), [CmEvent::Disconnected(id)]);
}

#[test]
fn who_takes_a_datagram_request_back_does_not_leave_the_backlog() {
    let mut server = server(1);
    let ask = |request_id| {
        let request = sidr::Req { request_id, service: SERVICE, ..sidr::Req::default() };
        Mad::new(u64::from(request_id), Message::SidrReq(request))
    };
    handle(&mut server, OTHER, &ask(1)).unwrap();
    let told = events(&mut server);
    let [CmEvent::DatagramRequest { id, .. }] = told[..] else { panic!("{told:?}") };
    for _ in 0..3 {
        let mad = given_up(1, id.0, 1);
        assert_eq!(handle(&mut server, OTHER, &mad), Err(Discard::Stray));
    }
    // There was one place, and it is still taken.
    let before = server.len();
    let _ = handle(&mut server, CLIENT, &ask(2));
    assert_eq!((server.len(), events(&mut server)), (before, vec![]));
}

#[test]
fn who_has_a_conversation_cannot_tell_the_numbers_of_others() {
    let mut server = server(1024);
    for id in 1..=100 {
        handle(&mut server, OTHER, &req(id, id, 3)).unwrap();
    }
    let ids = events(&mut server).into_iter().map(|event| event.conversation().0);
    let ids: Vec<_> = ids.collect();
    let near = ids.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < 1_000).count();
    assert!(near < 5, "{ids:?}");
}

#[test]
fn a_request_that_is_repeated_anew_counts_until_its_former_ones_are_gone() {
    for establishes in [false, true] {
        let mut server = server(1024);
        for transaction in 0..4 * CM_PENDING_PER_SOURCE_MAX as u64 {
            let _ = handle(&mut server, OTHER, &anew(req(5, 0x11, 3), transaction));
            let Some(id) = accept_all(&mut server) else { continue };
            if establishes {
                let private = [0; brief::RTU_PRIVATE_LEN];
                let rtu = brief::Rtu { local_id: 5, remote_id: id.0, private };
                handle(&mut server, OTHER, &Mad::new(transaction, Message::Rtu(rtu))).unwrap();
            }
        }
        // The last one may be established.
        assert!(server.len() <= 1 + CM_PENDING_PER_SOURCE_MAX, "{}", server.len());
        events(&mut server);
        let honest = established(&mut server);
        let left = events(&mut server);
        assert!(left.is_empty(), "{left:?}");
        // A connection that was in use is followed by its TIMEWAIT, of 275 s at most.
        let end = NOW + CM_HALF_OPEN_MAX * if establishes { 2 } else { 1 };
        while let Some(now) = server.poll_timeout().filter(|now| *now <= end) {
            server.handle_timeout(now);
        }
        let in_use: Vec<_> = server.conversations.values().map(|known| known.id).collect();
        assert!(in_use.contains(&honest.0) && in_use.len() <= 2, "{}", in_use.len());
        assert_eq!(handle(&mut server, OTHER, &req(6, 0x12, 3)), Ok(()));
    }
}
