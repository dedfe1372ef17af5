//! The states of the id's queue pair during a connection, and the attributes to enter them.

use rdma::{Gid, QpState};
use transport::{AddressVector, Mask};
use wire::aeth::rnr_delay;

use super::abi::RDMA_UDP_QKEY;
use super::id::{CmId, Inner};
use crate::ah;
use crate::context::Context;
use crate::errno::Errno;
use crate::port::PORT;
use crate::qp::Qp;
use crate::qp::attributes::state_number as number;
use crate::qp::object::Chooser;
use crate::registry;
use abi::{
    IBV_QPT_RC, IBV_QPT_UD, IBV_QPT_XRC_RECV, IBV_QPT_XRC_SEND, Plain, ibv_ah_attr, ibv_qp_attr,
};

/// Retries where the program names none, and the most there can be. As a count of RNR retries it means
/// for ever.
pub(super) const RETRIES: u8 = 7;
/// The RNR timer of queue pairs whose peer never gives up: 0.64 ms.
const MIN_RNR_TIMER: u8 = 12;
/// The longest, 655.36 ms, and what Linux has all queue pairs of RDMA CM ask for.
const LONGEST_RNR_TIMER: u8 = 0;
/// WRITE, READ and atomics: a connection's regions say more.
const REMOTE_RIGHTS: u32 = 1 << 1 | 1 << 2 | 1 << 3;

/// The attributes that take the id's queue pair to `state`, and which they are.
pub(super) fn attributes(
    id: &CmId,
    inner: &Inner,
    state: u32,
) -> Result<(ibv_qp_attr, Mask), Errno> {
    use QpState::{Init, Rtr, Rts};
    let context = inner
        .context
        .as_ref()
        .ok_or(Errno::invalid("the id has no device: resolve or bind its address first"))?;
    let mut attr = ibv_qp_attr { qp_state: state, ..ibv_qp_attr::zeroed() };
    let datagram = id.is_datagram();
    let kind = id.shown().qp_type;
    let answers = kind == IBV_QPT_RC || kind == IBV_QPT_XRC_RECV;
    let asks = kind == IBV_QPT_RC || kind == IBV_QPT_XRC_SEND;
    let bits = if state == number(Init) {
        attr.port_num = PORT;
        if datagram {
            attr.qkey = RDMA_UDP_QKEY;
            Mask::PKEY_INDEX | Mask::PORT | Mask::QKEY
        } else {
            attr.qp_access_flags = REMOTE_RIGHTS;
            Mask::PKEY_INDEX | Mask::PORT | Mask::ACCESS
        }
    } else if state == number(Rtr) && datagram {
        Mask::NONE
    } else if state == number(Rts) && datagram {
        Mask::SQ_PSN
    } else if state == number(Rtr) {
        let peer = inner
            .peer
            .ok_or(Errno::invalid("the peer's attributes are not known before it has answered"))?;
        attr.ah_attr = path(context, inner)?;
        attr.path_mtu = peer.mtu.into();
        attr.dest_qp_num = peer.qpn.value();
        // Each side says with which PSN the other is to begin.
        attr.rq_psn = inner.psn.value();
        attr.max_dest_rd_atomic = peer.responder_resources;
        attr.min_rnr_timer = min_rnr_timer(peer.rnr_retry);
        let all = Mask::PATH | Mask::PATH_MTU | Mask::DESTINATION | Mask::RQ_PSN;
        if answers { all | Mask::MAX_DEST_RD_ATOMIC | Mask::MIN_RNR_TIMER } else { all }
    } else if state == number(Rts) {
        let peer = inner
            .peer
            .ok_or(Errno::invalid("the peer's attributes are not known before it has answered"))?;
        attr.sq_psn = peer.psn.value();
        attr.timeout = inner.ack_timeout();
        attr.retry_cnt = peer.retry_count;
        attr.rnr_retry = peer.rnr_retry;
        attr.max_rd_atomic = peer.initiator_depth;
        let asking = Mask::RETRY_COUNT | Mask::RNR_RETRY | Mask::MAX_RD_ATOMIC;
        match (answers, asks) {
            (_, true) => Mask::SQ_PSN | Mask::TIMEOUT | asking,
            (true, false) => Mask::SQ_PSN | Mask::TIMEOUT,
            (false, false) => Mask::SQ_PSN,
        }
    } else {
        return Err(Errno::invalid("qp_state is none of INIT, RTR and RTS"));
    };
    Ok((attr, bits | Mask::STATE))
}

/// The code of the RNR timer that the peer waits for before each of its `retries`; 7 retries mean for
/// ever (IBTA vol 1, 9.7.5.2.8). Programs are written for Linux, where a single retry comes after
/// 655 ms. So the timer is the shortest with which all retries together take as long.
fn min_rnr_timer(retries: u8) -> u8 {
    if retries == RETRIES {
        return MIN_RNR_TIMER;
    }
    let is_patient =
        |timer: &u8| rnr_delay(*timer) * u64::from(retries) >= rnr_delay(LONGEST_RNR_TIMER);
    (MIN_RNR_TIMER..=31).find(is_patient).unwrap_or(LONGEST_RNR_TIMER)
}

