//! Making queue pairs: `ibv_create_qp`, `ibv_create_qp_ex`, `ibv_open_qp`.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use rdma::{QpType, Qpn};
use transport::QpSpec;

use crate::context::Context;
use crate::cq::Cq;
use crate::errno::{Errno, pointer};
use crate::pd::Pd;
use crate::qp::batch::Builder;
use crate::qp::object::{Qp, Uses};
use crate::qp::{attributes, extended};
use crate::registry::{self, Object};
use crate::srq::Srq;
use crate::xrcd::Xrcd;
use abi::{
    self, Plain, ibv_context, ibv_pd, ibv_qp, ibv_qp_cap, ibv_qp_ex, ibv_qp_init_attr,
    ibv_qp_init_attr_ex, ibv_qp_open_attr,
};

fn kind(number: u32) -> Result<QpType, Errno> {
    match number {
        abi::IBV_QPT_RC => Ok(QpType::Rc),
        abi::IBV_QPT_UC => Ok(QpType::Uc),
        abi::IBV_QPT_UD => Ok(QpType::Ud),
        abi::IBV_QPT_XRC_SEND => Ok(QpType::XrcInitiator),
        abi::IBV_QPT_XRC_RECV => Ok(QpType::XrcTarget),
        abi::IBV_QPT_RAW_PACKET | abi::IBV_QPT_DRIVER => Err(Errno::UNSUPPORTED),
        _ => Err(Errno::invalid("qp_type is no enum ibv_qp_type")),
    }
}

/// Makes a queue pair; `send_ops_flags` if it is to be posted to by `ibv_wr_*`.
fn create(
    pd: Arc<Pd>,
    attr: &mut ibv_qp_init_attr,
    send_ops_flags: Option<u64>,
) -> Result<Arc<Qp>, Errno> {
    pd.context.check_process()?;
    let kind = kind(attr.qp_type)?;
    let mut c =
        send_ops_flags.map_or(Ok(ibv_qp_ex::zeroed()), |ops| extended::functions(kind, ops))?;
    let srq = registry::find_unless_null::<Srq>(attr.srq)?;
    let send_cq = registry::find::<Cq>(attr.send_cq)?;
    let recv_cq = match kind {
        // It receives nothing.
        QpType::XrcInitiator => Arc::clone(&send_cq),
        _ => registry::find::<Cq>(attr.recv_cq)?,
    };
    let context = Arc::clone(&pd.context);
    let same = |other: &Arc<Context>| Arc::ptr_eq(&context, other);
    let foreign_srq = srq.as_ref().is_some_and(|srq| !same(&srq.context));
    if !same(&send_cq.context) || !same(&recv_cq.context) || foreign_srq {
        return Err(Errno::invalid(
            "queue pair, completion queues and shared receive queue are of several contexts",
        ));
    }
    let spec = QpSpec {
        kind,
        pd: pd.id,
        send_cq: send_cq.id,
        recv_cq: recv_cq.id,
        srq: srq.as_ref().map(|srq| srq.id),
        capacity: attributes::capacity(&attr.cap),
        signal_all: attr.sq_sig_all != 0,
    };
    let (qp, capacity) = context.nic.with(|endpoint, _, _| {
        let qpn = endpoint.create_qp(spec)?;
        let capacity = endpoint.query_qp(qpn).map_or(spec.capacity, |pair| pair.capacity);
        c.qp_base = ibv_qp {
            qp_context: attr.qp_context,
            pd: pd.c(),
            send_cq: attr.send_cq,
            recv_cq: attr.recv_cq,
            srq: attr.srq,
            qp_type: attr.qp_type,
            ..ibv_qp::zeroed()
        };
        let builder = send_ops_flags.map(|_| Builder::default());
        let uses = Uses::Other { _pd: pd, _send_cq: send_cq, _recv_cq: recv_cq, _srq: srq };
        let qp = Qp::new(c, &context, (qpn, kind), Arc::new(AtomicU32::new(1)), builder, uses);
        Ok::<_, Errno>((qp, capacity))
    })?;
    attr.cap = attributes::capacity_numbers(capacity);
    registry::insert(Arc::clone(&qp));
    Ok(qp)
}

