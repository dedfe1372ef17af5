//! What a forked child, as of `daemon`, finds of a device that was opened before.

use core::ffi::c_int;
use core::panic::AssertUnwindSafe;
use core::ptr;
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::panic::catch_unwind;

use abi::{self, Plain, ibv_async_event, ibv_qp_attr, ibv_qp_init_attr, ibv_send_wr, ibv_wc};
use ibverbs::asynchronous::ibv_get_async_event;
use ibverbs::channel::ibv_create_comp_channel;
use ibverbs::cq::ibv_create_cq;
use ibverbs::qp::create::ibv_create_qp;
use ibverbs::qp::object::ibv_modify_qp;

use super::events::{Source, wait};
use super::{Fixture, refused};

/// Runs `child` in a forked process. Returns what it wrote to standard error, and how it ended.
fn forked(child: impl FnOnce()) -> (String, c_int) {
    let (mut reader, writer) = io::pipe().unwrap();
    // SAFETY: the child runs `child` and ends without returning to state of the other threads.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        // SAFETY: two open descriptors.
        unsafe { libc::dup2(writer.as_raw_fd(), libc::STDERR_FILENO) };
        let result = catch_unwind(AssertUnwindSafe(child));
        if let Err(panic) = &result {
            let message = panic.downcast_ref::<String>().map(String::as_str);
            let message = message.or(panic.downcast_ref::<&str>().copied()).unwrap_or_default();
            // SAFETY: the bytes are live, and as many as is said.
            unsafe { libc::write(libc::STDERR_FILENO, message.as_ptr().cast(), message.len()) };
        }
        // SAFETY: ends the process.
        unsafe { libc::_exit(i32::from(result.is_err())) };
    }
    drop(writer);
    let mut said = String::new();
    reader.read_to_string(&mut said).unwrap();
    let mut status = 0;
    // SAFETY: waits for the child that was just made; `status` is a live place.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    (said, status)
}

#[test]
fn a_child_is_told_once_that_the_device_is_its_parents() {
    let it = Fixture::new();
    let source = Source::new(&it);
    // An event that waits is the parent's.
    source.complete();
    let (said, status) = forked(|| {
        // SAFETY: calls as a C program makes them.
        unsafe {
            let ops = (*it.context).ops;
            let mut send = ibv_send_wr::zeroed();
            let mut bad = ptr::null_mut();
            let post_send = ops.post_send.unwrap();
            assert_eq!(post_send(source.qp, &raw mut send, &raw mut bad), libc::EIO);
            assert_eq!(bad, &raw mut send);
            let mut recv = abi::ibv_recv_wr::zeroed();
            let mut bad = ptr::null_mut();
            let post_recv = ops.post_recv.unwrap();
            assert_eq!(post_recv(source.qp, &raw mut recv, &raw mut bad), libc::EIO);
            let mut wc = ibv_wc::zeroed();
            assert_eq!(ops.poll_cq.unwrap()(source.cq, 1, &raw mut wc), -libc::EIO);
            assert_eq!(ops.req_notify_cq.unwrap()(source.cq, 0), libc::EIO);
            assert_eq!(wait(source.channel), Err(libc::EIO));
            let mut event = ibv_async_event::zeroed();
            assert_eq!(ibv_get_async_event(it.context, &raw mut event), -1);
            let mut attr = ibv_qp_attr { qp_state: 0, ..ibv_qp_attr::zeroed() };
            assert_eq!(ibv_modify_qp(source.qp, &raw mut attr, 1), libc::EIO);
            let mut init = ibv_qp_init_attr {
                send_cq: it.cq,
                recv_cq: it.cq,
                qp_type: abi::IBV_QPT_RC,
                ..ibv_qp_init_attr::zeroed()
            };
            refused(ibv_create_qp(it.pd, &raw mut init), libc::EIO);
            refused(ibv_create_comp_channel(it.context), libc::EIO);
            let cq = ibv_create_cq(it.context, 1, ptr::null_mut(), ptr::null_mut(), 0);
            refused(cq, libc::EIO);
        }
        // All of it can be destroyed, and a device that is opened now works.
        let opened = Fixture::new();
        let again = Source::new(&opened);
        again.complete();
        assert_eq!(wait(again.channel), Ok(again.cq.addr()));
        drop((again, opened));
        drop((source_of(&source), fixture_of(&it)));
    });
    assert_eq!(
        said,
        "libibverbs (ferroce): this process has forked since it opened the device, whose threads and sockets are its \
         parent's: calls fail with EIO\nhint: open the device after fork or daemon\n"
    );
    assert_eq!(status, 0);
    assert_eq!(wait(source.channel), Ok(source.cq.addr()));
    source.arm();
    source.complete();
    assert_eq!(wait(source.channel), Ok(source.cq.addr()));
}

/// A copy that destroys what a child has of it.
fn source_of(source: &Source) -> Source {
    let &Source { channel, owns_channel, cq, qp } = source;
    Source { channel, owns_channel, cq, qp }
}

/// As [`source_of`].
fn fixture_of(it: &Fixture) -> Fixture {
    let &Fixture { context, pd, cq } = it;
    Fixture { context, pd, cq }
}
