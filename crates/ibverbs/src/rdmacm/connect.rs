//! Making and ending connections: `rdma_connect`, `rdma_accept`, `rdma_reject`, `rdma_disconnect`.

use core::ffi::{c_int, c_void};

use rdma::{QKey, Qpn};
use transport::Route;
use transport::cm::CmError;
use transport::limits::RD_ATOMIC_MAX;
use wire::cm::{brief, ip, rej, rep, req, sidr};

use super::abi::{RDMA_MAX_RD_ATOMIC, RDMA_UDP_QKEY, rdma_cm_id, rdma_conn_param};
use super::conversation::confirm;
use super::id::{CmId, Inner};
use super::states::RETRIES;
use super::{fetch, states};
use crate::errno::{Errno, minus_one};
use crate::registry;
use abi::{
    IBV_EVENT_COMM_EST, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_XRC_RECV, IBV_QPT_XRC_SEND, Plain, ibv_ece,
};

/// The ACK timeout that a REQ proposes to the peer: that of the kernel.
const PEER_ACK_TIMEOUT: u8 = 19;
/// The target ACK delay that a REP states.
const TARGET_ACK_DELAY: u8 = 15;
/// What a program asks for.
#[derive(Clone, Copy)]
struct Wish {
    c: rdma_conn_param,
    /// Whether the program gave parameters.
    named: bool,
}

impl Wish {
    /// # Safety
    /// `param` is NULL or a structure whose private data is as long as it says.
    unsafe fn read(param: *const rdma_conn_param) -> Self {
        // SAFETY: the caller vouches for it.
        match unsafe { param.as_ref() } {
            Some(param) => Self { c: *param, named: true },
            None => Self {
                c: rdma_conn_param {
                    responder_resources: RDMA_MAX_RD_ATOMIC,
                    initiator_depth: RDMA_MAX_RD_ATOMIC,
                    retry_count: RETRIES,
                    rnr_retry_count: RETRIES,
                    ..rdma_conn_param::zeroed()
                },
                named: false,
            },
        }
    }

    /// The private data, behind `skip` bytes and zeros to the end.
    ///
    /// # Safety
    /// As [`Wish::read`].
    unsafe fn private<const N: usize>(&self, skip: usize) -> Result<[u8; N], Errno> {
        // SAFETY: the caller vouches for it.
        unsafe { private(self.c.private_data, self.c.private_data_len, skip) }
    }
}

/// Private data of the program, behind `skip` bytes and followed by zeros; `EINVAL` if it is longer
/// than the message can carry.
///
/// # Safety
/// `data` is NULL or has `length` readable bytes.
unsafe fn private<const N: usize>(
    data: *const c_void,
    length: u8,
    skip: usize,
) -> Result<[u8; N], Errno> {
    let mut bytes = [0; N];
    if data.is_null() || length == 0 {
        return Ok(bytes);
    }
    let room = bytes
        .get_mut(skip..skip + usize::from(length))
        .ok_or(Errno::invalid("private data is longer than this message takes"))?;
    // SAFETY: the caller vouches for `length` readable bytes.
    room.copy_from_slice(unsafe { core::slice::from_raw_parts(data.cast(), length.into()) });
    Ok(bytes)
}

/// As many as asked for, but no more than there can be.
fn rd_atomic(wish: u8, most: u8) -> u8 {
    wish.min(most).min(RD_ATOMIC_MAX)
}

/// The id's queue pair, or the one that the program names.
fn queue_pair(id: &CmId, wish: &Wish) -> (Qpn, bool) {
    // SAFETY: a queue pair that was made for the id, and that the program has not destroyed.
    match unsafe { id.shown().qp.as_ref() } {
        Some(qp) => (Qpn::new(qp.qp_num), !qp.srq.is_null()),
        None => (Qpn::new(wish.c.qp_num), wish.c.srq != 0),
    }
}

/// Asks the peer for a connection, or for its datagram queue pair.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_connect(
    id: *mut rdma_cm_id,
    conn_param: *mut rdma_conn_param,
) -> c_int {
    minus_one!(
        // SAFETY: C passes NULL or a structure with its private data.
        registry::find::<CmId>(id).and_then(|id| unsafe { connect(&id, conn_param) })
    )
}

