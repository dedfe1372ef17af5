//! What each completion must be, and what must be true when it comes.
//!
//! The oracle knows what was posted and nothing of how the engine works. It is asked about every
//! completion in the moment in which it appears.

use std::format;

use rdma::{Completion, CompletionOpcode, CompletionStatus, QpType, completion::Attached};

use super::check::Check;
use super::ground::{Ground, is_pattern};
use super::link::{Link, Message, Sent, State, Step, Weather};

/// Bytes before the message in the receive of a datagram.
const GRH: usize = 40;

impl Link {
    /// Takes a completion of a send request of end `side`.
    pub(super) fn send_completed(
        &mut self,
        side: usize,
        completion: &Completion,
        weather: Weather,
        grounds: &mut [&mut Ground; 2],
    ) -> Check {
        let (id, status) = (completion.id, completion.status);
        let success = status == CompletionStatus::Success;
        let kind = self.plan.kind;
        loop {
            let Some(sent) = self.ends[side].sends.pop_front() else {
                return Err(format!("completion of {id}, which is not posted"));
            };
            let is_this = sent.id == id;
            if is_this && !success {
                self.failed(side, &sent, status, weather)?;
                match kind.is_reliable() {
                    true => self.ends[side].failed = true,
                    // Receives go on.
                    false => self.ends[side].sqe |= status != CompletionStatus::Flushed,
                }
                grounds[side].take(id);
                // Packets of a WRITE may still be on their way; its target stays open.
                return Ok(());
            }
            if self.ends[side].failed || self.ends[side].sqe || sent.flushed {
                return Err(format!("{status} of {id} while {} is not flushed", sent.id));
            }
            if !is_this && sent.visible {
                return Err(format!("completion of {id} before that of {}", sent.id));
            }
            if is_this && !sent.visible {
                return Err(format!("completion of {id}, which is not signalled"));
            }
            if is_this && sent.opcode != Some(completion.opcode) {
                return Err(format!("{:?} completes as {:?}", sent.opcode, completion.opcode));
            }
            self.check_done(side, &sent, grounds)?;
            if let Some(step @ (Step::Bind(index) | Step::End(index))) = sent.step {
                self.ends[side].windows[index].stepped(sent.id, step);
            }
            if kind == QpType::Rc {
                grounds[1 - side].take(sent.id);
            }
            grounds[side].take(sent.id);
            for &(address, length) in &sent.sources {
                let ruin = core::iter::repeat_n(0xee, length as usize);
                grounds[side].fill(address, ruin);
            }
            if is_this {
                return Ok(());
            }
        }
    }

    /// Whether everything that `sent` promises is there.
    pub(super) fn check_done(&self, side: usize, sent: &Sent, grounds: &[&mut Ground; 2]) -> Check {
        let Sent { id, length, .. } = *sent;
        if sent.misbinds {
            return Err(format!("{id} bound or invalidated what it must not"));
        }
        if !self.plan.kind.is_reliable() {
            return Ok(());
        }
        if sent.unfit {
            return Err(format!("{id} is done, and its packets fit no message"));
        }
        if sent.trespasses {
            return Err(format!("{id} got what it must not get"));
        }
        let peer = &self.ends[1 - side];
        let unseen = peer.inbound.iter().any(|message| message.id == id);
        if sent.is_message && unseen && peer.own_cq.is_none() {
            return Err(format!("{id} is done, and no receive completed"));
        }
        // A target is gone if the queue pair that it belongs to was reset.
        let lacks = |written: Option<u64>| written.is_some_and(|n| n != u64::from(length));
        if sent.writes && lacks(grounds[1 - side].written(id)) {
            return Err(format!("WRITE {id} is done, and its target is not written"));
        }
        if sent.reads && lacks(grounds[side].written(id)) {
            return Err(format!("READ or atomic {id} is done without its data"));
        }
        if let Some(index) = sent.atomic {
            let Some(original) = grounds[1 - side].atomics[index].original else {
                return Err(format!("atomic {id} is done and was not executed"));
            };
            let target = grounds[side].target(id);
            let bytes = target.map(|target| grounds[side].gather(target, 8));
            if bytes.as_deref() != Some(&original.to_ne_bytes()) {
                return Err(format!("atomic {id} returned {bytes:?}, not {original:#x}"));
            }
        }
        Ok(())
    }

