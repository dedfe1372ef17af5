//! What is sent again after a loss.

use rdma::Psn;

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

impl Recovery {
    /// Where to resume when `lost` is missing in the message that begins at `message_start`.
    ///
    /// The requester sends from there; the responder expects from there.
    pub fn resume_at(self, message_start: Psn, lost: Psn) -> Psn {
        match self {
            Self::GoBackN => lost,
            Self::GoBack0 => message_start,
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
