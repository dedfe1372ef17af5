//! The structures that programs hold pointers to. They point to each other, so they are in one file.

use core::ffi::{c_int, c_uint, c_void};

use super::{ibv_device, ibv_recv_wr, ibv_sge, ibv_wc, ibv_wr_atomic, ibv_wr_rdma};

/// An operation that is never called, or whose absence (NULL) says that it is not offered.
pub type Absent = Option<unsafe extern "C" fn()>;

structures! {
    pub struct ibv_context_ops {
        pub _compat: [Absent; 7],
        pub alloc_mw: Option<unsafe extern "C" fn(*mut ibv_pd, u32) -> *mut ibv_mw>,
        pub bind_mw: Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_mw, *mut ibv_mw_bind) -> c_int>,
        pub dealloc_mw: Option<unsafe extern "C" fn(*mut ibv_mw) -> c_int>,
        pub _compat_create_cq: Absent,
        pub poll_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int>,
        pub req_notify_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int>,
        pub _compat_cq_srq: [Absent; 7],
        pub post_srq_recv: Option<
            unsafe extern "C" fn(*mut ibv_srq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int,
        >,
        pub _compat_qp: [Absent; 4],
        pub post_send:
            Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int>,
        pub post_recv:
            Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int>,
        pub _compat_ah: [Absent; 5],
    }

    pub struct ibv_context {
        pub device: *mut ibv_device,
        pub ops: ibv_context_ops,
        pub cmd_fd: c_int,
        pub async_fd: c_int,
        pub num_comp_vectors: c_int,
        pub mutex: libc::pthread_mutex_t,
        pub abi_compat: *mut c_void,
    }

    pub struct ibv_pd {
        pub context: *mut ibv_context,
        pub handle: u32,
    }

    pub struct ibv_td {
        pub context: *mut ibv_context,
    }

    /// What the library allocated: opaque to programs.
    pub struct ibv_buf {
        pub context: *mut ibv_context,
    }

    pub struct ibv_xrcd {
        pub context: *mut ibv_context,
    }

    pub struct ibv_mr {
        pub context: *mut ibv_context,
        pub pd: *mut ibv_pd,
        pub addr: *mut c_void,
        pub length: usize,
        pub handle: u32,
        pub lkey: u32,
        pub rkey: u32,
    }

    pub struct ibv_dm {
        pub context: *mut ibv_context,
        pub memcpy_to_dm: Option<unsafe extern "C" fn(*mut ibv_dm, u64, *const c_void, usize) -> c_int>,
        pub memcpy_from_dm: Option<unsafe extern "C" fn(*mut c_void, *mut ibv_dm, u64, usize) -> c_int>,
        pub comp_mask: u32,
        pub handle: u32,
    }

    pub struct ibv_mw {
        pub context: *mut ibv_context,
        pub pd: *mut ibv_pd,
        pub rkey: u32,
        pub handle: u32,
        pub kind: u32,
    }

    pub struct ibv_mw_bind_info {
        pub mr: *mut ibv_mr,
        pub addr: u64,
        pub length: u64,
        pub mw_access_flags: c_uint,
    }

    pub struct ibv_mw_bind {
        pub wr_id: u64,
        pub send_flags: c_uint,
        pub bind_info: ibv_mw_bind_info,
    }

    pub struct ibv_ah {
        pub context: *mut ibv_context,
        pub pd: *mut ibv_pd,
        pub handle: u32,
    }

    pub struct ibv_comp_channel {
        pub context: *mut ibv_context,
        pub fd: c_int,
        pub refcnt: c_int,
    }

    pub struct ibv_cq {
        pub context: *mut ibv_context,
        pub channel: *mut ibv_comp_channel,
        pub cq_context: *mut c_void,
        pub handle: u32,
        pub cqe: c_int,
        pub mutex: libc::pthread_mutex_t,
        pub cond: libc::pthread_cond_t,
        pub comp_events_completed: u32,
        pub async_events_completed: u32,
    }

    pub struct ibv_qp {
        pub context: *mut ibv_context,
        pub qp_context: *mut c_void,
        pub pd: *mut ibv_pd,
        pub send_cq: *mut ibv_cq,
        pub recv_cq: *mut ibv_cq,
        pub srq: *mut ibv_srq,
        pub handle: u32,
        pub qp_num: u32,
        pub state: u32,
        pub qp_type: u32,
        pub mutex: libc::pthread_mutex_t,
        pub cond: libc::pthread_cond_t,
        pub events_completed: u32,
    }

    pub struct ibv_srq {
        pub context: *mut ibv_context,
        pub srq_context: *mut c_void,
        pub pd: *mut ibv_pd,
        pub handle: u32,
        pub mutex: libc::pthread_mutex_t,
        pub cond: libc::pthread_cond_t,
        pub events_completed: u32,
    }

    pub struct ibv_wr_ud {
        pub ah: *mut ibv_ah,
        pub remote_qpn: u32,
        pub remote_qkey: u32,
    }

    pub union ibv_wr_target {
        pub rdma: ibv_wr_rdma,
        pub atomic: ibv_wr_atomic,
        pub ud: ibv_wr_ud,
    }

    pub struct ibv_wr_bind {
        pub mw: *mut ibv_mw,
        pub rkey: u32,
        pub bind_info: ibv_mw_bind_info,
    }

    pub struct ibv_send_wr {
        pub wr_id: u64,
        pub next: *mut ibv_send_wr,
        pub sg_list: *mut ibv_sge,
        pub num_sge: c_int,
        pub opcode: u32,
        pub send_flags: c_uint,
        /// Immediate data in network order, or the R_Key to invalidate.
        pub imm_data: u32,
        pub wr: ibv_wr_target,
        pub xrc_remote_srqn: u32,
        pub bind_mw: ibv_wr_bind,
    }
}
