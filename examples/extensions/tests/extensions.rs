//! Each extension does its job, in the scenario beside this crate, against a control row over eight draws.

use std::path::Path;

use fabric::scenario::Scenario;
use fabric::{Network, Verdict};
use rdma::{Span, Time};

/// What is left to chance is drawn so often.
const DRAWS: u64 = 8;

/// A scenario of this folder, with `set` in the place of what it says.
fn network(file: &str, set: &[&str], seed: u64) -> (Network, Time) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(folder.join(file)).unwrap();
    let set: Vec<String> = set.iter().map(ToString::to_string).collect();
    let read = Scenario::parse_extended(&text, folder, &set, Some(seed), &extensions::all());
    let scenario = read.unwrap_or_else(|error| panic!("{file}: {error}"));
    (Network::new(scenario.network).unwrap(), scenario.end)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Of eight senders to one: pause frames, the part of the receiver's link that payload fills, and the rate of the
/// slowest flow as a part of the fastest's. The first millisecond, in which flows find their windows, does not count.
fn incast(set: &[&str], seed: u64) -> [f64; 3] {
    let (mut network, end) = network("gradient.toml", set, seed);
    let begin = Time::ZERO + Span::from_ms(1);
    let bytes = |network: &Network| -> Vec<u64> {
        network.flows().iter().map(|flow| flow.bytes()).collect()
    };
    network.run(begin);
    let (before, pauses) = (bytes(&network), network.pause_frames());
    assert_eq!(network.run(end), Verdict::TimeOver);
    let sent: Vec<f64> = bytes(&network)
        .iter()
        .zip(&before)
        .map(|(after, before)| (after - before) as f64)
        .collect();
    let seconds = end.since(begin).as_ps() as f64 / 1e12;
    let part = sent.iter().sum::<f64>() * 8.0 / seconds / 100e9;
    let [least, most] = [f64::min, f64::max].map(|of| sent.iter().copied().reduce(of).unwrap());
    [(network.pause_frames() - pauses) as f64, part, least / most]
}

#[test]
fn the_controller_ends_pauses_and_its_flows_share_a_link_that_stays_busy() {
    for seed in 1..=DRAWS {
        let [pauses, busy, _] = incast(&["nic.congestion=none"], seed);
        assert!(pauses > 1_000.0 && busy > 0.9, "without it, seed {seed}: {pauses} {busy}");
        let [pauses, busy, share] = incast(&[], seed);
        assert!(pauses == 0.0 && busy > 0.9, "seed {seed}: {pauses} {busy}");
        // Ours: no flow has less than a quarter of another's.
        assert!(share > 0.25, "seed {seed}: {share}");
    }
}

/// How long messages take, in microseconds: the median, and the 99th percentile.
fn web_search(set: &[&str]) -> [f64; 2] {
    let (mut network, end) = network("two-choices.toml", set, 1);
    network.run(end);
    let mut all: Vec<f64> = network
        .flows()
        .iter()
        .map(|flow| flow.latencies_ps.first().map_or(f64::MAX, |ps| *ps as f64 / 1e6))
        .collect();
    all.sort_unstable_by(f64::total_cmp);
    [all[all.len() / 2], all[all.len() * 9 / 10]]
}

#[test]
fn two_choices_shorten_what_hashing_makes_wait() {
    let draws = (1..=DRAWS).map(|hash| {
        let hash = format!("switch.ecmp_seed={hash}");
        [web_search(&["switch.balance=flow", &hash]), web_search(&[&hash])]
    });
    let draws: Vec<[[f64; 2]; 2]> = draws.collect();
    for (what, wins_least, part) in [("the median", 6, 0.85), ("the 90th percentile", 6, 1.0)] {
        let which = usize::from(what != "the median");
        let of = |balance: usize| median(draws.iter().map(|draw| draw[balance][which]).collect());
        let wins = draws.iter().filter(|[flow, two]| two[which] < flow[which]).count();
        assert!(wins >= wins_least && of(1) < part * of(0), "{what}: {wins} wins in {draws:?}");
    }
}

/// How long all rounds of the parameter servers take, in microseconds.
fn training(set: &[&str]) -> f64 {
    let (mut network, end) = network("parameter-server.toml", set, 1);
    assert_eq!(network.run(end), Verdict::Finished, "{set:?}");
    let ends = network.flows().iter().filter_map(|flow| flow.finished_at);
    ends.max().unwrap().as_ps() as f64 / 1e6
}

#[test]
fn a_round_takes_what_the_link_of_a_server_needs_and_half_with_twice_as_many() {
    // Fourteen workers push and pull 5 MB at each of two servers, at 100 Gb/s: 11,200 us in both directions.
    let least =
        |workers: f64, servers: f64| 3.0 * (200.0 + 2.0 * workers * 10e6 / servers * 8.0 / 100e3);
    let two = training(&[]);
    assert!((1.0..1.3).contains(&(two / least(14.0, 2.0))), "{two} of {}", least(14.0, 2.0));
    let four = training(&["workload.0.servers=[\"h0\", \"h4\", \"h8\", \"h12\"]"]);
    assert!((1.0..1.3).contains(&(four / least(12.0, 4.0))), "{four} of {}", least(12.0, 4.0));
}

#[test]
fn a_mistake_in_an_extension_s_key_names_line_and_remedy() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let refused = |file: &str, set: &str| {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let set = [set.to_owned()];
        let read = Scenario::parse_extended(&text, folder, &set, None, &extensions::all());
        read.unwrap_err().to_string()
    };
    assert_eq!(
        refused("gradient.toml", "nic.gradient.room=3"),
        "--set nic.gradient.room=3: unknown key `room`\nhint: did you mean `room_ns`?"
    );
    let all = refused("parameter-server.toml", "workload.0.servers=[]");
    assert!(all.contains("workload.servers: 0 servers, and 16 workers\nhint: "), "{all}");
}
