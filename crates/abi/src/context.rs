//! The extended context: what the header's inline functions call.

use core::ffi::{c_int, c_uint, c_void};

use super::{
    Absent, ibv_alloc_dm_attr, ibv_context, ibv_cq_ex, ibv_cq_init_attr_ex, ibv_device_attr_ex,
    ibv_dm, ibv_mr, ibv_parent_domain_init_attr, ibv_pd, ibv_port_attr, ibv_qp,
    ibv_qp_init_attr_ex, ibv_qp_open_attr, ibv_query_device_ex_input, ibv_sge, ibv_srq,
    ibv_srq_init_attr_ex, ibv_td, ibv_td_init_attr, ibv_values_ex, ibv_xrcd, ibv_xrcd_init_attr,
};

structures! {
    /// The extended context. It grows at the front, and `sz` says how far: an inline function first
    /// asks whether the operation that it wants lies within.
    pub struct verbs_context {
        /// Operations of releases after 44 (DMA handles, `reg_mr_ex`, buffers), none offered.
        pub newer: [Absent; 6],
        pub query_port:
            Option<unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr, usize) -> c_int>,
        pub advise_mr: Option<unsafe extern "C" fn(*mut ibv_pd, u32, u32, *mut ibv_sge, u32) -> c_int>,
        pub alloc_null_mr: Option<unsafe extern "C" fn(*mut ibv_pd) -> *mut ibv_mr>,
        pub read_counters: Absent,
        pub attach_counters_point_flow: Absent,
        pub create_counters: Absent,
        pub destroy_counters: Absent,
        pub reg_dm_mr:
            Option<unsafe extern "C" fn(*mut ibv_pd, *mut ibv_dm, u64, usize, c_uint) -> *mut ibv_mr>,
        pub alloc_dm:
            Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_alloc_dm_attr) -> *mut ibv_dm>,
        pub free_dm: Option<unsafe extern "C" fn(*mut ibv_dm) -> c_int>,
        pub modify_flow_action_esp: Absent,
        pub destroy_flow_action: Absent,
        pub create_flow_action_esp: Absent,
        pub modify_qp_rate_limit: Absent,
        pub alloc_parent_domain: Option<
            unsafe extern "C" fn(*mut ibv_context, *mut ibv_parent_domain_init_attr) -> *mut ibv_pd,
        >,
        pub dealloc_td: Option<unsafe extern "C" fn(*mut ibv_td) -> c_int>,
        pub alloc_td:
            Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_td_init_attr) -> *mut ibv_td>,
        pub modify_cq: Absent,
        pub post_srq_ops: Absent,
        pub destroy_rwq_ind_table: Absent,
        pub create_rwq_ind_table: Absent,
        pub destroy_wq: Absent,
        pub modify_wq: Absent,
        pub create_wq: Absent,
        pub query_rt_values:
            Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_values_ex) -> c_int>,
        pub create_cq_ex:
            Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex>,
        pub private: *mut c_void,
        pub query_device_ex: Option<
            unsafe extern "C" fn(
                *mut ibv_context,
                *const ibv_query_device_ex_input,
                *mut ibv_device_attr_ex,
                usize,
            ) -> c_int,
        >,
        pub ibv_destroy_flow: Absent,
        pub abi_placeholder2: Absent,
        pub ibv_create_flow: Absent,
        pub abi_placeholder1: Absent,
        pub open_qp:
            Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_qp_open_attr) -> *mut ibv_qp>,
        pub create_qp_ex:
            Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_qp_init_attr_ex) -> *mut ibv_qp>,
        pub get_srq_num: Option<unsafe extern "C" fn(*mut ibv_srq, *mut u32) -> c_int>,
        pub create_srq_ex:
            Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_srq_init_attr_ex) -> *mut ibv_srq>,
        pub open_xrcd:
            Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_xrcd_init_attr) -> *mut ibv_xrcd>,
        pub close_xrcd: Option<unsafe extern "C" fn(*mut ibv_xrcd) -> c_int>,
        pub abi_placeholder3: u64,
        pub sz: usize,
        pub context: ibv_context,
    }
}
