//! Event channels: `rdma_create_event_channel`, `rdma_get_cm_event`, `rdma_ack_cm_event`.

use core::ffi::{c_char, c_int};
use core::ptr;
use std::sync::Arc;

use super::abi::{event, rdma_cm_event, rdma_event_channel};
use super::deliver::{self, Told};
use super::dispatch::Queue;
use super::id::CmId;
use crate::context::Context;
use crate::errno::{Errno, minus_one, pointer};
use crate::registry::{self, Live, Object, Shared, Table};

/// A channel: a queue of events with a descriptor.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct EventChannel {
    c: Shared<rdma_event_channel>,
    pub(super) queue: Arc<Queue>,
}

impl Object for EventChannel {
    type C = rdma_event_channel;

    fn table(live: &mut Live) -> &mut Table<Self> {
        &mut live.cm_channels
    }

    fn c(&self) -> *mut rdma_event_channel {
        self.c.get()
    }

    fn context(&self) -> Option<&Arc<Context>> {
        None
    }
}

impl EventChannel {
    pub(super) fn create() -> Result<Arc<Self>, Errno> {
        let queue = Arc::new(Queue::new()?);
        let c = rdma_event_channel { fd: queue.fd() };
        let channel = Arc::new(Self { c: Shared::new(c), queue });
        registry::insert(Arc::clone(&channel));
        Ok(channel)
    }
}

/// Makes a channel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_create_event_channel() -> *mut rdma_event_channel {
    crate::log::start();
    pointer(EventChannel::create().map(|channel| channel.c()))
}

/// Destroys a channel. Its ids are to be destroyed, or moved to others, before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_destroy_event_channel(channel: *mut rdma_event_channel) {
    if let Ok(channel) = registry::find::<EventChannel>(channel) {
        registry::remove(&*channel);
    }
}

/// Takes the oldest event, and waits for one unless the descriptor is non-blocking.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_get_cm_event(
    channel: *mut rdma_event_channel,
    event: *mut *mut rdma_cm_event,
) -> c_int {
    minus_one(registry::find::<EventChannel>(channel).and_then(|channel| {
        // SAFETY: C passes a writable pointer.
        let target = unsafe { event.as_mut() }.ok_or(Errno::INVALID)?;
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

/// Acknowledges an event, which is gone then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_ack_cm_event(event: *mut rdma_cm_event) -> c_int {
    minus_one(registry::find::<Told>(event).map(|told| acknowledge(&told)))
}

fn acknowledge(told: &Told) {
    registry::remove(told);
    told.acks.acknowledge(1, |_| ());
}

/// Acknowledges the event that a synchronous id shows, if there is one.
pub(super) fn acknowledge_own(id: &CmId) {
    if id.lock().own_channel.is_none() {
        return;
    }
    let event = id.shown().event;
    id.show(|c| c.event = ptr::null_mut());
    if let Ok(told) = registry::find::<Told>(event) {
        acknowledge(&told);
    }
}

/// Waits for the outcome of what a synchronous id has begun; an asynchronous one returns at once.
///
/// # Errors
/// The error number of the event.
pub(super) fn complete(id: &CmId) -> Result<(), Errno> {
    let Some(channel) = id.lock().own_channel.clone() else { return Ok(()) };
    acknowledge_own(id);
    let event = next(&channel.queue)?;
    id.show(|c| c.event = event);
    // SAFETY: an event that was just made and that nobody has acknowledged.
    let (kind, status) = unsafe { ((*event).event, (*event).status) };
    match status {
        0 => Ok(()),
        _ if kind == event::REJECTED => Err(Errno(libc::ECONNREFUSED)),
        status => Err(Errno(status.saturating_abs())),
    }
}

/// The name of an event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_event_str(event: u32) -> *const c_char {
    let name = match event {
        event::ADDR_RESOLVED => c"RDMA_CM_EVENT_ADDR_RESOLVED",
        event::ADDR_ERROR => c"RDMA_CM_EVENT_ADDR_ERROR",
        event::ROUTE_RESOLVED => c"RDMA_CM_EVENT_ROUTE_RESOLVED",
        event::ROUTE_ERROR => c"RDMA_CM_EVENT_ROUTE_ERROR",
        event::CONNECT_REQUEST => c"RDMA_CM_EVENT_CONNECT_REQUEST",
        event::CONNECT_RESPONSE => c"RDMA_CM_EVENT_CONNECT_RESPONSE",
        event::CONNECT_ERROR => c"RDMA_CM_EVENT_CONNECT_ERROR",
        event::UNREACHABLE => c"RDMA_CM_EVENT_UNREACHABLE",
        event::REJECTED => c"RDMA_CM_EVENT_REJECTED",
        event::ESTABLISHED => c"RDMA_CM_EVENT_ESTABLISHED",
        event::DISCONNECTED => c"RDMA_CM_EVENT_DISCONNECTED",
        event::DEVICE_REMOVAL => c"RDMA_CM_EVENT_DEVICE_REMOVAL",
        event::MULTICAST_JOIN => c"RDMA_CM_EVENT_MULTICAST_JOIN",
        event::MULTICAST_ERROR => c"RDMA_CM_EVENT_MULTICAST_ERROR",
        event::ADDR_CHANGE => c"RDMA_CM_EVENT_ADDR_CHANGE",
        event::TIMEWAIT_EXIT => c"RDMA_CM_EVENT_TIMEWAIT_EXIT",
        _ => c"UNKNOWN EVENT",
    };
    name.as_ptr()
}
