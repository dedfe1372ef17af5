//! The BTH opcodes, in table form (IBTA vol 1, table 38; XRC: annex A14; CNP: annex A17.9.3;
//! ATOMIC WRITE: release 1.5, annex A19).
//!
//! Everything that depends on an opcode (name, extended headers, whether there is a payload) is
//! derived from its row here, so no two places can disagree.

use core::fmt;

use crate::{parteth, saeth};

/// The transport service that an opcode belongs to: its upper three bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// Congestion notification, of no service.
    Cnp,
    /// Extended reliable connection.
    Xrc,
}

/// What a packet asks or answers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// SEND.
    Send,
    /// RDMA WRITE.
    Write,
    /// RDMA READ request.
    ReadRequest,
    /// RDMA READ response.
    ReadResponse,
    /// Acknowledge, positive or negative.
    Acknowledge,
    /// Negative acknowledge that lists what did arrive: between queue pairs with selective repeat.
    SelectiveAcknowledge,
    /// Tries whether the path takes a packet as long as this: between queue pairs with selective repeat.
    PathProbe,
    /// Its answer, as long.
    PathProbeAnswer,
    /// The answer to an atomic.
    AtomicAcknowledge,
    /// Compare and swap.
    CompareSwap,
    /// Fetch and add.
    FetchAdd,
    /// A WRITE of eight bytes that are seen all at once.
    AtomicWrite,
    /// Congestion notification.
    Cnp,
}

/// Where in its message a packet stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Part {
    /// The first of several.
    First,
    /// Neither first nor last.
    Middle,
    /// The last of several.
    Last,
    /// The only one.
    Only,
}

impl Part {
    /// Which part packet `index` of `count` is.
    pub const fn of(index: u32, count: u32) -> Self {
        match (index == 0, index + 1 >= count) {
            (true, true) => Self::Only,
            (true, false) => Self::First,
            (false, true) => Self::Last,
            (false, false) => Self::Middle,
        }
    }

    /// Whether a message begins here.
    pub const fn begins(self) -> bool {
        matches!(self, Self::First | Self::Only)
    }

    /// Whether a message ends here.
    pub const fn ends(self) -> bool {
        matches!(self, Self::Last | Self::Only)
    }
}

/// What a SEND or WRITE carries beside its data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Attach {
    /// Nothing.
    Nothing,
    /// Immediate data.
    Immediate,
    /// A key to invalidate.
    Invalidate,
}

/// The extended headers of an opcode. A type of its own, so that it is never tested against
/// anything but headers. Its bits are in wire order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Headers(u16);

impl Headers {
    /// None.
    pub const NONE: Self = Self(0);
    /// XRC extended transport header.
    pub const XRCETH: Self = Self(1);
    /// Datagram extended transport header.
    pub const DETH: Self = Self(1 << 1);
    /// RDMA extended transport header.
    pub const RETH: Self = Self(1 << 2);
    /// Atomic extended transport header.
    pub const ATOMIC_ETH: Self = Self(1 << 3);
    /// Acknowledge extended transport header.
    pub const AETH: Self = Self(1 << 4);
    /// Selective acknowledge extended header.
    pub const SAETH: Self = Self(1 << 5);
    /// Atomic acknowledge extended transport header.
    pub const ATOMIC_ACK_ETH: Self = Self(1 << 6);
    /// Immediate data.
    pub const IMMDT: Self = Self(1 << 7);
    /// Invalidate extended transport header.
    pub const IETH: Self = Self(1 << 8);
    /// Part extended header.
    pub const PARTETH: Self = Self(1 << 9);

    /// Each header with its length in bytes, in wire order.
    const LENGTHS: [(Self, usize); 10] = [
        (Self::XRCETH, 4),
        (Self::DETH, 8),
        (Self::RETH, 16),
        (Self::ATOMIC_ETH, 28),
        (Self::AETH, 4),
        (Self::SAETH, saeth::LEN),
        (Self::ATOMIC_ACK_ETH, 8),
        (Self::IMMDT, 4),
        (Self::IETH, 4),
        (Self::PARTETH, parteth::LEN),
    ];

