//! Queue pair attributes between C and the engine.

use rdma::{Access, Mtu, Psn, QKey, QpState, Qpn};
use transport::{QpCapacity, QpChange, QpQuery};

use crate::ah;
use crate::context::Context;
use crate::errno::Errno;
use abi::{self, Plain, ibv_qp_attr, ibv_qp_cap, ibv_sge};

/// `enum ibv_qp_attr_mask`, bit by bit.
pub(crate) mod mask {
    pub(crate) const STATE: u32 = 1;
    pub(crate) const CUR_STATE: u32 = 1 << 1;
    pub(crate) const EN_SQD_ASYNC_NOTIFY: u32 = 1 << 2;
    pub(crate) const ACCESS_FLAGS: u32 = 1 << 3;
    pub(crate) const PKEY_INDEX: u32 = 1 << 4;
    pub(crate) const PORT: u32 = 1 << 5;
    pub(crate) const QKEY: u32 = 1 << 6;
    pub(crate) const AV: u32 = 1 << 7;
    pub(crate) const PATH_MTU: u32 = 1 << 8;
    pub(crate) const TIMEOUT: u32 = 1 << 9;
    pub(crate) const RETRY_CNT: u32 = 1 << 10;
    pub(crate) const RNR_RETRY: u32 = 1 << 11;
    pub(crate) const RQ_PSN: u32 = 1 << 12;
    pub(crate) const MAX_QP_RD_ATOMIC: u32 = 1 << 13;
    pub(crate) const ALT_PATH: u32 = 1 << 14;
    pub(crate) const MIN_RNR_TIMER: u32 = 1 << 15;
    pub(crate) const SQ_PSN: u32 = 1 << 16;
    pub(crate) const MAX_DEST_RD_ATOMIC: u32 = 1 << 17;
    pub(crate) const PATH_MIG_STATE: u32 = 1 << 18;
    pub(crate) const CAP: u32 = 1 << 19;
    pub(crate) const DEST_QPN: u32 = 1 << 20;
    /// What exists, with the four bits that libibverbs once used for itself.
    pub(crate) const KNOWN: u32 = (1 << 25) - 1;
}

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

fn state(number: u32) -> Result<QpState, Errno> {
    STATES.get(number as usize).copied().ok_or(Errno::INVALID)
}

/// What `attr` and `attr_mask` ask for.
pub(crate) fn change(
    context: &Context,
    attr: &ibv_qp_attr,
    attr_mask: u32,
) -> Result<QpChange, Errno> {
    if attr_mask & abi::IBV_QP_RATE_LIMIT != 0 {
        return Err(Errno::UNSUPPORTED);
    }
    if attr_mask & !mask::KNOWN != 0 {
        return Err(Errno::INVALID);
    }
    let has = |bit: u32| attr_mask & bit != 0;
    let byte = |bit: u32, value: u8| has(bit).then_some(value);
    let mut change = QpChange {
        sqd_notify: has(mask::EN_SQD_ASYNC_NOTIFY).then_some(attr.en_sqd_async_notify != 0),
        pkey_index: has(mask::PKEY_INDEX).then_some(attr.pkey_index),
        port: byte(mask::PORT, attr.port_num),
        q_key: has(mask::QKEY).then_some(QKey(attr.qkey)),
        timeout: byte(mask::TIMEOUT, attr.timeout),
        retry_count: byte(mask::RETRY_CNT, attr.retry_cnt),
        rnr_retry: byte(mask::RNR_RETRY, attr.rnr_retry),
        rq_psn: has(mask::RQ_PSN).then(|| Psn::new(attr.rq_psn)),
        max_rd_atomic: byte(mask::MAX_QP_RD_ATOMIC, attr.max_rd_atomic),
        max_dest_rd_atomic: byte(mask::MAX_DEST_RD_ATOMIC, attr.max_dest_rd_atomic),
        min_rnr_timer: byte(mask::MIN_RNR_TIMER, attr.min_rnr_timer),
        sq_psn: has(mask::SQ_PSN).then(|| Psn::new(attr.sq_psn)),
        destination: has(mask::DEST_QPN).then(|| Qpn::new(attr.dest_qp_num)),
        alternate_path: has(mask::ALT_PATH),
        path_migration: has(mask::PATH_MIG_STATE),
        capacity: has(mask::CAP),
        ..QpChange::default()
    };
    if has(mask::STATE) {
        change.state = Some(state(attr.qp_state)?);
    }
    if has(mask::CUR_STATE) {
        change.current_state = Some(state(attr.cur_qp_state)?);
    }
    if has(mask::ACCESS_FLAGS) {
        change.access = Some(Access::from_bits(attr.qp_access_flags).ok_or(Errno::INVALID)?);
    }
    if has(mask::AV) {
        change.path = Some(ah::path(context, &attr.ah_attr)?);
    }
    if has(mask::PATH_MTU) {
        let mtu = u8::try_from(attr.path_mtu).ok().and_then(Mtu::from_code);
        change.path_mtu = Some(mtu.ok_or(Errno::INVALID)?);
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
