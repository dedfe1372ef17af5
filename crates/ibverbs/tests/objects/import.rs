//! One device in several contexts: what one made, another uses.

use core::ptr;
use std::os::fd::RawFd;

use abi::{ibv_alloc_dm_attr, ibv_context};
use ibverbs::asynchronous::ibv_get_async_event;
use ibverbs::cq::{ibv_create_cq, ibv_destroy_cq};
use ibverbs::memory::dm::{ibv_import_dm, ibv_unimport_dm};
use ibverbs::memory::mr::{ibv_dereg_mr, ibv_import_mr, ibv_reg_mr, ibv_rereg_mr, ibv_unimport_mr};
use ibverbs::open::{ibv_close_device, ibv_import_device};
use ibverbs::pd::{ibv_alloc_pd, ibv_dealloc_pd, ibv_import_pd, ibv_unimport_pd};

use super::{Fixture, errno, extended, open, refused};

fn duplicate(fd: RawFd) -> RawFd {
    // SAFETY: a plain system call.
    let duplicate = unsafe { libc::dup(fd) };
    assert!(duplicate >= 0);
    duplicate
}

fn import(context: *mut ibv_context) -> *mut ibv_context {
    // SAFETY: a live context.
    let imported = unsafe { ibv_import_device(duplicate((*context).cmd_fd)) };
    assert!(!imported.is_null() && imported != context);
    imported
}

#[test]
fn what_is_no_descriptor_of_a_device_here_is_not_imported() {
    let it = Fixture::new();
    // SAFETY: a live context, and descriptors that stay ours when they are refused.
    unsafe {
        refused(ibv_import_device(-1), libc::EBADF);
        refused(ibv_import_device((*it.context).cmd_fd), libc::EINVAL);
        refused(ibv_import_device((*it.context).async_fd), libc::EOPNOTSUPP);
        let gone = open();
        let fd = duplicate((*gone).cmd_fd);
        assert_eq!(ibv_close_device(gone), 0);
        refused(ibv_import_device(fd), libc::EOPNOTSUPP);
        assert_eq!(libc::close(fd), 0, "it was not taken");
    }
}

#[test]
fn a_protection_domain_and_a_region_serve_in_both_contexts() {
    let it = Fixture::new();
    let other = import(it.context);
    let mut buffer = [0_u8; 64];
    // SAFETY: live objects, then handles that are looked up.
    unsafe {
        let mr = ibv_reg_mr(it.pd, buffer.as_mut_ptr().cast(), buffer.len(), 1);
        refused(ibv_import_pd(other, (*it.pd).handle + 1), libc::EINVAL);
        let pd = ibv_import_pd(other, (*it.pd).handle);
        assert_eq!(((*pd).context, (*pd).handle), (other, (*it.pd).handle));
        refused(ibv_import_mr(pd, (*mr).handle + 1), libc::EINVAL);
        let same = ibv_import_mr(pd, (*mr).handle);
        assert_eq!(((*same).lkey, (*same).rkey), ((*mr).lkey, (*mr).rkey));
        assert_eq!(((*same).addr, (*same).length, (*same).pd), (ptr::null_mut(), 64, pd));
        let changed = ibv_rereg_mr(same, 1 << 2, ptr::null_mut(), ptr::null_mut(), 0, 0);
        assert_eq!(changed, abi::IBV_REREG_MR_ERR_INPUT);
        // Objects in the domain keep it, whichever context destroys it.
        assert_eq!((ibv_dealloc_pd(pd), errno()), (libc::EBUSY, libc::EBUSY));
        ibv_unimport_mr(same);
        assert_eq!(ibv_dereg_mr(same), libc::EINVAL, "the handle is gone");
        ibv_unimport_pd(pd);
        assert_eq!(ibv_dealloc_pd(pd), libc::EINVAL);
        let again = ibv_import_mr(it.pd, (*mr).handle);
        assert_eq!((ibv_dereg_mr(again), ibv_dereg_mr(mr)), (0, libc::EINVAL), "it was one region");
        ibv_unimport_mr(mr);
        assert_eq!(ibv_close_device(other), 0);
    }
}

#[test]
fn a_context_ends_with_what_was_made_in_it_and_no_more() {
    let it = Fixture::new();
    let other = import(it.context);
    // SAFETY: live objects, then handles that are looked up.
    unsafe {
        let pd = ibv_import_pd(other, (*it.pd).handle);
        let own = ibv_alloc_pd(other);
        let handle = (*own).handle;
        let cq = ibv_create_cq(other, 4, ptr::null_mut(), ptr::null_mut(), 0);
        assert!(!pd.is_null() && !cq.is_null());
        assert_eq!(ibv_close_device(other), 0);
        assert_eq!(ibv_destroy_cq(cq), libc::EINVAL);
        refused(ibv_import_pd(it.context, handle), libc::EINVAL);
        // The imported domain is still that of the first context: its fixture ends it.
        let next = ibv_alloc_pd(it.context);
        assert_eq!((*next).handle, handle, "the engine has let it go");
        assert_eq!(ibv_dealloc_pd(next), 0);
    }
}

#[test]
fn the_first_context_may_end_first() {
    let first = open();
    let other = import(first);
    // SAFETY: live contexts.
    unsafe {
        assert_eq!(ibv_close_device(first), 0);
        let pd = ibv_alloc_pd(other);
        assert_eq!(ibv_dealloc_pd(pd), 0);
        let third = import(other);
        assert_eq!((ibv_close_device(other), ibv_close_device(third)), (0, 0));
    }
}

#[test]
fn each_context_has_its_own_events() {
    let it = Fixture::new();
    let other = import(it.context);
    // SAFETY: live contexts, and descriptors that are made not to block.
    unsafe {
        assert_ne!((*it.context).async_fd, (*other).async_fd);
        assert_eq!(libc::fcntl((*other).async_fd, libc::F_SETFL, libc::O_NONBLOCK), 0);
        let mut event = core::mem::zeroed();
        assert_eq!((ibv_get_async_event(other, &raw mut event), errno()), (-1, libc::EAGAIN));
        assert_eq!(ibv_close_device(other), 0);
    }
}

#[test]
fn device_memory_is_the_same_from_both_contexts() {
    let it = Fixture::new();
    let other = import(it.context);
    let ops = extended(it.context);
    let mut attr = ibv_alloc_dm_attr { length: 64, log_align_req: 0, comp_mask: 0 };
    // SAFETY: live objects, then handles that are looked up.
    unsafe {
        let dm = ops.alloc_dm.unwrap()(it.context, &raw mut attr);
        refused(ibv_import_dm(other, (*dm).handle + 1), libc::EINVAL);
        let same = ibv_import_dm(other, (*dm).handle);
        assert_eq!((*same).context, other);
        let mut bytes = [0_u8; 8];
        let write = (*dm).memcpy_to_dm.unwrap();
        assert_eq!(write(dm, 8, b"from one".as_ptr().cast(), 8), 0);
        let read = (*same).memcpy_from_dm.unwrap();
        assert_eq!(read(bytes.as_mut_ptr().cast(), same, 8, 8), 0);
        assert_eq!(&bytes, b"from one");
        assert_eq!(ops.free_dm.unwrap()(dm), 0);
        assert_eq!(read(bytes.as_mut_ptr().cast(), same, 8, 8), 0, "as long as a handle is left");
        ibv_unimport_dm(same);
        assert_eq!(ops.free_dm.unwrap()(same), libc::EINVAL);
        assert_eq!(ibv_close_device(other), 0);
    }
}
