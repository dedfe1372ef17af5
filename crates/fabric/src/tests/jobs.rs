//! Jobs: what collectives take and send, and who waits for whom.

use std::sync::Arc;

use rdma::{Span, Time};
use telemetry::Cell;

use super::CABLES;
use crate::fault::{DropRule, Fault, FaultKind};
use crate::packet::{GAP_BYTES, LOWER_BYTES, PREAMBLE_BYTES};
use crate::record::{self, Next, Samples};
use crate::report::{Report, Seeds};
use crate::topology::{End, leaf_spine, single_switch};
use crate::workload::{
    Algorithm, Collective, FlowSpec, Job, Operation, Plan, Schedule, Size, Verb,
};
use crate::{Network, NetworkConfig, Verdict};

const MTU: u64 = 4_096;

fn config(hosts: u32) -> NetworkConfig {
    let mut config = NetworkConfig::new(single_switch(hosts, CABLES));
    config.nic.mtu = rdma::Mtu::B4096;
    config
}

fn run(config: NetworkConfig) -> Network {
    let mut network = Network::new(config).unwrap();
    assert_eq!(network.run(Time::ZERO + Span::from_ms(50)), Verdict::Finished);
    network
}

fn collective(operation: Operation, algorithm: Algorithm, ranks: u32, bytes: u64) -> Collective {
    Collective { operation, algorithm, ranks, bytes }
}

fn job(of: Collective, size: Size) -> Job {
    let schedule = of.schedule(size).unwrap();
    Job { collective: Some(of), ..Job::new(of.to_string(), schedule, (0..of.ranks).collect()) }
}

fn alone(schedule: Arc<Schedule>, hosts: u32) -> Network {
    let mut config = config(hosts);
    config.add_job(Job::new("by hand", schedule, (0..hosts).collect()));
    run(config)
}

/// When the last rank was done, and what the job could not be faster than.
fn took(network: &Network) -> (Span, Span) {
    let ends = network.repetitions(0);
    let last = ends.iter().map(|of| of[0].over).max().unwrap();
    (last.since(Time::ZERO), network.least_time(0))
}

/// For how long a port is busy with an acknowledgement.
fn acknowledgement() -> Span {
    let frame = LOWER_BYTES + (wire::bth::LEN + wire::aeth::LEN) as u32;
    CABLES.rate.time_of(PREAMBLE_BYTES + u64::from(frame) + GAP_BYTES)
}

#[test]
fn steps_of_one_packet_take_their_textbook_time_to_the_picosecond() {
    for (operation, algorithm, bytes, steps) in [
        (Operation::AllReduce, Algorithm::Ring, 4 * MTU, 6),
        (Operation::AllGather, Algorithm::Ring, 4 * MTU, 3),
        (Operation::ReduceScatter, Algorithm::Ring, 4 * MTU, 3),
        (Operation::AllReduce, Algorithm::HalvingDoubling, 2 * MTU, 4),
        (Operation::AllGather, Algorithm::HalvingDoubling, 2 * MTU, 2),
        (Operation::ReduceScatter, Algorithm::HalvingDoubling, 2 * MTU, 2),
    ] {
        let mut config = config(4);
        config.add_job(job(collective(operation, algorithm, 4, bytes), Size::default()));
        let (took, least) = took(&run(config));
        // A rank acknowledges what it has received before it sends the next: by all steps but the first.
        let late = took.as_ps() - least.as_ps();
        assert_eq!(late, (steps - 1) * acknowledgement().as_ps(), "{operation:?} {algorithm:?}");
    }
}

