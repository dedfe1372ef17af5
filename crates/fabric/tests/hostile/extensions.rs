//! Extensions that are badly written, and scenarios that name some of them wrongly.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::path::Path;

use fabric::extend::{
    Arrival, Controller, ControllerKind, Extensions, FlowSpec, Hop, Hops, HostList, Job,
    LoadBalancer, LoadBalancerKind, Plan, Refusal, Scene, Setting, Traffic, WorkloadKind,
};
use fabric::scenario::{self, Scenario};
use fabric::{Network, NetworkConfig, Verdict};
use rdma::{Rate, Time};

const PART: Setting = Setting::new("part_1000ths", 1..=1_000, 7, "A part.");
const HOW: Setting = Setting::new("how", 0..=9, 0, "In which way it is wrong.");
const WHO: HostList = HostList::new("who", "Who is meant.");

/// Nothing leaves, if it has its way.
#[derive(Debug)]
struct Stopped;

impl Controller for Stopped {
    fn on_sent(&mut self, _: Time, _: u64) -> Option<Rate> {
        Some(Rate::ZERO)
    }

    fn window(&self, _: u64) -> u64 {
        0
    }
}

static STOPPED: ControllerKind =
    ControllerKind::new("stopped", "Stops.", |_| Box::new(Stopped)).with_settings(&[PART]);

/// The last of the next hops; or a panic.
#[derive(Debug)]
struct Last {
    panics: bool,
}

impl LoadBalancer for Last {
    fn choose<'s>(&mut self, _: &Arrival, hops: &Hops<'s>) -> Hop<'s> {
        assert!(!self.panics, "as it was told to");
        // Places count round, so that none is out of range.
        hops.at(hops.len() * 9 - 1)
    }
}

static LAST: LoadBalancerKind = LoadBalancerKind::new("last", "The last.", |set| {
    Box::new(Last { panics: set.get(&PART) == 1 })
})
.with_settings(&[PART]);

fn made(scene: &mut Scene<'_>) -> Result<Traffic, Refusal> {
    let hosts = scene.host_count();
    let mut plan = Plan::new(2);
    match scene.get(&HOW) {
        0 => {
            let named = scene.hosts_of(&WHO).first().copied().unwrap_or(0);
            let other = (named + 1) % hosts;
            return Ok(Traffic::Flows(vec![FlowSpec::write(named, other, 100_000)]));
        }
        1 => return Ok(Traffic::Flows(vec![FlowSpec::write(0, hosts, 1)])),
        2 => return Ok(Traffic::Flows(vec![FlowSpec::write(1, 1, 1)])),
        3 => return Err(Refusal::of(HOW.key(), "no thirds").hint("take halves")),
        4 => drop(plan.message((0, 2), 0, 1)),
        5 => {
            let (send, _) = plan.message((0, 1), 0, 1);
            plan.requires(send, send);
        }
        6 => {
            let ((first, _), (second, _)) =
                (plan.message((0, 1), 0, 1), plan.message((1, 0), 0, 1));
            plan.requires(first, second);
        }
        7 => {
            let (mut other, mut foreign) = (Plan::new(2), None);
            for _ in 0..9 {
                foreign = Some(other.message((0, 1), 0, 1).0);
            }
            let (send, _) = plan.message((0, 1), 0, 1);
            plan.requires(send, foreign.unwrap_or(send));
        }
        8 => drop(plan.message((1, 1), 0, 1)),
        _ => drop(plan.message((0, 1), 0, 1)),
    }
    let schedule = plan.finish()?;
    let mut job = Job::new("bad", schedule, vec![0, 1]);
    job.repeat = 0;
    Ok(Traffic::Job(job))
}

static BAD: WorkloadKind =
    WorkloadKind::new("bad", "Wrong in many ways.", made).with_settings(&[HOW]).with_hosts(&[WHO]);

fn all() -> Extensions {
    Extensions::new().congestion(&STOPPED).balance(&LAST).workload(&BAD)
}

const HEAD: &str = "end_ms = 1\n[topology]\nshape = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts = 2\n\
    rate_gbps = 40\nuplink_rate_gbps = 40\ncable_m = 2\nuplink_cable_m = 200\n";

fn read(extensions: &Extensions, text: &str) -> Result<NetworkConfig, String> {
    let text = format!("{HEAD}{text}");
    let read = Scenario::parse_extended(&text, Path::new("."), &[], None, extensions);
    read.map(|scenario| scenario.network).map_err(|error| error.to_string())
}

