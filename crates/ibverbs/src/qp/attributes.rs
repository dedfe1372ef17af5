//! Queue pair attributes between C and the engine.

use rdma::{Access, Mtu, Psn, QKey, QpState, Qpn};
use transport::{Mask, QpCapacity, QpChange, QpQuery};

use crate::ah;
use crate::context::Context;
use crate::errno::Errno;
use abi::{self, Plain, ibv_qp_attr, ibv_qp_cap, ibv_sge};

/// `IBV_ACCESS_FLUSH_GLOBAL` and `_PERSISTENT`: the right to FLUSH, which nobody has, as no queue pair posts or
/// answers one. Programs grant it whether it is there or not.
const FLUSH: u32 = 1 << 8 | 1 << 9;
/// Bits of a mask that exist, with the four that libibverbs once used for itself.
const KNOWN: u32 = (1 << 25) - 1;

const STATES: [QpState; 7] = [
    QpState::Reset,
    QpState::Init,
    QpState::Rtr,
    QpState::Rts,
    QpState::Sqd,
    QpState::Sqe,
    QpState::Error,
];

/// `enum ibv_qp_state`.
pub(crate) fn state_number(state: QpState) -> u32 {
    STATES.iter().position(|known| *known == state).unwrap_or(STATES.len()) as u32
}

pub(super) fn state(number: u32) -> Result<QpState, Errno> {
    STATES
        .get(number as usize)
        .copied()
        .ok_or(Errno::invalid("qp_state or cur_qp_state is no state"))
}

/// What `attr` and its `mask` ask for.
pub(crate) fn change(context: &Context, attr: &ibv_qp_attr, mask: Mask) -> Result<QpChange, Errno> {
    if mask.0 & abi::IBV_QP_RATE_LIMIT != 0 {
        return Err(Errno::UNSUPPORTED);
    }
    if mask.0 & !KNOWN != 0 {
        return Err(Errno::invalid("attr_mask has bits that are not known"));
    }
    let has = |attribute| mask.contains(attribute);
    let byte = |attribute, value: u8| has(attribute).then_some(value);
    let mut change = QpChange {
        sqd_notify: has(Mask::SQD_NOTIFY).then_some(attr.en_sqd_async_notify != 0),
        pkey_index: has(Mask::PKEY_INDEX).then_some(attr.pkey_index),
        port: byte(Mask::PORT, attr.port_num),
        q_key: has(Mask::QKEY).then_some(QKey(attr.qkey)),
        timeout: byte(Mask::TIMEOUT, attr.timeout),
        retry_count: byte(Mask::RETRY_COUNT, attr.retry_cnt),
        rnr_retry: byte(Mask::RNR_RETRY, attr.rnr_retry),
        rq_psn: has(Mask::RQ_PSN).then(|| Psn::new(attr.rq_psn)),
        max_rd_atomic: byte(Mask::MAX_RD_ATOMIC, attr.max_rd_atomic),
        max_dest_rd_atomic: byte(Mask::MAX_DEST_RD_ATOMIC, attr.max_dest_rd_atomic),
        min_rnr_timer: byte(Mask::MIN_RNR_TIMER, attr.min_rnr_timer),
        sq_psn: has(Mask::SQ_PSN).then(|| Psn::new(attr.sq_psn)),
        destination: has(Mask::DESTINATION).then(|| Qpn::new(attr.dest_qp_num)),
        alternate_path: has(Mask::ALTERNATE_PATH),
        path_migration: has(Mask::PATH_MIGRATION),
        capacity: has(Mask::CAPACITY),
        ..QpChange::default()
    };
    if has(Mask::STATE) {
        change.state = Some(state(attr.qp_state)?);
    }
    if has(Mask::CURRENT_STATE) {
        change.current_state = Some(state(attr.cur_qp_state)?);
    }
    if has(Mask::ACCESS) {
        change.access = Some(
            Access::from_bits(attr.qp_access_flags & !FLUSH)
                .ok_or(Errno::invalid("qp_access_flags has bits that are not known"))?,
        );
    }
    if has(Mask::PATH) {
        change.path = Some(ah::path(context, &attr.ah_attr)?);
    }
    if has(Mask::PATH_MTU) {
        let mtu = u8::try_from(attr.path_mtu).ok().and_then(Mtu::from_code);
        change.path_mtu = Some(mtu.ok_or(Errno::invalid("path_mtu is no enum ibv_mtu"))?);
    }
    Ok(change)
}

