//! Captures of a simulation, as read by a program that we did not write.
//!
//! Needs `tshark` (Debian: `apt-get install tshark`), and fails without it: a check that is skipped
//! when its judge is absent says nothing.

use std::fs;
use std::path::{Path, PathBuf};
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

/// The capture of a scenario, in a file.
fn captured(name: &str, scenario: &str) -> PathBuf {
    let scenario = Scenario::parse(scenario, None).unwrap();
    let mut network = Network::new(scenario.network).unwrap();
    let verdict = network.run(scenario.end);
    let capture = Report::new("captured", &network, &verdict).capture().unwrap();
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&file, capture).unwrap();
    file
}

/// What a program of Wireshark prints.
fn printed(program: &str, arguments: &[&str], file: &Path) -> String {
    let output = Command::new(program).args(arguments).arg(file).output().unwrap_or_else(|error| {
        panic!("cannot run {program}: {error}; this test needs it (Debian: apt-get install tshark)")
    });
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {}: {stderr}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// The values of some fields in each frame.
fn values<const N: usize>(file: &Path, fields: [&str; N], options: &[&str]) -> Vec<[String; N]> {
    let mut arguments = vec!["-n", "-T", "fields", "-E", "separator=|", "-E", "occurrence=f"];
    arguments.extend(fields.iter().flat_map(|field| ["-e", field]));
    arguments.extend(options);
    arguments.push("-r");
    let stdout = printed("tshark", &arguments, file);
    let rows = stdout.lines().map(|line| {
        let values: Vec<String> = line.split('|').map(str::to_owned).collect();
        values.try_into().unwrap_or_else(|values| panic!("{values:?}"))
    });
    rows.collect()
}

/// The values of [`FIELDS`] in each frame of the capture of [`SCENARIO`] with one more key.
fn fields(name: &str, key: &str) -> Vec<[String; 9]> {
    values(&captured(name, &format!("{SCENARIO}{key}\n")), FIELDS, &[])
}

#[test]
fn tshark_reads_the_segments_of_tcp() {
    let tcp = SCENARIO.replace("kind = \"incast\"", "kind = \"incast\"\nservice = \"tcp\"");
    for tagged in [false, true] {
        let nic = if tagged { "[nic]\ntagged = true\n[[workload]]" } else { "[[workload]]" };
        let file = captured(&format!("tcp-{tagged}.pcapng"), &tcp.replace("[[workload]]", nic));
        let fields = [
            "_ws.malformed",
            "ip.checksum.status",
            "tcp.checksum.status",
            "tcp.srcport",
            "tcp.dstport",
            "tcp.len",
            "tcp.flags.syn",
            "vlan.id",
        ];
        let checked = ["-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE"];
        let rows = values(&file, fields, &checked);
        let (mut opened, mut bytes, mut tags) = (0, 0, 0);
        for [malformed, ip, tcp, from, to, length, syn, vlan] in &rows {
            assert_eq!([malformed, ip, tcp], ["", "1", "1"]);
            assert!(from != to && from != "0" && to != "0", "{from} {to}");
            opened += usize::from(syn == "1" || syn == "True");
            bytes += length.parse::<usize>().unwrap();
            tags += usize::from(vlan == "1");
        }
        // Each is seen twice: when it comes to the switch, and when it leaves.
        assert_eq!((opened, bytes), (2 * 3 * 2, 2 * 3 * 100_000));
        // The switch takes tags off on the way to a server.
        assert_eq!(tags, if tagged { rows.len() / 2 } else { 0 });
    }
}

#[test]
fn a_capture_says_that_it_was_simulated() {
    let text = printed("capinfos", &[], &captured("said.pcapng", SCENARIO));
    assert!(text.contains("simulated: these frames were on no wire"), "{text}");
    assert!(text.contains("ferroce sim"), "{text}");
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
