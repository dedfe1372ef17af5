//! The fallback thread: progress while the application sleeps, computes, or waits for memory to
//! change.
//!
//! It is blocked on the sockets, the handed-over packets, a wake-up and the nearest timer. Before it
//! blocks it looks for more for a while, a few times as long as it has just worked: a wake-up costs
//! the sender as much as sending some hundred kilobytes, and the receiver more. It does not where
//! somebody else may want the processor ([`Company`]), or where the application will be woken. The
//! application's threads do the same work themselves when they post and poll, and one that waits for an
//! event stands in for it altogether ([`crate::stand_in`]).
//!
//! A timer that they start wakes the thread only if it is earlier than what the thread sleeps for
//! anyway: a retransmission timer is started anew for every message, and mostly to a later time.

use core::hint;
use core::mem;
use core::ptr;
use core::sync::atomic::Ordering;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;

use rdma::{Span, Time};

use crate::inbox::{Busy, Taken};
use crate::limits::{
    COMPANY_GAP, COMPANY_INTERVAL, COMPANY_SHARE, COMPANY_STAYS, LINGER_FACTOR, LINGER_MAX,
    LINGER_SPINS, PARK_BLIND_NAPS, PARK_NAP, SLEEP_MAX, THREAD_SLICE,
};
use crate::parking::Parking;
use crate::progress::{Core, Publish};
use crate::receive::Reach;
use crate::shared::Shared;
use crate::{clock, sys};

/// Starts the thread. It takes no signals, those are the application's, but for the faults that it
/// may meet in the application's memory.
pub(crate) fn spawn(shared: Arc<Shared>) -> io::Result<JoinHandle<()>> {
    // SAFETY: an all-zero signal set is a valid place for one, and both calls fill it.
    let mut all: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: as above.
    let mut before: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: pointers to live sets; a thread inherits the mask of the one that starts it.
    unsafe {
        libc::sigfillset(&raw mut all);
        libc::sigdelset(&raw mut all, libc::SIGSEGV);
        libc::sigdelset(&raw mut all, libc::SIGBUS);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
    }
    let thread =
        std::thread::Builder::new().name("ferroce-nic".to_owned()).spawn(move || run(&shared));
    // SAFETY: the set is that which the call above has filled.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut()) };
    thread
}

fn run(shared: &Shared) {
    if let Err(error) = shorten_slice() {
        tracing::debug!(%error, "the fallback thread keeps the default time slice");
    }
    let mut descriptors = shared.descriptors();
    let mut parking = Parking::default();
    let mut company = Company::since(clock::now());
    let mut blind_naps = 0;
    let mut layout = 0;
    let mut sleep = work(shared, shared.lock(), false, &mut parking, &mut company);
    while let Some(Sleep { ns, watch, layout: current }) = sleep {
        if mem::replace(&mut layout, current) != current {
            descriptors = shared.descriptors();
        }
        for descriptor in &mut descriptors {
            descriptor.revents = 0;
        }
        // The last two descriptors are the timer and the wake-up, which are for a parked thread too.
        let watched = if watch == Watch::Sockets { 0 } else { descriptors.len() - 2 };
        sys::wait(&mut descriptors[watched..], ns);
        let mut was_woken = false;
        if let [.., timer, wake] = &descriptors[..] {
            for (woken, fd) in [(timer, shared.timer.as_fd()), (wake, shared.wake.as_fd())] {
                if woken.revents != 0 {
                    sys::reset(fd);
                    was_woken = true;
                }
            }
        }
        let core = match shared.try_lock() {
            Some(core) => core,
            // A parked thread does not get in the way of the application that it is parked for.
            None if watch == Watch::Nothing && !was_woken && blind_naps < PARK_BLIND_NAPS => {
                blind_naps += 1;
                continue;
            }
            None => shared.lock(),
        };
        blind_naps = 0;
        let relieved = watch == Watch::Relieved;
        sleep = work(shared, core, relieved, &mut parking, &mut company);
    }
}

/// What a sleeper watches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Watch {
    /// Everything.
    Sockets,
    /// Nothing: the sockets are left to the application, for a nap.
    Nothing,
    /// Nothing: somebody stands in ([`crate::stand_in`]).
    Relieved,
}

/// What the thread, or who stands in for it, does next.
#[derive(Clone, Copy)]
pub(crate) struct Sleep {
    pub(crate) ns: u64,
    pub(crate) watch: Watch,
    /// Which sockets there are ([`crate::links::Links::layout`]).
    pub(crate) layout: u32,
}

