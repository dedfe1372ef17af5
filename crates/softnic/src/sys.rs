//! Thin safe wrappers around the system calls that the standard library does not have.

use core::cell::Cell;
use core::ffi::c_int;
use core::mem;
use core::net::IpAddr;
use core::ptr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The error of a call that returns -1.
pub(crate) fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Makes a file this long at least, with memory or disk behind all of it.
pub(crate) fn allocate(file: BorrowedFd<'_>, length: u64) -> io::Result<()> {
    let length = libc::off_t::try_from(length).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: takes no pointer.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Has writes to a pipe or a FIFO fail instead of waiting.
pub(crate) fn never_wait(descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let descriptor = descriptor.as_raw_fd();
    // SAFETY: takes no pointer.
    let flags = check(unsafe { libc::fcntl(descriptor, libc::F_GETFL) })?;
    // SAFETY: as above.
    check(unsafe { libc::fcntl(descriptor, libc::F_SETFL, flags | libc::O_NONBLOCK) }).map(drop)
}

/// Writes to a pipe whose reader may be gone, which is an error for us and no signal for the program.
pub(crate) fn without_sigpipe<R>(write: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
    // SAFETY: sets of signals are plain data, which the calls fill in.
    let (mut pipe, mut before, mut pending) =
        unsafe { (mem::zeroed(), mem::zeroed(), mem::zeroed::<libc::sigset_t>()) };
    // SAFETY: the pointers are to these sets.
    let was_pending = unsafe {
        libc::sigemptyset(&raw mut pipe);
        libc::sigaddset(&raw mut pipe, libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const pipe, &raw mut before);
        libc::sigpending(&raw mut pending);
        libc::sigismember(&raw const pending, libc::SIGPIPE) == 1
    };
    let result = write();
    let raised = result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
    if raised && !was_pending {
        let no_time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a set, no place for information, and no time to wait.
        unsafe { libc::sigtimedwait(&raw const pipe, ptr::null_mut(), &raw const no_time) };
    }
    // SAFETY: the mask that there was.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut()) };
    result
}

/// A type that the kernel reads and writes as plain bytes.
///
/// # Safety
/// Every bit pattern is a value, and there is no padding.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: integers have no padding and no invalid value.
unsafe impl Plain for c_int {}
// SAFETY: as above.
unsafe impl Plain for u16 {}
// SAFETY: as above; an array has no padding between its elements.
unsafe impl Plain for [u32; 9] {}
// SAFETY: as above. It is what a `ucred` has: process, user and group.
unsafe impl Plain for [u32; 3] {}
// SAFETY: three integers of four bytes.
unsafe impl Plain for libc::ip_mreqn {}
// SAFETY: sixteen bytes and an integer of four.
unsafe impl Plain for libc::ipv6_mreq {}

/// Names an interface for multicast, and no address.
fn on_interface(interface: u32, group: libc::in_addr) -> libc::ip_mreqn {
    let any = libc::in_addr { s_addr: 0 };
    // The kernel's indices are positive.
    libc::ip_mreqn { imr_multiaddr: group, imr_address: any, imr_ifindex: interface as c_int }
}

/// Has what a socket sends to multicast groups leave by `interface`.
pub(crate) fn send_groups_by(
    socket: BorrowedFd<'_>,
    is_ipv4: bool,
    interface: u32,
) -> io::Result<()> {
    if is_ipv4 {
        let by = on_interface(interface, libc::in_addr { s_addr: 0 });
        set_option(socket, libc::IPPROTO_IP, libc::IP_MULTICAST_IF, by)
    } else {
        set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF, interface as c_int)
    }
}

/// Joins a multicast group on `interface`, for as long as the socket is open.
pub(crate) fn join_group(socket: BorrowedFd<'_>, group: IpAddr, interface: u32) -> io::Result<()> {
    match group {
        IpAddr::V4(v4) => {
            let group = libc::in_addr { s_addr: u32::from_ne_bytes(v4.octets()) };
            let membership = on_interface(interface, group);
            set_option(socket, libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, membership)
        }
        IpAddr::V6(v6) => {
            let membership = libc::ipv6_mreq {
                ipv6mr_multiaddr: libc::in6_addr { s6_addr: v6.octets() },
                ipv6mr_interface: interface,
            };
            set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP, membership)
        }
    }
}

