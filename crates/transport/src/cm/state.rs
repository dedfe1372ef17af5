//! The life of a conversation, as one table (after the state diagrams of IBTA vol 1, chapter 12).
//!
//! ```text
//!   active:   ReqSent ─MRA─► RepWait ─REP─► RepReceived ─RTU sent─► Established
//!                └─────────── REP ────────────▲                         │    ▲
//!   passive:  ReqReceived ─accept─► RepSent ──────────── RTU ───────────┼────┘
//!                                      └─MRA─► RtuWait ── RTU ──────────┘
//!             Established ─disconnect─► DreqSent ─DREP─► TimeWait ─► Closed
//!                   └──────────── DREQ ────────────────────▲
//!   datagrams: SidrReqSent ─SIDR_REP─► Closed     SidrReqReceived ─answer─► TimeWait
//! ```

/// Where a conversation stands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum State {
    /// We have sent a REQ and wait for a REP.
    ReqSent,
    /// The peer has sent an MRA: the REP comes later.
    RepWait,
    /// A REP has come, and the application is to confirm it.
    RepReceived,
    /// A REQ has come, and the application is to accept or reject it.
    ReqReceived,
    /// We have sent a REP and wait for an RTU.
    RepSent,
    /// The peer has sent an MRA: the RTU comes later.
    RtuWait,
    /// Both sides may use the connection.
    Established,
    /// We have sent a DREQ and wait for a DREP.
    DreqSent,
    /// It is over; late packets and messages may still come.
    TimeWait,
    /// We have sent a SIDR_REQ and wait for a SIDR_REP.
    SidrReqSent,
    /// A SIDR_REQ has come, and the application is to answer it.
    SidrReqReceived,
    /// It is forgotten, and its number may be used again.
    Closed,
}

/// What moves a conversation on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Input {
    /// A message of the peer's.
    Mra,
    Rep,
    Rtu,
    Rej,
    Dreq,
    Drep,
    SidrRep,
    /// The application sends a REP or a SIDR_REP.
    Accept,
    /// The application sends a REJ.
    Reject,
    /// The application sends an RTU, or knows otherwise that the connection is in use.
    Confirm,
    /// The application sends a DREQ.
    Disconnect,
    /// The last repetition got no answer.
    GiveUp,
    /// TIMEWAIT is over.
    Over,
}

/// Every transition. Any other input does nothing.
const TRANSITIONS: &[(State, Input, State)] = {
    use Input as I;
    use State as S;
    &[
        (S::ReqSent, I::Mra, S::RepWait),
        (S::ReqSent, I::Rep, S::RepReceived),
        (S::ReqSent, I::Rej, S::Closed),
        (S::ReqSent, I::GiveUp, S::Closed),
        (S::RepWait, I::Mra, S::RepWait),
        (S::RepWait, I::Rep, S::RepReceived),
        (S::RepWait, I::Rej, S::Closed),
        (S::RepWait, I::GiveUp, S::Closed),
        (S::RepReceived, I::Confirm, S::Established),
        (S::RepReceived, I::Reject, S::TimeWait),
        (S::RepReceived, I::Disconnect, S::DreqSent),
        (S::RepReceived, I::Rej, S::Closed),
        (S::RepReceived, I::Dreq, S::TimeWait),
        (S::ReqReceived, I::Accept, S::RepSent),
        (S::ReqReceived, I::Reject, S::TimeWait),
        (S::ReqReceived, I::Rej, S::Closed),
        (S::RepSent, I::Mra, S::RtuWait),
        (S::RepSent, I::Rtu, S::Established),
        (S::RepSent, I::Confirm, S::Established),
        (S::RepSent, I::Disconnect, S::DreqSent),
        (S::RepSent, I::Rej, S::Closed),
        (S::RepSent, I::Dreq, S::TimeWait),
        (S::RepSent, I::GiveUp, S::Closed),
        (S::RtuWait, I::Mra, S::RtuWait),
        (S::RtuWait, I::Rtu, S::Established),
        (S::RtuWait, I::Confirm, S::Established),
        (S::RtuWait, I::Disconnect, S::DreqSent),
        (S::RtuWait, I::Rej, S::Closed),
        (S::RtuWait, I::Dreq, S::TimeWait),
        (S::RtuWait, I::GiveUp, S::Closed),
        (S::Established, I::Disconnect, S::DreqSent),
        (S::Established, I::Dreq, S::TimeWait),
        (S::Established, I::Rej, S::TimeWait),
        (S::DreqSent, I::Drep, S::TimeWait),
        (S::DreqSent, I::Dreq, S::TimeWait),
        (S::DreqSent, I::Rej, S::TimeWait),
        (S::DreqSent, I::GiveUp, S::TimeWait),
        (S::TimeWait, I::Over, S::Closed),
        (S::SidrReqSent, I::SidrRep, S::Closed),
        (S::SidrReqSent, I::GiveUp, S::Closed),
        (S::SidrReqReceived, I::Accept, S::TimeWait),
    ]
};

impl State {
    /// The state after `input`, if that does anything.
    pub(super) fn after(self, input: Input) -> Option<Self> {
        let row = TRANSITIONS.iter().find(|(from, on, _)| (*from, *on) == (self, input));
        row.map(|(_, _, to)| *to)
    }

    /// Whether the last message is repeated until it is answered.
    pub(super) fn repeats(self) -> bool {
        self.after(Input::GiveUp).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    const STATES: [State; 12] = [
        State::ReqSent,
        State::RepWait,
        State::RepReceived,
        State::ReqReceived,
        State::RepSent,
        State::RtuWait,
        State::Established,
        State::DreqSent,
        State::TimeWait,
        State::SidrReqSent,
        State::SidrReqReceived,
        State::Closed,
    ];

    #[test]
    fn an_input_leads_to_one_state() {
        let keys: BTreeSet<_> = TRANSITIONS.iter().map(|(from, on, _)| (*from, *on)).collect();
        assert_eq!(keys.len(), TRANSITIONS.len());
    }

    #[test]
    fn every_state_leads_to_the_end() {
        for state in STATES {
            let mut reached = BTreeSet::from([state]);
            for _ in STATES {
                let next = TRANSITIONS.iter().filter(|(from, _, _)| reached.contains(from));
                let next: BTreeSet<_> = next.map(|(_, _, to)| *to).collect();
                reached.extend(next);
            }
            assert!(reached.contains(&State::Closed), "{state:?}");
        }
        assert!(TRANSITIONS.iter().all(|(from, _, _)| *from != State::Closed));
    }

    #[test]
    fn who_waits_for_a_peer_does_not_wait_for_ever() {
        for state in STATES {
            let waits = matches!(
                state,
                State::ReqSent
                    | State::RepWait
                    | State::RepSent
                    | State::RtuWait
                    | State::DreqSent
                    | State::SidrReqSent
            );
            assert_eq!(state.repeats(), waits, "{state:?}");
        }
    }

    #[test]
    fn a_connection_is_not_accepted_twice() {
        assert_eq!(State::ReqReceived.after(Input::Accept), Some(State::RepSent));
        assert_eq!(State::RepSent.after(Input::Accept), None);
        assert_eq!(State::Established.after(Input::Confirm), None);
    }
}
