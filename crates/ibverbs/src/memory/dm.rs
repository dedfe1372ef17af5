//! Device memory: `ibv_alloc_dm`, `ibv_free_dm`, `ibv_reg_dm_mr`, `ibv_memcpy_to_dm`.

use core::ffi::{c_int, c_uint, c_void};
use core::ptr;
use std::sync::Arc;

use rdma::{Access, Memory};
use softnic::limits;
use transport::RegionSpec;

use crate::context::{Context, owned};
use crate::errno::{Errno, pointer, status};
use crate::memory::mr::{self, Mr};
use crate::memory::piece::Piece;
use crate::pd::Pd;
use crate::registry::{self, Object, Shared};
use abi::{ibv_alloc_dm_attr, ibv_context, ibv_dm, ibv_mr, ibv_pd};

/// Offsets and lengths of copies are multiples of this, as on hardware, where a program maps the
/// memory and copies word by word.
const WORD: u64 = 4;

/// A handle of a piece of device memory.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Dm {
    c: Shared<ibv_dm>,
    context: Arc<Context>,
    piece: Arc<Piece>,
}

owned!(context, Dm, ibv_dm);

impl Dm {
    fn new(context: Arc<Context>, piece: Arc<Piece>) -> Arc<Self> {
        let c = ibv_dm {
            context: context.c(),
            memcpy_to_dm: Some(memcpy_to_dm),
            memcpy_from_dm: Some(memcpy_from_dm),
            comp_mask: 0,
            handle: piece.number(),
        };
        Arc::new(Self { c: Shared::new(c), context, piece })
    }
}

/// `ibv_alloc_dm`.
pub(crate) unsafe extern "C" fn alloc_dm(
    context: *mut ibv_context,
    attr: *mut ibv_alloc_dm_attr,
) -> *mut ibv_dm {
    pointer!(registry::find::<Context>(context).and_then(|context| {
        // SAFETY: C passes a readable structure.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno::NULL)?;
        let align = 1_u64.checked_shl(attr.log_align_req).unwrap_or(u64::MAX);
        if attr.comp_mask != 0 || attr.length == 0 || align > limits::DEVICE_MEMORY_ALIGN_MAX {
            return Err(Errno::invalid(
                "comp_mask is not 0, length is 0, or log_align_req is too large",
            ));
        }
        let (nic, length) = (Arc::clone(&context.nic), attr.length as u64);
        let address = nic.take_device_memory(length, align).ok_or(Errno::NO_MEMORY)?;
        let piece = Arc::new(Piece { nic, address, length });
        Ok(registry::insert(Dm::new(context, piece)))
    }))
}

/// `ibv_free_dm`; `EBUSY` while a region is registered over it.
pub(crate) unsafe extern "C" fn free_dm(dm: *mut ibv_dm) -> c_int {
    status!(registry::find::<Dm>(dm).and_then(|dm| {
        let lies_in = |mr: &Arc<Mr>| mr.lies_in(&dm.piece).then_some(());
        if registry::search(lies_in).is_some() {
            return Err(Errno::BUSY.because("a region is registered over it"));
        }
        registry::remove(&*dm);
        Ok(())
    }))
}

/// Makes a handle, in `context`, of the device memory that has the number `dm_handle` in another
/// context of the same device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_import_dm(context: *mut ibv_context, dm_handle: u32) -> *mut ibv_dm {
    pointer!(registry::find::<Context>(context).and_then(|context| {
        let piece_of = |dm: &Arc<Dm>| {
            let is_it = dm.piece.number() == dm_handle && Arc::ptr_eq(&dm.piece.nic, &context.nic);
            is_it.then(|| Arc::clone(&dm.piece))
        };
        let piece = registry::search(piece_of)
            .ok_or(Errno::invalid("no device memory of this context has this handle"))?;
        Ok(registry::insert(Dm::new(context, piece)))
    }))
}

/// Forgets a handle. The memory stays as long as there is another, or a region.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_unimport_dm(dm: *mut ibv_dm) {
    let _gone = registry::forget::<Dm>(dm);
}

/// `ibv_reg_dm_mr`: requests name it by offsets from its beginning.
pub(crate) unsafe extern "C" fn reg_dm_mr(
    pd: *mut ibv_pd,
    dm: *mut ibv_dm,
    dm_offset: u64,
    length: usize,
    access: c_uint,
) -> *mut ibv_mr {
    pointer!(registry::find::<Pd>(pd).and_then(|pd| {
        let dm = registry::find::<Dm>(dm)?;
        let access = mr::access(access)?;
        let meant = Access::ZERO_BASED
            | Access::LOCAL_WRITE
            | Access::REMOTE_WRITE
            | Access::REMOTE_READ
            | Access::REMOTE_ATOMIC;
        let fits = access.allows(Access::ZERO_BASED) && meant.allows(access);
        if !fits || !Arc::ptr_eq(&pd.context, &dm.context) {
            return Err(Errno::invalid("access lacks IBV_ACCESS_ZERO_BASED or has more than device memory allows, or pd and dm are of two contexts"));
        }
        let length = length as u64;
        let address = dm.piece.range(dm_offset, length).ok_or(Errno::invalid("the range is beyond the device memory"))?;
        let spec = RegionSpec { address, length, iova: 0, access };
        mr::register(&pd, spec, ptr::null_mut(), Some(Arc::clone(&dm.piece)))
    }))
}

/// Copies to or from `length` bytes of device memory at `offset`.
fn copy(
    dm: *mut ibv_dm,
    offset: u64,
    host: *const c_void,
    length: usize,
    copy: impl FnOnce(&mut softnic::ProcessMemory, u64) -> Result<(), rdma::MemoryFault>,
) -> c_int {
    status!(registry::find::<Dm>(dm).and_then(|dm| {
        let length = length as u64;
        let whole = offset.is_multiple_of(WORD) && length.is_multiple_of(WORD);
        if !whole || host.is_null() && length > 0 {
            return Err(Errno::invalid(
                "offset and length must be multiples of 4, and the host's memory not NULL",
            ));
        }
        let address = dm
            .piece
            .range(offset, length)
            .ok_or(Errno::FAULT.because("the range is beyond the device memory"))?;
        if length == 0 {
            return Ok(());
        }
        dm.context.nic.with(|_, memory, _| copy(memory, address)).map_err(|_| Errno::FAULT)
    }))
}

/// `ibv_memcpy_to_dm`.
unsafe extern "C" fn memcpy_to_dm(
    dm: *mut ibv_dm,
    dm_offset: u64,
    host_addr: *const c_void,
    length: usize,
) -> c_int {
    copy(dm, dm_offset, host_addr, length, |memory, address| {
        // SAFETY: C passes as many readable bytes, which was checked not to be NULL.
        memory.store(address, unsafe { core::slice::from_raw_parts(host_addr.cast(), length) })
    })
}

/// `ibv_memcpy_from_dm`.
unsafe extern "C" fn memcpy_from_dm(
    host_addr: *mut c_void,
    dm: *mut ibv_dm,
    dm_offset: u64,
    length: usize,
) -> c_int {
    copy(dm, dm_offset, host_addr, length, |memory, address| {
        // SAFETY: C passes as many writable bytes, which was checked not to be NULL.
        memory.load(address, unsafe { core::slice::from_raw_parts_mut(host_addr.cast(), length) })
    })
}
