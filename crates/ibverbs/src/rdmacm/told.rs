//! Events as C sees them: those that the program has fetched and not yet acknowledged
//! (`rdma_ack_cm_event`), and its own (`rdma_write_cm_event`).

use core::ffi::c_int;
use core::ptr;
use std::sync::Arc;

use super::abi::{
    event, rdma_cm_event, rdma_cm_id, rdma_conn_param, rdma_event_param, rdma_ud_param,
};
use super::id::CmId;
use crate::connections::What;
use crate::errno::{Errno, minus_one};
use crate::event::Acks;
use crate::registry::{self, Object, Shared, object};
use abi::Plain;

/// An event that the program has fetched.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Told {
    c: Shared<rdma_cm_event>,
    /// What the event's pointer to private data refers to.
    _private: Box<[u8]>,
    /// Those of the id that waits for the acknowledgement before it goes.
    acks: Arc<Acks>,
}

object!(Told, rdma_cm_event);

/// What comes with an event.
pub(super) enum Detail {
    Nothing,
    Connection(rdma_conn_param, Box<[u8]>),
    Datagram(rdma_ud_param, Box<[u8]>),
    Argument(u64),
}

impl Told {
    pub(super) fn new(
        id: &CmId,
        listener: Option<&CmId>,
        kind: u32,
        status: c_int,
        detail: Detail,
    ) -> Arc<Self> {
        // A request is counted where it was asked.
        let acks = Arc::clone(&listener.unwrap_or(id).acks);
        acks.fetch();
        let (mut param, private) = match detail {
            Detail::Nothing => (rdma_event_param { ud: rdma_ud_param::zeroed() }, Box::default()),
            Detail::Connection(conn, private) => {
                let mut param = rdma_event_param { ud: rdma_ud_param::zeroed() };
                param.conn = conn;
                (param, private)
            }
            Detail::Datagram(ud, private) => (rdma_event_param { ud }, private),
            Detail::Argument(arg) => {
                let mut param = rdma_event_param { ud: rdma_ud_param::zeroed() };
                param.arg = arg;
                (param, Box::default())
            }
        };
        if !private.is_empty() {
            // Both kinds begin with the same two fields.
            param.conn.private_data = private.as_ptr().cast();
            param.conn.private_data_len = private.len() as u8;
        }
        let c = rdma_cm_event {
            id: id.c(),
            listen_id: listener.map_or(ptr::null_mut(), Object::c),
            event: kind,
            status,
            param,
        };
        Arc::new(Self { c: Shared::new(c), _private: private, acks })
    }
}

/// Puts an event of the program's own into the channel of an id, to wake who waits there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_write_cm_event(
    id: *mut rdma_cm_id,
    kind: u32,
    status: c_int,
    arg: u64,
) -> c_int {
    minus_one!(registry::find::<CmId>(id).and_then(|id| {
        if kind != event::USER {
            return Err(Errno::invalid("event is not RDMA_CM_EVENT_USER"));
        }
        id.mailbox.post(What::User(status, arg));
        Ok(())
    }))
}

/// Acknowledges an event, which is gone then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_ack_cm_event(event: *mut rdma_cm_event) -> c_int {
    minus_one!(registry::find::<Told>(event).map(|told| acknowledge(&told)))
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
