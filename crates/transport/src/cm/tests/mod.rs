//! Two managers and what they say to each other.

mod hostile;
mod path_mtu;
mod storm;

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

use rdma::{Gid, Mtu, Psn, QKey, Qpn, Span, Time};
use wire::cm::{Mad, Message, brief, rej, rep, req, sidr};

use super::{CmConfig, CmError, CmEvent, CommId, Discard, ListenerId, Manager, Outgoing};
use crate::limits::{
    CM_RESPONSE_TIMEOUT, CM_RETRIES, CM_SERVICE_TIMEOUT, CM_UNCLAIMED_INTERVAL,
    CM_UNCLAIMED_PATIENCE, ack_timeout,
};
use crate::{Arrival, Route};

const SERVICE: u64 = 0x0106_1c06;

fn gid(host: usize) -> Gid {
    Ipv4Addr::new(10, 0, 0, host as u8 + 1).into()
}

fn manager(host: usize, seed: u64) -> Manager {
    let first = (host as u32 + 1) << 22;
    Manager::new(CmConfig {
        ids: first..first + (1 << 22),
        guid: host as u64 + 1,
        seed,
        mtu: Mtu::B4096,
    })
}

fn route(from: usize, to: usize) -> Route {
    Route::between(gid(from), gid(to))
}

fn request(qpn: u32) -> req::Repr {
    let path = req::Path::between(gid(0), gid(1));
    req::Repr {
        service: SERVICE,
        qpn: Qpn::new(qpn),
        responder_resources: 1,
        initiator_depth: 1,
        psn: Psn::new(7),
        retry_count: 7,
        mtu: 3,
        rnr_retry: 7,
        private: [5; req::PRIVATE_LEN],
        ..req::Repr::over(req::Path { ack_timeout: 18, ..path })
    }
}

fn reply(qpn: u32) -> rep::Repr {
    rep::Repr {
        qpn: Qpn::new(qpn),
        psn: Psn::new(9),
        responder_resources: 1,
        initiator_depth: 1,
        target_ack_delay: 15,
        rnr_retry: 7,
        private: [6; rep::PRIVATE_LEN],
        ..rep::Repr::default()
    }
}

fn answer(qpn: u32) -> sidr::Rep {
    sidr::Rep {
        request_id: 0,
        status: sidr::Status::OK,
        info_length: 0,
        qpn: Qpn::new(qpn),
        service: 0,
        q_key: QKey(0x0123_4567),
        info: [0; sidr::INFO_LEN],
        private: [6; sidr::REP_PRIVATE_LEN],
    }
}

/// Two hosts; what the first listens for and asks is up to the test.
struct Hosts {
    now: Time,
    hosts: [Manager; 2],
    /// Messages on the way to each host.
    wire: [VecDeque<Mad>; 2],
}

impl Hosts {
    fn new() -> Self {
        Self {
            now: Time::from_ns(1_000_000),
            hosts: [manager(0, 100), manager(1, 200)],
            wire: [VecDeque::new(), VecDeque::new()],
        }
    }

