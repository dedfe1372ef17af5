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

    /// Changes what is known of port `number` of `space` at `address`, and says which number it has. Where
    /// it is bound to 0 it is given a free one. A port is its owner's for as long as the process lives, or
    /// until it is released. Requests that are brought here meet the listeners of the manager.
    ///
    /// # Errors
    /// [`PortError::InUse`] if another has it, or listens there; see [`PortError`].
    pub fn change_port(
        &self,
        address: IpAddr,
        (space, number): (PortSpace, u16),
        what: PortChange,
    ) -> Result<u16, PortError> {
        let is_busy =
            |error: &PortError| matches!(error, PortError::Io(error) if would_block(error));
        // The lock is not held between two tries.
        retry(PORT_RETRY, is_busy, || {
            self.shared().lock().attachment.site.membership.change_port(
                address,
                (space, number),
                what,
            )
        })
    }

    pub(crate) fn answer_for_management(&self) -> io::Result<()> {
        self.shared().lock().attachment.site.membership.answer_for_qp1()
    }
}
