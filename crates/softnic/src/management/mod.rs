//! QP1: the messages of connection management, to and from the manager.
//!
//! ```text
//!   a REQ or SIDR_REQ for a service ─► whoever listens there (ports.rs)
//!   any other message ─► the slot in the upper bits of the conversation's number
//! ```
//!
//! QP1 belongs to no slot. The kernel brings a message about a conversation to its owner, and any
//! other to one NIC of the address that answers for QP1 ([`crate::host::steering`]). That one hands it
//! over as it does packets that the kernel has brought to the wrong NIC ([`crate::host::handover`]). A
//! message that is for nobody is handled by the receiver's own manager, which refuses it.
//!
//! A request for a service that nobody offers waits for a moment, because a client may connect before the
//! server listens: with hardware, the path takes so long to resolve that nobody notices.

use core::net::IpAddr;
use core::ops::Range;
use std::collections::VecDeque;
use std::io;

use rdma::{Mtu, Psn, QKey, Qpn, Time};
use transport::Arrival;
use transport::cm::{CommId, Manager, Outgoing};
use wire::cm::Mad;
use wire::{Opcode, deth, mad, roce};

use crate::attachment::membership::Membership;
use crate::counts::Counts;
use crate::engine::Engine;
use crate::host::ports::slot_of_conversation;
use crate::limits::{
    HANDOVER_INTERVAL, HANDOVER_PATIENCE, HANDOVERS_MAX, HANDOVERS_PER_NIC_MAX, UNCLAIMED_GRACE,
    UNCLAIMED_MAX,
};
use crate::packet::{Flow, Received};
use crate::path::udp_flow;

/// What is remembered between messages.
#[derive(Debug, Default)]
pub(crate) struct Management {
    /// Requests for services that nobody offers (yet), the oldest first.
    unclaimed: VecDeque<Waiting>,
    /// Messages for NICs whose mailboxes were full, by slot and the oldest first.
    crowded: VecDeque<(u16, Waiting)>,
    /// When those are offered again.
    next_offer: Time,
    /// The PSN of the next packet from QP1.
    next_psn: u32,
}

/// A packet to QP1.
pub(crate) struct GsiPacket<'a> {
    pub(crate) received: &'a Received,
    pub(crate) arrival: &'a Arrival,
    /// The whole packet.
    pub(crate) bytes: &'a [u8],
    /// Where in it the payload is.
    pub(crate) payload: Range<usize>,
}

impl GsiPacket<'_> {
    fn payload(&self) -> &[u8] {
        self.bytes.get(self.payload.clone()).unwrap_or_default()
    }
}

/// A message that waits for somebody.
#[derive(Debug)]
struct Waiting {
    until: Time,
    received: Received,
    arrival: Arrival,
    bytes: Vec<u8>,
    /// Where the payload lies in it.
    payload: Range<usize>,
}

impl Waiting {
    fn new(until: Time, packet: &GsiPacket<'_>) -> Self {
        let GsiPacket { received, arrival, bytes, payload } = packet;
        let (received, arrival, bytes) = (**received, **arrival, bytes.to_vec());
        Self { until, received, arrival, bytes, payload: payload.clone() }
    }

    fn packet(&self) -> GsiPacket<'_> {
        let Self { received, arrival, bytes, payload, .. } = self;
        GsiPacket { received, arrival, bytes, payload: payload.clone() }
    }
}

/// A message that has been built, which has so many bytes without its ICRC.
pub(crate) struct Built {
    pub(crate) flow: Flow,
    pub(crate) length: usize,
}

/// Whose a message is.
enum Owner {
    Ours,
    Slot(u16),
    /// Nobody's: it asks for a service that nobody offers.
    Nobody,
    /// Nobody can tell at the moment. The sender will repeat it.
    Unknown,
}

