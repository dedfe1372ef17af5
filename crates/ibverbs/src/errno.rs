//! Turns errors into numbers, and says why; no other file does.
//!
//! Whoever refuses a call knows the reason, and C's caller gets a number. So an [`Errno`] carries both as far as the
//! entry point, which logs the reason under its own name: `ibv_modify_qp INIT -> RTR: EINVAL: IBV_QP_AV without
//! is_global, which RoCE needs`.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering};
use core::{fmt, ptr};
use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, PoisonError};

use rdma::QpState;
use softnic::{GroupError, OpenError, PortError, journal};
use transport::cm::CmError;
use transport::{CreateError, DestroyError, ModifyError, PostError, RegisterError};

use crate::log;

/// An error number, positive, and why a call ends with it. Two are the same if their numbers are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Errno {
    pub(crate) number: c_int,
    why: Why,
    /// The states between which a queue pair was to go.
    step: Option<(QpState, QpState)>,
}

/// What a caller did wrong.
#[derive(Clone, Copy, Debug)]
enum Why {
    /// Nothing: an answer that is part of the call, or what the kernel says.
    Unsaid,
    Text(&'static str),
    Create(CreateError),
    Destroy(DestroyError),
    Register(RegisterError),
    Modify(ModifyError),
    Post(PostError),
    Connect(CmError),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsaid => f.write_str("no reason is known"),
            Self::Text(text) => f.write_str(text),
            Self::Create(error) => error.fmt(f),
            Self::Destroy(error) => error.fmt(f),
            Self::Register(error) => error.fmt(f),
            Self::Modify(error) => error.fmt(f),
            Self::Post(error) => error.fmt(f),
            Self::Connect(error) => error.fmt(f),
        }
    }
}

impl PartialEq for Errno {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Errno {}

impl Errno {
    pub(crate) const AGAIN: Self = Self::new(libc::EAGAIN);
    pub(crate) const BUSY: Self = Self::new(libc::EBUSY);
    pub(crate) const FAULT: Self = Self::new(libc::EFAULT);
    /// In tests: any of [`Errno::invalid`].
    #[cfg(test)]
    pub(crate) const INVALID: Self = Self::new(libc::EINVAL);
    pub(crate) const IO: Self = Self::new(libc::EIO);
    pub(crate) const NO_DATA: Self = Self::new(libc::ENODATA);
    pub(crate) const NO_DEVICE: Self = Self::new(libc::ENODEV);
    pub(crate) const NO_ENTRY: Self = Self::new(libc::ENOENT);
    pub(crate) const NO_MEMORY: Self = Self::new(libc::ENOMEM);
    pub(crate) const NOT_CONNECTED: Self = Self::new(libc::ENOTCONN);
    /// A pointer to a structure is NULL.
    pub(crate) const NULL: Self = Self::invalid("a pointer is NULL that must not be");
    pub(crate) const UNREACHABLE: Self = Self::new(libc::ENETUNREACH);
    pub(crate) const UNSUPPORTED: Self = Self::new(libc::EOPNOTSUPP);

    /// A number for which nobody is to blame.
    pub(crate) const fn new(number: c_int) -> Self {
        Self { number, why: Why::Unsaid, step: None }
    }

    /// The caller passed something that cannot be: `why` says what, in the words of its man page.
    pub(crate) const fn invalid(why: &'static str) -> Self {
        Self::new(libc::EINVAL).because(why)
    }

    /// The same for a reason.
    pub(crate) const fn because(self, why: &'static str) -> Self {
        Self { why: Why::Text(why), ..self }
    }

    const fn caused(self, why: Why) -> Self {
        Self { why, ..self }
    }

    /// The same, of a queue pair that was to go from one state to another.
    pub(crate) const fn between(self, from: QpState, to: QpState) -> Self {
        Self { step: Some((from, to)), ..self }
    }