#[test]
fn no_algorithm_takes_longer_than_its_bytes_its_steps_and_its_acknowledgements() {
    let chunked = Size { chunk_bytes: 8 * MTU as u32, channels: 2, group: 4 };
    for (operation, algorithm, size, slack) in [
        (Operation::AllReduce, Algorithm::Ring, Size::default(), 1.03),
        (Operation::AllReduce, Algorithm::Ring, chunked, 1.06),
        (Operation::AllReduce, Algorithm::HalvingDoubling, Size::default(), 1.03),
        (Operation::AllReduce, Algorithm::Hierarchical, Size { group: 4, ..Size::default() }, 1.03),
        (Operation::AllGather, Algorithm::Ring, Size::default(), 1.03),
        (Operation::AllToAll, Algorithm::Direct, Size::default(), 1.06),
        // The two trees meet at the ports of ranks that are inside one and leaves of the other.
        (Operation::AllReduce, Algorithm::Tree, chunked, 1.30),
    ] {
        let mut config = config(8);
        config.add_job(job(collective(operation, algorithm, 8, 2_000_000), size));
        let (took, least) = took(&run(config));
        let times = took.as_ps() as f64 / least.as_ps() as f64;
        println!("{operation:?} {algorithm:?} {size:?}: {times}");
        assert!((1.0..slack).contains(&times), "{operation:?} {algorithm:?}: {times}");
    }
}

#[test]
fn nics_send_what_the_textbook_says() {
    for (operation, algorithm, times) in [
        (Operation::AllReduce, Algorithm::Ring, 2),
        (Operation::AllReduce, Algorithm::HalvingDoubling, 2),
        (Operation::AllReduce, Algorithm::Hierarchical, 2),
        (Operation::ReduceScatter, Algorithm::Ring, 1),
        (Operation::AllToAll, Algorithm::Direct, 1),
    ] {
        for verb in [Verb::WriteImmediate, Verb::Send] {
            let mut config = config(8);
            let size = Size { chunk_bytes: 30_000, channels: 2, group: 2 };
            let of = collective(operation, algorithm, 8, 800_000);
            config.add_job(Job { verb, repeat: 3, ..job(of, size) });
            let network = run(config);
            for host in 0..8 {
                let sent: u64 = network.host_stats(host).iter().map(|of| of.sent_bytes).sum();
                assert_eq!(sent, 3 * times * 700_000, "{operation:?} {algorithm:?}");
            }
        }
    }
}

/// A chain 0, 1, 2, 3 and a message from 4 to 5; rank 1 computes for `delay` before it passes on.
fn chain(delay: Span) -> Arc<Schedule> {
    let mut plan = Plan::new(6);
    let mut before = None;
    for rank in 0..3 {
        let (send, receive) = plan.message((rank, rank + 1), 0, 10_000);
        if let Some(before) = before {
            let computed = plan.calc(rank, 0, if rank == 1 { delay } else { Span::ZERO });
            plan.requires(computed, before);
            plan.requires(send, computed);
        }
        before = Some(receive);
    }
    plan.message((4, 5), 0, 10_000);
    plan.finish().unwrap()
}

#[test]
fn a_rank_that_is_late_delays_exactly_those_after_it() {
    let ends = |delay| {
        let network = alone(chain(delay), 6);
        let ends = network.repetitions(0);
        ends.iter().map(|of| of[0].over.as_ps()).collect::<Vec<u64>>()
    };
    // Both long enough for the acknowledgement to leave before.
    let (plain, late) = (ends(Span::from_us(10)), ends(Span::from_us(80)));
    let delays: Vec<u64> = late.iter().zip(&plain).map(|(late, plain)| late - plain).collect();
    let us = Span::from_us(70).as_ps();
    // Rank 1 itself is done when what it sends is acknowledged.
    assert_eq!(delays, [0, us, us, us, 0, 0]);
}

#[test]
fn a_queue_pair_takes_more_messages_than_it_has_room_for() {
    let mut plan = Plan::new(2);
    let count = crate::limits::OUTSTANDING_MAX + 100;
    for _ in 0..count {
        plan.message((0, 1), 0, 8);
    }
    let network = alone(plan.finish().unwrap(), 2);
    assert_eq!(network.flows()[0].completed, u64::from(count));
}

#[test]
fn repetitions_follow_each_other_with_the_computation_in_between() {
    let mut config = config(4);
    let of = collective(Operation::AllReduce, Algorithm::Ring, 4, 40_000);
    let (start, compute) = (Time::ZERO + Span::from_us(3), Span::from_us(20));
    config.add_job(Job { repeat: 4, compute, start, ..job(of, Size::default()) });
    let network = run(config);
    for of in network.repetitions(0) {
        assert_eq!((of.len(), of[0].begun), (4, start));
        assert!(of.windows(2).all(|pair| pair[1].begun == pair[0].over + compute));
    }
}

