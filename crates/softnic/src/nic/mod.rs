//! A soft NIC's interface to its users.
//!
//! Every call takes the engine's lock and does its work; then it sends the packets and reports the events
//! that are ready ([`Shared::give`]). A poll that finds nothing takes what has arrived first ([`Shared::look`]).
//!
//! Ports of connection management are in `ports.rs`, multicast groups in `groups.rs`. What happens before a
//! NIC is gone is described in [`crate::progress::shared`].

mod groups;
mod ports;

pub use self::groups::GroupError;

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rdma::{Completion, Gid, Key, Mtu, Qpn, Time};
use transport::cm::{CmConfig, Manager};
use transport::{
    BetweenHosts, Config, Congestion, CqId, Endpoint, PdId, RegionSpec, RegisterError,
};

use crate::attachment::Attachment;
use crate::attachment::membership::Membership;
use crate::congestion::CongestionSettings;
use crate::fork::Nics;
use crate::limits::{
    ACK_DELAY, ACK_INTERVAL_PACKETS, COMM_ID_SHIFT, FINAL_ACKNOWLEDGEMENTS, NOT_READY_GRACE,
    OUT_OF_ORDER_BYTES, OUT_OF_ORDER_PACKETS, PACE_SLACK, REFILL_BYTES, REFILL_BYTES_BETWEEN_HOSTS,
    SENDER_WAIT, SLOT_SHIFT, WINDOW_BYTES,
};
use crate::memory::device::DeviceMemory;
use crate::memory::guard;
use crate::progress::core::Core;
use crate::progress::policy::turns::Reach;
use crate::progress::policy::{OnDuty, Policy, Posted};
use crate::progress::shared::{Busy, Looked, Shared};
use crate::progress::stand_in::StandIn;
use crate::progress::thread;
use crate::udp::inbox::Inbox;
use crate::{
    Counts, DeviceInfo, EventSink, NarrowPath, OpenError, Options, ProcessMemory, clock, sys,
};

