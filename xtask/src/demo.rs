//! `cargo xtask demo`: shows the main job.
//!
//! Debian's own programs, a server and a client each, run as a user without rights. Then tshark, which
//! knows nothing of us, reads their packets.

use core::time::Duration;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::lab::{Ended, Lab, free_port};
use crate::terminal::{bold, dim, green, heading};
use crate::workspace;

/// Shown as they are.
const SHOWN: [&[&str]; 3] = [
    &["ibv_rc_pingpong", "-d", "ferroce0", "-g", "1"],
    &["ib_write_bw", "-d", "ferroce0", "-F"],
    &["ib_read_lat", "-d", "ferroce0", "-F"],
];

/// Small enough to look at packet by packet.
const RECORDED: [&[&str]; 3] = [
    &["ibv_rc_pingpong", "-d", "ferroce0", "-g", "1", "-s", "3000", "-n", "2"],
    &["ib_write_bw", "-d", "ferroce0", "-F", "-n", "5"],
    &["ib_read_lat", "-d", "ferroce0", "-F", "-n", "5"],
];

const PACKETS_SHOWN: usize = 12;
const PATIENCE: Duration = Duration::from_secs(60);
const ADDRESS: &str = "127.0.0.1";

pub(crate) fn run() -> Result<()> {
    let lab = Lab::open()?;
    println!(
        "{}",
        bold("Ferroce: unmodified RDMA programs without a NIC, a kernel module or root")
    );
    println!("They run as {}, and talk RoCEv2 over UDP port 4791 of loopback.", lab.user());

    heading("ibv_devices");
    let command = lab.run(&[], &["ibv_devices"]);
    print_output("", &lab.finish("devices", command, Instant::now() + PATIENCE)?)?;
    for words in SHOWN {
        heading(words[0]);
        let (server, client) = pair(&lab, &[], words, true)?;
        print_output("server", &server)?;
        print_output("client", &client)?;
    }
    packets(&lab)?;
    println!("\n{}", green("Everything above ran over Ferroce."));
    let ferroce = workspace::dist_dir().join("bin/ferroce");
    let ferroce = ferroce.strip_prefix(workspace::root()).unwrap_or(&ferroce).display();
    println!("To try your own: {}", bold(&format!("{ferroce} run -- PROGRAM ...")));
    Ok(())
}

/// Runs a server and a client to their ends.
fn pair(lab: &Lab, flags: &[String], words: &[&str], announced: bool) -> Result<(Ended, Ended)> {
    let deadline = Instant::now() + PATIENCE;
    let port = free_port()?;
    let port_word = port.to_string();
    let server_words = [words, &["-p", &port_word]].concat();
    let client_words = [server_words.as_slice(), &[ADDRESS]].concat();
    if announced {
        println!("  server {} ferroce run -- {}", dim("$"), bold(&server_words.join(" ")));
        println!("  client {} ferroce run -- {}", dim("$"), bold(&client_words.join(" ")));
    }
    let mut server = lab.start("server", lab.run(&[], &server_words))?;
    if !server.listens(port, deadline)? {
        print_output("server", &server.finish(Instant::now())?)?;
        bail!("{} does not listen", words[0]);
    }
    let client = lab.finish("client", lab.run(flags, &client_words), deadline)?;
    Ok((server.finish(deadline)?, client))
}

/// What one side printed, or the only one, which has no name; an error if it did not end well.
fn print_output(side: &str, ended: &Ended) -> Result<()> {
    let lines = ended.stdout.lines().chain(ended.stderr.lines());
    // perftest draws rules of dashes and boxes of stars.
    let is_drawing = |line: &str| line.chars().all(|c| matches!(c, '-' | '*' | ' '));
    for line in lines.filter(|line| !is_drawing(line)) {
        println!("  {side:>6} {} {}", dim("│"), line.trim_end().replace('\t', "  "));
    }
    match ended.status {
        Some(status) if status.success() => Ok(()),
        Some(status) => bail!("{} ended with {status}", side_or_program(side)),
        None => bail!("{} did not end within {} s", side_or_program(side), PATIENCE.as_secs()),
    }
}

