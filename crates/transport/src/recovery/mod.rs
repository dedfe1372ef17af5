//! What is sent again after a loss.
//!
//! ```text
//!   packets     1 2 3 4 5 6, of which 3 is lost; a message began with 1
//!   go-back-0   sends 1 2 3 4 5 6 again       the responder forgets 1 2
//!   go-back-N   sends     3 4 5 6 again       the responder keeps 1 2
//! ```
//!
//! A strategy only decides. Going back is done by the completer, and what a hole in the sequence
//! leads to by the responder; both ask it when something is lost, and never for each packet.

mod go_back_0;
mod go_back_n;

use rdma::Psn;

use go_back_0::GoBack0;
use go_back_n::GoBackN;

/// What the two ends of a connection agree on about losses.
pub(crate) trait Strategy {
    /// Where to resume when `lost` is missing in the message that begins at `message_start`: the
    /// requester sends from there, the responder expects from there.
    fn resume_at(&self, message_start: Psn, lost: Psn) -> Psn;
}

/// The strategy of a device, at both ends of its connections.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Recovery {
    /// Everything from the lost packet on (IBTA vol 1, 9.7.5.1).
    #[default]
    GoBackN,
    /// The whole message that the lost packet belongs to: the requester begins it anew, and the
    /// responder forgets what it had of it. Early RoCE NICs did this, and one packet lost in 256
    /// is enough to deliver no message of 4 MB ever (guo16, 4.1).
    GoBack0,
}

impl Strategy for Recovery {
    fn resume_at(&self, message_start: Psn, lost: Psn) -> Psn {
        match self {
            Self::GoBackN => GoBackN.resume_at(message_start, lost),
            Self::GoBack0 => GoBack0.resume_at(message_start, lost),
        }
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
    }
}
