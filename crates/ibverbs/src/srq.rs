//! Shared receive queues.

use core::ffi::c_int;
use std::sync::Arc;

use transport::{SrqAttributes, SrqId};

use crate::context::{Context, owned};
use crate::cq::Cq;
use crate::errno::{Errno, pointer, status};
use crate::event::Acks;
use crate::pd::Pd;
use crate::registry::{self, Hot, Mark, Object, Shared};
use crate::request::{each_recv, reject};
use crate::xrcd::Xrcd;
use abi::{
    self, Plain, ibv_context, ibv_pd, ibv_recv_wr, ibv_srq, ibv_srq_attr, ibv_srq_init_attr,
    ibv_srq_init_attr_ex,
};

/// A shared receive queue.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Srq {
    c: Shared<ibv_srq>,
    mark: Mark,
    pub(crate) context: Arc<Context>,
    pub(crate) id: SrqId,
    pub(crate) acks: Arc<Acks>,
    /// What it refers to, and what therefore cannot be destroyed before it.
    _uses: (Arc<Pd>, Option<Xrc>),
}

/// What only an XRC queue has.
#[derive(Debug, Clone)]
struct Xrc {
    xrcd: Arc<Xrcd>,
    cq: Arc<Cq>,
}

owned!(context, Srq, ibv_srq, b"fcSR");

impl Srq {
    /// Ends the engine's object: the device is closed.
    pub(crate) fn end(&self) {
        // It fails if the engine's object is gone already.
        let _ = self.destroy();
    }

    fn destroy(&self) -> Result<(), Errno> {
        self.context.nic.with(|endpoint, _, _| {
            endpoint.destroy_srq(self.id)?;
            self.context.events.remove_srq(self.id);
            Ok(())
        })
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
    pd: &Arc<Pd>,
    xrc: Option<&Xrc>,
    srq_context: *mut core::ffi::c_void,
    attr: &mut ibv_srq_attr,
) -> Result<Arc<Srq>, Errno> {
    let context = Arc::clone(&pd.context);
    context.check_process()?;
    // The limit is not an attribute of creation (man ibv_create_srq: "irrelevant").
    let wanted = SrqAttributes { max_wr: attr.max_wr, max_sge: attr.max_sge, limit: 0 };
    let (srq, got) = context.nic.with(|endpoint, _, _| {
        let id = match xrc {
            None => endpoint.create_srq(pd.id, wanted)?,
            Some(Xrc { xrcd, cq }) => endpoint.create_xrc_srq(pd.id, xrcd.id(), cq.id, wanted)?,
        };
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
            _uses: (Arc::clone(pd), xrc.cloned()),
        });
        let handle = srq.c().expose_provenance();
        context.events.add_srq(id, context.events.target(handle, &acks));
        Ok::<_, Errno>((srq, got))
    })?;
    (attr.max_wr, attr.max_sge) = (got.max_wr, got.max_sge);
    registry::insert(Arc::clone(&srq));
    Ok(srq)
}

/// Makes a shared receive queue, and says how large it really is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_srq(
    pd: *mut ibv_pd,
    srq_init_attr: *mut ibv_srq_init_attr,
) -> *mut ibv_srq {
    pointer!(registry::find::<Pd>(pd).and_then(|pd| {
        // SAFETY: C passes a writable structure.
        let attr = unsafe { srq_init_attr.as_mut() }.ok_or(Errno::NULL)?;
        Ok(create(&pd, None, attr.srq_context, &mut attr.attr)?.c())
    }))
}

/// `ibv_create_srq_ex`: basic queues, and those of XRC.
pub(crate) unsafe extern "C" fn create_srq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    pointer!(registry::find::<Context>(context).and_then(|context| {
        // SAFETY: C passes a writable structure.
        let attr = unsafe { attr.as_mut() }.ok_or(Errno::NULL)?;
        Ok(create_extended(&context, attr)?.c())
    }))
}

