//! Two ports of different path MTUs.

use rdma::{Mtu, Span};
use wire::cm::mra::About;
use wire::cm::{Mad, Message, rej, req};

use super::{Hosts, reason, request, route};
use crate::cm::{CmConfig, CmEvent, Manager};

#[test]
fn a_path_mtu_that_the_peer_cannot_have_is_asked_for_no_more() {
    for (port, asked) in [(Mtu::B1024, 5), (Mtu::B256, 2), (Mtu::B4096, 5)] {
        let mut it = Hosts::new();
        it.hosts[1] = Manager::new(CmConfig { ids: 1 << 23..3 << 22, guid: 2, seed: 7, mtu: port });
        it.listen();
        let request = req::Repr { mtu: asked, ..request(1) };
        let active = it.hosts[0].connect(it.now, route(0, 1), request, 0).unwrap();
        it.settle();
        if port != Mtu::B4096 {
            assert_eq!(it.wait(0), Span::ZERO, "at once");
            it.settle();
        }
        let Some(CmEvent::Request { id, request, .. }) = it.event(1) else { panic!("a request") };
        assert_eq!(request.mtu, port.code());
        it.accept(id);
        it.settle();
        let Some(CmEvent::Reply { id, mtu, .. }) = it.event(0) else { panic!("a reply") };
        assert_eq!((id, mtu), (active, port));
    }
}

/// One that names a longer path MTU than was asked for, or none, is not asked again.
#[test]
fn a_refusal_of_a_path_mtu_without_a_shorter_one_is_final() {
    for (length, code) in [(0, 1), (1, 3), (1, 5), (1, 0), (1, 0xff)] {
        let mut it = Hosts::new();
        it.connect();
        it.sends(0);
        let sent = it.wire[1].pop_front().expect("a request");
        let mut info = [0; rej::INFO_LEN];
        info[0] = code;
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
