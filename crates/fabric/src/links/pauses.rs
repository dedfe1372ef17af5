//! Pause frames (PFC): those that a port sends, and those that it obeys.
//!
//! They wait for the frame that is being sent, and for no other. They travel as frames, take their
//! time on the wire, and are obeyed `response_quanta` after they came.

use super::{EventKind, Links};
use crate::counters::PauseCounters;
use crate::packet::Pause;
use crate::pfc::PRIORITIES;
use crate::rate::LineRate;

/// The pauses of a port. Most ports are never paused, and have none.
#[derive(Clone, Debug, Default)]
pub(crate) struct PauseState {
    until: [u64; PRIORITIES],
    since: [u64; PRIORITIES],
    /// Which priorities are paused.
    paused: u8,
    counters: PauseCounters,
    /// When the last frame that stops each priority came.
    last_received: [u64; PRIORITIES],
}

/// A time of `quanta` at `rate`, in picoseconds (IEEE 802.3, 31B: 512 bit times each).
fn quanta_ps(rate: LineRate, quanta: u16) -> u64 {
    rate.ps(u64::from(quanta) * wire::pause::QUANTUM_BITS / 8)
}

impl Links {
    // ---- pauses that we send

    /// Tells the other end to stop `priorities`, as soon as a frame can be sent.
    pub(crate) fn stop(&mut self, port: u32, priorities: u8) {
        let at = self.port(port);
        at.off |= priorities;
        at.pending |= priorities;
    }

    /// Tells the other end to go on with `priorities`.
    pub(crate) fn resume(&mut self, port: u32, priorities: u8) {
        let at = self.port(port);
        at.off &= !priorities;
        at.pending |= priorities;
    }

    /// Sends the pause frame that is pending at a port that is free.
    pub(crate) fn send_pause(&mut self, port: u32) {
        let at = self.port(port);
        let pending = core::mem::take(&mut at.pending);
        let (stop, resume) = (pending & at.off, pending & !at.off);
        let (rate, pfc) = (at.rate, at.pauses.pfc);
        if stop != 0 && !at.renewing {
            at.renewing = true;
            let half = quanta_ps(rate, pfc.quanta / 2);
            self.schedule(half, EventKind::Renew, port, 0);
        }
        let counters = &mut self.pauses_mut(port).counters;
        counters.sent_frames += 1;
        for priority in 0..PRIORITIES {
            counters.sent[priority] += u64::from(stop >> priority & 1);
            counters.sent_resume[priority] += u64::from(resume >> priority & 1);
        }
        self.pfc_frames += 1;
        self.pfc_in_flight += 1;
        let packet = self.pool.pfc(Pause { stop, resume, quanta: pfc.quanta });
        self.put_on_link(port, packet, EventKind::ArrivePause, 0, |at| at.pauses.delay);
    }

    /// Half of the pauses' time is over. Returns whether a frame is pending now.
    pub(crate) fn renew(&mut self, port: u32) -> bool {
        let at = self.port(port);
        at.renewing = false;
        at.pending |= at.off;
        at.pending != 0
    }

    // ---- pauses that we receive

    /// A pause frame arrived. Obeyed at once, or by an [`EventKind::Obey`].
    pub(crate) fn pause_arrived(&mut self, port: u32, packet: u32) -> bool {
        let now = self.now();
        let pause = self.pool.get(packet).pause();
        let state = self.pauses_mut(port);
        state.counters.received_frames += 1;
        for priority in 0..PRIORITIES {
            if pause.stop >> priority & 1 != 0 {
                state.counters.received[priority] += 1;
                state.last_received[priority] = now;
            }
            state.counters.received_resume[priority] += u64::from(pause.resume >> priority & 1);
        }
        let at = self.at(port);
        let response = quanta_ps(at.rate, at.pauses.pfc.response_quanta);
        if response == 0 {
            return self.obey(port, packet);
        }
        self.schedule(response, EventKind::Obey, port, packet);
        false
    }

