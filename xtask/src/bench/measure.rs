//! One figure at a time: the programs are run, and the value is found in what they print.

use core::time::Duration;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::figure::{Figure, Link, Program, Tool};
use super::{floor, queue_pairs};
use crate::lab::{Lab, free_port};
use crate::workspace::{self, cargo};

const PATIENCE: Duration = Duration::from_secs(60);
const ADDRESS: &str = "127.0.0.1";

impl Figure {
    /// The package, and the program or the header of it, that it cannot be measured without.
    pub(super) fn needs(&self) -> Option<(&'static str, &'static str)> {
        match self.tool {
            Tool::CacheLine | Tool::Datagram { .. } | Tool::Icrc { .. } => None,
            Tool::Ferroce { .. } => None,
            Tool::Perftest { words, .. } => Some(("perftest", words[0])),
            Tool::Ucx { .. } | Tool::UcxOverFerroce { .. } => Some(("ucx-utils", "ucx_perftest")),
            Tool::FiPingpong { .. } => Some(("libfabric-bin", "fi_pingpong")),
            Tool::Program { program, .. } => Some(program.needs),
            Tool::Iperf { .. } => Some(("iperf3", "iperf3")),
            Tool::Cmtime { .. } => Some(("rdmacm-utils", "cmtime")),
            Tool::QpMemory { .. } | Tool::QpTime { .. } => Some(("gcc", "cc")),
        }
    }

    pub(super) fn measure(&self, lab: &Lab) -> Result<f64> {
        match self.tool {
            Tool::CacheLine => floor::cache_line_ns(),
            Tool::Datagram { asleep } => floor::datagram_us(asleep),
            Tool::Perftest { link, words, column, factor } => {
                Ok(perftest(lab, link, words, column)? * factor)
            }
            Tool::Ferroce { link, words, number, factor } => {
                Ok(factor * ferroce(lab, link, words, number)?)
            }
            Tool::Ucx { transports, test, bytes, iterations, column, factor } => {
                let side = |words: &[&str]| {
                    let mut command = lab.plain(words[0]);
                    command.args(&words[1..]);
                    command.env("UCX_TLS", transports).env("UCX_NET_DEVICES", "lo");
                    command
                };
                Ok(ucx(lab, side, [bytes, iterations], test, column)? * factor)
            }
            Tool::UcxOverFerroce { link, test, bytes, iterations, column, factor } => {
                let side = |words: &[&str]| {
                    let mut command = linked(lab.run(&[], words), link);
                    command.env("UCX_TLS", "rc_verbs,ud_verbs,self");
                    command.env("UCX_NET_DEVICES", "ferroce0:1");
                    command
                };
                Ok(ucx(lab, side, [bytes, iterations], test, column)? * factor)
            }
            Tool::FiPingpong { provider, bytes, iterations } => {
                fi_pingpong(lab, provider, [bytes, iterations])
            }
            Tool::Iperf { length } => iperf(lab, length),
            Tool::QpMemory { count } => Ok(queue_pairs::cost(lab, count)?.kib),
            Tool::QpTime { count } => Ok(queue_pairs::cost(lab, count)?.us),
            Tool::Cmtime { count } => cmtime(lab, count),
            Tool::Program { program, words } => number(lab, program, words),
            Tool::Icrc { payload } => icrc(payload),
        }
    }
}

/// The result of the ICRC's benchmark for packets with this payload.
fn icrc(payload: u32) -> Result<f64> {
    let bench = ["bench", "--quiet", "--package", "ferroce-wire", "--bench", "icrc"];
    let printed = workspace::output(cargo().args(bench))?;
    let prefix = format!("{payload} bytes of payload: ");
    let line = printed.lines().find_map(|line| line.strip_prefix(&prefix));
    let gbps = line.and_then(|line| line.split(", ").nth(1)?.strip_suffix(" Gb/s")?.parse().ok());
    gbps.with_context(|| format!("no bandwidth of {payload} bytes in {printed}"))
}

