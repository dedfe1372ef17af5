//! Turns messages into events when the program fetches them.

use core::ffi::c_int;
use core::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use rdma::{Gid, Mtu, Qpn};
use transport::cm::{CmEvent, CommId};
use wire::cm::req::Transport;
use wire::cm::{ip, rej, rep, req, sidr};

use super::abi::{event, rdma_conn_param, rdma_ud_param};
use super::conversation::{confirm, forget};
use super::id::{CmId, Inner, Peer};
use super::told::{Detail, Told};
use super::{create, membership, states};
use crate::connections::{Mailbox, Raw, What, is_last};
use crate::context::Context;
use crate::errno::Errno;
use crate::registry;
use abi::{IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_XRC_RECV, IBV_QPT_XRC_SEND, Plain};

/// Turns a message into an event; `None` if it is none to the program.
pub(super) fn tell(raw: Raw) -> Option<Arc<Told>> {
    let find = |mailbox: &Mailbox| {
        let handle = core::ptr::with_exposed_provenance(mailbox.id());
        registry::find::<CmId>(handle).ok()
    };
    let id = find(&raw.mailbox)?;
    match raw.what {
        What::Local(kind, status) => Some(Told::new(&id, None, kind, status, Detail::Nothing)),
        What::User(status, arg) => {
            Some(Told::new(&id, None, event::USER, status, Detail::Argument(arg)))
        }
        What::Joined(number, status) => {
            let (kind, status, param) = membership::joined(&id, number, status)?;
            Some(Told::new(&id, None, kind, status, Detail::Datagram(param, Box::default())))
        }
        What::Asked(event, fresh) => asked(&id, event, fresh),
        What::Said(event) => said(&id, event),
    }
}

/// A request: an id is made for the conversation.
fn asked(listener: &Arc<CmId>, event: CmEvent, fresh: Arc<Mailbox>) -> Option<Arc<Told>> {
    let (conversation, route) = match &event {
        CmEvent::Request { id, route, .. } | CmEvent::DatagramRequest { id, route, .. } => {
            (*id, *route)
        }
        _ => return None,
    };
    let inner = listener.lock();
    let context = context_at(&inner, route.source.ip())?;
    let port = inner.local.map_or(0, |local| local.port());
    let (space, settings, is_synchronous) =
        (inner.space, inner.settings, inner.own_channel.is_some());
    drop(inner);
    let shown = listener.shown();
    let begin = |header: &[u8]| {
        let addresses = ip::Repr::parse(header).ok()?;
        let id = CmId::new(fresh, shown.channel, shown.context, space);
        id.show(|c| c.qp_type = shown.qp_type);
        let mut inner = id.lock();
        inner.local = Some(SocketAddr::new(route.source.ip(), port));
        inner.remote = Some(SocketAddr::new(route.destination.ip(), addresses.port));
        inner.conversation = Some(conversation);
        inner.passive = true;
        inner.settings = settings;
        id.attach(&mut inner, &context).ok()?;
        drop(inner);
        registry::insert(Arc::clone(&id));
        if is_synchronous {
            create::migrate(&id, core::ptr::null_mut()).ok()?;
        }
        Some(id)
    };
    let (begun, detail) = match event {
        CmEvent::Request { request, options, .. } => {
            let id = begin(&request.private);
            if let Some(id) = &id {
                take_request(id, &request, options);
            }
            let param = rdma_conn_param {
                // The peer's initiator depth is our responder resources, and the reverse.
                responder_resources: request.initiator_depth,
                initiator_depth: request.responder_resources,
                flow_control: request.flow_control.into(),
                retry_count: request.retry_count,
                rnr_retry_count: request.rnr_retry,
                srq: request.srq.into(),
                qp_num: request.qpn.value(),
                ..rdma_conn_param::zeroed()
            };
            (id, Detail::Connection(param, request.private[ip::LEN..].into()))
        }
        CmEvent::DatagramRequest { request, .. } => {
            let id = begin(&request.private);
            (id, Detail::Datagram(rdma_ud_param::zeroed(), request.private[ip::LEN..].into()))
        }
        _ => return None,
    };
    let Some(id) = begun else {
        // Not of RDMA CM, or there is no id for it.
        forget(&context, conversation);
        return None;
    };
    Some(Told::new(&id, Some(listener), event::CONNECT_REQUEST, 0, detail))
}

fn context_at(listener: &Inner, address: IpAddr) -> Option<Arc<Context>> {
    let place = listener.ports.iter().find(|place| place.address == address);
    place.map(|place| Arc::clone(&place.context))
}

fn take_request(id: &CmId, request: &req::Repr, options: u32) {
    id.show(|c| {
        c.qp_type = match request.transport {
            Transport::Uc => IBV_QPT_UC,
            // The manager passes no other kind.
            Transport::Extended => IBV_QPT_XRC_RECV,
            Transport::Rc | Transport::Rd => IBV_QPT_RC,
        };
    });
    let mut inner = id.lock();
    inner.peer = Some(Peer {
        qpn: request.qpn,
        psn: request.psn,
        mtu: request.mtu,
        responder_resources: request.initiator_depth,
        initiator_depth: request.responder_resources,
        retry_count: request.retry_count,
        rnr_retry: request.rnr_retry,
    });
    inner.ece[1] = (request.vendor != 0).then_some((request.vendor, options));
}

