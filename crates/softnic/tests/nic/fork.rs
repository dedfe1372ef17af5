//! What a fork leaves of a NIC.

use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicBool, Ordering};
use std::panic::catch_unwind;

use rdma::{Operation, QpType};

use crate::support::{Host, pair};

/// Runs `child` in a forked process and says whether it came to its end.
pub(crate) fn in_child(child: impl FnOnce()) -> bool {
    status_of_child(child) == 0
}

/// Runs `child` in a forked process. Returns how it ended, as `waitpid` says it.
pub(crate) fn status_of_child(child: impl FnOnce()) -> i32 {
    // SAFETY: the child runs `child` and ends without returning to state of the other threads.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        let result = catch_unwind(AssertUnwindSafe(child));
        if let Err(panic) = &result {
            // The harness captures output for its report, and this process has none. Threads that do
            // not exist here may hold locks of the standard library.
            let message = panic.downcast_ref::<String>().map(String::as_str);
            let message = message.or(panic.downcast_ref::<&str>().copied()).unwrap_or_default();
            let line = format!("in a forked child: {message}\n");
            // SAFETY: the bytes are live, and as many as is said.
            unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
        }
        // SAFETY: ends the process.
        unsafe { libc::_exit(i32::from(result.is_err())) };
    }
    let mut status = 0;
    // SAFETY: waits for the child that was just made; `status` is a live place.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    status
}

fn write(a: &Host, b: &Host) {
    let write = Operation::Write { remote_address: b.address(), r_key: b.key, immediate: None };
    a.post(1, write, a.sge(0, 8));
    a.completions(1);
}

#[test]
fn the_child_has_a_dead_copy_and_the_parent_goes_on() {
    let (a, b) = pair(60, QpType::Rc, 4096);
    write(&a, &b);
    let (ours, address) = (a.qpn, "127.0.60.1");
    let ended = in_child(|| {
        // Objects can be destroyed, and nothing is sent that the parent has not.
        a.nic.start();
        a.nic.poll();
        let sent = a.nic.counts().tx_packets;
        a.post(
            2,
            Operation::Write { remote_address: 0, r_key: b.key, immediate: None },
            a.sge(0, 8),
        );
        a.nic.with(|endpoint, _, _| endpoint.destroy_qp(ours)).unwrap();
        assert_eq!(a.nic.counts().tx_packets, sent);
        drop((a, b));
        // The device can be opened anew, beside the parent's.
        let new = Host::open(address, QpType::Rc, 4096);
        let peer = Host::open("127.0.60.3", QpType::Rc, 4096);
        assert_ne!(new.qpn.value() >> 14, ours.value() >> 14);
        new.connect(&peer);
        peer.connect(&new);
        write(&new, &peer);
    });
    assert!(ended, "the child failed");
}

#[test]
fn the_parent_goes_on() {
    let (a, b) = pair(61, QpType::Rc, 4096);
    for _ in 0..5 {
        assert!(in_child(|| {}));
        write(&a, &b);
        write(&b, &a);
    }
}

#[test]
fn a_fork_in_the_middle_of_traffic_finds_no_lock_held() {
    let (a, b) = pair(62, QpType::Rc, 4096);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                write(&a, &b);
            }
        });
        for _ in 0..50 {
            assert!(in_child(|| {
                b.nic.poll();
                b.nic.with(|endpoint, _, _| endpoint.query_qp(b.qpn)).unwrap();
            }));
        }
        stop.store(true, Ordering::Relaxed);
    });
}
