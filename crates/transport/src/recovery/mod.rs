//! What is sent again after a loss.
//!
//! ```text
//!   packets 1 2 3 4 5 6, of which 3 is lost; a message began with 1
//!
//!                       sent again      the responder
//!   go-back-0           1 2 3 4 5 6     forgets 1 2, drops 4 5 6
//!   go-back-N               3 4 5 6     keeps 1 2, drops 4 5 6
//!   selective repeat        3           keeps 1 2, and 4 5 6 until their turn comes
//! ```
//!
//! A strategy only decides, and only after a loss: packets in order never consult it. The completer
//! goes back, and the responder answers a gap. The memory of selective repeat is here:
//! [`ReorderBuffer`] keeps packets until their turn, and [`Scoreboard`] has what a requester knows
//! of packets behind a gap.
//!
//! **Selective repeat** (Mittal et al. 2018, 3): the responder keeps packets behind a gap and executes
//! them in order, so a peer cannot tell it from in-order delivery. It answers such packets, but those that
//! only go on with the last one and ask for nothing, with a NAK that lists what has arrived. The requester
//! likewise keeps responses behind a gap, and requests the missing ones. Two deviations from the paper:
//! nothing is placed in memory before its turn, and a requester whose timer expires forgets what it was
//! told about packets behind the gap. So a peer that lies, or that had to drop what it kept, costs one
//! timeout.
//!
//! Between hosts packets overtake each other, so those that were overtaken have a while to arrive before they
//! count as lost, and the last packet is repeated when nothing is heard, to learn what has become of it
//! ([`Patience`]; RFC 8985 does both for TCP).

mod patience;
mod reorder;
mod scoreboard;

use rdma::Psn;

pub(crate) use patience::Patience;
pub use reorder::OutOfOrder;
pub(crate) use reorder::ReorderBuffer;
pub(crate) use scoreboard::{Moment, Scoreboard};

/// How much one role of a queue pair may keep out of order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bounds {
    /// From the packet that is missing to the last that is kept.
    pub(crate) packets: u32,
    /// Payload.
    pub(crate) bytes: usize,
}

/// Declares the strategies, each with the name by which settings know it.
macro_rules! strategies {
    (
        $(#[$about:meta])*
        pub enum $strategy:ident {
            $( $(#[$doc:meta])* $variant:ident = $name:literal, )+
        }
    ) => {
        $(#[$about])*
        pub enum $strategy {
            $( $(#[$doc])* $variant, )+
        }

        impl $strategy {
            /// All of them.
            pub const ALL: [Self; [$($name),+].len()] = [$( Self::$variant ),+];

            /// What settings call it.
            pub const fn name(self) -> &'static str {
                match self {
                    $( Self::$variant => $name, )+
                }
            }
        }
    };
}

strategies! {
    /// The strategy of a device, at both ends of its connections.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub enum Recovery {
        /// The whole message that the lost packet belongs to: the requester begins it anew, and the
        /// responder forgets what it had of it. Early RoCE NICs did this. If one packet in 256 is lost,
        /// no message of 4 MB ever arrives (guo16, 4.1).
        GoBack0 = "go-back-0",
        /// Everything from the lost packet on (IBTA vol 1, 9.7.5.1).
        #[default]
        GoBackN = "go-back-n",
        /// The lost packet alone, as in IRN (Mittal et al. 2018, "Revisiting Network Support for
        /// RDMA"). Only between queue pairs that have agreed on it
        /// ([`crate::QpChange::selective_repeat`]); with others such a device goes back N.
        SelectiveRepeat = "selective-repeat",
    }
}

impl Recovery {
    /// Where to resume when `lost` is missing in the message that begins at `message_start`: the
    /// requester sends from there, the responder expects from there.
    pub(crate) fn resume_at(self, message_start: Psn, lost: Psn) -> Psn {
        if self == Self::GoBack0 { message_start } else { lost }
    }

    /// How much is kept out of order, if the device `offers` so much.
    pub(crate) fn bounds(self, offers: Bounds) -> Option<Bounds> {
        (self == Self::SelectiveRepeat).then_some(offers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_go_back_0_loses_what_had_arrived() {
        let (start, lost) = (Psn::new(0xff_fff0), Psn::new(5));
        assert_eq!(Recovery::GoBackN.resume_at(start, lost), lost);
        assert_eq!(Recovery::GoBack0.resume_at(start, lost), start);
        assert_eq!(Recovery::SelectiveRepeat.resume_at(start, lost), lost);
    }

    #[test]
    fn only_selective_repeat_keeps_what_comes_before_its_turn() {
        let offers = Bounds { packets: 16, bytes: 4096 };
        assert_eq!(Recovery::GoBackN.bounds(offers), None);
        assert_eq!(Recovery::GoBack0.bounds(offers), None);
        assert_eq!(Recovery::SelectiveRepeat.bounds(offers), Some(offers));
    }
}