/// Sets a socket option that is a plain value.
pub(crate) fn set_option<T: Plain>(
    socket: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: T,
) -> io::Result<()> {
    // SAFETY: the pointer and the length are those of `value`, which lives through the call.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    })?;
    Ok(())
}

/// Reads a socket option that is a plain value.
pub(crate) fn option<T: Plain + Default>(
    socket: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
) -> io::Result<T> {
    let mut value = T::default();
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes `length` bytes at most to `value`, for which every pattern is fine.
    check(unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut length)
    })?;
    Ok(value)
}

/// A UDP socket without an address, which does not wait.
pub(crate) fn udp_socket(is_ipv4: bool) -> io::Result<OwnedFd> {
    let family = if is_ipv4 { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes no pointer; the descriptor that it returns is nobody else's.
    unsafe { Ok(OwnedFd::from_raw_fd(check(libc::socket(family, kind, 0))?)) }
}

/// A counter to wake a sleeper by.
pub(crate) fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: takes no pointer; the descriptor that it returns is nobody else's.
    unsafe {
        let fd = check(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// A timer that is ready to be read once its time has come.
pub(crate) fn timer() -> io::Result<OwnedFd> {
    // SAFETY: takes no pointer; the descriptor that it returns is nobody else's.
    unsafe {
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        let fd = check(libc::timerfd_create(libc::CLOCK_MONOTONIC, flags))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Sets a timer anew, to `ns` from now.
pub(crate) fn set_timer(timer: BorrowedFd<'_>, ns: u64) {
    let at = libc::itimerspec { it_interval: timespec(0), it_value: timespec(ns) };
    // SAFETY: reads a live structure; the times in it are valid.
    unsafe { libc::timerfd_settime(timer.as_raw_fd(), 0, &raw const at, ptr::null_mut()) };
}

fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    }
}

/// What a clock shows, in ns.
pub(crate) fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes to a live place. The clocks of the system, of this thread and of this
    // process are always there.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Adds one to an eventfd. A full counter wakes as well as any other, so nothing can fail.
pub(crate) fn signal(eventfd: BorrowedFd<'_>) {
    let one = 1_u64;
    // SAFETY: eight bytes are read from `one`.
    unsafe { libc::write(eventfd.as_raw_fd(), (&raw const one).cast(), size_of::<u64>()) };
}

/// Sets an eventfd, or a timer whose time has come, back to zero.
pub(crate) fn reset(eventfd: BorrowedFd<'_>) {
    let mut count = 0_u64;
    // SAFETY: eight bytes are written to `count`.
    unsafe { libc::read(eventfd.as_raw_fd(), (&raw mut count).cast(), size_of::<u64>()) };
}

/// Waits until one of `descriptors` has an event, or `timeout_ns` have passed. Returns whether one
/// has; an interruption by a signal counts as the end of the time.
pub(crate) fn wait(descriptors: &mut [libc::pollfd], timeout_ns: u64) -> bool {
    poll(descriptors, timeout_ns).unwrap_or(false)
}

/// While this lives, this thread handles what has arrived, or builds what is to be sent. Whoever talks to us
/// waits for that, so it must not sleep, nor wait for another process: debug builds panic if it does.
pub(crate) struct Sleepless(());

thread_local! {
    /// How many of them this thread has.
    static SLEEPLESS: Cell<u32> = const { Cell::new(0) };
}

impl Sleepless {
    #[inline]
    pub(crate) fn begin() -> Self {
        if cfg!(debug_assertions) {
            SLEEPLESS.set(SLEEPLESS.get() + 1);
        }
        Self(())
    }
}

impl Drop for Sleepless {
    #[inline]
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            SLEEPLESS.set(SLEEPLESS.get() - 1);
        }
    }
}

/// Panics in debug builds if others wait for what this thread does.
#[inline]
pub(crate) fn assert_may_sleep() {
    debug_assert!(SLEEPLESS.get() == 0, "a path of reception or sending sleeps");
}

unsafe extern "C-unwind" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    /// As the C library has it, which unwinds a thread that is cancelled here.
    fn ppoll(
        descriptors: *mut libc::pollfd,
        count: libc::nfds_t,
        timeout: *const libc::timespec,
        signals: *const libc::sigset_t,
    ) -> c_int;
}