    /// Whether a request may fail so.
    fn failed(
        &self,
        side: usize,
        sent: &Sent,
        status: CompletionStatus,
        weather: Weather,
    ) -> Check {
        let (own, peer) = (&self.ends[side], &self.ends[1 - side]);
        let is_gone = peer.failed || peer.fatal || peer.reset || weather.peer_gone;
        let may = match status {
            CompletionStatus::Flushed => {
                own.failed || own.fatal || own.sqe || sent.flushed || weather.own_gone
            }
            _ if own.failed || own.sqe || sent.flushed => false,
            // Each retry has a cause, and the last failure too.
            CompletionStatus::RetryExceeded => {
                let unsaid = !peer.refused || self.incidents > 0;
                is_gone && unsaid
                    || weather.paced
                    || self.incidents > u64::from(self.plan.retry_count)
            }
            CompletionStatus::RnrRetryExceeded => {
                (weather.late_receives || is_gone) && self.plan.rnr_retry < 7
            }
            CompletionStatus::LocalProtection => sent.local_gone,
            CompletionStatus::WindowBind => sent.misbinds,
            CompletionStatus::RemoteAccess => sent.remote_gone || sent.trespasses,
            CompletionStatus::RemoteInvalidRequest => sent.unfit && !sent.reads,
            CompletionStatus::BadResponse => sent.unfit && sent.reads,
            CompletionStatus::RemoteOperation => peer.receive_gone,
            _ => false,
        };
        if may { Ok(()) } else { Err(format!("{} must not fail with: {status}", sent.id)) }
    }

    /// Takes a completion of a receive at end `side`.
    pub(super) fn receive_completed(
        &mut self,
        side: usize,
        completion: &Completion,
        weather: Weather,
        ground: &mut Ground,
    ) -> Check {
        let (id, status) = (completion.id, completion.status);
        let kind = self.plan.kind;
        let end = &mut self.ends[side];
        if self.plan.shared[side] {
            if id <= end.last_shared {
                return Err(format!("receive {id} after {}", end.last_shared));
            }
            end.last_shared = id;
        } else if end.receives.pop_front() != Some(id) {
            return Err(format!("receive {id} completes, which is not the oldest"));
        }
        let target = ground.take(id).ok_or_else(|| format!("receive {id} completes twice"))?;
        if end.reset {
            return Err(format!("receive {id} completes at a queue pair in RESET"));
        }
        match status {
            CompletionStatus::Success => {}
            CompletionStatus::Flushed if end.failed || end.fatal || weather.own_gone => {
                return Ok(());
            }
            CompletionStatus::LocalProtection if end.receive_gone => {
                end.fatal = true;
                return Ok(());
            }
            _ => return Err(format!("receive {id} must not fail with: {status}")),
        }
        let header = if kind == QpType::Ud { GRH } else { 0 };
        let length = (completion.byte_len as usize)
            .checked_sub(header)
            .ok_or_else(|| format!("receive {id} is shorter than its header"))?;
        let bytes = ground.gather(&target, header + length);
        let fits = |message: &Message| {
            completion.opcode == message.opcode
                && completion.attached == message.attached
                && completion.solicited == message.solicited
                && length == message.length as usize
                && (message.opcode == CompletionOpcode::RecvWriteImmediate
                    || bytes.len() == header + length
                        && is_pattern(message.id, 0, &bytes[header..]))
        };
        let position = end.inbound.iter().position(fits);
        let Some(position) = position.filter(|&at| kind != QpType::Rc || at == 0) else {
            let next = end.inbound.front();
            return Err(format!("receive {id} holds no message that is due; next: {next:?}"));
        };
        let message = end.inbound[position];
        match kind {
            // It may come again.
            QpType::Uc | QpType::Ud if weather.disorders => return Ok(()),
            QpType::Ud => drop(end.inbound.remove(position)),
            _ => drop(end.inbound.drain(..=position)),
        }
        if let Attached::Invalidated(key) = message.attached
            && let Some(window) = end.windows.iter_mut().find(|window| window.key == key)
        {
            window.state = State::Void;
        }
        let is_write = message.opcode == CompletionOpcode::RecvWriteImmediate;
        let written = ground.written(message.id);
        if is_write && written.is_some_and(|n| n != u64::from(message.length)) {
            return Err(format!("WRITE {} is announced, and not there", message.id));
        }
        Ok(())
    }

    /// The queue pair at `side` was reset or destroyed: nothing of what it had goes on.
    pub(super) fn forget(&mut self, side: usize, ground: &mut Ground) {
        let end = &mut self.ends[side];
        for sent in end.sends.drain(..) {
            ground.take(sent.id);
        }
        for id in end.receives.drain(..).chain(end.open_writes.drain(..)) {
            ground.take(id);
        }
        end.inbound.clear();
        (end.drain, end.sqe) = (None, false);
        end.reset = true;
    }
}
