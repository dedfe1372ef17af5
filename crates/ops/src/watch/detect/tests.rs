//! Tables of samples, scenarios of the simulator, and a day without faults.

use std::fs;
use std::path::Path;

use fabric::record::{self, Next};
use fabric::scenario::Scenario;
use fabric::switch::config::EcnConfig;
use fabric::{Network, NetworkConfig};
use rdma::Span;

use super::*;
use crate::watch::{ecn_configured, sample_network};

fn kinds(events: &[Event]) -> Vec<(Kind, &str)> {
    let found = events.iter().filter_map(|event| match event {
        Event::Found(finding) => Some((finding.kind, finding.who.as_str())),
        Event::Over(_) => None,
    });
    found.collect()
}

/// A NIC of which the samples say: pauses sent, microseconds of pausing, bytes received.
fn nic((pauses, pausing_us, bytes): (u64, Option<u64>, Option<u64>)) -> Sample {
    let mut port = PortSample::default();
    port.queues[3] = QueueSample {
        pauses_sent: Some(pauses),
        pausing_us,
        received_bytes: bytes,
        ..QueueSample::default()
    };
    Sample { ports: [(PortName::new("mlx5_0", "1"), port)].into(), ..Sample::default() }
}

#[test]
fn pauses_that_a_nic_sends_are_a_storm_or_a_slow_receiver_by_whether_data_comes() {
    type Step = fn(u64) -> (u64, Option<u64>, Option<u64>);
    let rows: [(&str, Step, &[Kind]); 7] = [
        ("no data, pauses", |second| (2_000 * second, None, Some(5)), &[Kind::PauseStorm]),
        (
            "paused all the time",
            |second| (second, Some(second * 1_000_000), None),
            &[Kind::PauseStorm],
        ),
        (
            "data and thousands of pauses",
            |second| (2_000 * second, None, Some(second)),
            &[Kind::SlowReceiver],
        ),
        (
            "thousands of pauses, data unknown",
            |second| (2_000 * second, None, None),
            &[Kind::SlowReceiver],
        ),
        ("data and a few pauses", |second| (20 * second, None, Some(second)), &[]),
        ("idle", |_| (7, Some(0), Some(5)), &[]),
        ("counters that fall", |second| (2_000 * (100 - second), None, Some(second)), &[]),
    ];
    for (what, step, expected) in rows {
        let mut watch = Watch::new(Settings::default());
        let mut found = Vec::new();
        for second in 0..30 {
            found.extend(watch.look(Duration::from_secs(second), &nic(step(second))));
        }
        let found: Vec<Kind> = kinds(&found).into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn as_many_looks_as_are_said_find_all_and_what_they_are_too_few_for_is_told() {
    for interval_ms in [50, 400, 1_000, 5_000, 30_000] {
        let interval = Duration::from_millis(interval_ms);
        let settings = Settings { poll: interval, ..Settings::default() };
        let mut watch = Watch::new(settings.clone());
        let looks = settings.looks_for_all();
        let mut found = Vec::new();
        for look in 0..looks {
            assert!(!watch.unjudged().is_empty(), "{interval_ms} ms, {look} of {looks}");
            // No look comes early, and each gap is a little longer than the one before.
            let at = interval * look as u32 + Duration::from_micros(look * look);
            found.extend(watch.look(at, &nic((500 * interval_ms * look, None, Some(5)))));
        }
        assert_eq!(watch.unjudged(), [], "{interval_ms} ms");
        assert_eq!(kinds(&found), [(Kind::PauseStorm, "mlx5_0")], "{interval_ms} ms");
    }
    let settings = Settings { poll: Duration::from_secs(5), ..Settings::default() };
    assert_eq!(settings.looks_for_all(), 3);
    let mut watch = Watch::new(settings);
    for second in [0, 5] {
        watch.look(Duration::from_secs(second), &nic((second, None, Some(5))));
    }
    let names: Vec<&str> = watch.unjudged().iter().map(|(kind, _)| kind.name()).collect();
    assert_eq!(names, ["pause-storm", "ecn-never-marks"]);
}

#[test]
fn a_finding_is_told_once_and_is_over_when_it_is() {
    let mut watch = Watch::new(Settings::default());
    let mut events = Vec::new();
    for second in 0..60u64 {
        // A slow receiver until the twentieth second.
        let pauses = 2_000 * second.min(20);
        events.extend(watch.look(Duration::from_secs(second), &nic((pauses, None, Some(second)))));
    }
    assert!(matches!(&events[..], [Event::Found(_), Event::Over(_)]), "{events:?}");
    assert_eq!(watch.open().count(), 0);
    let Event::Found(finding) = &events[0] else { unreachable!("matched above") };
    assert_eq!((finding.since, finding.found), (Duration::ZERO, Duration::from_secs(5)));
}

#[test]
fn who_saves_counters_more_rarely_than_they_are_looked_at_is_judged_by_what_was_saved() {
    type Step = fn(u64) -> (u64, Option<u64>, Option<u64>);
    let rows: [(&str, Step, Option<Kind>); 4] = [
        ("a storm", |at| (3_000 * at, None, Some(5)), Some(Kind::PauseStorm)),
        ("a slow receiver", |at| (3_000 * at, None, Some(at)), Some(Kind::SlowReceiver)),
        ("data", |at| (7, None, Some(at)), None),
        ("few pauses", |at| (20 * at, None, Some(at)), None),
    ];
    for (what, step, expected) in rows {
        for every in [3, 10, 30] {
            let mut watch = Watch::new(Settings::default());
            let mut events = Vec::new();
            for second in 0..300 {
                let saved = second / every * every;
                events.extend(watch.look(Duration::from_secs(second), &nic(step(saved))));
            }
            let expected: Vec<_> = expected.iter().map(|kind| (*kind, "mlx5_0")).collect();
            assert_eq!(kinds(&events), expected, "{what}, saved every {every} s: {events:?}");
            assert_eq!(events.len(), expected.len(), "{what}, saved every {every} s: {events:?}");
            assert_eq!(watch.cadences.longest(watch.settings.poll).as_secs(), every);
        }
    }
    // By no clock, and beside a host whose device has the same name and is looked at as often as it counts.
    let mut watch = Watch::new(Settings::default());
    let (mut events, mut saved, mut next) = (Vec::new(), 0, 0);
    let gaps = [8, 7, 3, 8, 2, 2, 5, 8, 3, 6];
    for second in 0..300 {
        if second == next {
            saved = second;
            next += gaps[second as usize % gaps.len()];
        }
        let mut sample = Sample::default();
        for (host, of) in
            [("h0", nic((3_000 * saved, None, Some(5)))), ("h1", nic((7, None, Some(second))))]
        {
            let port = of.ports.into_values().next().unwrap();
            let name = PortName { host: host.to_owned(), ..PortName::new("mlx5_0", "1") };
            sample.ports.insert(name, port);
        }
        events.extend(watch.look(Duration::from_secs(second), &sample));
    }
    assert_eq!(kinds(&events), [(Kind::PauseStorm, "h0")], "{events:?}");
    assert_eq!(events.len(), 1, "{events:?}");
    // It is over with the first saving that says so.
    let mut watch = Watch::new(Settings::default());
    let mut told = Vec::new();
    for second in 0..200_u64 {
        let saved = second / 5 * 5;
        let storm = saved.clamp(60, 120) - 60;
        let sample = nic((storm, Some(storm * 1_000_000), Some(saved - storm)));
        for event in watch.look(Duration::from_secs(second), &sample) {
            let (Event::Found(of) | Event::Over(of)) = &event;
            told.push((second, matches!(event, Event::Over(_)), of.kind));
        }
    }
    assert!(
        matches!(told[..], [(65..=75, false, Kind::PauseStorm), (125, true, Kind::PauseStorm)]),
        "{told:?}"
    );
    // Between two looks, so that he seems now early and now late.
    for every_ms in [1_300, 1_700, 2_500, 3_300, 7_500] {
        let mut watch = Watch::new(Settings::default());
        let mut events = Vec::new();
        for second in 0..200_u64 {
            let saved = second * 1_000 / every_ms * every_ms;
            let paused_ms = saved.saturating_sub(60_000);
            let sample = nic((paused_ms, Some(paused_ms * 1_000), Some(saved.min(60_000))));
            events.extend(watch.look(Duration::from_millis(second * 1_001), &sample));
        }
        assert!(
            matches!(&events[..], [Event::Found(of)] if of.kind == Kind::PauseStorm),
            "saved each {every_ms} ms: {events:?}"
        );
    }
    // So rarely, beside looks that are rare too, that he seems idle: few pauses a second, and no slow receiver.
    for (every, interval, per_second) in [(60, 10, 200), (60, 5, 100), (200, 10, 100), (20, 5, 400)]
    {
        let mut watch =
            Watch::new(Settings { poll: Duration::from_secs(interval), ..Settings::default() });
        for at in (0..1_000).step_by(interval as usize) {
            let saved = at / every * every;
            let sample = nic((per_second * saved, None, Some(saved)));
            let events = watch.look(Duration::from_secs(at), &sample);
            assert_eq!(events, [], "saved each {every} s, looked at each {interval} s");
        }
    }
    // One that is idle for long, and counts on, is not waited for.
    let mut watch = Watch::new(Settings::default());
    let mut over = Vec::new();
    for second in 0..300 {
        let count = if (50..150).contains(&second) { 50 } else { second };
        let mut sample = nic((0, None, Some(count)));
        let queue = &mut sample.ports.values_mut().next().unwrap().queues[3];
        (queue.dropped, queue.pauses_received) = (Some(u64::from(second >= 150)), Some(1));
        let events = watch.look(Duration::from_secs(second), &sample);
        over.extend(events.iter().filter(|of| matches!(of, Event::Over(_))).map(|_| second));
    }
    assert_eq!(over, [152]);
    // Nobody waits for one that has stopped: what is not so any more is over.
    let mut watch = Watch::new(Settings::default());
    let mut events = Vec::new();
    for second in 0..300 {
        let saved = (second / 10 * 10).min(100);
        let sample = nic((3_000 * saved, None, Some(saved)));
        events.extend(watch.look(Duration::from_secs(second), &sample));
    }
    assert!(matches!(&events[..], [Event::Found(_), Event::Over(_)]), "{events:?}");
}

#[test]
fn priorities_that_are_stuck_together_are_one_finding_and_one_that_follows_is_news() {
    let sample = |second: u64| {
        let mut sample = nic((2_000 * second, None, Some(5)));
        let port = sample.ports.values_mut().next().unwrap();
        port.queues[4] = port.queues[3];
        let later = second.saturating_sub(10);
        port.queues[5] = QueueSample { pauses_sent: Some(2_000 * later), ..port.queues[3] };
        sample
    };
    let mut watch = Watch::new(Settings::default());
    let mut events = Vec::new();
    for second in 0..30 {
        events.extend(watch.look(Duration::from_secs(second), &sample(second)));
    }
    let found: Vec<String> = events
        .iter()
        .map(|event| match event {
            Event::Found(finding) => finding.priority_list(),
            Event::Over(finding) => panic!("{finding}"),
        })
        .collect();
    assert_eq!(found, ["3,4", "5"]);
    assert_eq!(watch.open().map(Finding::priority_list).collect::<Vec<_>>(), ["3,4,5"]);
    // One that ends is over by itself, and found when it comes again.
    let mut ends = |looks: core::ops::Range<u64>, stands_still: bool| {
        let mut told = Vec::new();
        for second in looks {
            let mut sample = sample(second);
            if stands_still {
                sample.ports.values_mut().next().unwrap().queues[4].pauses_sent = Some(58_000);
            }
            for event in watch.look(Duration::from_secs(second), &sample) {
                told.push(match event {
                    Event::Found(finding) => ("found", finding.priority_list()),
                    Event::Over(finding) => ("over", finding.priority_list()),
                });
            }
        }
        told
    };
    assert_eq!(ends(30..50, true), [("over", "4".to_owned())]);
    assert_eq!(ends(50..70, false), [("found", "4".to_owned())]);
}

#[test]
fn a_clock_that_jumps_and_ports_that_come_and_go_find_nothing() {
    let mut watch = Watch::new(Settings::default());
    let mut events = Vec::new();
    for (second, pauses) in
        [(0, 0), (1, 9_000), (1, 18_000), (0, 27_000), (50_000, 36_000), (50_001, 90_000)]
    {
        events.extend(watch.look(Duration::from_secs(second), &nic((pauses, None, Some(pauses)))));
        events.extend(watch.look(Duration::from_secs(second), &Sample::default()));
    }
    assert_eq!(events, []);
}

#[test]
fn a_look_that_comes_twice_counts_once() {
    let mut watch = Watch::new(Settings::default());
    let mut events = Vec::new();
    for second in (0..20).flat_map(|second| [second; 2]) {
        let sample = nic((3_000 * second, None, Some(second)));
        events.extend(watch.look(Duration::from_secs(second), &sample));
    }
    assert_eq!(kinds(&events), [(Kind::SlowReceiver, "mlx5_0")], "{events:?}");
}

#[test]
fn what_was_found_before_a_clock_went_back_is_over_a_while_after_it() {
    let mut watch = Watch::new(Settings::default());
    let mut events = Vec::new();
    for second in 1_000..1_010u64 {
        let storm = nic((2_000 * second, None, Some(5)));
        events.extend(watch.look(Duration::from_secs(second), &storm));
    }
    for second in 0..3u64 {
        events.extend(watch.look(Duration::from_secs(second), &nic((7, None, Some(second)))));
    }
    assert!(matches!(&events[..], [Event::Found(_), Event::Over(_)]), "{events:?}");
}

#[test]
fn a_drop_is_a_loss_only_where_pauses_were_seen_or_told() {
    for (pauses, lossless, expected) in
        [(1, None, 1), (0, None, 0), (0, Some(0b1000), 1), (1, Some(0b1_0000), 0)]
    {
        let mut watch = Watch::new(Settings { lossless, ..Settings::default() });
        let mut found = 0;
        for second in 0..4 {
            let mut sample = nic((pauses, None, None));
            for port in sample.ports.values_mut() {
                port.queues[3].dropped = Some(if second < 2 { 5 } else { 6 });
            }
            found += kinds(&watch.look(Duration::from_secs(second), &sample)).len();
        }
        assert_eq!(found, expected, "{pauses} pauses, {lossless:?}");
    }
}

// ---- the simulator

/// Runs a scenario, changed by `with`, and returns every finding.
fn findings(
    name: &str,
    settings: &Settings,
    with: impl Fn(&mut NetworkConfig),
) -> Vec<(Kind, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name);
    let text = fs::read_to_string(&path).unwrap();
    let Scenario { mut network, end, .. } =
        Scenario::parse_in(&text, path.parent().unwrap(), None).unwrap();
    // The simulator's own search would end the run.
    network.deadlock_check = None;
    with(&mut network);
    let marks = ecn_configured(&network);
    let mut network = Network::new(network).unwrap();
    let mut watch = Watch::new(settings.clone());
    let poll = Span::from_ns(u64::try_from(settings.poll.as_nanos()).unwrap());
    let mut found = Vec::new();
    record::run(&mut network, end, None, |network| {
        let at = Duration::from_nanos(network.now().as_ps() / 1_000);
        for event in watch.look(at, &sample_network(network, marks)) {
            if let Event::Found(finding) = event {
                found.push((finding.kind, finding.who));
            }
        }
        Next::Run(poll)
    });
    found
}

/// Milliseconds in place of seconds.
fn fast() -> Settings {
    Settings { poll: Duration::from_micros(250), ..Settings::default().scaled(1e-3) }
}

#[test]
fn the_storm_of_one_server_is_found_and_nothing_else() {
    // SONiC's for Broadcom needs the pause state of queues, which these samples do not have.
    for storm_rule in [StormRule::Guo16, StormRule::Mellanox] {
        let found = findings("storm.toml", &Settings { storm_rule, ..fast() }, |_| {});
        assert_eq!(found, [(Kind::PauseStorm, "h0".to_owned())], "{storm_rule:?}");
    }
}

#[test]
fn the_deadlock_by_flooding_is_found_and_nothing_else() {
    let found = findings("deadlock.toml", &fast(), |_| {});
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].0, found[0].1.split(',').count()), (Kind::Deadlock, 4), "{found:?}");
}

