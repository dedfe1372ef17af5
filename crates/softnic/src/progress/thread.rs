//! The progress thread: it does the work while the application sleeps, computes, or waits for memory to
//! change.
//!
//! It sleeps on the sockets, the handed-over packets, a wake-up and the nearest timer. The application's
//! threads do the same work themselves when they post and poll, and one that waits for an event stands
//! in for it altogether ([`crate::progress::stand_in`]). When it looks and for how long it sleeps is
//! decided by the rules ([`crate::progress::policy`]).

use core::hint;
use core::mem;
use core::ptr;
use core::sync::atomic::Ordering;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;

use rdma::Time;

use crate::limits::{BUSY_POLL_SPINS, THREAD_SLICE};
use crate::progress::core::Core;
use crate::progress::policy::turns::Reach;
use crate::progress::policy::{BusyPoll, OnDuty, Parking, Sleep, Watch};
use crate::progress::shared::{Busy, Looked, Shared};
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
        tracing::debug!(%error, "the progress thread keeps the default time slice");
    }
    let mut descriptors = Descriptors::default();
    let mut parking = Parking::default();
    let mut busy_poll = BusyPoll::new(clock::now(), clock::of_other_threads());
    let mut core = shared.lock();
    while !shared.stop.load(Ordering::Acquire) {
        core.counts.thread_wakeups += 1;
        let sleep;
        (core, sleep) = work(shared, core, &mut parking, &mut busy_poll);
        descriptors.renew(&core, [shared.timer.as_fd(), shared.wake.as_fd()]);
        drop(core);
        core = loop {
            sys::wait(descriptors.watched(sleep.watch), ns(&sleep));
            let own = descriptors.own();
            for (was_woken, fd) in own.into_iter().zip([&shared.timer, &shared.wake]) {
                if was_woken {
                    sys::reset(fd.as_fd());
                }
            }
            match shared.try_lock() {
                Some(core) => break core,
                None if parking.naps_again(sleep.watch, own.contains(&true)) => {}
                None => break shared.lock(),
            }
        };
    }
}

/// Does what there is to do, unless somebody stands in or the application looks itself.
fn work<'a>(
    shared: &'a Shared,
    mut core: MutexGuard<'a, Core>,
    parking: &mut Parking,
    busy_poll: &mut BusyPoll,
) -> (MutexGuard<'a, Core>, Sleep) {
    let mut sleep = relieved(shared, &mut core);
    if sleep.is_none() {
        if !core.parks(OnDuty::Thread, parking) {
            core = look(shared, core, parking, busy_poll);
        }
        sleep = relieved(shared, &mut core);
    }
    let sleep = sleep.unwrap_or_else(|| core.sleeps(OnDuty::Thread, parking));
    (core, sleep)
}

/// The sleep while there is nothing to do for this thread, if that is so.
fn relieved(shared: &Shared, core: &mut Core) -> Option<Sleep> {
    let sleep = core.relieves()?;
    if sleep.wakes_other {
        shared.wake_up(OnDuty::StandIn);
    }
    Some(sleep)
}

/// Looks until there is nothing more for a while.
fn look<'a>(
    shared: &'a Shared,
    core: MutexGuard<'a, Core>,
    parking: &mut Parking,
    busy_poll: &mut BusyPoll,
) -> MutexGuard<'a, Core> {
    busy_poll.woke();
    let mut since = clock::now();
    let (mut core, mut looked) = shared.look(core, Reach::All, Busy::Wait);
    loop {
        let Looked { now, packets, .. } = looked;
        core.policy.found(now, packets);
        core.counts.thread_packets += packets;
        core = shared.give(core, now);
        core.bury_the_dead(now);
        let goes_on = core.policy.took_on_duty(now, parking, packets)
            && busy_poll.begins(since, clock::now(), clock::of_other_threads);
        if !goes_on {
            return core;
        }
        drop(core);
        match look_for_more(shared, busy_poll) {
            Some(more) => (core, since, looked) = more,
            None => return shared.lock(),
        }
    }
}

/// Busy polls until packets have arrived, and takes them; says since when. `None` if there were none in time, the
/// thread is to end, or somebody stands in.
fn look_for_more<'a>(
    shared: &'a Shared,
    busy_poll: &mut BusyPoll,
) -> Option<(MutexGuard<'a, Core>, Time, Looked)> {
    while !shared.stop.load(Ordering::Acquire) {
        let now = clock::now();
        if !busy_poll.goes_on(now, clock::of_other_threads) {
            break;
        }
        if let Some(core) = shared.try_lock() {
            if core.policy.is_held(now) {
                break;
            }
            let since = clock::now();
            let (mut core, looked) = shared.look(core, Reach::Hot, Busy::Leave);
            if looked.packets > 0 {
                return Some((core, since, looked));
            }
            // A timer may have had something to send.
            if !core.is_quiet(looked.now) {
                drop(shared.give(core, looked.now));
            }
        }
        for _ in 0..BUSY_POLL_SPINS {
            hint::spin_loop();
        }
    }
    None
}

/// How long a sleep lasts, from now on.
pub(crate) fn ns(sleep: &Sleep) -> u64 {
    sleep.until.since(clock::now()).as_ns_ceil()
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

/// What a sleeper waits for: all that packets arrive by, and behind it two descriptors of its own.
#[derive(Default)]
pub(crate) struct Descriptors {
    all: Vec<libc::pollfd>,
    /// Which sockets these are ([`crate::attachment::membership::Membership::layout`]).
    layout: Option<u32>,
}

impl Descriptors {
    /// Follows what sockets there are.
    pub(crate) fn renew(&mut self, core: &Core, own: [BorrowedFd<'_>; 2]) {
        let layout = Some(core.attachment.site.membership.layout);
        if mem::replace(&mut self.layout, layout) == layout {
            return;
        }
        let all = core.attachment.descriptors().chain(own);
        self.all = all
            .map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 })
            .collect();
    }

    /// Those that a sleeper waits for: its own wake even one who watches nothing else.
    pub(crate) fn watched(&mut self, watch: Watch) -> &mut [libc::pollfd] {
        let own = self.all.len().saturating_sub(2);
        let watched = &mut self.all[if watch == Watch::Sockets { 0 } else { own }..];
        for descriptor in &mut *watched {
            descriptor.revents = 0;
        }
        watched
    }

    /// Which of its own have woken it.
    pub(crate) fn own(&self) -> [bool; 2] {
        match &self.all[..] {
            [.., first, second] => [first, second].map(|descriptor| descriptor.revents != 0),
            _ => [false; 2],
        }
    }

    /// Whether anything has woken it but this socket.
    pub(crate) fn is_woken_beside(&self, port: usize) -> bool {
        let mut others = self.all.iter().enumerate().filter(|(other, _)| *other != port);
        others.any(|(_, descriptor)| descriptor.revents != 0)
    }
}
