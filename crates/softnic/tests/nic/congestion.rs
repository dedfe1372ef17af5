//! Marks, notifications and rates on real sockets.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use rdma::{Operation, QpType};
use softnic::Options;

use crate::support::{Host, PATIENCE, pair_with};

const LENGTH: usize = 1 << 20;

fn options(congestion: &str) -> Options {
    Options { congestion: congestion.parse().unwrap(), ..Options::default() }
}

/// Writes `count` times all of memory, and says how long that took.
fn write(from: &Host, to: &Host, count: u64) -> Duration {
    let started = Instant::now();
    for round in 0..count {
        let write =
            Operation::Write { remote_address: to.address(), r_key: to.key, immediate: None };
        from.post(round, write, from.sge(0, LENGTH));
    }
    from.completions(count as usize);
    started.elapsed()
}

fn stats(host: &Host) -> transport::Stats {
    host.nic.with(|endpoint, _, _| *endpoint.stats())
}

/// A file that does not outlive the test.
struct Capture(PathBuf);

impl Capture {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("ferroce-{name}-{}", std::process::id())))
    }

    fn name(&self) -> Option<String> {
        Some(self.0.to_str().unwrap().to_owned())
    }

    /// The file of the first NIC, and that of the second, which has added its slot to the name.
    fn files(&self) -> Vec<PathBuf> {
        let folder = std::fs::read_dir(self.0.parent().unwrap()).unwrap();
        let ours = |path: &PathBuf| path.to_str().unwrap().starts_with(self.0.to_str().unwrap());
        folder.flatten().map(|entry| entry.path()).filter(ours).collect()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        for path in self.files() {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// What tshark prints of the packets that `filter` lets through: `fields`, a line each.
fn tshark(file: &Path, filter: &str, fields: &[&str]) -> Vec<String> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-T", "fields", "-E", "separator=|", "-Y", filter]);
    for field in ["_ws.malformed"].iter().chain(fields) {
        command.args(["-e", field]);
    }
    let output = command.arg("-r").arg(file).output().unwrap_or_else(|error| {
        panic!("cannot run tshark: {error}; this test needs it (Debian: apt-get install tshark)")
    });
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_sender_whose_packets_are_marked_hears_of_it_and_slows_down() {
    let capture = Capture::new("congestion");
    let mut options = Options { capture: capture.name(), ..options("dcqcn,cnp_dscp=46") };
    options.faults = Some("ecn=0.05,seed=7".parse().unwrap());
    let (a, b) = pair_with(48, QpType::Rc, LENGTH, &options);
    write(&a, &b, 20);

    let (source, destination) = (stats(&a), stats(&b));
    let counts = a.nic.counts();
    let marked = counts.fault_marked;
    assert!(marked > 50, "{marked}");
    // On a busy machine one may be lost because a buffer is full, or arrive too late.
    let heard = destination.np_ecn_marked_roce_packets;
    let missing = marked.checked_sub(heard).expect("no mark comes of itself");
    assert!(missing <= counts.tx_dropped + source.retransmitted_pkts, "{heard} of {marked}");
    assert!(destination.np_cnp_sent > 0 && source.rp_cnp_handled > 0, "{source}\n{destination}");
    assert!(source.rp_cnp_handled <= destination.np_cnp_sent);
    assert!(destination.np_cnp_sent <= marked);
    // Only the sender of data is slowed down, and only packets with ECT(0) are marked.
    assert_eq!((source.np_cnp_sent, destination.rp_cnp_handled), (0, 0));
    assert_eq!(b.nic.counts().fault_marked, 0);
    assert_eq!(a.memory, b.memory);
    drop((a, b));

    let fields = ["ip.dsfield.dscp", "ip.dsfield.ecn", "infiniband.bth.opcode"];
    let cnps = tshark(&capture.0, "infiniband.bth.opcode == 0x81", &fields);
    assert_eq!(cnps.len() as u64, source.rp_cnp_handled);
    assert!(cnps.iter().all(|line| line == "|46|0|129"), "{cnps:?}");
    // The receiver's record shows what the kernel said that came: ECT(0) or CE, in both senses.
    let receiver = capture.files().into_iter().find(|path| *path != capture.0).unwrap();
    let data = tshark(&receiver, "infiniband.bth.opcode == 0x07", &fields);
    assert!(data.iter().all(|line| line == "|0|2|7" || line == "|0|3|7"), "{data:?}");
    let marked = data.iter().filter(|line| *line == "|0|3|7").count();
    assert!((1..data.len()).contains(&marked), "{marked} of {}", data.len());
}

#[test]
fn marks_make_a_transfer_take_longer() {
    // Every packet is marked, and a rate that was cut does not recover.
    let text = "dcqcn,min_mbps=200,alpha_timer_us=60000000,rate_timer_us=60000000,\
                byte_counter_bytes=1000000000000";
    let faults = Some("ecn=1".parse().unwrap());
    let (a, b) = pair_with(49, QpType::Rc, LENGTH, &Options { faults, ..options(text) });
    let started = Instant::now();
    // Nine cuts by half lead from 40 Gb/s to less than 200 Mb/s.
    while stats(&a).rp_cnp_handled < 9 {
        assert!(started.elapsed() < PATIENCE, "{}\n{}", stats(&a), stats(&b));
        write(&a, &b, 1);
    }
    let took = write(&a, &b, 1);
    // A mebibyte at 200 Mb/s takes 42 ms; the slack of 100 us does not matter.
    assert!(took >= Duration::from_millis(40), "{took:?}");
}

#[test]
fn a_fixed_rate_is_not_exceeded_in_either_direction() {
    let (a, b) = pair_with(55, QpType::Rc, LENGTH, &options("fixed,rate_mbps=400"));
    assert!(write(&a, &b, 2) >= Duration::from_millis(40));
    let started = Instant::now();
    let read = Operation::Read { remote_address: b.address(), r_key: b.key };
    a.post(9, read, a.sge(0, LENGTH));
    a.completions(1);
    assert!(started.elapsed() >= Duration::from_millis(20));
}

#[test]
fn a_sender_goes_on_at_its_rate_while_its_program_sleeps() {
    let (a, b) = pair_with(56, QpType::Rc, LENGTH, &options("fixed,rate_mbps=400"));
    let write = Operation::Write { remote_address: b.address(), r_key: b.key, immediate: None };
    a.post(1, write, a.sge(0, LENGTH));
    // 21 ms at that rate; the rest is for a machine that is busy.
    std::thread::sleep(Duration::from_millis(500));
    let counts = a.nic.counts();
    assert!(counts.tx_packets >= 256, "{counts:?}");
    a.completions(1);
}

#[test]
fn the_class_of_a_packet_arrives_as_it_was_sent_over_ipv6_too() {
    let options = options("dcqcn");
    let marking = Options { faults: Some("ecn=1".parse().unwrap()), ..options };
    let host = || Host::open_with("::1", QpType::Uc, 4096, &marking);
    let (a, b) = (host(), host());
    a.connect(&b);
    b.connect(&a);
    let write = Operation::Write { remote_address: b.address(), r_key: b.key, immediate: None };
    a.post(1, write, a.sge(0, 4096));
    a.completions(1);
    let started = Instant::now();
    while stats(&a).rp_cnp_handled == 0 {
        assert!(started.elapsed() < PATIENCE, "{}\n{}", stats(&a), stats(&b));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(stats(&b).np_ecn_marked_roce_packets, 1);
}
