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

/// Declares structures and unions of C: each is laid out as C does it, is copied, and is [`Plain`].
#[macro_export]
macro_rules! structures {
    ($($(#[$meta:meta])* pub $kind:ident $name:ident { $($fields:tt)* })*) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy)]
            #[repr(C)]
            pub $kind $name { $($fields)* }

            // SAFETY: integers, raw pointers, optional functions and C's own pthread types.
            unsafe impl $crate::Plain for $name {}
        )*
    };
}

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

#[cfg(test)]
mod tests;
