//! Objects that most programs never make, over a real device on loopback: as a C program makes
//! them, and as it gets them wrong.

#![allow(unsafe_code, reason = "a C ABI is called")]

mod buf;
mod clock;
mod dm;
mod events;
mod fork;
mod import;
mod xrc;

use core::ffi::c_int;
use core::ptr;

use abi::{ibv_context, ibv_cq, ibv_pd, verbs_context};
use ibverbs::cq::{ibv_create_cq, ibv_destroy_cq};
use ibverbs::device::{ibv_free_device_list, ibv_get_device_index, ibv_get_device_list};
use ibverbs::open::{ibv_close_device, ibv_open_device};
use ibverbs::pd::{ibv_alloc_pd, ibv_dealloc_pd};

fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Asserts that a call returned NULL, and this error.
#[track_caller]
fn refused<T>(result: *mut T, expected: c_int) {
    let errno = errno();
    assert!(result.is_null());
    assert_eq!(errno, expected);
}

/// Opens the one device that there is without `FERROCE_DEV`.
fn open() -> *mut ibv_context {
    // SAFETY: calls as a C program makes them.
    unsafe {
        let list = ibv_get_device_list(ptr::null_mut());
        assert!(!list.is_null());
        let context = ibv_open_device(*list);
        assert!(!context.is_null());
        ibv_free_device_list(list);
        context
    }
}

#[test]
fn the_kernel_has_no_number_for_a_device() {
    // SAFETY: calls as a C program makes them.
    unsafe {
        let list = ibv_get_device_list(ptr::null_mut());
        assert!(!list.is_null() && !(*list).is_null());
        assert_eq!(ibv_get_device_index(*list), -1);
        ibv_free_device_list(list);
    }
}

/// The extended context, as the header's inline functions find it.
fn extended<'a>(context: *mut ibv_context) -> &'a verbs_context {
    let offset = core::mem::offset_of!(verbs_context, context);
    // SAFETY: the context is the last field of an extended one, which lives until it is closed.
    unsafe { &*context.byte_sub(offset).cast() }
}

/// An open device with a protection domain and a completion queue.
struct Fixture {
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    cq: *mut ibv_cq,
}

impl Fixture {
    fn new() -> Self {
        let context = open();
        // SAFETY: a live context.
        unsafe {
            let pd = ibv_alloc_pd(context);
            let cq = ibv_create_cq(context, 4, ptr::null_mut(), ptr::null_mut(), 0);
            assert!(!pd.is_null() && !cq.is_null());
            Self { context, pd, cq }
        }
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        // SAFETY: the fixture's own objects, still alive.
        let results = unsafe {
            [ibv_destroy_cq(self.cq), ibv_dealloc_pd(self.pd), ibv_close_device(self.context)]
        };
        if !std::thread::panicking() {
            assert_eq!(results, [0, 0, 0]);
        }
    }
}
