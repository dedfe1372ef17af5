//! Marks of congestion: which packets may be marked, and who may send a notification of it.

use std::collections::BTreeMap;
use std::format;

use rdma::{QpType, Qpn, Time};
use wire::Opcode;
use wire::opcode::Operation;
use wire::roce::Repr;

use super::check::Check;
use crate::Config;
use crate::congestion::Congestion;

const ECN_BITS: u8 = 3;
/// What a mark is.
pub(super) const CE: u8 = 3;
const ECT_0: u8 = 2;

/// What is known of each queue pair that marked packets have come to.
#[derive(Debug, Default)]
pub(super) struct Marks(BTreeMap<(usize, Qpn), Known>);

#[derive(Debug, Default)]
struct Known {
    /// A mark has come since the last CNP left.
    is_owed: bool,
    notified: Option<Time>,
}

/// Whether the network has marked a packet.
pub(super) fn is_marked(traffic_class: u8) -> bool {
    traffic_class & ECN_BITS == CE
}

/// Whether the network may mark a packet.
pub(super) fn may_mark(traffic_class: u8) -> bool {
    traffic_class & ECN_BITS == ECT_0
}

impl Marks {
    /// A marked packet comes to a queue pair.
    pub(super) fn arrived(&mut self, node: usize, qpn: Qpn) {
        self.0.entry((node, qpn)).or_default().is_owed = true;
    }

    /// A queue pair begins anew.
    pub(super) fn forget(&mut self, node: usize, qpn: Qpn) {
        self.0.remove(&(node, qpn));
    }

    /// Checks what a packet that leaves says of congestion. Returns whether it is a CNP.
    pub(super) fn left(
        &mut self,
        now: Time,
        (node, qpn, kind): (usize, Qpn, QpType),
        config: &Config,
        header: &Repr,
        traffic_class: u8,
    ) -> Check<bool> {
        let operation = header.facts().operation;
        let is_data = !matches!(
            operation,
            Operation::Acknowledge
                | Operation::SelectiveAcknowledge
                | Operation::AtomicAcknowledge
                | Operation::Cnp
        );
        let listens = matches!(config.congestion, Congestion::Dcqcn(_)) && kind.is_connected();
        if may_mark(traffic_class) != (is_data && listens) {
            return Err(format!("{header} leaves with traffic class {traffic_class:#x}"));
        }
        if header.bth.opcode != Opcode::CNP {
            return Ok(false);
        }
        let known = self.0.entry((node, qpn)).or_default();
        let interval = config.notification.map(|notification| notification.interval);
        let too_soon = known.notified.is_some_and(|at| Some(now.since(at)) < interval);
        if !known.is_owed || too_soon || interval.is_none() {
            return Err(format!("{header} leaves, and nothing that is new was marked: {known:?}"));
        }
        *known = Known { is_owed: false, notified: Some(now) };
        Ok(true)
    }
}
