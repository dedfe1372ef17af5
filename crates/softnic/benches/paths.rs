//! How many instructions the hot paths take, each by itself, counted by callgrind.
//!
//! ```text
//! cargo bench -p ferroce-softnic --bench paths [-- --check]
//!
//!   post                a WRITE of eight bytes, into the ring of a NIC of this host
//!   receive             that packet, stored, and its acknowledgement sent
//!   acknowledgement     taken, and the completion polled
//!   poll                for a completion that is not there
//!
//!   list_post           a WRITE of 64 bytes in a list of sixteen, over UDP: each
//!   list_receive        that packet, stored: each of the sixteen in a GSO batch
//!   list_complete       taken with the acknowledgement of all, and its completion polled: each
//!   bulk_post           a packet of a WRITE of 64 KiB at an MTU of 1,024, over UDP: each of the 64
//!   bulk_receive        that packet, stored: each
//! ```
//!
//! Time says little where a machine is shared. The number of instructions depends on the compiler, and
//! hardly on anything else, so this is what may not grow unnoticed: on a busy machine a timer runs out here and
//! there, so what is more than accepted is counted again, and the least counts. Instructions of the kernel are
//! not counted; over rings there are none.

use core::hint::black_box;
use std::process::{self, Command, ExitCode};
use std::{env, fs};

use rdma::{Access, Completion, Key, Mtu, Operation, QpType, Qpn, SendFlags, Sge, WorkRequest};
use softnic::{DeviceInfo, EventSink, GidEntry, Nic, Options, PathChoice};
use transport::{AddressVector, BringUp, CqId, Event, QpCapacity, QpSpec, RegionSpec};

/// A path: the function below that is counted, how many of a kind it does at once, and the last accepted
/// count for each. Lower it with a change that takes fewer.
struct Path {
    name: &'static str,
    each: u64,
    instructions: u64,
}

impl Path {
    /// Whether `now` is more than the compiler's changes explain.
    fn is_longer(&self, now: u64) -> bool {
        now * 100 > self.instructions * (100 + TOLERANCE_PERCENT)
    }
}

const fn path(name: &'static str, each: u64, instructions: u64) -> Path {
    Path { name, each, instructions }
}

const PATHS: [Path; 9] = [
    path("post", 1, 2_870),
    path("receive", 1, 3_230),
    path("acknowledgement", 1, 2_120),
    path("poll", 1, 370),
    // Each message says how long its own packets are, and each packet is held against that: a few dozen instructions.
    path("list_post", LIST, 2_080),
    path("list_receive", LIST, 1_390),
    // Each tells of how long a packet the path has brought: nine instructions.
    path("list_complete", LIST, 425),
    path("bulk_post", BULK_PACKETS, 1_200),
    path("bulk_receive", BULK_PACKETS, 1_250),
];
/// How often a path is counted that is longer than accepted.
const COUNTED_MAX: usize = 3;
/// Tolerance for changes of the compiler.
const TOLERANCE_PERCENT: u64 = 5;
/// What is not counted: to show the counters, which happens every few milliseconds, and so more often in a
/// run that waits for a processor.
const UNCOUNTED: &str = ":softnic::progress::core::Core::publish ";
/// Rounds that are counted.
const ROUNDS: u64 = 2_000;
/// Rounds before those, in which rings are made and agreed on.
const WARM_UP: u64 = 100;
/// Requests of a list.
const LIST: u64 = 16;
const BULK_BYTES: u32 = 64 << 10;
const BULK_PACKETS: u64 = BULK_BYTES as u64 / Mtu::B1024.bytes() as u64;
/// The argument of the process that is counted.
const ALONE: &str = "--alone";

struct Nothing;

impl EventSink for Nothing {
    fn event(&self, _: Event) {}
}

/// A NIC without a thread, and a queue pair.
struct Host {
    nic: Nic,
    cq: CqId,
    qpn: Qpn,
    key: Key,
    memory: Box<[u8]>,
}