/// A message of a conversation that the program knows.
fn said(id: &Arc<CmId>, event: CmEvent) -> Option<Arc<Told>> {
    if is_last(&event) {
        id.lock().conversation = None;
    }
    let told = |kind, status, detail| Some(Told::new(id, None, kind, status, detail));
    match event {
        CmEvent::Reply { id: conversation, reply, options, mtu } => {
            let (kind, status) = replied(id, conversation, &reply, (options, mtu));
            let param = rdma_conn_param {
                responder_resources: reply.initiator_depth,
                initiator_depth: reply.responder_resources,
                flow_control: reply.flow_control.into(),
                rnr_retry_count: reply.rnr_retry,
                srq: reply.srq.into(),
                qp_num: queue_pair_of(id, &reply).value(),
                ..rdma_conn_param::zeroed()
            };
            told(kind, status, Detail::Connection(param, reply.private[..].into()))
        }
        CmEvent::Established(_) => told(event::ESTABLISHED, 0, Detail::Nothing),
        CmEvent::Rejected { rejection, .. } => {
            let private = rejection.private[..].into();
            let detail = Detail::Connection(rdma_conn_param::zeroed(), private);
            told(event::REJECTED, rejection.reason.0.into(), detail)
        }
        CmEvent::Unreachable(_) => told(event::UNREACHABLE, -libc::ETIMEDOUT, Detail::Nothing),
        CmEvent::Disconnected(_) => told(event::DISCONNECTED, 0, Detail::Nothing),
        CmEvent::Closed(_) => told(event::TIMEWAIT_EXIT, 0, Detail::Nothing),
        CmEvent::DatagramReply { reply, .. } => {
            let private = reply.private[..].into();
            match datagram(id, &reply) {
                Ok(param) => told(event::ESTABLISHED, 0, Detail::Datagram(param, private)),
                Err(status) => {
                    let detail = Detail::Datagram(rdma_ud_param::zeroed(), private);
                    told(event::UNREACHABLE, status, detail)
                }
            }
        }
        CmEvent::Request { .. } | CmEvent::DatagramRequest { .. } => None,
    }
}

/// The peer's queue pair.
fn queue_pair_of(id: &CmId, reply: &rep::Repr) -> Qpn {
    if id.shown().qp_type == IBV_QPT_XRC_SEND { reply.eecn } else { reply.qpn }
}

/// Makes the id's queue pair ready and confirms; without a queue pair that is the program's to do.
fn replied(
    id: &CmId,
    conversation: CommId,
    reply: &rep::Repr,
    (options, mtu): (u32, Mtu),
) -> (u32, c_int) {
    let mut inner = id.lock();
    let Some(context) = inner.context.clone() else { return (event::CONNECT_ERROR, 0) };
    inner.peer = Some(Peer {
        qpn: queue_pair_of(id, reply),
        psn: reply.psn,
        mtu: mtu.code(),
        responder_resources: reply.initiator_depth,
        initiator_depth: reply.responder_resources,
        retry_count: inner.retry_count,
        rnr_retry: reply.rnr_retry,
    });
    inner.ece[1] = (reply.vendor != 0).then_some((reply.vendor, options));
    if id.shown().qp.is_null() {
        return (event::CONNECT_RESPONSE, 0);
    }
    let ready = states::make_ready(id, &inner);
    match ready.and_then(|()| confirm(&context, conversation)) {
        Ok(()) => (event::ESTABLISHED, 0),
        Err(Errno { number, .. }) => {
            let private = [0; rej::PRIVATE_LEN];
            let reason = rej::Reason::CONSUMER;
            // The peer may be gone already.
            let _ = context
                .nic
                .with_manager(|manager, now| manager.reject(now, conversation, reason, private));
            (event::CONNECT_ERROR, -number)
        }
    }
}

/// The path to a datagram service, or the status by which it was refused.
fn datagram(id: &CmId, reply: &sidr::Rep) -> Result<rdma_ud_param, c_int> {
    if reply.status != sidr::Status::OK {
        return Err(reply.status.0.into());
    }
    let inner = id.lock();
    let (Some(context), Some(local), Some(remote)) = (&inner.context, inner.local, inner.remote)
    else {
        return Err(-libc::EINVAL);
    };
    let (source, destination): (Gid, Gid) = (local.ip().into(), remote.ip().into());
    let ah_attr = states::path_to(context, source, destination, inner.settings.traffic_class)
        .map_err(|Errno { number, .. }| -number)?;
    Ok(rdma_ud_param {
        ah_attr,
        qp_num: reply.qpn.value(),
        qkey: reply.q_key.0,
        ..rdma_ud_param::zeroed()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Object;
    use wire::cm::ip::PortSpace;

    #[test]
    fn what_is_said_of_the_peer_becomes_an_event_with_a_status() {
        let space = PortSpace::TCP.0.into();
        let id = create::create(core::ptr::null_mut(), core::ptr::null_mut(), space).unwrap();
        let conversation = CommId(7);
        let told = |event| {
            let told = said(&id, event).unwrap();
            // SAFETY: a structure that is not shared yet.
            let told = unsafe { *told.c() };
            (told.event, told.status)
        };
        assert_eq!(
            told(CmEvent::Unreachable(conversation)),
            (event::UNREACHABLE, -libc::ETIMEDOUT)
        );
        assert_eq!(told(CmEvent::Established(conversation)), (event::ESTABLISHED, 0));
        assert_eq!(told(CmEvent::Disconnected(conversation)), (event::DISCONNECTED, 0));
        id.lock().conversation = Some(conversation);
        assert_eq!(told(CmEvent::Closed(conversation)), (event::TIMEWAIT_EXIT, 0));
        assert_eq!(id.lock().conversation, None, "its number is another's soon");
    }
}
