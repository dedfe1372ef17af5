//! Descriptors as identities: of a device, or of the file of an XRC domain.

use core::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::errno::Errno;

/// Which file a descriptor is of, however often it was duplicated: device and inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity(u64, u64);

impl Identity {
    pub(crate) fn of(fd: c_int) -> Result<Self, Errno> {
        // SAFETY: a structure that is valid when it is all zeroes.
        let mut stat = unsafe { core::mem::zeroed::<libc::stat>() };
        // SAFETY: a writable structure.
        if unsafe { libc::fstat(fd, &raw mut stat) } != 0 {
            return Err(Errno::last());
        }
        Ok(Self(stat.st_dev, stat.st_ino))
    }
}

/// A new descriptor with an identity of its own.
pub(crate) fn token() -> Result<(OwnedFd, Identity), Errno> {
    // SAFETY: a plain system call with a constant name.
    let fd = unsafe { libc::memfd_create(c"ferroce".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(Errno::last());
    }
    // SAFETY: the descriptor is new, and owned here alone.
    let token = unsafe { OwnedFd::from_raw_fd(fd) };
    let identity = Identity::of(token.as_raw_fd())?;
    Ok((token, identity))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_by_its_duplicates_and_no_other() {
        let ((first, known), (_second, other)) = (token().unwrap(), token().unwrap());
        let duplicate = first.try_clone().unwrap();
        assert_eq!(Identity::of(duplicate.as_raw_fd()), Ok(known));
        assert_ne!(known, other);
        assert_eq!(Identity::of(-1), Err(Errno::new(libc::EBADF)));
    }
}