#[test]
fn the_slow_receiver_is_found_and_nothing_else() {
    let found = findings("slow-receiver.toml", &fast(), |_| {});
    assert_eq!(found, [(Kind::SlowReceiver, "h1".to_owned())]);
}

#[test]
fn an_incast_pauses_and_is_no_finding() {
    for seed in 1..=3 {
        let found = findings("incast.toml", &fast(), |network| network.seed = seed);
        assert_eq!(found, [], "seed {seed}");
    }
}

#[test]
fn healthy_scenarios_find_nothing() {
    for name in ["controls/incast-dcqcn.toml", "chatty-servers.toml", "latency-under-load.toml"] {
        for seed in 1..=2 {
            let found = findings(name, &fast(), |network| network.seed = seed);
            assert_eq!(found, [], "{name}, seed {seed}");
        }
    }
}

#[test]
fn ecn_above_the_point_of_pauses_never_marks_and_below_it_does() {
    let settings = Settings { ecn_hold: Duration::from_millis(2), ..fast() };
    let found = findings("incast.toml", &settings, |network| {
        for queue in &mut network.switch.queues {
            let (min_bytes, max_bytes, max_probability) = (8_000_000, 9_000_000, 0.1);
            queue.ecn = Some(EcnConfig { min_bytes, max_bytes, max_probability });
        }
    });
    assert_eq!(found, [(Kind::EcnNeverMarks, "leaf0".to_owned())]);
    assert_eq!(findings("controls/incast-dcqcn.toml", &settings, |_| {}), []);
}

