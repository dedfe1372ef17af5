//! Asynchronous events: `ibv_get_async_event`, `ibv_ack_async_event`.

use core::ffi::c_int;
use std::sync::Arc;

use crate::context::Context;
use crate::cq::Cq;
use crate::errno::{Errno, minus_one};
use crate::qp::Qp;
use crate::registry;
use crate::srq::Srq;
use abi::{self, ibv_async_event, ibv_async_event_element, ibv_context};

/// Takes the oldest event, and waits for one unless the descriptor is non-blocking.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_async_event(
    context: *mut ibv_context,
    event: *mut ibv_async_event,
) -> c_int {
    minus_one!(registry::find::<Context>(context).and_then(|context| {
        context.check_process()?;
        let events = Arc::clone(&context.events);
        drop(context);
        // SAFETY: C passes a writable structure.
        let target = unsafe { event.as_mut() }.ok_or(Errno::NULL)?;
        let event = events.queue.pop()?;
        event.acks.fetch();
        let qp = core::ptr::with_exposed_provenance_mut(event.object);
        *target =
            ibv_async_event { element: ibv_async_event_element { qp }, event_type: event.kind };
        Ok(())
    }))
}

/// Acknowledges an event: its object is not destroyed before all are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_async_event(event: *mut ibv_async_event) {
    // SAFETY: C passes the structure that it was given.
    let Some(event) = (unsafe { event.as_ref() }) else { return };
    // SAFETY: every member of the union is as readable as any other.
    let (cq, qp, srq) = unsafe { (event.element.cq, event.element.qp, event.element.srq) };
    match event.event_type {
        abi::IBV_EVENT_CQ_ERR => {
            if let Ok(cq) = registry::find::<Cq>(cq) {
                Arc::clone(&cq.async_acks).acknowledge(1, |_| drop(cq));
            }
        }
        abi::IBV_EVENT_SRQ_ERR | abi::IBV_EVENT_SRQ_LIMIT_REACHED => {
            if let Ok(srq) = registry::find::<Srq>(srq) {
                Arc::clone(&srq.acks).acknowledge(1, |_| drop(srq));
            }
        }
        _ => {
            if let Ok(qp) = registry::find::<Qp>(qp) {
                Arc::clone(&qp.acks).acknowledge(1, |_| drop(qp));
            }
        }
    }
}
