//! What applications do to their own: they break connections, mend them, and free memory under
//! requests.

use std::format;

use rdma::{Key, QpState, QpType, Span};

use super::buffer::OWN_REGION_PERMILLE;
use super::oracle::Check;
use super::tally::Seen;
use super::work::endpoint_result;
use super::world::{Happening, World, place};
use crate::QpChange;

/// How much later the PSNs of a new connection begin: no late packet of the old one fits.
const PSN_STEP: u32 = 0x40_0000;
impl World<'_> {
    /// Frees the region of a request at some time, if the storm has that.
    pub(super) fn free_some_time(
        &mut self,
        link: usize,
        side: usize,
        id: u64,
        node: usize,
        key: Option<Key>,
    ) {
        let Some(key) = key.filter(|_| self.stormy) else { return };
        // The rate is that of all requests, of which few have such a region.
        if self.random.chance(self.plan.faults.deregistrations * 1000 / OWN_REGION_PERMILLE) {
            let after = Span::from_ns(self.random.below(300_000));
            self.schedule(after, Happening::Deregister { link, side, id, node, key });
        }
    }

    /// Frees the region of request `id`.
    pub(super) fn deregister(&mut self, link: usize, side: usize, id: u64, node: usize, key: Key) {
        self.tally.count(Seen::Deregistration);
        self.nodes[node].keys.retain(|&other| other != key);
        let gone = self.nodes[node].endpoint.deregister(key);
        gone.expect("it is registered");
        self.nodes[node].ground.close(id);
        let end = &mut self.links[link].ends[side];
        let here = end.node == node;
        self.log.note(self.now, &place(node), "frees", || format!("memory of {id}"));
        if end.receives.contains(&id) {
            end.receive_gone = true;
        }
        if let Some(sent) = end.sends.iter_mut().find(|sent| sent.id == id) {
            if here {
                sent.local_gone = true;
            } else {
                sent.remote_gone = true;
            }
        }
    }

    /// The owner of an end has had enough of it, or its program ends.
    pub(super) fn break_end(&mut self, index: usize, side: usize) -> Check {
        let link = &mut self.links[index];
        if link.ends[side].reset || link.mending {
            return Ok(());
        }
        let end = &mut link.ends[side];
        let (node, qpn) = (end.node, end.qpn);
        let to = self.random.pick(&[QpState::Error, QpState::Reset]);
        self.log.note(self.now, &place(node), "breaks", || format!("{qpn} to {to:?}"));
        end.fatal = true;
        let is_reset = to == QpState::Reset;
        self.tally.count(if is_reset { Seen::BreakReset } else { Seen::BreakError });
        let modified = self.nodes[node].endpoint.modify_qp(qpn, &QpChange::to(to));
        endpoint_result(modified, "a change")?;
        if to == QpState::Reset {
            link.forget(side, &mut self.nodes[node].ground);
        }
        self.mend_later(index);
        Ok(())
    }

    /// A link is broken: it will be connected anew, as long as the storm lasts.
    pub(super) fn mend_later(&mut self, index: usize) {
        if !self.stormy || core::mem::replace(&mut self.links[index].mending, true) {
            return;
        }
        // Before the other side has noticed, or after.
        let latest = self.random.pick(&[3_000, 100_000]);
        let after = Span::from_us(self.random.between(1, latest));
        self.schedule(after, Happening::Mend { link: index });
    }

    /// Resets both ends, or replaces them, and connects them anew.
    pub(super) fn mend(&mut self, index: usize) -> Check {
        for side in [0, 1] {
            let plan = self.links[index].plan;
            let end = &self.links[index].ends[side];
            let (node, qpn) = (end.node, end.qpn);
            let replaces = self.random.chance(300);
            self.log.note(self.now, &place(node), "mends", || format!("{qpn}"));
            // Completions that wait belong to the queue pair that was.
            self.links[index].forget(side, &mut self.nodes[node].ground);
            self.tally.count(if replaces { Seen::Replacement } else { Seen::Reset });
            if replaces {
                let destroyed = self.nodes[node].endpoint.destroy_qp(qpn);
                endpoint_result(destroyed, "a destruction")?;
                self.links[index].ends[side].qpn = self.create_qp(&plan, side);
            } else {
                let change = QpChange::to(QpState::Reset);
                let modified = self.nodes[node].endpoint.modify_qp(qpn, &change);
                endpoint_result(modified, "a change")?;
            }
            self.renew_windows(index, side)?;
            let end = &mut self.links[index].ends[side];
            end.psn = end.psn.wrapping_add(PSN_STEP) & 0xff_ffff;
        }
        if self.links[index].plan.kind != QpType::Rc {
            self.clear_packets(index);
        }
        self.connect(index);
        Ok(())
    }
}