/// Asks the peer of `id`.
///
/// # Safety
/// `param` is NULL or a structure whose private data is as long as it says.
pub(super) unsafe fn connect(id: &CmId, param: *const rdma_conn_param) -> Result<(), Errno> {
    // SAFETY: the caller vouches for it.
    let wish = unsafe { Wish::read(param) };
    let mut inner = id.lock();
    let context = inner
        .context
        .clone()
        .ok_or(Errno::invalid("the id has no device: resolve or bind its address first"))?;
    if inner.conversation.is_some() || !inner.listeners.is_empty() {
        return Err(Errno::invalid("the id is connecting or listening already"));
    }
    context.check_process()?;
    let route = inner.route()?;
    let remote = inner
        .remote
        .ok_or(Errno::invalid("the id has no destination: call rdma_resolve_addr first"))?;
    let service = inner.space.service(remote.port());
    let conversation = if id.is_datagram() {
        // SAFETY: as above.
        let mut private = unsafe { wish.private(ip::LEN) }?;
        inner.addresses()?.emit(&mut private);
        let request = sidr::Req { service, private, ..sidr::Req::default() };
        context.nic.with_manager(|manager, now| {
            let conversation = manager.ask(now, route, request)?;
            context.events.connections.begin(conversation, &id.mailbox);
            Ok::<_, CmError>(conversation)
        })?
    } else {
        // SAFETY: as above.
        let mut private = unsafe { wish.private(ip::LEN) }?;
        inner.addresses()?.emit(&mut private);
        let mtu = context.nic.path_mtu_to(route.destination).code();
        let request = request(id, &inner, &wish, (service, &route), private)?;
        let request = req::Repr { mtu, ..request };
        let options = inner.ece[0].map_or(0, |(_, options)| options);
        context.nic.with_manager(|manager, now| {
            let conversation = manager.connect(now, route, request, options)?;
            context.events.connections.begin(conversation, &id.mailbox);
            Ok::<_, CmError>(conversation)
        })?
    };
    inner.retry_count = wish.c.retry_count.min(RETRIES);
    inner.conversation = Some(conversation);
    drop(inner);
    fetch::complete(id)
}

fn request(
    id: &CmId,
    inner: &Inner,
    wish: &Wish,
    (service, route): (u64, &Route),
    private: [u8; req::PRIVATE_LEN],
) -> Result<req::Repr, Errno> {
    let (qpn, srq) = queue_pair(id, wish);
    let transport = match id.shown().qp_type {
        IBV_QPT_RC => req::Transport::Rc,
        IBV_QPT_UC => req::Transport::Uc,
        IBV_QPT_XRC_SEND => req::Transport::Extended,
        // An XRC target does not ask.
        _ => return Err(Errno::invalid("its queue pair's type makes no connections")),
    };
    let is_xrc = transport == req::Transport::Extended;
    let path = req::Path {
        traffic_class: route.traffic_class,
        hop_limit: route.hop_limit,
        ack_timeout: inner.settings.ack_timeout.unwrap_or(PEER_ACK_TIMEOUT),
        ..req::Path::between(route.source, route.destination)
    };
    Ok(req::Repr {
        vendor: inner.ece[0].map_or(0, |(vendor, _)| vendor),
        service,
        qpn,
        // An initiator answers nothing.
        responder_resources: if is_xrc {
            0
        } else {
            rd_atomic(wish.c.responder_resources, u8::MAX)
        },
        initiator_depth: rd_atomic(wish.c.initiator_depth, u8::MAX),
        transport,
        flow_control: wish.c.flow_control != 0,
        psn: inner.psn,
        retry_count: wish.c.retry_count.min(RETRIES),
        rnr_retry: wish.c.rnr_retry_count.min(RETRIES),
        srq: srq && !is_xrc,
        extended_transport: if is_xrc { req::EXTENDED_XRC } else { 0 },
        private,
        ..req::Repr::over(path)
    })
}

/// Accepts a request. The id's queue pair is made ready first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_accept(
    id: *mut rdma_cm_id,
    conn_param: *mut rdma_conn_param,
) -> c_int {
    minus_one!(
        // SAFETY: C passes NULL or a structure with its private data.
        registry::find::<CmId>(id).and_then(|id| unsafe { accept(&id, conn_param) })
    )
}

