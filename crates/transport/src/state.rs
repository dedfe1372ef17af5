//! The life of a queue pair, as one table (IBTA vol 1, 10.3.1 and 11.2.5.3, tables 91 and 92).
//!
//! ```text
//!            ┌──────► INIT ──► RTR ──► RTS ◄──► SQD
//!   RESET ───┤         ▲─┘              ▲ └────► SQD ─┘ (draining, drained)
//!     ▲      │                          └─ SQE (UC, UD)
//!     └──────┴── from every state, as does ERROR
//! ```

use rdma::{QpState, QpType};

use crate::ModifyError;
use crate::attributes::QpChange;
use crate::mask::Mask;

/// What one transition takes.
struct Transition {
    from: QpState,
    to: QpState,
    required: fn(QpType) -> Mask,
    optional: fn(QpType) -> Mask,
}

const PATHS: Mask = Mask::ALTERNATE_PATH.union(Mask::PATH_MIGRATION);
const CONNECTED_INIT: Mask = Mask::PKEY_INDEX.union(Mask::PORT).union(Mask::ACCESS);
const DATAGRAM_INIT: Mask = Mask::PKEY_INDEX.union(Mask::PORT).union(Mask::QKEY);

fn none(_: QpType) -> Mask {
    Mask::NONE
}

fn init(kind: QpType) -> Mask {
    match kind {
        QpType::Ud => DATAGRAM_INIT,
        _ => CONNECTED_INIT,
    }
}

fn rtr_required(kind: QpType) -> Mask {
    let connected = Mask::PATH | Mask::PATH_MTU | Mask::DESTINATION | Mask::RQ_PSN;
    match kind {
        QpType::Rc | QpType::XrcTarget => {
            connected | Mask::MAX_DEST_RD_ATOMIC | Mask::MIN_RNR_TIMER
        }
        QpType::Uc | QpType::XrcInitiator => connected,
        QpType::Ud => Mask::NONE,
    }
}

fn rtr_optional(kind: QpType) -> Mask {
    match kind {
        QpType::Ud => Mask::PKEY_INDEX | Mask::QKEY,
        // Programs (perftest) give both halves the attributes of RC. Those that a half does not use
        // are kept.
        QpType::XrcInitiator => {
            Mask::ALTERNATE_PATH
                | Mask::ACCESS
                | Mask::PKEY_INDEX
                | Mask::MAX_DEST_RD_ATOMIC
                | Mask::MIN_RNR_TIMER
        }
        _ => Mask::ALTERNATE_PATH | Mask::ACCESS | Mask::PKEY_INDEX,
    }
}

fn rts_required(kind: QpType) -> Mask {
    match kind {
        QpType::Rc | QpType::XrcInitiator => {
            Mask::TIMEOUT | Mask::RETRY_COUNT | Mask::RNR_RETRY | Mask::SQ_PSN | Mask::MAX_RD_ATOMIC
        }
        QpType::XrcTarget => Mask::TIMEOUT | Mask::SQ_PSN,
        QpType::Uc | QpType::Ud => Mask::SQ_PSN,
    }
}

fn rts_optional(kind: QpType) -> Mask {
    match kind {
        QpType::Rc => Mask::CURRENT_STATE | PATHS | Mask::ACCESS | Mask::MIN_RNR_TIMER,
        QpType::XrcTarget => {
            Mask::CURRENT_STATE
                | PATHS
                | Mask::ACCESS
                | Mask::MIN_RNR_TIMER
                | Mask::RETRY_COUNT
                | Mask::RNR_RETRY
                | Mask::MAX_RD_ATOMIC
        }
        QpType::Uc | QpType::XrcInitiator => Mask::CURRENT_STATE | PATHS | Mask::ACCESS,
        QpType::Ud => Mask::CURRENT_STATE | Mask::QKEY,
    }
}

fn sqd_optional(_: QpType) -> Mask {
    Mask::SQD_NOTIFY
}

