//! The exports of `IBVERBS_PRIVATE_34`, through which providers call libibverbs.
//!
//! Programs link stock provider libraries directly (perftest: mlx5 and EFA), and those are bound
//! when they are loaded. Each export is there and refuses; none is ever called for our devices.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::AtomicBool;

use crate::errno::{Errno, status};

/// A provider registers itself when it is loaded. It is not asked for devices.
#[unsafe(no_mangle)]
pub extern "C" fn verbs_register_driver_34(_: *const c_void) {}

/// A provider replaces a context's operations: ours stay.
#[unsafe(no_mangle)]
pub extern "C" fn verbs_set_ops(_: *mut c_void, _: *const c_void) {}

/// A provider's debug output.
#[unsafe(no_mangle)]
pub extern "C" fn __verbs_log(_: *mut c_void, _: u32, _: *const c_void) {}

/// A provider opens a device of its own.
#[unsafe(no_mangle)]
pub extern "C" fn verbs_open_device(_: *mut c_void, _: *mut c_void) -> *mut c_void {
    Errno::UNSUPPORTED.set();
    ptr::null_mut()
}

/// A provider makes its context.
#[unsafe(no_mangle)]
pub extern "C" fn _verbs_init_and_alloc_context() -> *mut c_void {
    Errno::UNSUPPORTED.set();
    ptr::null_mut()
}

/// A provider ends its context.
#[unsafe(no_mangle)]
pub extern "C" fn verbs_uninit_context(_: *mut c_void) {}

/// A provider fills in a completion queue.
#[unsafe(no_mangle)]
pub extern "C" fn verbs_init_cq() {}

/// How many attributes a provider's command has in the end.
#[unsafe(no_mangle)]
pub extern "C" fn __ioctl_final_num_attrs(_: u32) -> u32 {
    0
}

/// Whether a provider's objects may go with their device: a variable, false.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name is that of the C variable")]
pub static verbs_allow_disassociate_destroy: AtomicBool = AtomicBool::new(false);

macro_rules! refused {
    ($($name:ident)*) => {
        $(
            /// A provider's command to the kernel: there is no kernel device.
            #[unsafe(no_mangle)]
            pub extern "C" fn $name() -> c_int {
                status(Err(Errno::UNSUPPORTED))
            }
        )*
    };
}

refused! {
    execute_ioctl
    ibv_cmd_advise_mr ibv_cmd_alloc_dm ibv_cmd_alloc_mw ibv_cmd_alloc_pd ibv_cmd_attach_mcast
    ibv_cmd_close_xrcd ibv_cmd_create_ah ibv_cmd_create_counters ibv_cmd_create_cq
    ibv_cmd_create_cq_ex ibv_cmd_create_flow ibv_cmd_create_flow_action_esp ibv_cmd_create_qp
    ibv_cmd_create_qp_ex ibv_cmd_create_qp_ex2 ibv_cmd_create_rwq_ind_table ibv_cmd_create_srq
    ibv_cmd_create_srq_ex ibv_cmd_create_wq ibv_cmd_dealloc_mw ibv_cmd_dealloc_pd ibv_cmd_dereg_mr
    ibv_cmd_destroy_ah ibv_cmd_destroy_counters ibv_cmd_destroy_cq ibv_cmd_destroy_flow
    ibv_cmd_destroy_flow_action ibv_cmd_destroy_qp ibv_cmd_destroy_rwq_ind_table
    ibv_cmd_destroy_srq ibv_cmd_destroy_wq ibv_cmd_detach_mcast ibv_cmd_free_dm
    ibv_cmd_get_context ibv_cmd_modify_cq ibv_cmd_modify_flow_action_esp ibv_cmd_modify_qp
    ibv_cmd_modify_qp_ex ibv_cmd_modify_srq ibv_cmd_modify_wq ibv_cmd_open_qp ibv_cmd_open_xrcd
    ibv_cmd_poll_cq ibv_cmd_post_recv ibv_cmd_post_send ibv_cmd_post_srq_recv
    ibv_cmd_query_context ibv_cmd_query_device_any ibv_cmd_query_mr ibv_cmd_query_port
    ibv_cmd_query_qp ibv_cmd_query_srq ibv_cmd_read_counters ibv_cmd_reg_dm_mr
    ibv_cmd_reg_dmabuf_mr ibv_cmd_reg_mr ibv_cmd_req_notify_cq ibv_cmd_rereg_mr ibv_cmd_resize_cq
    ibv_read_ibdev_sysfs_file
}
