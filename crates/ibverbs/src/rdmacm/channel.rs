//! Event channels: `rdma_create_event_channel`, `rdma_event_str`.

use core::ffi::c_char;
use std::sync::Arc;

use super::abi::{event_name, rdma_event_channel};
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
    pointer!(EventChannel::create().map(|channel| channel.c()))
}

/// Destroys a channel. Its ids are to be destroyed, or moved to others, before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_destroy_event_channel(channel: *mut rdma_event_channel) {
    let _gone = registry::forget::<EventChannel>(channel);
}

/// The name of an event.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_event_str(event: u32) -> *const c_char {
    event_name(event).as_ptr().cast()
}
