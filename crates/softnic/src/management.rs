//! QP1: the messages of connection management, to and from the manager.
//!
//! ```text
//!   a REQ or SIDR_REQ for a service ─► whoever listens there (ports.rs)
//!   any other message ─► the slot in the upper bits of the conversation's number
//! ```
//!
//! QP1 belongs to no slot. The kernel brings a message about a conversation to its owner, and any
//! other to one NIC of the address that answers for QP1 ([`crate::steering`]), which passes it on by
//! the way of packets that were received by the wrong one. What nobody is to have is the receiver's
//! own, whose manager then refuses it.
//!
//! A request for a service that nobody offers waits for a moment. Programs that agree by another way
//! when to connect do not wait until the server listens: with hardware, to find the way takes longer
//! than to listen.

use core::net::IpAddr;
use std::io;

use rdma::{Psn, QKey, Qpn, Time};
use transport::Arrival;
use transport::cm::{CommId, Manager, Outgoing};
use wire::cm::Mad;
use wire::{Opcode, deth, mad, roce};

use crate::clock::{retry, would_block};
use crate::counts::Counts;
use crate::limits::{HANDOVER_PAUSE, HANDOVER_TRIES, UNCLAIMED_GRACE, UNCLAIMED_MAX};
use crate::links::Links;
use crate::ports::slot_of_conversation;
use crate::socket::Received;
use crate::train::{Trains, Way};

/// Whose a message is.
enum Owner {
    Ours,
    Slot(u16),
    /// Nobody's: it asks for a service that nobody offers.
    Nobody,
    /// Nobody can tell at the moment. The sender will repeat it.
    Unknown,
}

/// A request that waits for somebody who offers its service.
#[derive(Debug)]
pub(crate) struct Waiting {
    until: Time,
    received: Received,
    arrival: Arrival,
    /// The whole packet, and where its payload lies in it.
    bytes: Vec<u8>,
    payload: core::ops::Range<usize>,
}

/// Whether it asks for a service that this manager does not offer.
fn is_unclaimed(mad: &Mad, destination: IpAddr, manager: &Manager) -> bool {
    let listens = |service| manager.listens(service, destination.into());
    mad.message.service().is_some_and(|service| !listens(service))
}

impl Links {
    /// A packet to QP1. `bytes` are the whole of it, and `payload` what is behind its headers.
    pub(crate) fn manage_packet(
        &mut self,
        (received, arrival, is_handed_over): (&Received, &Arrival, bool),
        (header, payload, bytes): (&roce::Repr, &[u8], &[u8]),
        (manager, counts): (&mut Manager, &mut Counts),
        now: Time,
    ) {
        let is_management = header.bth.opcode == Opcode::UD_SEND_ONLY
            && header.deth.is_some_and(|deth| deth.q_key == QKey::GSI);
        if !is_management {
            counts.rx_gsi_dropped += 1;
            return;
        }
        let destination = arrival.destination.ip();
        // What was handed over has been looked up already; but a listener may have gone since, and
        // another be about to come.
        let owner = match Mad::parse(payload) {
            Ok(mad) if !is_handed_over => self.owner(destination, &mad, manager),
            Ok(mad) if is_unclaimed(&mad, destination, manager) => Owner::Nobody,
            _ => Owner::Ours,
        };
        let asked = (received, arrival, bytes);
        if matches!(owner, Owner::Nobody) && self.unclaimed.len() < UNCLAIMED_MAX {
            let until = now + UNCLAIMED_GRACE;
            let start = header.header_len();
            let payload = start..start + payload.len();
            let (received, arrival, bytes) = (*received, *arrival, bytes.to_vec());
            self.unclaimed.push_back(Waiting { until, received, arrival, bytes, payload });
            return;
        }
        self.bring(owner, asked, payload, (manager, counts), now);
    }

    /// Looks again for who offers the services of requests that have waited long enough.
    pub(crate) fn claim(&mut self, manager: &mut Manager, counts: &mut Counts, now: Time) {
        while self.unclaimed.front().is_some_and(|waiting| waiting.until <= now)
            && let Some(Waiting { received, arrival, bytes, payload, .. }) =
                self.unclaimed.pop_front()
        {
            let payload = &bytes[payload];
            let owner = match Mad::parse(payload) {
                Ok(mad) => self.owner(arrival.destination.ip(), &mad, manager),
                Err(_) => Owner::Ours,
            };
            self.bring(owner, (&received, &arrival, &bytes), payload, (manager, counts), now);
        }
    }

    /// When [`Links::claim`] is to be called.
    pub(crate) fn claim_deadline(&self) -> Option<Time> {
        self.unclaimed.front().map(|waiting| waiting.until)
    }

