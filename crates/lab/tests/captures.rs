//! Ports of a lab that are captured while programs run: judged by our parser, which checks ICRCs, and by tshark.
//!
//! Needs `tshark` (Debian: `apt-get install tshark`), and fails without it: a check that is skipped proves nothing.

mod common;

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use common::{End, Running, hosts, two_hosts};
use core::time::Duration;
use fabric::record::{CaptureLimits, CaptureTally};
use fabric::workload::FlowSpec;
use lab::client::{CaptureEnd, CaptureOf, Captured, Capturing};
use rdma::CompletionStatus;
use wire::frame::Frame;
use wire::pcapng::{Direction, Reader};

fn of(ports: &[&str]) -> CaptureOf {
    CaptureOf {
        ports: ports.iter().map(|&port| port.to_owned()).collect(),
        snap_bytes: None,
        priorities: 0xff,
        limits: CaptureLimits::default(),
    }
}

/// The whole file, and how it ended.
fn rest(capturing: &mut Capturing, mut file: Vec<u8>) -> (Vec<u8>, CaptureTally, CaptureEnd) {
    let begin = Instant::now();
    loop {
        assert!(begin.elapsed() < Duration::from_secs(20), "it does not end");
        match capturing.next(1_000).unwrap() {
            Captured::Bytes(bytes) => file.extend_from_slice(bytes),
            Captured::Nothing => {}
            Captured::Over(tally, end) => return (file, tally, end),
        }
    }
}

/// `fields` of each frame that `filter` lets through.
fn tshark(file: &Path, filter: &str, fields: &[&str]) -> Vec<Vec<String>> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(file).args(["-Y", filter, "-T", "fields"]);
    command.args(fields.iter().flat_map(|field| ["-e", field]));
    let output = command.output().unwrap_or_else(|error| {
        panic!("cannot run tshark: {error}; this test needs it (Debian: apt-get install tshark)")
    });
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "tshark: {}: {stderr}", output.status);
    let stdout = String::from_utf8(output.stdout).unwrap();
    stdout.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// The number of a switch's only name.
fn switch_of(running: &Running) -> &'static str {
    assert!(running.ask("greeting").contains(", 1 switch)"));
    "s0"
}

#[test]
fn both_directions_of_a_port_have_the_bytes_of_programs_and_pauses_are_among_them() {
    let mut network = hosts(4);
    // Two simulated hosts fill a third: pauses reach the first.
    network.flows = [2, 3].map(|host| FlowSpec::write(host, 1, 100_000).endless()).into();
    network.switch.buffer_bytes = 600_000;
    let running = Running::start("frames", network);
    let (mut a, mut b) = (End::open(&running, "h0"), End::open(&running, "h1"));
    common::connect(&mut a, &mut b);
    a.fill(0x11);
    assert_eq!(a.write_to(&b), CompletionStatus::Success, "before the capture");
    let port = format!("{}:h0", switch_of(&running));
    let mut capturing = Capturing::begin(&running.found, &of(&[&port, "h2"])).unwrap();
    a.fill(0xa5);
    for _ in 0..20 {
        assert_eq!(a.write_to(&b), CompletionStatus::Success);
    }
    capturing.stop();
    let (file, tally, end) = rest(&mut capturing, Vec::new());
    assert_eq!((tally.missed, end, tally.bytes), (0, CaptureEnd::Asked, file.len() as u64));
    let mut reader = Reader::new(&file).unwrap();
    let (mut payloads, mut answers, mut last) = (0, 0, None);
    while let Some(record) = reader.next_record() {
        let record = record.unwrap();
        assert!(last <= Some(record.at), "in the order of time");
        last = Some(record.at);
        if record.interface != 0 {
            continue;
        }
        // This checks the ICRC.
        let frame = Frame::parse(record.frame).unwrap();
        match record.direction {
            Direction::Inbound => {
                assert!(frame.payload.iter().all(|byte| *byte == 0xa5));
                payloads += frame.payload.len();
            }
            _ => answers += 1,
        }
    }
    let names: Vec<_> = reader.interfaces().iter().map(|at| at.name.unwrap()).collect();
    assert_eq!(names, ["s0 to h0", "h2 to s0"]);
    // A machine under load makes timeouts, and those send again.
    assert!(payloads >= 1_000_000, "{payloads}");
    assert!(answers > 0);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.pcapng");
    std::fs::write(&path, &file).unwrap();
    let complaints =
        tshark(&path, "_ws.malformed || _ws.expert.severity >= \"Error\"", &["frame.number"]);
    assert_eq!(complaints, Vec::<Vec<String>>::new());
    let writes = tshark(
        &path,
        "infiniband.bth.opcode == 6 && frame.interface_name == \"s0 to h0\"",
        &["ip.src", "ip.dst", "infiniband.reth.dmalen", "frame.interface_description"],
    );
    assert!(writes.len() >= 20, "{}", writes.len());
    let expected = ["10.0.0.1", "10.0.0.2", "50000", "the port of s0 that leads to h0"];
    assert!(writes.iter().all(|row| row == &expected), "{writes:?}");
    let pauses = tshark(&path, "macc.opcode == 0x0101", &["frame.interface_name"]);
    assert!(!pauses.is_empty() && pauses.iter().all(|row| row == &["h2 to s0"]), "{pauses:?}");
    drop((a, b));
    running.end();
}

