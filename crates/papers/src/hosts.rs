//! Flows between modelled hosts: `ferroce bench`'s workloads on a testbed.
//!
//! ```text
//!   a testbed of studies/testbeds/ ─┐
//!   flows of bench ─────────────────┼─► bench::simulation ─► Seen, one a flow
//!   a seed: when flows begin, ... ──┘
//! ```
//!
//! What a testbed was fitted on stands in its file, behind each number: see `fitted.rs`.

use bench::plan::{Flow, Plan};
use bench::session::{Measured, Ran};
use bench::simulation::{self, Simulated, TESTBEDS};
use fabric::NetworkConfig;
use fabric::random::Random;
use fabric::scenario::Testbed;

use crate::draws::Spread;
use crate::{Error, Options};

/// Flows begin within so many microseconds of each other.
const PHASE_US: u64 = 100;

/// Hosts of a testbed, and the flows between them.
#[derive(Clone, Debug)]
pub(crate) struct Hosts {
    testbed: &'static str,
    text: String,
    hosts: u32,
    hogs: u32,
    warmup_ms: f64,
    length_ms: f64,
}

impl Hosts {
    /// A host that serves and one that asks.
    pub(crate) fn pair(testbed: &'static str) -> Self {
        let known = TESTBEDS.iter().find(|(name, _)| *name == testbed);
        let text = known.map_or("", |(_, text)| text).to_owned();
        Self { testbed, text, hosts: 2, hogs: 0, warmup_ms: 0.0, length_ms: 1.0 }
    }

    /// So many hosts: one that serves, and others that ask.
    pub(crate) fn of(testbed: &'static str, hosts: u32) -> Self {
        Self { hosts, ..Self::pair(testbed) }
    }

    /// What is measured, in milliseconds.
    pub(crate) fn for_ms(self, length_ms: f64) -> Self {
        Self { length_ms, ..self }
    }

    /// What happens before that.
    pub(crate) fn after_ms(self, warmup_ms: f64) -> Self {
        Self { warmup_ms, ..self }
    }

    /// The same with another value of a key: what would be if the testbed were otherwise. Of several
    /// lines with the key, the last; of none, one more of the host.
    pub(crate) fn but(mut self, key: &str, value: &str) -> Self {
        const HOST: &str = "\n[host]\n";
        let begin = format!("\n{key} = ");
        match self.text.rfind(&begin) {
            Some(at) => {
                let from = at + begin.len();
                let end = self.text[from..].find(['\n', '#']);
                let to = end.map_or(self.text.len(), |end| from + end);
                self.text.replace_range(from..to, &format!("{value} "));
            }
            None => {
                let line = format!("{HOST}{key} = {value}\n");
                self.text = self.text.replacen(HOST, &line, 1);
            }
        }
        self
    }

    /// A task that never waits on each of so many cores of every host.
    pub(crate) fn with_hogs(self, cores: u32) -> Self {
        Self { hogs: cores, ..self }
    }

    /// The cores of a host.
    pub(crate) fn cores(&self) -> Result<u32, Error> {
        let config = self.network(Options::default())?;
        Ok(config.host.map_or(1, |host| host.cpu.cores))
    }

    /// Whether there is such a task.
    pub(crate) fn has_hogs(&self) -> bool {
        self.hogs > 0
    }

    /// The network of a draw.
    pub(crate) fn network(&self, options: Options) -> Result<NetworkConfig, Error> {
        let wrong = |what: String| Error::Hosts(self.testbed, what);
        let testbed = Testbed::parse(&self.text).map_err(|error| wrong(error.to_string()))?;
        let mut config = NetworkConfig { seed: options.seed, ..testbed.network(self.hosts) };
        simulation::put_hogs(&mut config, self.hogs).map_err(|error| wrong(error.to_string()))?;
        Ok(config)
    }

    /// What becomes of flows that run at once, with one draw.
    pub(crate) fn run(&self, options: Options, flows: &[Flow]) -> Result<Vec<Seen>, Error> {
        let wrong = |failure: bench::Failure| Error::Hosts(self.testbed, failure.to_string());
        let times = Times { warmup_ms: self.warmup_ms, length_ms: self.length_ms };
        let plan = plan(self.testbed, times, options, flows, self.hogs).map_err(wrong)?;
        let simulated = Simulated::new(&self.text, self.hosts, options.seed).map_err(wrong)?;
        let ran = simulation::run(&plan, &simulated, &[], &mut ()).map_err(wrong)?;
        Seen::of(&ran).map_err(wrong)
    }
}

/// How long flows run, in milliseconds: before anything is measured, and then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) warmup_ms: f64,
    pub(crate) length_ms: f64,
}

/// Flows that run at once, as they begin in one draw.
pub(crate) fn plan(
    title: &str,
    times: Times,
    options: Options,
    flows: &[Flow],
    hogs: u32,
) -> Result<Plan, bench::Failure> {
    let mut random = Random::new(options.seed);
    let flows = (0..).zip(flows).map(|(index, flow)| Flow {
        name: format!("{index}"),
        start_ms: random.below(PHASE_US * 1_000) as f64 / 1e6,
        ..flow.clone()
    });
    let plan = Plan {
        title: title.to_owned(),
        warmup_ms: times.warmup_ms,
        length_ms: times.length_ms,
        window_ms: times.length_ms,
        hogs,
        flows: flows.collect(),
        ..Plan::default()
    };
    plan.check()?;
    Ok(plan)
}

