//! Completion channels: `ibv_create_comp_channel`, `ibv_get_cq_event`, `ibv_ack_cq_events`.

use core::ffi::{c_int, c_uint, c_void};
use core::sync::atomic::Ordering;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::sync::Arc;

use softnic::StandIn;

use crate::abi::{ibv_comp_channel, ibv_context, ibv_cq};
use crate::context::Context;
use crate::cq::Cq;
use crate::errno::{Errno, minus_one, pointer, status};
use crate::event::{CompletionEvent, EventQueue};
use crate::registry::{self, Live, Object, Shared, Table};
use crate::signals;

/// A channel: a queue of completion events with a descriptor.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Channel {
    c: Shared<ibv_comp_channel>,
    pub(crate) context: Arc<Context>,
    pub(crate) queue: Arc<EventQueue<CompletionEvent>>,
}

impl Object for Channel {
    type C = ibv_comp_channel;

    fn table(live: &mut Live) -> &mut Table<Self> {
        &mut live.channels
    }

    fn c(&self) -> *mut ibv_comp_channel {
        self.c.get()
    }

    fn context(&self) -> Option<&Arc<Context>> {
        Some(&self.context)
    }
}

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
    pointer(registry::find::<Context>(context).and_then(|context| {
        let queue = Arc::new(EventQueue::new()?);
        let c = ibv_comp_channel { context: context.c(), fd: queue.fd(), refcnt: 0 };
        context.events.channels.fetch_add(1, Ordering::Relaxed);
        Ok(registry::insert(Arc::new(Channel { c: Shared::new(c), context, queue })))
    }))
}

/// Destroys a channel; `EBUSY` while a completion queue uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    status(registry::find::<Channel>(channel).and_then(|channel| {
        registry::check_unused(&channel)?;
        registry::remove(&*channel);
        Ok(())
    }))
}

/// Takes the oldest event, and waits for one unless the descriptor is non-blocking. A thread that is
/// cancelled meanwhile is unwound through it.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    minus_one(registry::find::<Channel>(channel).and_then(|channel| {
        if cq.is_null() || cq_context.is_null() {
            return Err(Errno::INVALID);
        }
        // No reference to the channel is held while waiting: another thread may destroy it.
        let queue = Arc::clone(&channel.queue);
        let nic = channel.context.nic.stand_in();
        // Who is away with an event of one channel is late for those of another.
        let is_alone = channel.context.events.channels.load(Ordering::Relaxed) == 1;
        drop(channel);
        if is_alone {
            stand_in(&nic, &queue)?;
        }
        let waiting = nic.waiting();
        let event = queue.pop_or_be_cancelled()?;
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

/// Looks after the NIC until there is an event, unless another does, or the program does not want to
/// wait.
fn stand_in(nic: &StandIn, queue: &EventQueue<CompletionEvent>) -> Result<(), Errno> {
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

/// Acknowledges events: a completion queue is not destroyed before all are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_cq_events(cq: *mut ibv_cq, nevents: c_uint) {
    if let Ok(cq) = registry::find::<Cq>(cq) {
        Arc::clone(&cq.completion_acks).acknowledge(nevents, |total| {
            // SAFETY: only this function writes the field.
            unsafe { (*cq.c()).comp_events_completed = total };
            drop(cq);
        });
    }
}
