//! Completion channels, and threads that wait for what comes through them.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use abi::{
    self, Plain, ibv_comp_channel, ibv_cq, ibv_qp, ibv_qp_attr, ibv_qp_init_attr, ibv_recv_wr,
};
use ibverbs::channel::{ibv_create_comp_channel, ibv_destroy_comp_channel, ibv_get_cq_event};
use ibverbs::cq::{ibv_ack_cq_events, ibv_create_cq, ibv_destroy_cq};
use ibverbs::qp::create::ibv_create_qp;
use ibverbs::qp::object::{ibv_destroy_qp, ibv_modify_qp};

use super::{Fixture, errno};

const PATIENCE: Duration = Duration::from_secs(20);
/// The attributes for RESET to INIT: state, P_Key index, port, rights.
const TO_INIT: c_int = 1 | 1 << 3 | 1 << 4 | 1 << 5;

/// A completion queue with a channel, and a queue pair that completes whatever is posted: it is in the
/// error state.
pub(super) struct Source {
    pub(super) channel: *mut ibv_comp_channel,
    pub(super) owns_channel: bool,
    pub(super) cq: *mut ibv_cq,
    pub(super) qp: *mut ibv_qp,
}

// SAFETY: C uses its objects in any thread.
unsafe impl Send for Source {}
// SAFETY: as above.
unsafe impl Sync for Source {}

impl Source {
    pub(super) fn new(it: &Fixture) -> Self {
        // SAFETY: a live context.
        Self::on(it, unsafe { ibv_create_comp_channel(it.context) }, true)
    }

    fn on(it: &Fixture, channel: *mut ibv_comp_channel, owns_channel: bool) -> Self {
        // SAFETY: live objects, and structures that are valid when they are all zeroes.
        unsafe {
            assert!(!channel.is_null());
            let cq = ibv_create_cq(it.context, 16, ptr::null_mut(), channel, 0);
            let mut init = ibv_qp_init_attr {
                send_cq: cq,
                recv_cq: cq,
                qp_type: abi::IBV_QPT_RC,
                ..ibv_qp_init_attr::zeroed()
            };
            (init.cap.max_send_wr, init.cap.max_recv_wr) = (1, 16);
            let qp = ibv_create_qp(it.pd, &raw mut init);
            assert!(!cq.is_null() && !qp.is_null());
            let mut attr = ibv_qp_attr { qp_state: 1, port_num: 1, ..ibv_qp_attr::zeroed() };
            assert_eq!(ibv_modify_qp(qp, &raw mut attr, TO_INIT), 0);
            attr.qp_state = 6;
            assert_eq!(ibv_modify_qp(qp, &raw mut attr, 1), 0);
            let source = Self { channel, owns_channel, cq, qp };
            source.arm();
            source
        }
    }

    pub(super) fn arm(&self) {
        // SAFETY: live objects; the operation is always there.
        unsafe {
            let arm = (*(*self.cq).context).ops.req_notify_cq.unwrap();
            assert_eq!(arm(self.cq, 0), 0);
        }
    }

    /// Has a request complete.
    pub(super) fn complete(&self) {
        let mut request = ibv_recv_wr::zeroed();
        let mut bad = ptr::null_mut();
        // SAFETY: live objects; the operation is always there.
        unsafe {
            let post = (*(*self.qp).context).ops.post_recv.unwrap();
            assert_eq!(post(self.qp, &raw mut request, &raw mut bad), 0);
        }
    }

    /// A thread that waits for an event, and says what came of it: the queue's address, or an error.
    fn waiter(&self) -> (JoinHandle<Result<usize, c_int>>, libc::pthread_t) {
        let channel = self.channel.expose_provenance();
        let (tell, told) = std::sync::mpsc::channel();
        let waiter = thread::spawn(move || {
            // SAFETY: takes nothing and cannot fail.
            tell.send(unsafe { libc::pthread_self() }).unwrap();
            wait(ptr::with_exposed_provenance_mut(channel))
        });
        (waiter, told.recv().unwrap())
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // SAFETY: the source's own objects, still alive.
        unsafe {
            let mut results = vec![ibv_destroy_qp(self.qp), ibv_destroy_cq(self.cq)];
            if self.owns_channel {
                results.push(ibv_destroy_comp_channel(self.channel));
            }
            if !thread::panicking() {
                assert!(results.iter().all(|result| *result == 0), "{results:?}");
            }
        }
    }
}

pub(super) fn wait(channel: *mut ibv_comp_channel) -> Result<usize, c_int> {
    let mut cq = ptr::null_mut();
    let mut context: *mut c_void = ptr::null_mut();
    // SAFETY: a live channel, and places for the answer.
    unsafe {
        if ibv_get_cq_event(channel, &raw mut cq, &raw mut context) != 0 {
            return Err(errno());
        }
        ibv_ack_cq_events(cq, 1);
    }
    Ok(cq.addr())
}

