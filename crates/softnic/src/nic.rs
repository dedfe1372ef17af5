//! A NIC, as its users call it.
//!
//! Every call takes the engine's lock, does its work, and sends and tells what that has made ready
//! ([`Shared::give`]). A poll that finds nothing takes what has arrived first ([`Shared::take`]).
//!
//! What belongs to other rooms is said there: ports of connection management ([`crate::ports`]), groups
//! ([`crate::groups`]), waiting for events ([`crate::stand_in`]), the end ([`crate::closing`]).

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicUsize};
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rdma::{Completion, Key, Qpn, Time};
use transport::cm::{CmConfig, CmEvent, Manager};
use transport::{Backlog, Config, CqId, Endpoint, Event, PdId, RegionSpec, RegisterError};

use crate::fork::Nics;
use crate::inbox::{Busy, Inbox, Taken};
use crate::limits::{
    ACK_DELAY, ACK_INTERVAL_PACKETS, ANSWER_PATIENCE, BATCH_BEHIND, BATCH_BYTES, BATCH_REQUESTS,
    COMM_ID_SHIFT, FAREWELLS, PACE_SLACK, POLLS_BEFORE_YIELD, POSTS_PER_LOOK, REFILL_BYTES,
    RING_POLLS_BEFORE_YIELD, SENDER_WAIT, SLOT_SHIFT, WINDOW_BYTES,
};
use crate::links::{Links, window_bytes};
use crate::progress::Core;
use crate::receive::Reach;
use crate::shared::Shared;
use crate::{Counts, DeviceInfo, OpenError, Options, ProcessMemory, clock, guard, sys, thread};

/// Where the events of a [`Nic`] go.
pub trait EventSink: Send + Sync {
    /// An event of the engine. Called with the engine's lock held: it must not call the `Nic`, and
    /// must not fork.
    fn event(&self, event: Event);

    /// An event of the connection manager. Called as [`EventSink::event`] is. Who makes no
    /// connections need not hear of any.
    fn connection(&self, event: CmEvent) {
        drop(event);
    }
}

/// An open device: a port with its engine, its sockets and its thread.
///
/// Any thread may use it. Its work is done under one lock, by whoever holds it: posting and polling
/// send and receive in the caller's thread, and the fallback thread does what is left. While the
/// kernel sends or receives, the lock is free; what other threads post then leaves by the one that is
/// sending, and what they wait for comes by the one that is receiving.
///
/// After a `fork` the child's copy is dead: its engine can still be called, so that objects can be
/// destroyed, but nothing is sent or received. The child can open the device anew.
pub struct Nic {
    device: DeviceInfo,
    shared: Arc<Shared>,
    pub(crate) thread: Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for Nic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nic").field("device", &self.device.name).finish_non_exhaustive()
    }
}

impl Nic {
    /// Opens `device` as the environment says: takes a range of QPNs, and UDP port 4791 of each of its
    /// addresses, which it shares with the other processes of this user.
    ///
    /// # Errors
    /// A port that belongs to somebody else, an environment variable that says nothing valid, or a
    /// call that the kernel refused.
    pub fn open(device: &DeviceInfo, events: Box<dyn EventSink>) -> Result<Self, OpenError> {
        let options = Options::from_environment()?;
        Self::open_with(device, events, &options)
    }

    /// Opens `device` as `options` say.
    ///
    /// # Errors
    /// As [`Nic::open`].
    pub fn open_with(
        device: &DeviceInfo,
        events: Box<dyn EventSink>,
        options: &Options,
    ) -> Result<Self, OpenError> {
        // A fork in the middle of this would leave the child with descriptors that nobody closes.
        let mut nics = Nics::lock();
        let eventfd =
            || sys::eventfd().map_err(|error| OpenError::Io { doing: "opening an eventfd", error });
        let (wake, wake_stand_in) = (eventfd()?, eventfd()?);
        let timer =
            sys::timer().map_err(|error| OpenError::Io { doing: "opening a timer", error })?;
        let links = Links::open(device, options)?;
        if let Some(shortcomings) = device.shortcomings() {
            tracing::warn!("{shortcomings}");
        }
        let first = u32::from(links.registry.slot()) << SLOT_SHIFT;
        let config = Config {
            qpns: first..first + (1 << SLOT_SHIFT),
            active_mtu: device.active_mtu,
            window_bytes: window_bytes(&links.sockets, WINDOW_BYTES),
            refill_bytes: REFILL_BYTES,
            ack_interval_packets: ACK_INTERVAL_PACKETS,
            ack_delay: ACK_DELAY,
            farewells: FAREWELLS,
            recovery: options.recovery,
            congestion: options.congestion.congestion,
            notification: Some(options.congestion.notification),
            pace_slack: PACE_SLACK,
            ..Config::default()
        };
        tracing::debug!(device = %device.name, interface = %device.interface, ?config, "opened");
        // SAFETY: the engine calls it with addresses inside registered regions, and our callers
        // with those that their callers have just passed in.
        let memory = unsafe { ProcessMemory::new(&mut nics) };
        let first = u32::from(links.registry.slot()) << COMM_ID_SHIFT;
        let manager = Manager::new(CmConfig {
            ids: first..first + (1 << COMM_ID_SHIFT),
            guid: device.guid,
            seed: sys::random()
                .map_err(|error| OpenError::Io { doing: "asking for a random number", error })?,
        });
        let core = Core::new(Endpoint::new(config), manager, memory, links);
        let shared = Arc::new(Shared {
            core: Mutex::new(core),
            inbox: Mutex::new(Inbox::new()),
            back: Condvar::new(),
            events,
            wake,
            timer,
            wake_stand_in,
            waiting: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
        });
        nics.add(&shared);
        Ok(Self { device: device.clone(), shared, thread: Mutex::new(None) })
    }