#[test]
fn captures_are_bounded_and_begin_and_end_while_programs_go_on() {
    let running = Running::start("bounds", two_hosts());
    let (mut a, mut b) = (End::open(&running, "h0"), End::open(&running, "h1"));
    common::connect(&mut a, &mut b);
    let few = CaptureLimits { frames: Some(10), bytes: None };
    let small = CaptureLimits { frames: None, bytes: Some(8 << 10) };
    let with = |limits, snap_bytes| CaptureOf { limits, snap_bytes, ..of(&["h0"]) };
    let begin = |of: &CaptureOf| Capturing::begin(&running.found, of).unwrap();
    let (mut few, mut small) = (begin(&with(few, Some(90))), begin(&with(small, None)));
    // One that goes away, one that reads nothing, and one that stays until the lab ends.
    let (left, unread) = (begin(&of(&["h0"])), begin(&of(&["s0"])));
    let mut last = begin(&of(&["h1"]));
    let last = std::thread::spawn(move || rest(&mut last, Vec::new()));
    for round in 0..200 {
        a.fill(round);
        assert_eq!(a.write_to(&b), CompletionStatus::Success, "round {round}");
        assert_eq!(b.bytes(), a.bytes());
        if round == 10 {
            drop(Capturing::begin(&running.found, &of(&["h0"])).unwrap());
        }
    }
    drop(left);
    let (file, tally, end) = rest(&mut few, Vec::new());
    assert_eq!((tally.frames, end), (10, CaptureEnd::Limit));
    let lengths: Vec<usize> = Reader::new(&file).unwrap().map(|it| it.unwrap().1.len()).collect();
    assert!(lengths.len() == 10 && lengths.iter().all(|length| *length <= 90), "{lengths:?}");
    let (file, tally, end) = rest(&mut small, Vec::new());
    assert_eq!(end, CaptureEnd::Limit);
    assert!(file.len() <= 8 << 10 && tally.bytes == file.len() as u64, "{tally:?}");
    // What is not read is missed and counted: 200 x 50 kB at two ports are more than is kept.
    let mut unread = unread;
    unread.stop();
    let (file, tally, _) = rest(&mut unread, Vec::new());
    let frames = Reader::new(&file).unwrap().map(Result::unwrap).count() as u64;
    assert_eq!(tally.frames, frames);
    assert!(tally.missed > 0, "{tally:?}");
    running.end();
    let (file, tally, end) = last.join().unwrap();
    assert_eq!(end, CaptureEnd::Lab);
    let frames = Reader::new(&file).unwrap().map(Result::unwrap).count() as u64;
    assert_eq!((tally.frames, tally.missed), (frames, 0));
}

#[test]
fn who_asks_for_a_port_that_is_not_there_is_told_which_are() {
    let running = Running::start("ports", two_hosts());
    let refused =
        |port: &str| Capturing::begin(&running.found, &of(&[port])).unwrap_err().to_string();
    assert_eq!(refused("h0:h1"), "no link joins h0 and h1\nhint: h0 is linked to s0");
    assert_eq!(refused("h11"), "there is no host or switch `h11`\nhint: did you mean h1?");
    let many: Vec<Capturing> =
        (0..16).map(|_| Capturing::begin(&running.found, &of(&["h0"])).unwrap()).collect();
    assert!(refused("h0").starts_with("there are as many captures as there can be"));
    drop(many);
    common::wait_until(|| Capturing::begin(&running.found, &of(&["h0"])).is_ok());
    running.end();
}