fn sqd_stay(kind: QpType) -> Mask {
    match kind {
        QpType::Rc | QpType::XrcInitiator | QpType::XrcTarget => {
            Mask::PORT
                | Mask::PATH
                | Mask::TIMEOUT
                | Mask::RETRY_COUNT
                | Mask::RNR_RETRY
                | Mask::MAX_RD_ATOMIC
                | Mask::MAX_DEST_RD_ATOMIC
                | PATHS
                | Mask::ACCESS
                | Mask::PKEY_INDEX
                | Mask::MIN_RNR_TIMER
        }
        QpType::Uc => Mask::PATH | PATHS | Mask::ACCESS | Mask::PKEY_INDEX,
        QpType::Ud => Mask::PKEY_INDEX | Mask::QKEY,
    }
}

fn sqe_optional(kind: QpType) -> Mask {
    match kind {
        QpType::Uc => Mask::CURRENT_STATE | Mask::ACCESS,
        QpType::Ud => Mask::CURRENT_STATE | Mask::QKEY,
        _ => Mask::NONE,
    }
}

/// Every transition that an application can ask for, but those to RESET and ERROR, which are
/// possible from everywhere and take nothing.
const TRANSITIONS: &[Transition] = {
    use QpState::{Init, Reset, Rtr, Rts, Sqd, Sqe};
    const fn on(
        from: QpState,
        to: QpState,
        required: fn(QpType) -> Mask,
        optional: fn(QpType) -> Mask,
    ) -> Transition {
        Transition { from, to, required, optional }
    }
    &[
        on(Reset, Init, init, none),
        on(Init, Init, none, init),
        on(Init, Rtr, rtr_required, rtr_optional),
        on(Rtr, Rts, rts_required, rts_optional),
        on(Rts, Rts, none, rts_optional),
        on(Rts, Sqd, none, sqd_optional),
        on(Sqd, Sqd, none, sqd_stay),
        on(Sqd, Rts, none, rts_optional),
        on(Sqe, Rts, none, sqe_optional),
    ]
};

