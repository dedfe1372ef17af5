//! Ids are made, destroyed and moved: `rdma_create_id`, `rdma_destroy_id`, `rdma_migrate_id`.

use core::ffi::{c_int, c_void};
use std::sync::Arc;

use wire::cm::ip::PortSpace;

use super::abi::{rdma_cm_id, rdma_event_channel};
use super::channel::EventChannel;
use super::id::CmId;
use super::{membership, told};
use crate::connections::Mailbox;
use crate::errno::{Errno, minus_one};
use crate::log;
use crate::registry::{self, Object};

fn port_space(number: u32) -> Result<PortSpace, Errno> {
    let space = PortSpace(u16::try_from(number).map_err(|_| Errno::new(libc::EPROTONOSUPPORT))?);
    match space {
        PortSpace::TCP | PortSpace::UDP | PortSpace::IB | PortSpace::IPOIB => Ok(space),
        _ => Err(Errno::new(libc::EPROTONOSUPPORT)),
    }
}

/// The channel that C names, or a new one, and whether it is new.
fn named_or_own(channel: *mut rdma_event_channel) -> Result<(Arc<EventChannel>, bool), Errno> {
    match registry::find_unless_null(channel)? {
        Some(channel) => Ok((channel, false)),
        None => Ok((EventChannel::create()?, true)),
    }
}

/// An id with a channel, or a synchronous one with a channel of its own.
pub(super) fn create(
    channel: *mut rdma_event_channel,
    context: *mut c_void,
    ps: u32,
) -> Result<Arc<CmId>, Errno> {
    log::start();
    registry::guard_forks();
    let space = port_space(ps)?;
    let (channel, is_own) = named_or_own(channel)?;
    let mailbox = Mailbox::new(Arc::clone(&channel.queue));
    let id = CmId::new(mailbox, channel.c(), context, space);
    if is_own {
        id.lock().own_channel = Some(channel);
    }
    registry::insert(Arc::clone(&id));
    Ok(id)
}

/// Makes an id.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_create_id(
    channel: *mut rdma_event_channel,
    id: *mut *mut rdma_cm_id,
    context: *mut c_void,
    ps: u32,
) -> c_int {
    minus_one!((|| {
        // SAFETY: C passes a writable pointer.
        let target = unsafe { id.as_mut() }.ok_or(Errno::NULL)?;
        *target = create(channel, context, ps)?.c();
        Ok(())
    })())
}

/// Destroys an id, once its events are acknowledged.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_destroy_id(id: *mut rdma_cm_id) -> c_int {
    minus_one!(registry::find::<CmId>(id).map(|id| destroy(&id)))
}

pub(super) fn destroy(id: &CmId) {
    membership::leave_all(id);
    id.leave();
    // We acknowledge the last event of a synchronous id.
    told::acknowledge_own(id);
    id.acks.wait();
    registry::remove(id);
    if let Some(channel) = id.lock().own_channel.take() {
        registry::remove(&*channel);
    }
}

/// Moves an id, and the events that wait for it, to another channel, or to one of its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_migrate_id(
    id: *mut rdma_cm_id,
    channel: *mut rdma_event_channel,
) -> c_int {
    minus_one!(registry::find::<CmId>(id).and_then(|id| migrate(&id, channel)))
}

pub(super) fn migrate(id: &Arc<CmId>, channel: *mut rdma_event_channel) -> Result<(), Errno> {
    let (channel, is_own) = named_or_own(channel)?;
    told::acknowledge_own(id);
    id.acks.wait();
    id.mailbox.move_to(Arc::clone(&channel.queue));
    id.show(|c| c.channel = channel.c());
    let before = core::mem::replace(&mut id.lock().own_channel, is_own.then_some(channel));
    if let Some(before) = before {
        registry::remove(&*before);
    }
    Ok(())
}
