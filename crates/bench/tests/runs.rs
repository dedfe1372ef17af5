//! Plans that are run on soft NICs: what is measured, what is checked, and what becomes of bad days.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use bench::Failure;
use bench::load::{self, Load};
use bench::plan::{Flow, Plan, Sweep, Value, Verb, WaitMode};
use bench::report::Report;
use bench::session::{self, Ran, Settings, Watcher};
use bench::world::meeting::Service;
use bench::world::soft::{Host, SoftSeat};
use bench::world::{self, Player, Stop};
use rdma::app::{App, Layout, Region, Verbs, Wait, Woke};
use softnic::{DeviceInfo, Options, PathChoice};

fn settings(last: u8, path: PathChoice) -> Settings {
    let near = DeviceInfo::find(&format!("lo/127.0.79.{last}"), 0).unwrap();
    let options = Options { path, ..Options::default() };
    Settings { far: near.clone(), near, options }
}

fn plan(flows: Vec<Flow>) -> Plan {
    Plan {
        warmup_ms: 20.0,
        length_ms: 120.0,
        window_ms: 40.0,
        verify: true,
        flows,
        ..Plan::default()
    }
}

fn run(plan: &Plan, settings: &Settings) -> Ran {
    plan.check().unwrap();
    session::run(plan, settings, &[], &mut ()).unwrap()
}

fn report(ran: &Ran) -> Report {
    let mut report = Report::measured("soft", "a test");
    let points = ran.plan.points(&[]).unwrap();
    report.add(&points[0], ran);
    report
}

/// Nothing is wrong, and something was measured, and checked.
fn assert_right(ran: &Ran, what: &str) {
    assert_eq!(ran.cut_short, None, "{what}");
    let report = report(ran);
    for flow in &report.runs[0].flows {
        let served = flow.served.as_ref().unwrap();
        assert!(flow.errors.is_empty() && served.errors.is_empty(), "{what}: {flow:?}");
        assert!(flow.operations > 0, "{what}: {} did nothing", flow.name);
        assert!(flow.checked > 0, "{what}: nothing of {} was checked", flow.name);
        assert_eq!(flow.mismatches, 0, "{what}: {} of {}", flow.name, flow.checked);
        // That all agree is no threshold missed, below.
        assert!(flow.counted_bytes.is_some(), "{what}: the devices of {} say nothing", flow.name);
        let counted: u64 = flow.histogram_ns.iter().map(|(_, count)| count).sum();
        assert!(counted > 0 && counted <= flow.operations, "{what}");
        assert!(flow.latency_us.p50 > 0.0 && flow.latency_us.p50 <= flow.latency_us.p9999);
    }
    assert_eq!(report.misses().count(), 0);
}

#[test]
fn every_verb_moves_what_it_should_with_every_wait_by_either_path() {
    let mut flows = Vec::new();
    for verb in Verb::ALL {
        for wait in WaitMode::ALL {
            let flow =
                Flow { wait, window: 5, queue_pairs: 2, size_bytes: 1000, ..Flow::new(verb) };
            if plan(vec![flow.clone()]).check().is_ok() {
                flows.push(flow);
            }
        }
    }
    // Each verb has one wait at least, most have two.
    assert_eq!(flows.len(), 18, "{flows:?}");
    for link in [PathChoice::SharedMemory, PathChoice::Udp] {
        for flow in &flows {
            let ran = run(&plan(vec![flow.clone()]), &settings(1, link));
            assert_right(&ran, &format!("{:?} {:?} {link:?}", flow.verb, flow.wait));
        }
    }
}

