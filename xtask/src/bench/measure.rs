//! One figure at a time: which programs make it, and where it stands in what they print.

use core::time::Duration;
use std::env;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{floor, memory};
use crate::lab::{Lab, free_port};

const PATIENCE: Duration = Duration::from_secs(60);
const ADDRESS: &str = "127.0.0.1";

const KIB_64: u32 = 64 << 10;
const MIB_1: u32 = 1 << 20;

/// Everything that is measured in a round, in the order of the round: ours next to its peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Figure {
    CacheLine,
    UdpOneWay,
    WriteLatency8,
    Write64K,
    UcxPut64K,
    UcxTag64K,
    Iperf64K,
    Write1M,
    UcxPut1M,
    UcxTag1M,
    Iperf1M,
    MemoryPerQp,
}

pub(super) const ROUND: [Figure; 12] = [
    Figure::CacheLine,
    Figure::UdpOneWay,
    Figure::WriteLatency8,
    Figure::Write64K,
    Figure::UcxPut64K,
    Figure::UcxTag64K,
    Figure::Iperf64K,
    Figure::Write1M,
    Figure::UcxPut1M,
    Figure::UcxTag1M,
    Figure::Iperf1M,
    Figure::MemoryPerQp,
];

impl Figure {
    /// What stands in the table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::CacheLine => "cache line, to and fro, ns",
            Self::UdpOneWay => "UDP spin, one way, us",
            Self::WriteLatency8 => "ib_write_lat 8 B, us",
            Self::Write64K => "ib_write_bw 64 KiB, Gb/s",
            Self::UcxPut64K => "UCX tcp ucp_put_bw 64 KiB, Gb/s",
            Self::UcxTag64K => "UCX tcp tag_bw 64 KiB, Gb/s",
            Self::Iperf64K => "iperf3 TCP -l 64K, Gb/s",
            Self::Write1M => "ib_write_bw 1 MiB, Gb/s",
            Self::UcxPut1M => "UCX tcp ucp_put_bw 1 MiB, Gb/s",
            Self::UcxTag1M => "UCX tcp tag_bw 1 MiB, Gb/s",
            Self::Iperf1M => "iperf3 TCP -l 1M, Gb/s",
            Self::MemoryPerQp => "memory of a connected RC QP, KiB",
        }
    }

    /// The package and the program that it cannot be measured without.
    pub(super) fn needs(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::CacheLine | Self::UdpOneWay => None,
            Self::WriteLatency8 => Some(("perftest", "ib_write_lat")),
            Self::Write64K | Self::Write1M => Some(("perftest", "ib_write_bw")),
            Self::UcxPut64K | Self::UcxTag64K | Self::UcxPut1M | Self::UcxTag1M => {
                Some(("ucx-utils", "ucx_perftest"))
            }
            Self::Iperf64K | Self::Iperf1M => Some(("iperf3", "iperf3")),
            Self::MemoryPerQp => Some(("gcc", "cc")),
        }
    }

    pub(super) fn measure(self, lab: &Lab) -> Result<f64> {
        match self {
            Self::CacheLine => floor::cache_line_ns(),
            Self::UdpOneWay => floor::udp_one_way_us(),
            Self::WriteLatency8 => write_latency(lab),
            Self::Write64K => write_bandwidth(lab, KIB_64, 20_000),
            Self::Write1M => write_bandwidth(lab, MIB_1, 2_000),
            Self::UcxPut64K => ucx(lab, "ucp_put_bw", KIB_64, 20_000),
            Self::UcxTag64K => ucx(lab, "tag_bw", KIB_64, 20_000),
            Self::UcxPut1M => ucx(lab, "ucp_put_bw", MIB_1, 300),
            Self::UcxTag1M => ucx(lab, "tag_bw", MIB_1, 2_000),
            Self::Iperf64K => iperf(lab, "64K"),
            Self::Iperf1M => iperf(lab, "1M"),
            Self::MemoryPerQp => memory::per_qp_kib(lab),
        }
    }
}