    /// Ends a pause frame.
    pub(crate) fn end_pause_frame(&mut self, packet: u32) {
        self.pfc_in_flight -= 1;
        self.pool.free(packet);
    }

    /// Obeys a pause frame. Returns whether something may be sent now that could not before.
    pub(crate) fn obey(&mut self, port: u32, packet: u32) -> bool {
        let now = self.now();
        let pause = self.pool.get(packet).pause();
        self.end_pause_frame(packet);
        let stop = if pause.quanta == 0 { 0 } else { pause.stop };
        let resume = if pause.quanta == 0 { pause.resume | pause.stop } else { pause.resume };
        let rate = self.at(port).rate;
        let length = quanta_ps(rate, pause.quanta);
        for priority in 0..PRIORITIES {
            let bit = 1 << priority;
            let state = self.pauses_mut(port);
            if stop & bit != 0 {
                state.until[priority] = now + length;
                if state.paused & bit == 0 {
                    state.paused |= bit;
                    state.since[priority] = now;
                    state.counters.transitions[priority] += 1;
                }
                self.schedule(length, EventKind::Expire, port, priority as u32);
            }
        }
        let resumed = self.pauses_mut(port).paused & resume;
        self.end_pauses(port, resumed)
    }

    /// A pause may be over because it was not renewed.
    pub(crate) fn expire(&mut self, port: u32, priority: u32) -> bool {
        let now = self.now();
        let state = self.pauses_mut(port);
        let bit = 1u8 << (priority & 7);
        let over =
            state.paused & bit != 0 && now >= state.until[priority as usize & (PRIORITIES - 1)];
        self.end_pauses(port, if over { bit } else { 0 })
    }

    /// Ends every pause of a port, whatever the other end wants.
    pub(crate) fn forget_pauses(&mut self, port: u32) -> bool {
        let all = self.pauses_mut(port).paused;
        self.end_pauses(port, all)
    }

    /// From now on these queues obey no pauses, and the others do. Returns whether something may be
    /// sent now that could not before.
    pub(crate) fn obey_all_but(&mut self, port: u32, queues: u8) -> bool {
        self.port(port).deaf = queues;
        self.end_pauses(port, 0)
    }

    fn end_pauses(&mut self, port: u32, priorities: u8) -> bool {
        let now = self.now();
        let state = self.pauses_mut(port);
        state.paused &= !priorities;
        for priority in 0..PRIORITIES {
            if priorities >> priority & 1 != 0 {
                state.counters.paused_ps[priority] += now - state.since[priority];
            }
        }
        let paused = state.paused;
        let at = self.port(port);
        let before = at.paused;
        at.paused = (0..PRIORITIES)
            .filter(|priority| paused >> priority & 1 != 0)
            .fold(0, |mask, priority| mask | 1 << (at.pauses.priority_to_queue[priority] & 7))
            & !at.deaf;
        before & !at.paused != 0
    }

    /// The pauses of a port, those that are not over by `now` included.
    pub(crate) fn pause_counters(&self, port: u32, now: u64) -> PauseCounters {
        let Some(state) = self.pauses(port) else { return PauseCounters::default() };
        let mut counters = state.counters;
        for priority in 0..PRIORITIES {
            if state.paused >> priority & 1 != 0 {
                counters.paused_ps[priority] += now.saturating_sub(state.since[priority]);
            }
        }
        counters
    }

    /// The priorities of a port that are paused.
    pub(crate) fn paused(&self, port: u32) -> u8 {
        self.pauses(port).map_or(0, |state| state.paused)
    }

    /// When the last frame came that stops any priority; zero if none has.
    pub(crate) fn last_pause(&self, port: u32) -> u64 {
        self.pauses(port).map_or(0, |state| state.last_received.into_iter().fold(0, u64::max))
    }

    fn pauses(&self, port: u32) -> Option<&PauseState> {
        self.pauses[self.place(port)].as_deref()
    }

    fn pauses_mut(&mut self, port: u32) -> &mut PauseState {
        let place = self.place(port);
        self.pauses[place].get_or_insert_default()
    }
}
