//! The speed of the data path between two NICs of one process: `cargo run --release --example
//! datapath [address address]`. For a quick look while changing it; `cargo xtask bench` compares with
//! other programs.

#![allow(clippy::print_stdout, reason = "this is what it is for")]

use core::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rdma::{
    Access, Completion, CompletionStatus, Gid, Key, Operation, QpType, Qpn, SendFlags, Sge,
    WorkRequest,
};
use softnic::{DeviceInfo, EventSink, Nic};
use transport::{AddressVector, BringUp, CqId, Event, QpCapacity, QpSpec, RegionSpec};

const BYTES: usize = 16 << 20;

struct Nothing;

impl EventSink for Nothing {
    fn event(&self, _: Event) {}
}

struct Host {
    nic: Nic,
    gid: Gid,
    cq: CqId,
    qpn: Qpn,
    key: Key,
    memory: Vec<u8>,
}

impl Host {
    fn open(address: &str) -> Self {
        let device = DeviceInfo::find(&format!("lo/{address}"), 0).expect("the device");
        let gid = device.gids.last().expect("a GID").gid;
        let nic = Nic::open(&device, Box::new(Nothing)).expect("the NIC");
        let memory = vec![1_u8; BYTES];
        let address = memory.as_ptr().expose_provenance() as u64;
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
        let region = RegionSpec { address, length: BYTES as u64, iova: address, access };
        let (cq, key, qpn) = nic.with(|endpoint, _, _| {
            let pd = endpoint.alloc_pd().expect("a PD");
            let cq = endpoint.create_cq(4096).expect("a CQ");
            let key = endpoint.register(pd, region).expect("a region");
            let capacity =
                QpCapacity { send_wr: 512, recv_wr: 16, send_sge: 1, recv_sge: 1, inline: 64 };
            let (send_cq, recv_cq) = (cq, cq);
            let spec = QpSpec {
                kind: QpType::Rc,
                pd,
                send_cq,
                recv_cq,
                srq: None,
                capacity,
                signal_all: true,
            };
            (cq, key, endpoint.create_qp(spec).expect("a QP"))
        });
        Self { nic, gid, cq, qpn, key, memory }
    }

    fn connect(&self, peer: &Self) {
        let path = AddressVector {
            gid: peer.gid,
            source_gid: self.gid,
            source_gid_index: 1,
            ..AddressVector::default()
        };
        let with = BringUp::new(path, self.nic.device().active_mtu, peer.qpn);
        let brought = self.nic.with(|endpoint, _, _| endpoint.bring_up(self.qpn, &with));
        brought.expect("a state");
        self.nic.start();
    }

    /// Writes `count` messages of `length` bytes, `depth` of them at a time. Returns seconds.
    fn write(&self, peer: &Self, length: usize, count: usize, depth: usize) -> f64 {
        let address = self.memory.as_ptr().expose_provenance() as u64;
        let remote_address = peer.memory.as_ptr().expose_provenance() as u64;
        let mut completions = [Completion::NOTHING; 16];
        let (mut posted, mut done) = (0, 0);
        let started = Instant::now();
        while done < count {
            let room = (count - posted).min(depth - (posted - done));
            if room > 0 {
                self.nic.with(|endpoint, _, now| {
                    for _ in 0..room {
                        let offset = (posted * length % (BYTES - length)) as u64 & !63;
                        let sges = [Sge {
                            address: address + offset,
                            length: length as u32,
                            l_key: self.key,
                        }];
                        let remote_address = remote_address + offset;
                        let request = WorkRequest {
                            id: 0,
                            operation: Operation::Write {
                                remote_address,
                                r_key: peer.key,
                                immediate: None,
                            },
                            flags: SendFlags::SIGNALED,
                            sges: &sges,
                            inline: None,
                        };
                        endpoint.post_send(now, self.qpn, &request).expect("room in the queue");
                        posted += 1;
                    }
                });
            }
            let found = self.nic.poll_cq(self.cq, &mut completions);
            for completion in &completions[..found] {
                assert_eq!(completion.status, CompletionStatus::Success);
            }
            done += found;
        }
        started.elapsed().as_secs_f64()
    }
}

fn main() {
    let mut names = std::env::args().skip(1);
    let mut host = |default: &str| Host::open(&names.next().unwrap_or_else(|| default.to_owned()));
    let (a, b) = (host("127.0.90.1"), host("127.0.90.2"));
    a.connect(&b);
    b.connect(&a);
    for target_polls in [true, false] {
        println!("target {}", if target_polls { "polls" } else { "sleeps" });
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut completions = [Completion::NOTHING; 16];
                while target_polls && !stop.load(Ordering::Relaxed) {
                    b.nic.poll_cq(b.cq, &mut completions);
                }
            });
            for (length, depth, count) in [
                (8, 1, 20_000),
                (8, 16, 200_000),
                (4096, 1, 20_000),
                (4096, 16, 100_000),
                (65_536, 1, 5_000),
                (65_536, 4, 20_000),
                (65_536, 16, 20_000),
                (1 << 20, 1, 1_000),
                (1 << 20, 4, 1_000),
            ] {
                a.write(&b, length, count / 10, depth);
                let seconds = a.write(&b, length, count, depth);
                let each_us = seconds / count as f64 * 1e6;
                let rate_gbps = (length * count) as f64 * 8.0 / seconds / 1e9;
                println!("  {length:8} B, depth {depth:2}: {each_us:9.2} us, {rate_gbps:7.2} Gb/s");
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
    for host in [&a, &b] {
        println!("{:?}", host.nic.counts());
        println!("{}", host.nic.with(|endpoint, _, _| *endpoint.stats()));
    }
}
