//! A thread of the application that waits for an event, and does the progress thread's work meanwhile.
//!
//! If it slept until the progress thread woke it, each message would cost two wake-ups. So it sleeps
//! on what that thread would, does the same work, and returns as soon as its event is there. The rules
//! ([`crate::progress::policy`]) decide which thread may stand in, and what happens when it leaves.

use core::mem;
use core::sync::atomic::Ordering;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, MutexGuard};

use rdma::Span;

use crate::progress::core::Core;
use crate::progress::policy::turns::{Reach, reach_of_stand_in};
use crate::progress::policy::{OnDuty, Parking};
use crate::progress::shared::{Busy, Looked, Shared};
use crate::progress::thread::{Descriptors, ns};
use crate::{clock, sys};

/// The right to stand in for the progress thread of a NIC, which it does not keep open.
#[derive(Clone, Debug)]
pub struct StandIn(Arc<Shared>);

/// A thread of the application that waits for an event and does not stand in.
#[derive(Debug)]
pub struct Waiting<'a>(&'a Shared);

impl StandIn {
    pub(crate) fn of(shared: &Arc<Shared>) -> Self {
        Self(Arc::clone(shared))
    }

    /// Does the work of the progress thread until `is_there` says that what the caller waits for is,
    /// or returns at once if another does it. `ready` is readable if `is_there` may have changed
    /// otherwise. `is_there` is called with the engine's lock held, and must not call the NIC.
    ///
    /// # Errors
    /// `Interrupted` if a signal was handled meanwhile, and what the caller waits for is not there.
    pub fn until(&self, ready: BorrowedFd<'_>, is_there: impl Fn() -> bool) -> io::Result<()> {
        let shared = &*self.0;
        let cancellation = sys::HeldCancellation::new();
        let mut core = shared.lock();
        if core.attachment.is_dead() || is_there() {
            return Ok(());
        }
        let begins = core.policy.stands_in(clock::now(), shared.do_others_wait());
        let Some((number, mut parking)) = begins else { return Ok(()) };
        let mut descriptors = Descriptors::default();
        loop {
            let sleep = core.sleeps(OnDuty::StandIn, &parking);
            if sleep.wakes_other {
                shared.wake_up(OnDuty::Thread);
            }
            descriptors.renew(&core, [shared.wake_stand_in.as_fd(), ready]);
            drop(core);
            let asleep = Asleep(shared, number);
            let woken =
                cancellation.allow(|| sys::poll(descriptors.watched(sleep.watch), ns(&sleep)));
            mem::forget(asleep);
            if let [true, _] = descriptors.own() {
                sys::reset(shared.wake_stand_in.as_fd());
            }
            core = shared.lock();
            if core.attachment.is_dead() {
                return Ok(());
            }
            let is_woken_beside = descriptors.is_woken_beside(core.policy.turns.hot());
            let has_rings = core.attachment.site.paths.has_rings();
            if core.policy.is_stand_in(number) {
                let reach = reach_of_stand_in(is_woken_beside, has_rings);
                core = work(shared, core, reach, &mut parking);
            }
            if !core.policy.is_stand_in(number) {
                // It was away for so long that another has taken its place.
                return Ok(());
            }
            let there = is_there();
            if there || woken.is_err() {
                let at_once = shared.do_others_wait() || core.is_left_behind();
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

/// A stand-in that sleeps. Dropped if its thread is cancelled.
struct Asleep<'a>(&'a Shared, u64);

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        let mut core = self.0.lock();
        if core.policy.is_stand_in(self.1) {
            leave(self.0, &mut core, true);
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Does what there is to do, unless the application looks itself.
fn work<'a>(
    shared: &'a Shared,
    mut core: MutexGuard<'a, Core>,
    reach: Reach,
    parking: &mut Parking,
) -> MutexGuard<'a, Core> {
    if core.parks(OnDuty::StandIn, parking) {
        return core;
    }
    let (mut core, Looked { now, packets, .. }) = shared.look(core, reach, Busy::Wait);
    core.counts.stand_in_packets += packets;
    core = shared.give(core, now);
    core.bury_the_dead(now);
    core.policy.took_on_duty(now, parking, packets);
    core
}

fn leave(shared: &Shared, core: &mut Core, at_once: bool) {
    match core.policy.ends(clock::now(), at_once) {
        Some(Span::ZERO) => shared.wake_up(OnDuty::Thread),
        Some(nap) => sys::set_timer(shared.timer.as_fd(), nap.as_ns_ceil()),
        None => {}
    }
}
