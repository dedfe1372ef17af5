//! How often each fault struck and each operation was posted.
//!
//! A fault that is planned and never strikes, or an operation that nothing posts, proves nothing.
//! So both are counted where they happen, `cargo xtask storm` prints the counts, and a test asks
//! that none is zero.

macro_rules! counted {
    ($($name:ident => $text:literal,)*) => {
        /// Something that is counted.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(super) enum Seen { $($name,)* }

        const NAMES: &[&str] = &[$($text,)*];
    };
}

counted! {
    Loss => "lost",
    Burst => "lost in a burst",
    CorruptBit => "corrupted in a bit, and refused for the ICRC",
    CorruptBurst => "corrupted in a burst of bits, and refused for the ICRC",
    CorruptWords => "corrupted in whole words, and refused for the ICRC",
    Duplication => "duplicated",
    Reordering => "held back by a reordering network",
    Overtaking => "overtaken",
    Partition => "lost in a one-way partition",
    TooLong => "too long for a path that has become narrower",
    InParts => "parts of packets that are too long for their path",
    Stop => "nodes stopped",
    StoppedOverflow => "lost at a stopped node",
    Slow => "nodes slowed down",
    Slowed => "taken late by a slow node",
    SlowOverflow => "lost at a slow node",
    Setback => "clocks turned back",
    Wait => "calls with the time of an earlier moment",
    Misdelivery => "given to another engine, and late to its own",
    MisdeliveryLoss => "given to another engine alone",
    PutOff => "timeouts put off by the driver",
    Mark => "marked for congestion",
    Notification => "notifications of congestion",
    LateReceive => "receives posted late",
    BreakError => "queue pairs moved to ERROR by their owner",
    BreakReset => "queue pairs moved to RESET by their owner",
    Reset => "links reset and connected anew",
    Replacement => "queue pairs replaced by new ones",
    Deregistration => "regions freed under a request",
    Reregistration => "regions registered anew under a request",
    SameRegistration => "regions registered as they were",
    Unmapping => "memory unmapped under a request",
    TransmitFault => "packets whose payload was unmapped",
    Drain => "send queues stopped",
    Drained => "send queues that said when they were drained",
    Resume => "send queues set going when drained",
    ResumeEarly => "send queues set going before",
    Recover => "send queues set going after SQE",
    Unfit => "messages in packets of another MTU",
    Arm => "completion queues armed",
    ArmSolicited => "completion queues armed for solicited completions",
    Notified => "events of armed completion queues",
    Sleep => "completion queues that nobody looks at",
    Overrun => "completion queues overrun",
    Resize => "completion queues resized",
    ResizeRefused => "completion queues that hold more than they were to",
    SrqLimitSet => "limits of shared receive queues set",
    SrqLimit => "limits of shared receive queues reached",
    ForgedSource => "forged: from another address",
    ForgedTransport => "forged: of another transport",
    ForgedPartition => "forged: of another partition",
    ForgedQKey => "forged: with another Q_Key",
    ForgedQpn => "forged: for no queue pair",
    ForgedState => "forged: for a queue pair that takes nothing",
    ForgedAnswer => "forged: answers to what was not asked",
    ForgedAhead => "forged: requests ahead of the window",
    ForgedBehind => "forged: requests behind the window",
    TrespassDomain => "R_Keys of another protection domain",
    TrespassBounds => "requests beyond their region",
    TrespassRights => "requests without the right",
    TrespassKey => "R_Keys with another tag",
    WindowBounds => "requests beyond their window",
    WindowRights => "requests for which their window has no right",
    WindowOwner => "windows of another queue pair",
    WindowStale => "keys of windows that are gone",
    InvalidateForeign => "SENDs that invalidate what they must not",
    Misbind => "binds and invalidations that must fail",
    WindowBind1 => "windows of type 1 bound",
    WindowBind2 => "windows of type 2 bound",
    WindowRebind => "windows of type 1 bound once more",
    WindowUnbind => "windows of type 1 unbound",
    WindowInvalidate => "windows of type 2 invalidated by their owner",
    WindowFree => "windows freed, whoever used them",
    ThroughWindow => "requests through a window",
    ThroughWindowOfAnother => "requests through a window that another connection bound",
    RcSend => "RC SEND",
    RcSendImmediate => "RC SEND with immediate",
    RcSendInvalidate => "RC SEND with invalidate",
    RcWrite => "RC WRITE",
    RcWriteImmediate => "RC WRITE with immediate",
    RcRead => "RC READ",
    RcCompareSwap => "RC compare and swap",
    RcFetchAdd => "RC fetch and add",
    RcAtomicWrite => "RC ATOMIC WRITE",
    RcBind => "RC bind",
    RcLocalInvalidate => "RC local invalidate",
    UcSend => "UC SEND",
    UcSendImmediate => "UC SEND with immediate",
    UcWrite => "UC WRITE",
    UcWriteImmediate => "UC WRITE with immediate",
    UcBind => "UC bind",
    UcLocalInvalidate => "UC local invalidate",
    UdSend => "UD SEND",
    UdSendImmediate => "UD SEND with immediate",
    Inline => "inline",
    Fenced => "fenced",
    FenceNeeded => "fenced, and sends what a READ brings",
    Unsignalled => "unsignalled",
    Solicited => "solicited",
    SharedReceive => "receives of a shared queue",
}

/// The counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tally([u64; NAMES.len()]);

impl Default for Tally {
    fn default() -> Self {
        Self([0; NAMES.len()])
    }
}

impl Tally {
    pub(super) fn count(&mut self, seen: Seen) {
        self.0[seen as usize] += 1;
    }

    /// Takes over the counts of another.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count += more;
        }
    }

    /// What was counted, and how often.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        NAMES.iter().copied().zip(self.0)
    }
}
