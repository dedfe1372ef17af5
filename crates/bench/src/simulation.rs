//! A run of a plan on simulated hosts of a testbed.
//!
//! ```text
//!   those that ask, in turn ─► h1, h2, ... ─┐
//!                                           ├─ one switch of the testbed, or a topology of one's own
//!   those that serve ────────► h0 ──────────┘
//! ```
//!
//! Each application has a core of its own as long as there are some: from the flow's `core` on, or from
//! 0 on.

use std::sync::Arc;

use fabric::NetworkConfig;
use fabric::scenario::{self, Testbed};
use fabric::topology::Topology;
use rdma::{Span, Time};

use crate::Failure;
use crate::limits::DRAIN;
use crate::load::{self, Load, Tally};
use crate::outcome::Watcher;
use crate::plan::Plan;
use crate::session::{Ran, both, share};
use crate::world::sim::{self, Played, Seated};

macro_rules! testbeds {
    ($($name:literal)+) => {
        [$( ($name, include_str!(concat!("../../../studies/testbeds/", $name, ".toml"))) ),+]
    };
}

/// Testbeds that can be named without a file, and their files.
pub const TESTBEDS: [(&str, &str); 5] =
    testbeds!["cx3-10g-arm" "cx3-40g-ethernet" "cx3-40g-xeon" "cx3-56g-xeon" "cx4-100g-power8"];

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Simulated {
    testbed: Testbed,
    topology: Option<Topology>,
    hosts: u32,
    seed: u64,
}

impl Simulated {
    /// So many hosts of a testbed, under one switch.
    ///
    /// # Errors
    /// The text is no testbed, and says where; or there are less than two hosts.
    pub fn new(testbed: &str, hosts: u32, seed: u64) -> Result<Self, Failure> {
        let testbed = Testbed::parse(testbed).map_err(|error| Failure::from_message(&error))?;
        let made = Self { testbed, topology: None, hosts, seed };
        made.has_both_ends()
    }

    /// The same on a topology, the `[topology]` of a file.
    ///
    /// # Errors
    /// The text is no topology, and says where; or it has less than two hosts.
    pub fn on(self, topology: &str) -> Result<Self, Failure> {
        let read = scenario::topology(topology).map_err(|error| Failure::from_message(&error))?;
        let hosts = read.hosts.len() as u32;
        Self { topology: Some(read), hosts, ..self }.has_both_ends()
    }

    fn has_both_ends(self) -> Result<Self, Failure> {
        match self.hosts {
            0 | 1 => Err(Failure::new(format!("{} hosts are too few", self.hosts))
                .hint("h0 serves, and the others ask: at least two hosts")),
            _ => Ok(self),
        }
    }

    /// What the world consists of.
    pub fn about(&self) -> String {
        let Testbed { title, about, .. } = &self.testbed;
        let net = if self.topology.is_some() { "a topology of its own" } else { "one switch" };
        let (hosts, seed) = (self.hosts, self.seed);
        format!("testbed {title} ({about}), {hosts} hosts, {net}, seed {seed}; model time")
    }

    fn network(&self) -> NetworkConfig {
        let mut config = match &self.topology {
            Some(topology) => self.testbed.on(topology.clone()),
            None => self.testbed.network(self.hosts),
        };
        config.seed = self.seed;
        config
    }
}

/// Puts a task that never waits on each of the first cores of every host.
///
/// # Errors
/// The hosts have fewer cores.
pub fn put_hogs(config: &mut NetworkConfig, hogs: u32) -> Result<(), Failure> {
    let Some(host) = config.host.as_mut().filter(|_| hogs > 0) else { return Ok(()) };
    if hogs > host.cpu.cores {
        return Err(Failure::new(format!("hogs: a host has no {hogs} cores"))
            .hint(format!("this testbed's hosts have {}", host.cpu.cores)));
    }
    // Those that the testbed has on later cores stay.
    host.cpu.hogs.retain(|core| *core >= hogs);
    host.cpu.hogs.splice(0..0, 0..hogs);
    Ok(())
}

