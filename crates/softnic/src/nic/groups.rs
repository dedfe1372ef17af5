//! Multicast groups, as users of a NIC join them ([`crate::udp::groups`]).

use std::io;

use rdma::{Gid, Qpn};
use transport::{CreateError, DestroyError};

use crate::Nic;

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
        self.change_groups(|membership| membership.join_group(group.ip(), interface))
    }

    /// Takes one [`Nic::join_group`] back.
    pub fn leave_group(&self, group: Gid) {
        // Nothing in it can fail.
        let _ = self.change_groups(|membership| {
            membership.leave_group(group.ip());
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