fn side_or_program(side: &str) -> &str {
    if side.is_empty() { "the program" } else { side }
}

/// One packet as tshark reads it.
struct Packet {
    milliseconds: f64,
    bytes: String,
    psn: String,
    info: String,
    is_roce: bool,
    is_malformed: bool,
}

fn packets(lab: &Lab) -> Result<()> {
    heading("on the wire");
    println!("  Small runs of the same programs, recorded with {}.", bold("ferroce run --pcap"));
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut malformed = 0;
    for (index, words) in RECORDED.iter().enumerate() {
        let file = lab.folder().join(format!("{}.pcap", words[0]));
        let flags = ["--pcap".to_owned(), file.display().to_string()];
        let (server, client) = pair(lab, &flags, words, false)?;
        for (side, ended) in [("server", &server), ("client", &client)] {
            if !ended.status.is_some_and(|status| status.success()) {
                print_output(side, ended)?;
            }
        }
        let packets = read(lab, &file)?;
        if index == 0 {
            print_packets(words, &packets);
        }
        for packet in packets {
            malformed += usize::from(packet.is_malformed || !packet.is_roce);
            *counts.entry(operation(&packet.info)).or_default() += 1;
        }
    }
    let names: Vec<&str> = RECORDED.iter().map(|words| words[0]).collect();
    println!("\n  Packets of {}, by operation:\n", names.join(", "));
    for (operation, count) in &counts {
        println!("  {count:>7}  {operation}");
    }
    println!("  {malformed:>7}  that tshark finds malformed or not RoCEv2");
    if counts.is_empty() || malformed > 0 {
        bail!("the packets are not what they should be");
    }
    Ok(())
}

fn print_packets(words: &[&str], packets: &[Packet]) {
    println!("\n  {} {}\n", dim("$"), words.join(" "));
    println!("  {}", dim("     ms  bytes       PSN  tshark says"));
    for packet in packets.iter().take(PACKETS_SHOWN) {
        let Packet { milliseconds, bytes, psn, info, .. } = packet;
        println!("  {milliseconds:7.3}  {bytes:>5}  {psn:>8}  {info}");
    }
}

/// The operation's name, without the queue pair and the like that follow it.
fn operation(info: &str) -> String {
    info.split(" QP=").next().unwrap_or(info).trim().to_owned()
}

fn read(lab: &Lab, file: &Path) -> Result<Vec<Packet>> {
    let mut command = lab.plain("tshark");
    // Without the switch tshark takes some messages for RPC over RDMA.
    command.arg("-r").arg(file).args(["--disable-protocol", "rpcordma", "-T", "fields"]);
    let columns = [
        "frame.time_relative",
        "frame.len",
        "infiniband.bth.psn",
        "_ws.col.Info",
        "frame.protocols",
    ];
    command.args(columns.iter().flat_map(|column| ["-e", column]));
    let ended = lab.finish("tshark", command, Instant::now() + PATIENCE)?;
    if !ended.status.is_some_and(|status| status.success()) {
        bail!("tshark cannot read the capture: {}", ended.stderr.trim());
    }
    ended.stdout.lines().map(|line| packet(line).context("tshark printed something else")).collect()
}

fn packet(line: &str) -> Option<Packet> {
    let mut columns = line.split('\t');
    let seconds: f64 = columns.next()?.parse().ok()?;
    let bytes = columns.next()?.to_owned();
    // The field has Wireshark's number format.
    let psn = columns.next()?.to_owned();
    let info = columns.next()?.trim().to_owned();
    let protocols = columns.next()?;
    Some(Packet {
        milliseconds: seconds * 1e3,
        bytes,
        psn,
        info,
        is_roce: protocols.contains("infiniband"),
        is_malformed: protocols.contains("_ws.malformed"),
    })
}
