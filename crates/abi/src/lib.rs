//! The structures of `infiniband/verbs.h`, as the binaries lay them out.
//!
//! Our own `libibverbs.so.1` and the programs that load another one see the same memory through them.
//! Names are those of the header, so that a man page is the documentation of each. The layout is
//! fixed for ever on x86-64 and arm64 Linux; the tests below state the sizes and offsets, and
//! `cargo xtask abi` compares them with the installed header.
//!
//! **Invariant:** every structure here is plain data that is valid when it is all zeroes.

#![allow(unsafe_code, reason = "a structure of zeroes is made, and promised to be one")]
#![allow(non_camel_case_types, reason = "the names are those of the C header")]
#![allow(missing_docs, reason = "fields are documented by the verbs man pages")]
#![allow(missing_debug_implementations, reason = "plain C data, unions and pointers")]

mod context;
mod device;
mod handles;
mod object;
mod queue;
mod work;

pub use context::*;
pub use device::*;
pub use handles::*;
pub use object::*;
pub use queue::*;
pub use work::*;

/// Plain C data: any bit pattern that C may leave in it is a value, all zeroes among them.
///
/// # Safety
/// Only for structures without references, enums, or other types with invalid bit patterns.
pub unsafe trait Plain: Sized {
    /// The structure as `memset(.., 0, ..)` makes it.
    fn zeroed() -> Self {
        // SAFETY: the implementor promises that zero bytes are a value.
        unsafe { core::mem::zeroed() }
    }
}

macro_rules! plain {
    ($($name:ident),* $(,)?) => {
        $(
            // SAFETY: integers, raw pointers, optional functions and C's own pthread types.
            unsafe impl Plain for $name {}
        )*
    };
}

plain! {
    ibv_device, verbs_device, ibv_device_attr, ibv_device_attr_ex, ibv_port_attr, ibv_gid_entry,
    ibv_context, verbs_context, ibv_pd, ibv_td, ibv_mr, ibv_mw, ibv_mw_bind_info, ibv_ah, ibv_comp_channel, ibv_cq,
    ibv_cq_ex, ibv_qp, ibv_qp_ex, ibv_srq, ibv_ah_attr, ibv_qp_attr, ibv_qp_init_attr,
    ibv_qp_init_attr_ex, ibv_srq_attr, ibv_srq_init_attr, ibv_async_event, ibv_wc, ibv_send_wr,
    ibv_recv_wr, ibv_sge, ibv_cq_init_attr_ex, ibv_grh, ibv_xrcd, ibv_xrcd_init_attr,
    ibv_qp_open_attr, ibv_srq_init_attr_ex, ibv_alloc_dm_attr, ibv_dm,
}

#[cfg(test)]
mod tests;
