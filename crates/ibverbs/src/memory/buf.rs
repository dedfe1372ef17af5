//! Buffers that the library allocates (`ibv_alloc_buf` and its kin), which are ordinary memory; and
//! registration by a structure, which may name one.

use core::ffi::{c_int, c_void};
use core::ptr;
use std::sync::Arc;

use crate::context::{Context, owned};
use crate::errno::{Errno, minus_one, pointer};
use crate::memory::mr;
use crate::pd::Pd;
use crate::registry::{self, Object, Shared};
use abi::{ibv_buf, ibv_mr, ibv_mr_init_attr, ibv_pd};

/// A buffer, unmapped with its handle.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Buf {
    c: Shared<ibv_buf>,
    context: Arc<Context>,
    /// Only regions of this domain lie in it.
    pd: Arc<Pd>,
    mapping: Mapping,
}

owned!(context, Buf, ibv_buf);

impl Buf {
    /// Whether the region `[address, address + length)` of `pd` may lie in the buffer.
    pub(super) fn check(
        &self,
        pd: &Arc<Pd>,
        address: *mut c_void,
        length: usize,
    ) -> Result<(), Errno> {
        let offset = address.addr().checked_sub(self.mapping.start.addr());
        let end = offset.and_then(|offset| offset.checked_add(length));
        let is_inside = end.is_some_and(|end| end <= self.mapping.bytes);
        if Arc::ptr_eq(&self.pd, pd) && is_inside {
            Ok(())
        } else {
            Err(Errno::invalid(
                "the memory is not inside the buffer, or the buffer of another protection domain",
            ))
        }
    }
}

/// Pages of our own.
#[derive(Debug)]
struct Mapping {
    start: *mut c_void,
    bytes: usize,
}

// SAFETY: the mapping is memory that any thread may use and give back.
unsafe impl Send for Mapping {}
// SAFETY: as above; nothing is reached through it here.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(bytes: usize) -> Result<Self, Errno> {
        if bytes == 0 {
            return Err(Errno::invalid("a buffer needs a length"));
        }
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, wherever there is room.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, rights, kind, -1, 0) };
        if start == libc::MAP_FAILED { Err(Errno::last()) } else { Ok(Self { start, bytes }) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and its handle is gone.
        unsafe { libc::munmap(self.start, self.bytes) };
    }
}

/// Allocates a buffer: its address, and its handle in `buf`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_alloc_buf(
    pd: *mut ibv_pd,
    size: usize,
    buf: *mut *mut ibv_buf,
) -> *mut c_void {
    pointer!(registry::find::<Pd>(pd).and_then(|pd| {
        // SAFETY: C passes a writable pointer.
        let buf = unsafe { buf.as_mut() }.ok_or(Errno::NULL)?;
        let mapping = Mapping::new(size)?;
        let start = mapping.start;
        let context = Arc::clone(&pd.context);
        let c = Shared::new(ibv_buf { context: context.c() });
        *buf = registry::insert(Arc::new(Buf { c, context, pd, mapping }));
        Ok(start)
    }))
}

/// Gives a buffer back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_free_buf(buf: *mut ibv_buf) {
    let _gone = registry::forget::<Buf>(buf);
}

/// Registers a part of a buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_buf_mr(
    pd: *mut ibv_pd,
    buf: *mut ibv_buf,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    pointer!(registry::find::<Pd>(pd).and_then(|pd| {
        registry::find::<Buf>(buf)?.check(&pd, addr, length)?;
        mr::register_at(&pd, addr, length, addr.addr() as u64, access.cast_unsigned())
    }))
}

/// Registers memory as `mr_init_attr` says: of the program, or of a buffer that it got from
/// `ibv_alloc_buf`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_ex(
    pd: *mut ibv_pd,
    mr_init_attr: *mut ibv_mr_init_attr,
) -> *mut ibv_mr {
    const KNOWN: u64 =
        abi::IBV_REG_MR_MASK_IOVA | abi::IBV_REG_MR_MASK_ADDR | abi::IBV_REG_MR_MASK_BUF;
    pointer!(registry::find::<Pd>(pd).and_then(|pd| {
        if mr_init_attr.is_null() {
            return Err(Errno::NULL);
        }
        let attr = mr_init_attr;
        // SAFETY: C passes a readable structure that has these, whichever release it is of.
        let (length, access, mask, iova, addr) = unsafe {
            ((*attr).length, (*attr).access, (*attr).comp_mask, (*attr).iova, (*attr).addr)
        };
        if mask & !KNOWN != 0 {
            return Err(Errno::UNSUPPORTED);
        }
        if mask & abi::IBV_REG_MR_MASK_ADDR == 0 {
            return Err(Errno::invalid("comp_mask lacks IBV_REG_MR_MASK_ADDR"));
        }
        if mask & abi::IBV_REG_MR_MASK_BUF != 0 {
            // SAFETY: who sets the bit has the field.
            let buf = unsafe { (*attr).buf };
            registry::find::<Buf>(buf)?.check(&pd, addr, length)?;
        }
        let has_iova = mask & abi::IBV_REG_MR_MASK_IOVA != 0;
        let iova = if has_iova { iova } else { addr.addr() as u64 };
        mr::register_at(&pd, addr, length, iova, access.cast_unsigned())
    }))
}

/// No buffer of ours is a DMA-buf.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_export_buf_dmabuf_fd(buf: *mut ibv_buf) -> c_int {
    minus_one!(registry::find::<Buf>(buf).and(Err(Errno::NO_DATA)))
}
