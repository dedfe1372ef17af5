//! Exports for what no soft NIC has: DMA handles, buffers of other devices, completion counters.
//! They are there so that programs that know them load, and refuse.

use core::ffi::{c_int, c_void};

use crate::errno::{Errno, minus_one, pointer, status};
use abi::{ibv_context, ibv_dm, ibv_mr, ibv_pd};

/// A handle with hints for the PCIe bus: there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_alloc_dmah(_: *mut ibv_context, _: *const c_void) -> *mut c_void {
    pointer!(Err(Errno::UNSUPPORTED))
}

/// No handle was ever given out. What a device without such handles answers is the same for any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dealloc_dmah(_: *mut c_void) -> c_int {
    status!(Err(Errno::UNSUPPORTED))
}

/// Buffers of other devices cannot be reached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_dmabuf_mr(
    _: *mut ibv_pd,
    _: u64,
    _: usize,
    _: u64,
    _: c_int,
    _: c_int,
) -> *mut ibv_mr {
    pointer!(Err(Errno::UNSUPPORTED))
}

/// Device memory is the NIC's own, and no DMA-buf.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dm_export_dmabuf_fd(_: *mut ibv_dm) -> c_int {
    minus_one!(Err(Errno::UNSUPPORTED))
}

macro_rules! no_completion_counters {
    ($($name:ident)*) => {
        $(
            /// Completion counters (`ibv_create_comp_cntr`): there are none.
            #[unsafe(no_mangle)]
            pub extern "C" fn $name() -> c_int {
                status!(Err(Errno::UNSUPPORTED))
            }
        )*
    };
}

no_completion_counters! {
    _ibv_query_comp_cntr_caps ibv_destroy_comp_cntr ibv_set_comp_cntr ibv_set_err_comp_cntr
    ibv_inc_comp_cntr ibv_inc_err_comp_cntr ibv_read_comp_cntr ibv_read_err_comp_cntr
    ibv_qp_attach_comp_cntr
}

/// A completion counter: there are none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_comp_cntr(
    _: *mut ibv_context,
    _: *const c_void,
) -> *mut c_void {
    pointer!(Err(Errno::UNSUPPORTED))
}
