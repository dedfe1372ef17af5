//! Captures of a simulation, as read by a program that we did not write.
//!
//! Needs `tshark` (Debian: `apt-get install tshark`), and fails without it: a check that is skipped
//! when its judge is absent says nothing.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use fabric::Network;
use fabric::report::Report;
use fabric::scenario::Scenario;

/// Three to one under a small buffer: data, acknowledgements, and pauses.
const SCENARIO: &str = r#"
end_ms = 1
[topology]
shape = "single-switch"
hosts = 4
rate_gbps = 100
cable_m = 20
[switch]
buffer_bytes = 400_000
lossless_priorities = [3]
[[workload]]
kind = "incast"
receiver = "h0"
senders = 3
message_bytes = 100_000
[[capture]]
node = "s0"
"#;

const FIELDS: [&str; 9] = [
    "_ws.malformed",
    "_ws.short",
    "_ws.expert.message",
    "frame.len",
    "frame.cap_len",
    "frame.interface_name",
    "infiniband.bth.opcode",
    "infiniband.reth.dmalen",
    "macc.opcode",
];

/// The values of [`FIELDS`] in each frame of the capture of [`SCENARIO`] with one more key.
fn fields(name: &str, key: &str) -> Vec<[String; 9]> {
    let scenario = Scenario::parse(&format!("{SCENARIO}{key}\n"), None).unwrap();
    let mut network = Network::new(scenario.network).unwrap();
    let verdict = network.run(scenario.end);
    let capture = Report::new("captured", &network, &verdict).capture().unwrap();
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&file, capture).unwrap();
    let mut command = Command::new("tshark");
    command.args(["-n", "-T", "fields", "-E", "separator=|", "-E", "occurrence=f", "-r"]);
    command.arg(&file);
    for field in FIELDS {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap_or_else(|error| {
        panic!("cannot run tshark: {error}; this test needs it (Debian: apt-get install tshark)")
    });
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "tshark: {}: {stderr}", output.status);
    let stdout = String::from_utf8(output.stdout).unwrap();
    let rows = stdout.lines().map(|line| {
        let values: Vec<String> = line.split('|').map(str::to_owned).collect();
        values.try_into().unwrap_or_else(|values| panic!("{values:?}"))
    });
    rows.collect()
}

#[test]
fn tshark_reads_every_frame_of_a_capture() {
    let rows = fields("whole.pcapng", "");
    let (mut messages, mut data, mut acknowledgements, mut pauses) = (0, 0, 0, 0);
    for [malformed, short, expert, whole, captured, port, opcode, length, control] in &rows {
        assert_eq!([malformed, short, expert], ["", "", ""]);
        assert_eq!(whole, captured);
        assert!(port.starts_with("s0 to h"), "{port}");
        match (opcode.as_str(), control.as_str()) {
            // RDMA WRITE First, Middle and Last.
            ("6", "") => {
                assert_eq!(length, "100000");
                messages += 1;
            }
            ("7" | "8", "") => data += 1,
            ("17", "") => acknowledgements += 1,
            ("", "0x0101") => pauses += 1,
            other => panic!("{other:?}"),
        }
    }
    // Each message is seen twice: when it comes to the switch, and when it leaves.
    assert_eq!((messages, data), (6, 6 * 97));
    assert!(acknowledgements > 6 && pauses > 6, "{acknowledgements} {pauses}");
}

#[test]
fn tshark_reads_the_headers_of_frames_that_are_cut() {
    let (whole, cut) = (fields("all.pcapng", ""), fields("cut.pcapng", "snap_bytes = 90"));
    assert_eq!(whole.len(), cut.len());
    for (whole, cut) in whole.iter().zip(&cut) {
        let captured: usize = cut[4].parse().unwrap();
        assert_eq!(captured, whole[4].parse::<usize>().unwrap().min(90));
        let others = |row: &[String; 9]| [&row[..4], &row[5..]].concat();
        assert_eq!(others(whole), others(cut));
    }
}
