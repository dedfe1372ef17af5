//! What another host can do to a connection manager that it may send to.

use alloc::vec::Vec;

use rdma::{Qpn, Span, Time};
use wire::cm::mra::About;
use wire::cm::{Mad, Message, brief, rej, req};

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
    server.handle(NOW, &arrival(from, SERVER), &mad.to_bytes())
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

#[test]
fn a_host_has_its_share_of_conversations_and_leaves_others_theirs() {
    let mut server = server(1024);
    for id in 1..=CM_PENDING_PER_SOURCE_MAX + 50 {
        let expected = if id > CM_PENDING_PER_SOURCE_MAX { Err(Discard::Excess) } else { Ok(()) };
        assert_eq!(handle(&mut server, OTHER, &req(id, id, 3)), expected, "{id}");
        // The application accepts at once, so the listener's backlog is empty.
        for event in events(&mut server) {
            let CmEvent::Request { id, .. } = event else { panic!("{event:?}") };
            server.accept(NOW, id, reply(0x22), 0).unwrap();
        }
    }
    assert_eq!(server.stats().cm_rx_excess, 50);
    assert_eq!(sent(&mut server), CM_PENDING_PER_SOURCE_MAX as usize, "nothing is said to a flood");
    established(&mut server);
    // One that is established, or over, makes room for another.
    let first = CommId(*server.conversations.keys().next().unwrap());
    server.confirm(first, [0; brief::RTU_PRIVATE_LEN]).unwrap();
    assert_eq!(handle(&mut server, OTHER, &req(1 << 20, 1 << 20, 3)), Ok(()));
    assert_eq!(handle(&mut server, OTHER, &req(1 << 21, 1 << 21, 3)), Err(Discard::Excess));
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
fn who_pretends_to_be_the_peer_and_guesses_has_the_guesses_of_one_source() {
    const GUESSES: u32 = 4 * CM_PENDING_PER_SOURCE_MAX;
    // The application refuses what it is asked for, or the source takes it back: at once, and with the
    // least patience that it can name.
    for takes_back in [false, true] {
        let mut server = server(1024);
        let id = established(&mut server);
        let mut over = Vec::new();
        for guess in 0..GUESSES {
            // The client's adapter is known, and its queue pair, 0x11, is the last that is guessed.
            let hasty = req::Repr {
                local_id: 1_000 + guess,
                guid: 1,
                local_timeout: 0,
                max_retries: 0,
                ..request(0x11 + GUESSES - 1 - guess)
            };
            let mad = Mad::new(u64::from(guess), Message::Req(hasty));
            over.push(handle(&mut server, CLIENT, &mad));
            if takes_back {
                let _ = handle(&mut server, CLIENT, &given_up(1_000 + guess, 0, 1));
            }
            for event in events(&mut server) {
                match event {
                    CmEvent::Request { id, .. } => server.forget(NOW, id),
                    CmEvent::Rejected { .. } => {}
                    other => panic!("{guess}: {other:?}"),
                }
            }
            server.handle_timeout(NOW + Span::from_ms(1));
        }
        let taken = over.iter().filter(|result| result.is_ok()).count();
        assert_eq!(taken, CM_PENDING_PER_SOURCE_MAX as usize);
        assert!(events(&mut server).is_empty());
        // Others come in meanwhile, and the client's connection ends when the client says so.
        assert_eq!(handle(&mut server, OTHER, &req(5, 0x11, 3)), Ok(()));
        assert!(accept_all(&mut server).is_some());
        server.disconnect(NOW, id, [0; brief::DREQ_PRIVATE_LEN]).unwrap();
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
        for transaction in 0..4 * u64::from(CM_PENDING_PER_SOURCE_MAX) {
            let _ = handle(&mut server, OTHER, &anew(req(5, 0x11, 3), transaction));
            let Some(id) = accept_all(&mut server) else { continue };
            if establishes {
                let private = [0; brief::RTU_PRIVATE_LEN];
                let rtu = brief::Rtu { local_id: 5, remote_id: id.0, private };
                handle(&mut server, OTHER, &Mad::new(transaction, Message::Rtu(rtu))).unwrap();
            }
        }
        // The last one may be established.
        assert!(server.len() <= 1 + CM_PENDING_PER_SOURCE_MAX as usize, "{}", server.len());
        assert!(server.stats().cm_rx_excess > 0);
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
