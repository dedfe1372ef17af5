//! The NIC: one engine behind one lock.

use core::fmt;
use core::net::IpAddr;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;

use rdma::{Completion, Key, Qpn, Time};
use transport::cm::{CmConfig, CmEvent, Manager};
use transport::{Backlog, Config, CqId, Endpoint, Event, PdId, RegionSpec, RegisterError};
use wire::cm::ip::PortSpace;

use crate::fork::Nics;
use crate::inbox::{Busy, Inbox, Taken};
use crate::limits::{
    ACK_DELAY, ACK_INTERVAL_PACKETS, ANSWER_PATIENCE, BATCH_BEHIND, BATCH_BYTES, BATCH_REQUESTS,
    COMM_ID_SHIFT, FAREWELLS, PACE_SLACK, PAUSE_MAX, PAUSE_RETRY, POLLS_BEFORE_YIELD, PORT_PAUSE,
    PORT_TRIES, POSTS_PER_LOOK, REFILL_BYTES, RING_POLLS_BEFORE_YIELD, ROUNDS_FOR_OTHERS,
    SENDER_WAIT, SLOT_SHIFT, UNTAKEN_MAX, WINDOW_BYTES,
};
use crate::links::{Links, window_bytes};
use crate::outbox::Outbox;
use crate::ports::{PortChange, PortError};
use crate::progress::{Core, Publish};
use crate::receive::Reach;
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
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the fallback thread shares with the `Nic`.
pub(crate) struct Shared {
    core: Mutex<Core>,
    /// Locked before the core, by whoever looks what has arrived.
    pub(crate) inbox: Mutex<Inbox>,
    /// The outbox is back, and somebody has a claim to it.
    back: Condvar,
    pub(crate) events: Box<dyn EventSink>,
    /// Wakes the thread.
    pub(crate) wake: OwnedFd,
    /// Does so in time.
    pub(crate) timer: OwnedFd,
    /// Wakes who stands in for it.
    pub(crate) wake_stand_in: OwnedFd,
    /// Threads of the application that wait for an event and do not stand in.
    pub(crate) waiting: AtomicUsize,
    pub(crate) stop: AtomicBool,
}

impl Shared {
    /// A panic under the lock leaves an engine that is no worse than any other: it has no
    /// invariant that spans calls of ours.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock if nobody holds it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Core>> {
        match self.core.try_lock() {
            Ok(core) => Some(core),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Sends what is ready and delivers the events.
    ///
    /// The lock is not held while the kernel sends. If another thread is sending already, that one
    /// goes on with what is left to it here; but not for ever: then it is the fallback thread's.
    pub(crate) fn give<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
        now: Time,
    ) -> MutexGuard<'a, Core> {
        let events = &*self.events;
        let outbox = core.load(now);
        core.tell(now, events);
        match outbox {
            Some(outbox) => self.send(core, outbox, Some(events)),
            None => core,
        }
    }

    /// Before the end: sends the acknowledgements that would have waited, and takes leave of every
    /// peer. What waits for room at a destination may still get it, and what lies in rings is taken: who
    /// looks there must find a NIC that is there. Who has the file of counters open keeps it, with what
    /// was counted to the end.
    pub(crate) fn settle_debts<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
    ) -> MutexGuard<'a, Core> {
        let began = clock::now();
        let mut now = began;
        core.owe_nothing(now);
        loop {
            if let Some(outbox) = core.load(now) {
                core = self.send(core, outbox, None);
            }
            let waited = now.since(began);
            let is_waited_for =
                waited < PAUSE_MAX && core.is_paused() || waited < UNTAKEN_MAX && core.is_untaken();
            if !is_waited_for {
                break;
            }
            drop(core);
            std::thread::sleep(Duration::from_nanos(PAUSE_RETRY.as_ns_ceil()));
            core = self.lock();
            now = clock::now();
        }
        core.publish(now, Publish::Now);
        core
    }

    /// Sends what is in the outbox, and what comes up meanwhile. There is nothing that is to be told
    /// when the lock is given up.
    #[inline(never)]
    fn send<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
        mut outbox: Box<Outbox>,
        events: Option<&dyn EventSink>,
    ) -> MutexGuard<'a, Core> {
        let mut rounds = 0;
        loop {
            drop(core);
            outbox.send();
            core = self.lock();
            let is_full = core.unload(outbox);
            if core.is_claimed() {
                self.back.notify_all();
            }
            let for_others = core.is_left_behind();
            rounds += u32::from(for_others);
            if rounds > ROUNDS_FOR_OTHERS || !(is_full || for_others) {
                return core;
            }
            let now = clock::now();
            let more = core.load(now);
            if let Some(events) = events {
                core.tell(now, events);
            }
            match more {
                Some(more) => outbox = more,
                None => return core,
            }
        }
    }

    /// Waits until nobody is sending, and keeps others from it meanwhile; for `patience` at most.
    pub(crate) fn claim<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
        patience: Duration,
    ) -> MutexGuard<'a, Core> {
        let Some(links) = core.links.as_mut().filter(|links| links.outbox.is_none()) else {
            return core;
        };
        links.claims += 1;
        let waited = self.back.wait_timeout_while(core, patience, |core| !core.is_whole());
        let (mut core, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if let Some(links) = &mut core.links {
            links.claims -= 1;
        }
        core
    }

    /// The lock, with nobody sending or receiving, however long that takes.
    pub(crate) fn lock_whole(&self) -> (MutexGuard<'_, Core>, MutexGuard<'_, Inbox>) {
        let inbox = self.lock_inbox();
        let mut core = self.lock();
        while !core.is_whole() {
            core = self.claim(core, SENDER_WAIT);
        }
        (core, inbox)
    }

    /// Wakes whoever sleeps, to see what has changed.
    pub(crate) fn wake_all(&self) {
        sys::signal(self.wake.as_fd());
        sys::signal(self.wake_stand_in.as_fd());
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

impl fmt::Debug for Nic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nic").field("device", &self.device.name).finish_non_exhaustive()
    }
}