    /// Both sets together.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether `header` is among them.
    pub const fn has(self, header: Self) -> bool {
        self.0 & header.0 == header.0
    }

    /// Each of them, in wire order.
    pub fn each(self) -> impl Iterator<Item = Self> {
        let mut left = self.0;
        core::iter::from_fn(move || {
            let first = left & left.wrapping_neg();
            left ^= first;
            (first != 0).then_some(Self(first))
        })
    }

    /// Their length in bytes.
    pub const fn len(self) -> usize {
        let mut total = 0;
        let mut index = 0;
        while index < Self::LENGTHS.len() {
            let (header, length) = Self::LENGTHS[index];
            if self.has(header) {
                total += length;
            }
            index += 1;
        }
        total
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// What is true of an opcode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Its transport service.
    pub service: Service,
    /// What it asks or answers.
    pub operation: Operation,
    /// Where in its message.
    pub part: Part,
    /// What comes with the data.
    pub attach: Attach,
    /// The headers after the BTH.
    pub headers: Headers,
    /// The length of those headers in bytes.
    pub headers_len: usize,
    /// Whether payload may follow.
    pub payload: bool,
}

impl Facts {
    /// Whether it goes from requester to responder.
    pub const fn is_request(&self) -> bool {
        is_request(self.operation)
    }
}

/// A BTH opcode that is in the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Opcode(u8);

const fn row(
    service: Service,
    operation: Operation,
    part: Part,
    attach: Attach,
    headers: Headers,
) -> Option<Facts> {
    let headers = match service {
        Service::Ud => headers.and(Headers::DETH),
        // Requests of XRC name the shared receive queue; its responses do not (annex A14.3.2).
        Service::Xrc if is_request(operation) => headers.and(Headers::XRCETH),
        _ => headers,
    };
    let headers = match attach {
        Attach::Nothing => headers,
        Attach::Immediate => headers.and(Headers::IMMDT),
        Attach::Invalidate => headers.and(Headers::IETH),
    };
    let payload = matches!(
        operation,
        Operation::Send
            | Operation::Write
            | Operation::ReadResponse
            | Operation::AtomicWrite
            | Operation::PathProbe
            | Operation::PathProbeAnswer
    );
    let headers_len = headers.len();
    Some(Facts { service, operation, part, attach, headers, headers_len, payload })
}

const fn is_request(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::Send
            | Operation::Write
            | Operation::ReadRequest
            | Operation::CompareSwap
            | Operation::FetchAdd
            | Operation::AtomicWrite
            | Operation::PathProbe
    )
}

const fn selective(service: Service) -> Option<Facts> {
    let headers = Headers::AETH.and(Headers::SAETH);
    row(service, Operation::SelectiveAcknowledge, Part::Only, Attach::Nothing, headers)
}

const fn path_probe(operation: Operation) -> Option<Facts> {
    row(Service::Rc, operation, Part::Only, Attach::Nothing, Headers::NONE)
}

/// A part of an RC packet that carries data, by the low five bits of the packet's opcode.
const fn part(code: u8) -> Option<Facts> {
    match connected(Service::Rc, code) {
        Some(whole)
            if matches!(
                whole.operation,
                Operation::Send | Operation::Write | Operation::ReadResponse
            ) =>
        {
            let headers = whole.headers.and(Headers::PARTETH);
            Some(Facts { headers, headers_len: headers.len(), ..whole })
        }
        _ => None,
    }
}

