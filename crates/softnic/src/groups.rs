//! Multicast groups that a NIC has joined: a socket for each.
//!
//! ```text
//!   datagram to 239.1.2.3:4791 ─┬─► socket of NIC A, bound to 239.1.2.3 ─► its queue pairs
//!                               └─► socket of NIC B, bound to 239.1.2.3 ─► its queue pairs
//! ```
//!
//! The sockets of the addresses get nothing of it: the kernel compares the address that a socket is
//! bound to with that of the datagram. And of those that are bound to the group, it gives a copy to
//! each that has joined on the interface, however many share the address and port; the program that
//! chooses among sockets ([`crate::steering`]) is not asked. So every NIC of every process gets
//! exactly one copy, those on the sender's host by the kernel's loop.
//!
//! A membership belongs to its socket: the kernel tells the network of the first on an interface
//! (IGMP, MLD), and of the end of the last, however the process ends.
//!
//! **Absent:** pauses. Nobody knows the room of all who listen, so a datagram for a full socket is
//! lost, as on any network.

use core::net::IpAddr;
use std::io;
use std::sync::Arc;

use rdma::{Gid, Qpn};
use transport::{CreateError, DestroyError};

use crate::Nic;
use crate::limits::{GROUPS_MAX, SOCKET_BUFFER_BYTES};
use crate::links::Links;
use crate::socket::Socket;

/// A group that a NIC has joined.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) socket: Arc<Socket>,
    /// How often it was joined, and not left since.
    times: u32,
}

/// Why a group could not be joined.
#[derive(Debug)]
pub enum GroupError {
    /// No such queue pair, not one for datagrams, no group, or too many.
    Attach(CreateError),
    /// What the kernel said, or that the device has no address of the group's family.
    Io(io::Error),
}

impl core::fmt::Display for GroupError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Attach(error) => write!(f, "the queue pair was not attached: {error}"),
            Self::Io(error) => write!(f, "the group was not joined: {error}"),
        }
    }
}

impl core::error::Error for GroupError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Attach(error) => Some(error),
            Self::Io(error) => Some(error),
        }
    }
}

impl From<io::Error> for GroupError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Nic {
    /// Joins a group on the device's interface, once more if it has been joined already: packets to
    /// it arrive from now on.
    ///
    /// # Errors
    /// What the kernel said; `InvalidInput` for what is no group, and `AddrNotAvailable` where the
    /// device has no address of the group's family.
    pub fn join_group(&self, group: Gid) -> io::Result<()> {
        let interface = self.device().interface_index;
        self.change_groups(|links| links.join_group(group.ip(), interface))
    }

    /// Takes one [`Nic::join_group`] back.
    pub fn leave_group(&self, group: Gid) {
        // Nothing in it can fail.
        let _ = self.change_groups(|links| {
            links.leave_group(group.ip());
            Ok(())
        });
    }

    /// Joins a group, and has a UD queue pair receive what is sent to it. To attach it once more
    /// changes nothing.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub fn attach_multicast(&self, qpn: Qpn, group: Gid) -> Result<(), GroupError> {
        let attached = self.with(|endpoint, _, _| endpoint.attach_multicast(qpn, group));
        if attached.map_err(GroupError::Attach)? {
            self.join_group(group).inspect_err(|_| {
                // It was attached a moment ago.
                let _ = self.with(|endpoint, _, _| endpoint.detach_multicast(qpn, group));
            })?;
        }
        Ok(())
    }

    /// Takes one [`Nic::attach_multicast`] back.
    ///
    /// # Errors
    /// [`DestroyError::NotFound`] if the queue pair is not attached.
    pub fn detach_multicast(&self, qpn: Qpn, group: Gid) -> Result<(), DestroyError> {
        self.with(|endpoint, _, _| endpoint.detach_multicast(qpn, group))?;
        self.leave_group(group);
        Ok(())
    }

    /// Detaches a queue pair from every group, so that it can be destroyed.
    pub fn detach_all_multicast(&self, qpn: Qpn) {
        let groups: Vec<Gid> = self.with(|endpoint, _, _| endpoint.groups_of(qpn).collect());
        for group in groups {
            // Another thread may have been faster.
            let _ = self.detach_multicast(qpn, group);
        }
    }
}

impl Links {
    fn join_group(&mut self, group: IpAddr, interface: u32) -> io::Result<()> {
        if !group.is_multicast() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if let Some(joined) = self.groups.iter_mut().find(|it| it.socket.address() == group) {
            joined.times += 1;
            return Ok(());
        }
        // What a sender of the other family says cannot be answered, nor be sent.
        if !self.sockets.iter().any(|socket| socket.address().is_ipv4() == group.is_ipv4()) {
            return Err(io::Error::from_raw_os_error(libc::EADDRNOTAVAIL));
        }
        if self.groups.len() >= GROUPS_MAX {
            return Err(io::Error::from_raw_os_error(libc::ENOBUFS));
        }
        let socket = Arc::new(Socket::join(group, interface, SOCKET_BUFFER_BYTES)?);
        tracing::debug!(%group, "joined");
        self.groups.push(Joined { socket, times: 1 });
        self.layout = self.layout.wrapping_add(1);
        Ok(())
    }

    fn leave_group(&mut self, group: IpAddr) {
        let Some(at) = self.groups.iter().position(|it| it.socket.address() == group) else {
            return;
        };
        self.groups[at].times -= 1;
        if self.groups[at].times == 0 {
            self.groups.swap_remove(at);
            self.layout = self.layout.wrapping_add(1);
            tracing::debug!(%group, "left");
        }
    }
}