#[test]
fn what_is_lost_is_sent_again_and_the_job_goes_on() {
    let mut config = config(4);
    let of = collective(Operation::AllReduce, Algorithm::Ring, 4, 4_000_000);
    config.add_job(job(of, Size { chunk_bytes: 100_000, ..Size::default() }));
    config.nic.ack_timeout_code = 4;
    let (from, to) = (End::Host(1), End::Switch(0));
    let kind = FaultKind::LinkRule { from, to, rule: DropRule::Chance(0.02) };
    config.faults = vec![Fault { at: Time::ZERO, kind }];
    let network = run(config);
    assert!(network.drops().total() > 0);
    assert!(network.repetitions(0).iter().all(|of| of.len() == 1));
}

#[test]
fn what_is_not_finished_is_said() {
    let mut config = NetworkConfig::new(leaf_spine(2, 2, 4, CABLES, CABLES));
    let of = collective(Operation::AllReduce, Algorithm::Ring, 8, 8_000_000);
    config.add_job(Job { repeat: 3, ..job(of, Size::default()) });
    let mut network = Network::new(config).unwrap();
    let verdict = network.run(Time::ZERO + Span::from_us(2_000));
    assert_eq!(verdict, Verdict::TimeOver);
    let report = Report::new("late", &network, &verdict);
    // Wherever its lines end.
    let summary = report.summary().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(summary.contains("once, "), "{summary}");
    assert!(summary.contains("UNFINISHED: 0 of 8 ranks have done number 2 of 3"), "{summary}");
    assert!(summary.contains("bus "), "{summary}");
    let jobs = report.jobs().unwrap();
    assert_eq!(jobs.len(), 1);
    assert!(report.page().contains("Jobs"));
}

#[test]
fn bandwidths_are_those_of_nccl() {
    let of = |operation| collective(operation, Algorithm::Ring, 8, 1_000).bus_factor();
    assert_eq!(of(Operation::AllReduce), 1.75);
    assert_eq!(of(Operation::AllGather), 0.875);
    assert_eq!(of(Operation::AllToAll), 0.875);
    // A ring without latency or headers is as fast as the link.
    let mut config = config(8);
    config.add_job(job(
        collective(Operation::AllReduce, Algorithm::Ring, 8, 80_000_000),
        Size::default(),
    ));
    let network = run(config);
    let verdict = Verdict::Finished;
    let jobs = Report::new("ring", &network, &verdict).jobs().unwrap();
    let bus = jobs.column("bus_bandwidth_gbps").unwrap().cell(0).number().unwrap();
    let rate = CABLES.rate.as_bps() as f64 / 1e9;
    assert!((0.94 * rate..0.98 * rate).contains(&bus), "{bus}");
}

#[test]
fn a_job_whose_queue_pairs_gave_up_is_told_as_that() {
    let mut config = config(4);
    let of = collective(Operation::AllReduce, Algorithm::Ring, 4, 1_000_000);
    config.add_job(job(of, Size::default()));
    config.nic.retry_count = 1;
    let ends = [End::Host(1), End::Switch(0)];
    config.faults = vec![Fault { at: Time::ZERO, kind: FaultKind::LinkDown { ends } }];
    let mut network = Network::new(config).unwrap();
    let verdict = network.run(Time::ZERO + Span::from_ms(5_000));
    assert_eq!(verdict, Verdict::Stalled);
    let notes = Report::new("ring", &network, &verdict).notes();
    let failed = notes.iter().find(|note| note.about == "failed flows").unwrap();
    assert!(failed.why.contains("gave up after their last retry, and "), "{}", failed.why);
    assert!(notes.iter().all(|note| note.about != "stalled"));
}

