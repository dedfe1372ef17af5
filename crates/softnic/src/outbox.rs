//! What is on its way to the kernel, and leaves the engine for as long as the kernel takes.
//!
//! ```text
//!   engine ──build──► outbox ┐                    ┌ counts ──► engine     under the lock
//!                            └──► sendmmsg ───────┘                       without it
//! ```
//!
//! A call of the kernel for a long train takes as long as all else that is done for its packets.
//! Other threads post and poll meanwhile; what they have to send waits in the engine for the thread
//! that has the outbox ([`Shared::give`](crate::shared::Shared::give)).
//!
//! **Invariant:** a NIC has one, and packets are built into it by whoever sends them; so they leave
//! in the order in which the engine has given them out.

use core::mem;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::counts::Counts;
use crate::limits::{MESSAGES_MAX, SEND_WAIT_MS};
use crate::socket::{Message, Socket};
use crate::sys::wait_writable;
use crate::train::{Train, Trains, Way};

/// Packets, and the sockets that they leave from.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) trains: Trains,
    /// Whether the engine had more than there was room for.
    pub(crate) is_full: bool,
    sockets: Vec<Arc<Socket>>,
    sent: Sent,
    /// Whether it was said that a way is too narrow.
    has_warned: bool,
}

/// What became of packets, to be counted once the lock is held again.
#[derive(Debug, Default)]
struct Sent {
    packets: u64,
    bytes: u64,
    trains: u64,
    dropped: u64,
    errors: u64,
}

impl Outbox {
    pub(crate) fn new(trains: Trains, sockets: Vec<Arc<Socket>>) -> Self {
        Self { trains, is_full: false, sockets, sent: Sent::default(), has_warned: false }
    }

    /// Whether something in it is to be sent by the kernel.
    pub(crate) fn is_for_kernel(&self) -> bool {
        self.trains.trains().iter().any(|train| !train.way.by_ring)
    }

    /// Counts what was sent, and empties it.
    pub(crate) fn unload(&mut self, counts: &mut Counts) {
        let Sent { packets, bytes, trains, dropped, errors } = mem::take(&mut self.sent);
        counts.tx_packets += packets;
        counts.tx_bytes += bytes;
        counts.tx_trains += trains;
        counts.tx_dropped += dropped;
        counts.tx_errors += errors;
        self.trains.clear();
    }

    /// Sends what does not go by rings.
    pub(crate) fn send(&mut self) {
        let mut at = 0;
        while at < self.trains.trains().len() {
            if self.trains.trains()[at].way.by_ring {
                at += 1;
                continue;
            }
            at += match self.send_from(at) {
                Ok(sent) => sent,
                // The kernel, or the device's offload, does not cut trains: never again.
                Err(error) if is_train_refused(&error) && self.trains.trains()[at].count > 1 => {
                    tracing::warn!(%error, "no trains from now on: the kernel does not cut them");
                    self.trains.send_singly();
                    self.cut(at);
                    1
                }
                Err(error) => {
                    let train = self.trains.trains()[at].clone();
                    self.refused(&train, &error);
                    1
                }
            };
        }
    }

    /// Sends trains from the one at `at` on, as many as one call takes. Returns how many went.
    fn send_from(&mut self, at: usize) -> io::Result<usize> {
        let trains = &self.trains.trains()[at..];
        let port = trains[0].way.port;
        let run = trains.iter().take(MESSAGES_MAX).take_while(|train| {
            let Way { port: other, by_ring, .. } = train.way;
            other == port && !by_ring
        });
        let messages: SmallVec<[Message<'_>; MESSAGES_MAX]> = run
            .map(|train| {
                // A segment is a packet, which is shorter than 64 KiB.
                let segment = (train.count > 1).then_some(train.segment as u16);
                message(&train.way, self.trains.bytes(train.bytes.clone()), segment)
            })
            .collect();
        let sent = send_waiting(&self.sockets[port], &messages)?;
        for train in &trains[..sent] {
            self.sent.trains += 1;
            self.sent.packets += train.count as u64;
            self.sent.bytes += train.bytes.len() as u64;
        }
        Ok(sent)
    }

    /// Sends the packets of one train singly.
    fn cut(&mut self, at: usize) {
        self.trains.seal_singly(at);
        let train = self.trains.trains()[at].clone();
        for (_, place) in train.packets() {
            let result = self.send_single(&train.way, self.trains.bytes(place.clone()));
            self.count(&train.way, place.len(), result);
        }
    }

    /// Sends a packet that is not in it.
    pub(crate) fn send_packet(&mut self, way: &Way, packet: &[u8]) {
        let result = self.send_single(way, packet);
        self.count(way, packet.len(), result);
    }

    fn send_single(&self, way: &Way, packet: &[u8]) -> io::Result<usize> {
        send_waiting(&self.sockets[way.port], &[message(way, packet, None)])
    }

    /// Counts a packet that left by itself, or did not.
    fn count(&mut self, way: &Way, length: usize, result: io::Result<usize>) {
        match result {
            Ok(_) => {
                self.sent.trains += 1;
                self.sent.packets += 1;
                self.sent.bytes += length as u64;
            }
            Err(error) => {
                let train = Train { way: *way, bytes: 0..length, segment: length, count: 1 };
                self.refused(&train, &error);
            }
        }
    }

    /// Counts packets that will not be sent. Reliable connections send them again.
    fn refused(&mut self, train: &Train, error: &io::Error) {
        let count = train.count as u64;
        if is_full(error) {
            self.sent.dropped += count;
        } else {
            self.sent.errors += count;
            if error.raw_os_error() == Some(libc::EMSGSIZE)
                && !mem::replace(&mut self.has_warned, true)
            {
                tracing::warn!(
                    destination = %train.way.destination,
                    "the way is narrower than the RDMA MTU\nhint: set FERROCE_MTU to a smaller one"
                );
            }
        }
        tracing::debug!(destination = %train.way.destination, bytes = train.segment, %error, "not sent");
    }
}

fn message<'a>(way: &Way, bytes: &'a [u8], segment: Option<u16>) -> Message<'a> {
    Message {
        bytes,
        segment,
        destination: way.destination,
        traffic_class: way.traffic_class,
        hop_limit: way.hop_limit,
    }
}

