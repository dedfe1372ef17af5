//! Multicast groups that a NIC has joined: a socket for each.
//!
//! ```text
//!   datagram to 239.1.2.3:4791 ─┬─► socket of NIC A, bound to 239.1.2.3 ─► its queue pairs
//!                               └─► socket of NIC B, bound to 239.1.2.3 ─► its queue pairs
//! ```
//!
//! The kernel gives a copy to each socket that is bound to the group and has joined it on the interface,
//! however many share the address and port. The program that chooses among sockets
//! ([`crate::host::steering`]) is not asked. So every NIC of every process gets exactly one copy. A
//! membership belongs to its socket, and ends with it (IGMP, MLD), however the process ends.
//!
//! **Absent:** pauses. Nobody knows the room of all who listen, so a datagram for a full socket is lost.

use core::net::IpAddr;
use std::io;
use std::sync::Arc;

use crate::limits::{GROUPS_MAX, SOCKET_BUFFER_BYTES};
use crate::udp::port::Port;
use crate::udp::socket::Socket;

/// The groups that a NIC has joined.
#[derive(Debug, Default)]
pub(crate) struct Groups(Vec<Joined>);

/// A group that a NIC has joined.
#[derive(Debug)]
struct Joined {
    socket: Arc<Port>,
    /// How often it was joined, and not left since.
    times: u32,
}

impl Groups {
    /// Joins `group` on an interface, once more if it has been joined already. Returns whether there
    /// is a new socket.
    pub(crate) fn join(&mut self, group: IpAddr, interface: u32) -> io::Result<bool> {
        if let Some(joined) = self.0.iter_mut().find(|it| it.socket.address() == group) {
            joined.times += 1;
            return Ok(false);
        }
        if self.0.len() >= GROUPS_MAX {
            return Err(io::Error::from_raw_os_error(libc::ENOBUFS));
        }
        let socket = Arc::new(Port::Udp(Socket::join(group, interface, SOCKET_BUFFER_BYTES)?));
        tracing::debug!(%group, "joined");
        self.0.push(Joined { socket, times: 1 });
        Ok(true)
    }

    /// Takes one [`Groups::join`] back. Returns whether a socket is gone.
    pub(crate) fn leave(&mut self, group: IpAddr) -> bool {
        let Some(at) = self.0.iter().position(|it| it.socket.address() == group) else {
            return false;
        };
        self.0[at].times -= 1;
        let is_last = self.0[at].times == 0;
        if is_last {
            self.0.swap_remove(at);
            tracing::debug!(%group, "left");
        }
        is_last
    }

    /// Whether `group` has been joined.
    pub(crate) fn has(&self, group: IpAddr) -> bool {
        self.sockets().any(|socket| socket.address() == group)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The socket of each.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = &Arc<Port>> {
        self.0.iter().map(|joined| &joined.socket)
    }
}
