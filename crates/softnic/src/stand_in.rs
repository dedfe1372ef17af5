//! A thread of the application that waits for an event, and does the fallback thread's work meanwhile.
//!
//! Were it asleep until the fallback thread tells it, each message would cost two wake-ups. So it
//! sleeps where the thread would, takes what wakes it, and goes as soon as its event is there.
//!
//! ```text
//!   application   waits ─ takes, gives ─► event   computes ...           waits ─ takes, gives ─► event
//!   fallback      relieved ............................. └ a nap later: watches ┘ relieved
//!   thread                                               what nobody looks at
//! ```
//!
//! Nobody watches between one wait and the next, for a nap at most ([`PARK_NAP`]): whoever leaves
//! arms a timer for the thread, unless the thread is up by then anyway. If the thread then finds packets,
//! the application is one that computes while others want something of it, and for a while nobody
//! stands in ([`STAND_IN_DISTRUST`]).
//!
//! Only one stands in, and only if no other thread waits: it would leave with its own event while
//! that of the other is on its way.
//!
//! **Invariant:** who stands in has said until when at the latest he will be heard of
//! ([`Duty::is_held`]): a signal's handler may jump out of the wait, and the fallback thread takes over
//! then.

use core::mem;
use core::sync::atomic::Ordering;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, MutexGuard};

use rdma::Time;

use crate::inbox::{Busy, Taken};
use crate::limits::{PARK_NAP, STAND_IN_DISTRUST, STAND_IN_GRACE};
use crate::parking::Parking;
use crate::progress::Core;
use crate::receive::Reach;
use crate::shared::Shared;
use crate::thread::{Sleep, sleep};
use crate::{Nic, clock, sys};

/// Who looks after a NIC when nobody calls it: whoever stands in, the fallback thread, or nobody for
/// the moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Duty {
    /// Until when somebody is taken to stand in; the beginning if nobody does.
    held_until: Time,
    /// Tells those who stand in from each other.
    turn: u64,
    /// When the last one left; the beginning if nobody may come back.
    left: Time,
    /// Nobody stands in until then.
    distrust_until: Time,
    /// Whether the fallback thread watches the sockets.
    pub(crate) thread_watches: bool,
    /// When it wakes up by itself; the beginning if it is awake, or there is none.
    pub(crate) thread_sleeps_until: Time,
}

impl Duty {
    /// Whether somebody stands in.
    pub(crate) fn is_held(&self, now: Time) -> bool {
        now < self.held_until
    }

    /// Until when the fallback thread has nothing to do: somebody stands in, or has left only just.
    pub(crate) fn relief(&self, now: Time) -> Option<Time> {
        let back = if self.left == Time::ZERO { Time::ZERO } else { self.left + PARK_NAP };
        Some(self.held_until.max(back)).filter(|until| now < *until)
    }

    /// The fallback thread was relieved, looks again, and finds `packets`.
    pub(crate) fn missed(&mut self, now: Time, packets: u64) {
        self.left = Time::ZERO;
        if packets > 0 {
            self.distrust_until = now + STAND_IN_DISTRUST;
        }
    }

    /// Begins a turn, unless somebody else has his, or nobody may have one.
    fn begin(&mut self, now: Time) -> Option<u64> {
        if self.is_held(now) || now < self.distrust_until {
            return None;
        }
        self.turn += 1;
        self.held_until = now + STAND_IN_GRACE;
        Some(self.turn)
    }

    /// Ends a turn. The fallback thread is to look after a nap, or `at_once`. Returns whether it must
    /// be told, because it sleeps for longer.
    fn end(&mut self, now: Time, at_once: bool) -> bool {
        let look = if at_once { now } else { now + PARK_NAP };
        self.held_until = Time::ZERO;
        self.left = if at_once { Time::ZERO } else { now };
        let is_late = self.thread_sleeps_until > look;
        if is_late {
            self.thread_sleeps_until = look;
        }
        is_late
    }
}

/// The right to stand in for the fallback thread of a NIC, which it does not keep open.
#[derive(Clone, Debug)]
pub struct StandIn(Arc<Shared>);

/// A thread of the application that waits for an event and does not stand in.
#[derive(Debug)]
pub struct Waiting<'a>(&'a Shared);

impl Nic {
    /// For threads that wait for an event of this NIC.
    pub fn stand_in(&self) -> StandIn {
        StandIn(Arc::clone(self.shared()))
    }
}

