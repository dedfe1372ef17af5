//! Packets: where each goes or came from, and the bytes of those that are sent.

use core::net::IpAddr;
use core::ops::Range;

use rdma::{Gid, Memory, MemoryFault, Psn, Qpn};
use transport::{Payload, Segment};
use wire::icrc::{Datagram, Prefix};
use wire::roce::{ICRC_LEN, Repr};

use crate::ProcessMemory;
use crate::limits::LONG_PACKET_MAX;

/// What one call of `receive` brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Received {
    /// Bytes in the buffer.
    pub(crate) length: usize,
    /// Bytes of each datagram in it but the last, which may be shorter.
    pub(crate) segment: usize,
    pub(crate) source: IpAddr,
    pub(crate) source_port: u16,
    pub(crate) traffic_class: u8,
    /// The IP identification of the first, where that is known, or else 0.
    pub(crate) id: u16,
    /// Whether it is known to have come from this host, whatever its source is.
    pub(crate) by_loopback: bool,
}

/// A datagram, or a GSO batch, to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Message<'a> {
    pub(crate) bytes: &'a [u8],
    /// Bytes of each datagram, if `bytes` are several.
    pub(crate) segment: Option<u16>,
    pub(crate) destination: Gid,
    pub(crate) traffic_class: u8,
    pub(crate) hop_limit: u8,
}

/// What was received, and where it lies in the buffer that it was received into.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct InBuffer {
    pub(crate) received: Received,
    pub(crate) destination: IpAddr,
    pub(crate) place: Range<usize>,
}

/// Who carries packets to a NIC, and so what a poll looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Carrier {
    /// The kernel, within the sender's call. A poll is a call of the kernel as well.
    Kernel,
    /// The sender, through rings: most polls look at memory alone.
    Sender,
    /// The thread of a lab, through a ring.
    Lab,
}

/// How a NIC is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Path {
    /// By UDP, from a socket.
    Udp,
    /// By a ring of shared memory, to a NIC of this host and user.
    Shm,
}

/// What all packets of a queue pair have in common below RoCE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flow {
    pub(crate) path: Path,
    /// Index of the socket that has the source address and port.
    pub(crate) port: usize,
    pub(crate) source: Gid,
    pub(crate) destination: Gid,
    pub(crate) source_port: u16,
    /// Slot of the destination QPN.
    pub(crate) slot: u16,
    pub(crate) traffic_class: u8,
    pub(crate) hop_limit: u8,
}

impl Flow {
    /// Marks its packets for congestion (RFC 3168: CE). Returns whether they allow it.
    pub(crate) fn mark(&mut self) -> bool {
        const CE: u8 = 3;
        let allowed = self.traffic_class & CE != 0;
        if allowed {
            self.traffic_class |= CE;
        }
        allowed
    }

    /// Whether its packets may leave together, in GSO batches.
    #[inline]
    pub(crate) fn is_batched(&self) -> bool {
        self.path == Path::Udp
    }

    /// The headers below RoCE of a packet with IP identification `id`.
    pub(crate) fn datagram(&self, id: u16) -> Datagram {
        let source_port = self.source_port;
        Datagram { id, source_port, ..Datagram::between(self.source.ip(), self.destination.ip()) }
    }

    /// Gives its ICRC to a packet that leaves by itself. `packet` has room for it.
    pub(crate) fn seal(&self, packet: &mut [u8]) {
        let prefix = Prefix::new(&self.datagram(0), packet.len() - ICRC_LEN);
        seal(packet, &prefix, 0);
    }
}

/// Packets to a queue pair that were not acknowledged in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Missed {
    pub(crate) destination: Gid,
    pub(crate) qpn: Qpn,
    /// For the first time since something was acknowledged.
    pub(crate) is_first: bool,
}

/// What became of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pushed {
    /// Packets that were sent or dropped. Those behind them are the engine's again.
    pub(crate) packets: u32,
    /// The payload of the last of them is not mapped any more.
    pub(crate) is_faulted: bool,
    /// Their destination has no room for another packet of any length.
    pub(crate) is_full: bool,
}

/// Writes the ICRC to the last four bytes of `packet`.
pub(crate) fn seal(packet: &mut [u8], prefix: &Prefix, id: u16) {
    let (covered, icrc) = packet.split_at_mut(packet.len() - ICRC_LEN);
    // What we build begins with a BTH, so there is nothing too short to compute an ICRC of.
    if let Ok(value) = prefix.icrc(id, covered) {
        icrc.copy_from_slice(&value);
    }
}

/// A packet whose headers have been written, and not yet what follows them.
pub(crate) struct Begun<'a> {
    /// Bytes of the headers.
    headers: usize,
    payload: Payload<'a>,
    pad: usize,
}

impl<'a> Begun<'a> {
    /// Writes the headers to the beginning of `room`.
    #[inline]
    pub(crate) fn new(header: &Repr, psn: Psn, payload: Payload<'a>, room: &mut [u8]) -> Self {
        let begun =
            Self { headers: header.emit_as(psn, room), payload, pad: header.bth.pad.into() };
        assert!(
            begun.len() + ICRC_LEN <= LONG_PACKET_MAX,
            "the engine sends no packet longer than the longest"
        );
        begun
    }

    /// Bytes of the headers.
    pub(crate) fn headers(&self) -> usize {
        self.headers
    }

    /// Bytes of the whole packet, without its ICRC.
    pub(crate) fn len(&self) -> usize {
        self.headers + self.payload.len() as usize + self.pad
    }

    /// Goes through what stands behind the headers, payload and padding, and where.
    #[inline]
    pub(crate) fn for_pieces(
        &self,
        mut put: impl FnMut(Range<usize>, Segment<'_>) -> Result<(), MemoryFault>,
    ) -> Result<(), MemoryFault> {
        let mut at = self.headers;
        for piece in self.payload.segments() {
            let length = match piece {
                Segment::Memory { length, .. } => length as usize,
                Segment::Bytes(bytes) => bytes.len(),
            };
            put(at..at + length, piece)?;
            at += length;
        }
        if self.pad > 0 {
            put(at..at + self.pad, Segment::Bytes(&[0; 3][..self.pad]))?;
        }
        Ok(())
    }
}

/// Writes headers, payload and padding to `room`, and says how long they are.
#[inline]
pub(crate) fn write_packet(
    room: &mut [u8],
    header: &Repr,
    psn: Psn,
    payload: Payload<'_>,
    memory: &mut ProcessMemory,
) -> Result<usize, MemoryFault> {
    let begun = Begun::new(header, psn, payload, room);
    begun.for_pieces(|place, piece| {
        let place = &mut room[place];
        match piece {
            Segment::Memory { address, .. } => return memory.load(address, place),
            Segment::Bytes(bytes) => place.copy_from_slice(bytes),
        }
        Ok(())
    })?;
    Ok(begun.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;
    use wire::icrc;

    #[test]
    fn a_packet_that_leaves_by_itself_has_identification_zero() {
        let [source, destination] = [1, 2].map(|last| Ipv4Addr::new(127, 0, 0, last).into());
        let (path, traffic_class) = (Path::Shm, 0);
        let flow = Flow {
            path,
            port: 0,
            source,
            destination,
            source_port: wire::udp::ROCE_PORT,
            slot: 3,
            traffic_class,
            hop_limit: 64,
        };
        let mut packet = [9; 54];
        flow.seal(&mut packet);
        let icrc = icrc::compute(&flow.datagram(0), &[9; 50]).unwrap();
        assert_eq!((&packet[..50], &packet[50..]), (&[9; 50][..], &icrc[..]));
    }
}
