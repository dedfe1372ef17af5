//! What another host can do to a connection manager that it may send to.

use alloc::vec::Vec;

use rdma::{Qpn, Span, Time};
use wire::cm::{Mad, Message, brief, req};

use super::{SERVICE, arrival, manager, reply, request};
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
            let about = wire::cm::mra::About::Rep;
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