#[test]
fn an_event_of_another_thread_ends_the_wait() {
    let it = Fixture::new();
    let source = Source::new(&it);
    for _ in 0..3 {
        let (waiter, _) = source.waiter();
        thread::sleep(Duration::from_millis(5));
        source.complete();
        assert_eq!(waiter.join().unwrap(), Ok(source.cq.addr()));
        source.arm();
    }
    // An event that is there already needs no wait.
    source.complete();
    assert_eq!(wait(source.channel), Ok(source.cq.addr()));
}

#[test]
fn two_threads_have_their_events_of_one_channel_or_of_two() {
    let it = Fixture::new();
    let first = Source::new(&it);
    for same in [true, false] {
        let second = if same { Source::on(&it, first.channel, false) } else { Source::new(&it) };
        let waiters = [first.waiter(), second.waiter()];
        thread::sleep(Duration::from_millis(5));
        second.complete();
        thread::sleep(Duration::from_millis(5));
        first.complete();
        let mut told = waiters.map(|(waiter, _)| waiter.join().unwrap().unwrap());
        let mut expected = [first.cq.addr(), second.cq.addr()];
        if same {
            told.sort_unstable();
            expected.sort_unstable();
        }
        assert_eq!(told, expected);
        first.arm();
    }
}

#[test]
fn a_program_that_does_not_want_to_wait_does_not() {
    let it = Fixture::new();
    let source = Source::new(&it);
    // SAFETY: a live channel.
    let fd = unsafe { (*source.channel).fd };
    // SAFETY: plain system calls on a descriptor of ours.
    unsafe { assert_eq!(libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK), 0) };
    assert_eq!(wait(source.channel), Err(libc::EAGAIN));
    source.complete();
    assert_eq!(wait(source.channel), Ok(source.cq.addr()));
    assert_eq!(wait(source.channel), Err(libc::EAGAIN));
}

static HANDLED: AtomicU32 = AtomicU32::new(0);

extern "C" fn count(_: c_int) {
    HANDLED.fetch_add(1, Ordering::SeqCst);
}

/// Has `SIGUSR2` counted.
fn handle(flags: c_int) {
    let handler = count as extern "C" fn(c_int);
    // SAFETY: all zeros are a valid sigaction.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = flags;
    // SAFETY: the handler may be called at any time; no other test here uses the signal.
    let result = unsafe { libc::sigaction(libc::SIGUSR2, &raw const action, ptr::null_mut()) };
    assert_eq!(result, 0);
}

#[test]
fn a_signal_ends_the_wait_as_it_would_a_read() {
    let it = Fixture::new();
    let source = Source::new(&it);
    let kill = |thread| {
        // SAFETY: the thread has not been joined.
        unsafe { libc::pthread_kill(thread, libc::SIGUSR2) };
        thread::sleep(Duration::from_millis(1));
    };
    handle(libc::SA_RESTART);
    let started = Instant::now();
    let (waiter, thread) = source.waiter();
    thread::sleep(Duration::from_millis(20));
    while HANDLED.load(Ordering::SeqCst) < 10 {
        kill(thread);
        assert!(started.elapsed() < PATIENCE);
    }
    assert!(!waiter.is_finished());
    source.complete();
    assert_eq!(waiter.join().unwrap(), Ok(source.cq.addr()));

    handle(0);
    source.arm();
    let (waiter, thread) = source.waiter();
    while !waiter.is_finished() {
        kill(thread);
        assert!(started.elapsed() < PATIENCE);
    }
    assert_eq!(waiter.join().unwrap(), Err(libc::EINTR));
}

extern "C-unwind" fn wait_until_cancelled(channel: *mut c_void) -> *mut c_void {
    let (mut cq, mut context) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: a live channel, and places for the answer.
    unsafe { ibv_get_cq_event(channel.cast(), &raw mut cq, &raw mut context) };
    ptr::null_mut()
}

#[test]
fn a_thread_that_waits_can_be_cancelled() {
    let it = Fixture::new();
    let source = Source::new(&it);
    let cancel_one = || {
        let start = wait_until_cancelled as extern "C-unwind" fn(*mut c_void) -> *mut c_void;
        let (mut thread, mut result) = (0, ptr::null_mut());
        // SAFETY: the C library may unwind its threads' first function; the channel outlives the
        // thread, which ends here.
        unsafe {
            let start: extern "C" fn(*mut c_void) -> *mut c_void = core::mem::transmute(start);
            let channel = source.channel.cast();
            assert_eq!(libc::pthread_create(&raw mut thread, ptr::null(), start, channel), 0);
            thread::sleep(Duration::from_millis(5));
            assert_eq!(libc::pthread_cancel(thread), 0);
            assert_eq!(libc::pthread_join(thread, &raw mut result), 0);
        }
        assert_eq!(result.addr(), usize::MAX, "PTHREAD_CANCELED");
    };
    cancel_one();
    // With two channels the waiting thread does not do the progress thread's work.
    let other = Source::new(&it);
    cancel_one();
    drop(other);
    source.complete();
    assert_eq!(wait(source.channel), Ok(source.cq.addr()));
}