/// Whether a program is in the search path.
pub(super) fn is_present(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn write_latency(lab: &Lab) -> Result<f64> {
    // bytes, iterations, minimum, maximum, typical: the median of one way.
    perftest(lab, &["ib_write_lat", "-s", "8", "-n", "20000"], 4)
}

fn write_bandwidth(lab: &Lab, bytes: u32, iterations: u32) -> Result<f64> {
    let (bytes, iterations) = (bytes.to_string(), iterations.to_string());
    // bytes, iterations, peak, average.
    perftest(lab, &["ib_write_bw", "-s", &bytes, "-n", &iterations, "--report_gbits"], 3)
}

fn perftest(lab: &Lab, words: &[&str], column: usize) -> Result<f64> {
    let port = free_port()?;
    let port_word = port.to_string();
    let words = [words, &["-d", "ferroce0", "-F", "-p", &port_word]].concat();
    let side = |core, more: &[&str]| {
        lab.run(&[], &[&["taskset", "-c", core], words.as_slice(), more].concat())
    };
    let printed = pair(lab, port, side("0", &[]), side("1", &[ADDRESS]))?;
    last_row(&printed, column)
}

fn ucx(lab: &Lab, test: &str, bytes: u32, iterations: u32) -> Result<f64> {
    let port = free_port()?;
    let side = |core: &str| {
        let mut command = lab.plain("taskset");
        command.args(["-c", core, "ucx_perftest", "-p", &port.to_string()]);
        command.env("UCX_TLS", "tcp,self").env("UCX_NET_DEVICES", "lo");
        command
    };
    let mut client = side("1");
    client.args([ADDRESS, "-t", test, "-w", "100", "-f"]);
    client.args(["-s", &bytes.to_string(), "-n", &iterations.to_string()]);
    let printed = pair(lab, port, side("0"), client)?;
    // The last of eight columns is the overall rate of messages.
    Ok(last_row(&printed, 7)? * f64::from(bytes) * 8.0 / 1e9)
}

fn iperf(lab: &Lab, length: &str) -> Result<f64> {
    let port = free_port()?;
    let side = |core: &str| {
        let mut command = lab.plain("taskset");
        command.args(["-c", core, "iperf3", "-p", &port.to_string()]);
        command
    };
    let (mut server, mut client) = (side("0"), side("1"));
    server.args(["-s", "-1"]);
    client.args(["-c", ADDRESS, "-l", length, "-t", "2", "-J"]);
    let report: Value = serde_json::from_str(&pair(lab, port, server, client)?)?;
    let rate = report["end"]["sum_received"]["bits_per_second"].as_f64();
    Ok(rate.context("iperf3 reports no rate")? / 1e9)
}

/// Runs a server and its client, and returns what the client prints.
fn pair(lab: &Lab, port: u16, server: Command, client: Command) -> Result<String> {
    let deadline = Instant::now() + PATIENCE;
    let mut server = lab.start("server", server)?;
    if !server.listens(port, deadline)? {
        let ended = server.finish(Instant::now())?;
        bail!("the server does not listen: {}", last_line(&ended.stderr));
    }
    let client = lab.finish("client", client, deadline)?;
    match client.status {
        Some(status) if status.success() => {
            server.finish(Instant::now() + Duration::from_secs(5))?;
            Ok(client.stdout)
        }
        Some(status) => bail!("{status}: {}", last_line(&client.stderr)),
        None => bail!("not finished within {} s", PATIENCE.as_secs()),
    }
}

fn last_line(text: &str) -> &str {
    text.trim_end().lines().next_back().unwrap_or("it printed nothing")
}

/// A column of the last line that consists of numbers.
fn last_row(printed: &str, column: usize) -> Result<f64> {
    let numbers = |line: &str| -> Option<Vec<f64>> {
        line.split_whitespace().map(|word| word.parse().ok()).collect()
    };
    let row = printed.lines().rev().filter_map(numbers).find(|row| row.len() > column);
    Ok(row.context("it printed no row of results")?[column])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_row_of_numbers_is_read() {
        let printed = " #bytes #iterations BW\n 65536 5000 0.00 14.91 0.028436\n-----\n\n";
        assert!((last_row(printed, 3).unwrap() - 14.91).abs() < f64::EPSILON);
        assert!(last_row("#bytes\n----\n", 3).is_err());
    }
}
