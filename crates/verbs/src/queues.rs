//! Completion channels and completion queues.

use core::ffi::{c_int, c_void};
use core::ptr::{self, NonNull};
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use abi::{IBV_WC_GRH, IBV_WC_WITH_IMM, IBV_WC_WITH_INV, Plain, ibv_comp_channel, ibv_cq, ibv_wc};
use rdma::completion::{Attached, NetworkHeader};
use rdma::{Completion, CompletionOpcode, CompletionStatus, Key, Qpn};

use crate::{Context, Error};

/// Completions that are taken by one call.
const BATCH: usize = 16;

/// A queue of completion events, with a descriptor that is readable while one waits.
#[derive(Debug)]
pub struct CompletionChannel {
    context: Arc<Context>,
    raw: NonNull<ibv_comp_channel>,
}

/// A completion queue.
#[derive(Debug)]
pub struct CompletionQueue {
    pub(crate) channel: Arc<CompletionChannel>,
    pub(crate) raw: NonNull<ibv_cq>,
}

// SAFETY: libibverbs may be called from any thread.
unsafe impl Send for CompletionChannel {}
// SAFETY: the same.
unsafe impl Sync for CompletionChannel {}
// SAFETY: the same.
unsafe impl Send for CompletionQueue {}
// SAFETY: the same.
unsafe impl Sync for CompletionQueue {}

impl CompletionChannel {
    /// Makes one, from which events are taken without waiting.
    ///
    /// # Errors
    /// The device refuses.
    pub fn new(context: &Arc<Context>) -> Result<Arc<Self>, Error> {
        // SAFETY: a live context.
        let raw = unsafe { (context.library.calls.ibv_create_comp_channel)(context.raw.as_ptr()) };
        let raw = NonNull::new(raw).ok_or_else(|| Error::last("ibv_create_comp_channel"))?;
        let channel = Self { context: Arc::clone(context), raw };
        // SAFETY: plain system calls on a descriptor that the channel owns.
        let result = unsafe {
            let fd = (*raw.as_ptr()).fd;
            let flags = libc::fcntl(fd, libc::F_GETFL);
            libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK)
        };
        if result < 0 {
            return Err(Error::last("making a completion channel non-blocking"));
        }
        Ok(Arc::new(channel))
    }

    /// Takes an event, and says of which queue: the number that it was made with.
    ///
    /// # Errors
    /// The device is gone.
    pub fn take(&self) -> Result<Option<usize>, Error> {
        let calls = &self.context.library.calls;
        let (mut cq, mut number) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: a live channel, and two writable pointers.
        let result = unsafe { (calls.ibv_get_cq_event)(self.raw.as_ptr(), &mut cq, &mut number) };
        if result != 0 {
            let error = std::io::Error::last_os_error();
            return match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(None),
                _ => Err(Error::last("ibv_get_cq_event")),
            };
        }
        // SAFETY: the queue of the event: it is not destroyed before the event is acknowledged.
        unsafe { (calls.ibv_ack_cq_events)(cq, 1) };
        Ok(Some(number.addr()))
    }
}

impl AsFd for CompletionChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is open as long as the channel is.
        unsafe { BorrowedFd::borrow_raw((*self.raw.as_ptr()).fd) }
    }
}

impl Drop for CompletionChannel {
    fn drop(&mut self) {
        let calls = &self.context.library.calls;
        // SAFETY: every queue keeps its channel, so none is left.
        unsafe { (calls.ibv_destroy_comp_channel)(self.raw.as_ptr()) };
    }
}

impl CompletionQueue {
    /// Makes one of at least `depth` entries, whose events bear `number`.
    ///
    /// # Errors
    /// The device refuses.
    pub fn new(
        channel: &Arc<CompletionChannel>,
        depth: u32,
        number: usize,
    ) -> Result<Arc<Self>, Error> {
        let context = &channel.context;
        let depth = c_int::try_from(depth).unwrap_or(c_int::MAX);
        let number = ptr::without_provenance_mut::<c_void>(number);
        // SAFETY: a live context and a live channel of it; the number is never followed.
        let raw = unsafe {
            let create = context.library.calls.ibv_create_cq;
            create(context.raw.as_ptr(), depth, number, channel.raw.as_ptr(), 0)
        };
        let raw = NonNull::new(raw).ok_or_else(|| Error::last("ibv_create_cq"))?;
        Ok(Arc::new(Self { channel: Arc::clone(channel), raw }))
    }

    /// Takes the oldest completions, and says how many.
    ///
    /// # Errors
    /// The queue has failed: it was too short.
    pub fn poll(&self, out: &mut [Completion]) -> Result<usize, Error> {
        let mut some = [ibv_wc::zeroed(); BATCH];
        let most = out.len().min(BATCH);
        // SAFETY: a live queue, whose context has its operations, and `most` writable structures.
        let found = unsafe {
            let poll = (*(*self.raw.as_ptr()).context).ops.poll_cq;
            let poll = poll.ok_or_else(|| Error::new("the device polls no completion queue"))?;
            poll(self.raw.as_ptr(), most as c_int, some.as_mut_ptr())
        };
        let count = usize::try_from(found).map_err(|_| Error::number("ibv_poll_cq", found))?;
        for (completion, wc) in out.iter_mut().zip(&some[..count.min(most)]) {
            *completion = from_c(wc);
        }
        Ok(count.min(most))
    }