fn perftest(lab: &Lab, link: Link, words: &[&str], column: usize) -> Result<f64> {
    let port = free_port()?;
    let port_word = port.to_string();
    let mut words = [words, &["-d", "ferroce0", "-F", "-p", &port_word]].concat();
    if words[0].ends_with("_bw") {
        words.push("--report_gbits");
    }
    let side = |core, more: &[&str]| {
        linked(lab.run(&[], &[&["taskset", "-c", core], words.as_slice(), more].concat()), link)
    };
    let printed = pair(lab, port, side("0", &[]), side("1", &[ADDRESS]))?;
    last_row(&printed, column)
}

/// A number of the flow that a client of `ferroce bench` has with a server of it. What perftest has if nothing
/// is said: 128 messages outstanding, one in a hundred of them with a completion.
fn ferroce(lab: &Lab, link: Link, words: &[&str], number: &str) -> Result<f64> {
    let port = free_port()?;
    let address = format!("{ADDRESS}:{port}");
    let command = lab.command().to_string_lossy().into_owned();
    let side = |core, words: &[&str]| {
        let mut side = lab.plain("taskset");
        side.args(["-c", core, &command, "bench"]).args(words).args(lab.flags());
        linked(side, link)
    };
    let server = side("0", &["serve", "--once", "--listen", &address]);
    let flags = [
        "--window",
        "128",
        "--set",
        "signal_every=100",
        "--warmup-ms",
        "200",
        "--length-ms",
        "1500",
        "--json",
        "-",
        "--connect",
        &address,
    ];
    let printed = pair(lab, port, server, side("1", &[words, &flags].concat()))?;
    let report: Value = serde_json::from_str(&printed).context("the client prints no JSON")?;
    let value = report["runs"][0]["flows"][0][number].as_f64();
    value.with_context(|| format!("there is no {number} in the client's report"))
}

fn linked(mut command: Command, link: Link) -> Command {
    match link {
        Link::Udp => command.env("FERROCE_LINK", "udp"),
        Link::Exact => command.env("FERROCE_LINK", "udp").env("FERROCE_WIRE", "exact"),
        Link::SameHost => command.env_remove("FERROCE_LINK"),
        Link::SameHostWithIcrc => command.env("FERROCE_LINK", "shm,icrc"),
    };
    command
}

/// A column of what `ucx_perftest` prints last; `side` makes a command of its words.
fn ucx(
    lab: &Lab,
    side: impl Fn(&[&str]) -> Command,
    [bytes, iterations]: [u32; 2],
    test: &str,
    column: usize,
) -> Result<f64> {
    let port = free_port()?;
    let [port_word, bytes, iterations] =
        [port.into(), bytes, iterations].map(|number: u32| number.to_string());
    let side = |core, more: &[&str]| {
        side(&[&["taskset", "-c", core, "ucx_perftest", "-p", &port_word], more].concat())
    };
    let words = [ADDRESS, "-t", test, "-w", "100", "-f", "-s", &bytes, "-n", &iterations];
    last_row(&pair(lab, port, side("0", &[]), side("1", &words))?, column)
}

/// How long a connection of `cmtime` takes from its first call until it is established, when `count` of
/// them are made at once.
fn cmtime(lab: &Lab, count: u32) -> Result<f64> {
    let deadline = Instant::now() + PATIENCE;
    // RDMA CM's port spaces are not those of TCP, but a free port is as good as any other.
    let port = free_port()?;
    let (port_word, count) = (port.to_string(), count.to_string());
    let side = |core, more: &[&str]| {
        let words = ["taskset", "-c", core, "cmtime", "-p", &port_word, "-c", &count];
        lab.run(&[], &[&words, more].concat())
    };
    let mut server = lab.start("server", side("0", &[]))?;
    if !server.listens_for_cm(port, deadline)? {
        bail!("the server does not listen");
    }
    // The server goes on until it is dropped.
    let client = lab.finish("client", side("1", &["-s", lab.address()]), deadline)?;
    match client.status {
        Some(status) if status.success() => connected_us(&client.stdout),
        Some(status) => bail!("{status}: {}", last_line(&client.stderr)),
        None => bail!("not finished within {} s", PATIENCE.as_secs()),
    }
}

