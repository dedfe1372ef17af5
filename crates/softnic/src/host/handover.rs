//! Packets that the kernel gave to the wrong NIC are handed over to the right one.
//!
//! ```text
//!   magic u32 │ segment u16 │ source port u16 │ class u8 │ 0 x 7 │ source 16 │ destination 16 │ UDP
//! ```
//!
//! Each NIC has a [`Mailbox`] for them. A message is what arrived: one UDP payload, or a GSO batch of
//! them. It is believed, because it is of the same user: another could claim any source address.

use core::net::IpAddr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rdma::Gid;

use crate::host::mailbox::{HANDOVER, Mailbox};
use crate::host::steering::Member;
use crate::limits::{RECEIVE_BYTES, SOCKET_BUFFER_BYTES};
use crate::packet::{InBuffer, Received};
use crate::sys::set_option;

const MAGIC: [u8; 4] = *b"FRH\x01";
const HEADER_LEN: usize = 48;
/// The longest message.
pub(crate) const MESSAGE_MAX: usize = HEADER_LEN + RECEIVE_BYTES;

/// The socket on which a NIC gets its lost packets, and sends those of others.
#[derive(Debug)]
pub(crate) struct Handover {
    mailbox: Arc<Mailbox>,
    message: Vec<u8>,
}

impl Handover {
    /// The socket of `owner`.
    pub(crate) fn bind(namespace: u64, owner: Member) -> io::Result<Self> {
        let mailbox = Mailbox::bind(HANDOVER, namespace, owner)?;
        set_option(mailbox.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, SOCKET_BUFFER_BYTES)?;
        Ok(Self { mailbox: Arc::new(mailbox), message: Vec::new() })
    }

    /// Gives `bytes`, which arrived at `destination`, to `owner`. Returns whether it is there.
    ///
    /// # Errors
    /// Its queue is full.
    pub(crate) fn send(
        &mut self,
        owner: Member,
        received: &Received,
        destination: IpAddr,
        bytes: &[u8],
    ) -> io::Result<bool> {
        let segment = u16::try_from(received.segment.min(bytes.len())).unwrap_or(u16::MAX);
        self.message.clear();
        self.message.extend(MAGIC);
        self.message.extend(segment.to_ne_bytes());
        self.message.extend(received.source_port.to_ne_bytes());
        self.message.push(received.traffic_class);
        self.message.extend([0; 7]);
        self.message.extend(Gid::from(received.source).0);
        self.message.extend(Gid::from(destination).0);
        self.message.extend(bytes);
        match self.mailbox.send(owner, &self.message, None) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Where it is received what others hand over.
    pub(crate) fn entrance(&self) -> Entrance {
        Entrance(Arc::clone(&self.mailbox))
    }
}

/// The end of a [`Handover`] that receives.
#[derive(Debug)]
pub(crate) struct Entrance(Arc<Mailbox>);

impl Entrance {
    /// Takes the next message. `None` if there is no more; messages that make no sense are skipped.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> Option<InBuffer> {
        loop {
            if let Some(letter) = self.0.receive(buffer)?
                && let Some((received, destination)) = parse(&buffer[..letter.length])
            {
                let place = HEADER_LEN..letter.length;
                return Some(InBuffer { received, destination, place });
            }
        }
    }
}

impl AsFd for Handover {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.mailbox.as_fd()
    }
}

fn parse(message: &[u8]) -> Option<(Received, IpAddr)> {
    let rest = message.strip_prefix(&MAGIC)?;
    let (segment, rest) = rest.split_first_chunk()?;
    let (source_port, rest) = rest.split_first_chunk()?;
    let (&traffic_class, rest) = rest.split_first()?;
    let rest = rest.get(7..)?;
    let (source, rest) = rest.split_first_chunk()?;
    let (destination, bytes) = rest.split_first_chunk()?;
    let received = Received {
        length: bytes.len(),
        segment: usize::from(u16::from_ne_bytes(*segment)).clamp(1, bytes.len().max(1)),
        source: Gid(*source).ip(),
        source_port: u16::from_ne_bytes(*source_port),
        traffic_class,
        id: 0,
        // Whoever has handed it over has seen to that.
        by_loopback: false,
    };
    Some((received, Gid(*destination).ip()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::mailbox::address;
    use crate::host::runtime;
    use std::os::unix::net::UnixDatagram;

    /// A namespace that no other test has.
    const NAMESPACE: u64 = u64::MAX;

    fn owner(slot: u16) -> Member {
        Member { slot, claim: 7 }
    }

    #[test]
    fn a_gso_batch_arrives_as_it_was_received() {
        let mut from = Handover::bind(NAMESPACE, owner(1)).unwrap();
        let to = Handover::bind(NAMESPACE, owner(2)).unwrap();
        let received = Received {
            length: 2500,
            segment: 1000,
            source: IpAddr::from([127, 0, 0, 9]),
            source_port: 0xc123,
            traffic_class: 0x6a,
            id: 0,
            by_loopback: false,
        };
        let destination = IpAddr::from([127, 0, 0, 8]);
        let bytes: Vec<u8> = (0..2500_u32).map(|at| at as u8).collect();
        assert!(from.send(owner(2), &received, destination, &bytes).unwrap());
        let mut buffer = vec![0; MESSAGE_MAX];
        let to = to.entrance();
        let InBuffer { received: arrived, destination: at, place } =
            to.receive(&mut buffer).unwrap();
        assert_eq!((arrived, at, &buffer[place]), (received, destination, &bytes[..]));
        assert!(to.receive(&mut buffer).is_none());
    }

    #[test]
    fn a_slot_without_owner_takes_nothing() {
        let mut from = Handover::bind(NAMESPACE, owner(3)).unwrap();
        let received = Received {
            length: 1,
            segment: 1,
            source: IpAddr::from([127, 0, 0, 9]),
            source_port: 1,
            traffic_class: 0,
            id: 0,
            by_loopback: false,
        };
        assert!(!from.send(owner(4), &received, received.source, b"x").unwrap());
    }

    #[test]
    fn a_message_that_makes_no_sense_is_skipped() {
        let mut from = Handover::bind(NAMESPACE, owner(5)).unwrap();
        let to = Handover::bind(NAMESPACE, owner(6)).unwrap();
        let stranger = UnixDatagram::unbound().unwrap();
        stranger
            .send_to_addr(
                b"hello",
                &address(&runtime::directory().unwrap(), HANDOVER, NAMESPACE, owner(6)).unwrap(),
            )
            .unwrap();
        let received = Received {
            length: 3,
            segment: 3,
            source: IpAddr::from([127, 0, 0, 9]),
            source_port: 1,
            traffic_class: 0,
            id: 0,
            by_loopback: false,
        };
        from.send(owner(6), &received, received.source, b"yes").unwrap();
        let mut buffer = vec![0; MESSAGE_MAX];
        let InBuffer { place, .. } = to.entrance().receive(&mut buffer).unwrap();
        assert_eq!(&buffer[place], b"yes");
    }
}
