//! Programs that bring something over a path: one at each host, and what the client prints.

use core::time::Duration;
use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::hosts::ADDRESSES;
use crate::lab::{Ended, Lab, Running, free_port};

/// Messages outstanding, as perftest has them.
const WINDOW: usize = 128;
/// How much longer than it is to take.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is brought over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Traffic {
    Tcp,
    Write,
    Send,
    Read,
}

impl Traffic {
    /// TCP first.
    pub(super) const ALL: [Self; 4] = [Self::Tcp, Self::Write, Self::Send, Self::Read];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Write => "WRITE",
            Self::Send => "SEND",
            Self::Read => "READ",
        }
    }

    /// What brings much of it over.
    pub(super) const fn program(self) -> &'static str {
        match self {
            Self::Tcp => "iperf3",
            Self::Write => "ib_write_bw",
            Self::Send => "ib_send_bw",
            Self::Read => "ib_read_bw",
        }
    }

    /// The test of qperf that has one short message under way.
    pub(super) const fn latency_test(self) -> &'static str {
        match self {
            Self::Tcp => "tcp_lat",
            Self::Write => "rc_rdma_write_lat",
            Self::Send => "rc_lat",
            Self::Read => "rc_rdma_read_lat",
        }
    }
}

/// Reads what a client prints.
type Reader<Measured> = fn(&str) -> Result<Measured>;

/// A server at the first host and a client at the second one, which measures so.
pub(super) struct Pair<'a, Measured = f64> {
    labs: &'a [Lab; 2],
    /// Where the server listens, and what their output is named after.
    port: String,
    commands: [Command; 2],
    /// How long they may take.
    patience: Duration,
    value: Reader<Measured>,
}

impl<'a> Pair<'a> {
    /// As much as goes over, for so many seconds, in Gb/s.
    pub(super) fn bulk(
        labs: &'a [Lab; 2],
        traffic: Traffic,
        seconds: u32,
        events: bool,
    ) -> Result<Self> {
        let port = free_port()?.to_string();
        let (commands, value): (_, Reader<f64>) = match traffic {
            Traffic::Tcp => (iperf(labs, &port, seconds, 1), rate_of_iperf),
            _ if events => (bench(labs, traffic, &port, seconds, 1)?, rate_of_bench),
            _ => (perftest(labs, traffic, &port, seconds), rate_of_perftest),
        };
        Ok(Self { labs, port, commands, patience: patience(seconds), value })
    }

    /// One short message after the other, for so many seconds, in microseconds.
    pub(super) fn short(labs: &'a [Lab; 2], traffic: Traffic, seconds: u32) -> Result<Self> {
        let port = free_port()?.to_string();
        let patience = patience(seconds);
        let seconds = seconds.to_string();
        let server = ["qperf", "-lp", &port];
        let client =
            [&server[..], &["-t", &seconds, ADDRESSES[0], traffic.latency_test(), "quit"]].concat();
        let commands = match traffic {
            Traffic::Tcp => [plain(&labs[0], &server), plain(&labs[1], &client)],
            _ => {
                let client = [&client[..3], &["-cm1"], &client[3..]].concat();
                [labs[0].run(&[], &server), labs[1].run(&[], &client)]
            }
        };
        Ok(Self { labs, port, commands, patience, value: latency_of_qperf })
    }
}

impl<'a> Pair<'a, Vec<f64>> {
    /// As much as goes over in so many flows at once, each in Gb/s.
    pub(super) fn alike(
        labs: &'a [Lab; 2],
        traffic: Traffic,
        flows: usize,
        seconds: u32,
    ) -> Result<Self> {
        let port = free_port()?.to_string();
        let (commands, value): (_, Reader<Vec<f64>>) = match traffic {
            Traffic::Tcp => (iperf(labs, &port, seconds, flows), rates_of_iperf),
            _ => (bench(labs, traffic, &port, seconds, flows)?, rates_of_bench),
        };
        Ok(Self { labs, port, commands, patience: patience(seconds), value })
    }
}

impl<Measured> Pair<'_, Measured> {
    /// What is measured, once both have ended.
    pub(super) fn run(self) -> Result<Measured> {
        self.start()?.end()
    }

    pub(super) fn start(self) -> Result<Started<Measured>> {
        let Self { labs, port, commands: [server, client], patience, value } = self;
        let deadline = Instant::now() + patience;
        let mut server = labs[0].start(&format!("server-{port}"), server)?;
        if !server.listens(port.parse()?, deadline)? {
            let ended = server.finish(Instant::now())?;
            bail!("the server does not listen: {}", ended.stderr.trim_end());
        }
        let client = labs[1].start(&format!("client-{port}"), client)?;
        Ok(Started { server, client, deadline, patience, value })
    }
}

/// A pair at work.
pub(super) struct Started<Measured = f64> {
    server: Running,
    client: Running,
    deadline: Instant,
    patience: Duration,
    value: Reader<Measured>,
}

impl<Measured> Started<Measured> {
    /// Whether it still is, after a while.
    pub(super) fn is_at_work_after(&mut self, time: Duration) -> Result<bool> {
        sleep(time);
        Ok(!self.client.has_ended()?)
    }

    /// What is measured, once the client has ended.
    pub(super) fn end(self) -> Result<Measured> {
        let Self { server, client, deadline, patience, value } = self;
        let Ended { status, stdout, stderr } = client.finish(deadline)?;
        drop(server);
        match status {
            Some(status) if status.success() => value(&stdout),
            Some(status) => bail!("{status}: {stdout}{}", stderr.trim_end()),
            None => {
                let printed = format!("{stdout}{stderr}");
                bail!("not finished within {} s: {}", patience.as_secs(), printed.trim_end())
            }
        }
    }
}

