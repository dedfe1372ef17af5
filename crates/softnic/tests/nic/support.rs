//! Two NICs of this process, with a queue pair each, connected to each other.

use core::time::Duration;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use rdma::{
    Access, Completion, CompletionStatus, Gid, Key, Operation, Psn, QKey, QpState, QpType, Qpn,
    RecvRequest, SendFlags, Sge, WorkRequest,
};
use softnic::{DeviceInfo, EventSink, GidEntry, Nic, Options};
use transport::{
    AddressVector, BringUp, CqId, Event, Notify, PdId, QpCapacity, QpChange, QpSpec, Recovery,
    RegionSpec,
};

/// Longer than any test may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Keeps the events, and signals a descriptor at each, if there is one.
#[derive(Clone, Default)]
pub(crate) struct Events(pub Arc<Mutex<Vec<Event>>>, Arc<OnceLock<[UnixStream; 2]>>);

impl EventSink for Events {
    fn event(&self, event: Event) {
        self.0.lock().unwrap().push(event);
        if let Some([near, _]) = self.1.get() {
            let mut near = near;
            // A descriptor that is not read stays readable.
            let _ = near.write(&[1]);
        }
    }
}

impl Events {
    /// Forgets them.
    pub(crate) fn clear(&self) {
        let mut events = self.0.lock().unwrap();
        if let Some([_, far]) = self.1.get() {
            let mut far = far;
            while far.read(&mut [0; 64]).is_ok_and(|length| length > 0) {}
        }
        events.clear();
    }

    pub(crate) fn contains(&self, event: Event) -> bool {
        self.0.lock().unwrap().contains(&event)
    }

    /// A descriptor that is readable once there is an event.
    pub(crate) fn doorbell(&self) -> BorrowedFd<'_> {
        let [_, far] = self.1.get_or_init(|| {
            let (near, far) = UnixStream::pair().unwrap();
            near.set_nonblocking(true).unwrap();
            far.set_nonblocking(true).unwrap();
            [near, far]
        });
        far.as_fd()
    }
}

/// A NIC with one queue pair and one region.
pub(crate) struct Host {
    pub(crate) nic: Nic,
    kind: QpType,
    /// The local ACK timeout of the queue pairs that are connected from now on.
    pub(crate) timeout: u8,
    pub(crate) events: Events,
    pub(crate) pd: PdId,
    pub(crate) cq: CqId,
    pub(crate) qpn: Qpn,
    pub(crate) key: Key,
    pub(crate) memory: Box<[u8]>,
}

pub(crate) const QUEUE: u32 = 256;
/// The first PSN of all queue pairs.
pub(crate) const FIRST_PSN: Psn = Psn::new(100);
pub(crate) const Q_KEY: QKey = QKey(0x1111);
/// The local ACK timeout, 4.096 us x 2^17 (IBTA vol 1, 9.7.6.1.3): on a busy machine a peer may repeatedly
/// wait for a processor for tenths of a second.
const TIMEOUT: u8 = 17;
/// The same where no answer is expected, 17 ms, and where packets or peers are lost, 67 ms.
pub(crate) const IMPATIENT: u8 = 12;
pub(crate) const LOSSY: u8 = 14;
/// The number of retries.
pub(crate) const RETRIES: u8 = 7;

impl Host {
    /// On loopback, with an address of its own.
    pub(crate) fn open(address: &str, kind: QpType, bytes: usize) -> Self {
        Self::open_with(address, kind, bytes, &options())
    }

    pub(crate) fn open_with(address: &str, kind: QpType, bytes: usize, options: &Options) -> Self {
        let device = DeviceInfo::find(&format!("lo/{address}"), 0).unwrap();
        let events = Events::default();
        let nic = Nic::open_with(&device, Box::new(events.clone()), options).unwrap();
        Self::on(nic, events, kind, bytes)
    }

    pub(crate) fn on(nic: Nic, events: Events, kind: QpType, bytes: usize) -> Self {
        let memory = vec![0_u8; bytes].into_boxed_slice();
        let address = memory.as_ptr().expose_provenance() as u64;
        let (pd, cq, key) = nic.with(|endpoint, _, _| {
            let pd = endpoint.alloc_pd().unwrap();
            let cq = endpoint.create_cq(4096).unwrap();
            let access = Access::LOCAL_WRITE
                | Access::REMOTE_WRITE
                | Access::REMOTE_READ
                | Access::REMOTE_ATOMIC;
            let length = bytes as u64;
            let region = RegionSpec { address, length, iova: address, access };
            (pd, cq, endpoint.register(pd, region).unwrap())
        });
        let mut host =
            Self { nic, kind, timeout: TIMEOUT, events, pd, cq, qpn: Qpn::new(0), key, memory };
        host.qpn = host.create_qp(kind);
        host
    }

