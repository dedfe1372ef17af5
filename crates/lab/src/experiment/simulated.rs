//! A row that is run in the simulator: the scenario's workloads in the place of programs.

use fabric::random::Random;
use fabric::scenario::experiment::{Experiment, Row, What};
use fabric::{Network, NetworkConfig, Verdict};
use rdma::{Span, Time};

use super::{CannotRun, Point, Run};
use crate::snapshot::{Snapshot, as_wall};

/// Lets the simulation run, and looks at it at each of `points`. Times of events are those of the model here, and
/// they wait for nothing.
pub(super) fn run(
    experiment: &Experiment,
    row: &Row,
    draw: u32,
    points: &[Point],
) -> Result<Run, CannotRun> {
    let begin = std::time::Instant::now();
    let model = |wall: core::time::Duration| Span::from_ns(wall.as_nanos() as u64);
    let mut config: NetworkConfig = row.scenario.network.clone();
    config.seed = config.seed.wrapping_add(draw.into());
    let mut random = Random::new(config.seed);
    for flow in &mut config.flows {
        flow.start += Span::from_ps(random.below(row.starts_within.as_ps() + 1));
    }
    for event in &row.events {
        if let What::Faults(faults) = &event.what {
            let after = |fault: &fabric::fault::Fault| fabric::fault::Fault {
                at: fault.at + model(event.when.delay),
                ..*fault
            };
            config.faults.extend(faults.iter().map(after));
        }
    }
    let mut network =
        Network::new(config).map_err(|error| CannotRun(experiment.explain(row, &error)))?;
    let end = row.scenario.end;
    let time_of = |point: &Point| match point {
        Point::End => end,
        Point::After(event, delay) => {
            let named = row.events.iter().find(|it| event.as_ref() == Some(&it.name));
            let event = named.map_or(Span::ZERO, |event| model(event.when.delay));
            (Time::ZERO + event + model(*delay)).min(end)
        }
    };
    let mut order: Vec<&Point> = points.iter().collect();
    order.sort_by_key(|point| time_of(point));
    let mut run = Run { row: row.name.clone(), draw, ..Run::default() };
    let mut deadlock = false;
    for point in order {
        let until = time_of(point);
        if until > Time::ZERO && !deadlock {
            let verdict = network.run(until);
            if let Verdict::Deadlock(cycle) = verdict {
                deadlock = true;
                run.events.push(format!("DEADLOCK: {}", crate::status::circle(&cycle)));
            }
        }
        let mut snapshot = Snapshot::of(&network, as_wall(until.since(Time::ZERO)));
        snapshot.add("deadlocks", f64::from(u8::from(deadlock)));
        run.snapshots.push((point.clone(), snapshot));
    }
    run.took = begin.elapsed();
    run.time = format!("simulated, {}", end.since(Time::ZERO));
    Ok(run)
}
