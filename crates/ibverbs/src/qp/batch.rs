//! What `ibv_wr_start` begins: requests that are collected, to be posted as one batch.

use core::ops::Range;

use rdma::{Operation, Sge};

use crate::errno::Errno;
use crate::registry::Shared;
use crate::request::{Inline, gather, translate};
use crate::sync::Latch;
use abi::ibv_sge;

/// The batch of one queue pair.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    pub(super) latch: Latch,
    pub(super) batch: Shared<Batch>,
}

/// Requests that wait to be posted together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) requests: Vec<Request>,
    pub(super) sges: Vec<Sge>,
    pub(super) bytes: Inline,
    /// The first thing that was wrong: then nothing is posted.
    pub(super) error: Option<Errno>,
}

/// One of them. Its pieces and inline data are ranges of the batch's.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) id: u64,
    pub(super) flags: u32,
    pub(super) operation: Operation,
    /// The peer's XRC queue, by its number.
    pub(super) srq: Option<u32>,
    pub(super) sges: Range<usize>,
    pub(super) inline: Option<Range<usize>>,
}

impl Batch {
    pub(super) fn clear(&mut self) {
        self.requests.clear();
        self.sges.clear();
        self.bytes.clear();
        self.error = None;
    }

    pub(super) fn begin(&mut self, id: u64, flags: u32, operation: Operation) {
        let at = self.sges.len();
        self.requests.push(Request { id, flags, operation, srq: None, sges: at..at, inline: None });
    }

    /// Notes an error; the first one is reported.
    pub(super) fn check<T>(&mut self, result: Result<T, Errno>) -> Option<T> {
        result.inspect_err(|error| self.error = self.error.or(Some(*error))).ok()
    }

    pub(super) fn add_pieces(&mut self, pieces: &[ibv_sge]) {
        self.sges.extend(translate(pieces));
        let end = self.sges.len();
        match self.requests.last_mut() {
            Some(request) => request.sges.end = end,
            None => {
                self.error = Some(Errno::invalid("ibv_wr_set_... before any request was begun"));
            }
        }
    }

    /// Adds inline data to the current request.
    ///
    /// # Safety
    /// The bytes are readable.
    pub(super) unsafe fn add_inline(&mut self, address: u64, length: usize) {
        let mut bytes = Inline::new();
        // SAFETY: the caller vouches for it.
        let gathered = unsafe { gather(&mut bytes, address, length) };
        if self.check(gathered).is_none() {
            return;
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&bytes);
        let end = self.bytes.len();
        match self.requests.last_mut() {
            Some(request) => {
                let start = request.inline.as_ref().map_or(start, |range| range.start);
                request.inline = Some(start..end);
            }
            None => {
                self.error = Some(Errno::invalid("ibv_wr_set_... before any request was begun"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_collects_its_pieces_and_inline_data() {
        let mut batch = Batch::default();
        let send = Operation::Send { immediate: None, address: None };
        batch.begin(1, 0, send);
        batch.add_pieces(&[ibv_sge { addr: 1, length: 2, lkey: 3 }]);
        batch.begin(2, 0, send);
        let bytes = *b"abcd";
        let address = bytes.as_ptr().expose_provenance() as u64;
        // SAFETY: four bytes that live.
        unsafe {
            batch.add_inline(address, 2);
            batch.add_inline(address + 2, 2);
        }
        assert_eq!(batch.requests[0].sges, 0..1);
        assert_eq!(batch.requests[1].inline, Some(0..4));
        assert_eq!(&batch.bytes[..], b"abcd");
        assert!(batch.error.is_none());
    }

    #[test]
    fn data_without_a_request_is_an_error() {
        let mut batch = Batch::default();
        batch.add_pieces(&[]);
        assert_eq!(batch.error, Some(Errno::INVALID));
    }
}