impl Host {
    fn open(address: &str, path: PathChoice) -> Self {
        let device = DeviceInfo::find(&format!("lo/{address}"), 0).expect("loopback is a device");
        let options = Options { path, ..Options::default() };
        let nic = Nic::open_with(&device, Box::new(Nothing), &options).expect("a NIC");
        let memory = vec![0_u8; BULK_BYTES as usize].into_boxed_slice();
        let address = memory.as_ptr().expose_provenance() as u64;
        let (pd, cq, key) = nic.with(|endpoint, _, _| {
            let pd = endpoint.alloc_pd().expect("a domain");
            let cq = endpoint.create_cq(64).expect("a completion queue");
            let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
            let region = RegionSpec { address, length: BULK_BYTES.into(), iova: address, access };
            (pd, cq, endpoint.register(pd, region).expect("a region"))
        });
        let spec = QpSpec {
            kind: QpType::Rc,
            pd,
            send_cq: cq,
            recv_cq: cq,
            srq: None,
            capacity: QpCapacity {
                send_wr: LIST as u32,
                recv_wr: 1,
                send_sge: 1,
                recv_sge: 1,
                inline: 0,
            },
            signal_all: true,
        };
        let qpn = nic.with(|endpoint, _, _| endpoint.create_qp(spec)).expect("a queue pair");
        Self { nic, cq, qpn, key, memory }
    }

    fn address(&self) -> u64 {
        self.memory.as_ptr().expose_provenance() as u64
    }

    fn gid(&self) -> GidEntry {
        *self.nic.device().gids.iter().rfind(|entry| entry.usable).expect("an address")
    }

    fn connect(&self, peer: &Self, path_mtu: Mtu) {
        let path = AddressVector {
            gid: peer.gid().gid,
            source_gid: self.gid().gid,
            source_gid_index: self.gid().index,
            hop_limit: 64,
            ..AddressVector::default()
        };
        let with = BringUp {
            // Two seconds: longer than valgrind takes for anything.
            timeout: 19,
            ..BringUp::new(path, path_mtu, peer.qpn)
        };
        let brought = self.nic.with(|endpoint, _, _| endpoint.bring_up(self.qpn, &with));
        brought.expect("the attributes are complete");
    }
}

/// Posts `count` WRITEs at once.
fn post(from: &Host, to: &Host, count: u64, length: u32) {
    let sges = [Sge { address: from.address(), length, l_key: from.key }];
    let operation =
        Operation::Write { remote_address: to.address(), r_key: to.key, immediate: None };
    let flags = SendFlags::SIGNALED;
    let request = WorkRequest { id: 1, operation, flags, sges: &sges, inline: None };
    from.nic.post(from.qpn, |endpoint, _, now| {
        for _ in 0..count {
            endpoint.post_send(now, from.qpn, &request).expect("there is room");
        }
    });
}

fn poll(host: &Host, expected: usize) {
    let mut some = [Completion::NOTHING; LIST as usize];
    assert_eq!(host.nic.poll_cq(host.cq, &mut some), expected);
}

#[inline(never)]
fn counted_post(from: &Host, to: &Host) {
    post(from, to, 1, 8);
}

#[inline(never)]
fn counted_receive(to: &Host) {
    // Otherwise the compiler would merge this with `counted_poll`.
    poll(black_box(to), 0);
}

#[inline(never)]
fn counted_acknowledgement(from: &Host) {
    poll(from, 1);
}

#[inline(never)]
fn counted_poll(host: &Host) {
    poll(host, 0);
}

#[inline(never)]
fn counted_list_post(from: &Host, to: &Host) {
    post(from, to, LIST, 64);
}

#[inline(never)]
fn counted_list_receive(to: &Host) {
    to.nic.poll();
}

#[inline(never)]
fn counted_list_complete(from: &Host) {
    poll(from, LIST as usize);
}

#[inline(never)]
fn counted_bulk_post(from: &Host, to: &Host) {
    post(from, to, 1, BULK_BYTES);
}

#[inline(never)]
fn counted_bulk_receive(to: &Host) {
    // Otherwise the compiler would merge this with `counted_list_receive`.
    black_box(to).nic.poll();
}

