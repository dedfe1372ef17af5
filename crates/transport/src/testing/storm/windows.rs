//! Memory windows: bound, used, invalidated and freed in mid-flight.
//!
//! Each end of some links owns windows. A window is of use to the peer from the completion of its
//! bind on, until something is posted that ends it. In between, when it is being ended, a request
//! that is under way may get through or be refused; afterwards it must be refused.

use std::format;
use std::vec::Vec;

use rdma::{Access, CompletionOpcode, Key, Operation, QpType, SendFlags, WorkRequest};

use super::buffer::Remote;
use super::check::{Check, endpoint_result};
use super::link::{MemoryWindow, Reach, Sent, State, Step, WindowId};
use super::tally::Seen;
use super::world::{World, everything, place};
use crate::{DestroyError, WindowKind};

/// What a window covers at most.
const WINDOW_MAX: u64 = 24 << 10;

impl World<'_> {
    /// Makes the windows of an end.
    pub(super) fn make_windows(&mut self, index: usize, side: usize) {
        let count = self.links[index].plan.windows;
        let at = self.links[index].ends[side].node;
        for number in 0..count {
            let kind = if number % 2 == 0 { WindowKind::Type2 } else { WindowKind::Type1 };
            let node = &mut self.nodes[at];
            let key = node.endpoint.alloc_window(node.pd, kind).expect("there is room");
            let window = MemoryWindow { kind, key, state: State::Void, old: None };
            self.links[index].ends[side].windows.push(window);
        }
    }

    /// Lets the owner bind or end one of its windows instead of posting something else. Returns
    /// whether it did.
    pub(super) fn tend_windows(&mut self, index: usize, side: usize) -> Check<bool> {
        let end = &self.links[index].ends[side];
        if end.windows.is_empty() || end.failed || end.fatal || end.sqe {
            return Ok(false);
        }
        let count = end.windows.len() as u64;
        let which = self.random.below(count) as usize;
        let window = end.windows[which];
        if self.stormy && self.random.chance(self.plan.faults.trespasses) {
            self.post_misbind(index, side, which)?;
            return Ok(true);
        }
        match window.state {
            State::Void if self.random.chance(400) => self.post_bind(index, side, which)?,
            State::Bound(_) if self.random.chance(60) && self.may_end(index, side, which) => {
                match window.kind {
                    WindowKind::Type1 if self.random.chance(500) => {
                        self.post_bind(index, side, which)?;
                    }
                    _ => self.post_end(index, side, which)?,
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// In calm weather nothing is ended under a request. (Those of UC are done before they arrive.)
    fn may_end(&self, link: usize, side: usize, index: usize) -> bool {
        let which = Some(WindowId { link, side, index });
        let mut ends = self.links.iter().flat_map(|link| &link.ends);
        let reliable = self.links.iter().all(|link| link.plan.kind.is_reliable());
        let in_use = ends.any(|end| end.sends.iter().any(|sent| sent.through == which));
        self.stormy || reliable && !in_use
    }

    /// Binds a window to memory that nothing else uses.
    fn post_bind(&mut self, index: usize, side: usize, which: usize) -> Check {
        let at = self.links[index].ends[side].node;
        let window = self.links[index].ends[side].windows[which];
        let random = &mut self.random;
        let length = random.between(8, WINDOW_MAX);
        let rights = [
            everything(),
            Access::REMOTE_WRITE,
            Access::REMOTE_READ,
            Access::REMOTE_READ | Access::REMOTE_ATOMIC,
        ];
        let mut access = random.pick(&rights) & remote_rights();
        if window.kind == WindowKind::Type2 && random.chance(300) {
            access = access | Access::ZERO_BASED;
        }
        let node = &mut self.nodes[at];
        let Some(address) = node.ground.allocate(length) else { return Ok(()) };
        let zero_based = access.allows(Access::ZERO_BASED);
        let iova = if zero_based { 0 } else { address };
        let reach = Reach { address, iova, length, access: access & remote_rights(), used: 0 };
        let r_key = window.next_key();
        let region = node.bindable;
        let operation = Operation::BindWindow { r_key, region, address, length, access };
        // A bound window of type 1 may be bound again, and leaves what it was bound to.
        self.end_window(index, side, which);
        self.tally.count(match (window.kind, window.state) {
            (WindowKind::Type1, State::Bound(_)) => Seen::WindowRebind,
            (WindowKind::Type1, _) => Seen::WindowBind1,
            (WindowKind::Type2, _) => Seen::WindowBind2,
        });
        let opcode = CompletionOpcode::BindWindow;
        let id = self.post_local(index, side, operation, opcode, Some(Step::Bind(which)), false)?;
        let window = &mut self.links[index].ends[side].windows[which];
        window.old = Some(window.key);
        (window.key, window.state) = (r_key, State::Binding(id, reach));
        Ok(())
    }

    /// Ends a window by a request of its owner: type 1 is bound to nothing, type 2 invalidated.
    fn post_end(&mut self, index: usize, side: usize, which: usize) -> Check {
        let window = self.links[index].ends[side].windows[which];
        let region = self.nodes[self.links[index].ends[side].node].bindable;
        self.end_window(index, side, which);
        let (operation, opcode, r_key) = match window.kind {
            WindowKind::Type1 => {
                self.tally.count(Seen::WindowUnbind);
                let (r_key, access) = (window.next_key(), Access::NONE);
                let operation =
                    Operation::BindWindow { r_key, region, address: 0, length: 0, access };
                (operation, CompletionOpcode::BindWindow, r_key)
            }
            WindowKind::Type2 => {
                self.tally.count(Seen::WindowInvalidate);
                let operation = Operation::LocalInvalidate { r_key: window.key };
                (operation, CompletionOpcode::LocalInvalidate, window.key)
            }
        };
        let window = &mut self.links[index].ends[side].windows[which];
        (window.key, window.old, window.state) = (r_key, Some(window.key), State::Ending);
        self.post_local(index, side, operation, opcode, Some(Step::End(which)), false)?;
        Ok(())
    }

    /// Posts what must fail: a bind or an invalidation that asks for what it must not get.
    fn post_misbind(&mut self, index: usize, side: usize, which: usize) -> Check {
        let link = &self.links[index];
        let (at, kind) = (link.ends[side].node, link.plan.kind);
        let window = link.ends[side].windows[which];
        let node = &mut self.nodes[at];
        let (address, length, access) = (super::ground::Ground::WORD, 64, Access::REMOTE_READ);
        let (r_key, region) = (window.next_key(), node.bindable);
        let bind = |region, address, length, access| {
            (
                Operation::BindWindow { r_key, region, address, length, access },
                CompletionOpcode::BindWindow,
            )
        };
        let invalidate =
            |r_key| (Operation::LocalInvalidate { r_key }, CompletionOpcode::LocalInvalidate);
        let (operation, opcode) = match self.random.below(6) {
            // The region does not allow it.
            0 => bind(node.key, address, length, access),
            // It ends before the window would.
            1 => bind(region, address, u64::from(u32::MAX), access),
            2 => bind(region, super::ground::Ground::BASE - 8, length, access),
            3 => bind(Key(region.0 ^ 0x55), address, length, access),
            // Regions are not invalidated, nor windows of type 1.
            4 => invalidate(node.key),
            _ if window.kind == WindowKind::Type1 => invalidate(window.key),
            // A peer that can invalidate it may have done so until the bind is executed.
            _ if matches!(window.state, State::Bound(_)) && kind == QpType::Uc => {
                bind(region, address, length, access)
            }
            _ => invalidate(Key(window.key.0 ^ 0x55)),
        };
        self.tally.count(Seen::Misbind);
        self.post_local(index, side, operation, opcode, None, true)?;
        Ok(())
    }

    /// Posts a local operation. Returns its number.
    fn post_local(
        &mut self,
        index: usize,
        side: usize,
        operation: Operation,
        opcode: CompletionOpcode,
        step: Option<Step>,
        misbinds: bool,
    ) -> Check<u64> {
        let link = &self.links[index];
        let (plan, node, qpn) = (link.plan, link.ends[side].node, link.ends[side].qpn);
        self.count += 1;
        let id = self.count;
        let signalled = self.random.chance(600);
        let mut flags = if signalled { SendFlags::SIGNALED } else { SendFlags::NONE };
        if self.random.chance(200) {
            flags = flags | SendFlags::FENCE;
        }
        let is_bind = opcode == CompletionOpcode::BindWindow;
        self.tally.count(match (plan.kind, is_bind) {
            (QpType::Uc, true) => Seen::UcBind,
            (QpType::Uc, false) => Seen::UcLocalInvalidate,
            (_, true) => Seen::RcBind,
            (_, false) => Seen::RcLocalInvalidate,
        });
        self.log.note(self.now, &place(node), "posts", || {
            format!("{id} {operation:?} at {qpn}, {flags:?}")
        });
        let visible = signalled || plan.signal_all;
        let sent = Sent { id, visible, opcode: Some(opcode), step, misbinds, ..Sent::default() };
        self.links[index].ends[side].sends.push_back(sent);
        let request = WorkRequest { id, operation, flags, sges: &[], inline: None };
        let now = self.time_of_call(node);
        let posted = self.nodes[node].endpoint.post_send(now, qpn, &request);
        endpoint_result(posted, "a bind or invalidation")?;
        Ok(id)
    }

    /// Something is posted that ends a window: what is under way through it may be refused.
    pub(super) fn end_window(&mut self, link: usize, side: usize, index: usize) {
        let gone = WindowId { link, side, index };
        let ends = self.links.iter_mut().flat_map(|link| &mut link.ends);
        for sent in ends.flat_map(|end| &mut end.sends) {
            sent.remote_gone |= sent.through == Some(gone);
        }
    }

    /// The owner frees a window under whoever uses it, and makes another.
    pub(super) fn free_window(&mut self, link: usize, side: usize, index: usize) -> Check {
        let end = &self.links[link].ends[side];
        // Not while one of the owner's own requests names it: such a request would rightly fail, or
        // fail to fail.
        let own = end.sends.iter().any(|sent| {
            let is_it = |(Step::Bind(of) | Step::End(of))| of == index;
            sent.misbinds || sent.step.is_some_and(is_it)
        });
        if own || end.windows.len() <= index {
            return Ok(());
        }
        self.tally.count(Seen::WindowFree);
        self.renew_window(link, side, index)
    }

    fn renew_window(&mut self, link: usize, side: usize, index: usize) -> Check {
        self.end_window(link, side, index);
        let end = &mut self.links[link].ends[side];
        let window = &mut end.windows[index];
        let node = &mut self.nodes[end.node];
        self.log.note(self.now, &place(end.node), "frees", || format!("{:?}", window.key));
        endpoint_result(node.endpoint.dealloc_window(window.key), "the end of a window")?;
        node.stale.push(window.key);
        window.key = node.endpoint.alloc_window(node.pd, window.kind).expect("there is room");
        window.state = State::Void;
        Ok(())
    }

    /// The queue pair of an end begins anew. Windows of type 1 that are bound stay so.
    pub(super) fn renew_windows(&mut self, link: usize, side: usize) -> Check {
        for index in 0..self.links[link].ends[side].windows.len() {
            let window = self.links[link].ends[side].windows[index];
            let stays = matches!(window.state, State::Bound(_) | State::Void)
                && window.kind == WindowKind::Type1;
            if !stays {
                self.renew_window(link, side, index)?;
            }
        }
        Ok(())
    }

    /// A part of a window of the peer, or of another queue pair of its node, that is `length` bytes
    /// long and allows `needed`; for a trespasser, one that does not.
    pub(super) fn through_window(
        &mut self,
        (index, side): (usize, usize),
        length: u64,
        needed: Access,
        trespasses: bool,
    ) -> Option<Remote> {
        let peer = &self.links[index].ends[1 - side];
        let mut found = Vec::new();
        for (at, link) in self.links.iter().enumerate() {
            for (of, end) in link.ends.iter().enumerate().filter(|(_, end)| end.node == peer.node) {
                for (number, window) in end.windows.iter().enumerate() {
                    let State::Bound(reach) = window.state else { continue };
                    let id = WindowId { link: at, side: of, index: number };
                    let its_own = window.kind == WindowKind::Type1 || (at, of) == (index, 1 - side);
                    let room = reach.length - reach.used.min(reach.length);
                    let allowed = reach.access.allows(needed);
                    let fits = length <= room;
                    let why = match (its_own, allowed, fits) {
                        (false, true, true) => Some(Seen::WindowOwner),
                        (true, false, true) => Some(Seen::WindowRights),
                        (true, true, _) if length >= 8 && trespasses => Some(Seen::WindowBounds),
                        (true, true, true) => None,
                        _ => continue,
                    };
                    if why.is_some() == trespasses {
                        found.push((id, window.key, reach, why));
                    }
                }
            }
        }
        if found.is_empty() {
            return None;
        }
        // The rare kind first.
        let foreign =
            |(.., why): &(WindowId, Key, Reach, Option<Seen>)| *why == Some(Seen::WindowOwner);
        if found.iter().any(foreign) {
            found.retain(foreign);
        }
        let (id, r_key, reach, why) = self.random.pick(&found);
        let offset = match why {
            None => {
                let window = &mut self.links[id.link].ends[id.side].windows[id.index];
                let used = (reach.used + length).next_multiple_of(8);
                window.state = State::Bound(Reach { used, ..reach });
                reach.used
            }
            // A long READ is several requests: already the first must leave the window.
            Some(Seen::WindowBounds) => reach.length & !7,
            Some(_) => 0,
        };
        self.tally.count(why.unwrap_or(match id.link == index {
            true => Seen::ThroughWindow,
            false => Seen::ThroughWindowOfAnother,
        }));
        Some(Remote {
            address: reach.iova + offset,
            r_key,
            real: reach.address + offset,
            own: None,
            is_ours: why.is_none(),
            through: Some(id).filter(|_| why.is_none()),
        })
    }

    /// A key of a window at `node` that has been freed or ended; or, to reach memory with, of one
    /// that is bound to nothing.
    pub(super) fn stale_key(&mut self, node: usize, reaching: bool) -> Option<Key> {
        let mut stale = self.nodes[node].stale.clone();
        let ends = self.links.iter().flat_map(|link| &link.ends).filter(|end| end.node == node);
        let mut current = self.nodes[node].keys.clone();
        for window in ends.flat_map(|end| &end.windows) {
            match window.state {
                State::Void if reaching => stale.push(window.key),
                State::Void | State::Bound(_) => stale.extend(window.old),
                // Until that is executed it has the key of before.
                State::Binding(..) | State::Ending => current.extend(window.old),
            }
            if !reaching || !matches!(window.state, State::Void) {
                current.push(window.key);
            }
        }
        // The index of one that was freed may have been given out again.
        stale.retain(|key| !current.contains(key));
        (!stale.is_empty()).then(|| self.random.pick(&stale))
    }

    /// A window of the peer that a SEND may invalidate.
    pub(super) fn invalidated(&mut self, index: usize, side: usize) -> Option<(WindowId, Key)> {
        let end = &self.links[index].ends[1 - side];
        let bound = |window: &MemoryWindow| {
            window.kind == WindowKind::Type2 && matches!(window.state, State::Bound(_))
        };
        let number = end.windows.iter().position(bound)?;
        let window = end.windows[number];
        Some((WindowId { link: index, side: 1 - side, index: number }, window.key))
    }

    /// A SEND that invalidates a window is posted. What was posted before it on the same connection
    /// has been executed when it is, but READs may be asked for once more unless it waits for them.
    pub(super) fn end_by_send(&mut self, which: WindowId, fenced: bool) {
        let WindowId { link, side, index } = which;
        self.links[link].ends[side].windows[index].state = State::Ending;
        for sent in &mut self.links[link].ends[1 - side].sends {
            let is_read = sent.opcode == Some(CompletionOpcode::Read);
            sent.remote_gone |= sent.through == Some(which) && is_read && !fenced;
        }
    }

    /// Takes the windows of a node down, whose queue pairs are gone.
    pub(super) fn destroy_windows(&mut self, at: usize) -> Check {
        let ends = self.links.iter().flat_map(|link| &link.ends).filter(|end| end.node == at);
        let windows: Vec<MemoryWindow> = ends.flat_map(|end| end.windows.iter().copied()).collect();
        let node = &mut self.nodes[at];
        let is_bound =
            |w: &MemoryWindow| w.kind == WindowKind::Type1 && matches!(w.state, State::Bound(_));
        if windows.iter().any(is_bound) {
            let refused = node.endpoint.deregister(node.bindable);
            if refused != Err(DestroyError::InUse) {
                return Err(format!("a region with a window bound to it: {refused:?}"));
            }
        }
        for window in windows {
            endpoint_result(node.endpoint.dealloc_window(window.key), "the end of a window")?;
        }
        endpoint_result(node.endpoint.deregister(node.bindable), "the end of a region")
    }
}

/// What a window can allow.
fn remote_rights() -> Access {
    Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC | Access::ZERO_BASED
}
