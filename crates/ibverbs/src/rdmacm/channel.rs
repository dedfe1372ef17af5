//! Event channels: `rdma_create_event_channel`, `rdma_event_str`.

use core::ffi::c_char;
use std::sync::Arc;

use super::abi::{event, rdma_event_channel};
use crate::connections::Queue;
use crate::errno::{Errno, pointer};
use crate::registry::{self, Object, Shared, object};

/// A channel: a queue of events with a descriptor.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct EventChannel {
    c: Shared<rdma_event_channel>,
    pub(super) queue: Arc<Queue>,
}

object!(EventChannel, rdma_event_channel);

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