/// The path to the peer.
fn path(context: &Context, inner: &Inner) -> Result<ibv_ah_attr, Errno> {
    let remote = inner
        .remote
        .ok_or(Errno::invalid("the id has no destination: call rdma_resolve_addr first"))?;
    path_to(context, inner.local_gid()?, remote.ip().into(), inner.settings.traffic_class)
}

/// The path between two addresses, of which the first is ours.
pub(super) fn path_to(
    context: &Context,
    source: Gid,
    destination: Gid,
    traffic_class: u8,
) -> Result<ibv_ah_attr, Errno> {
    let mut gids = context.nic.device().gids.iter();
    let ours = gids
        .find(|entry| entry.gid == source)
        .ok_or(Errno::invalid("no GID of the device has the id's address"))?;
    Ok(ah::attributes(&AddressVector {
        gid: destination,
        source_gid: source,
        source_gid_index: ours.index,
        traffic_class,
        hop_limit: 64,
        flow_label: 0,
        service_level: 0,
    }))
}

/// Takes the id's queue pair, if it has one, to `state`.
fn advance(id: &CmId, inner: &Inner, state: QpState) -> Result<(), Errno> {
    let qp = id.shown().qp;
    if qp.is_null() {
        return Ok(());
    }
    let (attr, bits) = attributes(id, inner, number(state))?;
    registry::find::<Qp>(qp)?.modify(&attr, bits, Chooser::Manager)
}

/// Takes a new queue pair as far as it can go without a peer.
pub(super) fn begin(id: &CmId) -> Result<(), Errno> {
    let inner = id.lock();
    advance(id, &inner, QpState::Init)?;
    if id.shown().qp_type == IBV_QPT_UD {
        advance(id, &inner, QpState::Rtr)?;
        advance(id, &inner, QpState::Rts)?;
    }
    Ok(())
}

/// Takes the id's queue pair to where it can be used, now that the peer is known.
pub(super) fn make_ready(id: &CmId, inner: &Inner) -> Result<(), Errno> {
    advance(id, inner, QpState::Rtr)?;
    advance(id, inner, QpState::Rts)
}

/// Flushes the id's queue pair, if it has one.
pub(super) fn end(id: &CmId) -> Result<(), Errno> {
    let qp = id.shown().qp;
    if qp.is_null() {
        return Ok(());
    }
    let attr = ibv_qp_attr { qp_state: number(QpState::Error), ..ibv_qp_attr::zeroed() };
    registry::find::<Qp>(qp)?.modify(&attr, Mask::STATE, Chooser::Manager)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, SocketAddr};
    use core::ptr;

    use rdma::{Psn, Qpn};

    use crate::rdmacm::id::Peer;
    use crate::rdmacm::{create, devices};

    #[test]
    fn a_peer_that_gives_up_is_as_patient_as_under_linux() {
        assert_eq!(min_rnr_timer(7), 12);
        for retries in 1..7 {
            let each = rnr_delay(min_rnr_timer(retries));
            assert!(each * u64::from(retries) >= rnr_delay(0), "{retries} retries of {each}");
        }
        // 163.84 ms and 327.68 ms; and one who never tries again does not wait.
        assert_eq!([5, 2, 1, 0].map(min_rnr_timer), [28, 30, 0, 0]);
    }

    #[test]
    fn each_side_says_with_which_psn_the_other_begins() {
        let localhost = Ipv4Addr::LOCALHOST.into();
        let context = devices::having(localhost).unwrap();
        let id = create::create(ptr::null_mut(), ptr::null_mut(), 0x0106).unwrap();
        let mut inner = id.lock();
        inner.local = Some(SocketAddr::new(localhost, 1));
        inner.remote = Some(SocketAddr::new(localhost, 2));
        inner.psn = Psn::new(100);
        inner.peer = Some(Peer {
            qpn: Qpn::new(7),
            psn: Psn::new(200),
            mtu: 5,
            responder_resources: 3,
            initiator_depth: 4,
            retry_count: 7,
            rnr_retry: 6,
        });
        id.attach(&mut inner, &context).unwrap();
        let (rtr, _) = attributes(&id, &inner, number(QpState::Rtr)).unwrap();
        assert_eq!((rtr.rq_psn, rtr.dest_qp_num, rtr.max_dest_rd_atomic), (100, 7, 3));
        let (rts, _) = attributes(&id, &inner, number(QpState::Rts)).unwrap();
        assert_eq!((rts.sq_psn, rts.max_rd_atomic, rts.rnr_retry), (200, 4, 6));
    }
}
