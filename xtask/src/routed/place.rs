//! The place: two hosts, the router, and programs that run there.

use core::time::Duration;
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::lab::{Ended, Lab, free_port};
use crate::network::hosts::Host;
use crate::workspace;

pub(super) const CLIENT: &str = "10.81.1.1";
pub(super) const SERVER: &str = "10.81.2.1";
const ROUTER: [&str; 2] = ["10.81.1.254", "10.81.2.254"];
/// Of the hosts, and of the router to them. Names of interfaces are of one namespace until they are moved.
const ENDS: [&str; 2] = ["to-router-c", "to-router-s"];
const PORTS: [&str; 2] = ["to-client", "to-server"];
const PATIENCE: Duration = Duration::from_secs(60);

/// See the module.
pub(super) struct Place {
    hosts: [Host; 2],
    router: Host,
    labs: [Lab; 2],
}

/// What a run came to, at both ends.
pub(super) struct Outcome {
    /// Of server and client.
    pub(super) ended: [Ended; 2],
    counters: [Value; 2],
    /// What `ferroce counters` said while the client ran, for a while.
    pub(super) told: String,
}

impl Outcome {
    /// Both ends have ended well.
    pub(super) fn is_good(&self) -> bool {
        self.ended.iter().all(|it| it.status.is_some_and(|status| status.success()))
    }

    /// An error with what was printed, unless both ends have ended well.
    pub(super) fn must_be_good(&self) -> Result<()> {
        ensure!(self.is_good(), "{}", self.said());
        Ok(())
    }

    /// What both ends have printed on stderr.
    pub(super) fn said(&self) -> String {
        let [server, client] = &self.ended;
        format!("server: {}\nclient: {}", server.stderr.trim(), client.stderr.trim())
    }

    /// What the client of a measurement of bandwidth has printed, in MB/s.
    pub(super) fn rate(&self) -> Result<f64> {
        let [_, client] = &self.ended;
        let mut lines = client.stdout.lines().rev().map(|line| line.split_whitespace());
        let found = lines.find_map(|mut words| {
            words.next()?.parse::<u64>().ok()?;
            words.nth(2)?.parse().ok()
        });
        found.with_context(|| client.stdout.clone())
    }

    /// Bytes of payload of the packets that bring the data of `program`, by the mean.
    pub(super) fn in_each(&self, program: &str) -> Result<u64> {
        let sent = |name| match program {
            "ib_read_bw" => self.at_server(name),
            _ => self.at_client(name),
        };
        Ok(sent("sent_bytes")? / sent("sent_pkts")?.max(1))
    }

    pub(super) fn at_server(&self, name: &str) -> Result<u64> {
        counter(&self.counters[0], name)
    }

    pub(super) fn at_client(&self, name: &str) -> Result<u64> {
        counter(&self.counters[1], name)
    }
}

fn counter(stats: &Value, name: &str) -> Result<u64> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let nics: Vec<Value> =
        list(&stats["processes"]).iter().flat_map(|it| list(&it["nics"])).collect();
    ensure!(!nics.is_empty(), "no NIC has left counters behind");
    Ok(nics.iter().filter_map(|nic| nic["counters"][name].as_u64()).sum())
}