/// An open device: a port with its engine, its sockets and its thread.
///
/// Any thread may use it. Its work is done under one lock, by whoever holds it: posting and polling
/// send and receive in the caller's thread, and the progress thread does what is left. While the
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
        let attachment = Attachment::open(device, options)?;
        let membership = &attachment.site.membership;
        let slot = u32::from(membership.registry.slot());
        if let Some(shortcomings) = device.shortcomings() {
            // `ferroce run` and `ferroce devices` say so, too.
            tracing::info!("{shortcomings}");
        }
        let random = || {
            let doing = "asking for a random number";
            sys::random().map_err(|error| OpenError::Io { doing, error })
        };
        let first = slot << SLOT_SHIFT;
        let settings = options.congestion.at(&device.interface).map_err(OpenError::Setting)?;
        let CongestionSettings { congestion, notification, .. } = settings;
        // A lab is what its scenario says.
        let between_hosts = match device.lab {
            None => settings.between_hosts(),
            Some(_) => congestion,
        };
        // A window that follows the path need not be kept to what a socket holds.
        let (window_bytes, refill_bytes) = match between_hosts {
            Congestion::Bbr(_) => (u64::MAX, REFILL_BYTES_BETWEEN_HOSTS),
            _ => (membership.window_bytes(WINDOW_BYTES), REFILL_BYTES),
        };
        let config = Config {
            qpns: first..first + (1 << SLOT_SHIFT),
            seed: Some(random()?),
            active_mtu: device.active_mtu,
            window_bytes: membership.window_bytes(WINDOW_BYTES),
            refill_bytes: REFILL_BYTES,
            ack_interval_packets: ACK_INTERVAL_PACKETS,
            ack_delay: ACK_DELAY,
            not_ready_grace: NOT_READY_GRACE,
            final_acknowledgements: FINAL_ACKNOWLEDGEMENTS,
            recovery: options.recovery,
            congestion,
            notification: Some(notification),
            pace_slack: PACE_SLACK,
            between_hosts: Some(BetweenHosts {
                congestion: between_hosts,
                window_bytes,
                refill_bytes,
                signs: options.signs,
                out_of_order_packets: OUT_OF_ORDER_PACKETS,
                out_of_order_bytes: OUT_OF_ORDER_BYTES,
                stride_max: device.stride.unwrap_or(0),
            }),
            ..Config::default()
        };
        tracing::debug!(device = %device.name, interface = %device.interface, ?config, "opened");
        // SAFETY: the engine calls it with addresses inside registered regions, and our callers
        // with those that their callers have just passed in.
        let memory = unsafe { ProcessMemory::new(&mut nics) };
        let first = slot << COMM_ID_SHIFT;
        let manager = Manager::new(CmConfig {
            ids: first..first + (1 << COMM_ID_SHIFT),
            guid: random()?,
            seed: random()?,
            mtu: device.active_mtu,
        });
        let core = Core {
            endpoint: Endpoint::new(config),
            manager,
            memory,
            device_memory: DeviceMemory::default(),
            counts: Counts::default(),
            attachment,
            policy: Policy::default(),
        };
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
        nics.add(Arc::downgrade(&shared) as _);
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

    /// Whether `gid` is of another host than ours, for [`transport::QpChange::between_hosts`].
    pub fn is_of_another_host(&self, gid: Gid) -> bool {
        let mut core = self.shared.lock();
        !core.attachment.site.membership.is_of_this_host(gid.ip(), clock::now())
    }

    /// Says so if the path to `gid` is too narrow for packets of `path_mtu`.
    pub fn narrow_path(&self, gid: Gid, path_mtu: Mtu) -> Option<NarrowPath> {
        let bytes = self.path_bytes(gid)?;
        NarrowPath::of(gid, bytes, path_mtu)
    }

    /// The largest path MTU that fits the port, and the path to `gid` as far as it is known.
    pub fn path_mtu_to(&self, gid: Gid) -> Mtu {
        let port = self.device.active_mtu;
        self.path_bytes(gid).map_or(port, |bytes| port.min(Mtu::fitting(bytes)))
    }

    fn path_bytes(&self, gid: Gid) -> Option<u32> {
        self.shared.lock().attachment.site.membership.path_bytes(gid, clock::now())
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
    /// pairs, waits until there is enough for a GSO batch, or until this NIC is called for any other
    /// reason: a poll that finds nothing, or, without the program, the acknowledgement that is on
    /// its way, or the thread, which sleeps for [`HELD_MAX`](crate::limits::HELD_MAX) at most while
    /// something may wait so.
    ///
    /// After [many posts](crate::limits::POSTS_PER_LOOK) without a poll, a post also receives.
    pub fn post<R>(
        &self,
        qpn: Qpn,
        f: impl FnOnce(&mut Endpoint, &mut ProcessMemory, Time) -> R,
    ) -> R {
        let mut guard = self.shared.lock();
        let core = &mut *guard;
        let mut now = clock::now();
        let result = f(&mut core.endpoint, &mut core.memory, now);
        let posted = core.policy.posted(now, &core.endpoint.pressure(Some(qpn)));
        if posted == Posted::LooksFirst {
            let looked;
            (guard, looked) = self.shared.look(guard, Reach::All, Busy::Leave);
            guard.policy.took(looked.packets);
            now = looked.now;
        }
        if posted != Posted::Waits {
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

    /// Changes which multicast groups have sockets, and has the progress thread look at them. A
    /// forked child's dead copy has none.
    fn change_groups(
        &self,
        change: impl FnOnce(&mut Membership) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut core = self.shared.lock();
        if core.attachment.is_dead() {
            return Ok(());
        }
        let result = change(&mut core.attachment.site.membership);
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
        let (mut core, looked) = self.shared.look(core, Reach::Hot, Busy::Leave);
        let Looked { now, packets, is_served } = looked;
        core.policy.took(packets);
        let is_quiet = packets == 0 && core.is_quiet(now);
        let count = if is_quiet { 0 } else { take(&mut core) };
        let carrier = core.attachment.site.paths.carrier();
        let is_served = is_served || !core.attachment.sender.is_whole();
        let yields = core.policy.polled(now, count, is_served, carrier);
        if is_quiet {
            drop(core);
        } else {
            self.finish(core, now);
        }
        if yields {
            std::thread::yield_now();
        }
        count
    }

    /// Takes what has arrived and runs the timers, without waiting.
    pub fn poll(&self) {
        let (mut core, looked) = self.shared.look(self.shared.lock(), Reach::All, Busy::Wait);
        core.policy.took(looked.packets);
        self.finish(core, looked.now);
    }

    /// Starts the progress thread, which makes progress while the application does not call. From
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
            Err(error) => tracing::warn!(%error, "no progress thread"),
        }
        drop(thread);
        if let Err(error) = self.answer_for_management() {
            tracing::debug!(%error, "does not answer for QP1");
        }
    }

    /// For threads that wait for an event of this NIC.
    pub fn stand_in(&self) -> StandIn {
        StandIn::of(&self.shared)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Sends, delivers events, and wakes the progress thread, or who stands in for it, if it would
    /// sleep for too long.
    fn finish(&self, core: MutexGuard<'_, Core>, now: Time) {
        let mut core = self.shared.give(core, now);
        let late = core.wakes(now);
        drop(core);
        if let Some(late) = late {
            self.shared.wake_up(late);
        }
    }
}

impl Drop for Nic {
    fn drop(&mut self) {
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if self.shared.is_dead() {
            // The thread is the parent's: here there is nothing to wait for.
            core::mem::forget(thread);
        } else if let Some(thread) = thread {
            self.shared.stop.store(true, Ordering::Release);
            self.shared.wake_up(OnDuty::Thread);
            let _ = thread.join();
        }
        // Nobody else is in any call of this NIC, but one that stands in may be sending or receiving.
        let (core, inbox) = self.shared.lock_whole();
        core.attachment.site.paths.refuse();
        drop(self.shared.settle_debts(core));
        drop(inbox);
        // Under the list's lock, so that no fork comes between leaving one group and the next.
        let mut nics = Nics::lock();
        nics.remove(&*self.shared);
        let (mut core, mut inbox) = self.shared.lock_whole();
        inbox.forget();
        core.attachment.leave();
        drop(core);
        drop(inbox);
        // Who stands in finds nothing left to look after.
        self.shared.wake_all();
    }
}