#[test]
fn several_seeds_say_how_long_jobs_took_and_in_how_many_runs() {
    let mut seeds = Seeds::default();
    for seed in 1..=2 {
        let mut config = config(4);
        config.add_job(job(
            collective(Operation::AllReduce, Algorithm::Ring, 4, MTU),
            Size::default(),
        ));
        config.seed = seed;
        // The second run is cut short.
        let end = if seed == 1 { Span::from_ms(50) } else { Span::from_us(1) };
        let mut network = Network::new(config).unwrap();
        let verdict = network.run(Time::ZERO + end);
        seeds.add(&Report::new("ring", &network, &verdict), false);
    }
    let text = seeds.summary();
    assert!(text.contains("job 0, us (1 of 2 runs)  "), "{text}");
    let json: serde_json::Value = serde_json::from_str(&seeds.json()).unwrap();
    assert_eq!(json["runs"][1]["ended"], "time over");
    assert_eq!(json["runs"][1]["figures"]["job_0_us"], serde_json::Value::Null);
    let took = json["runs"][0]["jobs"][0]["took_ps"].as_f64().unwrap();
    assert_eq!(json["runs"][0]["figures"]["job_0_us"].as_f64(), Some(took / 1e6));
    let median = json["figures"].as_array().unwrap().iter().find(|of| of["figure"] == "job_0_us");
    assert_eq!(median.unwrap()["value"]["median"].as_f64(), Some(took / 1e6));
    assert_eq!(seeds.jobs().unwrap().len(), 1, "none of the second run");
}

#[test]
fn what_held_up_a_job_is_of_its_own_time_where_the_run_was_sampled() {
    let mut config = config(4);
    // In a small buffer both are paused, and long over when the job begins.
    config.switch.buffer_bytes = 1_000_000;
    config.flows = [0, 3].map(|host| FlowSpec::write(host, 2, 2_000_000)).to_vec();
    let ring = collective(Operation::AllReduce, Algorithm::Ring, 4, 40 * MTU);
    let start = Time::ZERO + Span::from_ms(1);
    config.add_job(Job { start, ..job(ring, Size::default()) });
    let mut network = Network::new(config).unwrap();
    let end = Time::ZERO + Span::from_ms(50);
    let mut samples = Samples::new(&network, end, Some(Span::from_us(1)));
    let next = |_: &Network| Next::Run(Span::from_ms(50));
    let verdict = record::run(&mut network, end, Some(&mut samples), next);
    let held_up = |report: &Report<'_>| {
        let jobs = report.jobs().unwrap();
        let Cell::Text(text) = jobs.column("held_up_by").unwrap().cell(0) else {
            panic!("{jobs:?}")
        };
        text.to_owned()
    };
    let report = Report::new("ring", &network, &verdict);
    let whole = held_up(&report);
    assert!(whole.contains("paused for ") && whole.ends_with(" in the whole run"), "{whole}");
    let own = held_up(&report.with_samples(&samples));
    let used: f64 = own.split("used to ").nth(1).unwrap().trim_end_matches(" %").parse().unwrap();
    // Between the steps the link rests; over the whole run it would be 2 %.
    assert!((40.0..=100.0).contains(&used), "{own}");
}

#[test]
fn a_job_that_could_not_run_is_refused() {
    let refused = |change: fn(&mut NetworkConfig)| {
        let mut config = config(4);
        let of = collective(Operation::AllReduce, Algorithm::Ring, 4, 1_000);
        config.add_job(job(of, Size::default()));
        change(&mut config);
        Network::new(config).unwrap_err().to_string()
    };
    assert!(refused(|config| config.jobs[0].hosts[1] = 0).contains("different hosts"));
    assert!(refused(|config| config.jobs[0].hosts[1] = 9).contains("different hosts"));
    assert!(refused(|config| config.jobs[0].hosts.truncate(3)).contains("for each of its ranks"));
    assert!(refused(|config| config.jobs[0].verb = Verb::Write).contains("take a receive"));
    assert!(refused(|config| config.flows.truncate(3)).contains("added with it"));
    assert!(refused(|config| drop(config.jobs.pop())).contains("comes with its job"));
}
