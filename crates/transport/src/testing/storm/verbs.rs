//! The verbs that a storm posts, in one table.

use rdma::{Access, Key, QpType};

use super::link::WindowId;
use super::plan::RDMA_MAX;
use super::random::Random;
use super::tally::Seen;

/// The longest SEND: every receive has room for it.
pub(super) const SEND_MAX: u64 = 16 << 10;
/// The length of an atomic.
pub(super) const WORD: u64 = 8;

/// What is posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verb {
    Send,
    /// With the window of the peer that it invalidates, and its key.
    SendInvalidate(Option<WindowId>, Key),
    Write,
    Read,
    FetchAdd,
    CompareSwap,
    AtomicWrite,
}

/// A verb in one service.
pub(super) struct Row {
    service: QpType,
    verb: Verb,
    /// How often it is drawn, beside the others of its service.
    weight: u64,
    /// The rights that it needs at the peer.
    pub(super) rights: Access,
    /// Bytes of its longest message.
    pub(super) longest: u64,
    /// What is counted when it is posted: alone, and with immediate data if it may have that.
    pub(super) alone: Seen,
    pub(super) with_immediate: Option<Seen>,
}

/// A SEND that invalidates is not drawn: it needs a window.
const INVALIDATE: Verb = Verb::SendInvalidate(None, Key(0));

const ROWS: &[Row] = {
    use Access as A;
    use QpType::{Rc, Uc, Ud};
    use Seen as S;
    use Verb as V;
    const fn row(
        (service, verb, weight): (QpType, Verb, u64),
        rights: Access,
        longest: u64,
        alone: Seen,
        with_immediate: Option<Seen>,
    ) -> Row {
        Row { service, verb, weight, rights, longest, alone, with_immediate }
    }
    &[
        row((Rc, V::Send, 2), A::NONE, SEND_MAX, S::RcSend, Some(S::RcSendImmediate)),
        row((Rc, V::Write, 2), A::REMOTE_WRITE, RDMA_MAX, S::RcWrite, Some(S::RcWriteImmediate)),
        row((Rc, V::Read, 2), A::REMOTE_READ, RDMA_MAX, S::RcRead, None),
        row((Rc, V::FetchAdd, 1), A::REMOTE_ATOMIC, WORD, S::RcFetchAdd, None),
        row((Rc, V::CompareSwap, 1), A::REMOTE_ATOMIC, WORD, S::RcCompareSwap, None),
        row((Rc, V::AtomicWrite, 1), A::REMOTE_WRITE, WORD, S::RcAtomicWrite, None),
        row((Rc, INVALIDATE, 0), A::NONE, SEND_MAX, S::RcSendInvalidate, None),
        row((Uc, V::Send, 1), A::NONE, SEND_MAX, S::UcSend, Some(S::UcSendImmediate)),
        row((Uc, V::Write, 1), A::REMOTE_WRITE, RDMA_MAX, S::UcWrite, Some(S::UcWriteImmediate)),
        row((Ud, V::Send, 1), A::NONE, SEND_MAX, S::UdSend, Some(S::UdSendImmediate)),
    ]
};

impl Verb {
    /// A verb of `service`.
    pub(super) fn draw(service: QpType, random: &mut Random) -> Self {
        let rows = || ROWS.iter().filter(|row| row.service == service);
        let all = rows().map(|row| row.weight).sum();
        let mut left = if all > 1 { random.below(all) } else { 0 };
        for row in rows() {
            match left.checked_sub(row.weight) {
                Some(rest) => left = rest,
                None => return row.verb,
            }
        }
        unreachable!("every service has a verb")
    }

    /// What is true of it in `service`.
    pub(super) fn row(self, service: QpType) -> &'static Row {
        let of = |row: &&Row| {
            let same = core::mem::discriminant(&row.verb) == core::mem::discriminant(&self);
            row.service == service && same
        };
        ROWS.iter().find(of).expect("every verb of the service has a row")
    }

    pub(super) fn is_atomic(self) -> bool {
        matches!(self, Self::FetchAdd | Self::CompareSwap)
    }
}
