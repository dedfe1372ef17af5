//! Where a NIC stands on its host. Sender and receiver both work there.

use core::ops::Range;

use crate::attachment::membership::Membership;
use crate::attachment::observers::Observers;
use crate::counts::Counts;
use crate::management::Management;
use crate::path::Paths;
use crate::sys::Sleepless;
use crate::udp::inbox::{Inbox, Look};

/// A NIC's place on its host: its slot and sockets, the paths to others, the messages of QP1, and who sees
/// what passes.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) membership: Membership,
    pub(crate) paths: Paths,
    pub(crate) management: Management,
    pub(crate) observers: Observers,
}

impl Site {
    /// Begins a look at `ports`.
    pub(crate) fn begin_look(
        &mut self,
        inbox: &mut Inbox,
        ports: Range<usize>,
        counts: &mut Counts,
    ) -> Look {
        let _sleepless = Sleepless::begin();
        let Self { membership, paths, .. } = self;
        inbox.renew(membership);
        let (all, is_whole) = (membership.ports(), ports.len() == membership.ports());
        paths.before_sockets(&ports, all, &membership.registry, counts);
        Look::new(ports, is_whole)
    }
}