#[test]
fn lists_inline_data_dependent_reads_and_rare_signals_are_what_they_say() {
    let flows = vec![
        Flow { post_list: 4, window: 8, inline: true, size_bytes: 64, ..named("list", Verb::Send) },
        Flow { signal_every: 4, window: 8, size_bytes: 8, ..named("rare", Verb::WriteImm) },
        Flow { depends: 3, window: 2, size_bytes: 512, ..named("chain", Verb::Read) },
        Flow { inline: true, window: 2, size_bytes: 128, ..named("inline", Verb::SendSend) },
        Flow { transport: Service::Ud, window: 2, size_bytes: 256, ..named("ud", Verb::Send) },
        Flow { transport: Service::Uc, window: 2, size_bytes: 4096, ..named("uc", Verb::Send) },
        Flow { service_us: 50.0, size_bytes: 8, ..named("service", Verb::WriteSend) },
        Flow { rate_per_s: Some(500.0), size_bytes: 8, ..named("paced", Verb::Write) },
    ];
    for flow in flows {
        let name = flow.name.clone();
        let ran = run(&plan(vec![flow]), &settings(2, PathChoice::SharedMemory));
        assert_right(&ran, &name);
        let measured = &report(&ran).runs[0].flows[0];
        match name.as_str() {
            // Three round trips are not one, and a server that works so long is not faster.
            "service" => assert!(measured.latency_us.min >= 50.0, "{:?}", measured.latency_us),
            // Whatever the machine does meanwhile, no more than are due.
            "paced" => assert!(measured.rate_per_s <= 600.0, "{}", measured.rate_per_s),
            _ => {}
        }
    }
}

#[test]
fn threads_that_share_servers_get_their_own_bytes() {
    for verb in [Verb::Read, Verb::WriteImm, Verb::Send, Verb::WriteSend, Verb::WriteWrite] {
        let wait = if verb == Verb::WriteWrite { WaitMode::Memory } else { WaitMode::Poll };
        let shared = Flow { threads: 4, servers: Some(2), queue_pairs: 2, ..Flow::new(verb) };
        let flow = Flow { wait, window: 3, size_bytes: 200, touch: true, ..shared };
        let ran = run(&plan(vec![flow]), &settings(13, PathChoice::SharedMemory));
        assert_right(&ran, &format!("{verb:?}"));
    }
    let plan = plan(vec![Flow { threads: 4, servers: Some(3), ..Flow::new(Verb::Read) }]);
    let said = plan.check().unwrap_err().to_string();
    assert!(said.contains("servers: 3 cannot share 4 threads\nhint: "), "{said}");
}

#[test]
fn a_device_that_has_counted_otherwise_than_the_applications_is_a_miss() {
    let mut ran = run(&plan(vec![Flow::new(Verb::Send)]), &settings(17, PathChoice::SharedMemory));
    assert_right(&ran, "as it was");
    // By far more than a busy machine may have made the devices send again.
    ran.flows[0].begun *= 10;
    ran.flows[0].ended *= 10;
    let said: Vec<String> = report(&ran).misses().map(str::to_owned).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].starts_with("send: the device that asks has counted "), "{said:?}");
    assert!(report(&ran).to_string().contains(" by the devices, not as the applications did\n"));
}

#[test]
fn hogs_have_their_cores_beside_the_flows() {
    let with = Plan { hogs: 1, ..plan(vec![Flow { core: Some(0), ..Flow::new(Verb::Read) }]) };
    let ran = run(&with, &settings(19, PathChoice::SharedMemory));
    assert_right(&ran, "hogs");
    assert!(ran.hog_cores > 0.05, "{}", ran.hog_cores);
    assert!(report(&ran).to_string().contains("\nhogs      1, which had "));
    let none = Plan { hogs: 256, ..with };
    let failure =
        session::run(&none, &settings(19, PathChoice::SharedMemory), &[], &mut ()).unwrap_err();
    assert!(failure.to_string().starts_with("hogs: core "), "{failure}");
}

#[test]
fn hogs_that_starve_a_flow_are_a_missed_threshold_and_no_hang() {
    let cores = std::thread::available_parallelism().unwrap().get() as u32;
    // Both ends poll, so that both must have their cores.
    let flow = || Flow { core: Some(0), ..named("starved", Verb::SendSend) };
    let run_beside = |hogs| {
        let began = Instant::now();
        let plan = Plan { hogs, window_ms: 1.0, ..plan(vec![flow()]) };
        let ran = run(&plan, &settings(20, PathChoice::SharedMemory));
        assert!(began.elapsed() < Duration::from_secs(60));
        assert_eq!(ran.cut_short, None);
        ran
    };
    let rate = |ran: &Ran| report(ran).runs[0].flows[0].rate_per_s;
    // In turns, so that both see the same of whatever else the machine does.
    let rounds = (0..5).map(|_| (run_beside(0), run_beside(cores)));
    let (mut without, mut with): (Vec<Ran>, Vec<Ran>) = rounds.unzip();
    for runs in [&mut without, &mut with] {
        runs.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
    }
    let mut starved = with.swap_remove(2);
    let control = without.swap_remove(2);
    starved.plan.flows[0].at_least.rate_per_s_min = Some(rate(&control) / 2.0);
    let told = report(&starved);
    let misses: Vec<&str> = told.misses().collect();
    let rates = [rate(&control), rate(&starved)];
    assert!(misses.iter().any(|miss| miss.starts_with("starved: rate_per_s")), "{rates:?}");
    // Windows in which nothing ended count.
    assert_eq!(told.runs[0].flows[0].window_gbps_min, 0.0);
}

