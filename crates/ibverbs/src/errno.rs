//! Turns errors into numbers; no other file does.

use core::ffi::c_int;
use core::ptr;
use std::io;

use softnic::{GroupError, OpenError, PortError};
use transport::cm::CmError;
use transport::{CreateError, DestroyError, ModifyError, PostError, RegisterError};

/// An error number, positive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Errno(pub(crate) c_int);

impl Errno {
    pub(crate) const AGAIN: Self = Self(libc::EAGAIN);
    pub(crate) const BUSY: Self = Self(libc::EBUSY);
    pub(crate) const FAULT: Self = Self(libc::EFAULT);
    pub(crate) const INVALID: Self = Self(libc::EINVAL);
    pub(crate) const IO: Self = Self(libc::EIO);
    pub(crate) const NO_DATA: Self = Self(libc::ENODATA);
    pub(crate) const NO_DEVICE: Self = Self(libc::ENODEV);
    pub(crate) const NO_ENTRY: Self = Self(libc::ENOENT);
    pub(crate) const NO_MEMORY: Self = Self(libc::ENOMEM);
    pub(crate) const NOT_CONNECTED: Self = Self(libc::ENOTCONN);
    pub(crate) const UNREACHABLE: Self = Self(libc::ENETUNREACH);
    pub(crate) const UNSUPPORTED: Self = Self(libc::EOPNOTSUPP);

    /// The error of the last system call.
    pub(crate) fn last() -> Self {
        io::Error::last_os_error().into()
    }

    /// Leaves it in `errno`.
    pub(crate) fn set(self) {
        // SAFETY: the location of this thread's errno is always writable.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Self {
        error.raw_os_error().map_or(Self::IO, Self)
    }
}

impl From<&OpenError> for Errno {
    fn from(error: &OpenError) -> Self {
        match error {
            OpenError::PortTaken { .. } => Self(libc::EADDRINUSE),
            OpenError::NoAddress { .. } => Self(libc::EADDRNOTAVAIL),
            OpenError::Setting(_) => Self::INVALID,
            OpenError::Io { error, .. } if error.kind() == io::ErrorKind::TimedOut => {
                Self(libc::ETIMEDOUT)
            }
            // Every slot of the user is taken.
            OpenError::Io { error, .. } if error.kind() == io::ErrorKind::QuotaExceeded => {
                Self(libc::EUSERS)
            }
            OpenError::Io { error, .. } | OpenError::Capture { error, .. } => {
                error.raw_os_error().map_or(Self::IO, Self)
            }
        }
    }
}

impl From<CreateError> for Errno {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::NotFound | CreateError::Limit | CreateError::Mismatch => Self::INVALID,
            CreateError::Exhausted => Self::NO_MEMORY,
            CreateError::Unsupported => Self::UNSUPPORTED,
        }
    }
}

impl From<DestroyError> for Errno {
    fn from(error: DestroyError) -> Self {
        match error {
            DestroyError::NotFound => Self::INVALID,
            DestroyError::InUse => Self::BUSY,
        }
    }
}

impl From<RegisterError> for Errno {
    fn from(error: RegisterError) -> Self {
        match error {
            RegisterError::NotFound | RegisterError::Access | RegisterError::Range => Self::INVALID,
            RegisterError::Exhausted => Self::NO_MEMORY,
            RegisterError::InUse => Self::BUSY,
        }
    }
}

impl From<ModifyError> for Errno {
    fn from(error: ModifyError) -> Self {
        match error {
            ModifyError::NotFound
            | ModifyError::Transition
            | ModifyError::Missing
            | ModifyError::NotAllowed
            | ModifyError::Value => Self::INVALID,
            ModifyError::Unsupported => Self::UNSUPPORTED,
        }
    }
}

impl From<PortError> for Errno {
    fn from(error: PortError) -> Self {
        match error {
            PortError::InUse | PortError::Exhausted => Self(libc::EADDRINUSE),
            PortError::Address => Self(libc::EADDRNOTAVAIL),
            PortError::Io(error) => error.into(),
        }
    }
}

impl From<GroupError> for Errno {
    fn from(error: GroupError) -> Self {
        match error {
            GroupError::Attach(error) => error.into(),
            GroupError::Io(error) => error.into(),
        }
    }
}

impl From<CmError> for Errno {
    fn from(error: CmError) -> Self {
        match error {
            CmError::NotFound | CmError::State => Self::NOT_CONNECTED,
            CmError::InUse => Self(libc::EADDRINUSE),
            CmError::Exhausted => Self::NO_MEMORY,
        }
    }
}

impl From<PostError> for Errno {
    fn from(error: PostError) -> Self {
        match error {
            PostError::Full => Self::NO_MEMORY,
            PostError::NotFound
            | PostError::State
            | PostError::TooManySges
            | PostError::InlineTooLong
            | PostError::Opcode
            | PostError::TooLong
            | PostError::Address => Self::INVALID,
        }
    }
}

/// For calls that return 0 or the error's number; most also promise `errno`.
pub(crate) fn status(result: Result<(), Errno>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => {
            error.set();
            error.0
        }
    }
}

/// For calls that return 0, or -1 and `errno`.
pub(crate) fn minus_one(result: Result<(), Errno>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => {
            error.set();
            -1
        }
    }
}

/// For calls that return a pointer, or NULL and `errno`.
pub(crate) fn pointer<T>(result: Result<*mut T, Errno>) -> *mut T {
    result.unwrap_or_else(|error| {
        error.set();
        ptr::null_mut()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_is_told_from_a_wrong_request() {
        assert_eq!(Errno::from(PostError::Full), Errno::NO_MEMORY);
        assert_eq!(Errno::from(PostError::State), Errno::INVALID);
        assert_eq!(Errno::from(DestroyError::InUse), Errno::BUSY);
        assert_eq!(Errno::from(ModifyError::Unsupported), Errno::UNSUPPORTED);
    }

    #[test]
    fn a_host_that_is_full_of_nics_is_no_broken_one() {
        let error = io::Error::new(io::ErrorKind::QuotaExceeded, "1022 NICs are open");
        let full = OpenError::Io { doing: "joining the NICs of this host", error };
        assert_eq!(Errno::from(&full).0, libc::EUSERS);
    }

    #[test]
    fn an_error_reaches_the_caller_as_its_man_page_says() {
        assert_eq!(status(Err(Errno::BUSY)), libc::EBUSY);
        assert_eq!(minus_one(Err(Errno::INVALID)), -1);
        assert_eq!(Errno::last(), Errno::INVALID);
        assert!(pointer::<u8>(Err(Errno::NO_MEMORY)).is_null());
        assert_eq!(Errno::last(), Errno::NO_MEMORY);
        assert_eq!((status(Ok(())), minus_one(Ok(()))), (0, 0));
    }
}