    /// The device was opened before a fork, and this process is the child. The first time says why, to a terminal or not: a
    /// program that waits for a completion has nothing else to say.
    #[cold]
    pub(crate) fn of_child() -> Self {
        static TOLD: AtomicU32 = AtomicU32::new(0);
        let process = std::process::id();
        if TOLD.swap(process, Ordering::Relaxed) != process {
            log::complain(&FORKED);
        }
        Self::IO
    }

    /// The error of the last system call.
    pub(crate) fn last() -> Self {
        io::Error::last_os_error().into()
    }

    /// Leaves it in `errno`.
    pub(crate) fn set(self) {
        // SAFETY: the location of this thread's errno is always writable.
        unsafe { *libc::__errno_location() = self.number };
    }

    /// Says why a call of C ends with it, once a process for each call and reason.
    fn tell(self, call: &str) {
        // A full queue is how programs learn that it is, and what is absent is asked for by way of trying.
        let is_usual = matches!(self.why, Why::Post(PostError::Full)) || self == Self::UNSUPPORTED;
        let is_wanted = match (self.why, is_usual) {
            (Why::Unsaid, false) => false,
            (_, true) => tracing::enabled!(tracing::Level::INFO),
            (_, false) => tracing::enabled!(tracing::Level::WARN),
        };
        if !is_wanted && (!journal::is_kept() || is_usual || matches!(self.why, Why::Unsaid)) {
            return;
        }
        let text = Refused { call: &call_name(call), error: self }.to_string();
        if !is_new(&text) {
            return;
        }
        if !is_usual {
            journal::note_refusal(&text);
        }
        if is_usual {
            tracing::info!("{text}");
        } else {
            tracing::warn!("{text}");
        }
        // Writing the line may have changed it.
        self.set();
    }
}

/// Why a forked child is refused what needs the engine.
const FORKED: &str = "this process has forked since it opened the device, whose threads and sockets are its parent's: calls fail with EIO
hint: open the device after fork or daemon";

/// How a call was refused.
struct Refused<'a> {
    call: &'a str,
    error: Errno,
}

impl fmt::Display for Refused<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { call, error: Errno { number, why, step } } = self;
        f.write_str(call)?;
        match step {
            Some((from, to)) if from == to => write!(f, " in {from}")?,
            Some((from, to)) => write!(f, " {from} -> {to}")?,
            None => {}
        }
        match (name(*number), why) {
            (Some("EOPNOTSUPP"), Why::Unsaid) => f.write_str(": EOPNOTSUPP: not built"),
            (Some(name), why) => write!(f, ": {name}: {why}"),
            (None, why) => write!(f, ": errno {number}: {why}"),
        }
    }
}

/// The name of an error number that a caller may have brought about.
fn name(number: c_int) -> Option<&'static str> {
    Some(match number {
        libc::EINVAL => "EINVAL",
        libc::EBUSY => "EBUSY",
        libc::EFAULT => "EFAULT",
        libc::ENOMEM => "ENOMEM",
        libc::ENETUNREACH => "ENETUNREACH",
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        libc::EADDRINUSE => "EADDRINUSE",
        libc::EADDRNOTAVAIL => "EADDRNOTAVAIL",
        libc::ENOTCONN => "ENOTCONN",
        libc::EBADF => "EBADF",
        libc::ECONNREFUSED => "ECONNREFUSED",
        libc::ENODEV => "ENODEV",
        libc::ETIMEDOUT => "ETIMEDOUT",
        libc::EPERM => "EPERM",
        _ => return None,
    })
}

/// The name by which programs know the entry point, of the path of a function in it.
fn call_name(path: &str) -> String {
    let mut parts = path.rsplit("::").filter(|part| !part.starts_with('{') && *part != "here");
    let name = parts.next().unwrap_or(path);
    match name.strip_prefix("ferroce_") {
        // Of librdmacm.so.1.
        Some(name) => name.to_owned(),
        None if name.starts_with("ibv_") => name.to_owned(),
        // Operations of a context have the names of the header's inline functions.
        None => format!("ibv_{name}"),
    }
}

