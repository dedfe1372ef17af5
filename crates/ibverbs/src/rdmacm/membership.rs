//! The multicast groups of an id: the outcome of joining, and leaving.

use core::ffi::c_int;

use rdma::{Gid, Qpn};

use super::abi::{RDMA_UDP_QKEY, event, rdma_ud_param};
use super::id::{CmId, Inner, Membership};
use super::states;
use crate::connections::What;
use crate::errno::Errno;
use abi::{Plain, ibv_ah_attr};

/// The event of a membership, unless the program has left meanwhile: event, status and path.
pub(super) fn joined(id: &CmId, number: u64, status: c_int) -> Option<(u32, c_int, rdma_ud_param)> {
    let mut inner = id.lock();
    let at = inner.memberships.iter().position(|it| it.number == number)?;
    let context = core::ptr::with_exposed_provenance(inner.memberships[at].context);
    let param = rdma_ud_param { private_data: context, ..rdma_ud_param::zeroed() };
    let result = match status {
        0 => attach(id, &mut inner, at),
        status => Err(Errno::new(-status)),
    };
    Some(match result {
        Ok(ah_attr) => {
            let (qp_num, qkey) = (Qpn::MULTICAST.value(), RDMA_UDP_QKEY);
            (event::MULTICAST_JOIN, 0, rdma_ud_param { ah_attr, qp_num, qkey, ..param })
        }
        Err(Errno { number, .. }) => (event::MULTICAST_ERROR, -number, param),
    })
}

/// Attaches the id's queue pair, if it has one that is to receive, and returns how to send.
fn attach(id: &CmId, inner: &mut Inner, at: usize) -> Result<ibv_ah_attr, Errno> {
    let device = inner
        .context
        .clone()
        .ok_or(Errno::invalid("the id has no device: resolve or bind its address first"))?;
    let source = inner.local.ok_or(Errno::invalid("the id has no address"))?.ip().into();
    let traffic_class = inner.settings.traffic_class;
    let membership = &mut inner.memberships[at];
    let path = states::path_to(&device, source, membership.group, traffic_class)?;
    // SAFETY: a queue pair that was made for the id, and that the program has not destroyed.
    let qp = unsafe { id.shown().qp.as_ref() }.filter(|_| !membership.sends_only);
    if let Some(qp) = qp {
        let qpn = Qpn::new(qp.qp_num);
        device.nic.attach_multicast(qpn, membership.group)?;
        membership.attached = Some(qpn);
    }
    Ok(path)
}

/// Leaves every group of an id.
pub(super) fn leave_all(id: &CmId) {
    detach_all(id);
    let left = core::mem::take(&mut id.lock().memberships);
    left.iter().for_each(|membership| leave(id, membership));
}

/// Takes the id's queue pair out of every group, so that it can be destroyed.
pub(super) fn detach_all(id: &CmId) {
    let mut inner = id.lock();
    for at in 0..inner.memberships.len() {
        let attached = inner.memberships[at].attached.take();
        detach(&inner, attached, inner.memberships[at].group);
    }
}

pub(super) fn detach(inner: &Inner, attached: Option<Qpn>, group: Gid) {
    // The queue pair stays as long as another membership of the group has attached it.
    let is_it = |it: &Membership| it.attached == attached && it.group == group;
    if let (Some(device), Some(qpn)) = (&inner.context, attached)
        && !inner.memberships.iter().any(is_it)
    {
        // The program may have been faster.
        let _ = device.nic.detach_multicast(qpn, group);
    }
}

/// Undoes joining, but does not detach the queue pair.
pub(super) fn leave(id: &CmId, left: &Membership) {
    if let Some(device) = &left.joined {
        device.nic.leave_group(left.group);
    }
    let is_its = |what: &What| matches!(what, What::Joined(number, _) if *number == left.number);
    let queue = id.mailbox.queue();
    drop(queue.take(|raw| is_its(&raw.what)));
}