/// Accepts the request that `id` is for.
///
/// # Safety
/// As [`connect`].
pub(super) unsafe fn accept(id: &CmId, param: *const rdma_conn_param) -> Result<(), Errno> {
    // SAFETY: the caller vouches for it.
    let wish = unsafe { Wish::read(param) };
    let mut inner = id.lock();
    let (context, conversation) = inner.connection()?;
    if !inner.passive {
        return Err(Errno::invalid(
            "nobody has asked for this connection: accept the id of a RDMA_CM_EVENT_CONNECT_REQUEST",
        ));
    }
    if id.is_datagram() {
        let (qpn, _) = queue_pair(id, &wish);
        // SAFETY: as above.
        let private = unsafe { wish.private(0) }?;
        let reply = sidr_reply(sidr::Status::OK, qpn, private);
        inner.conversation = None;
        return context.nic.with_manager(|manager, now| {
            manager.answer(now, conversation, reply)?;
            // Nothing more is heard of it.
            context.events.connections.end(conversation);
            Ok(())
        });
    }
    let peer = inner
        .peer
        .as_mut()
        .ok_or(Errno::invalid("the request for a connection is answered already"))?;
    peer.responder_resources = rd_atomic(wish.c.responder_resources, peer.responder_resources);
    peer.initiator_depth = rd_atomic(wish.c.initiator_depth, peer.initiator_depth);
    if wish.named {
        peer.rnr_retry = wish.c.rnr_retry_count.min(RETRIES);
    }
    let peer = *peer;
    let (qpn, srq) = queue_pair(id, &wish);
    let is_xrc = id.shown().qp_type == IBV_QPT_XRC_RECV;
    let (qpn, eecn) = if is_xrc { (Qpn::default(), qpn) } else { (qpn, Qpn::default()) };
    states::make_ready(id, &inner)?;
    let reply = rep::Repr {
        qpn,
        eecn,
        vendor: inner.ece[0].map_or(0, |(vendor, _)| vendor),
        psn: inner.psn,
        responder_resources: peer.responder_resources,
        initiator_depth: peer.initiator_depth,
        target_ack_delay: TARGET_ACK_DELAY,
        flow_control: wish.c.flow_control != 0,
        rnr_retry: peer.rnr_retry,
        srq: srq || is_xrc,
        // SAFETY: as above.
        private: unsafe { wish.private(0) }?,
        ..rep::Repr::default()
    };
    let options = inner.ece[0].map_or(0, |(_, options)| options);
    context.nic.with_manager(|manager, now| manager.accept(now, conversation, reply, options))?;
    drop(inner);
    fetch::complete(id)
}

fn sidr_reply(status: sidr::Status, qpn: Qpn, private: [u8; sidr::REP_PRIVATE_LEN]) -> sidr::Rep {
    sidr::Rep {
        request_id: 0,
        status,
        info_length: 0,
        qpn,
        service: 0,
        q_key: QKey(RDMA_UDP_QKEY),
        info: [0; sidr::INFO_LEN],
        private,
    }
}

/// Refuses a request, or a reply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_reject(
    id: *mut rdma_cm_id,
    private_data: *const c_void,
    private_data_len: u8,
) -> c_int {
    // SAFETY: C passes NULL or as many bytes as it says.
    minus_one!(unsafe { reject(id, private_data, private_data_len, rej::Reason::CONSUMER) })
}

/// Refuses a request, because of the peer's options of enhanced connection establishment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_reject_ece(
    id: *mut rdma_cm_id,
    private_data: *const c_void,
    private_data_len: u8,
) -> c_int {
    /// "Vendor option is not supported" (IBTA vol 1, chapter 12, "Rejection Reason").
    const VENDOR_OPTION: rej::Reason = rej::Reason(35);
    // SAFETY: C passes NULL or as many bytes as it says.
    minus_one!(unsafe { reject(id, private_data, private_data_len, VENDOR_OPTION) })
}

/// # Safety
/// `data` is NULL or has `length` readable bytes.
unsafe fn reject(
    id: *mut rdma_cm_id,
    data: *const c_void,
    length: u8,
    reason: rej::Reason,
) -> Result<(), Errno> {
    let id = registry::find::<CmId>(id)?;
    let mut inner = id.lock();
    let (context, conversation) = inner.connection()?;
    if id.is_datagram() {
        // SAFETY: the caller vouches for it.
        let private = unsafe { private(data, length, 0) }?;
        let reply = sidr_reply(sidr::Status::REJECTED, Qpn::default(), private);
        context.nic.with_manager(|manager, now| manager.answer(now, conversation, reply))?;
    } else {
        // SAFETY: the caller vouches for it.
        let private = unsafe { private(data, length, 0) }?;
        context
            .nic
            .with_manager(|manager, now| manager.reject(now, conversation, reason, private))?;
    }
    // Nothing more is heard of it.
    context.events.connections.end(conversation);
    inner.conversation = None;
    Ok(())
}