    fn bring(
        &mut self,
        owner: Owner,
        (received, arrival, bytes): (&Received, &Arrival, &[u8]),
        payload: &[u8],
        (manager, counts): (&mut Manager, &mut Counts),
        now: Time,
    ) {
        let destination = arrival.destination.ip();
        match owner {
            Owner::Slot(slot) => {
                let single = Received { length: bytes.len(), segment: bytes.len(), ..*received };
                match self.hand_over(slot, &single, destination, bytes) {
                    Ok(true) => counts.rx_handed_over += 1,
                    Ok(false) => counts.rx_unknown_slot += 1,
                    Err(error) => {
                        tracing::debug!(slot, %error, "not handed over");
                        counts.rx_handover_dropped += 1;
                    }
                }
            }
            Owner::Ours | Owner::Nobody => {
                if let Err(cause) = manager.handle(now, arrival, payload) {
                    tracing::debug!(source = %received.source, ?cause, "a message is of no use");
                }
            }
            Owner::Unknown => counts.rx_handover_dropped += 1,
        }
    }

    /// Gives a message to the owner of `slot`, whose queue is short and may be full for a moment.
    fn hand_over(
        &mut self,
        slot: u16,
        received: &Received,
        destination: IpAddr,
        bytes: &[u8],
    ) -> io::Result<bool> {
        retry((HANDOVER_TRIES, HANDOVER_PAUSE), would_block, || {
            self.handover.send(slot, received, destination, bytes)
        })
    }

    fn owner(&self, destination: IpAddr, mad: &Mad, manager: &Manager) -> Owner {
        let own = self.registry.slot();
        let slot = match (mad.message.service(), mad.message.remote_id()) {
            (Some(service), _) if manager.listens(service, destination.into()) => None,
            (Some(service), _) => match self.listener(destination, service) {
                Ok(None) => return Owner::Nobody,
                Ok(slot) => slot,
                Err(error) => {
                    tracing::debug!(%error, "the table of ports cannot be read");
                    return Owner::Unknown;
                }
            },
            (None, id) => id.and_then(|id| slot_of_conversation(CommId(id))),
        };
        match slot {
            Some(slot) if slot != own => Owner::Slot(slot),
            // The table is written a moment before, or after, the manager knows.
            _ if is_unclaimed(mad, destination, manager) => Owner::Nobody,
            _ => Owner::Ours,
        }
    }

