//! Files of sysfs that libraries read through libibverbs.

use core::ffi::{CStr, c_char, c_int};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::device;
use crate::errno::Errno;

/// Where sysfs is.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_get_sysfs_path() -> *const c_char {
    const PATH: &CStr = c"/sys";
    PATH.as_ptr()
}

/// Reads a file into a buffer, without its last newline. Returns the length, or -1: our devices
/// have no folder in sysfs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_read_sysfs_file(
    dir: *const c_char,
    file: *const c_char,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: C passes two texts.
    let names = unsafe { device::text(dir).and_then(|dir| Ok((dir, device::text(file)?))) };
    let content = names.and_then(|(dir, file)| {
        let path =
            Path::new(OsStr::from_bytes(dir.to_bytes())).join(OsStr::from_bytes(file.to_bytes()));
        Ok(fs::read(path)?)
    });
    match content {
        Ok(content) if !buffer.is_null() && size > 0 => {
            let content = content.strip_suffix(b"\n").unwrap_or(&content);
            let length = content.len().min(size - 1);
            // SAFETY: C passes `size` writable bytes.
            unsafe {
                core::ptr::copy_nonoverlapping(content.as_ptr().cast(), buffer, length);
                buffer.add(length).write(0);
            }
            c_int::try_from(length).unwrap_or(c_int::MAX)
        }
        Ok(_) => {
            Errno::invalid("the buffer is NULL, or has no room").set();
            -1
        }
        Err(error) => {
            error.set();
            -1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_without_its_newline_and_cut_to_fit() {
        let mut buffer = [1; 8];
        let mut read = |size| {
            // SAFETY: texts, and a buffer of at least that size.
            unsafe {
                ibv_read_sysfs_file(
                    c"/proc/self".as_ptr(),
                    c"comm".as_ptr(),
                    buffer.as_mut_ptr(),
                    size,
                )
            }
        };
        assert_eq!(read(4), 3);
        assert_eq!(read(0), -1);
        assert_eq!(buffer[3], 0);
    }
}
