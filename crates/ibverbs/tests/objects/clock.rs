//! The device's clock, and completions that carry its time.

use core::ptr;
use std::time::{SystemTime, UNIX_EPOCH};

use abi::{
    self, Plain, ibv_context, ibv_cq_init_attr_ex, ibv_device_attr_ex, ibv_qp_attr,
    ibv_qp_init_attr, ibv_send_wr, ibv_values_ex,
};
use ibverbs::cq::ibv_destroy_cq;
use ibverbs::qp::create::ibv_create_qp;
use ibverbs::qp::object::{ibv_destroy_qp, ibv_modify_qp};

use super::{Fixture, extended, refused};

const STAMPED: u64 = abi::IBV_WC_STANDARD_FLAGS
    | abi::IBV_WC_EX_WITH_COMPLETION_TIMESTAMP
    | abi::IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
const FLOW_TAG: u64 = 1 << 9;

/// The clock, as `ibv_query_rt_values_ex` tells it.
fn raw_clock(context: *mut ibv_context) -> u64 {
    // SAFETY: a structure that is valid when it is all zeroes.
    let mut values = unsafe { core::mem::zeroed::<ibv_values_ex>() };
    values.comp_mask = abi::IBV_VALUES_MASK_RAW_CLOCK;
    // SAFETY: a live context.
    let result = unsafe { extended(context).query_rt_values.unwrap()(context, &raw mut values) };
    assert_eq!((result, values.comp_mask), (0, abi::IBV_VALUES_MASK_RAW_CLOCK));
    values.raw_clock.tv_nsec.cast_unsigned()
}

fn wall_clock() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64
}

#[test]
fn a_completion_is_stamped_by_both_clocks() {
    let it = Fixture::new();
    let ops = extended(it.context);
    // SAFETY: structures that are valid when they are all zeroes, and live objects.
    unsafe {
        let mut device = ibv_device_attr_ex::zeroed();
        let size = size_of::<ibv_device_attr_ex>();
        assert_eq!(ops.query_device_ex.unwrap()(it.context, ptr::null(), &raw mut device, size), 0);
        assert_eq!(
            (device.hca_core_clock, device.completion_timestamp_mask),
            (1_000_000, u64::MAX)
        );

        let mut attr = ibv_cq_init_attr_ex { cqe: 4, wc_flags: FLOW_TAG, ..Plain::zeroed() };
        let create = ops.create_cq_ex.unwrap();
        refused(create(it.context, &raw mut attr), libc::EOPNOTSUPP);
        attr.wc_flags = STAMPED;
        let cq = create(it.context, &raw mut attr);
        let mut init = ibv_qp_init_attr {
            send_cq: cq.cast(),
            recv_cq: cq.cast(),
            qp_type: abi::IBV_QPT_RC,
            ..ibv_qp_init_attr::zeroed()
        };
        (init.cap.max_send_wr, init.cap.max_send_sge) = (4, 1);
        let qp = ibv_create_qp(it.pd, &raw mut init);
        let mut error = ibv_qp_attr { qp_state: 6, ..Plain::zeroed() };
        assert_eq!(ibv_modify_qp(qp, &raw mut error, 1), 0);

        let (clock, wall) = (raw_clock(it.context), wall_clock());
        let mut wr = ibv_send_wr { opcode: abi::IBV_WR_SEND, wr_id: 7, ..Plain::zeroed() };
        let mut bad = ptr::null_mut();
        assert_eq!((*it.context).ops.post_send.unwrap()(qp, &raw mut wr, &raw mut bad), 0);
        let (clock_after, wall_after) = (raw_clock(it.context), wall_clock());

        assert_eq!((*cq).start_poll.unwrap()(cq, ptr::null_mut()), 0);
        assert_eq!(((*cq).wr_id, (*cq).status), (7, 5), "flushed");
        let stamp = (*cq).read_completion_ts.unwrap()(cq);
        assert!((clock..=clock_after).contains(&stamp), "{clock} {stamp} {clock_after}");
        let stamp = (*cq).read_completion_wallclock_ns.unwrap()(cq);
        // The wall clock may be set; a second is far more than it is disciplined by.
        let around = wall - 1_000_000_000..wall_after + 1_000_000_000;
        assert!(around.contains(&stamp), "{wall} {stamp} {wall_after}");
        (*cq).end_poll.unwrap()(cq);
        assert_eq!((ibv_destroy_qp(qp), ibv_destroy_cq(cq.cast())), (0, 0));
    }
}