/// Runs the paths over rings, so often, after the NICs have agreed on them.
fn run_rings(from: &Host, to: &Host) {
    for _ in 0..WARM_UP {
        post(from, to, 1, 8);
        // The first packet waits for its ring to be looked for.
        while from.nic.poll_cq_timed(from.cq).is_none() {
            to.nic.poll();
        }
    }
    for _ in 0..ROUNDS {
        counted_post(from, to);
        counted_receive(to);
        counted_acknowledgement(from);
        counted_poll(to);
    }
    for host in [from, to] {
        assert!(host.nic.counts().tx_ring_packets >= ROUNDS, "not by rings");
    }
}

/// Runs the paths over UDP. On loopback packets are delivered when the sending call returns.
fn run_udp(from: &Host, to: &Host) {
    for _ in 0..ROUNDS {
        counted_list_post(from, to);
        counted_list_receive(to);
        counted_list_complete(from);
        counted_bulk_post(from, to);
        counted_bulk_receive(to);
        poll(from, 1);
    }
    let packets = ROUNDS * (LIST + BULK_PACKETS);
    assert_eq!(from.nic.counts().tx_packets, packets, "nothing is sent twice");
}

fn run_alone() {
    let hosts = |path, mtu| {
        let (from, to) = (Host::open("127.0.48.101", path), Host::open("127.0.48.102", path));
        from.connect(&to, mtu);
        to.connect(&from, mtu);
        (from, to)
    };
    let (from, to) = hosts(PathChoice::SharedMemory, Mtu::B4096);
    run_rings(&from, &to);
    drop((from, to));
    let (from, to) = hosts(PathChoice::Udp, Mtu::B1024);
    run_udp(&from, &to);
}

/// Instructions of one path, of a round, for each that it does.
fn count(path: &Path) -> Result<u64, String> {
    let run = |command: &mut Command| {
        let output = command.output().map_err(|error| {
            format!("{command:?}: {error}\nhint: `scripts/setup test` installs valgrind")
        })?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        output.status.success().then_some(text).ok_or_else(|| format!("{command:?}:\n{errors}"))
    };
    let profile = env::temp_dir().join(format!("ferroce-path-{}", process::id()));
    let counted = run(Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(format!("--toggle-collect=paths::counted_{}", path.name))
        .arg(env::current_exe().map_err(|error| error.to_string())?)
        .arg(ALONE))
    .and_then(|_| {
        run(Command::new("callgrind_annotate")
            .args(["--inclusive=yes", "--threshold=100", "--auto=no"])
            .arg(&profile))
    });
    let _ = fs::remove_file(profile);
    let table = counted?;
    let of = |what| {
        let line = table.lines().find(|line| line.contains(what))?;
        line.trim_start().split(' ').next()?.replace(',', "").parse::<u64>().ok()
    };
    let all =
        of("PROGRAM TOTALS").ok_or_else(|| format!("no number of instructions in:\n{table}"))?;
    Ok((all - of(UNCOUNTED).unwrap_or(0)) / ROUNDS / path.each)
}

/// Counts a path, and again if that is more than accepted.
fn least(path: &Path) -> Result<u64, String> {
    let mut least = count(path)?;
    for _ in 1..COUNTED_MAX {
        if !path.is_longer(least) {
            break;
        }
        least = least.min(count(path)?);
    }
    Ok(least)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    if has(ALONE) {
        run_alone();
        return ExitCode::SUCCESS;
    }
    let mut is_more = false;
    for path in &PATHS {
        let Path { name, instructions: before, .. } = *path;
        match least(path) {
            Ok(now) => {
                println!("{name}: {now} instructions; at most {before} and {TOLERANCE_PERCENT} %");
                is_more |= path.is_longer(now);
            }
            Err(why) => {
                eprintln!("error: {why}");
                return ExitCode::FAILURE;
            }
        }
    }
    if is_more && has("--check") {
        eprintln!(
            "error: a path has become longer\nhint: find out where with callgrind, or say why in \
             PATHS of crates/softnic/benches/paths.rs"
        );
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
