//! What a NIC reads to know what is asked of it.
//!
//! A work queue entry of mlx4 has 16 bytes of control, 16 of remote address where there is one, and 16
//! for each piece or, inline, the data behind 4 bytes of header; it takes whole blocks of 64 bytes
//! (libmlx4, `post_send`).

use rdma::{Operation, WorkRequest};

const SEGMENT: u64 = 16;
const BLOCK: u64 = 64;
const INLINE_HEADER: u64 = 4;

/// The bytes of the entry of a request.
pub(crate) fn wqe_bytes(request: &WorkRequest<'_>) -> u64 {
    let remote = match request.operation {
        Operation::Write { .. } | Operation::Read { .. } => SEGMENT,
        // A remote address, and what is compared, swapped or added. A datagram's address is three long.
        Operation::CompareSwap { .. } | Operation::FetchAdd { .. } => 2 * SEGMENT,
        Operation::Send { address: Some(_), .. } => 3 * SEGMENT,
        _ => 0,
    };
    let data = match request.inline {
        Some(bytes) => (bytes.len() as u64 + INLINE_HEADER).next_multiple_of(SEGMENT),
        None => request.sges.len() as u64 * SEGMENT,
    };
    (SEGMENT + remote + data).next_multiple_of(BLOCK)
}

/// The reads that an entry of so many bytes takes.
pub(crate) fn fetches(bytes: u64, at_once: u32) -> u64 {
    bytes.div_ceil(u64::from(at_once.max(1))).max(1)
}

#[cfg(test)]
mod tests {
    use rdma::{Key, SendFlags, Sge};

    use super::*;

    fn send(sges: usize, inline: Option<&[u8]>) -> u64 {
        let pieces = vec![Sge { address: 0, length: 64, l_key: Key(0) }; sges];
        let operation = Operation::Send { immediate: None, address: None };
        let (id, flags) = (0, SendFlags::NONE);
        wqe_bytes(&WorkRequest { id, operation, flags, sges: &pieces, inline })
    }

    #[test]
    fn an_entry_takes_whole_blocks() {
        assert_eq!((send(1, None), send(3, None), send(4, None)), (64, 64, 128));
        // 16 + 32 x 16 = 528 bytes.
        assert_eq!((send(31, None), send(32, None)), (512, 576));
        assert_eq!((send(0, Some(&[0; 44])), send(0, Some(&[0; 45]))), (64, 128));
    }

    #[test]
    fn the_second_block_of_512_bytes_is_a_second_read() {
        assert_eq!([64, 512, 513, 576, 1_025].map(|bytes| fetches(bytes, 512)), [1, 1, 2, 2, 3]);
    }
}