/// Does what there is to do, and says how long there will be nothing; `None` at the end. The thread
/// may have been relieved until now.
fn work<'a>(
    shared: &'a Shared,
    mut core: MutexGuard<'a, Core>,
    was_relieved: bool,
    parking: &mut Parking,
    company: &mut Company,
) -> Option<Sleep> {
    if shared.stop.load(Ordering::Acquire) || core.links.is_none() {
        return None;
    }
    core.counts.thread_wakeups += 1;
    core.duty.thread_watches = false;
    core.duty.thread_sleeps_until = Time::ZERO;
    if let Some(relieved) = relieved(shared, &mut core) {
        return Some(relieved);
    }
    if core.leaves_to_application(parking) {
        return Some(rest(shared, &mut core, true));
    }
    let mut round;
    (core, round) = Round::begin(shared, core, Reach::All, Busy::Wait);
    if was_relieved {
        core.duty.missed(round.taken.now, round.taken.packets);
    }
    let mut credit = Span::ZERO;
    let parked = loop {
        let Taken { now, packets, .. } = round.taken;
        core.counts.thread_packets += packets;
        core = shared.give(core, now);
        core.look_after(now);
        let alone = parking.is_alone(core.inline_packets);
        let parked = parking.update(now, core.inline_packets, packets, core.last_event);
        let end = clock::now();
        credit = earned(credit, end.since(round.since));
        let wakes_application = core.last_event == Some(now);
        if packets == 0 || !alone || parked || wakes_application || company.is_there(end) {
            break parked;
        }
        drop(core);
        let until = end + credit;
        match linger(shared, until, company) {
            Some(more) => (core, round) = more,
            None => {
                core = shared.lock();
                break parked;
            }
        }
        credit = until.since(round.since);
    };
    Some(rest(shared, &mut core, parked))
}

/// The thread goes to sleep.
fn rest(shared: &Shared, core: &mut Core, parked: bool) -> Sleep {
    if let Some(relieved) = relieved(shared, core) {
        return relieved;
    }
    let sleep = sleep(core, parked);
    core.duty.thread_watches = !parked;
    core.duty.thread_sleeps_until = core.sleeps_until;
    sleep
}

/// The thread's sleep while it has nothing to do, if that is so.
fn relieved(shared: &Shared, core: &mut Core) -> Option<Sleep> {
    let now = clock::now();
    let until = core.duty.relief(now)?;
    if core.is_left_behind() && !core.duty.is_held(now) {
        return None;
    }
    core.duty.thread_sleeps_until = until;
    if !core.duty.is_held(now) {
        core.sleeps_until = until;
    } else if core.must_wake_duty() {
        // This thread has just started a timer, or left something behind.
        sys::signal(shared.wake_stand_in.as_fd());
    }
    let ns = until.since(now).as_ns_ceil();
    Some(Sleep { ns, watch: Watch::Relieved, layout: core.layout() })
}

/// Goes to sleep, but for a look whether a packet came after the last.
pub(crate) fn sleep(core: &mut Core, parked: bool) -> Sleep {
    let now = clock::now();
    core.publish(now, Publish::Now);
    let until = if core.set_asleep(!parked) && !parked {
        now
    } else if parked {
        now + PARK_NAP
    } else {
        let latest = now + SLEEP_MAX;
        core.deadline().map_or(latest, |deadline| deadline.min(latest))
    };
    core.sleeps_until = until;
    let watch = if parked { Watch::Nothing } else { Watch::Sockets };
    Sleep { ns: until.since(now).as_ns_ceil(), watch, layout: core.layout() }
}

/// What the thread does between two looks whether it may sleep.
struct Round {
    since: Time,
    taken: Taken,
}

impl Round {
    /// Takes what has arrived.
    fn begin<'a>(
        shared: &'a Shared,
        core: MutexGuard<'a, Core>,
        reach: Reach,
        busy: Busy,
    ) -> (MutexGuard<'a, Core>, Self) {
        let since = clock::now();
        let (core, taken) = shared.take(core, reach, busy);
        (core, Self { since, taken })
    }
}

/// How long the thread may look for more, which had so much left of the last time and has `worked`
/// since.
fn earned(left: Span, worked: Span) -> Span {
    (left + worked * LINGER_FACTOR).min(LINGER_MAX)
}

