//! Enhanced Connection Establishment: `ibv_query_ece` and `ibv_set_ece`, by which applications agree
//! on what two NICs of one vendor can do beyond the standard.
//!
//! Each side tells the other what its queue pair offers, and sets what both do before the queue pair
//! leaves INIT. There is one option: selective repeat of what is lost. A device that does not
//! offer it (`FERROCE_RECOVERY`) has no options at all, and answers `EOPNOTSUPP`.

use core::sync::atomic::{AtomicU32, Ordering};

use rdma::QpState;
use transport::QpChange;

/// Lost packets alone are sent again.
const SELECTIVE_REPEAT: u32 = 1;

/// What a queue pair has agreed on.
#[derive(Debug)]
pub(super) struct Ece(AtomicU32);

impl Default for Ece {
    fn default() -> Self {
        Self(AtomicU32::new(Self::OPEN))
    }
}

impl Ece {
    /// Nothing has been agreed yet.
    const OPEN: u32 = u32::MAX;

    /// What was agreed, or what is offered if nothing was.
    pub(super) fn options(&self) -> u32 {
        match self.0.load(Ordering::Relaxed) {
            Self::OPEN => SELECTIVE_REPEAT,
            agreed => agreed,
        }
    }

    /// Agrees to what the peer offers, as far as it is offered here.
    pub(super) fn agree(&self, options: u32) {
        self.0.store(options & SELECTIVE_REPEAT, Ordering::Relaxed);
    }

    /// Adds what was agreed to a change to RTR, and forgets it with one to RESET.
    pub(super) fn complete(&self, change: &mut QpChange) {
        match change.state {
            Some(QpState::Rtr) => {
                let agreed = self.0.load(Ordering::Relaxed);
                if agreed != Self::OPEN {
                    change.selective_repeat = Some(agreed & SELECTIVE_REPEAT != 0);
                }
            }
            Some(QpState::Reset) => self.0.store(Self::OPEN, Ordering::Relaxed),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_agreed_is_said_on_the_way_to_rtr_and_forgotten_in_reset() {
        let ece = Ece::default();
        let change = |state| {
            let mut change = QpChange::to(state);
            ece.complete(&mut change);
            change.selective_repeat
        };
        assert_eq!(ece.options(), SELECTIVE_REPEAT, "offered");
        assert_eq!(change(QpState::Rtr), None, "nothing was agreed");
        for options in [SELECTIVE_REPEAT, 0] {
            ece.agree(options);
            assert_eq!(ece.options(), options);
            assert_eq!(change(QpState::Init), None);
            assert_eq!(change(QpState::Rtr), Some(options != 0));
        }
        assert_eq!(change(QpState::Reset), None);
        assert_eq!(change(QpState::Rtr), None);
    }
}