/// Confirms a reply, for a queue pair that the program has made ready itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_establish(id: *mut rdma_cm_id) -> c_int {
    minus_one!(registry::find::<CmId>(id).and_then(|id| {
        if !id.shown().qp.is_null() {
            return Err(Errno::invalid(
                "the id has a queue pair, which rdma_connect has established",
            ));
        }
        let (context, conversation) = id.lock().connection()?;
        confirm(&context, conversation)
    }))
}

/// Passes on an event of the queue pair. One matters: a packet came before the confirmation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_notify(id: *mut rdma_cm_id, event: u32) -> c_int {
    minus_one!(registry::find::<CmId>(id).and_then(|id| {
        let (context, conversation) = id.lock().connection()?;
        if event != IBV_EVENT_COMM_EST {
            return Err(Errno::invalid("event is not IBV_EVENT_COMM_EST"));
        }
        match confirm(&context, conversation) {
            // The confirmation was faster.
            Err(error) if error == Errno::NOT_CONNECTED => Ok(()),
            result => result,
        }
    }))
}

/// Ends a connection: what is posted is flushed, and the peer is told.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_disconnect(id: *mut rdma_cm_id) -> c_int {
    minus_one!(registry::find::<CmId>(id).and_then(|id| {
        let inner = id.lock();
        let context = inner
            .context
            .clone()
            .ok_or(Errno::invalid("the id has no device: resolve or bind its address first"))?;
        if inner.peer.is_none() {
            return Err(Errno::invalid("the id was never connected"));
        }
        states::end(&id)?;
        if let Some(conversation) = inner.conversation {
            let private = [0; brief::DREQ_PRIVATE_LEN];
            // The peer may have been faster; its end is ours then.
            let _ = context
                .nic
                .with_manager(|manager, now| manager.disconnect(now, conversation, private));
        }
        drop(inner);
        fetch::complete(&id)
    }))
}

/// Sets the options of enhanced connection establishment that the peer is told.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_set_local_ece(
    id: *mut rdma_cm_id,
    ece: *mut ibv_ece,
) -> c_int {
    minus_one!(registry::find::<CmId>(id).and_then(|id| {
        // SAFETY: C passes a readable structure.
        let ece = unsafe { ece.as_ref() }.filter(|ece| ece.vendor_id != 0);
        let ece = ece.ok_or(Errno::invalid("ece is NULL, or has no vendor_id"))?;
        id.lock().ece[0] = Some((ece.vendor_id, ece.options));
        Ok(())
    }))
}

/// Tells the peer's options of enhanced connection establishment; zeros if it has none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_get_remote_ece(
    id: *mut rdma_cm_id,
    ece: *mut ibv_ece,
) -> c_int {
    minus_one!(registry::find::<CmId>(id).and_then(|id| {
        // SAFETY: C passes a writable structure.
        let target = unsafe { ece.as_mut() }.ok_or(Errno::NULL)?;
        let (vendor_id, options) = id.lock().ece[1].unwrap_or_default();
        *target = ibv_ece { vendor_id, options, comp_mask: 0 };
        Ok(())
    }))
}

/// Fills in what a queue pair needs to enter the state that `qp_attr` names.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_rdma_init_qp_attr(
    id: *mut rdma_cm_id,
    qp_attr: *mut abi::ibv_qp_attr,
    qp_attr_mask: *mut c_int,
) -> c_int {
    minus_one!(registry::find::<CmId>(id).and_then(|id| {
        // SAFETY: C passes two writable places.
        let (attr, mask) = unsafe { (qp_attr.as_mut(), qp_attr_mask.as_mut()) };
        let (Some(attr), Some(mask)) = (attr, mask) else { return Err(Errno::NULL) };
        let (filled, bits) = states::attributes(&id, &id.lock(), attr.qp_state)?;
        *attr = filled;
        *mask = bits.0.cast_signed();
        Ok(())
    }))
}