/// How long a pair may take that is to be at work for so many seconds.
fn patience(seconds: u32) -> Duration {
    Duration::from_secs(seconds.into()) + PATIENCE
}

/// A program without the soft NIC.
fn plain(lab: &Lab, words: &[&str]) -> Command {
    let mut command = lab.plain(words[0]);
    command.args(&words[1..]);
    command
}

fn iperf([server, client]: &[Lab; 2], port: &str, seconds: u32, flows: usize) -> [Command; 2] {
    // perftest leaves out a quarter of the time at the beginning, and one at the end.
    let [omitted, seconds] = [seconds / 4, seconds - seconds / 4].map(|it| it.to_string());
    let client_words = ["iperf3", "-p", port, "-c", ADDRESSES[0], "-l", "64K", "-J"];
    let flows = flows.to_string();
    let client_words =
        [&client_words[..], &["-O", &omitted, "-t", &seconds, "-P", &flows]].concat();
    [plain(server, &["iperf3", "-p", port, "-s", "-1"]), plain(client, &client_words)]
}

fn rate_of_iperf(printed: &str) -> Result<f64> {
    Ok(rates_of_iperf(printed)?.iter().sum())
}

fn rates_of_iperf(printed: &str) -> Result<Vec<f64>> {
    let report: Value = serde_json::from_str(printed)?;
    let streams = report["end"]["streams"].as_array().context("iperf3 reports no streams")?;
    let rate = |stream: &Value| {
        let rate = stream["receiver"]["bits_per_second"].as_f64();
        Ok(rate.context("iperf3 reports no rate of a stream")? / 1e9)
    };
    streams.iter().map(rate).collect()
}

fn perftest(
    [server, client]: &[Lab; 2],
    traffic: Traffic,
    port: &str,
    seconds: u32,
) -> [Command; 2] {
    let seconds = seconds.to_string();
    let words = [traffic.program(), "-d", "ferroce0", "-F", "-p", port, "-s", "65536"];
    let words = [&words[..], &["-D", &seconds, "--report_gbits"]].concat();
    let client_words = [&words[..], &[ADDRESSES[0]]].concat();
    [server.run(&[], &words), client.run(&[], &client_words)]
}

fn rate_of_perftest(printed: &str) -> Result<f64> {
    // Bytes, iterations, peak, average, millions of messages.
    let row = printed.lines().rev().find_map(|line| {
        let row: Option<Vec<f64>> = line.split_whitespace().map(|it| it.parse().ok()).collect();
        row.filter(|row| row.len() == 5)
    });
    Ok(row.context("it printed no row of results")?[3])
}

/// The same verb by so many threads of `ferroce bench`, each of which sleeps until something completes.
fn bench(
    [server, client]: &[Lab; 2],
    traffic: Traffic,
    port: &str,
    seconds: u32,
    flows: usize,
) -> Result<[Command; 2]> {
    let command = server.command();
    let command = command.to_str().context("the path of the command is no UTF-8")?;
    let file = client.folder().join(format!("flows-{port}.toml"));
    let warmup_ms = seconds * 1000 / 4;
    let length_ms = seconds * 1000 - warmup_ms;
    let verb = traffic.name().to_ascii_lowercase();
    fs::write(
        &file,
        format!(
            "warmup_ms = {warmup_ms}\nlength_ms = {length_ms}\n\n[[flow]]\nverb = \"{verb}\"\n\
             count = {flows}\nsize_bytes = 65536\nwindow = {WINDOW}\nwait = \"event\"\n"
        ),
    )?;
    let file = file.to_str().context("the path of the flow file is no UTF-8")?;
    let place = format!("{}:{port}", ADDRESSES[0]);
    let device = ["--world", "nic", "--dev", "ferroce0", "--gid-index", "1"];
    let serve = ["bench", "serve", "--listen", &place, "--once"];
    let ask = ["bench", file, "--connect", &place, "--json", "-"];
    let server_words = [&[command], &serve[..], &device].concat();
    let client_words = [&[command], &ask[..], &device].concat();
    Ok([server.run(&[], &server_words), client.run(&[], &client_words)])
}

fn rate_of_bench(printed: &str) -> Result<f64> {
    Ok(rates_of_bench(printed)?.iter().sum())
}

fn rates_of_bench(printed: &str) -> Result<Vec<f64>> {
    let report: Value = serde_json::from_str(printed)?;
    let rates = report["runs"][0]["flows"].as_array().and_then(|flows| {
        flows.iter().map(|flow| flow["bandwidth_gbps"].as_f64()).collect::<Option<Vec<f64>>>()
    });
    rates.with_context(|| format!("it reports no rates: {report:#}"))
}

/// Of a line like `latency  =  105 us`, in microseconds.
fn latency_of_qperf(printed: &str) -> Result<f64> {
    let line = printed.lines().find_map(|line| line.trim().strip_prefix("latency"));
    let said = line.and_then(|line| line.split_once('=')).map(|(_, said)| said.trim());
    let (number, unit) =
        said.and_then(|said| said.split_once(' ')).context("no latency is told")?;
    let us = match unit.trim() {
        "ns" => 1e-3,
        "us" => 1.0,
        "ms" => 1e3,
        "sec" => 1e6,
        other => bail!("a latency in {other}"),
    };
    Ok(number.parse::<f64>()? * us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_qperf_prints_is_read_in_microseconds() {
        let of = |said: &str| latency_of_qperf(&format!("tcp_lat:\n    latency  =  {said}\n"));
        assert_eq!(of("105 us").unwrap(), 105.0);
        assert_eq!(of("1.02 ms").unwrap(), 1_020.0);
        assert!(of("7 hours").is_err());
        assert!(latency_of_qperf("failed to connect\n").is_err());
    }
}