fn named(name: &str, verb: Verb) -> Flow {
    Flow { name: name.to_owned(), ..Flow::new(verb) }
}

#[test]
fn flows_run_at_once_and_begin_and_end_when_they_should() {
    let flows = vec![
        Flow { threads: 2, ..named("both", Verb::Read) },
        Flow { start_ms: 100.0, ..named("late", Verb::Write) },
        Flow { length_ms: Some(60.0), ..named("short", Verb::SendSend) },
    ];
    let ran = run(&plan(flows), &settings(3, PathChoice::SharedMemory));
    assert_right(&ran, "three");
    let report = report(&ran);
    let [both, late, short] = &report.runs[0].flows[..] else { panic!() };
    assert_eq!((both.seconds, late.seconds, short.seconds), (0.12, 0.04, 0.04));
    assert_eq!((late.windows[0].operations, short.windows[2].operations), (0, 0));
    assert!(late.windows[2].operations > 0 && short.windows[0].operations > 0);
}

/// An application that spoils its own memory, if it serves.
struct Spoiler {
    app: Load,
    /// Before each step, when the answers of the last have arrived; otherwise after.
    before: bool,
}

impl App for Spoiler {
    fn layout(&self) -> Layout<'_> {
        self.app.layout()
    }

    fn step(&mut self, verbs: &mut dyn Verbs, woke: Woke) -> Wait {
        let spoil = |verbs: &mut dyn Verbs| verbs.store(Region(0), 16, &[0xee]);
        if self.app.serves && self.before {
            spoil(verbs);
        }
        let wait = self.app.step(verbs, woke);
        if self.app.serves && !self.before {
            spoil(verbs);
        }
        wait
    }
}

#[test]
fn a_payload_that_is_wrong_is_seen() {
    for verb in [Verb::Read, Verb::SendSend] {
        // The second answer comes from memory that was spoilt after the first.
        let flow = Flow { rate_per_s: Some(200.0), size_bytes: 64, ..named("spoilt", verb) };
        let spoilt = plan(vec![flow]);
        let settings = settings(4, PathChoice::SharedMemory);
        let stop = Stop::default();
        let apps = load::applications(&spoilt, &[]).into_iter().flatten();
        let players = apps
            .map(|app| {
                let host = Host::open(&settings.near, &settings.options).unwrap();
                let seat = SoftSeat::new(&host, &app.layout(), &stop, 1).unwrap();
                let app = Spoiler { app, before: verb == Verb::SendSend };
                Player { app, seat, core: None }
            })
            .collect();
        let (outcomes, _) = world::run(players, &stop, &mut ()).unwrap();
        let found: Vec<_> = outcomes.into_iter().map(|outcome| outcome.app.app.found()).collect();
        let wrong: u64 = found.iter().map(|found| found.mismatches).sum();
        // An answer is written anew each time; what is only read stays spoilt.
        assert_eq!(wrong > 0, verb == Verb::Read, "{found:?}");
    }
}

#[test]
fn a_threshold_that_is_missed_is_told() {
    let mut strict = plan(vec![named("read", Verb::Read)]);
    strict.flows[0].at_least.latency_p50_us_max = Some(0.000_001);
    strict.flows[0].at_least.window_gbps_min = Some(1e6);
    strict.fairness_min = Some(1.0);
    let report = report(&run(&strict, &settings(4, PathChoice::SharedMemory)));
    let mut misses: Vec<&str> = report.misses().collect();
    misses.sort_unstable();
    assert_eq!(misses.len(), 2);
    assert!(misses[0].starts_with("read: latency_p50_us "), "{misses:?}");
    assert!(misses[1].starts_with("read: window_gbps_min "), "{misses:?}");
    assert!(report.to_string().contains("\nMISSED    read: latency_p50_us"));
}

/// Stops after a time.
struct After(Instant);

