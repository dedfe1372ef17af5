//! Shared receive queues.

use core::ffi::c_int;
use std::sync::Arc;

use transport::{SrqAttributes, SrqId};

use crate::abi::{
    self, Plain, ibv_context, ibv_pd, ibv_recv_wr, ibv_srq, ibv_srq_attr, ibv_srq_init_attr,
    ibv_srq_init_attr_ex,
};
use crate::context::Context;
use crate::errno::{Errno, pointer, status};
use crate::event::{Acks, Target};
use crate::pd::Pd;
use crate::registry::{self, Hot, Live, Mark, Object, Shared, Table};
use crate::send;

/// A shared receive queue.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Srq {
    c: Shared<ibv_srq>,
    mark: Mark,
    pub(crate) context: Arc<Context>,
    pub(crate) id: SrqId,
    pub(crate) acks: Arc<Acks>,
    _pd: Arc<Pd>,
}

impl Object for Srq {
    type C = ibv_srq;

    fn table(live: &mut Live) -> &mut Table<Self> {
        &mut live.srqs
    }

    fn c(&self) -> *mut ibv_srq {
        self.c.get()
    }

    fn context(&self) -> Option<&Arc<Context>> {
        Some(&self.context)
    }
}

// SAFETY: `repr(C)`, and it begins with the `ibv_srq`.
unsafe impl Hot for Srq {
    const KIND: u32 = u32::from_be_bytes(*b"fcSR");

    fn mark(&self) -> &Mark {
        &self.mark
    }
}

fn numbers(attributes: &SrqAttributes) -> ibv_srq_attr {
    ibv_srq_attr {
        max_wr: attributes.max_wr,
        max_sge: attributes.max_sge,
        srq_limit: attributes.limit,
    }
}

fn create(
    pd: Arc<Pd>,
    srq_context: *mut core::ffi::c_void,
    attr: &mut ibv_srq_attr,
) -> Result<*mut ibv_srq, Errno> {
    let context = Arc::clone(&pd.context);
    // The limit is not an attribute of creation (man ibv_create_srq: "irrelevant").
    let wanted = SrqAttributes { max_wr: attr.max_wr, max_sge: attr.max_sge, limit: 0 };
    let (srq, got) = context.nic.with(|endpoint, _, _| {
        let id = endpoint.create_srq(pd.id, wanted)?;
        let got = endpoint.query_srq(id).unwrap_or(wanted);
        let c = ibv_srq {
            context: context.c(),
            srq_context,
            pd: pd.c(),
            handle: id.0,
            ..ibv_srq::zeroed()
        };
        let acks = Arc::<Acks>::default();
        let srq = Arc::new(Srq {
            c: Shared::new(c),
            mark: Mark::new(Srq::KIND),
            context: Arc::clone(&context),
            id,
            acks: Arc::clone(&acks),
            _pd: pd,
        });
        let handle = srq.c().expose_provenance();
        context.events.add_srq(id, Target { handle, acks });
        Ok::<_, Errno>((srq, got))
    })?;
    (attr.max_wr, attr.max_sge) = (got.max_wr, got.max_sge);
    Ok(registry::insert(srq))
}

/// Makes a shared receive queue, and says how large it really is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_srq(
    pd: *mut ibv_pd,
    srq_init_attr: *mut ibv_srq_init_attr,
) -> *mut ibv_srq {
    pointer(registry::find::<Pd>(pd).and_then(|pd| {
        // SAFETY: C passes a writable structure.
        let attr = unsafe { srq_init_attr.as_mut() }.ok_or(Errno::INVALID)?;
        create(pd, attr.srq_context, &mut attr.attr)
    }))
}

/// `ibv_create_srq_ex`: basic queues only.
pub(crate) unsafe extern "C" fn create_srq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    pointer(registry::find::<Context>(context).and_then(|context| {
        // SAFETY: C passes a writable structure.
        let attr = unsafe { attr.as_mut() }.ok_or(Errno::INVALID)?;
        let has = |bit: u32| attr.comp_mask & bit != 0;
        let basic = !has(abi::IBV_SRQ_INIT_ATTR_TYPE) || attr.srq_type == abi::IBV_SRQT_BASIC;
        let known = abi::IBV_SRQ_INIT_ATTR_TYPE | abi::IBV_SRQ_INIT_ATTR_PD;
        if !basic || attr.comp_mask & !known != 0 {
            return Err(Errno::UNSUPPORTED);
        }
        if !has(abi::IBV_SRQ_INIT_ATTR_PD) {
            return Err(Errno::INVALID);
        }
        let pd = registry::find::<Pd>(attr.pd)?;
        if !Arc::ptr_eq(&pd.context, &context) {
            return Err(Errno::INVALID);
        }
        create(pd, attr.srq_context, &mut attr.attr)
    }))
}

/// Resizes a queue or arms its limit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_srq(
    srq: *mut ibv_srq,
    srq_attr: *mut ibv_srq_attr,
    srq_attr_mask: c_int,
) -> c_int {
    status(registry::find::<Srq>(srq).and_then(|srq| {
        // SAFETY: C passes a readable structure.
        let attr = unsafe { srq_attr.as_ref() }.ok_or(Errno::INVALID)?;
        let mask = srq_attr_mask.cast_unsigned();
        if mask & !(abi::IBV_SRQ_MAX_WR | abi::IBV_SRQ_LIMIT) != 0 {
            return Err(Errno::INVALID);
        }
        let limit = (mask & abi::IBV_SRQ_LIMIT != 0).then_some(attr.srq_limit);
        let max_wr = (mask & abi::IBV_SRQ_MAX_WR != 0).then_some(attr.max_wr);
        Ok(srq.context.nic.with(|endpoint, _, _| endpoint.modify_srq(srq.id, limit, max_wr))?)
    }))
}

/// Tells a queue's sizes and its limit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_srq(srq: *mut ibv_srq, srq_attr: *mut ibv_srq_attr) -> c_int {
    status(registry::find::<Srq>(srq).and_then(|srq| {
        // SAFETY: C passes a writable structure.
        let target = unsafe { srq_attr.as_mut() }.ok_or(Errno::INVALID)?;
        let found = srq.context.nic.with(|endpoint, _, _| endpoint.query_srq(srq.id));
        *target = numbers(&found.ok_or(Errno::INVALID)?);
        Ok(())
    }))
}

/// Destroys a queue, once its events are acknowledged; `EBUSY` while a queue pair uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int {
    status(registry::find::<Srq>(srq).and_then(|srq| {
        registry::check_unused(&srq)?;
        srq.context.nic.with(|endpoint, _, _| {
            endpoint.destroy_srq(srq.id)?;
            srq.context.events.remove_srq(srq.id);
            Ok::<_, Errno>(())
        })?;
        srq.context.events.withdraw(srq.c().addr());
        srq.acks.wait();
        registry::remove(&*srq);
        Ok(())
    }))
}

/// `ibv_get_srq_num`: only XRC queues have a number.
pub(crate) unsafe extern "C" fn get_srq_num(_: *mut ibv_srq, _: *mut u32) -> c_int {
    status(Err(Errno::UNSUPPORTED))
}

/// `ibv_post_srq_recv`.
pub(crate) unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: C passes a live queue, a list of requests, and a pointer to write.
    unsafe {
        let Ok(srq) = registry::hot::<Srq>(srq) else { return send::refuse(wr, bad_wr) };
        srq.context.nic.with(|endpoint, _, _| {
            send::each_recv(wr, bad_wr, |request| endpoint.post_srq_recv(srq.id, request))
        })
    }
}
