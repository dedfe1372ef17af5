//! Sizes and offsets on 64-bit Linux, measured with a C compiler.

use core::mem::{offset_of, size_of};

use super::*;

macro_rules! layouts {
    ($($name:ident [$size:literal] { $($field:ident @ $offset:literal),* })*) => {
        $(
            assert_eq!(size_of::<$name>(), $size, "sizeof {}", stringify!($name));
            $(assert_eq!(
                offset_of!($name, $field), $offset,
                "offset of {}.{}", stringify!($name), stringify!($field)
            );)*
        )*
    };
}

#[test]
fn structures_lie_as_the_binaries_expect() {
    layouts! {
        ibv_device[664] { _ops @ 0, node_type @ 16, transport_type @ 20, name @ 24, dev_name @ 88, dev_path @ 152, ibdev_path @ 408 }
        ibv_context_ops[256] { poll_cq @ 88, req_notify_cq @ 96, post_srq_recv @ 160, post_send @ 200, post_recv @ 208, alloc_mw @ 56, bind_mw @ 64, dealloc_mw @ 72 }
        ibv_context[328] { device @ 0, ops @ 8, cmd_fd @ 264, async_fd @ 268, num_comp_vectors @ 272, mutex @ 280, abi_compat @ 320 }
        ibv_cq[128] { cqe @ 28, mutex @ 32, cond @ 72, comp_events_completed @ 120 }
        ibv_cq_ex[288] { comp_mask @ 128, status @ 132, wr_id @ 136, start_poll @ 144 }
        ibv_qp[160] { qp_num @ 52, state @ 56, qp_type @ 60, mutex @ 64, events_completed @ 152 }
        ibv_qp_ex[352] { comp_mask @ 160, wr_id @ 168, wr_flags @ 176, wr_atomic_cmp_swp @ 184, wr_atomic_write @ 344 }
        ibv_srq[128] { events_completed @ 120 }
        ibv_mr[48] { lkey @ 36, rkey @ 40 }
        ibv_pd[16] {}
        ibv_ah[24] {}
        ibv_mw[32] {}
        ibv_comp_channel[16] { fd @ 8, refcnt @ 12 }
        ibv_send_wr[128] {}
        ibv_recv_wr[32] {}
        ibv_sge[16] {}
        ibv_wc[48] {}
        ibv_qp_attr[144] {}
        ibv_qp_init_attr[64] {}
        ibv_qp_init_attr_ex[136] {}
        ibv_device_attr[232] {}
        ibv_device_attr_ex[400] {}
        ibv_port_attr[52] {}
        ibv_gid_entry[32] {}
        ibv_cq_init_attr_ex[56] {}
        ibv_async_event[16] {}
        ibv_srq_init_attr_ex[64] {}
        ibv_odp_caps[24] {}
        ibv_qp_cap[20] {}
        ibv_ah_attr[32] { dlid @ 24, port_num @ 30 }
        ibv_grh[40] {}
        ibv_mw_bind[48] { bind_info @ 16 }
        ibv_parent_domain_init_attr[48] { comp_mask @ 16 }
        ibv_values_ex[24] { raw_clock @ 8 }
        ibv_data_buf[16] {}
        // Release 44 has 648 bytes; six operations were added at the front since.
        verbs_context[696] { query_port @ 48, advise_mr @ 56, alloc_null_mr @ 64, create_qp_ex @ 312, query_device_ex @ 264, create_cq_ex @ 248, create_srq_ex @ 328, private @ 256, sz @ 360, context @ 368, query_rt_values @ 240, ibv_create_flow @ 288, open_xrcd @ 336, abi_placeholder1 @ 296, abi_placeholder2 @ 280, create_counters @ 88, reg_dm_mr @ 104 }
    }
}

#[test]
fn a_port_of_the_first_abi_ends_before_the_second_capability_flags() {
    assert_eq!(offset_of!(ibv_port_attr, port_cap_flags2), COMPAT_PORT_ATTR_BYTES);
}

#[test]
fn the_device_has_a_zero_word_where_providers_look_for_their_operations() {
    let device = verbs_device::zeroed();
    assert_eq!(offset_of!(verbs_device, private), size_of::<ibv_device>());
    assert!(device.private[0].is_null());
}