    /// Asks for an event at the next completion, or at the next that is solicited.
    ///
    /// # Errors
    /// The device refuses.
    pub fn arm(&self, solicited: bool) -> Result<(), Error> {
        // SAFETY: a live queue, whose context has its operations.
        let result = unsafe {
            let arm = (*(*self.raw.as_ptr()).context).ops.req_notify_cq;
            let arm = arm.ok_or_else(|| Error::new("the device arms no completion queue"))?;
            arm(self.raw.as_ptr(), solicited.into())
        };
        if result == 0 { Ok(()) } else { Err(Error::number("ibv_req_notify_cq", result)) }
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // SAFETY: every queue pair keeps its queues, and every event was acknowledged.
        unsafe { (self.channel.context.library.calls.ibv_destroy_cq)(self.raw.as_ptr()) };
    }
}

fn from_c(wc: &ibv_wc) -> Completion {
    let attached = match wc.wc_flags {
        flags if flags & IBV_WC_WITH_IMM != 0 => Attached::Immediate(wc.imm_data.to_ne_bytes()),
        flags if flags & IBV_WC_WITH_INV != 0 => Attached::Invalidated(Key(wc.imm_data)),
        _ => Attached::None,
    };
    // Devices put the kind of a datagram's header into the service level: 1 is IPv6.
    let network_header = match (wc.wc_flags & IBV_WC_GRH != 0, wc.sl & 7) {
        (false, _) => NetworkHeader::None,
        (true, 1) => NetworkHeader::Ipv6,
        (true, _) => NetworkHeader::Ipv4,
    };
    Completion {
        id: wc.wr_id,
        status: status(wc.status),
        opcode: opcode(wc.opcode),
        vendor_error: wc.vendor_err,
        byte_len: wc.byte_len,
        attached,
        qpn: Qpn::new(wc.qp_num),
        source_qpn: Qpn::new(wc.src_qp),
        network_header,
        solicited: false,
    }
}

/// `enum ibv_wc_status`.
fn status(code: u32) -> CompletionStatus {
    use CompletionStatus as S;
    const KNOWN: [CompletionStatus; 15] = [
        S::Success,
        S::LocalLength,
        S::LocalQpOperation,
        S::LocalProtection,
        S::Flushed,
        S::WindowBind,
        S::BadResponse,
        S::LocalAccess,
        S::RemoteInvalidRequest,
        S::RemoteAccess,
        S::RemoteOperation,
        S::RetryExceeded,
        S::RnrRetryExceeded,
        S::RemoteAborted,
        S::Fatal,
    ];
    KNOWN.into_iter().find(|known| *known as u32 == code).unwrap_or(S::General)
}

/// `enum ibv_wc_opcode`. Of a completion that failed it means nothing.
fn opcode(code: u32) -> CompletionOpcode {
    use CompletionOpcode as O;
    const KNOWN: [CompletionOpcode; 10] = [
        O::Send,
        O::Write,
        O::Read,
        O::CompareSwap,
        O::FetchAdd,
        O::BindWindow,
        O::LocalInvalidate,
        O::AtomicWrite,
        O::Recv,
        O::RecvWriteImmediate,
    ];
    KNOWN.into_iter().find(|known| *known as u32 == code).unwrap_or(O::Send)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_header() {
        assert_eq!(status(0), CompletionStatus::Success);
        assert_eq!(status(5), CompletionStatus::Flushed);
        assert_eq!(status(12), CompletionStatus::RetryExceeded);
        assert_eq!(status(3), CompletionStatus::General, "of queues that RoCE does not have");
        assert_eq!(opcode(128), CompletionOpcode::Recv);
        assert_eq!(opcode(129), CompletionOpcode::RecvWriteImmediate);
    }

    #[test]
    fn a_completion_keeps_its_immediate_data_and_the_kind_of_its_header() {
        let mut wc = ibv_wc::zeroed();
        (wc.wr_id, wc.opcode, wc.byte_len, wc.qp_num) = (7, 128, 44, 9);
        wc.wc_flags = IBV_WC_WITH_IMM | IBV_WC_GRH;
        wc.imm_data = u32::from_ne_bytes([1, 2, 3, 4]);
        let completion = from_c(&wc);
        assert_eq!(completion.attached, Attached::Immediate([1, 2, 3, 4]));
        assert_eq!(completion.network_header, NetworkHeader::Ipv4);
        assert_eq!((completion.id, completion.byte_len, completion.qpn), (7, 44, Qpn::new(9)));
        wc.sl = 1;
        assert_eq!(from_c(&wc).network_header, NetworkHeader::Ipv6);
    }
}
