//! Device memory: copied to and from, registered, given back.

use core::ptr;

use abi::{ibv_alloc_dm_attr, ibv_dm, ibv_mr};
use ibverbs::memory::mr::{ibv_dereg_mr, ibv_rereg_mr};

use super::{Fixture, extended, refused};

const ZERO_BASED: u32 = 1 << 5;

fn alloc(it: &Fixture, length: usize, log_align_req: u32, comp_mask: u32) -> *mut ibv_dm {
    let mut attr = ibv_alloc_dm_attr { length, log_align_req, comp_mask };
    // SAFETY: a live context.
    unsafe { extended(it.context).alloc_dm.unwrap()(it.context, &raw mut attr) }
}

fn free(it: &Fixture, dm: *mut ibv_dm) -> i32 {
    // SAFETY: the handle is looked up.
    unsafe { extended(it.context).free_dm.unwrap()(dm) }
}

fn write(dm: *mut ibv_dm, offset: u64, bytes: &[u8]) -> i32 {
    // SAFETY: a live handle, and readable bytes.
    unsafe { (*dm).memcpy_to_dm.unwrap()(dm, offset, bytes.as_ptr().cast(), bytes.len()) }
}

fn read(dm: *mut ibv_dm, offset: u64, bytes: &mut [u8]) -> i32 {
    // SAFETY: a live handle, and writable bytes.
    unsafe { (*dm).memcpy_from_dm.unwrap()(bytes.as_mut_ptr().cast(), dm, offset, bytes.len()) }
}

fn register(it: &Fixture, dm: *mut ibv_dm, offset: u64, length: usize, access: u32) -> *mut ibv_mr {
    // SAFETY: live objects.
    unsafe { extended(it.context).reg_dm_mr.unwrap()(it.pd, dm, offset, length, access) }
}

#[test]
fn what_is_copied_in_is_copied_out_within_the_bounds() {
    let it = Fixture::new();
    let dm = alloc(&it, 100, 6, 0);
    assert!(!dm.is_null());
    let mut bytes = [0xff; 8];
    assert_eq!((read(dm, 92, &mut bytes), bytes), (0, [0; 8]), "it begins empty");
    assert_eq!(write(dm, 92, b"the last"), 0);
    assert_eq!((read(dm, 92, &mut bytes), &bytes), (0, b"the last"));
    assert_eq!(
        (write(dm, 96, b"the last"), read(dm, 96, &mut bytes)),
        (libc::EFAULT, libc::EFAULT)
    );
    assert_eq!(write(dm, u64::MAX - 3, b"the last"), libc::EFAULT);
    assert_eq!((write(dm, 3, b"four"), write(dm, 0, b"odd")), (libc::EINVAL, libc::EINVAL));
    // SAFETY: NULL is checked for.
    let nothing = unsafe { (*dm).memcpy_to_dm.unwrap()(dm, 0, ptr::null(), 4) };
    assert_eq!(nothing, libc::EINVAL);
    assert_eq!((free(&it, dm), free(&it, dm)), (0, libc::EINVAL));
}

#[test]
fn what_cannot_be_had_is_told_apart() {
    let it = Fixture::new();
    let most = softnic::limits::DEVICE_MEMORY_BYTES as usize;
    refused(alloc(&it, most + 1, 0, 0), libc::ENOMEM);
    refused(alloc(&it, usize::MAX, 0, 0), libc::ENOMEM);
    refused(alloc(&it, 0, 0, 0), libc::EINVAL);
    refused(alloc(&it, 4, 13, 0), libc::EINVAL);
    refused(alloc(&it, 4, 64, 0), libc::EINVAL);
    refused(alloc(&it, 4, 0, 1), libc::EINVAL);
    let all = alloc(&it, most, 12, 0);
    refused(alloc(&it, 4, 0, 0), libc::ENOMEM);
    assert_eq!(free(&it, all), 0);
}

#[test]
fn a_region_over_device_memory_begins_at_zero_and_holds_it() {
    let it = Fixture::new();
    let dm = alloc(&it, 100, 0, 0);
    refused(register(&it, dm, 0, 104, ZERO_BASED), libc::EINVAL);
    refused(register(&it, dm, 4, 100, ZERO_BASED), libc::EINVAL);
    refused(register(&it, dm, 0, 100, 0), libc::EINVAL);
    refused(register(&it, dm, 0, 100, ZERO_BASED | 1 << 6), libc::EINVAL);
    refused(register(&it, ptr::null_mut(), 0, 4, ZERO_BASED), libc::EINVAL);
    let mr = register(&it, dm, 4, 96, ZERO_BASED | 1);
    assert!(!mr.is_null());
    let mut byte = 0_u8;
    // SAFETY: a live region, then a handle that is looked up.
    unsafe {
        assert_eq!(((*mr).addr, (*mr).length), (ptr::null_mut(), 96));
        assert_eq!(free(&it, dm), libc::EBUSY);
        let moved = ibv_rereg_mr(mr, 1, ptr::null_mut(), (&raw mut byte).cast(), 1, 0);
        assert_eq!(moved, abi::IBV_REREG_MR_ERR_INPUT);
        assert_eq!((ibv_dereg_mr(mr), ibv_dereg_mr(mr)), (0, libc::EINVAL));
    }
    assert_eq!(free(&it, dm), 0);
}
