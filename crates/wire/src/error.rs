//! Why bytes are not the packet that they claim to be.

use core::fmt;

/// A malformation. Small and `Copy`, so that a receiver can count by cause and go on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Error {
    /// Fewer bytes than the headers need, or than a length field says.
    Truncated,
    /// A length field contradicts another, or the number of bytes there are.
    Length,
    /// A version field with a version that is not ours.
    Version,
    /// A checksum over headers is wrong.
    Checksum,
    /// The invariant CRC is wrong.
    Icrc,
    /// The BTH opcode is not in the table.
    Opcode,
    /// The pad count is larger than what there is to pad.
    Pad,
    /// A payload with an opcode that carries none.
    UnexpectedPayload,
    /// An Ethertype, IP protocol, port or hardware type that is not the one looked for.
    Protocol,
    /// An IP fragment, or IP options: RoCE has neither.
    Fragment,
    /// A capture file begins with no known magic, or a block is not as its type demands.
    Capture,
}

impl Error {
    /// Every cause, in the order of the counters.
    pub const ALL: [Self; 11] = [
        Self::Truncated,
        Self::Length,
        Self::Version,
        Self::Checksum,
        Self::Icrc,
        Self::Opcode,
        Self::Pad,
        Self::UnexpectedPayload,
        Self::Protocol,
        Self::Fragment,
        Self::Capture,
    ];
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "truncated",
            Self::Length => "contradictory length",
            Self::Version => "unknown version",
            Self::Checksum => "wrong header checksum",
            Self::Icrc => "wrong ICRC",
            Self::Opcode => "unknown opcode",
            Self::Pad => "more padding than payload",
            Self::UnexpectedPayload => "payload where the opcode has none",
            Self::Protocol => "another protocol",
            Self::Fragment => "fragment or options",
            Self::Capture => "malformed capture",
        })
    }
}

impl core::error::Error for Error {}