/// Makes a basic queue, or one of XRC.
pub(crate) fn create_extended(
    context: &Arc<Context>,
    attr: &mut ibv_srq_init_attr_ex,
) -> Result<Arc<Srq>, Errno> {
    let has = |bit: u32| attr.comp_mask & bit != 0;
    let of_xrc = abi::IBV_SRQ_INIT_ATTR_XRCD | abi::IBV_SRQ_INIT_ATTR_CQ;
    let known = abi::IBV_SRQ_INIT_ATTR_TYPE | abi::IBV_SRQ_INIT_ATTR_PD | of_xrc;
    let kind = if has(abi::IBV_SRQ_INIT_ATTR_TYPE) { attr.srq_type } else { 0 };
    if attr.comp_mask & !known != 0 || kind > abi::IBV_SRQT_XRC {
        return Err(Errno::UNSUPPORTED);
    }
    if !has(abi::IBV_SRQ_INIT_ATTR_PD) {
        return Err(Errno::invalid("comp_mask lacks IBV_SRQ_INIT_ATTR_PD"));
    }
    let pd = registry::find::<Pd>(attr.pd)?;
    let xrc = match kind == abi::IBV_SRQT_XRC {
        false => None,
        true if attr.comp_mask & of_xrc != of_xrc => {
            return Err(Errno::invalid(
                "IBV_SRQT_XRC needs IBV_SRQ_INIT_ATTR_XRCD and IBV_SRQ_INIT_ATTR_CQ",
            ));
        }
        true => Some(Xrc {
            xrcd: registry::find::<Xrcd>(attr.xrcd)?,
            cq: registry::find::<Cq>(attr.cq)?,
        }),
    };
    let same = |other: &Arc<Context>| Arc::ptr_eq(context, other);
    let ours = |xrc: &Xrc| same(&xrc.xrcd.context) && same(&xrc.cq.context);
    if !same(&pd.context) || !xrc.as_ref().is_none_or(ours) {
        return Err(Errno::invalid("pd, XRC domain and completion queue are of several contexts"));
    }
    create(&pd, xrc.as_ref(), attr.srq_context, &mut attr.attr)
}

/// Resizes a queue or arms its limit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_srq(
    srq: *mut ibv_srq,
    srq_attr: *mut ibv_srq_attr,
    srq_attr_mask: c_int,
) -> c_int {
    status!(registry::find::<Srq>(srq).and_then(|srq| {
        // SAFETY: C passes a readable structure.
        let attr = unsafe { srq_attr.as_ref() }.ok_or(Errno::NULL)?;
        let mask = srq_attr_mask.cast_unsigned();
        if mask & !(abi::IBV_SRQ_MAX_WR | abi::IBV_SRQ_LIMIT) != 0 {
            return Err(Errno::invalid("srq_attr_mask has bits that are not known"));
        }
        let limit = (mask & abi::IBV_SRQ_LIMIT != 0).then_some(attr.srq_limit);
        let max_wr = (mask & abi::IBV_SRQ_MAX_WR != 0).then_some(attr.max_wr);
        Ok(srq.context.nic.with(|endpoint, _, _| endpoint.modify_srq(srq.id, limit, max_wr))?)
    }))
}

/// Tells a queue's sizes and its limit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_srq(srq: *mut ibv_srq, srq_attr: *mut ibv_srq_attr) -> c_int {
    status!(registry::find::<Srq>(srq).and_then(|srq| {
        // SAFETY: C passes a writable structure.
        let target = unsafe { srq_attr.as_mut() }.ok_or(Errno::NULL)?;
        let found = srq.context.nic.with(|endpoint, _, _| endpoint.query_srq(srq.id));
        *target = numbers(&found.ok_or(Errno::invalid("the queue is gone"))?);
        Ok(())
    }))
}

/// Destroys a queue, once its events are acknowledged; `EBUSY` while a queue pair uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int {
    status!(registry::find::<Srq>(srq).and_then(|srq| destroy(&srq)))
}

/// Destroys a queue. The caller has the only other reference.
pub(crate) fn destroy(srq: &Arc<Srq>) -> Result<(), Errno> {
    registry::check_unused(srq)?;
    srq.destroy()?;
    srq.context.events.withdraw(srq.c().addr());
    srq.acks.wait();
    registry::remove(&**srq);
    Ok(())
}

/// `ibv_get_srq_num`: only XRC queues have a number.
pub(crate) unsafe extern "C" fn get_srq_num(srq: *mut ibv_srq, srq_num: *mut u32) -> c_int {
    status!(registry::find::<Srq>(srq).and_then(|srq| {
        // SAFETY: C passes a writable integer.
        let target = unsafe { srq_num.as_mut() }.ok_or(Errno::NULL)?;
        let number = srq.context.nic.with(|endpoint, _, _| endpoint.srq_number(srq.id));
        *target = number.ok_or(Errno::UNSUPPORTED)?.value();
        Ok(())
    }))
}

/// `ibv_post_srq_recv`.
pub(crate) unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: C passes a live queue, a list of requests, and a pointer to write.
    unsafe {
        let srq = match registry::hot::<Srq>(srq) {
            Ok(srq) => srq,
            Err(error) => return reject("ibv_post_srq_recv", error, wr, bad_wr),
        };
        srq.context.nic.with(|endpoint, _, _| {
            each_recv("ibv_post_srq_recv", wr, bad_wr, |request| {
                endpoint.post_srq_recv(srq.id, request)
            })
        })
    }
}