impl Watcher for After {
    fn glance(&mut self) -> Option<Failure> {
        (Instant::now() >= self.0).then(|| Failure::new("interrupted"))
    }
}

#[test]
fn what_was_measured_before_an_interruption_is_told_as_partial() {
    let plan = Plan { length_ms: 60_000.0, ..plan(vec![named("read", Verb::Read)]) };
    let began = Instant::now();
    let mut watcher = After(began + Duration::from_millis(400));
    let ran =
        session::run(&plan, &settings(5, PathChoice::SharedMemory), &[], &mut watcher).unwrap();
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(ran.cut_short, Some(Failure::new("interrupted")));
    let report = report(&ran);
    let flow = &report.runs[0].flows[0];
    assert!(flow.operations > 0 && flow.seconds < 20.0, "{flow:?}");
    assert!(report.to_string().contains("PARTIAL   interrupted"));
}

/// A server in a thread, until it is dropped.
fn serving<R>(last: u8, work: impl FnOnce(&str, &AtomicBool) -> R) -> (R, Vec<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let stop = AtomicBool::new(false);
    struct Flag<'a>(&'a AtomicBool);
    impl Watcher for Flag<'_> {
        fn glance(&mut self) -> Option<Failure> {
            self.0.load(Ordering::Relaxed).then(|| Failure::new("the server was stopped"))
        }
    }
    std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            let mut said = Vec::new();
            let settings = settings(last, PathChoice::SharedMemory);
            let tell = &mut |text: &str| said.push(text.to_owned());
            session::serve(&listener, &settings, None, &mut Flag(&stop), tell).unwrap();
            said
        });
        /// Stops the server, even if the test fails.
        struct End<'a>(&'a AtomicBool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let end = End(&stop);
        let result = work(&address, &stop);
        drop(end);
        (result, server.join().unwrap())
    })
}

#[test]
fn a_client_and_a_server_measure_together_by_address() {
    let flows = vec![
        Flow { queue_pairs: 3, ..named("read", Verb::Read) },
        Flow { wait: WaitMode::Event, ..named("send", Verb::SendSend) },
    ];
    let plan = plan(flows);
    let ((), said) = serving(6, |address, _| {
        for _ in 0..2 {
            let settings = settings(7, PathChoice::SharedMemory);
            let ran = session::connect(&plan, address, &settings, &[], &mut ()).unwrap();
            assert_right(&ran, "by address");
            assert!(ran.flows[1].served.as_ref().unwrap().received > 0);
        }
    });
    assert_eq!(said.iter().filter(|line| line.ends_with(": done")).count(), 2, "{said:?}");
}

#[test]
fn a_server_that_dies_ends_the_client_with_what_it_has() {
    let plan = Plan { length_ms: 60_000.0, ..plan(vec![named("read", Verb::Read)]) };
    let (ran, _) = serving(8, |address, stop| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(500));
                stop.store(true, Ordering::Relaxed);
            });
            let settings = settings(9, PathChoice::SharedMemory);
            session::connect(&plan, address, &settings, &[], &mut ()).unwrap()
        })
    });
    let why = ran.cut_short.as_ref().unwrap().to_string();
    assert!(why.contains("the server has stopped") || why.contains("the server is gone"), "{why}");
    assert!(report(&ran).runs[0].flows[0].operations > 0);
}

#[test]
fn a_client_that_dies_leaves_the_server_for_the_next() {
    let long = Plan { length_ms: 60_000.0, ..plan(vec![named("send", Verb::Send)]) };
    let ((), said) = serving(10, |address, _| {
        let settings = settings(11, PathChoice::SharedMemory);
        let mut watcher = After(Instant::now() + Duration::from_millis(400));
        let ran = session::connect(&long, address, &settings, &[], &mut watcher).unwrap();
        assert!(ran.cut_short.is_some());
        let short = plan(vec![named("send", Verb::Send)]);
        assert_right(
            &session::connect(&short, address, &settings, &[], &mut ()).unwrap(),
            "after the other",
        );
    });
    assert!(
        said.iter().any(|line| line.contains("the client has stopped: interrupted")),
        "{said:?}"
    );
}

