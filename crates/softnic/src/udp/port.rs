//! What packets leave from and arrive at: a UDP socket, or the path to a lab.

use core::net::IpAddr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rdma::Gid;

use crate::lab::Link;
use crate::packet::InBuffer;
use crate::packet::Message;
use crate::udp::socket::Socket;

/// See the module.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "each is in an Arc of its own")]
pub(crate) enum Port {
    Udp(Socket),
    Lab(Link),
}

impl Port {
    pub(crate) fn address(&self) -> IpAddr {
        match self {
            Self::Udp(socket) => socket.address(),
            Self::Lab(link) => link.address(),
        }
    }

    /// The address as GIDs have it.
    pub(crate) fn gid(&self) -> Gid {
        match self {
            Self::Udp(socket) => socket.gid(),
            Self::Lab(link) => link.address().into(),
        }
    }

    /// The path to the lab, if it is that.
    pub(crate) fn link(&self) -> Option<&Link> {
        match self {
            Self::Udp(_) => None,
            Self::Lab(link) => Some(link),
        }
    }

    /// Room for what arrives and is not taken yet, in bytes as the kernel counts them.
    pub(crate) fn receive_buffer_bytes(&self) -> u64 {
        match self {
            Self::Udp(socket) => socket.receive_buffer_bytes(),
            // Nothing is lost there: it fills, and the NIC of the host pauses.
            Self::Lab(_) => u64::MAX,
        }
    }

    /// What was dropped for want of room.
    pub(crate) fn overflows(&self) -> u64 {
        match self {
            Self::Udp(socket) => socket.overflows(),
            Self::Lab(_) => 0,
        }
    }

    /// See [`Socket::may_be_bound`].
    pub(crate) fn may_be_bound(&self, address: IpAddr) -> io::Result<bool> {
        match self {
            Self::Udp(socket) => socket.may_be_bound(address),
            Self::Lab(link) => Ok(link.address() == address),
        }
    }

    /// Takes the next datagram, or GSO batch; `None` if there is none.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> Option<InBuffer> {
        match self {
            Self::Udp(socket) => socket.receive(buffer).map(|received| {
                let (destination, place) = (socket.address(), 0..received.length);
                InBuffer { received, destination, place }
            }),
            Self::Lab(link) => link.receive(buffer),
        }
    }

    /// Sends messages, and returns how many were taken.
    ///
    /// # Errors
    /// What was said to the first message, if none was taken.
    pub(crate) fn send(&self, messages: &[Message<'_>]) -> io::Result<usize> {
        match self {
            Self::Udp(socket) => socket.send(messages),
            Self::Lab(link) => Ok(link.send(messages)),
        }
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Udp(socket) => socket.as_fd(),
            Self::Lab(link) => link.as_fd(),
        }
    }
}