impl StandIn {
    /// Does the work of the fallback thread until `is_there` says that what the caller waits for is,
    /// or returns at once if another does it. `ready` is readable if `is_there` may have changed
    /// otherwise. `is_there` is called with the engine's lock held, and must not call the NIC.
    ///
    /// # Errors
    /// `Interrupted` if a signal was handled meanwhile, and what the caller waits for is not there.
    pub fn until(&self, ready: BorrowedFd<'_>, is_there: impl Fn() -> bool) -> io::Result<()> {
        let shared = &*self.0;
        let cancellation = sys::HeldCancellation::new();
        let mut core = shared.lock();
        let now = clock::now();
        if core.links.is_none() || is_there() || shared.waiting.load(Ordering::Relaxed) > 0 {
            return Ok(());
        }
        let Some(turn) = core.duty.begin(now) else { return Ok(()) };
        // Who polled before was this thread, and it does not now.
        core.empty_polls = 0;
        let mut parking = Parking::since(core.inline_packets);
        let mut parked = false;
        let mut descriptors = Vec::new();
        let mut known = None;
        loop {
            if core.duty.thread_watches {
                sys::signal(shared.wake.as_fd());
            }
            let Sleep { ns, layout, .. } = sleep(&mut core, parked);
            core.duty.held_until = core.sleeps_until + STAND_IN_GRACE;
            if known.replace(layout) != Some(layout) {
                descriptors = core.descriptors([shared.wake_stand_in.as_fd(), ready]);
            }
            drop(core);
            let watched = if parked { descriptors.len() - 2 } else { 0 };
            let asleep = Asleep(shared, turn);
            let woken = cancellation.allow(|| sys::poll(&mut descriptors[watched..], ns));
            mem::forget(asleep);
            if let [.., wake, _] = &descriptors[..]
                && wake.revents != 0
            {
                sys::reset(shared.wake_stand_in.as_fd());
            }
            core = shared.lock();
            if core.links.is_none() || core.duty.turn != turn {
                // Closed; or it was away for so long that another has taken its place.
                return Ok(());
            }
            let reach = core.reach(&descriptors);
            (core, parked) = work(shared, core, reach, &mut parking);
            if core.duty.turn != turn {
                return Ok(());
            }
            let there = is_there();
            if there || woken.is_err() {
                let another_waits = shared.waiting.load(Ordering::Relaxed) > 0;
                let at_once = another_waits || core.is_left_behind();
                leave(shared, &mut core, at_once);
                return if there { Ok(()) } else { woken.map(|_| ()) };
            }
        }
    }

    /// Says that a thread waits for an event and does not stand in, as long as the answer lives. Then
    /// nobody else does.
    pub fn waiting(&self) -> Waiting<'_> {
        self.0.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(&self.0)
    }
}

/// One who stands in and sleeps. It goes if his thread is cancelled.
struct Asleep<'a>(&'a Shared, u64);

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        let mut core = self.0.lock();
        if core.duty.turn == self.1 {
            leave(self.0, &mut core, true);
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Core {
    /// How far one looks whom these descriptors have woken: a look at what has nothing is a call of the
    /// kernel.
    fn reach(&self, descriptors: &[libc::pollfd]) -> Reach {
        let Some(links) = &self.links else { return Reach::All };
        let others = descriptors.iter().enumerate().filter(|(port, _)| *port != links.hot);
        let only_hot = others.into_iter().all(|(_, descriptor)| descriptor.revents == 0);
        if only_hot && !links.has_rings() { Reach::Hot } else { Reach::All }
    }
}

/// Does what there is to do. Says, too, whether the sockets are left to others.
fn work<'a>(
    shared: &'a Shared,
    mut core: MutexGuard<'a, Core>,
    reach: Reach,
    parking: &mut Parking,
) -> (MutexGuard<'a, Core>, bool) {
    if core.leaves_to_application(parking) {
        return (core, true);
    }
    let (mut core, Taken { now, packets, .. }) = shared.take(core, reach, Busy::Wait);
    core.counts.stand_in_packets += packets;
    core = shared.give(core, now);
    core.look_after(now);
    let parked = parking.update(now, core.inline_packets, packets, core.last_event);
    (core, parked)
}

fn leave(shared: &Shared, core: &mut Core, at_once: bool) {
    let now = clock::now();
    if core.duty.end(now, at_once) {
        if at_once {
            sys::signal(shared.wake.as_fd());
        } else {
            sys::set_timer(shared.timer.as_fd(), PARK_NAP.as_ns_ceil());
        }
    }
    core.sleeps_until = core.duty.thread_sleeps_until;
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdma::Span;

    const NOW: Time = Time::from_ns(5_000_000_000);
    const MOMENT: Span = Span::from_us(1);

    #[test]
    fn the_thread_comes_back_a_nap_after_the_last_one_left() {
        let mut duty = Duty { thread_sleeps_until: NOW + Span::from_ms(900), ..Duty::default() };
        assert_eq!(duty.relief(NOW), None);
        assert!(duty.begin(NOW).is_some());
        assert_eq!(duty.relief(NOW), Some(NOW + STAND_IN_GRACE));
        assert!(duty.end(NOW, false), "it is told to wake up earlier");
        assert_eq!(duty.relief(NOW), Some(NOW + PARK_NAP));
        let later = NOW + Span::from_us(10);
        assert!(duty.begin(later).is_some());
        assert!(!duty.end(later, false), "it will be up by then");
        assert_eq!(duty.relief(NOW + PARK_NAP), Some(later + PARK_NAP));
        assert_eq!(duty.relief(later + PARK_NAP), None);
    }

    #[test]
    fn the_thread_comes_back_at_once_for_another_that_waits() {
        let mut duty = Duty { thread_sleeps_until: NOW + PARK_NAP, ..Duty::default() };
        assert!(duty.begin(NOW).is_some());
        assert!(duty.end(NOW, true));
        assert_eq!(duty.relief(NOW), None);
    }

    #[test]
    fn there_is_one_at_a_time_and_one_who_is_lost_is_replaced() {
        let mut duty = Duty::default();
        let first = duty.begin(NOW).unwrap();
        assert_eq!(duty.begin(NOW + MOMENT), None);
        let second = duty.begin(NOW + STAND_IN_GRACE).unwrap();
        assert_ne!(first, second);
        assert!(!duty.end(NOW, false), "there is no thread, or it is awake");
    }

    #[test]
    fn nobody_stands_in_for_a_while_after_packets_had_to_wait() {
        let mut duty = Duty::default();
        duty.missed(NOW, 0);
        assert!(duty.begin(NOW).is_some());
        duty.end(NOW, false);
        duty.missed(NOW, 1);
        assert_eq!(duty.begin(NOW + STAND_IN_DISTRUST - MOMENT), None);
        assert!(duty.begin(NOW + STAND_IN_DISTRUST).is_some());
    }
}