impl Management {
    /// Takes a packet to QP1. One that another NIC has handed over is for us.
    pub(crate) fn receive(
        &mut self,
        header: &roce::Repr,
        packet: &GsiPacket<'_>,
        is_handed_over: bool,
        membership: &mut Membership,
        engine: &mut Engine<'_>,
    ) {
        let is_management = header.bth.opcode == Opcode::UD_SEND_ONLY
            && header.deth.is_some_and(|deth| deth.q_key == QKey::GSI);
        if !is_management {
            engine.counts.rx_gsi_dropped += 1;
            return;
        }
        let destination = packet.arrival.destination.ip();
        // What was handed over has been looked up already; but a listener may have gone since, and
        // another be about to come.
        let owner = match Mad::parse(packet.payload()) {
            Ok(mad) if !is_handed_over => owner(&mad, destination, membership, engine.manager),
            Ok(mad) if is_unclaimed(&mad, destination, engine.manager) => Owner::Nobody,
            _ => Owner::Ours,
        };
        if matches!(owner, Owner::Nobody) && self.unclaimed.len() < UNCLAIMED_MAX {
            self.unclaimed.push_back(Waiting::new(engine.now + UNCLAIMED_GRACE, packet));
            return;
        }
        self.bring(owner, packet, membership, engine);
    }

    /// Looks again for who offers the services of requests that have waited long enough, and offers again
    /// what mailboxes had no room for.
    pub(crate) fn handle_timeout(&mut self, membership: &mut Membership, engine: &mut Engine<'_>) {
        while self.unclaimed.front().is_some_and(|waiting| waiting.until <= engine.now)
            && let Some(waiting) = self.unclaimed.pop_front()
        {
            let packet = waiting.packet();
            let owner = match Mad::parse(packet.payload()) {
                Ok(mad) => owner(&mad, packet.arrival.destination.ip(), membership, engine.manager),
                Err(_) => Owner::Ours,
            };
            self.bring(owner, &packet, membership, engine);
        }
        if !self.crowded.is_empty() && self.next_offer <= engine.now {
            self.next_offer = engine.now + HANDOVER_INTERVAL;
            let mut full = Vec::new();
            self.crowded.retain(|(slot, waiting)| {
                let is_full = full.contains(slot)
                    || hand_over(*slot, &waiting.packet(), membership, engine.counts).is_err();
                if is_full {
                    full.push(*slot);
                }
                let is_late = is_full && waiting.until <= engine.now;
                engine.counts.rx_handover_dropped += u64::from(is_late);
                is_full && !is_late
            });
        }
    }

    /// When [`Management::handle_timeout`] is to be called.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<Time> {
        let unclaimed = self.unclaimed.front().map(|waiting| waiting.until);
        let crowded = (!self.crowded.is_empty()).then_some(self.next_offer);
        unclaimed.into_iter().chain(crowded).min()
    }

    /// Brings a message to its owner.
    fn bring(
        &mut self,
        owner: Owner,
        packet: &GsiPacket<'_>,
        membership: &mut Membership,
        engine: &mut Engine<'_>,
    ) {
        let Engine { now, manager, counts, .. } = engine;
        match owner {
            Owner::Slot(slot) => {
                // Its mailbox is small, and may be full for a moment. Nothing overtakes what waits.
                let waiting = self.crowded.iter().filter(|(other, _)| *other == slot).count();
                if waiting == 0 && hand_over(slot, packet, membership, counts).is_ok() {
                    return;
                }
                if waiting >= HANDOVERS_PER_NIC_MAX || self.crowded.len() >= HANDOVERS_MAX {
                    counts.rx_handover_dropped += 1;
                    return;
                }
                if self.crowded.is_empty() {
                    self.next_offer = *now + HANDOVER_INTERVAL;
                }
                self.crowded.push_back((slot, Waiting::new(*now + HANDOVER_PATIENCE, packet)));
            }
            Owner::Ours | Owner::Nobody => {
                let source = packet.arrival.source;
                let path = || membership.path_bytes(source, *now).map(Mtu::fitting);
                if let Err(cause) = manager.handle(*now, packet.arrival, path, packet.payload()) {
                    let source = packet.received.source;
                    tracing::debug!(%source, ?cause, "a message is of no use");
                }
            }
            Owner::Unknown => counts.rx_handover_dropped += 1,
        }
    }

    /// Builds the packet of what the manager has ready next, if anything, in `room`.
    pub(crate) fn build(
        &mut self,
        manager: &mut Manager,
        membership: &Membership,
        room: &mut [u8],
        counts: &mut Counts,
    ) -> Option<Built> {
        loop {
            let Outgoing { route, mad } = manager.poll_transmit()?;
            // The kernel steers by what the packet is about.
            let id = mad.message.remote_id();
            let slot = id.and_then(|id| slot_of_conversation(CommId(id))).unwrap_or(0);
            let Some(flow) = udp_flow(membership, &route, slot) else {
                counts.tx_no_source += 1;
                continue;
            };
            tracing::trace!(%mad, to = %route.destination, "sent");
            let header = roce::Repr {
                deth: Some(deth::Repr { q_key: QKey::GSI, source: Qpn::GSI }),
                ..roce::Repr::new(Opcode::UD_SEND_ONLY, Qpn::GSI, Psn::new(self.next_psn))
            };
            self.next_psn = self.next_psn.wrapping_add(1);
            let at = header.emit(room);
            room[at..at + mad::LEN].copy_from_slice(&mad.to_bytes());
            return Some(Built { flow, length: at + mad::LEN });
        }
    }
}