/// Checks that `change` is a legal transition of a queue pair of type `kind` in state `from`.
/// Returns the state that it leads to.
pub(crate) fn check_transition(
    kind: QpType,
    from: QpState,
    change: &QpChange,
) -> Result<QpState, ModifyError> {
    let to = change.state.unwrap_or(from);
    let none = ModifyError::Transition { from, to };
    if change.current_state.is_some_and(|current| current != from) {
        return Err(none);
    }
    // SQE is a state of the send queue alone, which no reliable service has (IBTA vol 1, 10.3.1).
    if from == QpState::Sqe && kind.is_reliable() {
        return Err(none);
    }
    let (required, optional) = match to {
        QpState::Reset | QpState::Error => (Mask::NONE, Mask::CURRENT_STATE),
        _ => TRANSITIONS
            .iter()
            .find(|transition| transition.from == from && transition.to == to)
            .map(|transition| ((transition.required)(kind), (transition.optional)(kind)))
            .ok_or(none)?,
    };
    let given = change.mask();
    if !given.contains(required) {
        return Err(ModifyError::Missing(required.without(given)));
    }
    // A caller may name the current state in every transition.
    let taken = required | optional | Mask::STATE | Mask::CURRENT_STATE;
    if !taken.contains(given) {
        return Err(ModifyError::NotAllowed(given.without(taken)));
    }
    Ok(to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use QpState::{Error, Init, Reset, Rtr, Rts, Sqd, Sqe};
    use QpType::{Rc, Uc, Ud, XrcInitiator, XrcTarget};
    use rdma::{Mtu, Psn, QKey, Qpn};
    use std::vec::Vec;

    const STATES: [QpState; 7] = [Reset, Init, Rtr, Rts, Sqd, Sqe, Error];

    /// A change to `to` with everything that `mask` names and that a change can carry.
    fn change(to: QpState, mask: Mask) -> QpChange {
        fn some<T>(mask: Mask, bit: Mask, value: T) -> Option<T> {
            mask.contains(bit).then_some(value)
        }
        QpChange {
            state: Some(to),
            sqd_notify: some(mask, Mask::SQD_NOTIFY, true),
            access: some(mask, Mask::ACCESS, rdma::Access::NONE),
            pkey_index: some(mask, Mask::PKEY_INDEX, 0),
            port: some(mask, Mask::PORT, 1),
            q_key: some(mask, Mask::QKEY, QKey(1)),
            path: some(mask, Mask::PATH, crate::AddressVector::default()),
            path_mtu: some(mask, Mask::PATH_MTU, Mtu::B1024),
            timeout: some(mask, Mask::TIMEOUT, 14),
            retry_count: some(mask, Mask::RETRY_COUNT, 7),
            rnr_retry: some(mask, Mask::RNR_RETRY, 7),
            rq_psn: some(mask, Mask::RQ_PSN, Psn::new(0)),
            max_rd_atomic: some(mask, Mask::MAX_RD_ATOMIC, 1),
            max_dest_rd_atomic: some(mask, Mask::MAX_DEST_RD_ATOMIC, 1),
            min_rnr_timer: some(mask, Mask::MIN_RNR_TIMER, 12),
            sq_psn: some(mask, Mask::SQ_PSN, Psn::new(0)),
            destination: some(mask, Mask::DESTINATION, Qpn::new(2)),
            ..QpChange::default()
        }
    }

    #[test]
    fn each_transition_takes_what_it_requires_and_misses_each_part_of_it() {
        for transition in TRANSITIONS {
            for kind in [Rc, Uc, Ud, XrcInitiator, XrcTarget] {
                if transition.from == Sqe && kind.is_reliable() {
                    continue;
                }
                let required = (transition.required)(kind);
                let full = change(transition.to, required);
                assert_eq!(
                    check_transition(kind, transition.from, &full),
                    Ok(transition.to),
                    "{kind:?} {:?} => {:?}",
                    transition.from,
                    transition.to
                );
                for bit in (0..21).map(|shift| Mask(1 << shift)) {
                    if required.contains(bit) {
                        let lacking = change(transition.to, Mask(required.0 & !bit.0));
                        assert_eq!(
                            check_transition(kind, transition.from, &lacking),
                            Err(ModifyError::Missing(bit))
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn transitions_outside_the_table_are_refused() {
        let legal = |from, to| {
            matches!(to, Reset | Error) || TRANSITIONS.iter().any(|t| t.from == from && t.to == to)
        };
        let mut refused = Vec::new();
        for from in STATES {
            for to in STATES {
                let everything = Mask((1 << 21) - 1);
                let result = check_transition(Uc, from, &change(to, everything));
                if !legal(from, to) {
                    assert_eq!(result, Err(ModifyError::Transition { from, to }));
                    refused.push((from, to));
                }
            }
        }
        // 7 x 7 pairs less 9 in the table and 2 x 7 to RESET and ERROR.
        assert_eq!(refused.len(), 49 - 9 - 14);
    }

    #[test]
    fn every_state_can_be_left_for_reset_and_error_with_nothing_else() {
        for from in [Reset, Init, Rtr, Rts, Sqd, Error] {
            for to in [Reset, Error] {
                assert_eq!(check_transition(Rc, from, &QpChange::to(to)), Ok(to));
                let extra = QpChange { timeout: Some(1), ..QpChange::to(to) };
                assert_eq!(
                    check_transition(Rc, from, &extra),
                    Err(ModifyError::NotAllowed(Mask::TIMEOUT))
                );
            }
        }
    }

    #[test]
    fn a_wrong_current_state_is_refused() {
        let wrong = QpChange { current_state: Some(Rts), ..change(Init, CONNECTED_INIT) };
        assert_eq!(
            check_transition(Rc, Reset, &wrong),
            Err(ModifyError::Transition { from: Reset, to: Init })
        );
    }
}
