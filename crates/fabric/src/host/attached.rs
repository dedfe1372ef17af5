//! Programs outside that are attached to a host: what they send and get are whole packets, with all bytes.
//!
//! ```text
//!   outside ─ send ─► queue of the priority ─ not paused ─► port ─► ...
//!   outside ◄─ take ─ receive buffer, XOFF above, XON below ◄────── port ◄─ ...
//! ```
//!
//! The engine of such a packet is elsewhere, so this is a NIC without one: it queues, obeys pauses, and pauses its
//! switch when nobody takes what has come. In the fabric the packet is thirty-two bytes like any other; its own
//! bytes lie beside it in the pool, and get what switches have changed when it leaves
//! ([`Pool::whole`](crate::packet::Pool::whole)).
//!
//! **Invariant:** a packet says that it is from the host that sends it, and is for a host that there is.

use std::collections::VecDeque;

use wire::roce::ICRC_LEN;
use wire::udp::{self, ROCE_PORT};
use wire::{ipv4, roce};

use super::Host;
use crate::address::{address_of, host_of};
use crate::counters::{Drop, Traffic};
use crate::links::Links;
use crate::packet::Draft;
use crate::pfc::PRIORITIES;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Attached {
    /// By priority: what waits to leave, and whose it is.
    queues: [VecDeque<(u32, u32)>; PRIORITIES],
    /// The priority whose turn it is.
    turn: usize,
    /// What has left since that was last asked.
    left: Vec<Left>,
    /// What has come, and lies in the receive buffer.
    arrived: VecDeque<u32>,
    /// What its port has sent and received, and what its receive buffer had no room for.
    tx: Traffic,
    rx: Traffic,
    discards: Traffic,
}

/// A packet has left the NIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Left {
    /// Whose it was, as [`Network::send_frame`](crate::Network::send_frame) was told.
    pub owner: u32,
    /// Its priority.
    pub priority: u8,
    /// Bytes of the IP packet.
    pub bytes: u32,
}

/// Why a packet of a program was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// It is no RoCE packet over UDP and IPv4, or an inconsistent one.
    Malformed(wire::Error),
    /// It says that it is from another host.
    Source,
    /// It is for no host of the network, or for the one that it is from.
    Destination,
    /// The host has a model, or is not there.
    Host,
}

impl From<wire::Error> for Refused {
    fn from(error: wire::Error) -> Self {
        Self::Malformed(error)
    }
}

/// What the network is to know of a packet of a program.
pub(crate) struct Parsed {
    pub(crate) destination: u32,
    pub(crate) source_port: u16,
    ip: ipv4::Repr,
    header: roce::Repr,
    payload: u32,
}

/// Reads a packet that host `source` of `hosts` is to send.
pub(crate) fn parse(bytes: &[u8], source: u32, hosts: u32) -> Result<Parsed, Refused> {
    let ip = ipv4::Repr::parse(bytes)?;
    if usize::from(ip.total_len) != bytes.len() || ip.protocol != udp::PROTOCOL {
        return Err(Refused::Malformed(wire::Error::Length));
    }
    let datagram = udp::Packet::new_checked(&bytes[ipv4::HEADER_LEN..])?;
    if datagram.destination_port() != ROCE_PORT {
        return Err(Refused::Malformed(wire::Error::Protocol));
    }
    let covered = datagram.payload().len().checked_sub(ICRC_LEN).ok_or(wire::Error::Truncated)?;
    let (header, payload) = roce::Repr::parse(&datagram.payload()[..covered])?;
    if ip.source != address_of(source) {
        return Err(Refused::Source);
    }
    let destination = host_of(ip.destination).filter(|&host| host < hosts && host != source);
    let destination = destination.ok_or(Refused::Destination)?;
    let payload = payload.len() as u32;
    Ok(Parsed { destination, source_port: datagram.source_port(), ip, header, payload })
}

impl Host {
    /// Attaches it to programs outside. Returns whether that can be: not if it has a model.
    pub(crate) fn attach(&mut self) -> bool {
        let can = self.stages.is_none() && self.tenants.is_none();
        if can {
            self.attached.get_or_insert_default();
        }
        can
    }

