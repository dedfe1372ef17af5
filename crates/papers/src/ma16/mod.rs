//! Exploring Low-latency Interconnect for Scaling Out Software Routers.
//!
//! | file | what is in it |
//! |---|---|
//! | `router` | the two nodes, as applications |
//! | `roce` | III-C, III-D and IV: figures 4, 5, 7, 9 and 10, as far as they are about RoCE |
//!
//! Ethernet by a poll-mode driver is not modelled: what the paper compares with it is not measured here.

mod roce;
mod router;

use bench::world::sim::{self, Seated};
use rdma::{QpType, Span, Time};

use crate::draws::{Spread, each, seeds};
use crate::hosts::Hosts;
use crate::stats::quantile;
use crate::study::{self, Context, Experiment};
use crate::{Error, Options, Study};
use router::{Router, Traffic};

pub(crate) const EXPERIMENTS: &[Experiment] =
    &[Experiment { claims: roce::CLAIMS, run: roce::run }];

const TESTBED: &str = "cx3-40g-xeon";
/// Bytes of a frame's payload, and those of its headers, which the paper counts (III-B).
const MTU_BYTES: u32 = 2_048;
const HEADER_BYTES: u32 = 72;
/// What is not measured at the beginning.
const WARMUP: Span = Span::from_us(300);

/// Runs every experiment, or those about the claim or figure `only`. `progress` is told what is being
/// run.
///
/// # Errors
/// [`Error::NoSuchClaim`]; the others mean that a file of ours is not as it should be.
pub fn run(
    only: Option<&str>,
    options: Options,
    progress: &mut dyn FnMut(&str),
) -> Result<Study, Error> {
    study::run("ma16", EXPERIMENTS, only, options, progress)
}

/// What two routers do to each other, with one draw.
struct Passed {
    /// The median one-way latency.
    p50_us: f64,
    /// Both directions, with headers.
    gbps: f64,
}

/// A batch of packets a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Batch {
    service: QpType,
    packet: u32,
    batch: u32,
}

fn pass(hosts: &Hosts, options: Options, of: Batch, is_ping_pong: bool) -> Result<Passed, Error> {
    let Batch { service, packet, batch } = of;
    let length = Span::from_us(if options.quick { 500 } else { 2_000 });
    let begin = Time::ZERO + WARMUP;
    let end = begin + length;
    let traffic = Traffic { service, packet, batch, is_ping_pong, begin, end };
    let wrong = |why: String| Error::Hosts(TESTBED, why);
    let config = hosts.network(options)?;
    let seat = |host| Seated { app: Router::new(traffic, host == 1), host, core: 0 };
    let (outcomes, why) =
        sim::run(config, vec![seat(0), seat(1)], end + Span::from_ms(50), &mut ())
            .map_err(|failure| wrong(failure.to_string()))?;
    let failed = outcomes.iter().find_map(|outcome| outcome.app.error);
    if let Some(status) = failed {
        return Err(wrong(format!("a message of {packet} x {batch} bytes ended with {status}")));
    }
    if let Some(failure) = why {
        return Err(wrong(failure.to_string()));
    }
    let mut latencies: Vec<f64> =
        outcomes.iter().flat_map(|outcome| outcome.app.latencies.clone()).collect();
    let bytes = packet * batch;
    let bits = f64::from(bytes + bytes.div_ceil(MTU_BYTES) * HEADER_BYTES) * 8.0;
    let gbps = |received: u64| received as f64 * bits * 1e3 / length.as_ps() as f64;
    let received = outcomes.iter().map(|outcome| outcome.app.received).sum();
    Ok(Passed { p50_us: quantile(&mut latencies, 0.5) / 1e3, gbps: gbps(received) })
}

/// Median one-way latency over all draws, in microseconds.
fn latency(context: &Context<'_>, of: Batch) -> Result<Spread, Error> {
    let runs =
        each(&seeds(context.options), |options| pass(&Hosts::pair(TESTBED), options, of, true))?;
    Ok(Spread::of(&runs, |run| run.p50_us))
}

/// What both directions have over all draws, in Gb/s, with headers.
fn throughput(context: &Context<'_>, of: Batch) -> Result<Spread, Error> {
    let runs =
        each(&seeds(context.options), |options| pass(&Hosts::pair(TESTBED), options, of, false))?;
    Ok(Spread::of(&runs, |run| run.gbps))
}
