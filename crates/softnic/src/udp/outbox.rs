//! The outbox: what the kernel is to send. It is taken out of the engine's lock while the kernel sends it.
//!
//! ```text
//!   engine ──build──► outbox ┐                    ┌ counts ──► engine     under the lock
//!                            └──► sendmmsg ───────┘                       without it
//! ```
//!
//! Other threads post and poll meanwhile; what they have to send waits in the engine for the thread that
//! has the outbox ([`Shared::give`](crate::progress::shared::Shared::give)).
//!
//! **Invariant:** a NIC has one, so packets leave in the order in which the engine has given them out.

use core::mem;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::counts::Counts;
use crate::limits::{MESSAGES_MAX, SEND_WAIT_MS};
use crate::packet::Flow;
use crate::packet::Message;
use crate::sys::wait_writable;
use crate::udp::gso::{Batch, Batches};
use crate::udp::port::Port;

/// Packets, and the sockets that they leave from.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) batches: Batches,
    /// Whether the engine had more than there was room for.
    pub(crate) is_full: bool,
    pub(crate) sockets: Sockets,
}

/// The sockets, and what became of the packets that were given to them.
#[derive(Debug)]
pub(crate) struct Sockets {
    /// By [`Flow::port`].
    sockets: Vec<Arc<Port>>,
    sent: Sent,
    /// Whether it was said that a packet is too long for the network.
    has_warned: bool,
}

/// What became of packets, to be counted once the lock is held again.
#[derive(Debug, Default)]
struct Sent {
    packets: u64,
    bytes: u64,
    batches: u64,
    dropped: u64,
    errors: u64,
}

impl Outbox {
    pub(crate) fn new(batches: Batches, sockets: Vec<Arc<Port>>) -> Self {
        let sockets = Sockets { sockets, sent: Sent::default(), has_warned: false };
        Self { batches, is_full: false, sockets }
    }

    /// Lets go of the sockets: nothing is sent any more.
    pub(crate) fn close(&mut self) {
        self.sockets.sockets.clear();
    }

    /// Counts what was sent, and empties it.
    pub(crate) fn unload(&mut self, counts: &mut Counts) {
        let Sent { packets, bytes, batches, dropped, errors } = mem::take(&mut self.sockets.sent);
        counts.tx_packets += packets;
        counts.tx_bytes += bytes;
        counts.tx_trains += batches;
        counts.tx_dropped += dropped;
        counts.tx_errors += errors;
        self.batches.clear();
    }

    /// Sends what is in it.
    pub(crate) fn send(&mut self) {
        let mut at = 0;
        while at < self.batches.all().len() {
            at += match self.send_from(at) {
                Ok(sent) => sent,
                // The kernel, or the device's offload, does not cut batches: never again.
                Err(error) if is_batch_refused(&error) && self.batches.all()[at].count > 1 => {
                    tracing::warn!(%error, "one packet a call from now on: the kernel does not cut them");
                    self.batches.send_singly();
                    self.cut(at);
                    1
                }
                Err(error) => {
                    let Batch { flow, segment, count, .. } = self.batches.all()[at];
                    self.sockets.refused(&flow, segment, count, &error);
                    1
                }
            };
        }
    }

    /// Sends batches from the one at `at` on, as many as one call takes. Returns how many went.
    fn send_from(&mut self, at: usize) -> io::Result<usize> {
        let batches = &self.batches.all()[at..];
        let port = batches[0].flow.port;
        let run = batches.iter().take(MESSAGES_MAX).take_while(|batch| batch.flow.port == port);
        let messages: SmallVec<[Message<'_>; MESSAGES_MAX]> = run
            .map(|batch| {
                // A segment is a packet, which is shorter than 64 KiB.
                let segment = (batch.count > 1).then_some(batch.segment as u16);
                message(&batch.flow, self.batches.bytes(batch.bytes.clone()), segment)
            })
            .collect();
        let sent = send_waiting(&self.sockets.sockets[port], &messages)?;
        for batch in &batches[..sent] {
            self.sockets.count(batch.count, batch.bytes.len());
        }
        Ok(sent)
    }

    /// Sends the packets of one batch singly.
    fn cut(&mut self, at: usize) {
        self.batches.seal_singly(at);
        let batch = &self.batches.all()[at];
        for (_, place) in batch.packets() {
            let (flow, packet) = (&batch.flow, self.batches.bytes(place));
            let sent =
                send_waiting(&self.sockets.sockets[flow.port], &[message(flow, packet, None)]);
            self.sockets.note(flow, packet, sent);
        }
    }
}

impl Sockets {
    /// Has all sockets that packets may leave from: those of the addresses, which are `addresses`, and these.
    pub(crate) fn follow(&mut self, addresses: usize, departures: &[Arc<Port>]) {
        let known = self.sockets.len().saturating_sub(addresses);
        self.sockets.extend(departures.iter().skip(known).cloned());
    }

    /// Sends one packet, with its ICRC, if the socket takes it: nobody waits under the engine's lock.
    pub(crate) fn send_packet(&mut self, flow: &Flow, packet: &[u8]) {
        let sent = self.sockets[flow.port].send(&[message(flow, packet, None)]);
        self.note(flow, packet, sent);
    }

    /// Counts what became of one packet.
    fn note(&mut self, flow: &Flow, packet: &[u8], sent: io::Result<usize>) {
        match sent {
            Ok(_) => self.count(1, packet.len()),
            Err(error) => self.refused(flow, packet.len(), 1, &error),
        }
    }

