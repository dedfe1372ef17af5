//! What probes say, in the first bytes of their payload:
//!
//! ```text
//!    0  "FPM1"
//!    4  kind: 1 probe, 2 answer, 3 report
//!    6  number of the flow label that it carries, and its answer is to carry
//!    8  sequence, the prober's
//!   16  report: T4 - T3 in nanoseconds
//! ```
//!
//! ```text
//!   prober                                          responder
//!   T1 post ─► T2 left ───────── probe ───────────► T3 arrived
//!                                                    │ its processor
//!   T6 seen ◄─ T5 arrived ◄───── answer ─────────── T4 left
//!                         ◄───── report: T4 - T3 ──
//! ```
//!
//! T4 is known when the answer has left, so it comes in a message of its own (R-Pingmesh, 4.1).

use rdma::Span;
use rdma::app::LABELS_MAX;

/// What is read of a message, and what a report is long.
pub(super) const HEAD: usize = 24;
const MAGIC: [u8; 4] = *b"FPM1";

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Probe,
    Answer,
    Report {
        /// T4 - T3.
        delay: Span,
    },
}

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Message {
    pub(super) kind: Kind,
    pub(super) label: u16,
    pub(super) sequence: u64,
}

impl Message {
    pub(super) fn emit(&self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..4].copy_from_slice(&MAGIC);
        let (kind, delay) = match self.kind {
            Kind::Probe => (1, Span::ZERO),
            Kind::Answer => (2, Span::ZERO),
            Kind::Report { delay } => (3, delay),
        };
        bytes[4] = kind;
        bytes[6..8].copy_from_slice(&self.label.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[16..].copy_from_slice(&(delay.as_ps() / 1_000).to_be_bytes());
        bytes
    }

    /// `None` if it is none of ours.
    pub(super) fn parse(bytes: &[u8; HEAD]) -> Option<Self> {
        let (magic, rest) = bytes.split_first_chunk::<4>()?;
        let [kind, _, a, b] = *rest.first_chunk::<4>()?;
        let number =
            |from: usize| bytes.get(from..from + 8)?.try_into().ok().map(u64::from_be_bytes);
        let label = u16::from_be_bytes([a, b]);
        if *magic != MAGIC || label >= LABELS_MAX {
            return None;
        }
        let kind = match kind {
            1 => Kind::Probe,
            2 => Kind::Answer,
            3 => Kind::Report { delay: Span::from_ps(number(16)?.checked_mul(1_000)?) },
            _ => return None,
        };
        Some(Self { kind, label, sequence: number(8)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood_and_nothing_else() {
        let delay = Span::from_ns(70_000);
        for kind in [Kind::Probe, Kind::Answer, Kind::Report { delay }] {
            let message = Message { kind, label: 5, sequence: 1 << 40 };
            assert_eq!(Message::parse(&message.emit()), Some(message));
        }
        let good = Message { kind: Kind::Report { delay }, label: 63, sequence: 7 }.emit();
        for (at, byte) in [(0, b'X'), (4, 0), (4, 4), (7, 64), (16, 0xff)] {
            let mut wrong = good;
            wrong[at] = byte;
            assert_eq!(Message::parse(&wrong), None, "byte {at}");
        }
    }
}