/// What was seen of a flow.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Payload from its begin to the end of its last message.
    pub(crate) gbps: f64,
    /// Messages a second in that time.
    pub(crate) rate: f64,
    /// A message over the time that one takes: the bandwidth of one at a time, without the part of one that
    /// lies beyond the window's ends.
    pub(crate) serial_gbps: f64,
    /// Latencies: the mean, and the 50th, 90th and 99th percentile.
    pub(crate) mean_us: f64,
    pub(crate) p50_us: f64,
    pub(crate) p90_us: f64,
    pub(crate) p99_us: f64,
    /// Processor time of who asks, in cores.
    pub(crate) cores: f64,
    /// That of all flows at both ends, and on soft NICs of the NICs' own threads.
    pub(crate) all_cores: f64,
}

impl Seen {
    /// Of an application that says nothing.
    pub(crate) const NOTHING: Self = Self {
        gbps: f64::NAN,
        rate: f64::NAN,
        serial_gbps: f64::NAN,
        mean_us: f64::NAN,
        p50_us: f64::NAN,
        p90_us: f64::NAN,
        p99_us: f64::NAN,
        cores: f64::NAN,
        all_cores: f64::NAN,
    };

    /// Of each flow of a run that was not cut short.
    pub(crate) fn of(ran: &Ran) -> Result<Vec<Self>, bench::Failure> {
        match &ran.cut_short {
            Some(failure) => Err(failure.clone()),
            None => {
                let flows = ran.plan.flows.iter().zip(&ran.flows);
                Ok(flows.map(|(flow, measured)| Self::of_one(ran, flow, measured)).collect())
            }
        }
    }

    fn of_one(ran: &Ran, flow: &Flow, measured: &Measured) -> Self {
        let record = &measured.record;
        let begun = (flow.start_ms - ran.plan.warmup_ms).max(0.0) / 1e3;
        let seconds = record.measured.as_ps() as f64 / 1e12 - begun;
        let sum = |of: fn(&bench::load::WindowRecord) -> u64| {
            record.windows.iter().map(of).sum::<u64>() as f64
        };
        let us = |rank: f64| record.latency.value_at_quantile(rank) as f64 / 1e3;
        Self {
            gbps: sum(|window| window.bytes) * 8.0 / seconds / 1e9,
            rate: sum(|window| window.operations) / seconds,
            serial_gbps: f64::from(flow.bytes()) * 8.0 / record.latency.mean(),
            mean_us: record.latency.mean() / 1e3,
            p50_us: us(0.5),
            p90_us: us(0.9),
            p99_us: us(0.99),
            cores: measured.cores,
            all_cores: ran.process_cores,
        }
    }
}

/// What was seen of flows that run at once, with each draw.
#[derive(Clone, Debug)]
pub(crate) struct Runs(Vec<Vec<Seen>>);

impl Runs {
    /// Of draws, in their order.
    pub(crate) fn from(draws: Vec<Vec<Seen>>) -> Self {
        Self(draws)
    }

    /// A value of a flow.
    pub(crate) fn spread(&self, flow: usize, value: impl Fn(&Seen) -> f64) -> Spread {
        Spread::of(&self.0, |seen| seen.get(flow).map_or(f64::NAN, &value))
    }

    /// That of the first flow over that of the second, draw by draw.
    pub(crate) fn ratio(&self, value: impl Fn(&Seen) -> f64) -> Spread {
        Spread::of(&self.0, |seen| match &seen[..] {
            [first, second, ..] => value(first) / value(second),
            _ => f64::NAN,
        })
    }
}

#[cfg(test)]
mod tests {
    use bench::plan::{Verb, WaitMode};

    use super::*;

    #[test]
    fn a_flow_is_seen_as_fast_as_its_bus_and_another_bus_shows() {
        let flow = Flow { size_bytes: 1_000_000, ..Flow::new(Verb::Write) };
        let run = |hosts: Hosts| {
            hosts.run(Options::default(), core::slice::from_ref(&flow)).unwrap().remove(0)
        };
        let hosts = Hosts::pair("cx3-56g-xeon").for_ms(4.0);
        let (seen, slow) = (run(hosts.clone()), run(hosts.but("bus_gbps", "20")));
        assert!((44.0..48.8).contains(&seen.gbps), "{seen:?}");
        assert!((18.0..20.0).contains(&slow.gbps), "{slow:?}");
        assert!((seen.rate * 8e6 / seen.gbps / 1e9 - 1.0).abs() < 1e-9);
        assert!(seen.p50_us > 164.0 && seen.cores > 0.95, "{seen:?}");
    }

    #[test]
    fn a_run_that_cannot_be_names_its_testbed() {
        let flow = Flow { wait: WaitMode::Memory, ..Flow::new(Verb::Write) };
        let said = Hosts::pair("cx3-56g-xeon").run(Options::default(), &[flow]).unwrap_err();
        assert!(said.to_string().starts_with("studies/testbeds/cx3-56g-xeon"), "{said}");
    }
}