    /// Counts what one message took along.
    fn count(&mut self, packets: usize, bytes: usize) {
        self.sent.batches += 1;
        self.sent.packets += packets as u64;
        self.sent.bytes += bytes as u64;
    }

    /// Counts packets of so many bytes that will not be sent. Reliable connections send them again.
    fn refused(&mut self, flow: &Flow, bytes: usize, packets: usize, error: &io::Error) {
        let packets = packets as u64;
        let destination = flow.destination;
        if is_full(error) {
            self.sent.dropped += packets;
        } else {
            self.sent.errors += packets;
            if error.raw_os_error() == Some(libc::EMSGSIZE)
                && !mem::replace(&mut self.has_warned, true)
            {
                tracing::warn!(
                    %destination,
                    bytes,
                    "the network takes no packet of this length\nhint: soft NICs go on in shorter ones by themselves; for another peer set \
                     FERROCE_MTU to a smaller one"
                );
            }
        }
        tracing::debug!(%destination, bytes, %error, "not sent");
    }
}

fn message<'a>(flow: &Flow, bytes: &'a [u8], segment: Option<u16>) -> Message<'a> {
    Message {
        bytes,
        segment,
        destination: flow.destination,
        traffic_class: flow.traffic_class,
        hop_limit: flow.hop_limit,
    }
}

/// Sends, and waits a little once if the socket is full.
fn send_waiting(socket: &Port, messages: &[Message<'_>]) -> io::Result<usize> {
    match socket.send(messages) {
        Err(error) if is_full(&error) || error.kind() == io::ErrorKind::Interrupted => {
            wait_writable(socket.as_fd(), SEND_WAIT_MS);
            socket.send(messages)
        }
        result => result,
    }
}

fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::ENOBUFS)
}

fn is_batch_refused(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EIO | libc::EINVAL | libc::EOPNOTSUPP | libc::ENOPROTOOPT)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attachment::Attachment;
    use crate::limits::{RECEIVE_BYTES, SLOT_SHIFT};
    use crate::packet::Path;
    use crate::{DeviceInfo, Options, sys};
    use wire::icrc;

    fn open(address: &str) -> Attachment {
        let device = DeviceInfo::find(&format!("lo/{address}"), 0).unwrap();
        Attachment::open(&device, &Options::default()).unwrap()
    }

    #[test]
    fn a_batch_that_the_kernel_refuses_leaves_packet_by_packet() {
        let (mut from, mut to) = (open("127.0.47.1"), open("127.0.47.2"));
        // UDP without checksum and GSO exclude each other: the kernel says EINVAL.
        sys::set_option(
            from.site.membership.sockets[0].as_fd(),
            libc::SOL_SOCKET,
            libc::SO_NO_CHECK,
            1,
        )
        .unwrap();
        let flow = Flow {
            port: 0,
            path: Path::Udp,
            source: from.site.membership.sockets[0].address().into(),
            destination: to.site.membership.sockets[0].address().into(),
            source_port: wire::udp::ROCE_PORT,
            slot: to.site.membership.registry.slot(),
            traffic_class: 0,
            hop_limit: 0,
        };
        let outbox = from.sender.outbox.as_mut().unwrap();
        let mut counts = Counts::default();
        for _ in 0..2 {
            for byte in 1..=3 {
                outbox.batches.room()[..40].fill(byte);
                // Steering looks at the QPN.
                let qpn = u32::from(to.site.membership.registry.slot()) << SLOT_SHIFT;
                outbox.batches.room()[4..8].copy_from_slice(&qpn.to_be_bytes());
                outbox.batches.add(&flow, 40, usize::MAX);
            }
            assert!(!outbox.batches.all().is_empty());
            outbox.send();
            outbox.unload(&mut counts);
            assert!(outbox.batches.all().is_empty());
        }
        assert_eq!((counts.tx_packets, counts.tx_trains, counts.tx_errors), (6, 6, 0));
        let mut buffer = vec![0; RECEIVE_BYTES];
        for byte in [1, 2, 3, 1, 2, 3] {
            let received = to.site.membership.sockets[0].receive(&mut buffer).unwrap();
            assert_eq!((received.received.length, buffer[0]), (44, byte));
            let (covered, icrc) = buffer[..44].split_last_chunk().unwrap();
            assert_eq!(icrc::compute(&flow.datagram(0), covered), Ok(*icrc));
        }
        from.leave();
        to.leave();
    }

    #[test]
    fn what_cannot_be_sent_is_counted() {
        let mut from = open("127.0.47.3");
        let flow = Flow {
            port: 0,
            path: Path::Udp,
            source: from.site.membership.sockets[0].address().into(),
            // Broadcast is not allowed to a socket that has not asked for it.
            destination: core::net::Ipv4Addr::new(255, 255, 255, 255).into(),
            source_port: wire::udp::ROCE_PORT,
            slot: 1,
            traffic_class: 0,
            hop_limit: 0,
        };
        let outbox = from.sender.outbox.as_mut().unwrap();
        let mut counts = Counts::default();
        for _ in 0..3 {
            outbox.batches.room()[..40].fill(1);
            outbox.batches.add(&flow, 40, usize::MAX);
        }
        outbox.send();
        outbox.unload(&mut counts);
        assert_eq!((counts.tx_packets, counts.tx_errors), (0, 3));
        from.leave();
    }
}