/// Adds up cmtime's table to the row in which the connections are made.
fn connected_us(printed: &str) -> Result<f64> {
    let mut sum = 0.0;
    for line in printed.lines() {
        let Some((step, figures)) = line.split_once(':') else { continue };
        let Some(Ok(each)) = figures.split_whitespace().nth(3).map(str::parse::<f64>) else {
            continue;
        };
        sum += each;
        if step.trim() == "connect" {
            return Ok(sum);
        }
    }
    bail!("it printed no table")
}

fn fi_pingpong(lab: &Lab, provider: &str, [bytes, iterations]: [u32; 2]) -> Result<f64> {
    let port = free_port()?;
    let words = [port.into(), bytes, iterations].map(|number: u32| number.to_string());
    let [port_word, bytes, iterations] = words.each_ref().map(String::as_str);
    let side = |core, more: &[&str]| {
        let mut command = lab.plain("taskset");
        command.args(["-c", core, "fi_pingpong", "-p", provider, "-e", "rdm"]);
        command.args(["-S", bytes, "-I", iterations]).args(more);
        command
    };
    let (server, client) = (side("0", &["-B", port_word]), side("1", &["-P", port_word, ADDRESS]));
    transfer_us(&pair(lab, port, server, client)?)
}

/// The time of a transfer, from the last row of fi_pingpong: bytes, sent, acknowledged, total, time,
/// MB/s, us.
fn transfer_us(printed: &str) -> Result<f64> {
    let row = printed.lines().next_back();
    let word = row.and_then(|row| row.split_whitespace().nth(6)?.parse().ok());
    word.context("it printed no row of results")
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

/// Runs a program of ours and reads the number that it prints.
fn number(lab: &Lab, program: &Program, words: &[&str]) -> Result<f64> {
    let &Program { name, link, sources, .. } = program;
    let path = lab.compile(name, sources)?;
    let command = linked(lab.run(&[], &[&[path.as_str()], words].concat()), link);
    let ended = lab.finish(name, command, Instant::now() + PATIENCE)?;
    match ended.status {
        Some(status) if status.success() => {}
        Some(status) => bail!("{status}: {}", last_line(&ended.stderr)),
        None => bail!("not finished within {} s", PATIENCE.as_secs()),
    }
    ended.stdout.trim().parse().context("it printed no number")
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
    fn a_connection_takes_the_steps_until_it_is_made() {
        let printed = "step              total ms     max ms     min us  us / conn\n\
             create id    :        0.54       0.20       0.00       1.25\n\
             connect      :       31.55      19.32    2231.00      63.50\n\
             disconnect   :        6.11       3.28      47.00      12.22\n";
        assert!((connected_us(printed).unwrap() - 64.75).abs() < 1e-9);
        assert!(connected_us("create id    :        0.54       0.20       0.00 1.2").is_err());
    }

    #[test]
    fn the_time_of_a_transfer_is_read() {
        let row = "64k     2k      =2k     250m        0.73s    358.97     182.56       0.01";
        let printed = format!("bytes   #sent   #ack     total       time     MB/sec\n{row}\n");
        assert!((transfer_us(&printed).unwrap() - 182.56).abs() < f64::EPSILON);
        assert!(transfer_us("bytes   #sent   #ack     total       time\n").is_err());
    }

    #[test]
    fn the_last_row_of_numbers_is_read() {
        let printed = " #bytes #iterations BW\n 65536 5000 0.00 14.91 0.028436\n-----\n\n";
        assert!((last_row(printed, 3).unwrap() - 14.91).abs() < f64::EPSILON);
        assert!(last_row("#bytes\n----\n", 3).is_err());
    }
}
