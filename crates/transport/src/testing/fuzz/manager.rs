//! The body of the fuzz target `manager`: arbitrary datagrams into a connection manager, between the
//! calls of an application that does whatever the input says.
//!
//! What must hold is asserted: no panic, events only of conversations that there are, none after
//! the last of a conversation, no message that provokes more than two, and every conversation
//! ends once its application has forgotten it.

use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

use core::net::Ipv4Addr;

use rdma::{Gid, Mtu, Qpn, Span, Time};
use wire::cm::{Mad, Message, brief, rej};
use wire::mad;

use super::Input;
use crate::cm::{CmConfig, CmEvent, CommId, ListenerId, Manager};
use crate::{Arrival, Route};

/// The numbers that the manager's conversations may have: few, so that they are used again.
const IDS: core::ops::Range<u32> = 0x40_0000..0x40_0040;
const SERVICE: u64 = 0x0106_1c06;
/// The attributes of connection management.
const ATTRIBUTES: core::ops::RangeInclusive<u8> = 0x10..=0x18;
/// Messages that one message may provoke: an answer, and a word to somebody who is forgotten.
const ANSWERS_MAX: usize = 2;

struct World {
    now: Time,
    manager: Manager,
    listener: Option<ListenerId>,
    /// Conversations that the application knows of.
    live: BTreeSet<CommId>,
    /// What was sent last, of which answers are made.
    sent: Vec<Mad>,
}

/// Runs one input.
///
/// # Panics
/// If the manager breaks a promise.
pub fn manager(data: &[u8]) {
    let mut input = Input(data);
    let config = CmConfig { ids: IDS, guid: 1, seed: u64::from(input.byte()), mtu: Mtu::B2048 };
    let mut world = World {
        now: Time::from_ns(1_000_000),
        manager: Manager::new(config),
        listener: None,
        live: BTreeSet::new(),
        sent: Vec::new(),
    };
    for _ in 0..512 {
        if input.is_empty() {
            break;
        }
        world.step(&mut input);
        world.settle();
    }
    world.end();
}

fn host(number: u8) -> Gid {
    Ipv4Addr::new(10, 0, 0, number % 3).into()
}

fn route(to: u8) -> Route {
    Route::between(host(0), host(to))
}

/// A message of this kind with zeros in it.
fn blank(attribute: u8) -> Message {
    let mut bytes = Mad::new(
        0,
        Message::Rtu(brief::Rtu {
            local_id: 0,
            remote_id: 0,
            private: [0; brief::RTU_PRIVATE_LEN],
        }),
    )
    .to_bytes();
    bytes[17] = attribute;
    Mad::parse(&bytes).expect("zeros are a message").message
}

impl World {
    fn step(&mut self, input: &mut Input<'_>) {
        let (what, to) = (input.byte(), input.byte());
        match what % 16 {
            0 => {
                let bytes = input.bytes(usize::from(to));
                self.receive(to, &bytes);
            }
            1 => self.now += Span::from_ms(u64::from(to) * 100),
            2 => {
                if let Some(listener) = self.listener.take() {
                    self.manager.unlisten(listener).expect("it was made");
                } else {
                    let local = (to & 1 != 0).then(|| host(0));
                    self.listener = self.manager.listen(SERVICE, local, u32::from(to % 5)).ok();
                }
            }
            3 => {
                let Message::Req(mut request) = blank(0x10) else { unreachable!("it is a REQ") };
                request.qpn = Qpn::new(u32::from(input.byte()));
                request.path.ack_timeout = input.byte() & 31;
                if let Ok(id) = self.manager.connect(self.now, route(to), request, 0) {
                    self.begun(id);
                }
            }
            4 => {
                let Message::SidrReq(request) = blank(0x17) else { unreachable!("it is one") };
                if let Ok(id) = self.manager.ask(self.now, route(to), request) {
                    self.begun(id);
                }
            }
            5..=9 => self.call(what % 16, CommId(self.number(to))),
            10 => {
                // Something that was said comes back, or comes again.
                let Some(mad) = self.sent.get(usize::from(to)).copied() else { return };
                self.receive(input.byte(), &mad.to_bytes());
            }
            _ => {
                let bytes = self.message(input);
                self.receive(to, &bytes);
            }
        }
    }