/// Makes a queue pair, and says how large it really is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_qp(
    pd: *mut ibv_pd,
    qp_init_attr: *mut ibv_qp_init_attr,
) -> *mut ibv_qp {
    pointer!(registry::find::<Pd>(pd).and_then(|pd| {
        // SAFETY: C passes a writable structure.
        let attr = unsafe { qp_init_attr.as_mut() }.ok_or(Errno::NULL)?;
        Ok(create(pd, attr, None)?.c())
    }))
}

/// `ibv_create_qp_ex`.
pub(crate) unsafe extern "C" fn create_qp_ex(
    context: *mut ibv_context,
    attr: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    pointer!(registry::find::<Context>(context).and_then(|context| {
        // SAFETY: C passes a writable structure.
        let attr = unsafe { attr.as_mut() }.ok_or(Errno::NULL)?;
        Ok(create_extended(&context, attr)?.c())
    }))
}

/// Makes a queue pair of any type.
pub(crate) fn create_extended(
    context: &Arc<Context>,
    attr: &mut ibv_qp_init_attr_ex,
) -> Result<Arc<Qp>, Errno> {
    let has = |bit: u32| attr.comp_mask & bit != 0;
    let known = abi::IBV_QP_INIT_ATTR_PD
        | abi::IBV_QP_INIT_ATTR_XRCD
        | abi::IBV_QP_INIT_ATTR_CREATE_FLAGS
        | abi::IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    let flagged = has(abi::IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr.create_flags != 0;
    if attr.comp_mask & !known != 0 || flagged {
        return Err(Errno::UNSUPPORTED);
    }
    if attr.qp_type == abi::IBV_QPT_XRC_RECV {
        if !has(abi::IBV_QP_INIT_ATTR_XRCD) {
            return Err(Errno::invalid("IBV_QPT_XRC_RECV needs IBV_QP_INIT_ATTR_XRCD"));
        }
        let xrcd = registry::find::<Xrcd>(attr.xrcd)?;
        return create_target(context, xrcd, attr);
    }
    if !has(abi::IBV_QP_INIT_ATTR_PD) {
        return Err(Errno::invalid("comp_mask lacks IBV_QP_INIT_ATTR_PD"));
    }
    let pd = registry::find::<Pd>(attr.pd)?;
    if !Arc::ptr_eq(&pd.context, context) {
        return Err(Errno::invalid("pd is of another context"));
    }
    let ops = has(abi::IBV_QP_INIT_ATTR_SEND_OPS_FLAGS).then_some(attr.send_ops_flags);
    let mut base = ibv_qp_init_attr {
        qp_context: attr.qp_context,
        send_cq: attr.send_cq,
        recv_cq: attr.recv_cq,
        srq: attr.srq,
        cap: attr.cap,
        qp_type: attr.qp_type,
        sq_sig_all: attr.sq_sig_all,
    };
    let qp = create(pd, &mut base, ops)?;
    attr.cap = base.cap;
    Ok(qp)
}

/// Makes an XRC target. It has no queues of its own.
fn create_target(
    context: &Arc<Context>,
    xrcd: Arc<Xrcd>,
    attr: &mut ibv_qp_init_attr_ex,
) -> Result<Arc<Qp>, Errno> {
    context.check_process()?;
    if !Arc::ptr_eq(&xrcd.context, context) {
        return Err(Errno::invalid("xrcd is of another context"));
    }
    let (xrcd, qp_context) = (&xrcd, attr.qp_context);
    let qp = context.nic.with(|endpoint, _, _| {
        let qpn = endpoint.create_xrc_target(xrcd.id())?;
        Ok::<_, Errno>(target(xrcd, qpn, qp_context, Arc::new(AtomicU32::new(1))))
    })?;
    attr.cap = ibv_qp_cap::default();
    registry::insert(Arc::clone(&qp));
    Ok(qp)
}

/// `ibv_open_qp`: one more handle of an XRC target.
pub(crate) unsafe extern "C" fn open_qp(
    context: *mut ibv_context,
    attr: *mut ibv_qp_open_attr,
) -> *mut ibv_qp {
    pointer!(registry::find::<Context>(context).and_then(|context| {
        // SAFETY: C passes a readable structure.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno::NULL)?;
        let needed =
            abi::IBV_QP_OPEN_ATTR_NUM | abi::IBV_QP_OPEN_ATTR_XRCD | abi::IBV_QP_OPEN_ATTR_TYPE;
        if attr.comp_mask & !(needed | abi::IBV_QP_OPEN_ATTR_CONTEXT) != 0 {
            return Err(Errno::UNSUPPORTED);
        }
        if attr.comp_mask & needed != needed || attr.qp_type != abi::IBV_QPT_XRC_RECV {
            return Err(Errno::invalid(
                "ibv_open_qp is for IBV_QPT_XRC_RECV, with number, XRC domain and type",
            ));
        }
        let xrcd = registry::find::<Xrcd>(attr.xrcd)?;
        if !Arc::ptr_eq(&xrcd.context, &context) {
            return Err(Errno::invalid("xrcd is of another context"));
        }
        let named = attr.comp_mask & abi::IBV_QP_OPEN_ATTR_CONTEXT != 0;
        let qp_context = if named { attr.qp_context } else { ptr::null_mut() };
        let qpn = Qpn::new(attr.qp_num);
        // Under the NIC's lock, so that the queue pair does not go in between.
        let qp = context.nic.with(|endpoint, _, _| {
            if endpoint.target_xrcd(qpn) != Some(xrcd.id()) {
                return Err(Errno::invalid("no XRC target of this domain has this number"));
            }
            let is_it = |qp: &Arc<Qp>| qp.qpn == qpn && Arc::ptr_eq(&qp.context.nic, &context.nic);
            let handles = registry::search(|qp| is_it(qp).then(|| Arc::clone(&qp.handles)));
            let handles = handles.ok_or(Errno::invalid("the queue pair is being destroyed"))?;
            handles.fetch_add(1, Ordering::Relaxed);
            Ok(target(&xrcd, qpn, qp_context, handles))
        })?;
        Ok(registry::insert(qp))
    }))
}

/// The extended view of a queue pair that was made with `send_ops_flags`; NULL for any other.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex {
    pointer!(registry::find::<Qp>(qp).and_then(|qp| match qp.builder {
        Some(_) => Ok(qp.c.get()),
        None => Err(Errno::invalid("the queue pair was made without send_ops_flags")),
    }))
}

/// A handle of an XRC target.
fn target(xrcd: &Arc<Xrcd>, qpn: Qpn, qp_context: *mut c_void, handles: Arc<AtomicU32>) -> Arc<Qp> {
    let mut c = ibv_qp_ex::zeroed();
    (c.qp_base.qp_context, c.qp_base.qp_type) = (qp_context, abi::IBV_QPT_XRC_RECV);
    let uses = Uses::Target { _xrcd: Arc::clone(xrcd) };
    Qp::new(c, &xrcd.context, (qpn, QpType::XrcTarget), handles, None, uses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_that_is_not_offered_is_told_from_one_that_is_not() {
        assert_eq!(kind(abi::IBV_QPT_UD), Ok(QpType::Ud));
        assert_eq!(kind(abi::IBV_QPT_RAW_PACKET), Err(Errno::UNSUPPORTED));
        assert_eq!(kind(1), Err(Errno::INVALID));
    }
}
