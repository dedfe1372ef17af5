//! 6.2: the storm of a NIC, found by the detectors of `ferroce watch` from counters alone.

use core::time::Duration;

use fabric::Network;
use fabric::fault::FaultKind;
use fabric::random::Random;
use ops::watch::{Event, Kind, Settings, Watch, ecn_configured, sample_network};
use rdma::{Span, Time};

use super::{run_through, scenario};
use crate::draws::{each, seeds};
use crate::study::Context;
use crate::{Error, Options};

/// How often counters are read; storms are those of 100 ms, as the watchdog of guo16, 4.3 has it.
const POLL_MS: u64 = 25;
const DETECTION_MS: u64 = 100;
const END_MS: u64 = 240;

/// What the detectors say of one run.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// From the standstill until the NIC was named, in ms.
    pub(super) after_ms: Option<f64>,
    /// Everything else that was found.
    pub(super) others: Vec<String>,
}

/// All runs: with a NIC that stands still, and without.
pub(super) struct Watched {
    pub(super) storms: Vec<Seen>,
    pub(super) healthy: Vec<Seen>,
}

/// The longest that the settings promise, in ms: the time of detection, the look that was just before the standstill, and
/// one in which a packet still left.
pub(super) const PROMISED_MS: f64 = (DETECTION_MS + 2 * POLL_MS) as f64;

fn measure(options: Options, breaks: bool) -> Result<Seen, Error> {
    let mut scenario = scenario!(options, "storm.toml")?;
    let config = &mut scenario.network;
    let mut stuck = (Time::ZERO, String::new());
    let mut random = Random::new(options.seed);
    for fault in &mut config.faults {
        if let FaultKind::NicStuck { host } = &mut fault.kind {
            // Any NIC, at any moment between two looks.
            *host = random.below(config.topology.hosts.len() as u64) as u32;
            fault.at += Span::from_ps(random.below(Span::from_ms(POLL_MS).as_ps()));
            stuck = (fault.at, config.topology.hosts[*host as usize].clone());
        }
    }
    if !breaks {
        config.faults.clear();
    }
    let end = Time::ZERO + Span::from_ms(END_MS);
    config.flows.retain(|flow| flow.start < end);
    let marks = ecn_configured(config);
    let settings = Settings {
        poll: Duration::from_millis(POLL_MS),
        detection: Duration::from_millis(DETECTION_MS),
        ..Settings::default()
    };
    let mut watch = Watch::new(settings);
    let mut network = Network::new(scenario.network)?;
    let mut seen = Seen { after_ms: None, others: Vec::new() };
    let mut at = 0;
    while at <= END_MS {
        let now = Time::ZERO + Span::from_ms(at);
        run_through(&mut network, now);
        for event in watch.look(Duration::from_millis(at), &sample_network(&network, marks)) {
            let Event::Found(finding) = event else { continue };
            if finding.kind == Kind::PauseStorm && finding.who == stuck.1 && breaks {
                let after = now.since(stuck.0).as_ps() as f64 / 1e9;
                seen.after_ms.get_or_insert(after);
            } else {
                seen.others.push(finding.to_string());
            }
        }
        at += POLL_MS;
    }
    Ok(seen)
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Watched, Error> {
    let draws = seeds(context.options);
    context.say(&format!("counters: a storm, and none, watched, {} seeds", draws.len()));
    Ok(Watched {
        storms: each(&draws, |options| measure(options, true))?,
        healthy: each(&draws, |options| measure(options, false))?,
    })
}