impl Place {
    pub(super) fn build() -> Result<Self> {
        let hosts = [Host::new()?, Host::new()?];
        let router = Host::new()?;
        router.run(&["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])?;
        let addresses = [CLIENT, SERVER];
        for at in 0..2 {
            let (end, port, gateway) = (ENDS[at], PORTS[at], ROUTER[at]);
            let words = ["link", "add", end, "type", "veth", "peer", "name", port];
            workspace::run(Command::new("ip").args(words))?;
            for (host, interface, address) in
                [(&hosts[at], end, addresses[at]), (&router, port, gateway)]
            {
                let target = host.id().to_string();
                workspace::run(
                    Command::new("ip").args(["link", "set", interface, "netns", &target]),
                )?;
                host.ip(&["link", "set", "lo", "up"])?;
                host.ip(&["address", "add", &format!("{address}/24"), "dev", interface])?;
                host.ip(&["link", "set", interface, "up"])?;
            }
            hosts[at].ip(&["route", "add", "default", "via", gateway])?;
        }
        let lab = |at: usize| -> Result<Lab> {
            Ok(Lab::open_on(ENDS[at], addresses[at])?.within(hosts[at].id()))
        };
        let labs = [lab(0)?, lab(1)?];
        Ok(Self { hosts, router, labs })
    }

    /// Replaces the router's rules.
    pub(super) fn rule(&self, rules: &str) -> Result<()> {
        let target = self.router.id().to_string();
        let mut command = Command::new("nsenter");
        command.args(["--target", &target, "--net", "nft", "-f", "-"]);
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let text = format!("flush ruleset\n{rules}");
        child.stdin.take().context("nft has no stdin")?.write_all(text.as_bytes())?;
        let output = child.wait_with_output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// What the elements of a set of the router are.
    pub(super) fn set(&self, name: &str) -> Result<Vec<Value>> {
        let target = self.router.id().to_string();
        let mut command = Command::new("nsenter");
        command.args(["--target", &target, "--net", "nft", "-j", "list", "set", "ip", "routed"]);
        let listed: Value = serde_json::from_str(&workspace::output(command.arg(name))?)?;
        let sets = listed["nftables"].as_array().context("no list")?;
        let elements = sets.iter().find_map(|it| it["set"]["elem"].as_array());
        Ok(elements.cloned().unwrap_or_default())
    }

    /// The MTU of client and server, and of the router towards the server: where that is less, the path is narrow. What
    /// hosts have learned of it is forgotten.
    pub(super) fn set_mtu(&self, hosts: [u32; 2], to_server: u32) -> Result<()> {
        let set = |host: &Host, interface: &str, mtu: u32| {
            host.ip(&["link", "set", interface, "mtu", &mtu.to_string()])
        };
        for ((host, end), mtu) in self.hosts.iter().zip(ENDS).zip(hosts) {
            set(host, end, mtu)?;
            host.ip(&["route", "flush", "cache"])?;
        }
        set(&self.router, PORTS[0], hosts[0])?;
        set(&self.router, PORTS[1], to_server)
    }

    /// The MTU of the router towards the client, until [`Place::set_mtu`] sets it anew.
    pub(super) fn narrow_to_client(&self, mtu: u32) -> Result<()> {
        self.router.ip(&["link", "set", PORTS[0], "mtu", &mtu.to_string()])
    }

    /// The longest packet that the router forwards to client and server, by its routes: what is longer it fragments, or drops
    /// and says so. Nothing is longer if there is none.
    pub(super) fn route_mtu(&self, mtu: Option<u32>) -> Result<()> {
        for (address, port) in ROUTER.into_iter().zip(PORTS) {
            let network = address.replace(".254", ".0/24");
            let mut words = vec!["route", "replace", &network, "dev", port];
            words.extend(["proto", "kernel", "scope", "link", "src", address]);
            let mtu = mtu.map(|mtu| mtu.to_string());
            // Without the lock a router asks its interface alone.
            words.extend(mtu.iter().flat_map(|mtu| ["mtu", "lock", mtu]));
            self.router.ip(&words)?;
        }
        for host in &self.hosts {
            host.ip(&["route", "flush", "cache"])?;
        }
        Ok(())
    }

    /// What `ferroce counters` prints of the programs of both hosts.
    fn counters(&self) -> Result<String> {
        let lab = &self.labs[0];
        let mut command = lab.plain(&lab.command().to_string_lossy());
        workspace::output(command.arg("counters"))
    }

    /// Runs a program of perftest at both ends.
    pub(super) fn perftest(&self, variables: &[(&str, &str)], words: &[&str]) -> Result<Outcome> {
        self.perftest_and(variables, words, ("", || Ok(())))
    }

    /// The same, and does something as soon as `ferroce counters` shows this counter.
    pub(super) fn perftest_and(
        &self,
        variables: &[(&str, &str)],
        words: &[&str],
        (counter, meanwhile): (&str, impl FnOnce() -> Result<()>),
    ) -> Result<Outcome> {
        let port = free_port()?.to_string();
        let words = [words, &["-d", "ferroce0", "-F", "-p", &port]].concat();
        let [client, server] = &self.labs;
        let command = |lab: &Lab, words: &[&str]| {
            let stats = lab.folder().join("stats.json").display().to_string();
            let flags = ["--log", "warn", "--stats", &stats].map(str::to_owned);
            let mut command = lab.run(&flags, words);
            command.envs(variables.iter().copied());
            command
        };
        let deadline = Instant::now() + PATIENCE;
        let mut at_server = server.start("server", command(server, &words))?;
        let number = port.parse()?;
        let listens = match words.contains(&"-R") {
            true => at_server.listens_for_cm(number, deadline)?,
            false => at_server.listens(number, deadline)?,
        };
        if !listens {
            bail!("the server does not listen: {}", at_server.finish(Instant::now())?.stderr);
        }
        let words = [&words[..], &[SERVER]].concat();
        let mut at_client = client.start("client", command(client, &words))?;
        let mut told = String::new();
        let mut meanwhile = Some(meanwhile);
        while !at_client.has_ended()? && Instant::now() < deadline {
            let now = self.counters()?;
            if now.contains(counter)
                && let Some(work) = meanwhile.take()
            {
                work()?;
            }
            // The longest is that of both ends at work.
            if now.len() > told.len() {
                told = now;
            }
            sleep(Duration::from_millis(100));
        }
        let at_client = at_client.finish(deadline)?;
        // A server whose client has failed may wait for ever.
        let is_good = at_client.status.is_some_and(|status| status.success());
        let deadline = if is_good { deadline } else { Instant::now() + Duration::from_secs(2) };
        let ended = [at_server.finish(deadline)?, at_client];
        let read = |lab: &Lab| -> Value {
            let text = fs::read_to_string(lab.folder().join("stats.json")).unwrap_or_default();
            serde_json::from_str(&text).unwrap_or_default()
        };
        Ok(Outcome { ended, counters: [read(server), read(client)], told })
    }
}