/// The engine's answer as C reads it: everything, whatever was asked for.
pub(crate) fn attributes(query: &QpQuery) -> ibv_qp_attr {
    let QpQuery { attributes, .. } = query;
    let state = state_number(query.state);
    let has_path = !attributes.path.gid.is_zero();
    ibv_qp_attr {
        qp_state: state,
        cur_qp_state: state,
        path_mtu: u32::from(attributes.path_mtu.code()),
        qkey: attributes.q_key.0,
        rq_psn: query.rq_psn.value(),
        sq_psn: query.sq_psn.value(),
        dest_qp_num: attributes.destination.value(),
        qp_access_flags: attributes.access.bits(),
        cap: capacity_numbers(query.capacity),
        ah_attr: if has_path { ah::attributes(&attributes.path) } else { Plain::zeroed() },
        pkey_index: attributes.pkey_index,
        en_sqd_async_notify: u8::from(attributes.sqd_notify),
        sq_draining: u8::from(query.draining),
        max_rd_atomic: attributes.max_rd_atomic,
        max_dest_rd_atomic: attributes.max_dest_rd_atomic,
        min_rnr_timer: attributes.min_rnr_timer,
        port_num: attributes.port,
        timeout: attributes.timeout,
        retry_cnt: attributes.retry_count,
        rnr_retry: attributes.rnr_retry,
        ..ibv_qp_attr::zeroed()
    }
}

/// Sizes from C.
pub(crate) fn capacity(cap: &ibv_qp_cap) -> QpCapacity {
    // Inline data takes the place of the list in a request, so as many bytes as the list always fit,
    // and programs rely on it (rdma_xclient).
    let list = cap.max_send_sge.saturating_mul(size_of::<ibv_sge>() as u32);
    QpCapacity {
        send_wr: cap.max_send_wr,
        recv_wr: cap.max_recv_wr,
        send_sge: cap.max_send_sge,
        recv_sge: cap.max_recv_sge,
        inline: cap.max_inline_data.max(list),
    }
}

/// Sizes for C.
pub(crate) fn capacity_numbers(capacity: QpCapacity) -> ibv_qp_cap {
    ibv_qp_cap {
        max_send_wr: capacity.send_wr,
        max_recv_wr: capacity.recv_wr,
        max_send_sge: capacity.send_sge,
        max_recv_sge: capacity.recv_sge,
        max_inline_data: capacity.inline,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_the_numbers_of_the_header() {
        for (number, known) in STATES.iter().enumerate() {
            assert_eq!(state_number(*known) as usize, number);
            assert_eq!(state(number as u32), Ok(*known));
        }
        assert_eq!(state(7), Err(Errno::INVALID));
    }

    #[test]
    fn sizes_survive_the_way_there_and_back() {
        let cap = ibv_qp_cap {
            max_send_wr: 1,
            max_recv_wr: 2,
            max_send_sge: 3,
            max_recv_sge: 4,
            max_inline_data: 500,
        };
        let back = capacity_numbers(capacity(&cap));
        assert_eq!(
            (back.max_send_wr, back.max_recv_wr, back.max_send_sge, back.max_recv_sge),
            (1, 2, 3, 4)
        );
        assert_eq!(back.max_inline_data, 500);
    }

    #[test]
    fn inline_data_has_the_room_of_the_list_at_least() {
        let room = |max_inline_data| {
            let cap = ibv_qp_cap { max_send_sge: 2, max_inline_data, ..ibv_qp_cap::default() };
            capacity(&cap).inline
        };
        assert_eq!([0, 32, 33].map(room), [32, 32, 33]);
    }
}
