//! Memory regions: `ibv_reg_mr` and its kin.

use core::ffi::{c_int, c_uint, c_void};
use std::sync::{Arc, Mutex};

use rdma::{Access, Key};
use transport::RegionSpec;

use crate::context::{Context, owned};
use crate::errno::{Errno, pointer, status};
use crate::memory::piece::Piece;
use crate::pd::Pd;
use crate::registry::{self, Hot, Mark, Object, Shared};
use crate::request;
use crate::sync::lock;
use abi::{self, ibv_mr, ibv_pd, ibv_sge};

/// A region.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Mr {
    c: Shared<ibv_mr>,
    mark: Mark,
    context: Arc<Context>,
    pub(crate) key: Key,
    /// What the region belongs to, and what therefore cannot be destroyed before it.
    pd: Mutex<Arc<Pd>>,
    /// The device memory that it lies in, if not in that of the program.
    piece: Option<Arc<Piece>>,
    /// Another context made it.
    imported: bool,
}

owned!(context, Mr, ibv_mr, b"fcMR");

impl Mr {
    /// Ends the engine's object: the device is closed.
    pub(crate) fn end(&self) {
        if !self.imported {
            // It fails if the engine's object is gone already.
            let _ = self.context.nic.with(|endpoint, _, _| endpoint.deregister(self.key));
        }
    }

    /// Whether the region is in that device memory.
    pub(crate) fn lies_in(&self, piece: &Arc<Piece>) -> bool {
        self.piece.as_ref().is_some_and(|other| Arc::ptr_eq(other, piece))
    }
}

/// Rights by their bits: unknown ones are refused, hints are dropped.
pub(crate) fn access(bits: u32) -> Result<Access, Errno> {
    Access::from_bits(bits).ok_or(Errno::UNSUPPORTED)
}

/// All of memory, which a program registers by address 0 and the largest length (`ibv_reg_mr`,
/// "implicit on-demand paging"). A peer that names an address where nothing is mapped gets a remote
/// access error. Windows are not bound to it.
fn everything(access: Access) -> Result<RegionSpec, Errno> {
    if access.allows(Access::MW_BIND) {
        return Err(Errno::UNSUPPORTED);
    }
    Ok(RegionSpec { address: 0, length: u64::MAX, iova: 0, access })
}

fn spec(address: *mut c_void, length: usize, iova: u64, bits: u32) -> Result<RegionSpec, Errno> {
    let access = access(bits)?;
    if address.is_null() && length == usize::MAX && access.allows(Access::ON_DEMAND) {
        return everything(access);
    }
    let start = address.expose_provenance() as u64;
    let iova = if access.allows(Access::ZERO_BASED) { 0 } else { iova };
    if length == 0 || start.checked_add(length as u64).is_none() {
        return Err(Errno::invalid(
            "a region needs a length, and must not wrap around the address space",
        ));
    }
    check_mapped(address, length)?;
    if access.allows(Access::LOCAL_WRITE) {
        check_writable(address, length)?;
    }
    Ok(RegionSpec { address: start, length: length as u64, iova, access })
}

fn page_bytes() -> usize {
    // SAFETY: a plain system call.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// Fails as the kernel's pinning would if the first page of the range, or the last, is read-only. A page
/// between them that is so is noticed when it is written.
fn check_writable(address: *mut c_void, length: usize) -> Result<(), Errno> {
    let page = page_bytes();
    let last = address.addr().saturating_add(length - 1);
    for at in [address.addr(), last].map(|at| at / page * page) {
        let start = address.with_addr(at);
        // SAFETY: it makes a page of the mapping present, and changes no byte of it.
        let result = unsafe { libc::madvise(start, page, libc::MADV_POPULATE_WRITE) };
        // It fails for other reasons, too: on old kernels, and for memory of devices.
        if result != 0 && is_read_only(at) {
            return Err(Errno::FAULT.because("the memory is not mapped, or may not be written"));
        }
    }
    Ok(())
}

/// Whether the process may not write at an address that is mapped.
fn is_read_only(address: usize) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().any(|line| {
        let Some((range, rest)) = line.split_once(' ') else { return false };
        let Some((start, end)) = range.split_once('-') else { return false };
        let bound = |text| usize::from_str_radix(text, 16).ok();
        let is_there = bound(start).is_some_and(|start| start <= address)
            && bound(end).is_some_and(|end| address < end);
        is_there && rest.as_bytes().get(1) == Some(&b'-')
    })
}