    /// The device that was opened.
    pub fn device(&self) -> &DeviceInfo {
        &self.device
    }

    /// What has been counted beside the engine's [`transport::Stats`].
    pub fn counts(&self) -> Counts {
        // What is being sent is counted afterwards.
        let core = self.shared.claim(self.shared.lock(), SENDER_WAIT);
        let counts = core.counts;
        if core.is_left_behind() {
            self.finish(core, clock::now());
        }
        counts
    }

    /// Runs `f` on the engine, then sends what that has made ready, and delivers the events. `f`
    /// must not fork.
    ///
    /// The memory is for inline data: it may be asked for any address that the caller's caller has
    /// vouched for.
    pub fn with<R>(&self, f: impl FnOnce(&mut Endpoint, &mut ProcessMemory, Time) -> R) -> R {
        let mut guard = self.shared.lock();
        let core = &mut *guard;
        let now = clock::now();
        let result = f(&mut core.endpoint, &mut core.memory, now);
        self.finish(guard, now);
        result
    }

    /// Runs `f`, which posts send requests to `qpn`, as [`Nic::with`] does; but what it posts may
    /// leave a little later, together with more.
    ///
    /// A program that has several requests in flight is after throughput, and a call of the kernel
    /// is most of what a small request costs. So what is posted behind them, to whichever queue
    /// pairs, waits until there is enough for a train, or until this NIC is called for any other
    /// reason: a poll that finds nothing, or, without the program, the acknowledgement that is on
    /// its way, or the thread, which sleeps for [`HELD_MAX`](crate::limits::HELD_MAX) at most while
    /// something may wait so.
    ///
    /// A program that posts on and on is taken what has arrived meanwhile.
    pub fn post<R>(
        &self,
        qpn: Qpn,
        f: impl FnOnce(&mut Endpoint, &mut ProcessMemory, Time) -> R,
    ) -> R {
        let mut guard = self.shared.lock();
        let core = &mut *guard;
        let mut now = clock::now();
        let result = f(&mut core.endpoint, &mut core.memory, now);
        core.posts = core.posts.saturating_add(1);
        let posts = core.posts.max(core.burst);
        core.posts_unlooked += 1;
        let backlog = core.endpoint.backlog(qpn, now, ANSWER_PATIENCE);
        if backlog.is_none_or(|backlog| !may_wait(&backlog, posts)) {
            if core.posts_unlooked > POSTS_PER_LOOK {
                let taken;
                (guard, taken) = self.shared.take(guard, Reach::All, Busy::Leave);
                guard.inline_packets += taken.packets;
                now = taken.now;
            }
            self.finish(guard, now);
        }
        result
    }

    /// Registers memory, after a look whether faults in it would still be noticed: a program may
    /// have put signal handlers of its own in the place of ours since.
    ///
    /// # Errors
    /// See [`RegisterError`].
    pub fn register(&self, pd: PdId, region: RegionSpec) -> Result<Key, RegisterError> {
        guard::renew();
        self.with(|endpoint, _, _| endpoint.register(pd, region))
    }

    /// Takes `length` bytes of the device's own memory, zeroed, at an address that is a multiple of
    /// `align`, a power of two. `None` if there are no more. What is not given back goes with the
    /// NIC.
    pub fn take_device_memory(&self, length: u64, align: u64) -> Option<u64> {
        self.shared.lock().device_memory.take(length, align)
    }

    /// Gives back what [`Nic::take_device_memory`] gave. No region may be registered over it any
    /// more.
    pub fn give_back_device_memory(&self, address: u64, length: u64) {
        self.shared.lock().device_memory.give_back(address, length);
    }

