//! Multicast: which UD queue pairs get what is sent to a group.
//!
//! ```text
//!   datagram to group G, QPN 0xffffff ──► each queue pair that is attached to G, one copy
//! ```
//!
//! Each has its own Q_Key, receive and completion, as if it were alone. The driver sees to it that
//! packets of a group reach this endpoint.

use rdma::{Gid, Memory, QpType, Qpn};

use super::Endpoint;
use crate::arrival::Arrival;
use crate::limits::{MULTICAST_GROUPS_MAX, MULTICAST_QPS_MAX};
use crate::responder::Request;
use crate::stats::Drop;
use crate::{CreateError, DestroyError};

impl Endpoint {
    /// Attaches a UD queue pair to a group, in any state. Returns whether it was not attached
    /// before.
    ///
    /// # Errors
    /// [`CreateError::NotFound`]; [`CreateError::Mismatch`] for a queue pair that is not UD, or a GID
    /// that names no group; [`CreateError::Exhausted`].
    pub fn attach_multicast(&mut self, qpn: Qpn, group: Gid) -> Result<bool, CreateError> {
        let qp = self.qp(qpn).ok_or(CreateError::NotFound)?;
        if qp.spec.kind != QpType::Ud || !group.is_multicast() {
            return Err(CreateError::Mismatch);
        }
        let is_full = self.groups.len() >= MULTICAST_GROUPS_MAX;
        if is_full && !self.groups.contains_key(&group) {
            return Err(CreateError::Exhausted);
        }
        let members = self.groups.entry(group).or_default();
        if members.contains(&qpn) {
            return Ok(false);
        }
        if members.len() >= MULTICAST_QPS_MAX {
            return Err(CreateError::Exhausted);
        }
        members.push(qpn);
        Ok(true)
    }

    /// Detaches a queue pair from a group.
    ///
    /// # Errors
    /// [`DestroyError::NotFound`] if it is not attached.
    pub fn detach_multicast(&mut self, qpn: Qpn, group: Gid) -> Result<(), DestroyError> {
        let members = self.groups.get_mut(&group).ok_or(DestroyError::NotFound)?;
        let at = members.iter().position(|member| *member == qpn).ok_or(DestroyError::NotFound)?;
        members.remove(at);
        if members.is_empty() {
            self.groups.remove(&group);
        }
        Ok(())
    }

    /// The groups that a queue pair is attached to.
    pub fn groups_of(&self, qpn: Qpn) -> impl Iterator<Item = Gid> + '_ {
        let groups = self.groups.iter().filter(move |(_, members)| members.contains(&qpn));
        groups.map(|(group, _)| *group)
    }

    pub(super) fn is_attached(&self, qpn: Qpn) -> bool {
        self.groups_of(qpn).next().is_some()
    }

    /// A packet for all members of a group. It succeeds if one of them takes it.
    pub(super) fn handle_multicast<M: Memory>(
        &mut self,
        arrival: &Arrival,
        request: &Request<'_, '_, M>,
        memory: &mut M,
    ) -> Result<(), Drop> {
        // None of what follows attaches or detaches.
        let members = self.groups.get_mut(&arrival.destination).map(core::mem::take);
        let Some(members) = members else {
            self.adapter.stats.drop_packet(Drop::UnknownQpn);
            return Err(Drop::UnknownQpn);
        };
        let mut result = Err(Drop::UnknownQpn);
        for &qpn in &members {
            let Some((qp, adapter)) = self.qp_mut(qpn) else { continue };
            result = result.or(qp.handle(arrival, request, memory, adapter));
            let call = qp.call();
            self.enter(qpn, call);
        }
        if let Some(place) = self.groups.get_mut(&arrival.destination) {
            *place = members;
        }
        result
    }
}