    /// Puts what `host` has ready on the wire, and says what it is.
    fn sends(&mut self, host: usize) -> Vec<&'static str> {
        let mut names = Vec::new();
        while let Some(Outgoing { route, mad }) = self.hosts[host].poll_transmit() {
            assert_eq!((route.source, route.destination), (gid(host), gid(1 - host)));
            names.push(name(&mad));
            self.wire[1 - host].push_back(mad);
        }
        names
    }

    /// Loses what is on the way to `host`.
    fn lose(&mut self, host: usize) {
        self.wire[host].clear();
    }

    fn deliver(&mut self, host: usize, mad: &Mad) -> Result<(), Discard> {
        self.hosts[host].handle(self.now, &arrival(1 - host, host), || None, &mad.to_bytes())
    }

    /// Delivers what is on the way to `host`, and says what has become of it.
    fn receives(&mut self, host: usize) -> Vec<Result<(), Discard>> {
        let mads = core::mem::take(&mut self.wire[host]);
        mads.iter().map(|mad| self.deliver(host, mad)).collect()
    }

    /// Sends and delivers until nobody has anything to say.
    fn settle(&mut self) {
        loop {
            let said = self.sends(0).len() + self.sends(1).len();
            self.receives(0);
            self.receives(1);
            if said == 0 {
                return;
            }
        }
    }

    /// Asks and is refused, until host 0 has no patience any more.
    fn settle_unclaimed(&mut self) {
        self.settle();
        while self.hosts[0].poll_timeout().is_some() {
            assert_eq!(self.event(0), None);
            assert_eq!(self.wait(0), CM_UNCLAIMED_INTERVAL);
            self.settle();
        }
    }

    fn event(&mut self, host: usize) -> Option<CmEvent> {
        self.hosts[host].poll_event()
    }

    /// Jumps to the next deadline of `host`.
    fn wait(&mut self, host: usize) -> Span {
        let deadline = self.hosts[host].poll_timeout().expect("something is waited for");
        let waited = deadline.since(self.now);
        self.now = deadline;
        self.hosts[host].handle_timeout(deadline);
        waited
    }

    fn connect(&mut self) -> CommId {
        self.hosts[0].connect(self.now, route(0, 1), request(0x11), 0).unwrap()
    }

    fn listen(&mut self) -> ListenerId {
        self.hosts[1].listen(SERVICE, None, 8).unwrap()
    }

    /// A request of host 0 that has arrived at host 1.
    fn requested(&mut self) -> (CommId, CommId) {
        self.listen();
        let active = self.connect();
        self.settle();
        let Some(CmEvent::Request { id, .. }) = self.event(1) else { panic!("a request") };
        (active, id)
    }

    fn accept(&mut self, id: CommId) {
        self.hosts[1].accept(self.now, id, reply(0x22), 0).unwrap();
    }

    fn confirm(&mut self, id: CommId) {
        self.hosts[0].confirm(id, [0; brief::RTU_PRIVATE_LEN]).unwrap();
    }

    fn connected(&mut self) -> (CommId, CommId) {
        let (active, passive) = self.requested();
        self.accept(passive);
        self.settle();
        assert!(matches!(self.event(0), Some(CmEvent::Reply { .. })));
        self.confirm(active);
        self.settle();
        assert_eq!(self.event(1), Some(CmEvent::Established(passive)));
        (active, passive)
    }

    fn disconnect(&mut self, host: usize, id: CommId) {
        let private = [0; brief::DREQ_PRIVATE_LEN];
        self.hosts[host].disconnect(self.now, id, private).unwrap();
    }

    fn assert_silent(&mut self) {
        for host in 0..2 {
            assert_eq!(self.event(host), None);
            assert_eq!(self.sends(host), Vec::<&str>::new());
        }
    }
}

fn arrival(from: usize, to: usize) -> Arrival {
    Arrival { source: gid(from), destination: gid(to), traffic_class: 0, hop_limit: 64 }
}

fn name(mad: &Mad) -> &'static str {
    match mad.message {
        Message::Req(_) => "REQ",
        Message::Mra(_) => "MRA",
        Message::Rej(_) => "REJ",
        Message::Rep(_) => "REP",
        Message::Rtu(_) => "RTU",
        Message::Dreq(_) => "DREQ",
        Message::Drep(_) => "DREP",
        Message::SidrReq(_) => "SIDR_REQ",
        Message::SidrRep(_) => "SIDR_REP",
    }
}