/// Whether this process has not said so before. It says so much and no more.
fn is_new(text: &str) -> bool {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    const MOST: usize = 1_000;
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    said.len() < MOST && said.insert(text.to_owned())
}

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Self {
        error.raw_os_error().map_or(Self::IO, Self::new)
    }
}

impl From<&OpenError> for Errno {
    fn from(error: &OpenError) -> Self {
        match error {
            OpenError::PortTaken { .. } => Self::new(libc::EADDRINUSE),
            OpenError::NoAddress { .. } => Self::new(libc::EADDRNOTAVAIL),
            OpenError::Setting(_) => Self::new(libc::EINVAL),
            OpenError::Io { error, .. } if error.kind() == io::ErrorKind::TimedOut => {
                Self::new(libc::ETIMEDOUT)
            }
            // Every slot of the user is taken.
            OpenError::Io { error, .. } if error.kind() == io::ErrorKind::QuotaExceeded => {
                Self::new(libc::EUSERS)
            }
            OpenError::Io { error, .. } | OpenError::Capture { error, .. } => {
                error.raw_os_error().map_or(Self::IO, Self::new)
            }
        }
    }
}

impl From<CreateError> for Errno {
    fn from(error: CreateError) -> Self {
        let number = match error {
            CreateError::NotFound | CreateError::Limit | CreateError::Mismatch => libc::EINVAL,
            CreateError::Exhausted => libc::ENOMEM,
            CreateError::Unsupported => libc::EOPNOTSUPP,
        };
        Self::new(number).caused(Why::Create(error))
    }
}

impl From<DestroyError> for Errno {
    fn from(error: DestroyError) -> Self {
        let number = match error {
            DestroyError::NotFound => libc::EINVAL,
            DestroyError::InUse => libc::EBUSY,
        };
        Self::new(number).caused(Why::Destroy(error))
    }
}

impl From<RegisterError> for Errno {
    fn from(error: RegisterError) -> Self {
        let number = match error {
            RegisterError::NotFound | RegisterError::Access | RegisterError::Range => libc::EINVAL,
            RegisterError::Exhausted => libc::ENOMEM,
            RegisterError::InUse => libc::EBUSY,
        };
        Self::new(number).caused(Why::Register(error))
    }
}

impl From<ModifyError> for Errno {
    fn from(error: ModifyError) -> Self {
        let number = match error {
            ModifyError::NotFound
            | ModifyError::Transition { .. }
            | ModifyError::Missing(_)
            | ModifyError::NotAllowed(_)
            | ModifyError::Agreement
            | ModifyError::Value(_) => libc::EINVAL,
            ModifyError::Unsupported => libc::EOPNOTSUPP,
        };
        Self::new(number).caused(Why::Modify(error))
    }
}

