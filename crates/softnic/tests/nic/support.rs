//! Two NICs of this process, with a queue pair each, connected to each other.

use core::time::Duration;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rdma::{
    Access, Completion, CompletionOpcode, CompletionStatus, Gid, Key, Operation, Psn, QpState,
    QpType, Qpn, RecvRequest, SendFlags, Sge, WorkRequest,
};
use softnic::{DeviceInfo, EventSink, GidEntry, Nic, Options};
use transport::{AddressVector, CqId, Event, PdId, QpCapacity, QpChange, QpSpec, RegionSpec};

/// Longer than any test may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Keeps the events.
#[derive(Clone, Default)]
pub(crate) struct Events(pub Arc<Mutex<Vec<Event>>>);

impl EventSink for Events {
    fn event(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}

/// A NIC with one queue pair and one region.
pub(crate) struct Host {
    pub(crate) nic: Nic,
    pub(crate) events: Events,
    pub(crate) pd: PdId,
    pub(crate) cq: CqId,
    pub(crate) qpn: Qpn,
    pub(crate) key: Key,
    pub(crate) memory: Box<[u8]>,
}

pub(crate) const QUEUE: u32 = 256;

impl Host {
    /// On loopback, with an address of its own.
    pub(crate) fn open(address: &str, kind: QpType, bytes: usize) -> Self {
        Self::open_with(address, kind, bytes, &Options::default())
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
        let mut host = Self { nic, events, pd, cq, qpn: Qpn::new(0), key, memory };
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
        let path = AddressVector {
            gid,
            source_gid: self.gid().gid,
            source_gid_index: self.gid().index,
            hop_limit: 64,
            ..AddressVector::default()
        };
        let access = Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
        let mtu = self.nic.device().active_mtu;
        self.nic.with(|endpoint, _, _| {
            let init = QpChange {
                pkey_index: Some(0),
                port: Some(1),
                access: Some(access),
                ..QpChange::to(QpState::Init)
            };
            endpoint.modify_qp(qpn, &init).unwrap();
            let rtr = QpChange {
                path: Some(path),
                path_mtu: Some(mtu),
                destination: Some(peer),
                rq_psn: Some(Psn::new(100)),
                max_dest_rd_atomic: Some(16),
                min_rnr_timer: Some(1),
                ..QpChange::to(QpState::Rtr)
            };
            endpoint.modify_qp(qpn, &rtr).unwrap();
            let rts = QpChange {
                sq_psn: Some(Psn::new(100)),
                timeout: Some(12),
                retry_count: Some(7),
                rnr_retry: Some(7),
                max_rd_atomic: Some(16),
                ..QpChange::to(QpState::Rts)
            };
            endpoint.modify_qp(qpn, &rts).unwrap();
        });
        self.nic.start();
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
        self.nic.with(|endpoint, _, now| endpoint.post_send(now, qpn, &request)).unwrap();
    }

    pub(crate) fn post_recv(&self, id: u64, sge: Sge) {
        let request = RecvRequest { id, sges: &[sge] };
        self.nic.with(|endpoint, _, _| endpoint.post_recv(self.qpn, &request)).unwrap();
    }

    /// Waits for `count` completions, by polling.
    pub(crate) fn completions(&self, count: usize) -> Vec<Completion> {
        let started = Instant::now();
        let mut all = Vec::new();
        let mut some = [empty(); 16];
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
        for completion in &all {
            assert_eq!(completion.status, CompletionStatus::Success, "{completion:?}");
        }
        all
    }
}

pub(crate) fn empty() -> Completion {
    Completion {
        id: 0,
        status: CompletionStatus::Success,
        opcode: CompletionOpcode::Send,
        vendor_error: 0,
        byte_len: 0,
        attached: rdma::completion::Attached::None,
        qpn: Qpn::new(0),
        source_qpn: Qpn::new(0),
        has_grh: false,
        solicited: false,
    }
}

/// Two connected hosts.
pub(crate) fn pair(third: u8, kind: QpType, bytes: usize) -> (Host, Host) {
    pair_with(third, kind, bytes, &Options::default())
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