impl Nic {
    /// Opens `device` as the environment says: takes a range of QPNs, and UDP port 4791 of each of its addresses, which it
    /// shares with the other processes of this user.
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

    /// Takes part in connection management: answers for QP1 on behalf of every process of its
    /// addresses, from now on and without being called.
    ///
    /// # Errors
    /// What the kernel said about the files that the processes of the host share.
    pub fn manage(&self) -> io::Result<()> {
        self.start();
        self.answer_for_management()
    }

    /// Takes port `number` of `space` at `address`, or a free one for 0, for as long as the process
    /// lives or until it is released. With `shared`, others may have it too, of whom one listens.
    ///
    /// # Errors
    /// See [`PortError`].
    pub fn bind_port(
        &self,
        address: IpAddr,
        space: PortSpace,
        number: u16,
        shared: bool,
    ) -> Result<u16, PortError> {
        self.change_port(address, (space, number), PortChange::Bind { shared })
    }

    /// Has the requests for a port that this NIC has taken brought here, or not any more. What is
    /// brought here meets the listeners of the manager.
    ///
    /// # Errors
    /// [`PortError::InUse`] if another listens there; see [`PortError`].
    pub fn listen_port(
        &self,
        address: IpAddr,
        space: PortSpace,
        number: u16,
        listens: bool,
    ) -> Result<(), PortError> {
        let what = if listens { PortChange::Listen } else { PortChange::Unlisten };
        self.change_port(address, (space, number), what).map(|_| ())
    }

    /// Gives a port back. `listens` says which, where this NIC has it more than once.
    ///
    /// # Errors
    /// See [`PortError`].
    pub fn release_port(
        &self,
        address: IpAddr,
        space: PortSpace,
        number: u16,
        listens: bool,
    ) -> Result<(), PortError> {
        self.change_port(address, (space, number), PortChange::Release { listens }).map(|_| ())
    }

