//! Exploring Low-latency Interconnect for Scaling Out Software Routers.
//!
//! | file | what is in it |
//! |---|---|
//! | `router` | the two nodes, as applications |
//! | `ethernet` | the two nodes as generators of Ethernet packets, and what they reach |
//! | `roce` | III-C, III-D and IV: figures 4 to 10 |
//!
//! Ethernet is simulated alone: soft NICs have no raw packets.

mod ethernet;
mod roce;
mod router;

use bench::Failure;
use bench::session::Settings;
use bench::world::sim::{self, Played, Seated};
use bench::world::soft;
use rdma::{QpType, Span, Time};

use crate::draws::Spread;
use crate::hosts::{Hosts, Runs, Seen};
use crate::stats::quantile;
use crate::study::{self, Context, Experiment, Step};
use crate::{Error, Options, Study};
use router::{Router, Traffic};

pub(crate) const EXPERIMENTS: &[Experiment] =
    &[Experiment { claims: roce::CLAIMS, run: roce::run }];

const ON_SOFT: &[Experiment] = EXPERIMENTS;

const TESTBED: &str = "cx3-40g-xeon";
/// Bytes of a frame's payload, and those of its headers, which the paper counts (III-B).
const MTU_BYTES: u32 = 2_048;
const HEADER_BYTES: u32 = 72;
/// What is not measured at the beginning.
const WARMUP: Span = Span::from_us(300);
/// On soft NICs that includes opening and connecting; and what is measured.
const SOFT_WARMUP: Span = Span::from_ms(40);
const SOFT_LENGTH: Span = Span::from_ms(60);

/// Runs every experiment, or those about the claim or figure `only`. `progress` is told what is being
/// run.
///
/// # Errors
/// [`Error::NoSuchClaim`]; the others mean that a file of ours is not as it should be.
pub fn run(
    only: Option<&str>,
    options: Options,
    progress: &mut dyn FnMut(&Step<'_>),
) -> Result<Study, Error> {
    study::run("ma16", EXPERIMENTS, ON_SOFT, only, options, progress)
}

/// A batch of packets a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Batch {
    service: QpType,
    packet: u32,
    batch: u32,
}

/// A key of the testbed, and another value.
type But = (&'static str, &'static str);

/// What two routers do to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Passing {
    of: Batch,
    is_ping_pong: bool,
    /// What is otherwise than in the testbed.
    but: &'static [But],
    /// What is measured.
    length: Span,
}

impl Passing {
    /// Both routers, of a world that begins then.
    fn routers(&self, world: Time, warmup: Span) -> [Router; 2] {
        let Self { of: Batch { service, packet, batch }, is_ping_pong, length, .. } = *self;
        let begin = world + warmup;
        let traffic = Traffic { service, packet, batch, is_ping_pong, begin, end: begin + length };
        [false, true].map(|asks| Router::new(traffic, asks))
    }

    /// The median one-way latency, and what both directions have, with headers.
    fn seen(&self, routers: Vec<Router>) -> Result<Vec<Seen>, String> {
        let Batch { packet, batch, .. } = self.of;
        if let Some(status) = routers.iter().find_map(|router| router.error) {
            return Err(format!("a message of {packet} x {batch} bytes ended with {status}"));
        }
        let bytes = packet * batch;
        let bits = f64::from(bytes + bytes.div_ceil(MTU_BYTES) * HEADER_BYTES) * 8.0;
        let received: u64 = routers.iter().map(|router| router.received).sum();
        let mut latencies: Vec<f64> =
            routers.into_iter().flat_map(|router| router.latencies).collect();
        Ok(vec![Seen {
            p50_us: quantile(&mut latencies, 0.5) / 1e3,
            gbps: received as f64 * bits * 1e3 / self.length.as_ps() as f64,
            ..Seen::NOTHING
        }])
    }

    /// With one draw of simulated hosts.
    fn simulated(&self, options: Options) -> Result<Vec<Seen>, Error> {
        let wrong = |why: String| Error::Hosts(TESTBED, why);
        let hosts = Hosts::pair(TESTBED);
        let hosts = self.but.iter().fold(hosts, |hosts, (key, value)| hosts.but(key, value));
        let config = hosts.network(options)?;
        let [answers, asks] = self.routers(Time::ZERO, WARMUP);
        let end = Time::ZERO + WARMUP + self.length + Span::from_ms(50);
        let seated = [answers, asks].into_iter().zip(0..);
        let seated = seated.map(|(app, host)| Seated { app, host, core: 0 }).collect();
        let Played { outcomes, why, .. } =
            sim::run(config, seated, end, &mut ()).map_err(|failure| wrong(failure.to_string()))?;
        let seen = self.seen(outcomes.into_iter().map(|outcome| outcome.app).collect());
        let seen = seen.map_err(wrong)?;
        why.map_or(Ok(seen), |failure| Err(wrong(failure.to_string())))
    }

    /// Once on soft NICs.
    fn on_soft(&self, settings: &Settings) -> Result<Vec<Seen>, Failure> {
        let passing = Self { length: SOFT_LENGTH, ..*self };
        let routers = passing.routers(soft::now(), SOFT_WARMUP);
        let outcomes = crate::soft::pair(settings, routers)?;
        let routers = outcomes.into_iter().map(|outcome| outcome.app).collect();
        let seen = passing.seen(routers).map_err(Failure::new)?;
        // A message that an unreliable service has lost ends a ping-pong.
        match seen[0].p50_us.is_nan() && self.is_ping_pong {
            true => Err(Failure::new("no message came back while it was measured")),
            false => Ok(seen),
        }
    }
}

fn pass(
    context: &mut Context<'_>,
    of: Batch,
    is_ping_pong: bool,
    but: &'static [But],
) -> Result<Runs, Error> {
    let length = Span::from_us(if context.options.quick { 500 } else { 2_000 });
    let passing = Passing { of, is_ping_pong, but, length };
    context.draws(
        |options| passing.simulated(options),
        Box::new(move |settings, _| passing.on_soft(settings)),
    )
}

/// Median one-way latency over all draws, in microseconds.
fn latency(context: &mut Context<'_>, of: Batch) -> Result<Spread, Error> {
    Ok(pass(context, of, true, &[])?.spread(0, |seen| seen.p50_us))
}

/// What both directions have over all draws, in Gb/s, with headers.
fn throughput(context: &mut Context<'_>, of: Batch) -> Result<Spread, Error> {
    throughput_but(context, of, &[])
}

/// The same on a testbed that is otherwise.
fn throughput_but(
    context: &mut Context<'_>,
    of: Batch,
    but: &'static [But],
) -> Result<Spread, Error> {
    Ok(pass(context, of, false, but)?.spread(0, |seen| seen.gbps))
}
