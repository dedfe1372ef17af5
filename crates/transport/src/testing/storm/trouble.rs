//! Trouble that applications make: they break connections, mend them, drain them, and free memory
//! under requests.

use std::format;

use rdma::{Key, QpState, QpType, Span, Time};

use super::buffer::OWN_REGION_PERMILLE;
use super::check::{Check, endpoint_result};
use super::link::Drain;
use super::tally::Seen;
use super::world::{Happening, Loss, World, place};
use crate::QpChange;

/// How much later the PSNs of a new connection begin: no late packet of the old one fits.
const PSN_STEP: u32 = 0x40_0000;

impl World<'_> {
    /// Lets a request lose its memory at some time, if the storm has that fault: its `pieces`, or
    /// its region `own`.
    pub(super) fn lose_some_time(
        &mut self,
        (link, side): (usize, usize),
        id: u64,
        node: usize,
        own: Option<Key>,
        pieces: &[(u64, u32)],
    ) {
        if !self.stormy {
            return;
        }
        let (random, faults) = (&mut self.random, &self.plan.faults);
        // The rates are those of all requests, of which few have such a region.
        let rate = |permille| permille * 1000 / OWN_REGION_PERMILLE;
        let loss = match own {
            Some(key) if random.chance(rate(faults.deregistrations)) => Loss::Freed(key),
            Some(key) if random.chance(rate(faults.changes)) => Loss::Changed(key),
            _ if random.chance(faults.unmappings) && !pieces.is_empty() => {
                Loss::Unmapped(pieces.to_vec())
            }
            _ => return,
        };
        let after = Span::from_ns(random.below(300_000));
        self.schedule(after, Happening::Lose { link, side, id, node, loss });
    }

    /// Request `id` loses its memory at `node`.
    pub(super) fn lose(
        &mut self,
        (link, side): (usize, usize),
        id: u64,
        node: usize,
        loss: Loss,
    ) -> Check {
        let at = &mut self.nodes[node];
        self.log.note(self.now, &place(node), "frees", || format!("memory of {id}: {loss:?}"));
        let is_unmapped = matches!(loss, Loss::Unmapped(_));
        match loss {
            Loss::Freed(key) => {
                self.tally.count(Seen::Deregistration);
                at.keys.retain(|&other| other != key);
                endpoint_result(at.endpoint.deregister(key), "the end of a region")?;
            }
            Loss::Changed(key) => {
                let (_, spec) = at.endpoint.query_region(key).ok_or("a region is gone")?;
                if self.random.chance(500) {
                    // Nothing changes for the request.
                    self.tally.count(Seen::SameRegistration);
                    let same = at.endpoint.reregister(key, at.pd, spec);
                    return endpoint_result(same, "the same registration");
                }
                self.tally.count(Seen::Reregistration);
                let changed = at.endpoint.reregister(key, at.other_pd, spec);
                endpoint_result(changed, "another registration")?;
            }
            Loss::Unmapped(pieces) => {
                self.tally.count(Seen::Unmapping);
                at.ground.unmap(&pieces);
            }
        }
        self.nodes[node].ground.close(id);
        let end = &mut self.links[link].ends[side];
        let here = end.node == node;
        if end.receives.contains(&id) {
            end.receive_gone = true;
        }
        for sent in &mut end.sends {
            if sent.id == id {
                sent.local_gone |= here;
                sent.remote_gone |= !here;
            }
            sent.local_gone |= here && is_unmapped && sent.borrows == Some(id);
        }
        Ok(())
    }

    /// The clock of a node is turned back. What it waits for comes that much later, as if it had stood still.
    pub(super) fn set_back(&mut self, node: usize, span: Span) {
        if self.clock(node) <= Time::ZERO + span {
            return;
        }
        self.log.note(self.now, &place(node), "turns its clock back", || format!("{span}"));
        self.tally.count(Seen::Setback);
        self.nodes[node].behind = self.nodes[node].behind + span;
        self.nodes[node].held_until = self.now + span;
        self.blame(|link| link.plan.nodes.contains(&node));
    }

    /// A send queue stops for a while. What is begun is finished, nothing is begun.
    pub(super) fn drain(&mut self, link: usize, side: usize, span: Span) -> Check {
        let end = &mut self.links[link].ends[side];
        let node = &mut self.nodes[end.node];
        let state = node.endpoint.query_qp(end.qpn).map(|query| query.state);
        if state != Some(QpState::Rts) || node.stopped.is_some() {
            return Ok(());
        }
        self.tally.count(Seen::Drain);
        let notify = self.random.chance(700);
        self.log.note(self.now, &place(end.node), "drains", || format!("{}", end.qpn));
        end.drain = Some(Drain { notify, is_drained: false });
        let change = QpChange { sqd_notify: Some(notify), ..QpChange::to(QpState::Sqd) };
        endpoint_result(node.endpoint.modify_qp(end.qpn, &change), "a drain")?;
        self.schedule(span, Happening::Resume { link, side });
        Ok(())
    }

    /// The send queue goes on.
    pub(super) fn resume(&mut self, link: usize, side: usize) -> Check {
        let end = &mut self.links[link].ends[side];
        let node = &mut self.nodes[end.node];
        let Some(drain) = end.drain.take() else { return Ok(()) };
        let Some(query) = node.endpoint.query_qp(end.qpn) else { return Ok(()) };
        if query.state != QpState::Sqd {
            return Ok(());
        }
        if drain.notify && !query.draining && !drain.is_drained {
            return Err(format!("the send queue of {} is drained, and nobody was told", end.qpn));
        }
        self.tally.count(if query.draining { Seen::ResumeEarly } else { Seen::Resume });
        self.log.note(self.now, &place(end.node), "resumes", || format!("{}", end.qpn));
        let change = QpChange::to(QpState::Rts);
        endpoint_result(node.endpoint.modify_qp(end.qpn, &change), "the end of a drain")
    }

    /// A send queue is drained, says the engine.
    pub(super) fn drained(&mut self, link: usize, side: usize) -> Check {
        let end = &mut self.links[link].ends[side];
        let query = self.nodes[end.node].endpoint.query_qp(end.qpn);
        let still = query.is_some_and(|query| query.draining);
        self.tally.count(Seen::Drained);
        match &mut end.drain {
            Some(drain @ Drain { notify: true, is_drained: false }) if !still => {
                drain.is_drained = true;
                Ok(())
            }
            drain => Err(format!("{} is drained: {drain:?}, still busy: {still}", end.qpn)),
        }
    }

    /// The send queue of UC or UD that has failed is set going again.
    pub(super) fn recover(&mut self, link: usize, side: usize) -> Check {
        let end = &mut self.links[link].ends[side];
        let node = &mut self.nodes[end.node];
        let state = node.endpoint.query_qp(end.qpn).map(|query| query.state);
        if !end.sqe || state != Some(QpState::Sqe) {
            return Ok(());
        }
        self.tally.count(Seen::Recover);
        self.log.note(self.now, &place(end.node), "recovers", || format!("{}", end.qpn));
        end.sqe = false;
        for sent in &mut end.sends {
            sent.flushed = true;
        }
        let change = QpChange::to(QpState::Rts);
        endpoint_result(node.endpoint.modify_qp(end.qpn, &change), "a recovery")
    }

    /// The owner of an end moves it to ERROR or RESET.
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
        self.nodes[node].watch.forgot = true;
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
            self.nodes[node].watch.forgot = true;
            // Completions that wait belong to the queue pair that was.
            self.links[index].forget(side, &mut self.nodes[node].ground);
            self.tally.count(if replaces { Seen::Replacement } else { Seen::Reset });
            let lost = self.links[index].ends[side].cq_lost;
            let own_cq = self.links[index].ends[side].own_cq;
            while own_cq.is_some_and(|cq| self.nodes[node].endpoint.poll_cq(cq).is_some()) {}
            if replaces || lost {
                let destroyed = self.nodes[node].endpoint.destroy_qp(qpn);
                endpoint_result(destroyed, "a destruction")?;
                if let Some(cq) = self.links[index].ends[side].own_cq.filter(|_| lost) {
                    let destroyed = self.nodes[node].endpoint.destroy_cq(cq);
                    endpoint_result(destroyed, "the end of a completion queue")?;
                    self.links[index].ends[side].own_cq = Some(self.create_own_cq(node));
                }
                let own_cq = self.links[index].ends[side].own_cq;
                self.links[index].ends[side].qpn = self.create_qp(&plan, side, own_cq);
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