/// The opcodes of a connected service, by their low five bits.
const fn connected(service: Service, code: u8) -> Option<Facts> {
    use Attach::{Immediate, Invalidate, Nothing};
    use Headers as H;
    use Operation as O;
    use Part::{First, Last, Middle, Only};
    let reliable = matches!(service, Service::Rc | Service::Xrc);
    match code {
        0x00 => row(service, O::Send, First, Nothing, H::NONE),
        0x01 => row(service, O::Send, Middle, Nothing, H::NONE),
        0x02 => row(service, O::Send, Last, Nothing, H::NONE),
        0x03 => row(service, O::Send, Last, Immediate, H::NONE),
        0x04 => row(service, O::Send, Only, Nothing, H::NONE),
        0x05 => row(service, O::Send, Only, Immediate, H::NONE),
        0x06 => row(service, O::Write, First, Nothing, H::RETH),
        0x07 => row(service, O::Write, Middle, Nothing, H::NONE),
        0x08 => row(service, O::Write, Last, Nothing, H::NONE),
        0x09 => row(service, O::Write, Last, Immediate, H::NONE),
        0x0a => row(service, O::Write, Only, Nothing, H::RETH),
        0x0b => row(service, O::Write, Only, Immediate, H::RETH),
        _ if !reliable => None,
        0x0c => row(service, O::ReadRequest, Only, Nothing, H::RETH),
        0x0d => row(service, O::ReadResponse, First, Nothing, H::AETH),
        0x0e => row(service, O::ReadResponse, Middle, Nothing, H::NONE),
        0x0f => row(service, O::ReadResponse, Last, Nothing, H::AETH),
        0x10 => row(service, O::ReadResponse, Only, Nothing, H::AETH),
        0x11 => row(service, O::Acknowledge, Only, Nothing, H::AETH),
        0x12 => row(service, O::AtomicAcknowledge, Only, Nothing, H::AETH.and(H::ATOMIC_ACK_ETH)),
        0x13 => row(service, O::CompareSwap, Only, Nothing, H::ATOMIC_ETH),
        0x14 => row(service, O::FetchAdd, Only, Nothing, H::ATOMIC_ETH),
        0x16 => row(service, O::Send, Last, Invalidate, H::NONE),
        0x17 => row(service, O::Send, Only, Invalidate, H::NONE),
        0x1d if matches!(service, Service::Rc) => {
            row(service, O::AtomicWrite, Only, Nothing, H::RETH)
        }
        _ => None,
    }
}

/// The table: facts by code.
static TABLE: [Option<Facts>; 256] = {
    let mut table = [None; 256];
    let mut code: usize = 0;
    while code < 256 {
        let low = (code & 0x1f) as u8;
        table[code] = match code >> 5 {
            0 => connected(Service::Rc, low),
            1 => connected(Service::Uc, low),
            3 => match low {
                4 => row(Service::Ud, Operation::Send, Part::Only, Attach::Nothing, Headers::NONE),
                5 => {
                    row(Service::Ud, Operation::Send, Part::Only, Attach::Immediate, Headers::NONE)
                }
                _ => None,
            },
            4 if low == 1 => {
                row(Service::Cnp, Operation::Cnp, Part::Only, Attach::Nothing, Headers::NONE)
            }
            5 => connected(Service::Xrc, low),
            6 if low == 0x11 => selective(Service::Rc),
            6 if low == 0x12 => path_probe(Operation::PathProbe),
            6 if low == 0x13 => path_probe(Operation::PathProbeAnswer),
            6 => part(low),
            7 if low == 0x11 => selective(Service::Xrc),
            _ => None,
        };
        code += 1;
    }
    table
};

/// Added to the opcode of an RC packet by its parts.
const PARTS: u8 = 0xc0;