    /// Sends a packet of a program when its turn comes.
    pub(crate) fn send_frame(
        &mut self,
        links: &mut Links,
        bytes: &[u8],
        (parsed, tuple): (&Parsed, u32),
        owner: u32,
    ) {
        let Parsed { ip, header, payload, .. } = parsed;
        let priority = self.config.priority_of(ip.tos >> 2);
        let draft = Draft {
            header,
            payload: *payload,
            tuple,
            traffic_class: ip.tos,
            ttl: ip.ttl,
            ip_id: ip.id,
            pcp: self.config.tagged.then_some(priority),
        };
        let Some(attached) = &mut self.attached else { return };
        links.created += 1;
        let packet = links.pool.roce(&draft);
        links.pool.carry_whole(packet, bytes);
        attached.queues[usize::from(priority)].push_back((packet, owner));
        if links.at(self.port).alive {
            self.kick(links);
        }
    }

    /// The next packet of a program, of the priorities that are not `paused`, by turns.
    pub(super) fn take_frame(&mut self, links: &Links, paused: u8) -> Option<u32> {
        let attached = self.attached.as_mut()?;
        for step in 0..PRIORITIES {
            let priority = (attached.turn + step) % PRIORITIES;
            if paused >> priority & 1 != 0 {
                continue;
            }
            if let Some((packet, owner)) = attached.queues[priority].pop_front() {
                attached.turn = priority + 1;
                let bytes = links.pool.ip_bytes(packet);
                attached.tx.add(priority as u8, links.pool.get(packet).bytes.into());
                attached.left.push(Left { owner, priority: priority as u8, bytes });
                return Some(packet);
            }
        }
        None
    }

    /// What has left since this was last asked.
    pub(crate) fn left(&mut self) -> impl Iterator<Item = Left> {
        self.attached.iter_mut().flat_map(|attached| attached.left.drain(..))
    }

    /// What programs have had sent, what has come for them, and what of it there was no room for.
    pub(crate) fn traffic(&self) -> Option<[Traffic; 3]> {
        self.attached.as_ref().map(|of| [of.tx, of.rx, of.discards])
    }

    /// Bytes by priority that wait for the port, or for the end of a pause.
    pub(crate) fn waiting(&self, links: &Links) -> [u64; PRIORITIES] {
        let Some(attached) = &self.attached else { return [0; PRIORITIES] };
        let bytes = |queue: &VecDeque<(u32, u32)>| {
            queue.iter().map(|&(packet, _)| u64::from(links.pool.ip_bytes(packet))).sum()
        };
        core::array::from_fn(|priority| bytes(&attached.queues[priority]))
    }

    /// Puts a packet of a program into the receive buffer.
    #[cold]
    #[inline(never)]
    pub(super) fn keep_frame(&mut self, links: &mut Links, packet: u32) {
        let of = links.pool.get(packet);
        let (bytes, priority) = (u32::from(of.bytes), self.config.priority_of(of.dscp() as u8));
        let Some(attached) = &mut self.attached else {
            return links.drop_packet(packet, Drop::Refused);
        };
        attached.rx.add(priority, bytes.into());
        if self.buffer.bytes + bytes > self.config.receive_buffer_bytes {
            attached.discards.add(priority, bytes.into());
            return links.drop_packet(packet, Drop::ReceiveBuffer);
        }
        attached.arrived.push_back(packet);
        self.fill(links, bytes);
    }

    /// Shows `take` what has come, oldest first, until it takes one no more. A NIC whose pipeline stands still gives
    /// nothing.
    pub(crate) fn take_frames(&mut self, links: &mut Links, mut take: impl FnMut(&[u8]) -> bool) {
        while let Some(attached) = &mut self.attached
            && !self.buffer.stuck
            && let Some(&packet) = attached.arrived.front()
        {
            let bytes = u32::from(links.pool.get(packet).bytes);
            if !take(links.pool.whole(packet)) {
                return;
            }
            attached.arrived.pop_front();
            links.delivered += 1;
            links.pool.free(packet);
            self.drain_buffer(links, bytes);
        }
    }
}