/// Whether it asks for a service that this manager does not offer.
fn is_unclaimed(mad: &Mad, destination: IpAddr, manager: &Manager) -> bool {
    let listens = |service| manager.listens(service, destination.into());
    mad.message.service().is_some_and(|service| !listens(service))
}

fn owner(mad: &Mad, destination: IpAddr, membership: &Membership, manager: &Manager) -> Owner {
    let own = membership.registry.slot();
    let slot = match (mad.message.service(), mad.message.remote_id()) {
        (Some(service), _) if manager.listens(service, destination.into()) => None,
        (Some(service), _) => match membership.listener(destination, service) {
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

/// Gives a message to the owner of `slot`.
///
/// # Errors
/// Its mailbox is full.
fn hand_over(
    slot: u16,
    packet: &GsiPacket<'_>,
    membership: &mut Membership,
    counts: &mut Counts,
) -> io::Result<()> {
    let &GsiPacket { received, arrival, bytes, .. } = packet;
    let single = Received { length: bytes.len(), segment: bytes.len(), ..*received };
    let destination = arrival.destination.ip();
    membership.hand_over(slot, &single, destination, bytes, counts).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::ports::{PortChange, PortError};
    use crate::{DeviceInfo, Options, ProcessMemory};
    use rdma::{Gid, Mtu, Span};
    use transport::cm::{CmConfig, CmEvent};
    use transport::{Config, Endpoint};
    use wire::cm::ip::PortSpace;
    use wire::cm::{Message, sidr};

    const PORT: u16 = 7174;
    const SPACE: PortSpace = PortSpace::UDP;

    /// A NIC, its manager, and a clock that stands still.
    struct Host {
        management: Management,
        membership: Membership,
        endpoint: Endpoint,
        manager: Manager,
        memory: ProcessMemory,
        counts: Counts,
        address: IpAddr,
        now: Time,
    }

    impl Host {
        fn open(address: &str) -> Self {
            let device = DeviceInfo::find(&format!("lo/{address}"), 0).unwrap();
            let mut membership = Membership::claim(None).unwrap();
            membership.join_all(&device, &Options::default()).unwrap();
            let first = u32::from(membership.registry.slot()) << crate::limits::COMM_ID_SHIFT;
            let manager = Manager::new(CmConfig {
                ids: first..first + 1024,
                guid: 1,
                seed: 1,
                mtu: Mtu::B4096,
            });
            let address = address.parse().unwrap();
            let now = Time::ZERO + Span::from_ms(1_000);
            let (management, counts) = (Management::default(), Counts::default());
            let endpoint = Endpoint::new(Config::default());
            // SAFETY: nothing is registered, so the engine touches no memory.
            let memory = unsafe { ProcessMemory::new(&mut crate::fork::Nics::lock()) };
            Self { management, membership, endpoint, manager, memory, counts, address, now }
        }

        /// The parts of it, at its time.
        fn parts(&mut self) -> (&mut Management, &mut Membership, Engine<'_>) {
            let Self { management, membership, endpoint, manager, memory, counts, now, .. } = self;
            (management, membership, Engine { now: *now, endpoint, manager, memory, counts })
        }

        /// A port whose requests the table says are ours, whether the manager knows or not.
        fn announce(&self) {
            for change in [PortChange::Bind { shared: false }, PortChange::Listen] {
                while let Err(error) =
                    self.membership.change_port(self.address, (SPACE, PORT), change)
                {
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
                id: 0,
                by_loopback: false,
            };
            let payload = header.header_len()..bytes.len();
            let bytes = &bytes[..];
            let packet = GsiPacket { received: &received, arrival: &arrival, bytes, payload };
            let (management, membership, mut engine) = self.parts();
            management.receive(&header, &packet, is_handed_over, membership, &mut engine);
        }

        /// The time of those that wait is over.
        fn wait(&mut self) {
            self.now = self.management.deadline().unwrap();
            self.claim();
        }

        fn claim(&mut self) {
            let (management, membership, mut engine) = self.parts();
            management.handle_timeout(membership, &mut engine);
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
            self.membership.leave();
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
        assert_eq!(host.management.deadline(), None);
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
        assert_eq!(host.management.deadline(), None);
    }

    #[test]
    fn a_request_that_nobody_claims_in_time_is_refused() {
        let mut host = Host::open("127.0.50.3");
        for is_handed_over in [false, true] {
            host.is_asked(is_handed_over);
            assert_eq!(host.management.deadline(), Some(host.now + UNCLAIMED_GRACE));
            host.claim();
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

    /// What arrives in the mailbox of `host`.
    fn takes(host: &Host) -> usize {
        let entrance = host.membership.handover.as_ref().unwrap().entrance();
        let mut buffer = vec![0; crate::host::handover::MESSAGE_MAX];
        core::iter::from_fn(|| entrance.receive(&mut buffer).map(|_| ())).count()
    }

    #[test]
    fn a_listener_that_takes_nothing_is_not_waited_for() {
        let (mut host, stopped) = (Host::open("127.0.50.5"), Host::open("127.0.50.5"));
        stopped.announce();
        let sleepless = crate::sys::Sleepless::begin();
        for _ in 0..1_000 {
            host.is_asked(false);
        }
        let Counts { rx_handed_over: taken, rx_handover_dropped: dropped, .. } = host.counts;
        assert!(taken > 0, "its mailbox has room for some");
        assert_eq!(taken + dropped + HANDOVERS_PER_NIC_MAX as u64, 1_000);
        while host.management.deadline().is_some() {
            host.wait();
        }
        assert_eq!(host.counts.rx_handed_over, taken);
        assert_eq!(host.counts.rx_handover_dropped, 1_000 - taken);
        drop(sleepless);
        assert_eq!(takes(&stopped) as u64, taken);
    }

    #[test]
    fn a_message_that_finds_no_room_is_handed_over_when_there_is_some() {
        let (mut host, busy) = (Host::open("127.0.50.6"), Host::open("127.0.50.6"));
        busy.announce();
        while host.management.deadline().is_none() {
            host.is_asked(false);
        }
        let taken = host.counts.rx_handed_over;
        // What comes now does not overtake it.
        assert_eq!(takes(&busy) as u64, taken);
        host.is_asked(false);
        assert_eq!(takes(&busy), 0);
        host.wait();
        assert_eq!((takes(&busy), host.management.deadline()), (2, None));
        assert_eq!((host.counts.rx_handed_over, host.counts.rx_handover_dropped), (taken + 2, 0));
    }
}