/// Looks for packets until some have arrived, and takes them. `None` if there were none `until`
/// then, or the thread is to end, or has company.
fn linger<'a>(
    shared: &'a Shared,
    until: Time,
    company: &mut Company,
) -> Option<(MutexGuard<'a, Core>, Round)> {
    let mut before = clock::now();
    while !shared.stop.load(Ordering::Acquire) {
        let now = clock::now();
        if now.since(before) > COMPANY_GAP {
            *company = Company::since(now);
        }
        if company.there || now >= until {
            break;
        }
        before = now;
        if let Some(core) = shared.try_lock() {
            if core.duty.is_held(now) {
                break;
            }
            let (mut core, round) = Round::begin(shared, core, Reach::Hot, Busy::Leave);
            if round.taken.packets > 0 {
                return Some((core, round));
            }
            // A timer may have had something to send.
            if !core.is_quiet(round.taken.now) {
                drop(shared.give(core, round.taken.now));
            }
        }
        for _ in 0..LINGER_SPINS {
            hint::spin_loop();
        }
    }
    None
}

/// Whether somebody else may want the processor: threads of the application that run, as one that
/// waits for memory to change, or whoever has had it for long while this thread looked for packets.
struct Company {
    there: bool,
    /// When that was found out, and the processor time of the others by then.
    judged: Time,
    had: Time,
}

impl Company {
    /// Somebody has shown up, or may have: so it begins.
    fn since(now: Time) -> Self {
        Self { there: true, judged: now, had: clock::of_other_threads() }
    }

    fn is_there(&mut self, now: Time) -> bool {
        let passed = now.since(self.judged);
        if passed >= if self.there { COMPANY_STAYS } else { COMPANY_INTERVAL } {
            let had = clock::of_other_threads();
            let there = had.since(self.had) * COMPANY_SHARE > passed;
            *self = Self { there, judged: now, had };
        }
        self.there
    }
}

/// Asks for a short time slice: a thread that wants to run for microseconds is then let in early
/// between two that spin (EEVDF, Linux 6.12).
fn shorten_slice() -> io::Result<()> {
    // SAFETY: all zeros are a valid sched_attr.
    let mut attributes: libc::sched_attr = unsafe { mem::zeroed() };
    let size = size_of::<libc::sched_attr>();
    // SAFETY: both calls are about this thread (0), with a live place of the size that is given.
    unsafe {
        if libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        if attributes.sched_policy != libc::SCHED_OTHER as u32 {
            return Ok(());
        }
        attributes.sched_runtime = THREAD_SLICE.as_ns_ceil();
        if libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

impl Shared {
    /// What the thread waits for; the timer and the wake-up are the last.
    fn descriptors(&self) -> Vec<libc::pollfd> {
        self.lock().descriptors([self.timer.as_fd(), self.wake.as_fd()])
    }
}

impl Core {
    fn layout(&self) -> u32 {
        self.links.as_ref().map_or(0, |links| links.layout)
    }

    /// All that packets arrive by, and `more` behind it, to be waited for.
    pub(crate) fn descriptors(&self, more: [BorrowedFd<'_>; 2]) -> Vec<libc::pollfd> {
        let links = self.links.iter().flat_map(|links| {
            let sockets = links.all_sockets().map(|socket| socket.as_fd());
            let rings = links.same_host.iter().map(|link| link.as_fd());
            sockets.chain([links.handover.as_fd()]).chain(rings)
        });
        links
            .chain(more)
            .map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_for_more_in_proportion_to_what_there_was() {
        let us = Span::from_us;
        assert_eq!(earned(Span::ZERO, us(5)), us(5) * LINGER_FACTOR);
        assert_eq!(earned(us(1), us(5)), us(1) + us(5) * LINGER_FACTOR);
        assert_eq!(earned(us(1), us(1_000)), LINGER_MAX);
    }

    #[test]
    fn threads_that_run_are_company() {
        let had = clock::of_other_threads();
        let share = COMPANY_STAYS.as_ns_ceil() / COMPANY_SHARE;
        let busy =
            std::thread::spawn(
                move || {
                    while sys::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) <= share {}
                },
            );
        busy.join().unwrap();
        let judged = clock::now();
        assert!(Company { there: true, judged, had }.is_there(judged + COMPANY_STAYS));
    }

    #[test]
    fn company_stays_for_a_while() {
        let mut company = Company::since(clock::now());
        let later = clock::now() + COMPANY_STAYS;
        assert!(!company.is_there(later + Span::from_ms(1_000)), "nobody has run for a second");
        let now = later + Span::from_ms(1_001);
        company = Company::since(now);
        assert!(company.is_there(now + COMPANY_STAYS - Span::from_us(1)));
        assert!(!company.is_there(now + COMPANY_STAYS + Span::from_ms(1_000)));
    }
}
