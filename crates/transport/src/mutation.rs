//! Rules of the protocol that can be broken on purpose, to show that the storm would see it.
//!
//! Only the tests of this crate can switch one on. In every other build [`mutated`] is a constant,
//! and the call sites compile to what they would be without it.

macro_rules! mutations {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A rule, as it is when broken.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Mutation { $($(#[$doc])* $name,)* }

        #[cfg(test)]
        impl Mutation {
            pub(crate) const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

mutations! {
    /// PSNs are compared as numbers, not on the circle.
    PsnComparedAsNumber,
    /// A request that is ahead of what is expected is executed.
    HoleAccepted,
    /// A request that was executed is executed again.
    DuplicateExecuted,
    /// A UC message goes on after a hole.
    HoleOfUcIgnored,
    /// The original value of an atomic is not kept for a duplicate.
    AtomicForgotten,
    /// Fewer answers are kept for duplicates than may be outstanding.
    AnswersForgotten,
    /// Immediate data does not reach the completion.
    ImmediateDropped,
    /// Nor does the solicited bit.
    SolicitedDropped,
    /// The peer is not told why it is refused.
    RefusalUnsaid,
    /// A message that found no receive is passed over.
    NotReadyPassedOver,
    /// An acknowledgement is taken for one packet more.
    AckCoversNext,
    /// A READ is taken for done when something after it is acknowledged.
    ImpliedNakIgnored,
    /// After a loss, the lost packet itself is not sent again.
    GoBackTooShort,
    /// Retries are not counted.
    RetriesUncounted,
    /// An RNR NAK is taken for an acknowledgement of the packet that it refuses.
    RnrAcknowledges,
    /// No timer runs for packets sent.
    AckTimerForgotten,
    /// A fenced request does not wait.
    FenceIgnored,
    /// Requests that are not signalled complete visibly.
    UnsignalledCompletes,
    /// Requests that are not signalled are not flushed visibly.
    FlushHidesUnsignalled,
    /// More READs and atomics are outstanding than agreed.
    RdAtomicsUnlimited,
    /// A key reaches beyond its region.
    BoundsIgnored,
    /// A key gives rights that its region does not.
    RightsIgnored,
    /// A key is of use in another protection domain.
    DomainIgnored,
    /// The tag of a key is not compared.
    TagIgnored,
    /// Translations outlive their region.
    EpochStands,
    /// The newest completion is polled first.
    CompletionsReversed,
    /// The newest receive is taken first.
    ReceivesReversed,
    /// A window's key reaches beyond it.
    WindowBoundsIgnored,
    /// A window gives rights that it was not bound with.
    WindowRightsIgnored,
    /// A window of type 2 is of use to another queue pair.
    WindowOwnerIgnored,
    /// A window is bound to a region that does not allow it.
    BindRightIgnored,
    /// A window that is invalidated stays bound.
    InvalidationForgotten,
    /// The receiver is not told which key was invalidated.
    InvalidatedUnsaid,
    /// Packets are kept before their turn without bounds.
    OutOfOrderUnbounded,
    /// What waits for its turn is taken for the next in turn.
    GapTakenForFilled,
    /// A READ that was executed is not asked again for the answers that are missing.
    AnswerNotAskedAgain,
    /// A send queue that is stopped begins requests.
    DrainIgnored,
    /// Nobody is told that a send queue is drained.
    DrainedUnsaid,
    /// A send queue is said to be drained while requests are under way.
    DrainedTooSoon,
    /// Packets are taken from anybody.
    SourceIgnored,
    /// Answers are taken to what was never asked.
    AnswerWindowIgnored,
    /// Packets are as long as they like.
    PacketLengthIgnored,
    /// A request whose payload cannot be read is sent again and again.
    FaultForgotten,
    /// A queue that is armed for solicited completions tells of every one.
    SolicitedTakenForAll,
    /// A queue that has told stays armed.
    ArmedForEver,
    /// Queue pairs go on when their completion queue is overrun.
    OverrunHarmless,
    /// Nobody is told that a shared receive queue runs low.
    LimitUnsaid,
    /// Each packet of a message is scattered from the beginning of the list.
    ScatterOffsetIgnored,
    /// Each mark is answered with a CNP of its own.
    NotificationsUnlimited,
    /// Data allows marks although nothing listens to them.
    MarksAllowedAlways,
    /// A queue pair is found by the lower bits of its number, whosever the upper ones are.
    OwnerBitsIgnored,
    /// What was earlier is taken to be so for ever: times are subtracted without a look.
    TimeNeverGoesBack,
}

/// Whether `mutation` is on.
#[cfg(not(test))]
pub(crate) const fn mutated(_: Mutation) -> bool {
    false
}

#[cfg(test)]
std::thread_local! {
    static ON: core::cell::Cell<Option<Mutation>> = const { core::cell::Cell::new(None) };
}

/// Whether `mutation` is on.
#[cfg(test)]
pub(crate) fn mutated(mutation: Mutation) -> bool {
    ON.get() == Some(mutation)
}

/// Switches `mutation` on in this thread, or all off.
#[cfg(test)]
pub(crate) fn mutate(mutation: Option<Mutation>) {
    ON.set(mutation);
}