/// Sends, and waits a little once if the socket is full.
fn send_waiting(socket: &Socket, messages: &[Message<'_>]) -> io::Result<usize> {
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

fn is_train_refused(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EIO | libc::EINVAL | libc::EOPNOTSUPP | libc::ENOPROTOOPT)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{RECEIVE_BYTES, SLOT_SHIFT};
    use crate::links::Links;
    use crate::{DeviceInfo, Options, sys};
    use wire::icrc;

    fn links(address: &str) -> Links {
        let device = DeviceInfo::find(&format!("lo/{address}"), 0).unwrap();
        Links::open(&device, &Options::default()).unwrap()
    }

    #[test]
    fn a_train_that_the_kernel_refuses_leaves_packet_by_packet() {
        let (mut from, mut to) = (links("127.0.47.1"), links("127.0.47.2"));
        // UDP without checksum and trains exclude each other: the kernel says EINVAL.
        sys::set_option(from.sockets[0].as_fd(), libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).unwrap();
        let way = Way {
            port: 0,
            by_ring: false,
            source: from.sockets[0].address().into(),
            destination: to.sockets[0].address().into(),
            slot: to.registry.slot(),
            traffic_class: 0,
            hop_limit: 0,
        };
        let outbox = from.outbox.as_mut().unwrap();
        let mut counts = Counts::default();
        for _ in 0..2 {
            for byte in 1..=3 {
                outbox.trains.room()[..40].fill(byte);
                // Steering looks at the QPN.
                let qpn = u32::from(to.registry.slot()) << SLOT_SHIFT;
                outbox.trains.room()[4..8].copy_from_slice(&qpn.to_be_bytes());
                outbox.trains.commit(&way, 40);
            }
            assert!(outbox.is_for_kernel());
            outbox.send();
            outbox.unload(&mut counts);
            assert!(!outbox.is_for_kernel());
        }
        assert_eq!((counts.tx_packets, counts.tx_trains, counts.tx_errors), (6, 6, 0));
        let mut buffer = vec![0; RECEIVE_BYTES];
        for byte in [1, 2, 3, 1, 2, 3] {
            let received = to.sockets[0].receive(&mut buffer).unwrap();
            assert_eq!((received.length, buffer[0]), (44, byte));
            let (covered, icrc) = buffer[..44].split_last_chunk().unwrap();
            assert_eq!(icrc::compute(&way.datagram(0), covered), Ok(*icrc));
        }
        from.leave();
        to.leave();
    }

    #[test]
    fn what_cannot_be_sent_is_counted() {
        let mut from = links("127.0.47.3");
        let way = Way {
            port: 0,
            by_ring: false,
            source: from.sockets[0].address().into(),
            // Broadcast is not allowed to a socket that has not asked for it.
            destination: core::net::Ipv4Addr::new(255, 255, 255, 255).into(),
            slot: 1,
            traffic_class: 0,
            hop_limit: 0,
        };
        let outbox = from.outbox.as_mut().unwrap();
        let mut counts = Counts::default();
        for _ in 0..3 {
            outbox.trains.room()[..40].fill(1);
            outbox.trains.commit(&way, 40);
        }
        outbox.send();
        outbox.unload(&mut counts);
        assert_eq!((counts.tx_packets, counts.tx_errors), (0, 3));
        from.leave();
    }
}