#[test]
fn a_mistake_about_an_extension_is_told_as_one_about_ours_is() {
    let workload = "[[workload]]\nkind = \"bad\"\n";
    for (text, expected) in [
        (
            "[nic]\ncongestion = \"stoped\"",
            "line 12: nic.congestion: there is no \"stoped\"\nhint: did you mean \"stopped\"?",
        ),
        (
            "[nic]\ncongestion = \"zzzzzzzz\"",
            "line 12: nic.congestion: there is no \"zzzzzzzz\"\n\
             hint: one of none, dcqcn, dctcp, timely, swift, hpcc, bbr, stopped",
        ),
        (
            "[nic.stopped]\npart_1000ths = 3",
            "line 11: nic.stopped: nothing obeys these settings\n\
             hint: add congestion = \"stopped\" to the table that it is in",
        ),
        (
            "[nic]\ncongestion = \"stopped\"\n[nic.stopped]\npart_1000th = 3",
            "line 14: unknown key `part_1000th`\nhint: did you mean `part_1000ths`?",
        ),
        (
            "[nic]\ncongestion = \"stopped\"\n[nic.stopped]\npart_1000ths = -3",
            "line 14: nic.stopped.part_1000ths: -3 is not from 1 to 1000\nhint: write 1 or more",
        ),
        (
            "[nic]\ncongestion = \"stopped\"\n[nic.stopped]\npart_1000ths = 1001",
            "line 14: nic.stopped.part_1000ths: 1001 is not from 1 to 1000\n\
             hint: write a number of that range",
        ),
        (
            "[nic]\ncongestion = \"stopped\"\nstopped = 3",
            "line 13: nic.stopped: expected a table, and found 3\n\
             hint: a table is [name], or { key = value }",
        ),
        (
            "[switch]\nbalance = \"packet\"\nlast = { part_1000ths = 3 }",
            "line 13: switch.last: nothing obeys these settings\n\
             hint: add balance = \"last\" to the table that it is in",
        ),
        (
            "[switch]\nbalance = \"last\"\nflowlet_gap_us = 3",
            "line 13: switch.flowlet_gap_us: only flowlets have a gap\nhint: balance = \"flowlet\"",
        ),
        (
            "[[workload]]\nkind = \"baad\"",
            "line 12: workload.kind: there is no \"baad\"\nhint: did you mean \"bad\"?",
        ),
        (&format!("{workload}hows = 3"), "line 13: unknown key `hows`\nhint: did you mean `how`?"),
        (
            &format!("{workload}who = [\"h9\"]"),
            "line 13: workload.who: there is no host \"h9\"\nhint: hosts are h0 to h3",
        ),
        (
            &format!("{workload}who = [\"h0\", \"h0\"]"),
            "line 13: workload.who: \"h0\" is there twice\nhint: name it once",
        ),
        (
            &format!("{workload}how = 1"),
            "line 12: workload.kind: it makes a flow from host 0 to host 4, and there are 4, from 0 on\n\
             hint: another setting may do; else the workload is to be mended",
        ),
        (&format!("{workload}how = 3"), "line 13: workload.how: no thirds\nhint: take halves"),
        (
            &format!("{workload}how = 4"),
            "line 12: workload.kind: operation 0 of the schedule is of a rank that is not there\n\
             hint: the workload itself is to be mended",
        ),
        (
            &format!("{workload}how = 5"),
            "line 12: workload.kind: operation 0 of the schedule waits for itself, by way of others\n\
             hint: the workload itself is to be mended",
        ),
        (
            &format!("{workload}how = 6"),
            "line 12: workload.kind: operation 0 of the schedule requires one of another rank: \
             ranks meet in messages\nhint: the workload itself is to be mended",
        ),
        (
            &format!("{workload}how = 7"),
            "line 12: workload.kind: operation 0 of the schedule requires one of another rank: \
             ranks meet in messages\nhint: the workload itself is to be mended",
        ),
        (
            &format!("{workload}how = 8"),
            "line 12: workload.kind: operation 0 of the schedule is of a rank that is not there\n\
             hint: the workload itself is to be mended",
        ),
        (
            &format!("{workload}how = 9"),
            "line 12: workload.kind: it makes a job that is done no times\n\
             hint: another setting may do; else the workload is to be mended",
        ),
    ] {
        let told = read(&all(), text).map(drop);
        assert_eq!(told, Err(expected.to_owned()), "{text}");
    }
    // What the network itself refuses is told at the workload, too.
    let config = read(&all(), &format!("{workload}how = 2")).unwrap();
    assert!(Network::new(config).unwrap_err().to_string().contains("the same host"));
}