/// Fails as the kernel's pinning would if a page of the range is not mapped.
fn check_mapped(address: *mut c_void, length: usize) -> Result<(), Errno> {
    const PAGES: usize = 4096;
    let page = page_bytes();
    let mut resident = [0_u8; PAGES];
    let first = address.addr() / page * page;
    let end = address.addr().saturating_add(length);
    for start in (first..end).step_by(PAGES * page) {
        let bytes = (end - start).min(PAGES * page);
        // SAFETY: `mincore` only reads page tables and writes one byte a page into the array.
        let result =
            unsafe { libc::mincore(address.with_addr(start), bytes, resident.as_mut_ptr()) };
        if result != 0 {
            return Err(Errno::FAULT.because("the memory is not mapped, or may not be written"));
        }
    }
    Ok(())
}

/// Registers what `spec` says; C is told that it is at `address`.
pub(crate) fn register(
    pd: &Arc<Pd>,
    spec: RegionSpec,
    address: *mut c_void,
    piece: Option<Arc<Piece>>,
) -> Result<*mut ibv_mr, Errno> {
    let context = Arc::clone(&pd.context);
    let key = context.nic.register(pd.id, spec)?;
    let c = ibv_mr {
        context: context.c(),
        pd: pd.c(),
        addr: address,
        length: spec.length as usize,
        handle: key.index(),
        lkey: key.0,
        rkey: key.0,
    };
    let mark = Mark::new(Mr::KIND);
    let mr = Mr {
        c: Shared::new(c),
        mark,
        context,
        key,
        pd: Mutex::new(Arc::clone(pd)),
        piece,
        imported: false,
    };
    Ok(registry::insert(Arc::new(mr)))
}

/// Registers memory of the program; requests name it by addresses from `iova` on.
pub(super) fn register_at(
    pd: &Arc<Pd>,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: u32,
) -> Result<*mut ibv_mr, Errno> {
    register(pd, spec(addr, length, iova, access)?, addr, None)
}

/// Registers memory; requests name it by its own addresses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: the same promises.
    unsafe { ibv_reg_mr_iova2(pd, addr, length, addr.addr() as u64, access.cast_unsigned()) }
}

/// Registers memory; requests name it by addresses from `iova` on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: the same promises.
    unsafe { ibv_reg_mr_iova2(pd, addr, length, iova, access.cast_unsigned()) }
}

/// Registers memory, with rights among which there may be hints.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova2(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> *mut ibv_mr {
    pointer!(registry::find::<Pd>(pd).and_then(|pd| register_at(&pd, addr, length, iova, access)))
}

/// Makes a handle, beside `pd`, of the region that has the number `mr_handle` in another context of
/// the same device. It says nothing of the address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_import_mr(pd: *mut ibv_pd, mr_handle: u32) -> *mut ibv_mr {
    pointer!(registry::find::<Pd>(pd).and_then(|pd| {
        let context = Arc::clone(&pd.context);
        let is_it = |mr: &Arc<Mr>| {
            mr.key.index() == mr_handle && Arc::ptr_eq(&mr.context.nic, &context.nic)
        };
        let original = registry::search(|mr| is_it(mr).then(|| Arc::clone(mr)));
        let original =
            original.ok_or(Errno::invalid("no region of this context has this handle"))?;
        let (key, piece) = (original.key, original.piece.clone());
        let changing = lock(&original.pd);
        // SAFETY: `ibv_rereg_mr`, which alone changes the fields, holds this lock.
        let of_original = unsafe { original.c().read() };
        drop(changing);
        let c =
            ibv_mr { context: context.c(), pd: pd.c(), addr: core::ptr::null_mut(), ..of_original };
        let (c, mark, pd) = (Shared::new(c), Mark::new(Mr::KIND), Mutex::new(pd));
        Ok(registry::insert(Arc::new(Mr { c, mark, context, key, pd, piece, imported: true })))
    }))
}

