//! The program's end: what its NIC sends and receives.
//!
//! Packets come sealed as for UDP, from port 4791 and with identifications from 0. A NIC counts identifications up,
//! and its source port says which queue pair a packet is of, so that equal-cost paths share the load. Both are
//! covered by the ICRC, which is linear: it is corrected, and not computed anew, so that a fault that was injected
//! before stays one.

use core::net::{IpAddr, Ipv4Addr};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use wire::icrc::{Correction, Datagram, Prefix};
use wire::roce::ICRC_LEN;
use wire::udp::ROCE_PORT;
use wire::{ipv4, udp};

use super::channel::Channel;
use super::{CREDIT_BYTES, Site, VERSION};
use crate::OpenError;
use crate::limits::{HOP_LIMIT, PACKET_MAX};
use crate::packet::Message;
use crate::packet::{InBuffer, Received};
use crate::shm::ring::{Broken, Consumer, Entry, Producer, State};
use crate::sys;

/// Bytes of the headers below RoCE.
const BELOW: usize = ipv4::HEADER_LEN + udp::HEADER_LEN;
const PRIORITIES: usize = 8;

/// See the module.
#[derive(Debug)]
pub(crate) struct Link {
    channel: Channel,
    address: Ipv4Addr,
    /// Priority by DSCP, as the NIC of the host has it.
    priorities: [u8; 64],
    sends: Mutex<Sends>,
    receives: Mutex<Consumer>,
    /// By priority: bytes that were put in the ring.
    sent: [AtomicU64; PRIORITIES],
    /// Packets that there was no room for.
    dropped: AtomicU64,
    /// The lab is gone, or does not keep to the rules.
    is_dead: AtomicBool,
}

#[derive(Debug)]
struct Sends {
    ring: Producer,
    /// The identification of the next packet.
    id: u16,
}

/// Bytes, by priority, that were built and have not been sent yet.
pub(crate) type Planned = [u64; PRIORITIES];

impl Link {
    /// Attaches the NIC with `slot` to the lab.
    pub(crate) fn attach(site: &Site, slot: u16) -> Result<Self, OpenError> {
        let doing = "sharing memory with the lab";
        let io = |error| OpenError::Io { doing, error };
        let nonce = sys::random().map_err(io)?;
        let (ring, file) = Producer::create(nonce).map_err(io)?;
        let channel = site.connect()?;
        let request = format!("attach {VERSION} {} {slot} {nonce}", site.host);
        let reply = site.ask(&channel, &request, Some(file.as_fd()))?;
        let no_sense = || site.unclear(&reply.text);
        let (address, digits) = reply.text.split_once(' ').ok_or_else(no_sense)?;
        let address = address.parse().map_err(|_| no_sense())?;
        let mut priorities = [0; 64];
        let digits: Vec<u8> = digits.bytes().map(|digit| digit.wrapping_sub(b'0')).collect();
        if digits.len() != priorities.len() || digits.iter().any(|digit| *digit > 7) {
            return Err(no_sense());
        }
        priorities.copy_from_slice(&digits);
        let file = reply.file.as_ref().ok_or_else(no_sense)?;
        let consumer = Consumer::open(file.as_fd(), nonce).map_err(io)?;
        if !consumer.take() {
            return Err(no_sense());
        }
        tracing::debug!(host = %site.host, slot, %address, "attached to the lab");
        Ok(Self {
            channel,
            address,
            priorities,
            sends: Mutex::new(Sends { ring, id: sys::random().map_err(io)? as u16 }),
            receives: Mutex::new(consumer),
            sent: Default::default(),
            dropped: AtomicU64::new(0),
            is_dead: AtomicBool::new(false),
        })
    }

    pub(crate) fn address(&self) -> IpAddr {
        self.address.into()
    }

    /// The priority of a traffic class.
    pub(crate) fn priority_of(&self, traffic_class: u8) -> u8 {
        self.priorities[usize::from(traffic_class >> 2)]
    }

    /// Tells the lab that this NIC answers for QP1 of its host.
    pub(crate) fn answer_for_qp1(&self) {
        self.tell(b"qp1");
    }

    /// Whether the NIC of the host has no room for another packet of `priority`, besides what is `planned`.
    pub(crate) fn is_full(&self, priority: u8, planned: &Planned) -> bool {
        let index = usize::from(priority) % PRIORITIES;
        let left = self.sends().ring.tally(index);
        let inside =
            (self.sent[index].load(Ordering::Relaxed) + planned[index]).saturating_sub(left);
        inside + PACKET_MAX as u64 > CREDIT_BYTES && !self.is_gone()
    }

    /// Whether nobody takes any more what is sent. A lab that lets us wait may be gone.
    fn is_gone(&self) -> bool {
        self.is_dead.load(Ordering::Relaxed) || {
            self.take_doorbells();
            self.is_dead.load(Ordering::Relaxed)
        }
    }

    /// Whoever watches goes to sleep, or has woken up. Returns whether there is something already.
    pub(crate) fn set_asleep(&self, asleep: bool) -> bool {
        let ring = self.receives();
        ring.set_asleep(asleep);
        if !asleep {
            drop(ring);
            self.take_doorbells();
            return false;
        }
        !ring.is_empty() && !self.is_dead.load(Ordering::Relaxed)
    }

