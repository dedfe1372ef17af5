//! A lab in a thread, and a NIC with one queue pair that is a host of it.

#![allow(dead_code, reason = "each test uses its part")]

use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use core::time::Duration;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread::{JoinHandle, sleep};
use std::time::Instant;

use fabric::NetworkConfig;
use fabric::topology::{Cables, single_switch};
use lab::{Lab, Settings, client};
use rdma::{
    Access, Completion, CompletionStatus, Gid, Key, Operation, QpType, Qpn, Rate, SendFlags, Sge,
    WorkRequest,
};
use softnic::lab::{Found, Site};
use softnic::{DeviceInfo, EventSink, Nic};
use transport::{AddressVector, BringUp, CqId, Event, QpCapacity, QpSpec, RegionSpec};

pub(crate) fn two_hosts() -> NetworkConfig {
    hosts(2)
}

/// Hosts on a switch, at 1 Gb/s.
pub(crate) fn hosts(count: u32) -> NetworkConfig {
    NetworkConfig::new(single_switch(count, Cables::new(Rate::from_gbps(1), 2)))
}

/// A lab that runs until it is told to end.
pub(crate) struct Running {
    pub(crate) found: Found,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub(crate) fn start(name: &str, network: NetworkConfig) -> Self {
        let (tell, told) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let (name, stops) = (name.to_owned(), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let title = "a test".to_owned();
            let settings = Settings { name, title, network, factor: Some(1.0), metrics: None };
            let mut lab = Lab::begin(settings).unwrap();
            tell.send(lab.found().clone()).unwrap();
            lab.run(|_| stops.load(Ordering::Relaxed));
        });
        Self { found: told.recv().unwrap(), stop, thread: Some(thread) }
    }

    /// One that somebody else ends.
    pub(crate) fn of(found: Found) -> Self {
        Self { found, stop: Arc::default(), thread: None }
    }

    pub(crate) fn ask(&self, request: &str) -> String {
        client::ask(&self.found, request).unwrap()
    }

    /// The folder of its socket, and what the names of all its files have.
    pub(crate) fn place(&self) -> (PathBuf, String) {
        let name = self.found.socket.file_name().unwrap().to_str().unwrap();
        let number = name.split('-').nth(1).unwrap().to_owned();
        (self.found.socket.parent().unwrap().to_owned(), number)
    }

    pub(crate) fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

struct Nothing;

impl EventSink for Nothing {
    fn event(&self, _: Event) {}
}

/// Where a peer may write.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    address: u64,
    r_key: Key,
}

/// A NIC, and what one queue pair needs.
pub(crate) struct End {
    nic: Nic,
    gid: Gid,
    index: u8,
    cq: CqId,
    qpn: Qpn,
    key: Key,
    memory: Vec<AtomicU8>,
}

const BYTES: usize = 50_000;

impl End {
    pub(crate) fn open(running: &Running, host: &str) -> Self {
        let site = Site::new(&running.found.socket, host).unwrap();
        let device = DeviceInfo::in_lab(&site, None).unwrap();
        let nic = Nic::open(&device, Box::new(Nothing)).unwrap();
        let memory: Vec<AtomicU8> = (0..BYTES).map(|_| AtomicU8::new(0)).collect();
        let address = memory.as_ptr().expose_provenance() as u64;
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let region = RegionSpec { address, length: BYTES as u64, iova: address, access };
        let capacity = QpCapacity { send_wr: 4, recv_wr: 4, send_sge: 1, recv_sge: 1, inline: 0 };
        let (cq, key, qpn) = nic.with(|engine, _, _| {
            let pd = engine.alloc_pd().unwrap();
            let cq = engine.create_cq(16).unwrap();
            let key = engine.register(pd, region).unwrap();
            let (kind, send_cq, recv_cq) = (QpType::Rc, cq, cq);
            let spec = QpSpec { kind, pd, send_cq, recv_cq, srq: None, capacity, signal_all: true };
            (cq, key, engine.create_qp(spec).unwrap())
        });
        let entry = *nic.device().gids.last().unwrap();
        Self { nic, gid: entry.gid, index: entry.index, cq, qpn, key, memory }
    }

    fn bring_up(&self, peer: &Self) {
        let route = AddressVector {
            gid: peer.gid,
            source_gid: self.gid,
            source_gid_index: self.index,
            ..AddressVector::default()
        };
        // Four milliseconds (IBTA vol 1, 9.7.6.1.3), seven times.
        let with =
            BringUp { timeout: 10, ..BringUp::new(route, self.nic.device().active_mtu, peer.qpn) };
        self.nic.with(|engine, _, _| engine.bring_up(self.qpn, &with)).unwrap();
        self.nic.start();
    }

    fn address(&self) -> u64 {
        self.memory.as_ptr().expose_provenance() as u64
    }

    pub(crate) fn target(&self) -> Target {
        Target { address: self.address(), r_key: self.key }
    }

    pub(crate) fn fill(&self, byte: u8) {
        self.memory.iter().for_each(|place| place.store(byte, Ordering::Release));
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.memory.iter().map(|place| place.load(Ordering::Acquire)).collect()
    }

    pub(crate) fn write_to(&self, peer: &Self) -> CompletionStatus {
        self.write(peer.target())
    }

    /// Writes all of its memory, and waits for the completion.
    pub(crate) fn write(&self, target: Target) -> CompletionStatus {
        let Target { address: remote_address, r_key } = target;
        let sges = [Sge { address: self.address(), length: BYTES as u32, l_key: self.key }];
        let request = WorkRequest {
            id: 7,
            operation: Operation::Write { remote_address, r_key, immediate: None },
            flags: SendFlags::SIGNALED,
            sges: &sges,
            inline: None,
        };
        let (qpn, begin) = (self.qpn, Instant::now());
        self.nic.post(qpn, |engine, _, now| engine.post_send(now, qpn, &request)).unwrap();
        let mut completions = [Completion::NOTHING; 1];
        while self.nic.poll_cq(self.cq, &mut completions) == 0 {
            assert!(begin.elapsed() < Duration::from_secs(30), "no completion");
            std::thread::yield_now();
        }
        completions[0].status
    }
}

pub(crate) fn connect(a: &mut End, b: &mut End) {
    a.bring_up(b);
    b.bring_up(a);
}

/// Waits for what takes a moment.
pub(crate) fn wait_until(is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(10), "it is never so");
        sleep(Duration::from_millis(2));
    }
}