impl Opcode {
    /// RC acknowledge.
    pub const RC_ACKNOWLEDGE: Self = Self(0x11);
    /// RC selective acknowledge, among the opcodes that are the manufacturer's.
    pub const RC_SELECTIVE_ACKNOWLEDGE: Self = Self(0xd1);
    /// XRC selective acknowledge, as well.
    pub const XRC_SELECTIVE_ACKNOWLEDGE: Self = Self(0xf1);
    /// RC path probe, as well.
    pub const RC_PATH_PROBE: Self = Self(0xd2);
    /// RC path probe answer, as well.
    pub const RC_PATH_PROBE_ANSWER: Self = Self(0xd3);
    /// RC atomic acknowledge.
    pub const RC_ATOMIC_ACKNOWLEDGE: Self = Self(0x12);
    /// RC READ request.
    pub const RC_READ_REQUEST: Self = Self(0x0c);
    /// RC compare and swap.
    pub const RC_COMPARE_SWAP: Self = Self(0x13);
    /// RC fetch and add.
    pub const RC_FETCH_ADD: Self = Self(0x14);
    /// RC ATOMIC WRITE.
    pub const RC_ATOMIC_WRITE: Self = Self(0x1d);
    /// UD SEND only.
    pub const UD_SEND_ONLY: Self = Self(0x64);
    /// UD SEND only with immediate data.
    pub const UD_SEND_ONLY_IMMEDIATE: Self = Self(0x65);
    /// RoCEv2 congestion notification packet.
    pub const CNP: Self = Self(0x81);

    /// The opcode with `code`, if it is in the table.
    pub fn from_code(code: u8) -> Option<Self> {
        TABLE[usize::from(code)].is_some().then_some(Self(code))
    }

