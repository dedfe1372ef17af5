//! What the names of libibverbs 1.0 do: they refuse.
//!
//! A program that was built before 2007 is bound to names of the node `IBVERBS_1.0`. Most of them are in `IBVERBS_1.1`
//! too, for structures that are laid out differently, and those of 1.0 are not built. Where such a name is missing, the
//! loader ends the program at its first call (`symbol lookup error`). So the names are there, fail as their man pages say,
//! and tell the remedy. `oldest.S` puts them into their node; each function here stands for all that fail alike.

use core::ffi::{c_int, c_void};
use core::ptr;
use std::sync::Once;

use softnic::journal;

use crate::errno::Errno;
use crate::log;

/// What has gone wrong, and the remedy.
const TOLD: &str = "the program was built against libibverbs 1.0 (before 2007), whose structures are others, and \
     must be rebuilt: its calls fail with EOPNOTSUPP";

/// Says why, once a process, and leaves the error in `errno`.
#[cold]
fn refuse() -> c_int {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::start();
        journal::note_refusal(&TOLD);
        tracing::warn!("{TOLD}");
    });
    Errno::UNSUPPORTED.set();
    Errno::UNSUPPORTED.number
}

/// A call that returns a pointer, or a number as wide.
#[unsafe(no_mangle)]
pub extern "C" fn ferroce_oldest_null() -> *mut c_void {
    refuse();
    ptr::null_mut()
}

/// A call that returns 0 or the error's number.
#[unsafe(no_mangle)]
pub extern "C" fn ferroce_oldest_number() -> c_int {
    refuse()
}

/// A call that returns 0, or -1 and `errno`.
#[unsafe(no_mangle)]
pub extern "C" fn ferroce_oldest_minus_one() -> c_int {
    refuse();
    -1
}

/// A call that returns nothing, about what can never have been made.
#[unsafe(no_mangle)]
pub extern "C" fn ferroce_oldest_nothing() {}

/// `ibv_get_device_list`, which most programs call first: there are none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroce_oldest_device_list(num_devices: *mut c_int) -> *mut c_void {
    // SAFETY: C passes NULL or a writable integer.
    if let Some(num_devices) = unsafe { num_devices.as_mut() } {
        *num_devices = 0;
    }
    ferroce_oldest_null()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a call returns, and what it leaves in `errno`.
    fn called<T>(call: impl FnOnce() -> T) -> (T, Errno) {
        Errno::new(0).set();
        let result = call();
        (result, Errno::last())
    }

    #[test]
    fn a_program_of_before_2007_is_refused_in_the_manner_of_each_call() {
        let number = libc::EOPNOTSUPP;
        assert_eq!(called(|| ferroce_oldest_null()), (ptr::null_mut(), Errno::UNSUPPORTED));
        assert_eq!(called(|| ferroce_oldest_number()), (number, Errno::UNSUPPORTED));
        assert_eq!(called(|| ferroce_oldest_minus_one()), (-1, Errno::UNSUPPORTED));
        assert_eq!(called(|| ferroce_oldest_nothing()), ((), Errno::new(0)));
    }

    #[test]
    fn a_program_of_before_2007_finds_no_devices_whether_it_asks_how_many_or_not() {
        let mut count = 7;
        // SAFETY: a writable integer, and NULL.
        let lists = unsafe {
            [&raw mut count, ptr::null_mut()].map(|it| called(|| ferroce_oldest_device_list(it)))
        };
        assert_eq!(lists, [(ptr::null_mut(), Errno::UNSUPPORTED); 2]);
        assert_eq!(count, 0);
    }
}
