//! Two ports, or a port and a path, of different path MTUs.

use rdma::Mtu;
use wire::cm::mra::About;
use wire::cm::{Mad, Message, rej, req};

use super::{Hosts, arrival, reason, request, route};
use crate::cm::{CmConfig, CmEvent, CommId, Discard, Manager};

/// A server whose port has so long a path MTU, and a client that has asked for another one.
fn asked(port: Mtu, asked: u8) -> (Hosts, CommId) {
    let mut it = Hosts::new();
    it.hosts[1] = Manager::new(CmConfig { ids: 1 << 23..3 << 22, guid: 2, seed: 7, mtu: port });
    it.listen();
    let request = req::Repr { mtu: asked, ..request(1) };
    let active = it.hosts[0].connect(it.now, route(0, 1), request, 0).unwrap();
    it.sends(0);
    (it, active)
}

/// The only message that is on the way to `host`.
fn only(it: &mut Hosts, host: usize) -> Mad {
    assert_eq!(it.wire[host].len(), 1);
    it.wire[host].pop_front().unwrap()
}

/// Accepts, and says what both have agreed on.
fn agreed(it: &mut Hosts, active: CommId) -> Mtu {
    let Some(CmEvent::Request { id, request, .. }) = it.event(1) else { panic!("a request") };
    it.accept(id);
    it.settle();
    let Some(CmEvent::Reply { id, mtu, .. }) = it.event(0) else { panic!("a reply") };
    assert_eq!((id, mtu.code()), (active, request.mtu));
    mtu
}

#[test]
fn a_path_mtu_that_the_peer_cannot_have_is_asked_for_no_more() {
    for (port, wanted) in [(Mtu::B1024, 5), (Mtu::B256, 2), (Mtu::B4096, 5)] {
        let (mut it, active) = asked(port, wanted);
        it.receives(1);
        it.settle();
        assert_eq!(agreed(&mut it, active), port);
        assert_eq!(it.hosts[0].stats().cm_tx_retries, 0, "it is another request");
    }
}

#[test]
fn a_path_that_is_narrower_than_the_port_counts() {
    let (mut it, active) = asked(Mtu::B4096, 5);
    let path = Some(Mtu::B1024);
    let request = only(&mut it, 1);
    it.hosts[1].handle(it.now, &arrival(0, 1), || path, &request.to_bytes()).unwrap();
    assert_eq!(it.sends(1), ["REJ"]);
    it.receives(0);
    assert_eq!(it.sends(0), ["REQ"]);
    let request = only(&mut it, 1);
    it.hosts[1].handle(it.now, &arrival(0, 1), || path, &request.to_bytes()).unwrap();
    assert_eq!(agreed(&mut it, active), Mtu::B1024);
}

/// A refusal that comes twice, since it or the request was repeated on the way, answers what was asked for before.
#[test]
fn a_refusal_of_what_was_asked_for_before_is_of_no_use() {
    let (mut it, active) = asked(Mtu::B1024, 5);
    let first = only(&mut it, 1);
    for _ in 0..2 {
        it.deliver(1, &first).unwrap();
    }
    assert_eq!(it.sends(1), ["REJ", "REJ"]);
    let late = it.wire[0].back().copied().unwrap();
    assert_eq!(it.receives(0), [Ok(()), Err(Discard::Duplicate)]);
    assert_eq!(it.sends(0), ["REQ"]);
    let second = *it.wire[1].back().unwrap();
    assert_ne!(first.transaction, second.transaction);
    it.settle();
    assert_eq!(it.deliver(0, &late), Err(Discard::Duplicate));
    assert_eq!(agreed(&mut it, active), Mtu::B1024);
    assert_eq!(it.deliver(0, &late), Err(Discard::Stray), "the connection stands");
    assert_eq!(it.event(0), None);
}

/// One that names a longer path MTU than was asked for, or none, is not asked again.
#[test]
fn a_refusal_of_a_path_mtu_without_a_shorter_one_is_final() {
    for (length, byte) in [(0, 0x10), (1, 0x30), (1, 0x50), (1, 0x01), (1, 0xff)] {
        let mut it = Hosts::new();
        it.connect();
        it.sends(0);
        let sent = only(&mut it, 1);
        let mut info = [0; rej::INFO_LEN];
        info[0] = byte;
        let Message::Req(asked) = sent.message else { panic!("a request") };
        let rejection = rej::Repr {
            local_id: 0,
            remote_id: asked.local_id,
            about: About::Req,
            info_length: length,
            reason: rej::Reason::INVALID_MTU,
            info,
            private: [0; rej::PRIVATE_LEN],
        };
        it.deliver(0, &Mad::new(sent.transaction, Message::Rej(rejection))).unwrap();
        assert_eq!(reason(it.event(0)), rej::Reason::INVALID_MTU);
    }
}