/// Forgets a handle. The region stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_unimport_mr(mr: *mut ibv_mr) {
    let _gone = registry::forget::<Mr>(mr);
}

/// Ends a region: its keys reach nothing any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    status!(registry::find::<Mr>(mr).and_then(|mr| {
        mr.context.nic.with(|endpoint, _, _| endpoint.deregister(mr.key))?;
        registry::remove(&*mr);
        Ok(())
    }))
}

/// Changes a region in place: its keys stay. Returns one of `ibv_rereg_mr_err_code`, the region
/// being as it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_rereg_mr(
    mr: *mut ibv_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    let input = |error| (error, abi::IBV_REREG_MR_ERR_INPUT);
    let changed = change(mr, flags, pd, addr, length).map_err(input).and_then(|change| {
        change.apply(access.cast_unsigned()).map_err(|error| (error, abi::IBV_REREG_MR_ERR_CMD))
    });
    match changed {
        Ok(()) => 0,
        Err((error, code)) => {
            error.set();
            code
        }
    }
}

/// What is to become of a region.
struct Change {
    mr: Arc<Mr>,
    flags: c_int,
    pd: Option<Arc<Pd>>,
    memory: Option<(*mut c_void, usize)>,
}

/// Checks what `ibv_rereg_mr` was given.
fn change(
    mr: *mut ibv_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
) -> Result<Change, Errno> {
    let known = abi::IBV_REREG_MR_CHANGE_TRANSLATION
        | abi::IBV_REREG_MR_CHANGE_PD
        | abi::IBV_REREG_MR_CHANGE_ACCESS;
    let has = |flag| flags & flag != 0;
    let mr = registry::find::<Mr>(mr)?;
    // rdma-core has only its maker change a region.
    if flags & !known != 0 || flags == 0 || mr.imported {
        return Err(Errno::invalid("flags are unknown or none, or the region is imported"));
    }
    let pd = match has(abi::IBV_REREG_MR_CHANGE_PD) {
        true => Some(registry::find::<Pd>(pd)?),
        false => None,
    };
    if pd.as_ref().is_some_and(|pd| !Arc::ptr_eq(&pd.context, &mr.context)) {
        return Err(Errno::invalid("pd is of another context"));
    }
    let memory = has(abi::IBV_REREG_MR_CHANGE_TRANSLATION).then_some((addr, length));
    // A region in device memory stays there.
    let moves = memory.is_some() && mr.piece.is_some();
    if moves || memory.is_some_and(|(addr, length)| addr.is_null() || length == 0) {
        return Err(Errno::invalid(
            "device memory cannot be moved, and addr and length must not be 0",
        ));
    }
    Ok(Change { mr, flags, pd, memory })
}

impl Change {
    fn apply(self, bits: u32) -> Result<(), Errno> {
        let Self { mr, flags, pd, memory } = self;
        let mut held = lock(&mr.pd);
        let pd = pd.unwrap_or_else(|| Arc::clone(&held));
        let query = |key| mr.context.nic.with(|endpoint, _, _| endpoint.query_region(key));
        let (_, mut region) = query(mr.key).ok_or(Errno::invalid("the region is gone"))?;
        if flags & abi::IBV_REREG_MR_CHANGE_ACCESS != 0 {
            region.access = access(bits)?;
            if region.access.allows(Access::ZERO_BASED) {
                region.iova = 0;
            }
        }
        if let Some((address, length)) = memory {
            region = spec(address, length, address.addr() as u64, region.access.bits())?;
        }
        mr.context.nic.with(|endpoint, _, _| endpoint.reregister(mr.key, pd.id, region))?;
        // SAFETY: C reads the fields only when the call is over.
        let c = unsafe { &mut *mr.c() };
        c.pd = pd.c();
        if let Some((address, length)) = memory {
            (c.addr, c.length) = (address, length);
        }
        *held = pd;
        Ok(())
    }
}