/// While this lives, this thread is not cancelled.
pub(crate) struct HeldCancellation {
    before: c_int,
}

impl HeldCancellation {
    /// `PTHREAD_CANCEL_DISABLE`.
    const DISABLE: c_int = 1;

    pub(crate) fn new() -> Self {
        Self { before: Self::set(Self::DISABLE) }
    }

    /// Runs `f`, in which the thread may be cancelled if it might before.
    pub(crate) fn allow<R>(&self, f: impl FnOnce() -> R) -> R {
        Self::set(self.before);
        let result = f();
        Self::set(Self::DISABLE);
        result
    }

    fn set(state: c_int) -> c_int {
        let mut before = 0;
        // SAFETY: a live place for what the state was.
        unsafe { pthread_setcancelstate(state, &raw mut before) };
        before
    }
}

impl Drop for HeldCancellation {
    fn drop(&mut self) {
        Self::set(self.before);
    }
}

/// As [`wait`], but an interruption by a signal is an error.
pub(crate) fn poll(descriptors: &mut [libc::pollfd], timeout_ns: u64) -> io::Result<bool> {
    assert_may_sleep();
    let timeout = timespec(timeout_ns);
    // SAFETY: the pointer and the count are those of the slice; no signal mask is passed.
    let ready = unsafe {
        ppoll(
            descriptors.as_mut_ptr(),
            descriptors.len() as libc::nfds_t,
            &raw const timeout,
            ptr::null(),
        )
    };
    Ok(check(ready)? > 0)
}

/// Waits until `socket` takes more data, for `timeout_ms` at most.
pub(crate) fn wait_writable(socket: BorrowedFd<'_>, timeout_ms: i32) -> bool {
    assert_may_sleep();
    let mut descriptor =
        [libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLOUT, revents: 0 }];
    wait(&mut descriptor, u64::from(timeout_ms.unsigned_abs()) * 1_000_000)
}

/// Receives a datagram, or what of it there is room for, without waiting. Returns how long it is.
///
/// The C library's function is a place where the calling thread may be cancelled. To say so and to
/// take it back costs a tenth of a look at a socket, and a thread that ended there, in the middle of a
/// call of ours, would never give back what it holds. So the kernel is called without it.
///
/// # Safety
/// Every pointer in `header` is to a live place of the length beside it, or null beside 0.
pub(crate) unsafe fn receive_message(
    socket: BorrowedFd<'_>,
    header: &mut libc::msghdr,
    flags: c_int,
) -> io::Result<usize> {
    let (fd, flags) = (socket.as_raw_fd(), flags | libc::MSG_DONTWAIT);
    // SAFETY: as the caller says; the kernel writes to the places that are named, and nowhere else.
    let length = unsafe { libc::syscall(libc::SYS_recvmsg, fd, ptr::from_mut(header), flags) };
    usize::try_from(length).map_err(|_| io::Error::last_os_error())
}

/// Sends datagrams without waiting, and returns how many were taken. The kernel is called as by
/// [`receive_message`].
///
/// # Safety
/// Every pointer in `headers` is to a live place of the length beside it, or null beside 0.
pub(crate) unsafe fn send_messages(
    socket: BorrowedFd<'_>,
    headers: &mut [libc::mmsghdr],
) -> io::Result<usize> {
    let (fd, flags) = (socket.as_raw_fd(), libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
    if let [single] = headers {
        // Preparing for several would cost a twentieth of what the kernel does for a short one.
        // SAFETY: as the caller says; the kernel only reads what is named.
        let sent = unsafe { libc::syscall(libc::SYS_sendmsg, fd, &raw mut single.msg_hdr, flags) };
        return if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(1) };
    }
    let count = headers.len() as libc::c_uint;
    // SAFETY: as the caller says; the kernel only reads what is named, and writes the lengths to
    // `headers`.
    let sent = unsafe { libc::syscall(libc::SYS_sendmmsg, fd, headers.as_mut_ptr(), count, flags) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// A random number from the kernel.
pub(crate) fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    // SAFETY: the kernel writes to the array, and as many bytes as it has.
    let length = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if length != 8 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::from_ne_bytes(bytes))
}