#[test]
fn extensions_that_would_hide_others_are_refused_before_anything_is_read() {
    fn stop(_: &fabric::extend::Custom) -> Box<dyn Controller> {
        Box::new(Stopped)
    }
    static OURS: ControllerKind = ControllerKind::new("dcqcn", "", stop);
    static KEY: ControllerKind = ControllerKind::new("tcp", "", stop);
    static SPACE: ControllerKind = ControllerKind::new("my own", "", stop);
    static TWICE: ControllerKind =
        ControllerKind::new("twice", "", stop).with_settings(&[PART, PART]);
    static MANY: ControllerKind = ControllerKind::new("many", "", stop)
        .with_settings(&[PART; fabric::extend::SETTINGS_MAX + 1]);
    static FLOWLET: LoadBalancerKind =
        LoadBalancerKind::new("flowlet", "", |_| Box::new(Last { panics: false }));
    static INCAST: WorkloadKind = WorkloadKind::new("incast", "", made);
    let none = Extensions::new;
    for (extensions, expected) in [
        (none().congestion(&OURS), "congestion \"dcqcn\" has the name of one of ours"),
        (none().congestion(&KEY), "congestion \"tcp\" has the name of a key beside its table"),
        (none().congestion(&SPACE), "congestion \"my own\" has no name for a file"),
        (none().congestion(&TWICE), "has a setting that cannot be called \"part_1000ths\""),
        (none().congestion(&MANY), "congestion \"many\" has too many settings"),
        (none().balance(&FLOWLET), "balance \"flowlet\" has the name of one of ours"),
        (none().workload(&INCAST), "workload \"incast\" has the name of one of ours"),
        (all().balance(&LAST), "balance \"last\" is there twice"),
    ] {
        let told = read(&extensions, "").map(drop).unwrap_err();
        assert!(told.starts_with("extensions: ") && told.contains(expected), "{told}");
        assert!(told.contains("\nhint: "), "{told}");
        let told = scenario::reference_extended(&extensions).unwrap_err().to_string();
        assert!(told.contains(expected), "{told}");
    }
    assert!(read(&all(), "").is_ok());
}

#[test]
fn what_can_be_written_of_extensions_is_in_the_reference() {
    let texts = scenario::reference_extended(&all()).unwrap();
    let of = |name: &str| {
        let found = texts.iter().find(|text| text.is_called(name) && !text.keys.is_empty());
        found.unwrap_or_else(|| panic!("{name}")).to_string()
    };
    assert!(of("nic.stopped").contains("part_1000ths  a whole number from 1 to 1000; otherwise 7"));
    assert!(of("bad").contains("who  a list, each a host"), "{}", of("bad"));
    assert!(of("nic").contains("of extensions \"stopped\""), "{}", of("nic"));
    assert_eq!(scenario::reference(), scenario::reference_extended(&Extensions::new()).unwrap());
}

const BUSY: &str = "[[workload]]\nkind = \"permutation\"\nmessage_bytes = 20000\n";

#[test]
fn a_controller_that_sends_nothing_ends_with_the_time_and_not_with_an_error() {
    let config = read(&all(), &format!("[nic]\ncongestion = \"stopped\"\n{BUSY}")).unwrap();
    let mut network = Network::new(config).unwrap();
    assert_eq!(network.run(Time::from_ps(1_000_000_000)), Verdict::TimeOver);
    assert!(network.flows().iter().all(|flow| flow.completed == 0 && flow.failed == 0));
}

#[test]
fn a_balancer_gives_the_same_bytes_however_the_network_is_divided() {
    let run = |partitions| {
        let text = format!("[switch]\nbalance = \"last\"\n{BUSY}messages = 20\n");
        let config = NetworkConfig { partitions, threads: 2, ..read(&all(), &text).unwrap() };
        let mut network = Network::new(config).unwrap();
        assert_eq!(network.run(Time::from_ps(1_000_000_000_000)), Verdict::Finished);
        network.flows().to_vec()
    };
    assert_eq!(run(Some(1)), run(Some(2)));
}

#[test]
fn an_extension_that_panics_ends_the_run_on_all_threads() {
    let text = format!("[switch]\nbalance = \"last\"\nlast = {{ part_1000ths = 1 }}\n{BUSY}");
    for (partitions, threads) in [(1, 1), (2, 2)] {
        let config =
            NetworkConfig { partitions: Some(partitions), threads, ..read(&all(), &text).unwrap() };
        let mut network = Network::new(config).unwrap();
        let end = Time::from_ps(1_000_000_000_000);
        let ended = catch_unwind(AssertUnwindSafe(|| network.run(end)));
        assert!(ended.is_err(), "with {threads} threads");
    }
}