/// `ibv_advise_mr`: pages are mapped when they are touched, so valid advice is accepted and changes
/// nothing. Regions need not be on demand: there is no other kind here.
pub(crate) unsafe extern "C" fn advise_mr(
    pd: *mut ibv_pd,
    advice: u32,
    flags: u32,
    sg_list: *mut ibv_sge,
    num_sge: u32,
) -> c_int {
    status!(registry::find::<Pd>(pd).and_then(|pd| {
        let needed = match advice {
            abi::IBV_ADVISE_MR_ADVICE_PREFETCH | abi::IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT => {
                Access::NONE
            }
            abi::IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE => Access::LOCAL_WRITE,
            _ => return Err(Errno::UNSUPPORTED),
        };
        let count = c_int::try_from(num_sge).unwrap_or(-1);
        if flags & !abi::IBV_ADVISE_MR_FLAG_FLUSH != 0 || count == 0 {
            return Err(Errno::invalid("flags are unknown, or num_sge is 0"));
        }
        // SAFETY: C passes a list of that length.
        let pieces = unsafe { request::pieces(sg_list, count)? };
        pd.context.nic.with(|endpoint, _, _| {
            let fits = |piece: &ibv_sge| {
                let (domain, region) = endpoint.query_region(Key(piece.lkey))?;
                let offset = piece.addr.checked_sub(region.iova)?;
                let end = offset.checked_add(u64::from(piece.length))?;
                let fits = domain == pd.id && end <= region.length;
                (fits && region.access.allows(needed)).then_some(())
            };
            let all = pieces.iter().all(|piece| fits(piece).is_some());
            if all {
                Ok(())
            } else {
                Err(Errno::invalid("a piece is not inside its region, or lacks the rights for it"))
            }
        })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unmapped_memory_is_a_fault() {
        let mut buffer = vec![0_u8; 100_000];
        assert_eq!(check_mapped(buffer.as_mut_ptr().cast(), buffer.len()), Ok(()));
        assert_eq!(check_mapped(core::ptr::null_mut(), 1), Err(Errno::FAULT));
    }

    #[test]
    fn a_region_has_a_length_and_an_end() {
        let mut byte = 0_u8;
        let address = (&raw mut byte).cast();
        assert_eq!(spec(address, 0, 0, 0), Err(Errno::INVALID));
        assert_eq!(spec(address, usize::MAX, 0, 0), Err(Errno::INVALID));
        assert_eq!(spec(address, 1, 0, 1 << 8), Err(Errno::UNSUPPORTED));
        assert_eq!(spec(address, 1, 77, 0).map(|spec| spec.iova), Ok(77));
        assert_eq!(spec(address, 1, 77, 1 << 5).map(|spec| spec.iova), Ok(0));
    }

    #[test]
    fn all_of_memory_can_be_registered_on_demand() {
        let local = Access::ON_DEMAND | Access::LOCAL_WRITE;
        let whole = |access: Access| spec(core::ptr::null_mut(), usize::MAX, 0, access.bits());
        for access in [local, local | Access::REMOTE_READ | Access::REMOTE_WRITE] {
            assert_eq!(whole(access).map(|spec| (spec.address, spec.length)), Ok((0, u64::MAX)));
        }
        assert_eq!(whole(local | Access::MW_BIND), Err(Errno::UNSUPPORTED));
        assert_eq!(whole(Access::LOCAL_WRITE), Err(Errno::FAULT), "not on demand");
    }
}