#[test]
fn a_tor_that_pauses_sooner_than_its_like_is_found_and_nothing_else() {
    for seed in 1..=3 {
        let found = findings("alpha.toml", &fast(), |network| network.seed = seed);
        assert_eq!(found, [(Kind::EarlyPauses, "leaf2".to_owned())], "seed {seed}");
    }
}

#[test]
fn where_all_have_one_alpha_or_one_alone_has_load_nobody_pauses_sooner() {
    type Change = fn(&mut NetworkConfig);
    let rows: [(&str, Change); 3] = [
        ("all at 1/16", |network| network.switches.clear()),
        ("all at 1/64", |network| {
            network.switch = network.switches.values().next().unwrap().clone();
            network.switches.clear();
        }),
        // It pauses, and its like do not: but they have never held as much.
        ("only below it servers ask", |network| network.flows.retain(|flow| flow.source == 16)),
    ];
    for (what, with) in rows {
        assert_eq!(findings("alpha.toml", &fast(), with), [], "{what}");
    }
}

// ---- a day

#[test]
fn a_day_of_healthy_pauses_finds_nothing() {
    let mut random = 7u64;
    let mut chance = move |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let mut watch = Watch::new(Settings::default());
    let mut sample = Sample::default();
    for port in 0..4 {
        let role = |switch| if switch { Role::Switch } else { Role::Nic };
        let peer = Some((format!("n{port}"), role(port >= 2)));
        let mut at = PortSample { role: Role::Switch, peer, ..PortSample::default() };
        at.queues[3] = QueueSample {
            pauses_received: Some(0),
            pauses_sent: Some(0),
            paused_us: Some(0),
            transitions: Some(0),
            sent_packets: Some(0),
            waiting_bytes: Some(0),
            dropped: Some(0),
            marked: Some(0),
            ..QueueSample::default()
        };
        at.queues[0].dropped = Some(0);
        sample.ports.insert(PortName::new("tor", format!("p{port}")), at);
    }
    let mut looks = 0;
    for second in 0..86_400 {
        for port in sample.ports.values_mut() {
            // Incasts: pauses of up to three quarters of a second from switches, few and short ones from servers.
            let server = matches!(port.peer, Some((_, Role::Nic)));
            let burst = chance(4) == 0;
            let add =
                |counter: &mut Option<u64>, more: u64| *counter = counter.map(|value| value + more);
            let queue = &mut port.queues[3];
            add(&mut queue.sent_packets, 1 + chance(1_000_000));
            add(&mut queue.pauses_sent, if burst { chance(20_000) } else { 0 });
            add(
                &mut queue.pauses_received,
                if burst { chance(if server { 900 } else { 20_000 }) } else { 0 },
            );
            add(&mut queue.paused_us, if burst { chance(750_000) } else { 0 });
            add(&mut queue.marked, if burst { 1 + chance(5_000) } else { 0 });
            queue.waiting_bytes = Some(chance(200_000));
            // A lossy class may drop.
            add(&mut port.queues[0].dropped, chance(3));
        }
        let events = watch.look(Duration::from_secs(second), &sample);
        assert_eq!(events, [], "second {second}");
        looks += 1;
    }
    assert_eq!(looks, 86_400);
}