fn reason(event: Option<CmEvent>) -> rej::Reason {
    match event {
        Some(CmEvent::Rejected { rejection, .. }) => rejection.reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_connection_is_asked_for_accepted_used_and_ended() {
    let mut it = Hosts::new();
    let listener = it.listen();
    let active = it.connect();
    assert_eq!(it.sends(0), ["REQ"]);
    assert_eq!(it.receives(1), [Ok(())]);
    let Some(CmEvent::Request { listener: asked, id: passive, route: way, request, .. }) =
        it.event(1)
    else {
        panic!("a request")
    };
    assert_eq!((asked, way), (listener, route(1, 0)));
    assert_eq!((request.qpn, request.psn), (Qpn::new(0x11), Psn::new(7)));
    assert_eq!(request.guid, it.hosts[0].guid(gid(1)));
    assert_eq!(request.private, [5; req::PRIVATE_LEN]);
    it.accept(passive);
    assert_eq!(it.sends(1), ["REP"]);
    it.receives(0);
    let Some(CmEvent::Reply { id, reply, .. }) = it.event(0) else { panic!("a reply") };
    assert_eq!((id, reply.qpn), (active, Qpn::new(0x22)));
    assert_eq!(reply.guid, it.hosts[1].guid(gid(0)));
    it.confirm(active);
    assert_eq!(it.sends(0), ["RTU"]);
    it.receives(1);
    assert_eq!(it.event(1), Some(CmEvent::Established(passive)));
    it.assert_silent();
    assert_eq!([0, 1].map(|host| it.hosts[host].poll_timeout()), [None, None]);

    it.disconnect(0, active);
    assert_eq!(it.sends(0), ["DREQ"]);
    it.receives(1);
    assert_eq!(it.event(1), Some(CmEvent::Disconnected(passive)));
    assert_eq!(it.sends(1), ["DREP"]);
    it.receives(0);
    assert_eq!(it.event(0), Some(CmEvent::Disconnected(active)));
    it.assert_silent();
    for (host, id) in [(0, active), (1, passive)] {
        it.wait(host);
        assert_eq!(it.event(host), Some(CmEvent::Closed(id)));
        assert!(it.hosts[host].is_empty());
    }
}

#[test]
fn the_messages_of_one_exchange_have_one_transaction() {
    let mut it = Hosts::new();
    let (active, passive) = it.requested();
    it.accept(passive);
    it.sends(1);
    let rep = it.wire[0][0];
    it.receives(0);
    it.confirm(active);
    it.sends(0);
    assert_eq!(it.wire[1][0].transaction, rep.transaction);
    it.receives(1);
    it.disconnect(1, passive);
    it.sends(1);
    let dreq = it.wire[0][0];
    assert_ne!(dreq.transaction, rep.transaction);
    it.receives(0);
    it.sends(0);
    assert_eq!(it.wire[1][0].transaction, dreq.transaction);
}

#[test]
fn a_service_that_nobody_offers_is_refused() {
    let mut it = Hosts::new();
    let start = it.now;
    it.connect();
    it.settle_unclaimed();
    assert_eq!(reason(it.event(0)), rej::Reason::INVALID_SERVICE);
    assert_eq!(it.now.since(start), CM_UNCLAIMED_PATIENCE);
    assert!(it.hosts.iter().all(Manager::is_empty));
    assert_eq!(it.hosts[1].stats().cm_unknown_services, 11);
}

#[test]
fn a_server_that_listens_a_moment_too_late_is_asked_again() {
    let mut it = Hosts::new();
    let active = it.connect();
    let ask = sidr::Req { service: SERVICE, ..sidr::Req::default() };
    it.hosts[0].ask(it.now, route(0, 1), ask).unwrap();
    it.settle();
    it.listen();
    assert_eq!(it.wait(0), CM_UNCLAIMED_INTERVAL);
    it.settle();
    let asked = [it.event(1), it.event(1)];
    assert!(asked.iter().any(|asked| matches!(asked, Some(CmEvent::DatagramRequest { .. }))));
    let id = asked.iter().flatten().find_map(|asked| match asked {
        CmEvent::Request { id, .. } => Some(*id),
        _ => None,
    });
    it.accept(id.expect("a request"));
    it.settle();
    assert!(matches!(it.event(0), Some(CmEvent::Reply { id, .. }) if id == active));
}

#[test]
fn a_refusal_for_another_reason_is_final() {
    let mut it = Hosts::new();
    let (_, passive) = it.requested();
    let private = [0; rej::PRIVATE_LEN];
    it.hosts[1].reject(it.now, passive, rej::Reason::CONSUMER, private).unwrap();
    it.settle();
    assert_eq!(reason(it.event(0)), rej::Reason::CONSUMER);
}

#[test]
fn a_listener_at_an_address_hears_what_is_sent_there() {
    let mut it = Hosts::new();
    let elsewhere = it.hosts[1].listen(SERVICE, Some(gid(7)), 8).unwrap();
    it.connect();
    it.settle_unclaimed();
    assert_eq!(reason(it.event(0)), rej::Reason::INVALID_SERVICE);
    let any = it.listen();
    let here = it.hosts[1].listen(SERVICE, Some(gid(1)), 8).unwrap();
    assert_eq!(it.hosts[1].listen(SERVICE, Some(gid(1)), 8), Err(CmError::InUse));
    for expected in [here, any] {
        it.connect();
        it.settle();
        let Some(CmEvent::Request { listener, .. }) = it.event(1) else { panic!("a request") };
        assert_eq!(listener, expected);
        it.hosts[1].unlisten(expected).unwrap();
    }
    it.hosts[1].unlisten(elsewhere).unwrap();
    assert_eq!(it.hosts[1].unlisten(here), Err(CmError::NotFound));
}

#[test]
fn an_application_may_refuse_and_say_why() {
    let mut it = Hosts::new();
    let (active, passive) = it.requested();
    let private = [9; rej::PRIVATE_LEN];
    it.hosts[1].reject(it.now, passive, rej::Reason::CONSUMER, private).unwrap();
    assert_eq!(it.sends(1), ["REJ"]);
    // It is lost, and the REQ comes again: the answer is the same, and the application not asked.
    it.lose(0);
    it.wait(0);
    it.sends(0);
    assert_eq!(it.receives(1), [Err(Discard::Duplicate)]);
    it.settle();
    let Some(CmEvent::Rejected { id, rejection }) = it.event(0) else { panic!("a rejection") };
    assert_eq!((id, rejection.reason), (active, rej::Reason::CONSUMER));
    assert_eq!(rejection.private, private);
    it.assert_silent();
    it.wait(1);
    assert_eq!(it.event(1), Some(CmEvent::Closed(passive)));
}

#[test]
fn a_reply_may_be_refused() {
    let mut it = Hosts::new();
    let (active, passive) = it.requested();
    it.accept(passive);
    it.settle();
    it.hosts[0].reject(it.now, active, rej::Reason::CONSUMER, [0; rej::PRIVATE_LEN]).unwrap();
    it.settle();
    let Some(CmEvent::Rejected { id, rejection }) = it.event(1) else { panic!("a rejection") };
    assert_eq!((id, rejection.about), (passive, wire::cm::mra::About::Rep));
}

#[test]
fn who_does_not_answer_is_asked_again_and_given_up_in_the_promised_time() {
    let mut it = Hosts::new();
    let active = it.connect();
    let response = ack_timeout(CM_RESPONSE_TIMEOUT).unwrap();
    for _ in 0..=CM_RETRIES {
        assert_eq!(it.sends(0), ["REQ"]);
        it.lose(1);
        assert_eq!(it.wait(0), response);
    }
    assert_eq!(it.event(0), Some(CmEvent::Unreachable(active)));
    // In case that it has heard us, and only we not it.
    assert_eq!(it.sends(0), ["REJ"]);
    assert!(it.hosts[0].is_empty());
    assert_eq!(it.hosts[0].stats().cm_tx_retries, u64::from(CM_RETRIES));
}

#[test]
fn an_application_that_takes_its_time_is_excused() {
    let mut it = Hosts::new();
    let (active, passive) = it.requested();
    it.wait(0);
    assert_eq!(it.sends(0), ["REQ"]);
    it.receives(1);
    assert_eq!(it.sends(1), ["MRA"]);
    assert_eq!(it.receives(0), [Ok(())]);
    it.assert_silent();
    let service = ack_timeout(CM_SERVICE_TIMEOUT).unwrap();
    assert!(it.hosts[0].poll_timeout().unwrap().since(it.now) > service);
    it.accept(passive);
    it.settle();
    assert!(matches!(it.event(0), Some(CmEvent::Reply { id, .. }) if id == active));
}

#[test]
fn every_message_may_be_lost_once() {
    let mut it = Hosts::new();
    it.listen();
    let active = it.connect();
    assert_eq!(it.sends(0), ["REQ"]);
    it.lose(1);
    it.wait(0);
    it.settle();
    let Some(CmEvent::Request { id: passive, .. }) = it.event(1) else { panic!("a request") };
    it.accept(passive);
    assert_eq!(it.sends(1), ["REP"]);
    it.lose(0);
    // Both sides repeat; a REQ that is answered already brings the REP again.
    it.wait(0);
    assert_eq!(it.sends(0), ["REQ"]);
    assert_eq!(it.receives(1), [Err(Discard::Duplicate)]);
    it.settle();
    assert!(matches!(it.event(0), Some(CmEvent::Reply { .. })));
    it.confirm(active);
    assert_eq!(it.sends(0), ["RTU"]);
    it.lose(1);
    it.wait(1);
    assert_eq!(it.sends(1), ["REP"]);
    assert_eq!(it.receives(0), [Err(Discard::Duplicate)]);
    it.settle();
    assert_eq!(it.event(1), Some(CmEvent::Established(passive)));
    it.disconnect(1, passive);
    assert_eq!(it.sends(1), ["DREQ"]);
    it.lose(0);
    it.wait(1);
    assert_eq!(it.sends(1), ["DREQ"]);
    it.receives(0);
    assert_eq!(it.event(0), Some(CmEvent::Disconnected(active)));
    assert_eq!(it.sends(0), ["DREP"]);
    it.lose(1);
    it.wait(1);
    it.settle();
    assert_eq!(it.event(1), Some(CmEvent::Disconnected(passive)));
    it.assert_silent();
}

#[test]
fn every_message_may_come_twice() {
    let mut it = Hosts::new();
    it.listen();
    it.connect();
    let mut events = [0; 2];
    let mut all = VecDeque::new();
    for _ in 0..12 {
        for host in 0..2 {
            it.sends(host);
            let mads: Vec<Mad> = it.wire[1 - host].drain(..).collect();
            for mad in mads {
                all.push_back((1 - host, mad));
                let _ = it.deliver(1 - host, &mad);
                let _ = it.deliver(1 - host, &mad);
            }
            // And everything said so far, once more.
            for (to, mad) in all.clone() {
                let _ = it.deliver(to, &mad);
            }
            it.lose(0);
            it.lose(1);
            while let Some(event) = it.event(1 - host) {
                events[1 - host] += 1;
                match event {
                    CmEvent::Request { id, .. } => it.accept(id),
                    CmEvent::Reply { id, .. } => it.confirm(id),
                    CmEvent::Established(id) => it.disconnect(1, id),
                    CmEvent::Disconnected(_) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    }
    // Reply and end; request, established and end.
    assert_eq!(events, [2, 3]);
    assert!(it.hosts.iter().all(|host| host.stats().cm_rx_duplicates > 0));
}

#[test]
fn both_sides_may_end_a_connection_at_once() {
    let mut it = Hosts::new();
    let (active, passive) = it.connected();
    it.disconnect(0, active);
    it.disconnect(1, passive);
    it.settle();
    assert_eq!(it.event(0), Some(CmEvent::Disconnected(active)));
    assert_eq!(it.event(1), Some(CmEvent::Disconnected(passive)));
    it.assert_silent();
}

#[test]
fn the_end_of_a_connection_that_the_peer_does_not_know_is_confirmed() {
    let mut it = Hosts::new();
    let (active, _) = it.connected();
    it.hosts[1] = manager(1, 900);
    it.disconnect(0, active);
    it.settle();
    assert_eq!(it.event(0), Some(CmEvent::Disconnected(active)));
}

#[test]
fn a_dreq_for_another_queue_pair_ends_nothing() {
    let mut it = Hosts::new();
    let (active, _) = it.connected();
    it.disconnect(0, active);
    it.sends(0);
    let mut mad = it.wire[1].pop_front().unwrap();
    if let Message::Dreq(dreq) = &mut mad.message {
        dreq.remote_qpn = Qpn::new(0x23);
    }
    assert_eq!(it.deliver(1, &mad), Err(Discard::Stray));
    it.assert_silent();
}

#[test]
fn a_message_from_another_address_is_no_answer() {
    let mut it = Hosts::new();
    let (_, passive) = it.requested();
    it.accept(passive);
    it.sends(1);
    let rep = it.wire[0].pop_front().unwrap();
    let forged = it.hosts[0].handle(it.now, &arrival(5, 0), || None, &rep.to_bytes());
    assert_eq!(forged, Err(Discard::Stray));
    assert_eq!(it.event(0), None);
    assert_eq!(it.deliver(0, &rep), Ok(()));
}

#[test]
fn a_side_that_gives_up_tells_the_other() {
    let mut it = Hosts::new();
    let (active, passive) = it.requested();
    it.accept(passive);
    // Nothing of what the passive side says arrives.
    while it.event(0) != Some(CmEvent::Unreachable(active)) {
        it.wait(0);
        it.sends(1);
        it.lose(0);
        it.sends(0);
        it.receives(1);
    }
    it.sends(0);
    it.receives(1);
    assert_eq!(reason(it.event(1)), rej::Reason::TIMEOUT);
    assert!(it.hosts[0].is_empty());
    it.wait(1);
    assert!(it.hosts[1].is_empty());
    it.assert_silent();
}

#[test]
fn a_queue_pair_that_connects_anew_ends_its_old_connection() {
    let mut it = Hosts::new();
    let (active, passive) = it.connected();
    // The client has ended it and uses its queue pair again, but its DREQ is lost.
    it.hosts[0].forget(it.now, active);
    assert_eq!(it.sends(0), ["DREQ"]);
    it.lose(1);
    it.connect();
    it.settle();
    assert_eq!(reason(it.event(0)), rej::Reason::STALE);
    assert_eq!(it.event(1), Some(CmEvent::Disconnected(passive)));
    assert_eq!(it.event(1), Some(CmEvent::Closed(passive)));
    it.connect();
    it.settle();
    assert!(matches!(it.event(1), Some(CmEvent::Request { .. })));
}

#[test]
fn what_finds_a_full_backlog_is_asked_again_and_has_room_after_an_answer() {
    let mut it = Hosts::new();
    it.hosts[1].listen(SERVICE, None, 2).unwrap();
    let mut asked = Vec::new();
    for qpn in 1..=3 {
        it.hosts[0].connect(it.now, route(0, 1), request(qpn), 0).unwrap();
        it.settle();
        if let Some(CmEvent::Request { id, .. }) = it.event(1) {
            asked.push(id);
        }
    }
    assert_eq!(asked.len(), 2);
    assert_eq!(it.event(0), None);
    assert_eq!(it.hosts[1].stats().cm_rx_excess, 1);
    it.hosts[1].forget(it.now, asked[1]);
    it.settle();
    it.wait(0);
    it.settle();
    assert!(
        matches!(it.event(1), Some(CmEvent::Request { request, .. }) if request.qpn == Qpn::new(3))
    );
    it.accept(asked[0]);
    for qpn in 4..=6 {
        it.hosts[0].connect(it.now, route(0, 1), request(qpn), 0).unwrap();
    }
    it.settle();
    assert_eq!(core::iter::from_fn(|| it.event(1)).count(), 1);
}

#[test]
fn what_is_forgotten_ends_without_a_word_to_the_application() {
    for at in 0..4 {
        let mut it = Hosts::new();
        let (host, id) = match at {
            0 => (0, it.requested().0),
            1 => (1, it.requested().1),
            2 => (0, it.connected().0),
            _ => (1, it.connected().1),
        };
        it.hosts[host].forget(it.now, id);
        it.settle();
        let event = it.event(1 - host);
        let is_told = matches!(event, Some(CmEvent::Rejected { .. } | CmEvent::Disconnected(_)));
        assert!(is_told, "{at}: {event:?}");
        while it.hosts[host].poll_timeout().is_some() {
            it.wait(host);
            it.settle();
        }
        assert!(it.hosts[host].is_empty(), "{at}");
        assert_eq!(it.event(host), None, "{at}");
    }
}

#[test]
fn at_the_end_every_peer_is_told() {
    let mut it = Hosts::new();
    let (active, _) = it.connected();
    it.hosts[1].forget_all(it.now);
    it.settle();
    assert_eq!(it.event(0), Some(CmEvent::Disconnected(active)));
}

#[test]
fn a_connection_in_use_need_not_be_confirmed() {
    let mut it = Hosts::new();
    let (_, passive) = it.requested();
    it.accept(passive);
    it.hosts[1].confirm(passive, [0; brief::RTU_PRIVATE_LEN]).unwrap();
    assert_eq!(it.event(1), Some(CmEvent::Established(passive)));
    let again = it.hosts[1].confirm(passive, [0; brief::RTU_PRIVATE_LEN]);
    assert_eq!(again, Err(CmError::State));
}

#[test]
fn calls_at_the_wrong_point_are_refused() {
    let mut it = Hosts::new();
    let (active, passive) = it.requested();
    let now = it.now;
    assert_eq!(it.hosts[0].accept(now, active, reply(1), 0), Err(CmError::State));
    assert_eq!(it.hosts[1].answer(now, passive, answer(1)), Err(CmError::State));
    let private = [0; brief::DREQ_PRIVATE_LEN];
    assert_eq!(it.hosts[1].disconnect(now, passive, private), Err(CmError::State));
    assert_eq!(it.hosts[1].disconnect(now, CommId(1), private), Err(CmError::NotFound));
    it.hosts[1].forget(now, CommId(1));
    it.accept(passive);
    assert_eq!(it.hosts[1].accept(now, passive, reply(1), 0), Err(CmError::State));
}

#[test]
fn the_queue_pair_of_a_datagram_service_is_asked_for_and_told() {
    let mut it = Hosts::new();
    it.listen();
    let ask = sidr::Req { service: SERVICE, private: [5; 216], ..sidr::Req::default() };
    let active = it.hosts[0].ask(it.now, route(0, 1), ask).unwrap();
    assert_eq!(it.sends(0), ["SIDR_REQ"]);
    it.receives(1);
    let Some(CmEvent::DatagramRequest { id: passive, request, .. }) = it.event(1) else {
        panic!("a request")
    };
    assert_eq!(request.private, [5; 216]);
    it.hosts[1].answer(it.now, passive, answer(0x22)).unwrap();
    assert_eq!(it.sends(1), ["SIDR_REP"]);
    // It is lost, and said again when it is asked for again.
    it.lose(0);
    it.wait(0);
    it.sends(0);
    assert_eq!(it.receives(1), [Err(Discard::Duplicate)]);
    it.settle();
    let Some(CmEvent::DatagramReply { id, reply }) = it.event(0) else { panic!("a reply") };
    assert_eq!((id, reply.status, reply.qpn), (active, sidr::Status::OK, Qpn::new(0x22)));
    assert_eq!((reply.service, reply.q_key), (SERVICE, QKey(0x0123_4567)));
    assert!(it.hosts[0].is_empty());
    it.wait(1);
    assert_eq!(it.event(1), Some(CmEvent::Closed(passive)));
}

#[test]
fn a_datagram_service_that_nobody_offers_is_refused() {
    let mut it = Hosts::new();
    let ask = sidr::Req { service: SERVICE, ..sidr::Req::default() };
    it.hosts[0].ask(it.now, route(0, 1), ask).unwrap();
    it.settle_unclaimed();
    let Some(CmEvent::DatagramReply { reply, .. }) = it.event(0) else { panic!("a reply") };
    assert_eq!(reply.status, sidr::Status::UNSUPPORTED);
    it.hosts[0].ask(it.now, route(0, 1), ask).unwrap();
    for _ in 0..=CM_RETRIES {
        it.sends(0);
        it.lose(1);
        it.wait(0);
    }
    assert!(matches!(it.event(0), Some(CmEvent::Unreachable(_))));
}

#[test]
fn a_request_that_makes_no_sense_is_refused() {
    let mut it = Hosts::new();
    it.listen();
    let cases = [
        (req::Repr { mtu: 0, ..request(1) }, rej::Reason::INVALID_MTU),
        (req::Repr { transport: req::Transport::Rd, ..request(2) }, rej::Reason::INVALID_TRANSPORT),
        (
            req::Repr { transport: req::Transport::Extended, extended_transport: 2, ..request(3) },
            rej::Reason::INVALID_TRANSPORT,
        ),
    ];
    for (request, expected) in cases {
        it.hosts[0].connect(it.now, route(0, 1), request, 0).unwrap();
        it.settle();
        assert_eq!(reason(it.event(0)), expected);
    }
}

#[test]
fn numbers_are_not_used_again_at_once_and_come_to_an_end() {
    let mut few = Manager::new(CmConfig { ids: 16..20, guid: 1, seed: 2, mtu: Mtu::B4096 });
    let now = Time::ZERO;
    let connect = |few: &mut Manager| few.connect(now, route(0, 1), request(1), 0);
    let ids: Vec<_> = (0..4).map(|_| connect(&mut few).unwrap().0).collect();
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, vec![16, 17, 18, 19]);
    assert_eq!(connect(&mut few), Err(CmError::Exhausted));
    few.forget(now, CommId(ids[2]));
    few.forget(now, CommId(ids[1]));
    assert_eq!(connect(&mut few), Ok(CommId(ids[1])));
    assert_eq!(few.len(), 3);
}

#[test]
fn what_is_no_message_is_counted() {
    let mut it = Hosts::new();
    let truncated = it.hosts[0].handle(it.now, &arrival(1, 0), || None, &[1; 100]);
    assert_eq!(truncated, Err(Discard::Malformed(wire::Error::Length)));
    let rtu = brief::Rtu { local_id: 1, remote_id: 2, private: [0; brief::RTU_PRIVATE_LEN] };
    assert_eq!(it.deliver(0, &Mad::new(1, Message::Rtu(rtu))), Err(Discard::Stray));
    let stats = it.hosts[0].stats();
    assert_eq!((stats.cm_rx_malformed, stats.cm_rx_strays, stats.cm_rx_msgs), (1, 1, 1));
}