#[test]
fn who_comes_while_another_is_served_is_told_so_and_may_come_later() {
    let long = Plan { length_ms: 60_000.0, ..plan(vec![named("read", Verb::Read)]) };
    let short = plan(vec![named("read", Verb::Read)]);
    let ((), said) = serving(30, |address, _| {
        let stop = AtomicBool::new(false);
        struct Flag<'a>(&'a AtomicBool);
        impl Watcher for Flag<'_> {
            fn glance(&mut self) -> Option<Failure> {
                self.0.load(Ordering::Relaxed).then(|| Failure::new("interrupted"))
            }
        }
        let settings = settings(31, PathChoice::SharedMemory);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                session::connect(&long, address, &settings, &[], &mut Flag(&stop)).unwrap()
            });
            std::thread::sleep(Duration::from_millis(500));
            let began = Instant::now();
            let second = session::connect(&short, address, &settings, &[], &mut ());
            stop.store(true, Ordering::Relaxed);
            let why = second.unwrap_err().to_string();
            assert!(why.starts_with("the server: busy with a run of 127.0.0.1:"), "{why}");
            assert!(why.ends_with("\nhint: try again later"), "{why}");
            assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
            assert!(first.join().unwrap().cut_short.is_some());
        });
        let ran = session::connect(&short, address, &settings, &[], &mut ()).unwrap();
        assert_right(&ran, "later");
    });
    assert!(said.iter().any(|line| line.contains(": refused, as 127.0.0.1:")), "{said:?}");
    assert_eq!(said.iter().filter(|line| line.ends_with(": done")).count(), 1, "{said:?}");
}

#[test]
fn nonsense_and_plans_beyond_the_bounds_are_refused_by_a_server() {
    use std::io::Write as _;
    let ((), said) = serving(12, |address, _| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let mut plan = plan(vec![named("read", Verb::Read)]);
        plan.flows[0].service_us = 1e9;
        let settings = settings(13, PathChoice::SharedMemory);
        let said =
            session::connect(&plan, address, &settings, &[], &mut ()).unwrap_err().to_string();
        assert!(said.contains("service_us: expected a number from 0 to 1000000"), "{said}");
    });
    assert!(said.iter().any(|line| line.contains("what nobody understands")), "{said:?}");
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let one = plan(vec![named("read", Verb::Read)]);
    let said =
        session::connect(&one, &nobody, &settings(13, PathChoice::Udp), &[], &mut ()).unwrap_err();
    assert!(said.to_string().contains("hint: start `ferroce bench serve` there first"), "{said}");
}

#[test]
fn ten_thousand_queue_pairs_work_and_more_than_a_nic_has_are_refused() {
    let many = Flow { queue_pairs: 10_000, size_bytes: 64, ..named("many", Verb::Write) };
    let wide = Plan { length_ms: 2_000.0, window_ms: 500.0, verify: false, ..plan(vec![many]) };
    let ran = run(&wide, &settings(14, PathChoice::SharedMemory));
    assert_eq!(ran.cut_short, None);
    let operations = report(&ran).runs[0].flows[0].operations;
    assert!(operations >= 10_000, "{operations}");
    let mut more = wide.flows[0].clone();
    let said = more.set("queue_pairs", &Value::Number(16_385.0)).unwrap_err().to_string();
    let expected = "queue_pairs: expected a whole number from 1 to 16384, and found 16385\nhint: ";
    assert!(said.starts_with(expected), "{said}");
    // A NIC has so many numbers, and memory is finite, too.
    let mut large = wide;
    large.flows[0].set("size_bytes", &Value::Number(f64::from(1 << 30))).unwrap();
    let said =
        session::run(&large, &settings(14, PathChoice::Udp), &[], &mut ()).unwrap_err().to_string();
    assert!(said.starts_with("flow \"many\": a region of "), "{said}");
    assert!(said.contains("\nhint: "), "{said}");
}

#[test]
fn a_sweep_is_a_run_for_each_value() {
    let base = plan(vec![named("read", Verb::Read)]);
    let points = base.points(&[Sweep::parse("size=64,128").unwrap()]).unwrap();
    let mut report = Report::measured("soft", "a test");
    for point in &points {
        let ran = session::run(&point.plan, &settings(15, PathChoice::SharedMemory), &[], &mut ())
            .unwrap();
        report.add(point, &ran);
    }
    let labels: Vec<String> = report.runs.iter().map(|run| run.label()).collect();
    assert_eq!(labels, ["size_bytes=64", "size_bytes=128"]);
    assert_eq!(Report::read(&report.to_json()).unwrap().runs.len(), 2);
}