    /// Every opcode of the table.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..=u8::MAX).filter_map(Self::from_code)
    }

    /// The SEND of `service` for `part` of a message. Immediate data and invalidation are carried
    /// by the last packet, so `attach` counts only there. UD has one packet a message, and UC and
    /// UD do not invalidate: for them the nearest opcode that exists is returned.
    pub fn send(service: Service, part: Part, attach: Attach) -> Self {
        let low = match (part, attach) {
            _ if service == Service::Ud => {
                return Self(0x64 + u8::from(attach == Attach::Immediate));
            }
            (Part::First, _) => 0x00,
            (Part::Middle, _) => 0x01,
            (Part::Last, Attach::Nothing) => 0x02,
            (Part::Last, Attach::Immediate) => 0x03,
            (Part::Last, Attach::Invalidate) => 0x16,
            (Part::Only, Attach::Nothing) => 0x04,
            (Part::Only, Attach::Immediate) => 0x05,
            (Part::Only, Attach::Invalidate) => 0x17,
        };
        Self(Self::base(service) | low)
    }

    /// The RDMA WRITE of a connected `service` for `part` of a message.
    pub fn write(service: Service, part: Part, immediate: bool) -> Self {
        let low = match (part, immediate) {
            (Part::First, _) => 0x06,
            (Part::Middle, _) => 0x07,
            (Part::Last, false) => 0x08,
            (Part::Last, true) => 0x09,
            (Part::Only, false) => 0x0a,
            (Part::Only, true) => 0x0b,
        };
        Self(Self::base(service) | low)
    }

    /// The RC READ response for `part` of it.
    pub fn read_response(part: Part) -> Self {
        Self(match part {
            Part::First => 0x0d,
            Part::Middle => 0x0e,
            Part::Last => 0x0f,
            Part::Only => 0x10,
        })
    }

    /// The opcode that means the same in another connected service; itself if that has none.
    #[must_use]
    pub fn in_service(self, service: Service) -> Self {
        Self::from_code(Self::base(service) | self.0 & 0x1f).unwrap_or(self)
    }

    /// That of a part of such a packet, among the opcodes that are the manufacturer's; itself if it has none.
    #[must_use]
    pub fn part(self) -> Self {
        let is_rc = self.facts().service == Service::Rc;
        Self::from_code(PARTS | self.0).filter(|part| is_rc && part.is_part()).unwrap_or(self)
    }

    /// That of the packet which this is a part of; itself if it is none.
    #[must_use]
    pub fn whole(self) -> Self {
        if self.is_part() { Self(self.0 & !PARTS) } else { self }
    }

    fn is_part(self) -> bool {
        self.facts().headers.has(Headers::PARTETH)
    }

    const fn base(service: Service) -> u8 {
        match service {
            Service::Rc => 0x00,
            Service::Uc => 0x20,
            Service::Ud => 0x60,
            Service::Cnp => 0x80,
            Service::Xrc => 0xa0,
        }
    }

    /// The eight bits on the wire.
    pub const fn code(self) -> u8 {
        self.0
    }

    /// Its row.
    pub fn facts(self) -> &'static Facts {
        TABLE[usize::from(self.0)].as_ref().expect("an Opcode is made from a row of the table")
    }

    /// Whether it goes from requester to responder.
    pub fn is_request(self) -> bool {
        self.facts().is_request()
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = self.facts();
        let service = match facts.service {
            Service::Rc => "RC ",
            Service::Uc => "UC ",
            Service::Ud => "UD ",
            Service::Xrc => "XRC ",
            Service::Cnp => "",
        };
        let operation = match facts.operation {
            Operation::Send => "SEND",
            Operation::Write => "RDMA WRITE",
            Operation::ReadRequest => "RDMA READ Request",
            Operation::ReadResponse => "RDMA READ response",
            Operation::Acknowledge => "Acknowledge",
            Operation::SelectiveAcknowledge => "Selective Acknowledge",
            Operation::PathProbe => "Path Probe",
            Operation::PathProbeAnswer => "Path Probe Answer",
            Operation::AtomicAcknowledge => "ATOMIC Acknowledge",
            Operation::CompareSwap => "CmpSwap",
            Operation::FetchAdd => "FetchAdd",
            Operation::AtomicWrite => "ATOMIC WRITE",
            Operation::Cnp => "CNP",
        };
        write!(f, "{service}{operation}")?;
        if facts.payload {
            write!(f, " {:?}", facts.part)?;
        }
        f.write_str(match facts.attach {
            Attach::Nothing => "",
            Attach::Immediate => " with Immediate",
            Attach::Invalidate => " with Invalidate",
        })?;
        f.write_str(if self.is_part() { ", in part" } else { "" })
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opcode({:#04x} {self})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;
    use std::string::ToString;

    #[test]
    fn constructors_agree_with_the_table() {
        for service in [Service::Rc, Service::Uc] {
            for part in [Part::First, Part::Middle, Part::Last, Part::Only] {
                for attach in [Attach::Nothing, Attach::Immediate] {
                    let facts = *Opcode::send(service, part, attach).facts();
                    assert_eq!(
                        (facts.service, facts.operation, facts.part),
                        (service, Operation::Send, part)
                    );
                    assert_eq!(
                        facts.attach == Attach::Immediate,
                        part.ends() && attach == Attach::Immediate
                    );
                    let facts = *Opcode::write(service, part, attach == Attach::Immediate).facts();
                    assert_eq!(
                        (facts.service, facts.operation, facts.part),
                        (service, Operation::Write, part)
                    );
                    assert_eq!(facts.headers.has(Headers::RETH), part.begins());
                }
            }
        }
        for part in [Part::First, Part::Middle, Part::Last, Part::Only] {
            let facts = Opcode::read_response(part).facts();
            assert_eq!((facts.operation, facts.part), (Operation::ReadResponse, part));
            assert_eq!(facts.headers.has(Headers::AETH), part != Part::Middle);
        }
    }

    #[test]
    fn named_constants_are_what_they_say() {
        assert_eq!(Opcode::RC_ACKNOWLEDGE.to_string(), "RC Acknowledge");
        assert_eq!(Opcode::RC_SELECTIVE_ACKNOWLEDGE.to_string(), "RC Selective Acknowledge");
        assert_eq!(Opcode::XRC_SELECTIVE_ACKNOWLEDGE.to_string(), "XRC Selective Acknowledge");
        assert_eq!(Opcode::RC_PATH_PROBE.to_string(), "RC Path Probe Only");
        assert_eq!(Opcode::RC_PATH_PROBE_ANSWER.to_string(), "RC Path Probe Answer Only");
        assert_eq!(Opcode::RC_ATOMIC_ACKNOWLEDGE.to_string(), "RC ATOMIC Acknowledge");
        assert_eq!(Opcode::RC_READ_REQUEST.to_string(), "RC RDMA READ Request");
        assert_eq!(Opcode::RC_COMPARE_SWAP.to_string(), "RC CmpSwap");
        assert_eq!(Opcode::RC_FETCH_ADD.to_string(), "RC FetchAdd");
        assert_eq!(Opcode::RC_ATOMIC_WRITE.to_string(), "RC ATOMIC WRITE Only");
        assert_eq!(Opcode::UD_SEND_ONLY.to_string(), "UD SEND Only");
        assert_eq!(Opcode::UD_SEND_ONLY_IMMEDIATE.to_string(), "UD SEND Only with Immediate");
        assert_eq!(Opcode::CNP.to_string(), "CNP");
    }

    #[test]
    fn what_carries_data_over_rc_may_leave_in_parts() {
        let middle = Opcode::write(Service::Rc, Part::Middle, false);
        assert_eq!(middle.part().to_string(), "RC RDMA WRITE Middle, in part");
        let mut parts = 0;
        for opcode in Opcode::all() {
            let part = opcode.part();
            assert_eq!(part.whole(), opcode.whole());
            if part == opcode {
                continue;
            }
            let (whole, part) = (opcode.facts(), part.facts());
            assert!(whole.payload && whole.service == Service::Rc, "{opcode}");
            assert_eq!((part.operation, part.part), (whole.operation, whole.part));
            assert_eq!(part.headers_len, whole.headers_len + parteth::LEN);
            parts += 1;
        }
        // Eight SENDs, six WRITEs and four READ responses.
        assert_eq!(parts, 18);
    }

    #[test]
    fn an_opcode_has_its_like_in_another_service() {
        let acknowledge = Opcode::RC_ACKNOWLEDGE.in_service(Service::Xrc);
        assert_eq!(acknowledge.to_string(), "XRC Acknowledge");
        assert!(!acknowledge.facts().headers.has(Headers::XRCETH), "answers name no queue");
        assert_eq!(Opcode::RC_READ_REQUEST.in_service(Service::Rc), Opcode::RC_READ_REQUEST);
        let unknown = Opcode::RC_ATOMIC_WRITE.in_service(Service::Xrc);
        assert_eq!(unknown, Opcode::RC_ATOMIC_WRITE, "not of XRC");
    }

    #[test]
    fn header_lengths_are_those_of_the_specification() {
        let len = |code| Opcode::from_code(code).map(|opcode| opcode.facts().headers_len);
        assert_eq!(len(0x0a), Some(16));
        assert_eq!(len(0x0b), Some(20));
        assert_eq!(len(0x12), Some(12));
        assert_eq!(len(0x13), Some(28));
        assert_eq!(len(0x1d), Some(16));
        assert_eq!(len(0x64), Some(8));
        assert_eq!(len(0x65), Some(12));
        assert_eq!(len(0xa4), Some(4));
        assert_eq!(len(0x2c), None, "UC has no READ");
        assert_eq!(len(0x15), None);
    }

    #[test]
    fn the_table_has_every_service_once() {
        // RC 24, XRC 23, UC 12, UD 2, CNP 1, and of the manufacturer's own four, and the parts of eighteen of RC.
        assert_eq!(Opcode::all().count(), 24 + 23 + 12 + 2 + 1 + 4 + 18);
        let mut names: std::vec::Vec<_> = Opcode::all().map(|opcode| format!("{opcode}")).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), Opcode::all().count());
    }
}
