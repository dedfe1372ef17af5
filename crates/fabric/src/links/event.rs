//! Events: what happens to a port, or to the host or switch that has it. An event takes eight bytes, and
//! four while it is in a queue.

use crate::limits::ALL_PORTS_MAX;

/// What happens to a port, or to the host or switch that has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum EventKind {
    // The first three happen to a packet on its way.
    /// A packet arrives.
    Arrive,
    /// A pause frame arrives.
    ArrivePause,
    /// A pause frame is obeyed.
    Obey,
    /// A pause may be over; the argument is the priority.
    Expire,
    /// The port is free, and has something to send.
    Sent,
    /// Pauses are renewed.
    Renew,
    /// A host's NIC is done with the packet at the front of its receive buffer.
    Received,
    /// A host's NIC can make the next packet.
    Ready,
    /// A host's engine has a deadline.
    Timer,
    /// A host's TCP: the argument says of which connection, and what.
    Tcp,
    /// A flow of the host posts, for the first time or by the clock; the argument is the flow.
    Start,
    /// The NIC's watchdog looks.
    NicWatchdog,
    /// A switch's watchdog looks; the port is the switch's first.
    Watchdog,
    /// Something is due on a core of the host; the argument is the core.
    Core,
    /// A doorbell has rung at the host's NIC, or what it asked for has been read; the argument says which.
    Doorbell,
    /// A job's rank at the host begins or has computed: the argument says of which job, and what.
    Job,
}

impl EventKind {
    /// The kind of a number, of which there are sixteen.
    #[inline]
    const fn of(code: u8) -> Self {
        match code & 15 {
            0 => Self::Arrive,
            1 => Self::ArrivePause,
            2 => Self::Obey,
            3 => Self::Expire,
            4 => Self::Sent,
            5 => Self::Renew,
            6 => Self::Received,
            7 => Self::Ready,
            8 => Self::Timer,
            9 => Self::Tcp,
            10 => Self::Start,
            11 => Self::NicWatchdog,
            12 => Self::Watchdog,
            13 => Self::Core,
            14 => Self::Doorbell,
            _ => Self::Job,
        }
    }
}

const _: () = {
    let mut code = 0;
    while code < 16 {
        assert!(EventKind::of(code) as u8 == code, "kinds are numbered in their order");
        code += 1;
    }
};

/// An event in eight bytes: kind, port and argument, from the upper bits down.
///
/// Events of one time happen in the order of these bits ([`crate::events`]), and packets are numbered
/// differently when a network is divided differently. So what happens to one port at one time is told
/// apart by its kind, or by an argument that is no packet, or is the same: two frames never arrive by
/// one link at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Event(pub(super) u64);

const KIND_SHIFT: u32 = 60;
const PORT_SHIFT: u32 = 32;

impl Event {
    #[inline]
    pub(crate) fn new(kind: EventKind, port: u32, argument: u32) -> Self {
        debug_assert!(port < 1 << (KIND_SHIFT - PORT_SHIFT), "within the bounds of limits.rs");
        Self((kind as u64) << KIND_SHIFT | u64::from(port) << PORT_SHIFT | u64::from(argument))
    }

    #[inline]
    pub(crate) fn kind(self) -> EventKind {
        EventKind::of(self.code())
    }

    /// The port that it happens to.
    #[inline]
    pub(crate) fn port(self) -> u32 {
        (self.0 >> PORT_SHIFT) as u32 & ((1 << (KIND_SHIFT - PORT_SHIFT)) - 1)
    }

    /// A packet, a flow, or another small number.
    #[inline]
    pub(crate) fn argument(self) -> u32 {
        self.0 as u32
    }

    /// The event of a port without an argument, and its number.
    #[inline]
    pub(super) fn of_port(kind: EventKind, port: u32) -> (u32, Self) {
        (port << ARGUMENT_BITS, Self::new(kind, port, 0))
    }

    /// The event in four bytes, if they are enough: its packet, which says to which port it is on its way;
    /// or its port and, in the lower bits, its argument.
    #[inline]
    pub(super) fn number(self) -> Option<u32> {
        if is_of_packet(self.code()) {
            return Some(self.argument());
        }
        let argument = self.argument();
        (argument < 1 << ARGUMENT_BITS).then_some(self.port() << ARGUMENT_BITS | argument)
    }

    /// Its [`EventKind`] as a number.
    #[inline]
    pub(super) fn code(self) -> u8 {
        (self.0 >> KIND_SHIFT) as u8
    }

    /// The event of a kind that has this number; `port_of` knows where a packet is on its way to.
    #[inline]
    pub(super) fn of(kind: u8, number: u32, port_of: impl FnOnce(u32) -> u32) -> Self {
        let (port, argument) = if is_of_packet(kind) {
            (port_of(number), number)
        } else {
            (number >> ARGUMENT_BITS, number & ((1 << ARGUMENT_BITS) - 1))
        };
        Self(u64::from(kind) << KIND_SHIFT | u64::from(port) << PORT_SHIFT | u64::from(argument))
    }
}

/// Bits of an argument that leave room for a port in four bytes.
const ARGUMENT_BITS: u32 = 8;

/// Whether events of a kind are those of a packet on its way.
#[inline]
pub(super) fn is_of_packet(kind: u8) -> bool {
    kind <= EventKind::Obey as u8
}

const _: () = assert!(ALL_PORTS_MAX <= 1 << (32 - ARGUMENT_BITS));