    /// Calls of the application for a conversation, known or not. The manager decides what is
    /// allowed.
    fn call(&mut self, what: u8, id: CommId) {
        let now = self.now;
        match what {
            5 => {
                let Message::Rep(mut reply) = blank(0x13) else { unreachable!("it is a REP") };
                reply.qpn = Qpn::new(id.0 & 0xff);
                let _ = self.manager.accept(now, id, reply, 0);
            }
            6 => {
                let Message::SidrRep(reply) = blank(0x18) else { unreachable!("it is one") };
                if self.manager.answer(now, id, reply).is_ok() {
                    assert!(self.live.contains(&id), "{id:?} was not asked for");
                }
            }
            7 => {
                let private = [0; rej::PRIVATE_LEN];
                let _ = self.manager.reject(now, id, rej::Reason::CONSUMER, private);
            }
            8 => {
                let _ = self.manager.confirm(id, [0; brief::RTU_PRIVATE_LEN]);
                let _ = self.manager.disconnect(now, id, [0; brief::DREQ_PRIVATE_LEN]);
            }
            _ => {
                self.manager.forget(now, id);
                self.live.remove(&id);
            }
        }
    }

    fn begun(&mut self, id: CommId) {
        assert!(IDS.contains(&id.0) && self.live.insert(id), "{id:?} is in use");
    }

    /// A number that somebody may have.
    fn number(&self, which: u8) -> u32 {
        self.live.iter().nth(usize::from(which) % 8).map_or(u32::from(which % 4), |id| id.0)
    }

    /// A message of a known kind, about a conversation that there may be.
    fn message(&self, input: &mut Input<'_>) -> Vec<u8> {
        let kinds = ATTRIBUTES.end() - ATTRIBUTES.start() + 1;
        let attribute = ATTRIBUTES.start() + input.byte() % kinds;
        let mut bytes = Mad::new(u64::from(input.byte() % 4), blank(attribute)).to_bytes();
        let peers = u32::from(input.byte() % 4);
        let ours = self.number(input.byte());
        let data = &mut bytes[mad::HEADER_LEN..];
        let (first, second) = if attribute == 0x18 { (ours, peers) } else { (peers, ours) };
        data[..4].copy_from_slice(&first.to_be_bytes());
        match attribute {
            0x10 | 0x17 => data[8..16].copy_from_slice(&SERVICE.to_be_bytes()),
            0x18 => data[4] = second as u8,
            _ => data[4..8].copy_from_slice(&second.to_be_bytes()),
        }
        // A few more bytes as they come, anywhere behind the numbers.
        for _ in 0..input.byte() % 8 {
            let at = 8 + usize::from(input.byte()) % (mad::DATA_LEN - 8);
            data[at] = input.byte();
        }
        bytes.to_vec()
    }

    fn receive(&mut self, from: u8, bytes: &[u8]) {
        let arrival =
            Arrival { source: host(from), destination: host(0), traffic_class: 3, hop_limit: 64 };
        let before = self.manager.stats().cm_tx_msgs;
        // What is wrong with it is counted.
        let _ = self.manager.handle(self.now, &arrival, || None, bytes);
        self.flush();
        let answers = (self.manager.stats().cm_tx_msgs - before) as usize;
        assert!(answers <= ANSWERS_MAX, "one message has provoked {answers}");
    }

    /// Time, messages and events.
    fn settle(&mut self) {
        self.manager.handle_timeout(self.now);
        assert!(self.manager.poll_timeout().is_none_or(|deadline| deadline > self.now));
        self.flush();
        while let Some(event) = self.manager.poll_event() {
            let id = event.conversation();
            match event {
                CmEvent::Request { .. } | CmEvent::DatagramRequest { .. } => self.begun(id),
                CmEvent::Reply { .. } | CmEvent::Established(_) | CmEvent::Disconnected(_) => {
                    assert!(self.live.contains(&id), "an event of {id:?}, which is over");
                }
                CmEvent::Rejected { .. }
                | CmEvent::Unreachable(_)
                | CmEvent::Closed(_)
                | CmEvent::DatagramReply { .. } => {
                    assert!(self.live.remove(&id), "the end of {id:?}, which is over");
                }
            }
        }
    }

    fn flush(&mut self) {
        while let Some(outgoing) = self.manager.poll_transmit() {
            assert_eq!(Mad::parse(&outgoing.mad.to_bytes()), Ok(outgoing.mad));
            if self.sent.len() < 256 {
                self.sent.push(outgoing.mad);
            }
        }
    }

    /// The application goes, and so does everything else.
    fn end(&mut self) {
        self.manager.forget_all(self.now);
        self.live.clear();
        let mut waits: BTreeMap<Time, u32> = BTreeMap::new();
        while let Some(deadline) = self.manager.poll_timeout() {
            self.now = deadline;
            self.settle();
            let times = waits.entry(deadline).or_default();
            *times += 1;
            assert!(*times == 1, "time stands still");
        }
        assert!(self.manager.is_empty(), "{} conversations for ever", self.manager.len());
    }
}