impl From<PortError> for Errno {
    fn from(error: PortError) -> Self {
        match error {
            PortError::InUse | PortError::Exhausted => Self::new(libc::EADDRINUSE),
            PortError::Address => Self::new(libc::EADDRNOTAVAIL),
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
        let number = match error {
            CmError::NotFound | CmError::State => libc::ENOTCONN,
            CmError::InUse => libc::EADDRINUSE,
            CmError::Exhausted => libc::ENOMEM,
        };
        Self::new(number).caused(Why::Connect(error))
    }
}

impl From<PostError> for Errno {
    fn from(error: PostError) -> Self {
        let number = match error {
            PostError::Full => libc::ENOMEM,
            PostError::NotFound
            | PostError::State
            | PostError::TooManySges
            | PostError::InlineTooLong
            | PostError::Opcode
            | PostError::TooLong
            | PostError::Address => libc::EINVAL,
        };
        Self::new(number).caused(Why::Post(error))
    }
}

/// The path of a function in the entry point, which has its name.
macro_rules! here {
    () => {
        || {
            fn here() {}
            core::any::type_name_of_val(&here)
        }
    };
}

/// For calls that return 0 or the error's number; most also promise `errno`.
macro_rules! status {
    ($result:expr) => {
        $crate::errno::number_of($result, $crate::errno::here!())
    };
}

/// For calls that return 0, or -1 and `errno`.
macro_rules! minus_one {
    ($result:expr) => {
        if $crate::errno::number_of($result, $crate::errno::here!()) == 0 { 0 } else { -1 }
    };
}

/// For calls that return a pointer, or NULL and `errno`.
macro_rules! pointer {
    ($result:expr) => {
        $crate::errno::pointer_of($result, $crate::errno::here!())
    };
}

pub(crate) use {here, minus_one, pointer, status};

/// What `status!` does: leaves the error in `errno`, and says why under the name of the call.
pub(crate) fn number_of(result: Result<(), Errno>, call: fn() -> &'static str) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => refused(error, call()),
    }
}

/// What `pointer!` does.
pub(crate) fn pointer_of<T>(result: Result<*mut T, Errno>, call: fn() -> &'static str) -> *mut T {
    result.unwrap_or_else(|error| {
        refused(error, call());
        ptr::null_mut()
    })
}

/// Leaves the error in `errno`, says why `call` was refused, and returns the number.
#[cold]
pub(crate) fn refused(error: Errno, call: &str) -> c_int {
    error.set();
    error.tell(call);
    error.number
}

#[cfg(test)]
mod tests {
    use super::*;
    use transport::Mask;

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
        assert_eq!(Errno::from(&full).number, libc::EUSERS);
    }

    #[test]
    fn a_refusal_names_the_call_the_transition_and_the_reason() {
        let said = |call, error| Refused { call: &call_name(call), error }.to_string();
        let lacking = Errno::from(ModifyError::Missing(Mask::RQ_PSN | Mask::DESTINATION));
        assert_eq!(
            said(
                "ibverbs::qp::object::ibv_modify_qp::{{closure}}::here",
                lacking.between(QpState::Init, QpState::Rtr)
            ),
            "ibv_modify_qp INIT -> RTR: EINVAL: attr_mask lacks IBV_QP_RQ_PSN | IBV_QP_DEST_QPN"
        );
        assert_eq!(
            said("ibverbs::srq::get_srq_num", Errno::NULL),
            "ibv_get_srq_num: EINVAL: a pointer is NULL that must not be"
        );
        assert_eq!(
            said("ferroce_rdma_connect", Errno::UNSUPPORTED),
            "rdma_connect: EOPNOTSUPP: not built"
        );
        assert_eq!(
            said("ibverbs::rdmacm::rsocket::direct::ferroce_riowrite", Errno::NULL),
            "riowrite: EINVAL: a pointer is NULL that must not be"
        );
        let new = "said once by this test";
        assert_eq!((is_new(new), is_new(new)), (true, false));
    }

    #[test]
    fn the_name_of_a_call_is_found_without_being_told() {
        fn ibv_example(call: fn() -> &'static str) -> String {
            call_name(call())
        }
        assert_eq!(ibv_example(here!()), "ibv_the_name_of_a_call_is_found_without_being_told");
    }

    #[test]
    fn an_error_reaches_the_caller_as_its_man_page_says() {
        assert_eq!(status!(Err(Errno::BUSY)), libc::EBUSY);
        assert_eq!(minus_one!(Err(Errno::INVALID)), -1);
        assert_eq!(Errno::last(), Errno::INVALID);
        assert!(pointer_of::<u8>(Err(Errno::NO_MEMORY), || "").is_null());
        assert_eq!(Errno::last(), Errno::NO_MEMORY);
        assert_eq!((status!(Ok(())), minus_one!(Ok(()))), (0, 0));
    }
}
