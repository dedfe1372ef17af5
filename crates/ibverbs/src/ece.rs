//! Enhanced Connection Establishment: `ibv_query_ece` and `ibv_set_ece`, by which applications agree
//! on what two NICs of one vendor can do beyond the standard.
//!
//! Each side tells the other what its queue pair offers, and sets what both do before the queue pair
//! leaves INIT. There is one option: to repeat selectively what is lost. A device that does not
//! offer it (`FERROCE_RECOVERY`) has no options at all, and answers `EOPNOTSUPP`.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering};

use rdma::{QpState, QpType};
use transport::{QpChange, Recovery};

use crate::abi::{ibv_ece, ibv_qp};
use crate::context::VENDOR_ID;
use crate::errno::{Errno, status};
use crate::qp::Qp;
use crate::registry;

/// Lost packets alone are sent again.
const SELECTIVE_REPEAT: u32 = 1;

/// What a queue pair has agreed on.
#[derive(Debug)]
pub(crate) struct Ece(AtomicU32);

impl Default for Ece {
    fn default() -> Self {
        Self(AtomicU32::new(Self::OPEN))
    }
}

impl Ece {
    /// Nothing has been agreed yet.
    const OPEN: u32 = u32::MAX;

    /// What was agreed, or what is offered if nothing was.
    fn options(&self) -> u32 {
        match self.0.load(Ordering::Relaxed) {
            Self::OPEN => SELECTIVE_REPEAT,
            agreed => agreed,
        }
    }

    /// Adds what was agreed to a change to RTR, and forgets it with one to RESET.
    pub(crate) fn complete(&self, change: &mut QpChange) {
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

impl Qp {
    /// Whether there is anything to agree on.
    fn has_options(&self) -> bool {
        let offers = self
            .context
            .nic
            .with(|endpoint, _, _| endpoint.config().recovery == Recovery::SelectiveRepeat);
        offers && self.kind == QpType::Rc
    }
}

/// Tells what the queue pair offers; after [`ibv_set_ece`], what it does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int {
    status(registry::find::<Qp>(qp).and_then(|qp| {
        if !qp.has_options() {
            return Err(Errno::UNSUPPORTED);
        }
        // SAFETY: C passes a writable structure.
        let ece = unsafe { ece.as_mut() }.ok_or(Errno::INVALID)?;
        *ece = ibv_ece { vendor_id: VENDOR_ID, options: qp.ece.options(), comp_mask: 0 };
        Ok(())
    }))
}

/// Agrees to what the peer offers, as far as the queue pair has it. Options of another vendor, or
/// after INIT, are `EINVAL`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_set_ece(qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int {
    status(registry::find::<Qp>(qp).and_then(|qp| {
        if !qp.has_options() {
            return Err(Errno::UNSUPPORTED);
        }
        // SAFETY: C passes a readable structure.
        let ece = unsafe { ece.as_ref() }.ok_or(Errno::INVALID)?;
        let state = qp.context.nic.with(|endpoint, _, _| endpoint.query_qp(qp.qpn));
        let early = state.is_some_and(|qp| matches!(qp.state, QpState::Reset | QpState::Init));
        if ece.vendor_id != VENDOR_ID || ece.comp_mask != 0 || !early {
            return Err(Errno::INVALID);
        }
        qp.ece.0.store(ece.options & SELECTIVE_REPEAT, Ordering::Relaxed);
        Ok(())
    }))
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
            ece.0.store(options, Ordering::Relaxed);
            assert_eq!(ece.options(), options);
            assert_eq!(change(QpState::Init), None);
            assert_eq!(change(QpState::Rtr), Some(options != 0));
        }
        assert_eq!(change(QpState::Reset), None);
        assert_eq!(change(QpState::Rtr), None);
    }
}
