//! Packets that the kernel gave to the wrong NIC are handed over to the right one.
//!
//! ```text
//!   magic u32 │ segment u16 │ source port u16 │ class u8 │ 0 x 7 │ source 16 │ destination 16 │ UDP
//! ```
//!
//! Each NIC has a datagram socket with an abstract name made of user, network namespace and slot.
//! A message is what arrived: one UDP payload, or a GSO batch of them. Anybody on the host can send to
//! an abstract name, so messages of other users are refused: they could claim any source address.

use core::ffi::c_int;
use core::mem;
use core::net::IpAddr;
use core::ops::Range;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;

use rdma::Gid;

use crate::limits::{RECEIVE_BYTES, SOCKET_BUFFER_BYTES};
use crate::packet::Received;
use crate::sys::{self, set_option};

const MAGIC: [u8; 4] = *b"FRH\x01";
const HEADER_LEN: usize = 48;
/// The longest message.
pub(crate) const MESSAGE_MAX: usize = HEADER_LEN + RECEIVE_BYTES;

/// The socket on which a NIC gets its lost packets, and sends those of others.
#[derive(Debug)]
pub(crate) struct Handover {
    socket: Arc<UnixDatagram>,
    namespace: u64,
    message: Vec<u8>,
}

impl Handover {
    /// The socket of `slot`'s owner.
    pub(crate) fn bind(namespace: u64, slot: u16) -> io::Result<Self> {
        let socket = UnixDatagram::bind_addr(&name(namespace, slot)?)?;
        socket.set_nonblocking(true)?;
        let set =
            |option, value: c_int| set_option(socket.as_fd(), libc::SOL_SOCKET, option, value);
        set(libc::SO_PASSCRED, 1)?;
        set(libc::SO_SNDBUF, SOCKET_BUFFER_BYTES)?;
        Ok(Self { socket: Arc::new(socket), namespace, message: Vec::new() })
    }

    /// Gives `bytes`, which arrived at `destination`, to the owner of `slot`. Returns whether there
    /// is one: `Ok(false)` says that the slot is nobody's.
    ///
    /// # Errors
    /// Its queue is full.
    pub(crate) fn send(
        &mut self,
        slot: u16,
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
        match self.socket.send_to_addr(&self.message, &name(self.namespace, slot)?) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Where it is received what others hand over.
    pub(crate) fn entrance(&self) -> Entrance {
        Entrance(Arc::clone(&self.socket))
    }
}

/// The end of a [`Handover`] that receives.
#[derive(Debug)]
pub(crate) struct Entrance(Arc<UnixDatagram>);

impl Entrance {
    /// Takes the next message: what arrived, at which address, and where it lies in `buffer`.
    /// `None` if there is no more; messages that make no sense are skipped.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> Option<(Received, IpAddr, Range<usize>)> {
        loop {
            let length = self.receive_bytes(buffer)?;
            if let Some(length) = length
                && let Some((received, destination)) = parse(&buffer[..length])
            {
                return Some((received, destination, HEADER_LEN..length));
            }
        }
    }

    /// `None` if there is nothing, `Some(None)` for a message of another user.
    fn receive_bytes(&self, buffer: &mut [u8]) -> Option<Option<usize>> {
        // SAFETY: all zeros are a valid msghdr.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        // Room for the credentials and nothing else: a descriptor that somebody passes along is
        // closed by the kernel.
        let mut control = [0_u64; 4];
        let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        header.msg_iov = &raw mut piece;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control) as _;
        // SAFETY: every pointer in the header is to a live place of the length beside it.
        let length = unsafe { sys::receive_message(self.0.as_fd(), &mut header, 0) }.ok()?;
        // SAFETY: the kernel has filled the control messages; the data of SCM_CREDENTIALS is a
        // ucred.
        let user = unsafe {
            let message = libc::CMSG_FIRSTHDR(&raw const header);
            let is_credentials = !message.is_null()
                && (*message).cmsg_level == libc::SOL_SOCKET
                && (*message).cmsg_type == libc::SCM_CREDENTIALS;
            is_credentials
                .then(|| libc::CMSG_DATA(message).cast::<libc::ucred>().read_unaligned().uid)
        };
        Some((user == Some(sys::user())).then_some(length))
    }
}

impl AsFd for Handover {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn name(namespace: u64, slot: u16) -> io::Result<SocketAddr> {
    sys::abstract_name("ferroce", namespace, slot)
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
    };
    Some((received, Gid(*destination).ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A namespace that no other test has.
    const NAMESPACE: u64 = u64::MAX;

    #[test]
    fn a_train_arrives_as_it_was_received() {
        let mut from = Handover::bind(NAMESPACE, 1).unwrap();
        let to = Handover::bind(NAMESPACE, 2).unwrap();
        let received = Received {
            length: 2500,
            segment: 1000,
            source: IpAddr::from([127, 0, 0, 9]),
            source_port: 0xc123,
            traffic_class: 0x6a,
        };
        let destination = IpAddr::from([127, 0, 0, 8]);
        let bytes: Vec<u8> = (0..2500_u32).map(|at| at as u8).collect();
        assert!(from.send(2, &received, destination, &bytes).unwrap());
        let mut buffer = vec![0; MESSAGE_MAX];
        let to = to.entrance();
        let (arrived, at, place) = to.receive(&mut buffer).unwrap();
        assert_eq!((arrived, at, &buffer[place]), (received, destination, &bytes[..]));
        assert!(to.receive(&mut buffer).is_none());
    }

    #[test]
    fn a_slot_without_owner_takes_nothing() {
        let mut from = Handover::bind(NAMESPACE, 3).unwrap();
        let received = Received {
            length: 1,
            segment: 1,
            source: IpAddr::from([127, 0, 0, 9]),
            source_port: 1,
            traffic_class: 0,
        };
        assert!(!from.send(4, &received, received.source, b"x").unwrap());
    }

    #[test]
    fn a_message_that_makes_no_sense_is_skipped() {
        let mut from = Handover::bind(NAMESPACE, 5).unwrap();
        let to = Handover::bind(NAMESPACE, 6).unwrap();
        let stranger = UnixDatagram::unbound().unwrap();
        stranger.send_to_addr(b"hello", &name(NAMESPACE, 6).unwrap()).unwrap();
        let received = Received {
            length: 3,
            segment: 3,
            source: IpAddr::from([127, 0, 0, 9]),
            source_port: 1,
            traffic_class: 0,
        };
        from.send(6, &received, received.source, b"yes").unwrap();
        let mut buffer = vec![0; MESSAGE_MAX];
        let (_, _, place) = to.entrance().receive(&mut buffer).unwrap();
        assert_eq!(&buffer[place], b"yes");
    }
}