    /// Builds the packets of what the manager has ready.
    pub(crate) fn build_messages(
        &mut self,
        trains: &mut Trains,
        manager: &mut Manager,
        counts: &mut Counts,
    ) {
        while trains.has_room()
            && let Some(Outgoing { route, mad }) = manager.poll_transmit()
        {
            let Some(port) = self.port_of(route.source, route.destination) else {
                counts.tx_no_source += 1;
                continue;
            };
            tracing::trace!(%mad, to = %route.destination, "sent");
            let header = roce::Repr {
                deth: Some(deth::Repr { q_key: QKey::GSI, source: Qpn::GSI }),
                ..roce::Repr::new(Opcode::UD_SEND_ONLY, Qpn::GSI, Psn::new(self.next_gsi_psn))
            };
            self.next_gsi_psn = self.next_gsi_psn.wrapping_add(1);
            let id = mad.message.remote_id();
            let room = trains.room();
            let at = header.emit(room);
            room[at..at + mad::LEN].copy_from_slice(&mad.to_bytes());
            let way = Way {
                port,
                by_ring: false,
                source: route.source,
                destination: route.destination,
                // The kernel steers by what the packet is about.
                slot: id.and_then(|id| slot_of_conversation(CommId(id))).unwrap_or(0),
                traffic_class: route.traffic_class,
                hop_limit: route.hop_limit,
            };
            trains.commit(&way, at + mad::LEN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::{PortChange, PortError};
    use crate::{DeviceInfo, Options};
    use rdma::{Gid, Span};
    use transport::cm::{CmConfig, CmEvent};
    use wire::cm::ip::PortSpace;
    use wire::cm::{Message, sidr};

    const PORT: u16 = 7174;
    const SPACE: PortSpace = PortSpace::UDP;

    /// A NIC, its manager, and a clock that stands still.
    struct Host {
        links: Links,
        manager: Manager,
        counts: Counts,
        address: IpAddr,
        now: Time,
    }

    impl Host {
        fn open(address: &str) -> Self {
            let device = DeviceInfo::find(&format!("lo/{address}"), 0).unwrap();
            let links = Links::open(&device, &Options::default()).unwrap();
            let first = u32::from(links.registry.slot()) << crate::limits::COMM_ID_SHIFT;
            let manager = Manager::new(CmConfig { ids: first..first + 1024, guid: 1, seed: 1 });
            let address = address.parse().unwrap();
            let now = Time::ZERO + Span::from_ms(1_000);
            Self { links, manager, counts: Counts::default(), address, now }
        }

        /// A port whose requests the table says are ours, whether the manager knows or not.
        fn announce(&self) {
            for change in [PortChange::Bind { shared: false }, PortChange::Listen] {
                while let Err(error) = self.links.change_port(self.address, (SPACE, PORT), change) {
                    // Another test is at it, and may have to wait for a processor.
                    let is_busy = matches!(&error, PortError::Io(error)
                        if error.kind() == io::ErrorKind::WouldBlock);
                    assert!(is_busy, "{error}");
                }
            }
        }

        fn listen(&mut self) {
            let gid = Gid::from(self.address);
            self.manager.listen(SPACE.service(PORT), Some(gid), 8).unwrap();
        }

        /// A request for the port arrives, perhaps handed over by another NIC.
        fn is_asked(&mut self, is_handed_over: bool) {
            let service = SPACE.service(PORT);
            let request = sidr::Req { service, ..sidr::Req::default() };
            let payload = Mad::new(1, Message::SidrReq(request)).to_bytes();
            let header = roce::Repr {
                deth: Some(deth::Repr { q_key: QKey::GSI, source: Qpn::GSI }),
                ..roce::Repr::new(Opcode::UD_SEND_ONLY, Qpn::GSI, Psn::new(0))
            };
            let mut bytes = vec![0; header.header_len()];
            header.emit(&mut bytes);
            bytes.extend(payload);
            let gid = Gid::from(self.address);
            let arrival =
                Arrival { source: gid, destination: gid, traffic_class: 0, hop_limit: 64 };
            let received = Received {
                length: bytes.len(),
                segment: bytes.len(),
                source: self.address,
                source_port: wire::udp::ROCE_PORT,
                traffic_class: 0,
            };
            let from = (&received, &arrival, is_handed_over);
            let what = (&header, &payload[..], &bytes[..]);
            self.links.manage_packet(from, what, (&mut self.manager, &mut self.counts), self.now);
        }

        /// The time of those that wait is over.
        fn wait(&mut self) {
            self.now = self.links.claim_deadline().unwrap();
            self.links.claim(&mut self.manager, &mut self.counts, self.now);
        }

        fn was_told(&mut self) -> bool {
            matches!(self.manager.poll_event(), Some(CmEvent::DatagramRequest { .. }))
        }

        /// The status of what is answered.
        fn answers(&mut self) -> Option<sidr::Status> {
            match self.manager.poll_transmit()?.mad.message {
                Message::SidrRep(reply) => Some(reply.status),
                other => panic!("{other:?}"),
            }
        }
    }

    impl Drop for Host {
        fn drop(&mut self) {
            self.links.leave();
        }
    }

    #[test]
    fn a_request_that_is_ours_by_the_table_waits_until_the_manager_knows() {
        let mut host = Host::open("127.0.50.1");
        host.announce();
        host.is_asked(false);
        assert!(!host.was_told() && host.answers().is_none(), "it waits");
        host.listen();
        host.wait();
        assert!(host.was_told());
        assert_eq!(host.links.claim_deadline(), None);
    }

    #[test]
    fn a_request_that_was_handed_over_waits_for_the_next_listener() {
        let mut host = Host::open("127.0.50.2");
        host.is_asked(true);
        assert!(!host.was_told() && host.answers().is_none(), "it waits");
        host.announce();
        host.listen();
        host.wait();
        assert!(host.was_told());
        // Where somebody listens, nobody waits.
        host.is_asked(true);
        assert_eq!(host.links.claim_deadline(), None);
    }

    #[test]
    fn a_request_that_nobody_claims_in_time_is_refused() {
        let mut host = Host::open("127.0.50.3");
        for is_handed_over in [false, true] {
            host.is_asked(is_handed_over);
            assert_eq!(host.links.claim_deadline(), Some(host.now + UNCLAIMED_GRACE));
            host.links.claim(&mut host.manager, &mut host.counts, host.now);
            assert_eq!(host.answers(), None, "not before its time");
            host.wait();
            assert_eq!(host.answers(), Some(sidr::Status::UNSUPPORTED));
        }
    }

    #[test]
    fn no_more_than_so_many_requests_wait() {
        let mut host = Host::open("127.0.50.4");
        for _ in 0..UNCLAIMED_MAX {
            host.is_asked(true);
        }
        assert_eq!(host.answers(), None);
        host.is_asked(true);
        assert_eq!(host.answers(), Some(sidr::Status::UNSUPPORTED));
    }
}