    fn change_port(
        &self,
        address: IpAddr,
        port: (PortSpace, u16),
        what: PortChange,
    ) -> Result<u16, PortError> {
        let mut result = Err(PortError::Address);
        for _ in 0..PORT_TRIES {
            // The lock is not held while somebody else is waited for.
            result = match &self.shared.lock().links {
                Some(links) => links.change_port(address, port, what),
                None => return Err(PortError::Address),
            };
            match &result {
                Err(PortError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_nanos(PORT_PAUSE.as_ns_ceil()));
                }
                _ => break,
            }
        }
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
        if self.is_dead() {
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

    fn answer_for_management(&self) -> io::Result<()> {
        match &self.shared.lock().links {
            Some(links) => links.manage(),
            None => Ok(()),
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

    fn is_dead(&self) -> bool {
        self.shared.lock().links.is_none()
    }
}

/// Whether what was posted last may wait for more; `posts` have come in a row, or did the last time.
fn may_wait(backlog: &Backlog, posts: usize) -> bool {
    backlog.is_answer_due
        && backlog.in_flight.max(posts) > BATCH_BEHIND
        && backlog.waiting < BATCH_REQUESTS
        && backlog.waiting_bytes < BATCH_BYTES
}

impl Drop for Nic {
    fn drop(&mut self) {
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if self.is_dead() {
            // The thread is the parent's: here there is nothing to wait for.
            core::mem::forget(thread);
        } else if let Some(thread) = thread {
            self.shared.stop.store(true, Ordering::Release);
            sys::signal(self.shared.wake.as_fd());
            let _ = thread.join();
        }
        // Nobody else is in any call of this NIC, but one that stands in may be sending or receiving.
        let (core, inbox) = self.shared.lock_whole();
        if let Some(links) = &core.links {
            links.leave_rings();
        }
        drop(self.shared.settle_debts(core));
        drop(inbox);
        // Under the list's lock, so that no fork comes between leaving one group and the next.
        let mut nics = Nics::lock();
        nics.remove(&self.shared);
        let (mut core, mut inbox) = self.shared.lock_whole();
        inbox.forget();
        if let Some(mut links) = core.links.take() {
            links.leave();
        }
        drop(core);
        drop(inbox);
        // Who stands in finds nothing left to look after.
        self.shared.wake_all();
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::Link;
    use rdma::{Gid, Span};
    use transport::Route;
    use wire::cm::sidr;

    struct Nothing;

    impl EventSink for Nothing {
        fn event(&self, _: Event) {}
    }

    /// A NIC at an address of loopback, which is reached by UDP alone and has no thread.
    pub(crate) fn open(address: &str) -> Nic {
        let device = DeviceInfo::find(&format!("lo/{address}"), 0).unwrap();
        let options = Options { link: Link::Udp, ..Options::default() };
        Nic::open_with(&device, Box::new(Nothing), &options).unwrap()
    }

    /// Has a packet to send, to nobody.
    fn ask(nic: &Nic) {
        let own: Gid = nic.shared.lock().links.as_ref().unwrap().sockets[0].address().into();
        let route = Route {
            destination: core::net::Ipv4Addr::new(127, 0, 135, 9).into(),
            source: own,
            traffic_class: 0,
            hop_limit: 64,
            source_port: crate::limits::ROCE_PORT,
        };
        nic.with_manager(|manager, now| manager.ask(now, route, sidr::Req::default()).unwrap());
    }

    fn sent(nic: &Nic) -> u64 {
        nic.shared.lock().counts.tx_packets
    }

    #[test]
    fn what_comes_up_while_somebody_sends_is_left_to_whoever_sends() {
        let nic = open("127.0.135.1");
        let outbox = nic.shared.lock().links.as_mut().unwrap().outbox.take().unwrap();
        ask(&nic);
        let mut core = nic.shared.lock();
        assert_eq!(core.counts.tx_packets, 0);
        assert!(!core.is_left_behind(), "somebody is about to send it");
        core.unload(outbox);
        assert!(core.is_left_behind());
        // The fallback thread, if it sleeps, is woken for what nobody else sends.
        core.sleeps_until = clock::now() + Span::from_ms(1_000);
        assert!(core.must_wake_duty());
        drop(nic.shared.give(core, clock::now()));
        assert_eq!(sent(&nic), 1);
        assert!(!nic.shared.lock().is_left_behind());
    }

    /// Sending waits for room at the second NIC, which does not look by itself.
    fn paused_for(nic: &Nic, full: &Nic) {
        let slot = full.shared.lock().links.as_ref().unwrap().registry.slot();
        let mut core = nic.shared.lock();
        let links = core.links.as_mut().unwrap();
        while !links.flow.as_mut().unwrap().plan(slot, 4096) {}
        links.paused = Some((slot, clock::now()));
    }

    #[test]
    fn a_message_of_connection_management_does_not_wait_for_room_that_others_wait_for() {
        let (nic, full) = (open("127.0.135.3"), open("127.0.135.4"));
        paused_for(&nic, &full);
        ask(&nic);
        assert_eq!(sent(&nic), 1);
        assert!(nic.shared.lock().is_paused());
    }

    #[test]
    fn who_ends_waits_for_room_but_not_for_ever() {
        let (nic, full) = (open("127.0.135.5"), open("127.0.135.6"));
        let takes = || {
            let core = full.shared.lock();
            let flow = core.links.as_ref().unwrap().flow.as_ref().unwrap();
            flow.settle(flow.sent_to_us());
        };
        let given_up = |core: &Core| {
            assert!(!core.is_paused());
            core.counts.tx_pauses_given_up
        };
        // The machine may have no processor for the other before the wait is over.
        let waited = (0..20).any(|_| {
            paused_for(&nic, &full);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(2));
                    takes();
                });
                let core = nic.shared.lock();
                let before = core.counts.tx_pauses_given_up;
                given_up(&nic.shared.settle_debts(core)) == before
            })
        });
        assert!(waited);
        paused_for(&nic, &full);
        let core = nic.shared.lock();
        let before = core.counts.tx_pauses_given_up;
        assert_eq!(given_up(&nic.shared.settle_debts(core)), before + 1);
    }

    #[test]
    fn who_has_a_claim_is_waited_for_and_has_the_rest_sent() {
        let nic = open("127.0.135.2");
        let outbox = nic.shared.lock().links.as_mut().unwrap().outbox.take().unwrap();
        std::thread::scope(|scope| {
            let counts = scope.spawn(|| nic.counts());
            let claims = || nic.shared.lock().links.as_ref().unwrap().claims;
            while claims() == 0 {
                std::thread::yield_now();
            }
            ask(&nic);
            let mut core = nic.shared.lock();
            core.unload(outbox);
            assert!(core.load(clock::now()).is_none(), "nobody else begins");
            nic.shared.back.notify_all();
            drop(core);
            assert_eq!(counts.join().unwrap().tx_packets, 0, "what was sent by then");
        });
        assert_eq!(sent(&nic), 1);
    }
}