    /// Takes what has rung, and notices whether the lab is gone.
    fn take_doorbells(&self) {
        let mut bytes = [0; 32];
        while !self.is_dead.load(Ordering::Relaxed) {
            match self.channel.receive_short(&mut bytes) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => self.dies(&error),
            }
        }
    }

    #[cold]
    fn dies(&self, why: &dyn core::fmt::Display) {
        if !self.is_dead.swap(true, Ordering::Relaxed) {
            tracing::warn!(%why, "the lab is gone: nothing arrives any more");
            if let Err(error) = self.channel.fall_silent() {
                tracing::debug!(%error, "a socket that is closed stays ready");
            }
        }
    }

    fn tell(&self, message: &[u8]) {
        match self.channel.send(message, None) {
            Ok(()) => {}
            // Doorbells enough wait for it.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => self.dies(&error),
        }
    }

    /// Sends messages, all of which count as taken. What there is no room for is dropped, and so is all if the lab
    /// is gone.
    pub(crate) fn send(&self, messages: &[Message<'_>]) -> usize {
        if self.is_dead.load(Ordering::Relaxed) {
            return messages.len();
        }
        let mut sends = self.sends();
        for message in messages {
            if let Err(Broken) = self.send_message(&mut sends, message) {
                self.dies(&"it has scribbled over a ring");
            }
        }
        let wakes = sends.ring.wakes() == State::Asleep;
        drop(sends);
        if wakes {
            self.tell(&[1]);
        }
        messages.len()
    }

    fn send_message(&self, sends: &mut Sends, message: &Message<'_>) -> Result<(), Broken> {
        let IpAddr::V4(destination) = message.destination.ip() else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        };
        let (source, tos) = (self.address, message.traffic_class);
        let ttl = if message.hop_limit == 0 { HOP_LIMIT } else { message.hop_limit };
        let priority = usize::from(self.priority_of(tos)) % PRIORITIES;
        let segment = message.segment.map_or(message.bytes.len(), usize::from).max(1);
        let source_port = entropy(message.bytes);
        let sealed = Datagram::between(source.into(), destination.into());
        let given = Datagram { source_port, ..sealed };
        let mut correction: Option<(usize, Correction)> = None;
        for (place, packet) in (0_u16..).zip(message.bytes.chunks(segment)) {
            let Some((body, icrc)) = packet.split_last_chunk::<ICRC_LEN>() else { continue };
            let length = BELOW + packet.len();
            if length > PACKET_MAX {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let id = sends.id;
            let (_, correction) = match &correction {
                Some(known) if known.0 == body.len() => known,
                _ => correction.insert((
                    body.len(),
                    Correction::new(
                        &Prefix::new(&sealed, body.len()),
                        &Prefix::new(&given, body.len()),
                        body.len(),
                    ),
                )),
            };
            let icrc = correction.apply(*icrc, place, id);
            let mut below = [0; BELOW];
            let (ip, datagram) = below.split_at_mut(ipv4::HEADER_LEN);
            let (total_len, protocol) = (length as u16, udp::PROTOCOL);
            let dont_fragment = true;
            ipv4::Repr { source, destination, tos, total_len, id, dont_fragment, ttl, protocol }
                .emit(ip);
            let udp_length = total_len - ipv4::HEADER_LEN as u16;
            let (destination_port, checksum) = (ROCE_PORT, 0);
            udp::Repr { source_port, destination_port, length: udp_length, checksum }
                .emit(datagram);
            let pushed = sends.ring.push_with(Entry::default(), length, |ring, guard| {
                let part = |at, length| ring.part(at, length).ok_or(rdma::MemoryFault);
                part(0, BELOW)?.store(guard, &below)?;
                part(BELOW, body.len())?.store(guard, body)?;
                part(BELOW + body.len(), ICRC_LEN)?.store(guard, &icrc)
            })?;
            if pushed.is_none() {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            sends.id = id.wrapping_add(1);
            self.sent[priority].fetch_add(length as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Takes the next packet; `None` if there is none.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> Option<InBuffer> {
        let mut ring = self.receives();
        while !self.is_dead.load(Ordering::Relaxed) {
            let room = buffer.get_mut(..PACKET_MAX)?;
            match ring.next(room, PACKET_MAX) {
                Ok(None) => return None,
                Err(Broken) => self.dies(&"it has scribbled over a ring"),
                Ok(Some(found)) => {
                    ring.release();
                    let length = usize::from(found.entry.length);
                    if let Some(read) = read(&room[..length]) {
                        return Some(read);
                    }
                }
            }
        }
        None
    }

    fn sends(&self) -> MutexGuard<'_, Sends> {
        self.sends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn receives(&self) -> MutexGuard<'_, Consumer> {
        self.receives.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

/// The source port of packets to a queue pair: all that it gets take one path.
fn entropy(bytes: &[u8]) -> u16 {
    let qpn =
        bytes.get(4..8).and_then(|word| word.first_chunk()).map_or(0, |w| u32::from_be_bytes(*w));
    transport::source_port((qpn & 0x00ff_ffff).wrapping_mul(0x9e37_79b1) >> 12)
}

/// What is in an IP packet, if it is a datagram.
fn read(packet: &[u8]) -> Option<InBuffer> {
    let ip = ipv4::Repr::parse(packet).ok()?;
    let datagram = udp::Packet::new_checked(packet.get(ipv4::HEADER_LEN..)?).ok()?;
    let length = datagram.payload().len();
    let received = Received {
        length,
        segment: length.max(1),
        source: ip.source.into(),
        source_port: datagram.source_port(),
        traffic_class: ip.tos,
        id: ip.id,
        by_loopback: false,
    };
    Some(InBuffer { received, destination: ip.destination.into(), place: BELOW..BELOW + length })
}