    pub(crate) fn create_qp(&self, kind: QpType) -> Qpn {
        let (send_wr, recv_wr) = (QUEUE, QUEUE);
        let spec = QpSpec {
            kind,
            pd: self.pd,
            send_cq: self.cq,
            recv_cq: self.cq,
            srq: None,
            capacity: QpCapacity { send_wr, recv_wr, send_sge: 2, recv_sge: 2, inline: 64 },
            signal_all: false,
        };
        self.nic.with(|endpoint, _, _| endpoint.create_qp(spec)).unwrap()
    }

    pub(crate) fn address(&self) -> u64 {
        self.memory.as_ptr().expose_provenance() as u64
    }

    /// The GID that tests use: the address that was asked for.
    pub(crate) fn gid(&self) -> GidEntry {
        *self.nic.device().gids.iter().rfind(|entry| entry.usable).unwrap()
    }

    /// Connects to the queue pair of another NIC.
    pub(crate) fn connect(&self, peer: &Self) {
        self.connect_qp(self.qpn, peer.gid().gid, peer.qpn);
    }

    pub(crate) fn connect_qp(&self, qpn: Qpn, gid: Gid, peer: Qpn) {
        let mut changes = self.way_to_rts(gid, peer, all_rights());
        self.nic.with(|endpoint, _, _| {
            let offered = endpoint.config().recovery == Recovery::SelectiveRepeat;
            changes[1].selective_repeat = (self.kind == QpType::Rc && offered).then_some(true);
            for change in &changes {
                endpoint.modify_qp(qpn, change).unwrap();
            }
        });
        self.nic.start();
    }

    /// The changes from RESET to RTS, for a peer with the rights of `access`.
    pub(crate) fn way_to_rts(&self, gid: Gid, peer: Qpn, access: Access) -> [QpChange; 3] {
        let path = AddressVector {
            gid,
            source_gid: self.gid().gid,
            source_gid_index: self.gid().index,
            hop_limit: 64,
            ..AddressVector::default()
        };
        let with = BringUp {
            access,
            q_key: Q_KEY,
            rq_psn: FIRST_PSN,
            sq_psn: FIRST_PSN,
            min_rnr_timer: 1,
            timeout: self.timeout,
            retry_count: RETRIES,
            ..BringUp::new(path, self.nic.device().active_mtu, peer)
        };
        with.changes(self.kind)
    }

    pub(crate) fn sge(&self, offset: usize, length: usize) -> Sge {
        Sge { address: self.address() + offset as u64, length: length as u32, l_key: self.key }
    }

    pub(crate) fn post(&self, id: u64, operation: Operation, sge: Sge) {
        self.post_on(self.qpn, id, operation, sge);
    }

    pub(crate) fn post_on(&self, qpn: Qpn, id: u64, operation: Operation, sge: Sge) {
        let sges = [sge];
        let request =
            WorkRequest { id, operation, flags: SendFlags::SIGNALED, sges: &sges, inline: None };
        self.nic.post(qpn, |endpoint, _, now| endpoint.post_send(now, qpn, &request)).unwrap();
    }

    pub(crate) fn post_recv(&self, id: u64, sge: Sge) {
        let request = RecvRequest { id, sges: &[sge] };
        self.nic.with(|endpoint, _, _| endpoint.post_recv(self.qpn, &request)).unwrap();
    }

    /// Waits for `count` completions, all of them good, by polling.
    pub(crate) fn completions(&self, count: usize) -> Vec<Completion> {
        let all = self.outcomes(count);
        for completion in &all {
            assert_eq!(
                completion.status,
                CompletionStatus::Success,
                "{completion:?}: {:?}\n{}",
                self.nic.counts(),
                self.nic.with(|endpoint, _, _| *endpoint.stats())
            );
        }
        all
    }

    /// Waits for `count` completions, good or bad, by polling.
    pub(crate) fn outcomes(&self, count: usize) -> Vec<Completion> {
        let started = Instant::now();
        let mut all = Vec::new();
        let mut some = [Completion::NOTHING; 16];
        while all.len() < count {
            let found = self.nic.poll_cq(self.cq, &mut some);
            all.extend_from_slice(&some[..found]);
            assert!(
                started.elapsed() < PATIENCE,
                "{} of {count} completions: {:?}\n{}",
                all.len(),
                self.nic.counts(),
                self.nic.with(|endpoint, _, _| *endpoint.stats())
            );
            if found == 0 {
                std::thread::yield_now();
            }
        }
        all
    }

    /// Registers more memory.
    pub(crate) fn register(&self, address: u64, length: usize, access: Access) -> Key {
        let region = RegionSpec { address, length: length as u64, iova: address, access };
        self.nic.register(self.pd, region).unwrap()
    }

    pub(crate) fn state(&self, qpn: Qpn) -> QpState {
        self.nic.with(|endpoint, _, _| endpoint.query_qp(qpn)).unwrap().state
    }

    /// Does `what` until packets go through a ring.
    pub(crate) fn until_by_ring(&self, mut what: impl FnMut()) {
        let (before, began) = (self.nic.counts().tx_ring_packets, Instant::now());
        while self.nic.counts().tx_ring_packets == before {
            assert!(began.elapsed() < PATIENCE, "{:?}", self.nic.counts());
            what();
        }
    }

