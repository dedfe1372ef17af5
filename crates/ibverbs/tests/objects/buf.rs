//! Buffers that the library allocates, and registration by a structure.

use core::mem::MaybeUninit;
use core::ptr;

use abi::{IBV_REG_MR_MASK_ADDR, IBV_REG_MR_MASK_BUF, IBV_REG_MR_MASK_IOVA, ibv_mr_init_attr};
use ibverbs::absent::ibv_create_comp_cntr;
use ibverbs::memory::buf::{
    ibv_alloc_buf, ibv_export_buf_dmabuf_fd, ibv_free_buf, ibv_reg_buf_mr, ibv_reg_mr_ex,
};
use ibverbs::memory::mr::ibv_dereg_mr;
use ibverbs::open::ibv_close_device;
use ibverbs::pd::{ibv_alloc_pd, ibv_dealloc_pd};
use ibverbs::port::ibv_query_port_speed;

use super::{Fixture, errno, open, refused};

const LENGTH: usize = 10_000;

fn attributes(mask: u64, addr: *mut u8, length: usize) -> ibv_mr_init_attr {
    ibv_mr_init_attr {
        length,
        access: 1,
        comp_mask: mask,
        iova: 0x1000,
        addr: addr.cast(),
        fd: -1,
        fd_offset: 0,
        dmah: ptr::null_mut(),
        buf: ptr::null_mut(),
    }
}

#[test]
fn regions_lie_within_a_buffer_and_in_its_domain() {
    let it = Fixture::new();
    let mut buf = ptr::null_mut();
    // SAFETY: live objects, and handles that are looked up.
    unsafe {
        refused(ibv_alloc_buf(it.pd, 0, &raw mut buf), libc::EINVAL);
        refused(ibv_alloc_buf(it.pd, LENGTH, ptr::null_mut()), libc::EINVAL);
        let start = ibv_alloc_buf(it.pd, LENGTH, &raw mut buf).cast::<u8>();
        assert!(!start.is_null());
        start.write_bytes(7, LENGTH);
        let whole = ibv_reg_buf_mr(it.pd, buf, start.cast(), LENGTH, 1);
        assert_eq!(((*whole).addr.cast(), (*whole).length), (start, LENGTH));
        let tail = start.add(LENGTH - 1).cast();
        refused(ibv_reg_buf_mr(it.pd, buf, tail, 2, 1), libc::EINVAL);
        refused(ibv_reg_buf_mr(it.pd, buf, start.wrapping_sub(1).cast(), 2, 1), libc::EINVAL);
        refused(ibv_reg_buf_mr(it.pd, buf, tail, usize::MAX, 1), libc::EINVAL);
        let other = ibv_alloc_pd(it.context);
        refused(ibv_reg_buf_mr(other, buf, start.cast(), 1, 1), libc::EINVAL);
        assert_eq!(ibv_dealloc_pd(other), 0);
        assert_eq!((ibv_export_buf_dmabuf_fd(buf), errno()), (-1, libc::ENODATA));
        assert_eq!(ibv_dealloc_pd(it.pd), libc::EBUSY, "a buffer is in it");
        assert_eq!(ibv_dereg_mr(whole), 0);
        ibv_free_buf(buf);
        refused(ibv_reg_buf_mr(it.pd, buf, start.cast(), 1, 1), libc::EINVAL);
        ibv_free_buf(buf);
    }
}

#[test]
fn a_structure_says_what_is_registered() {
    let it = Fixture::new();
    let mut bytes = [0_u8; 64];
    let mut buf = ptr::null_mut();
    // SAFETY: live objects and readable structures.
    unsafe {
        let mut plain = attributes(IBV_REG_MR_MASK_ADDR, bytes.as_mut_ptr(), 64);
        // A program of release 59 has no `buf`: what lies behind its structure is not looked at.
        let mut old = [MaybeUninit::<u64>::uninit(); 8];
        let old = old.as_mut_ptr().cast::<ibv_mr_init_attr>();
        ptr::copy_nonoverlapping((&raw const plain).cast::<u64>(), old.cast(), 8);
        let mr = ibv_reg_mr_ex(it.pd, old);
        assert_eq!(((*mr).length, ibv_dereg_mr(mr)), (64, 0));
        plain.comp_mask |= IBV_REG_MR_MASK_IOVA;
        assert_eq!(ibv_dereg_mr(ibv_reg_mr_ex(it.pd, &raw mut plain)), 0);
        refused(ibv_reg_mr_ex(it.pd, ptr::null_mut()), libc::EINVAL);
        plain.comp_mask = IBV_REG_MR_MASK_IOVA;
        refused(ibv_reg_mr_ex(it.pd, &raw mut plain), libc::EINVAL);
        // DMA-bufs, handles of the bus, and what is not known yet.
        for bit in [2, 4, 40] {
            plain.comp_mask = IBV_REG_MR_MASK_ADDR | 1 << bit;
            refused(ibv_reg_mr_ex(it.pd, &raw mut plain), libc::EOPNOTSUPP);
        }
        let start = ibv_alloc_buf(it.pd, LENGTH, &raw mut buf).cast::<u8>();
        let mask = IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_BUF;
        let mut within = ibv_mr_init_attr { buf, ..attributes(mask, start, LENGTH) };
        assert_eq!(ibv_dereg_mr(ibv_reg_mr_ex(it.pd, &raw mut within)), 0);
        within.length += 1;
        refused(ibv_reg_mr_ex(it.pd, &raw mut within), libc::EINVAL);
        ibv_free_buf(buf);
    }
}

#[test]
fn a_context_that_is_closed_frees_its_buffers() {
    let context = open();
    let mut buf = ptr::null_mut();
    // SAFETY: live objects, then a handle that is looked up.
    unsafe {
        let pd = ibv_alloc_pd(context);
        assert!(!ibv_alloc_buf(pd, LENGTH, &raw mut buf).is_null());
        assert_eq!(ibv_close_device(context), 0);
        assert_eq!((ibv_export_buf_dmabuf_fd(buf), errno()), (-1, libc::EINVAL));
    }
}

#[test]
fn the_speed_is_that_of_the_port_and_counters_are_refused() {
    let it = Fixture::new();
    let mut speed = 0;
    // SAFETY: live objects and writable places.
    unsafe {
        assert_eq!(ibv_query_port_speed(it.context, 1, &raw mut speed), 0);
        assert_eq!(speed, 1_000, "100 Gb/s, as loopback is shown");
        assert_eq!(ibv_query_port_speed(it.context, 2, &raw mut speed), libc::EINVAL);
        assert_eq!(ibv_query_port_speed(it.context, 1, ptr::null_mut()), libc::EINVAL);
        refused(ibv_create_comp_cntr(it.context, ptr::null()), libc::EOPNOTSUPP);
    }
}
