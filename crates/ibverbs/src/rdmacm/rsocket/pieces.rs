//! The program's own memory in a call: one buffer, or a list of them.

use core::ffi::{c_int, c_void};
use core::slice;

use crate::errno::Errno;

/// The most buffers of a call, as in Linux.
const BUFFERS_MAX: usize = 1024;

/// Buffers, from front to back.
#[derive(Debug)]
pub(super) struct Pieces<'a> {
    buffers: &'a [libc::iovec],
    /// How much of the first has been used.
    used: usize,
    left: usize,
}

/// One buffer.
pub(super) fn single(buffer: *const c_void, length: usize) -> [libc::iovec; 1] {
    [libc::iovec { iov_base: buffer.cast_mut(), iov_len: length }]
}

impl<'a> Pieces<'a> {
    /// Buffers that this library has listed. Their lengths must not exceed what an answer can say.
    pub(super) fn new(buffers: &'a [libc::iovec]) -> Result<Self, Errno> {
        let mut left = 0_usize;
        for buffer in buffers {
            left = left
                .checked_add(buffer.iov_len)
                .filter(|left| isize::try_from(*left).is_ok())
                .ok_or(Errno::invalid("the buffers are longer than SSIZE_MAX"))?;
            if buffer.iov_base.is_null() && buffer.iov_len > 0 {
                return Err(Errno::FAULT.because("a buffer is NULL"));
            }
        }
        Ok(Self { buffers, used: 0, left })
    }

    /// A list from C.
    ///
    /// # Safety
    /// `list` is NULL or has `count` readable entries.
    pub(super) unsafe fn listed(list: *const libc::iovec, count: c_int) -> Result<Self, Errno> {
        match usize::try_from(count) {
            Ok(0) => Self::new(&[]),
            Ok(count) if count <= BUFFERS_MAX && !list.is_null() => {
                // SAFETY: the caller vouches for it.
                Self::new(unsafe { slice::from_raw_parts(list, count) })
            }
            _ => Err(Errno::invalid("iovcnt is negative or beyond 1024, or the list is NULL")),
        }
    }

    /// How many bytes there are still.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Uses `length` bytes: `each` gets address and length of each stretch of them.
    pub(super) fn take(&mut self, length: usize, mut each: impl FnMut(*mut u8, usize)) {
        let mut wanted = length.min(self.left);
        self.left -= wanted;
        while let Some(first) = self.buffers.first() {
            let stretch = wanted.min(first.iov_len - self.used);
            if stretch > 0 {
                each(first.iov_base.cast::<u8>().wrapping_add(self.used), stretch);
            }
            self.used += stretch;
            wanted -= stretch;
            if self.used < first.iov_len {
                return;
            }
            (self.buffers, self.used) = (&self.buffers[1..], 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_used_from_front_to_back() {
        let mut bytes = *b"abcdefgh";
        let start = bytes.as_mut_ptr();
        let buffer =
            |at: usize, iov_len| libc::iovec { iov_base: start.wrapping_add(at).cast(), iov_len };
        let list = [buffer(4, 3), buffer(0, 0), buffer(0, 2)];
        let mut pieces = Pieces::new(&list).unwrap();
        assert_eq!(pieces.left(), 5);
        let mut take = |length| {
            let mut found = Vec::new();
            pieces.take(length, |at, length| found.push((at.addr() - start.addr(), length)));
            found
        };
        assert_eq!(take(2), [(4, 2)]);
        assert_eq!(take(2), [(6, 1), (0, 1)]);
        assert_eq!(take(9), [(1, 1)]);
        assert_eq!(take(1), []);
    }

    #[test]
    fn lists_that_cannot_be_are_refused() {
        let endless = [single(core::ptr::dangling(), usize::MAX)[0]; 2];
        assert_eq!(Pieces::new(&endless).err(), Some(Errno::INVALID));
        assert_eq!(Pieces::new(&single(core::ptr::null(), 1)).err(), Some(Errno::FAULT));
        assert!(Pieces::new(&single(core::ptr::null(), 0)).is_ok());
        // SAFETY: NULL and counts are checked for.
        unsafe {
            assert!(Pieces::listed(core::ptr::null(), 1).is_err());
            assert!(Pieces::listed(core::ptr::dangling(), -1).is_err());
            assert!(Pieces::listed(core::ptr::dangling(), 1025).is_err());
            assert!(Pieces::listed(core::ptr::null(), 0).is_ok());
        }
    }
}
