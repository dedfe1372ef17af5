//! Structures of protection domains, memory, paths and events.

use core::ffi::{c_int, c_void};

use super::{ibv_buf, ibv_cq, ibv_gid, ibv_pd, ibv_qp, ibv_srq, ibv_td};

pub const IBV_EVENT_CQ_ERR: u32 = 0;
pub const IBV_EVENT_QP_FATAL: u32 = 1;
pub const IBV_EVENT_QP_REQ_ERR: u32 = 2;
pub const IBV_EVENT_QP_ACCESS_ERR: u32 = 3;
pub const IBV_EVENT_COMM_EST: u32 = 4;
pub const IBV_EVENT_SQ_DRAINED: u32 = 5;
pub const IBV_EVENT_SRQ_ERR: u32 = 14;
pub const IBV_EVENT_SRQ_LIMIT_REACHED: u32 = 15;
pub const IBV_EVENT_QP_LAST_WQE_REACHED: u32 = 16;

pub const IBV_MW_TYPE_1: u32 = 1;
pub const IBV_MW_TYPE_2: u32 = 2;

pub const IBV_ADVISE_MR_ADVICE_PREFETCH: u32 = 0;
pub const IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE: u32 = 1;
pub const IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT: u32 = 2;
pub const IBV_ADVISE_MR_FLAG_FLUSH: u32 = 1;

pub const IBV_REREG_MR_CHANGE_TRANSLATION: c_int = 1;
pub const IBV_REREG_MR_CHANGE_PD: c_int = 1 << 1;
pub const IBV_REREG_MR_CHANGE_ACCESS: c_int = 1 << 2;
pub const IBV_REREG_MR_ERR_INPUT: c_int = -1;
pub const IBV_REREG_MR_ERR_CMD: c_int = -4;

pub const IBV_REG_MR_MASK_IOVA: u64 = 1;
pub const IBV_REG_MR_MASK_ADDR: u64 = 1 << 1;
pub const IBV_REG_MR_MASK_BUF: u64 = 1 << 5;

pub const IBV_XRCD_INIT_ATTR_FD: u32 = 1;
pub const IBV_XRCD_INIT_ATTR_OFLAGS: u32 = 1 << 1;

pub const IBV_PARENT_DOMAIN_INIT_ATTR_KNOWN: u32 = 0b11;
pub const IBV_VALUES_MASK_RAW_CLOCK: u32 = 1;

structures! {
    pub struct ibv_td_init_attr {
        pub comp_mask: u32,
    }

    pub struct ibv_parent_domain_init_attr {
        pub pd: *mut ibv_pd,
        pub td: *mut ibv_td,
        pub comp_mask: u32,
        pub alloc: *mut c_void,
        pub free: *mut c_void,
        pub pd_context: *mut c_void,
    }

    /// `buf` is there from release 64 on: it may be read only where `comp_mask` says that it is set.
    pub struct ibv_mr_init_attr {
        pub length: usize,
        pub access: c_int,
        pub comp_mask: u64,
        pub iova: u64,
        pub addr: *mut c_void,
        pub fd: c_int,
        pub fd_offset: u64,
        pub dmah: *mut c_void,
        pub buf: *mut ibv_buf,
    }

    pub struct ibv_xrcd_init_attr {
        pub comp_mask: u32,
        pub fd: c_int,
        pub oflags: c_int,
    }

    pub struct ibv_alloc_dm_attr {
        pub length: usize,
        pub log_align_req: u32,
        pub comp_mask: u32,
    }

    pub struct ibv_global_route {
        pub dgid: ibv_gid,
        pub flow_label: u32,
        pub sgid_index: u8,
        pub hop_limit: u8,
        pub traffic_class: u8,
    }

    pub struct ibv_ah_attr {
        pub grh: ibv_global_route,
        pub dlid: u16,
        pub sl: u8,
        pub src_path_bits: u8,
        pub static_rate: u8,
        pub is_global: u8,
        pub port_num: u8,
    }

    /// The 40 bytes before a datagram: an IPv6 header, or an IPv4 header in the last 20.
    #[repr(align(8))]
    pub struct ibv_grh {
        pub raw: [u8; 40],
    }

    pub union ibv_async_event_element {
        pub cq: *mut ibv_cq,
        pub qp: *mut ibv_qp,
        pub srq: *mut ibv_srq,
        pub port_num: c_int,
    }

    pub struct ibv_async_event {
        pub element: ibv_async_event_element,
        pub event_type: u32,
    }

    pub struct ibv_values_ex {
        pub comp_mask: u32,
        pub raw_clock: libc::timespec,
    }

    pub struct ibv_ece {
        pub vendor_id: u32,
        pub options: u32,
        pub comp_mask: u32,
    }
}
