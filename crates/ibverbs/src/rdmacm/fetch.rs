//! Fetching events: `rdma_get_cm_event`. A synchronous id fetches them inside the call that leads to them.

use core::ffi::c_int;
use std::sync::Arc;

use super::abi::{event, rdma_cm_event, rdma_event_channel};
use super::channel::EventChannel;
use super::id::CmId;
use super::{deliver, told};
use crate::connections::Queue;
use crate::errno::{Errno, minus_one};
use crate::registry;

/// Takes the oldest event, and waits for one unless the descriptor is non-blocking.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_get_cm_event(
    channel: *mut rdma_event_channel,
    event: *mut *mut rdma_cm_event,
) -> c_int {
    minus_one!(registry::find::<EventChannel>(channel).and_then(|channel| {
        // SAFETY: C passes a writable pointer.
        let target = unsafe { event.as_mut() }.ok_or(Errno::NULL)?;
        // No reference to the channel is held while waiting: another thread may destroy it.
        let queue = Arc::clone(&channel.queue);
        drop(channel);
        *target = next(&queue)?;
        Ok(())
    }))
}

/// The next event of a queue.
pub(super) fn next(queue: &Queue) -> Result<*mut rdma_cm_event, Errno> {
    loop {
        // Not every message is an event to the program.
        if let Some(told) = deliver::tell(queue.pop()?) {
            return Ok(registry::insert(told));
        }
    }
}

/// Waits for the outcome of a synchronous id's call; for an asynchronous id returns at once.
///
/// # Errors
/// The error number of the event.
pub(super) fn complete(id: &CmId) -> Result<(), Errno> {
    let Some(channel) = id.lock().own_channel.clone() else { return Ok(()) };
    told::acknowledge_own(id);
    let event = next(&channel.queue)?;
    id.show(|c| c.event = event);
    // SAFETY: an event that was just made, and is not acknowledged.
    let (kind, status) = unsafe { ((*event).event, (*event).status) };
    match status {
        0 => Ok(()),
        _ if kind == event::REJECTED => Err(Errno::new(libc::ECONNREFUSED)),
        status => Err(Errno::new(status.saturating_abs())),
    }
}