    /// Whether an event was raised.
    pub(crate) fn was_told(&self, event: Event) -> bool {
        self.events.contains(event)
    }

    /// Does the progress thread's work until there is an event; may return before if another thread does it.
    pub(crate) fn stand_in(&self) -> io::Result<()> {
        let event = Event::CompletionNotify(self.cq);
        self.nic.stand_in().until(self.events.doorbell(), || self.events.contains(event))
    }

    /// Asks for an event at the next completion.
    pub(crate) fn arm(&self) {
        self.events.clear();
        self.nic.with(|endpoint, _, _| endpoint.arm_cq(self.cq, Notify::Next)).unwrap();
    }
}

/// Every right.
pub(crate) fn all_rights() -> Access {
    Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC
}

/// Bytes of a page, or of several, on every machine that the tests run on.
pub(crate) const PAGE: usize = 64 << 10;

/// Pages of this process.
pub(crate) struct Mapping {
    start: *mut u8,
    length: usize,
}

impl Mapping {
    /// `pages` zero pages.
    pub(crate) fn new(pages: usize) -> Self {
        Self::map(pages, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
    }

    /// `pages` pages of `file`.
    pub(crate) fn of(file: &std::fs::File, pages: usize) -> Self {
        Self::map(pages, libc::MAP_SHARED, std::os::fd::AsRawFd::as_raw_fd(file))
    }

    fn map(pages: usize, flags: libc::c_int, file: libc::c_int) -> Self {
        let length = pages * PAGE;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let start = unsafe { libc::mmap(core::ptr::null_mut(), length, rights, flags, file, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        Self { start: start.cast(), length }
    }

    pub(crate) fn address(&self) -> u64 {
        self.start.expose_provenance() as u64
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// `pages` zero pages, between two inaccessible ones.
    pub(crate) fn guarded(pages: usize) -> (Self, u64) {
        let mapping = Self::new(pages + 2);
        mapping.protect(0, libc::PROT_NONE);
        mapping.protect(1, libc::PROT_READ | libc::PROT_WRITE);
        mapping.protect(pages + 1, libc::PROT_NONE);
        let first = mapping.address() + PAGE as u64;
        (mapping, first)
    }

    /// Changes the protection of a page and those after it.
    pub(crate) fn protect(&self, first: usize, rights: libc::c_int) {
        let at = first * PAGE;
        // SAFETY: pages of ours, to which no reference is alive.
        let result = unsafe { libc::mprotect(self.start.add(at).cast(), self.length - at, rights) };
        assert_eq!(result, 0);
    }

    /// Removes the mapping. Its addresses stay reserved, so that nothing else is mapped there.
    pub(crate) fn unmap(&self) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
        // SAFETY: pages of ours, to which no reference is alive.
        let start =
            unsafe { libc::mmap(self.start.cast(), self.length, libc::PROT_NONE, flags, -1, 0) };
        assert_eq!(start.cast(), self.start);
    }

    /// A copy of bytes that are accessible.
    pub(crate) fn bytes(&self, offset: usize, length: usize) -> Vec<u8> {
        assert!(offset + length <= self.length);
        // SAFETY: inside the mapping; nobody writes while a test looks.
        unsafe { core::slice::from_raw_parts(self.start.add(offset), length) }.to_vec()
    }

    /// Whether bytes that are accessible are these.
    pub(crate) fn holds(&self, offset: usize, bytes: &[u8]) -> bool {
        assert!(offset + bytes.len() <= self.length);
        // SAFETY: inside the mapping; nobody writes while a test looks.
        unsafe { core::slice::from_raw_parts(self.start.add(offset), bytes.len()) == bytes }
    }

    /// Sets bytes that are accessible.
    pub(crate) fn set(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.length);
        // SAFETY: inside the mapping, to which no reference is alive.
        unsafe { self.start.add(offset).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping, to which no reference is alive.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}

/// The default options, over the path that the environment names, so that all tests can run over both.
pub(crate) fn options() -> Options {
    Options { path: Options::from_environment().unwrap().path, ..Options::default() }
}

/// Two connected hosts.
pub(crate) fn pair(third: u8, kind: QpType, bytes: usize) -> (Host, Host) {
    pair_with(third, kind, bytes, &options())
}

/// Two connected hosts.
pub(crate) fn pair_with(third: u8, kind: QpType, bytes: usize, options: &Options) -> (Host, Host) {
    let host = |last| Host::open_with(&format!("127.0.{third}.{last}"), kind, bytes, options);
    let (a, b) = (host(1), host(2));
    a.connect(&b);
    b.connect(&a);
    (a, b)
}

pub(crate) const SEND: Operation = Operation::Send { immediate: None, address: None };

pub(crate) fn pattern(bytes: &mut [u8], seed: u64) {
    let mut state = seed | 1;
    for byte in bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        *byte = (state >> 56) as u8;
    }
}
