//! Completion queues and shared receive queues: armed, resized, slept through, overrun.
//!
//! The queue of a node is looked at after every step, and armed now and then. Some ends have a
//! small queue of their own, and an application that sleeps: the queue may then overflow, and its
//! queue pairs fail, and no others.

use std::format;

use rdma::{QpState, Span};

use super::check::{Check, endpoint_result};
use super::link::Link;
use super::tally::Seen;
use super::world::{Happening, World, place};
use crate::{CqId, CreateError, Notify};

/// Completions that fit the queue of one end in a storm, and when it is over.
const OWN_CQ_MAX: u64 = 24;
const CALM_CQ: u32 = 1 << 12;
/// The least that the queue of a node is made.
const NODE_CQ_MIN: u64 = 1 << 12;

impl World<'_> {
    /// A queue of the size that an end's own has.
    pub(super) fn create_own_cq(&mut self, node: usize) -> CqId {
        let capacity = self.random.between(1, OWN_CQ_MAX) as u32;
        let capacity = if self.stormy { capacity } else { CALM_CQ };
        self.nodes[node].endpoint.create_cq(capacity).expect("there is room")
    }

    /// Polls all completion queues of a node whose application is awake.
    pub(super) fn poll(&mut self, index: usize) -> Check {
        let cq = self.nodes[index].cq;
        let watch = self.nodes[index].watch;
        let mut awaited = 0;
        while let Some(completion) = self.nodes[index].endpoint.poll_cq(cq) {
            awaited += u32::from(watch.awaits(&completion));
            self.completed(index, &completion)?;
        }
        let gone = watch.forgot && watch.events == 1;
        let expected = awaited.min(1);
        if watch.events != expected && !gone {
            let events = watch.events;
            return Err(format!("node {index}: {events} events, {awaited} completions to tell of"));
        }
        let watch = &mut self.nodes[index].watch;
        watch.forgot = false;
        if watch.events > 0 {
            self.tally.count(Seen::Notified);
            (watch.armed, watch.events) = (None, 0);
        }
        if self.random.chance(300) {
            let notify = self.random.pick(&[Notify::Next, Notify::Solicited]);
            self.tally.count(if notify == Notify::Next { Seen::Arm } else { Seen::ArmSolicited });
            let node = &mut self.nodes[index];
            // A queue that is armed for every completion stays so.
            node.watch.armed = match node.watch.armed {
                Some(Notify::Next) => Some(Notify::Next),
                _ => Some(notify),
            };
            endpoint_result(node.endpoint.arm_cq(cq, notify), "an arming")?;
        }
        for link in 0..self.links.len() {
            for side in [0, 1] {
                let end = &self.links[link].ends[side];
                let awake = end.asleep.is_none_or(|until| until <= self.now);
                if let Some(cq) = end.own_cq.filter(|_| end.node == index && awake) {
                    while let Some(completion) = self.nodes[index].endpoint.poll_cq(cq) {
                        self.completed(index, &completion)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// An event of the queue of a node, or of none that is armed.
    pub(super) fn notified(&mut self, index: usize, cq: CqId) -> Check {
        let node = &mut self.nodes[index];
        if cq != node.cq || node.watch.armed.is_none() || node.watch.events > 0 {
            return Err(format!("node {index}: an event of {cq:?}, which is not armed"));
        }
        node.watch.events += 1;
        Ok(())
    }

    /// A queue has lost a completion: it is one that is slept through or small, and its queue pair
    /// fails.
    pub(super) fn overrun(&mut self, index: usize, cq: CqId) -> Check {
        let ends =
            self.links.iter().enumerate().flat_map(|(at, link)| [(at, 0, link), (at, 1, link)]);
        let of = |(_, side, link): &(usize, usize, &Link)| {
            link.ends[*side].node == index && link.ends[*side].own_cq == Some(cq)
        };
        let Some((link, side, _)) = ends.into_iter().find(of) else {
            return Err(format!("node {index}: {cq:?} is overrun, which is large enough"));
        };
        self.tally.count(Seen::Overrun);
        let end = &mut self.links[link].ends[side];
        (end.cq_lost, end.fatal) = (true, true);
        let query = self.nodes[index].endpoint.query_qp(end.qpn);
        let dead = query.is_none_or(|q| matches!(q.state, QpState::Error | QpState::Reset));
        if !dead {
            return Err(format!("{} goes on, and its completion queue is overrun", end.qpn));
        }
        self.mend_later(link);
        Ok(())
    }

    /// The application does not poll the queue of an end for a while.
    pub(super) fn sleep(&mut self, link: usize, side: usize, span: Span) {
        let end = &mut self.links[link].ends[side];
        if end.own_cq.is_some() {
            self.tally.count(Seen::Sleep);
            self.log.note(self.now, &place(end.node), "sleeps", || format!("{} {span}", end.qpn));
            end.asleep = Some(self.now + span);
            self.schedule(span, Happening::Turn);
        }
    }

    /// Queues are made larger or smaller while they are in use.
    pub(super) fn resize(&mut self, index: usize) -> Check {
        let capacity = self.random.between(NODE_CQ_MIN, 1 << 16) as u32;
        let small = self.random.between(1, OWN_CQ_MAX) as u32;
        let node = &mut self.nodes[index];
        self.tally.count(Seen::Resize);
        endpoint_result(node.endpoint.resize_cq(node.cq, capacity), "a resize")?;
        let ends = self.links.iter().flat_map(|link| &link.ends).filter(|end| end.node == index);
        for cq in ends.filter_map(|end| end.own_cq) {
            match node.endpoint.resize_cq(cq, small) {
                Ok(()) => {}
                // More wait than would fit.
                Err(CreateError::Limit) => self.tally.count(Seen::ResizeRefused),
                Err(error) => return Err(format!("a resize was refused: {error}")),
            }
        }
        Ok(())
    }

    /// After the storm the queues hold what is posted.
    pub(super) fn enlarge_queues(&mut self) -> Check {
        for end in self.links.iter_mut().flat_map(|link| &mut link.ends) {
            end.asleep = None;
            if let Some(cq) = end.own_cq {
                let resized = self.nodes[end.node].endpoint.resize_cq(cq, CALM_CQ);
                endpoint_result(resized, "a resize")?;
            }
        }
        Ok(())
    }

    /// The owner of a shared receive queue wants to be told when it runs low.
    pub(super) fn set_limit(&mut self, index: usize) -> Check {
        let limit = self.random.between(1, 16) as u32;
        let node = &mut self.nodes[index];
        self.tally.count(Seen::SrqLimitSet);
        node.limit_armed = true;
        endpoint_result(node.endpoint.modify_srq(node.srq, Some(limit), None), "a limit")
    }

    /// A shared receive queue runs low.
    pub(super) fn limit_reached(&mut self, index: usize) -> Check {
        self.tally.count(Seen::SrqLimit);
        match core::mem::take(&mut self.nodes[index].limit_armed) {
            true => Ok(()),
            false => Err(format!("node {index}: a limit is reached that is not set")),
        }
    }

    /// Each limit that is no longer armed has raised its event.
    pub(super) fn check_limits(&self) -> Check {
        for (index, node) in self.nodes.iter().enumerate() {
            let limit = node.endpoint.query_srq(node.srq).map(|attributes| attributes.limit);
            if node.limit_armed != (limit > Some(0)) {
                return Err(format!("node {index}: a limit was reached, and nobody was told"));
            }
        }
        Ok(())
    }
}