/// The user that files and sockets belong to.
pub(crate) fn user() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// What is done to a lock on a byte of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lock {
    /// Take it if it is free.
    Try,
    /// Give it back.
    Release,
}

/// Works on the lock of one byte of `file` (an open file description lock: the kernel gives it
/// back when the last descriptor of this opening is closed, however the process ends).
pub(crate) fn lock(file: BorrowedFd<'_>, byte: i64, action: Lock) -> io::Result<()> {
    let kind = match action {
        Lock::Try => libc::F_WRLCK,
        Lock::Release => libc::F_UNLCK,
    };
    let request = flock(byte, kind);
    // SAFETY: the command reads a `flock`, whose process ID is zero, as it demands.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const request) })?;
    Ok(())
}

/// Takes the locks of all bytes of `file`, if nobody else has one of them.
pub(crate) fn lock_whole(file: BorrowedFd<'_>) -> io::Result<()> {
    let mut request = flock(0, libc::F_WRLCK);
    // To whatever end.
    request.l_len = 0;
    // SAFETY: as in `lock`.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const request) })?;
    Ok(())
}

/// Whether some other opening of the file holds the lock of `byte`.
pub(crate) fn is_locked(file: BorrowedFd<'_>, byte: i64) -> io::Result<bool> {
    let mut request = flock(byte, libc::F_WRLCK);
    // SAFETY: this command reads and writes a `flock`.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut request) })?;
    Ok(i32::from(request.l_type) != libc::F_UNLCK)
}

fn flock(byte: i64, kind: c_int) -> libc::flock {
    // SAFETY: all zeros are a valid flock.
    let mut request: libc::flock = unsafe { mem::zeroed() };
    request.l_type = kind as _;
    request.l_whence = libc::SEEK_SET as _;
    request.l_start = byte as _;
    request.l_len = 1;
    request
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[cfg(debug_assertions)]
    #[test]
    fn who_is_waited_for_and_sleeps_is_found_out() {
        let (event, span) = (eventfd().unwrap(), rdma::Span::from_ns(1));
        let wait_to_write = || {
            wait_writable(event.as_fd(), 1);
        };
        let sleeps: [&dyn Fn(); 3] =
            [&|| crate::clock::pause(span), &|| assert!(!wait(&mut [], 1)), &wait_to_write];
        let is_found_out = |sleep: &dyn Fn()| {
            std::panic::catch_unwind(core::panic::AssertUnwindSafe(sleep)).is_err()
        };
        let sleepless = Sleepless::begin();
        assert!(sleeps.into_iter().all(is_found_out));
        drop(sleepless);
        assert!(!sleeps.into_iter().any(is_found_out));
    }

    #[test]
    fn a_lock_of_another_opening_is_seen_and_ends_with_it() {
        let path = std::env::temp_dir().join(format!("ferroce-lock-{}", std::process::id()));
        let open = || std::fs::File::options().create(true).truncate(false).write(true).open(&path);
        let (mine, other) = (open().unwrap(), open().unwrap());
        lock(other.as_fd(), 7, Lock::Try).unwrap();
        assert!(is_locked(mine.as_fd(), 7).unwrap());
        assert!(!is_locked(mine.as_fd(), 8).unwrap());
        assert!(lock(mine.as_fd(), 7, Lock::Try).is_err());
        drop(other);
        assert!(!is_locked(mine.as_fd(), 7).unwrap());
        lock(mine.as_fd(), 7, Lock::Try).unwrap();
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_signalled_eventfd_is_ready_until_it_is_reset() {
        let eventfd = eventfd().unwrap();
        let ready = || {
            let fd = eventfd.as_raw_fd();
            wait(&mut [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }], 0)
        };
        assert!(!ready());
        signal(eventfd.as_fd());
        assert!(ready());
        reset(eventfd.as_fd());
        assert!(!ready());
    }
}