    /// Runs `f` on the connection manager, as [`Nic::with`] does on the engine.
    pub fn with_manager<R>(&self, f: impl FnOnce(&mut Manager, Time) -> R) -> R {
        let mut core = self.shared.lock();
        let now = clock::now();
        let result = f(&mut core.manager, now);
        self.finish(core, now);
        result
    }

    /// Changes which multicast groups have sockets, and has the fallback thread look at them. A
    /// forked child's dead copy has none.
    pub(crate) fn change_groups(
        &self,
        change: impl FnOnce(&mut Links) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut core = self.shared.lock();
        let result = core.links.as_mut().map_or(Ok(()), change);
        drop(core);
        // A socket that is gone is closed at once.
        self.shared.lock_inbox().forget();
        self.shared.wake_all();
        result
    }

    /// Takes completions of `cq` into `out`, and says how many. When there are none yet, it first
    /// takes what has arrived, without waiting.
    pub fn poll_cq(&self, cq: CqId, out: &mut [Completion]) -> usize {
        if out.is_empty() {
            return 0;
        }
        self.poll_for(|core| core.completions(cq, out))
    }

    /// Takes one completion of `cq`, with the time of [`clock`] at which it was written; as
    /// [`Nic::poll_cq`].
    pub fn poll_cq_timed(&self, cq: CqId) -> Option<(Completion, Time)> {
        let mut found = None;
        self.poll_for(|core| {
            found = core.endpoint.poll_cq_timed(cq);
            usize::from(found.is_some())
        });
        found
    }

    /// Lets `take` take completions, and returns how many it found.
    fn poll_for(&self, mut take: impl FnMut(&mut Core) -> usize) -> usize {
        let mut core = self.shared.lock();
        let count = take(&mut core);
        if count > 0 {
            return count;
        }
        let (mut core, taken) = self.shared.take(core, Reach::Hot, Busy::Leave);
        let Taken { now, packets, is_served } = taken;
        core.inline_packets += packets;
        let is_quiet = packets == 0 && core.is_quiet(now);
        let count = if is_quiet { 0 } else { take(&mut core) };
        core.polled(now, count);
        let has_rings = core.links.as_ref().is_some_and(Links::has_rings);
        let patience = if has_rings { RING_POLLS_BEFORE_YIELD } else { POLLS_BEFORE_YIELD };
        // Another thread works for us, and a third may be about to answer it.
        let is_served = count == 0 && (is_served || !core.is_whole());
        let in_vain = is_served || core.empty_polls > patience;
        if is_quiet {
            drop(core);
        } else {
            self.finish(core, now);
        }
        if in_vain {
            // Whoever is to send what we wait for may need this very core.
            std::thread::yield_now();
        }
        count
    }

    /// Takes what has arrived and runs the timers, without waiting.
    pub fn poll(&self) {
        let (mut core, taken) = self.shared.take(self.shared.lock(), Reach::All, Busy::Wait);
        core.inline_packets += taken.packets;
        self.finish(core, taken.now);
    }

    /// Starts the fallback thread, which makes progress while the application does not call. From
    /// then on the NIC answers for QP1 too: that nobody here offers a service, if it comes to that.
    /// A second call changes nothing, nor does one on a forked child's dead copy.
    pub fn start(&self) {
        // Asked first: the lock of a dead copy may be held for ever by a thread of the parent.
        if self.shared.is_dead() {
            return;
        }
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_some() {
            return;
        }
        match thread::spawn(Arc::clone(&self.shared)) {
            Ok(handle) => *thread = Some(handle),
            // The application makes all progress itself, whenever it polls.
            Err(error) => tracing::warn!(%error, "no fallback thread"),
        }
        drop(thread);
        if let Err(error) = self.answer_for_management() {
            tracing::debug!(%error, "does not answer for QP1");
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Sends, delivers events, and wakes the fallback thread, or who stands in for it, if it would
    /// sleep for too long.
    fn finish(&self, core: MutexGuard<'_, Core>, now: Time) {
        let mut core = self.shared.give(core, now);
        let wake = core.must_wake_duty();
        let is_held = core.duty.is_held(now);
        drop(core);
        if wake {
            let shared = &self.shared;
            sys::signal(if is_held { &shared.wake_stand_in } else { &shared.wake }.as_fd());
        }
    }
}

/// Whether what was posted last may wait for more; `posts` have come in a row, or did the last time.
fn may_wait(backlog: &Backlog, posts: usize) -> bool {
    backlog.is_answer_due
        && backlog.in_flight.max(posts) > BATCH_BEHIND
        && backlog.waiting < BATCH_REQUESTS
        && backlog.waiting_bytes < BATCH_BYTES
}
