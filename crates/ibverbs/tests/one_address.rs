//! A device that is told which address to have, and so has one GID that leads somewhere.

#![allow(unsafe_code, reason = "a C ABI is called")]

use core::ptr;

use abi::{self, Plain, ibv_ah_attr, ibv_gid, ibv_qp_attr, ibv_qp_cap, ibv_qp_init_attr};
use ibverbs::ah::ibv_create_ah;
use ibverbs::cq::ibv_create_cq;
use ibverbs::device::ibv_get_device_list;
use ibverbs::open::ibv_open_device;
use ibverbs::pd::ibv_alloc_pd;
use ibverbs::port::ibv_query_gid;
use ibverbs::qp::create::ibv_create_qp;
use ibverbs::qp::object::ibv_modify_qp;

/// `IBV_QP_STATE`, and the other attributes for RESET to INIT, and for INIT to RTR.
const TO_INIT: i32 = 1 | 1 << 3 | 1 << 4 | 1 << 5;
const TO_RTR: i32 = 1 | 1 << 7 | 1 << 8 | 1 << 12 | 1 << 15 | 1 << 17 | 1 << 20;

#[test]
fn a_gid_without_an_address_is_an_error_and_not_silence() {
    // SAFETY: the only test of this program, before it has started a thread of its own.
    unsafe { std::env::set_var("FERROCE_DEV", "lo/127.0.89.1") };
    // SAFETY: calls as a C program makes them.
    unsafe {
        let list = ibv_get_device_list(ptr::null_mut());
        assert!(!list.is_null());
        let context = ibv_open_device(*list);
        assert!(!context.is_null());
        let pd = ibv_alloc_pd(context);
        let mut gid = ibv_gid { raw: [0; 16] };
        assert_eq!(ibv_query_gid(context, 1, 0, &raw mut gid), 0);
        assert_eq!(gid.raw[..2], [0xfe, 0x80], "the default GID stands first");

        let mut path = ibv_ah_attr { is_global: 1, port_num: 1, ..ibv_ah_attr::zeroed() };
        path.grh.dgid = gid;
        assert!(ibv_create_ah(pd, &raw mut path).is_null());
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENETUNREACH));

        let cq = ibv_create_cq(context, 4, ptr::null_mut(), ptr::null_mut(), 0);
        let cap = ibv_qp_cap {
            max_send_wr: 1,
            max_recv_wr: 1,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 0,
        };
        let kind = abi::IBV_QPT_RC;
        let mut init = ibv_qp_init_attr {
            send_cq: cq,
            recv_cq: cq,
            cap,
            qp_type: kind,
            ..ibv_qp_init_attr::zeroed()
        };
        let qp = ibv_create_qp(pd, &raw mut init);
        assert!(!qp.is_null());
        let mut attr = ibv_qp_attr { qp_state: 1, port_num: 1, ..ibv_qp_attr::zeroed() };
        assert_eq!(ibv_modify_qp(qp, &raw mut attr, TO_INIT), 0);
        attr.qp_state = 2;
        attr.path_mtu = 3;
        attr.dest_qp_num = 17;
        attr.max_dest_rd_atomic = 1;
        attr.ah_attr = path;
        assert_eq!(ibv_modify_qp(qp, &raw mut attr, TO_RTR), libc::ENETUNREACH);
        // The address is the next.
        attr.ah_attr.grh.sgid_index = 1;
        assert_eq!(ibv_query_gid(context, 1, 1, &raw mut attr.ah_attr.grh.dgid), 0);
        assert_eq!(ibv_modify_qp(qp, &raw mut attr, TO_RTR), 0);
        assert!(!ibv_create_ah(pd, &raw mut attr.ah_attr).is_null());
    }
}
