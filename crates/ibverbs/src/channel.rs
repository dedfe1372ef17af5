//! Completion channels: `ibv_create_comp_channel`, `ibv_get_cq_event`.

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::sync::Arc;

use softnic::StandIn;

use crate::context::{Context, owned};
use crate::errno::{Errno, minus_one, pointer, status};
use crate::event::EventQueue;
use crate::registry::{self, Object, Shared};
use crate::signals;
use crate::sink::CompletionEvent;
use abi::{ibv_comp_channel, ibv_context, ibv_cq};

/// A channel: a queue of completion events with a descriptor.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Channel {
    c: Shared<ibv_comp_channel>,
    pub(crate) context: Arc<Context>,
    pub(crate) queue: Arc<EventQueue<CompletionEvent>>,
}

owned!(context, Channel, ibv_comp_channel);

impl Drop for Channel {
    fn drop(&mut self) {
        self.context.events.channels.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Makes a channel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_comp_channel(
    context: *mut ibv_context,
) -> *mut ibv_comp_channel {
    let context = registry::find::<Context>(context);
    pointer!(context.and_then(|context| Ok(create(&context)?.c())))
}

/// Makes a channel.
pub(crate) fn create(context: &Arc<Context>) -> Result<Arc<Channel>, Errno> {
    context.check_process()?;
    let queue = Arc::new(EventQueue::new()?);
    let c = ibv_comp_channel { context: context.c(), fd: queue.fd(), refcnt: 0 };
    context.events.channels.fetch_add(1, Ordering::Relaxed);
    let channel = Arc::new(Channel { c: Shared::new(c), context: Arc::clone(context), queue });
    registry::insert(Arc::clone(&channel));
    Ok(channel)
}

/// Destroys a channel; `EBUSY` while a completion queue uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    status!(registry::find::<Channel>(channel).and_then(|channel| destroy(&channel)))
}

/// Destroys a channel. The caller has the only other reference.
pub(crate) fn destroy(channel: &Arc<Channel>) -> Result<(), Errno> {
    registry::check_unused(channel)?;
    registry::remove(&**channel);
    Ok(())
}

/// Takes the oldest event; waits for one unless the descriptor is non-blocking. Cancelling the thread
/// meanwhile unwinds through this call.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    minus_one!(registry::find::<Channel>(channel).and_then(|channel| {
        if cq.is_null() || cq_context.is_null() {
            return Err(Errno::NULL);
        }
        channel.context.check_process()?;
        // No reference to the channel is held while waiting: another thread may destroy it.
        let queue = Arc::clone(&channel.queue);
        let nic = channel.context.nic.stand_in();
        // A thread that handles an event of one channel would be late for those of another.
        let is_alone = channel.context.events.channels.load(Ordering::Relaxed) == 1;
        drop(channel);
        if is_alone {
            progress(&nic, &queue)?;
        }
        let waiting = nic.waiting();
        let event = queue.pop()?;
        drop(waiting);
        event.acks.fetch();
        let handle = core::ptr::with_exposed_provenance_mut::<ibv_cq>(event.cq);
        // SAFETY: C passes two writable pointers. The queue is alive: destroying it withdraws its
        // events first.
        unsafe {
            *cq = handle;
            *cq_context = (*handle).cq_context;
        }
        Ok(())
    }))
}

/// Does the progress thread's work until there is an event, unless another thread does it, or the
/// program does not want to wait.
fn progress(nic: &StandIn, queue: &EventQueue<CompletionEvent>) -> Result<(), Errno> {
    if !queue.is_empty() || queue.is_nonblocking() {
        return Ok(());
    }
    loop {
        match nic.until(queue.as_fd(), || !queue.is_empty()) {
            Err(error) if error.kind() == ErrorKind::Interrupted && signals::restart() => {}
            result => return result.map_err(Errno::from),
        }
    }
}
