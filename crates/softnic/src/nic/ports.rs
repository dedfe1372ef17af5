//! Ports of connection management, as users of a NIC take them ([`crate::host::ports`]).

use core::net::IpAddr;
use std::io;

use wire::cm::ip::PortSpace;

use crate::clock::{retry, would_block};
use crate::host::ports::PortChange;
use crate::limits::PORT_RETRY;
use crate::{Nic, PortError};

impl Nic {
    /// Takes part in connection management: answers for QP1 on behalf of every process of its
    /// addresses, from now on and without being called.
    ///
    /// # Errors
    /// What the kernel said about the files that the processes of the host share.
    pub fn manage(&self) -> io::Result<()> {
        self.start();
        self.answer_for_management()
    }

    /// Takes port `number` of `space` at `address`, or a free one for 0, for as long as the process
    /// lives or until it is released. With `shared`, others may have it too, of whom one listens.
    ///
    /// # Errors
    /// See [`PortError`].
    pub fn bind_port(
        &self,
        address: IpAddr,
        space: PortSpace,
        number: u16,
        shared: bool,
    ) -> Result<u16, PortError> {
        self.change_port(address, (space, number), PortChange::Bind { shared })
    }

    /// Has the requests for a port that this NIC has taken brought here, or not any more. What is
    /// brought here meets the listeners of the manager.
    ///
    /// # Errors
    /// [`PortError::InUse`] if another listens there; see [`PortError`].
    pub fn listen_port(
        &self,
        address: IpAddr,
        space: PortSpace,
        number: u16,
        listens: bool,
    ) -> Result<(), PortError> {
        let what = if listens { PortChange::Listen } else { PortChange::Unlisten };
        self.change_port(address, (space, number), what).map(|_| ())
    }

    /// Gives a port back. `listens` says which, where this NIC has it more than once.
    ///
    /// # Errors
    /// See [`PortError`].
    pub fn release_port(
        &self,
        address: IpAddr,
        space: PortSpace,
        number: u16,
        listens: bool,
    ) -> Result<(), PortError> {
        self.change_port(address, (space, number), PortChange::Release { listens }).map(|_| ())
    }

    fn change_port(
        &self,
        address: IpAddr,
        port: (PortSpace, u16),
        what: PortChange,
    ) -> Result<u16, PortError> {
        let is_busy =
            |error: &PortError| matches!(error, PortError::Io(error) if would_block(error));
        // The lock is not held between two tries.
        retry(PORT_RETRY, is_busy, || match self.shared().lock().attachment.parts() {
            Some(parts) => parts.common.membership.change_port(address, port, what),
            None => Err(PortError::Address),
        })
    }

    pub(crate) fn answer_for_management(&self) -> io::Result<()> {
        match self.shared().lock().attachment.parts() {
            Some(parts) => parts.common.membership.answer_for_qp1(),
            None => Ok(()),
        }
    }
}