/// Runs a plan on simulated hosts.
///
/// # Errors
/// It could not begin.
pub fn run(
    plan: &Plan,
    simulated: &Simulated,
    tallies: &[Arc<Tally>],
    watcher: &mut dyn Watcher,
) -> Result<Ran, Failure> {
    let [near, far] = load::applications(plan, tallies);
    let mut config = simulated.network();
    put_hogs(&mut config, plan.hogs)?;
    let cores = config.host.as_ref().map_or(1, |host| host.cpu.cores);
    let mut used = vec![0; simulated.hosts as usize];
    let mut seat = |app: Load, host: u32| {
        let taken = &mut used[host as usize];
        let first = plan.flows[app.flow].core.filter(|_| !app.serves).unwrap_or(0);
        let core = (first + *taken) % cores;
        *taken += 1;
        Seated { app, host, core }
    };
    let askers = simulated.hosts - 1;
    let mut seated: Vec<Seated<Load>> =
        (0..).zip(near).map(|(index, app)| seat(app, 1 + index % askers)).collect();
    seated.extend(far.into_iter().map(|app| seat(app, 0)));
    let length = Span::from_ps(((plan.warmup_ms + plan.length_ms) * 1e9) as u64);
    let end = Time::ZERO + length + DRAIN + DRAIN;
    let Played { outcomes, why, events } = sim::run(config, seated, end, watcher)?;
    let process_cores = outcomes.iter().map(|outcome| share(outcome.cpu, outcome.wall)).sum();
    Ok(Ran { process_cores, events, ..both(plan, outcomes, why) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Flow, Verb, WaitMode};

    #[test]
    fn every_testbed_can_be_named() {
        for (name, text) in TESTBEDS {
            let about = Simulated::new(text, 2, 1).unwrap().about();
            assert!(about.starts_with(&format!("testbed {name} (")), "{about}");
        }
    }

    /// Median latency, and operations, of a flow.
    fn seen(flow: Flow, testbed: &str) -> (f64, u64) {
        let flows = vec![flow];
        let plan =
            Plan { warmup_ms: 0.0, length_ms: 2.0, window_ms: 2.0, flows, ..Plan::default() };
        let simulated = Simulated::new(testbed, 3, 1).unwrap();
        let ran = run(&plan, &simulated, &[], &mut ()).unwrap();
        assert_eq!(ran.cut_short, None);
        let record = &ran.flows[0].record;
        (record.latency.value_at_quantile(0.5) as f64 / 1e3, record.windows[0].operations)
    }

    #[test]
    fn who_looks_at_a_payload_pays_for_each_byte() {
        let testbed = TESTBEDS[0].1;
        assert!(testbed.contains("touch_byte_ns = 2.5"));
        for wait in WaitMode::ALL {
            let flow = Flow { wait, size_bytes: 4_000, ..Flow::new(Verb::Read) };
            let (plain, _) = seen(flow.clone(), testbed);
            let (touched, _) = seen(Flow { touch: true, ..flow }, testbed);
            assert!((touched - plain - 10.0).abs() < 0.1, "{wait:?} {plain} {touched}");
        }
        let flow = Flow { size_bytes: 4_000, ..Flow::new(Verb::Write) };
        let (plain, _) = seen(flow.clone(), testbed);
        let (touched, _) = seen(Flow { touch: true, ..flow }, testbed);
        assert!((touched - plain - 10.0).abs() < 0.1, "{plain} {touched}");
        // The server looks, too.
        let flow = Flow { size_bytes: 4_000, ..Flow::new(Verb::WriteSend) };
        let (plain, _) = seen(flow.clone(), testbed);
        let (touched, _) = seen(Flow { touch: true, ..flow }, testbed);
        assert!((touched - plain - 20.0).abs() < 0.3, "{plain} {touched}");
    }

    #[test]
    fn who_looks_at_payloads_looks_at_those_without_a_completion_of_their_own() {
        for verb in [Verb::Read, Verb::Write] {
            let flow = Flow { window: 8, size_bytes: 4_000, touch: true, ..Flow::new(verb) };
            let (_, each) = seen(flow.clone(), TESTBEDS[0].1);
            let (_, fourth) = seen(Flow { signal_every: 4, ..flow }, TESTBEDS[0].1);
            // A look takes 10 us, and the run has two milliseconds.
            assert!(each.max(fourth) <= 204, "{verb:?} {each} {fourth}");
            assert!(each.abs_diff(fourth) <= each / 10, "{verb:?} {each} {fourth}");
        }
    }

    #[test]
    fn a_read_among_many_takes_eleven_events() {
        // The book's row of what a simulated message costs.
        let flow = Flow { threads: 16, servers: Some(8), window: 16, ..Flow::new(Verb::Read) };
        let flows = vec![Flow { size_bytes: 64, ..flow }];
        let plan =
            Plan { warmup_ms: 0.0, length_ms: 2.0, window_ms: 2.0, flows, ..Plan::default() };
        let simulated = Simulated::new(TESTBEDS[0].1, 17, 1).unwrap();
        let ran = run(&plan, &simulated, &[], &mut ()).unwrap();
        let each = ran.events as f64 / ran.flows[0].ended as f64;
        assert!((10.5..12.0).contains(&each), "{each}");
    }

    #[test]
    fn reads_behind_those_that_may_be_outstanding_wait_at_the_nic() {
        for verb in [Verb::Read, Verb::FetchAdd] {
            let flow = Flow { size_bytes: 8, ..Flow::new(verb) };
            let (_, alone) = seen(flow.clone(), TESTBEDS[0].1);
            let flow = Flow { window: 16, ..flow };
            let (_, many) = seen(flow.clone(), TESTBEDS[0].1);
            let (_, one) = seen(Flow { rd_atomic: 1, ..flow }, TESTBEDS[0].1);
            // The next leaves when the answer has come, not when the application has seen it.
            assert!(one > alone && one < 3 * alone && many > 2 * one, "{alone} {one} {many}");
        }
    }

    #[test]
    fn a_server_that_two_share_serves_each_half_as_often() {
        // It works for 20 us a message.
        let flow = Flow { threads: 2, service_us: 20.0, window: 4, ..Flow::new(Verb::SendSend) };
        let flow = Flow { size_bytes: 64, ..flow };
        let (_, apart) = seen(flow.clone(), TESTBEDS[0].1);
        let (_, shared) = seen(Flow { servers: Some(1), ..flow }, TESTBEDS[0].1);
        let ratio = apart as f64 / shared as f64;
        assert!((ratio - 2.0).abs() < 0.1, "{apart} {shared}");
    }

    #[test]
    fn who_works_for_each_completion_asks_so_much_later() {
        for (wait, depends) in [(WaitMode::Poll, 1), (WaitMode::Event, 2), (WaitMode::Memory, 1)] {
            let flow = Flow { wait, depends, size_bytes: 64, ..Flow::new(Verb::Read) };
            let (_, idle) = seen(flow.clone(), TESTBEDS[0].1);
            let (_, works) = seen(Flow { work_us: 20.0, ..flow }, TESTBEDS[0].1);
            // The run has two milliseconds.
            let [idle, works] = [idle, works].map(|operations| 2_000.0 / operations as f64);
            let more = works - idle;
            assert!((more - 20.0 * f64::from(depends)).abs() < 1.0, "{wait:?} {more}");
        }
        // Of several that have come the later ones wait for work on the others.
        for wait in WaitMode::ALL {
            let flow = Flow { wait, window: 8, size_bytes: 64, ..Flow::new(Verb::Read) };
            let (p50_us, _) = seen(Flow { work_us: 20.0, ..flow }, TESTBEDS[0].1);
            assert!(p50_us > 40.0, "{wait:?} {p50_us}");
        }
    }

    #[test]
    fn threads_begin_within_their_time_and_not_together() {
        let flow = Flow { threads: 2, size_bytes: 64, ..Flow::new(Verb::Read) };
        let (_, all) = seen(flow.clone(), TESTBEDS[0].1);
        let (_, late) = seen(Flow { start_within_ms: 1.9, ..flow }, TESTBEDS[0].1);
        assert!(late < all * 9 / 10 && late > all / 20, "{late} {all}");
    }

    #[test]
    fn hogs_of_a_plan_are_those_of_a_testbed() {
        let flows = vec![Flow { size_bytes: 64, ..Flow::new(Verb::Read) }];
        let plan =
            Plan { warmup_ms: 0.0, length_ms: 48.0, window_ms: 48.0, flows, ..Plan::default() };
        let (_, text) = TESTBEDS[0];
        let operations = |plan: &Plan, text: &str| {
            let simulated = Simulated::new(text, 2, 1).unwrap();
            run(plan, &simulated, &[], &mut ()).unwrap().flows[0].record.windows[0].operations
        };
        let hogged = text.replacen("\n[host]\n", "\n[host]\nhogs = [0, 1]\n", 1);
        let (alone, of_testbed) = (operations(&plan, text), operations(&plan, &hogged));
        assert!(of_testbed < alone * 3 / 4, "{of_testbed} {alone}");
        let with = Plan { hogs: 2, ..plan };
        assert_eq!(operations(&with, text), of_testbed);
        let simulated = Simulated::new(text, 2, 1).unwrap();
        let said = run(&Plan { hogs: 9, ..with }, &simulated, &[], &mut ()).unwrap_err();
        assert!(said.to_string().starts_with("hogs: a host has no 9 cores\nhint: "), "{said}");
    }

    #[test]
    fn one_host_is_too_few() {
        let (_, text) = TESTBEDS[0];
        let said = Simulated::new(text, 1, 1).unwrap_err().to_string();
        assert!(said.starts_with("1 hosts are too few\nhint: "), "{said}");
        let back = "[topology]\nshape = \"back-to-back\"\nrate_gbps = 10\n";
        let on = Simulated::new(text, 2, 1).unwrap().on(back).unwrap();
        assert!(on.about().contains("2 hosts, a topology of its own"), "{}", on.about());
    }
}
