//! What programs send again: packets whose sequence number is not beyond what their queue pair has sent already.
//!
//! Requests and responses to one queue pair are numbered each by themselves. Acknowledgements carry no data, and are not
//! counted.

use std::collections::HashMap;

use rdma::Psn;
use wire::{ipv4, udp};

use crate::limits::{AGAIN_MAX, STREAMS_MAX};

/// Where the BTH begins.
const BTH: usize = ipv4::HEADER_LEN + udp::HEADER_LEN;

/// Who sends: the host, the destination's address and queue pair, and whether it responds.
type Stream = (u32, [u8; 4], u32, bool);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Again {
    last: HashMap<Stream, Psn>,
}

impl Again {
    /// Whether a packet that `host` sends was sent before.
    pub(crate) fn is_again(&mut self, host: u32, packet: &[u8]) -> bool {
        let Some(bth) = packet.get(BTH..BTH + wire::bth::LEN) else { return false };
        // RC and XRC have sequence numbers that repeat; the lower five bits are the operation.
        let (service, operation) = (bth[0] >> 5, bth[0] & 0x1f);
        let responds = match operation {
            0x11 | 0x12 => return false,
            operation => (0x0d..=0x10).contains(&operation),
        };
        if service != 0 && service != 5 {
            return false;
        }
        let word = |at: usize| u32::from_be_bytes([0, bth[at], bth[at + 1], bth[at + 2]]);
        let mut to = [0; 4];
        to.copy_from_slice(&packet[16..20]);
        let (stream, psn) = ((host, to, word(5), responds), Psn::new(word(9)));
        if self.last.len() >= STREAMS_MAX {
            self.last.clear();
        }
        let Some(last) = self.last.get_mut(&stream) else {
            self.last.insert(stream, psn);
            return false;
        };
        let behind = last.value().wrapping_sub(psn.value()) & 0x00ff_ffff;
        if behind < AGAIN_MAX {
            return true;
        }
        *last = psn;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(opcode: u8, qpn: u8, psn: u32) -> Vec<u8> {
        let mut bytes = vec![0; BTH + wire::bth::LEN];
        bytes[BTH] = opcode;
        bytes[BTH + 7] = qpn;
        bytes[BTH + 9..BTH + 12].copy_from_slice(&psn.to_be_bytes()[1..]);
        bytes
    }

    #[test]
    fn what_is_not_beyond_the_last_is_sent_again_each_queue_pair_and_direction_by_itself() {
        let mut again = Again::default();
        let sent = [
            (0x06, 1, 0x00ff_fffe, false),
            (0x07, 1, 0x00ff_ffff, false),
            (0x07, 1, 0, false),
            // Go-back-N from the last but one.
            (0x07, 1, 0x00ff_ffff, true),
            (0x07, 1, 0, true),
            (0x08, 1, 1, false),
            // Responses, another queue pair, datagrams, acknowledgements.
            (0x0e, 1, 0, false),
            (0x0e, 1, 0, true),
            (0x06, 2, 0, false),
            (0x64, 1, 0, false),
            (0x64, 1, 0, false),
            (0x11, 1, 0, false),
            (0x11, 1, 0, false),
            // A new conversation.
            (0x06, 1, 0x0080_0000, false),
            (0x07, 1, 0x0080_0001, false),
        ];
        for (opcode, qpn, psn, expected) in sent {
            assert_eq!(
                again.is_again(7, &packet(opcode, qpn, psn)),
                expected,
                "{opcode:x} {psn:x}"
            );
        }
        assert!(!again.is_again(7, &[]));
    }
}
