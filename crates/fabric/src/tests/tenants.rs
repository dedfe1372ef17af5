//! Applications on modelled hosts, held against what can be computed by hand.

use core::any::Any;

use rdma::app::{
    App, Channel, Cq, CqSpec, Layout, On, Qp, QpSpec, Region, RegionSpec, Verbs, Wait, Woke,
    poll_or_arm,
};
use rdma::{
    Access, Completion, CompletionStatus, Mtu, Operation, QpType, Rate, SendFlags, Span, Time,
    WorkRequest,
};

use crate::model::{HostConfig, IdleState, Slices};
use crate::switch::config::GroupConfig;
use crate::topology::{Cables, back_to_back, single_switch};
use crate::{BuildError, Network, NetworkConfig, Placed, TenantEnd, Verdict};

const CQ: Cq = Cq(0);
const ALL: Access = Access::LOCAL_WRITE.with(Access::REMOTE_WRITE).with(Access::REMOTE_READ);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    Poll,
    Event,
    /// It waits for an event, and has forgotten to ask for it.
    Unarmed,
}

/// A closed loop of READs or WRITEs, or the memory that it goes to.
#[derive(Clone, Debug)]
struct Loop {
    is_read: bool,
    serves: bool,
    bytes: u32,
    window: u64,
    how: How,
    /// Operations; if there are none, it ends at a time.
    count: u64,
    end: Time,
    posted: u64,
    ended: u64,
    times: Vec<u64>,
    latencies: Vec<u64>,
    regions: [RegionSpec; 1],
    cqs: [CqSpec; 1],
    qps: Vec<QpSpec>,
}

impl Loop {
    fn new(channel: u32, bytes: u32, how: How) -> Self {
        Self {
            is_read: true,
            serves: false,
            bytes,
            window: 1,
            how,
            count: u64::MAX,
            end: Time::from_ps(u64::MAX),
            posted: 0,
            ended: 0,
            times: Vec::new(),
            latencies: Vec::new(),
            regions: [RegionSpec { length: bytes.max(8).into(), access: ALL }],
            cqs: [CqSpec { depth: 1_024 }],
            qps: vec![QpSpec::new(QpType::Rc, Channel(channel), CQ)],
        }
    }

    fn server(&self) -> Self {
        Self { serves: true, ..self.clone() }
    }

    fn post(&mut self, verbs: &mut dyn Verbs) {
        let there = verbs.remote(Qp(0), 0, Region(0)).unwrap();
        let (remote_address, r_key) = (there.address, there.r_key);
        let operation = match self.is_read {
            true => Operation::Read { remote_address, r_key },
            false => Operation::Write { remote_address, r_key, immediate: None },
        };
        self.times.push(verbs.now().as_ps());
        let sges = [verbs.region(Region(0)).sge(0, self.bytes)];
        let (id, flags, inline) = (self.posted, SendFlags::SIGNALED, None);
        let request = WorkRequest { id, operation, flags, sges: &sges, inline };
        verbs.post_send(Qp(0), &[request]).unwrap();
        self.posted += 1;
    }

    fn rate(&self, from: u64, to: Time) -> f64 {
        (self.ended - from) as f64 / to.as_ps() as f64 * 1e12
    }
}

impl App for Loop {
    fn layout(&self) -> Layout<'_> {
        let (regions, cqs, qps) = (&self.regions, &self.cqs, &self.qps);
        Layout { regions, cqs, qps, serves: self.serves }
    }

    fn step(&mut self, verbs: &mut dyn Verbs, _: Woke) -> Wait {
        if self.serves {
            return Wait { on: On::Time, until: None };
        }
        let mut some = [Completion::NOTHING; 16];
        loop {
            let count = match self.how {
                How::Poll | How::Unarmed => verbs.poll(CQ, &mut some),
                How::Event => poll_or_arm(verbs, CQ, &mut some),
            };
            let now = verbs.now();
            for completion in &some[..count] {
                assert_eq!(completion.status, CompletionStatus::Success);
                self.latencies.push(now.as_ps() - self.times[completion.id as usize]);
                self.ended += 1;
            }
            let may = now < self.end;
            while may && self.posted < self.count && self.posted - self.ended < self.window {
                self.post(verbs);
            }
            if count == 0 || self.how == How::Poll {
                break;
            }
        }
        let is_over = self.ended == self.count || verbs.now() >= self.end;
        match self.how {
            _ if is_over && self.posted == self.ended => Wait::done(),
            How::Poll => Wait::poll(CQ),
            How::Event | How::Unarmed => Wait::event(CQ),
        }
    }
}

/// 40 Gb/s, 2 m, and hosts whose every cost is another.
fn costly(hosts: u32) -> NetworkConfig {
    let cables = Cables::new(Rate::from_gbps(40), 2);
    let topology = if hosts == 2 { back_to_back(cables) } else { single_switch(hosts, cables) };
    let mut config = NetworkConfig::new(topology);
    config.switch.groups[0] = GroupConfig::LOSSLESS;
    config.nic.lossless_priorities = 1;
    config.nic.mtu = Mtu::B2048;
    let mut host = HostConfig::default();
    host.cpu.post = Span::from_ns(150);
    host.cpu.poll = Span::from_ns(60);
    host.nic.bus = Rate::from_gbps(80);
    host.nic.dma_read = Span::from_ns(550);
    host.nic.dma_write = Span::from_ns(300);
    host.nic.doorbell = Span::from_ns(250);
    host.nic.cqe = Span::from_ns(100);
    host.nic.request_out = Span::from_ns(220);
    host.nic.request_in = Span::from_ns(30);
    config.host = Some(host);
    config
}

fn place(host: u32, core: u32, app: &Loop) -> Placed {
    Placed { host, core, app: Box::new(app.clone()) }
}

fn live(config: NetworkConfig, placed: Vec<Placed>) -> (Vec<TenantEnd>, Vec<Loop>) {
    let mut network = Network::with_tenants(config, placed).unwrap();
    assert_eq!(network.run(Time::ZERO + Span::from_ms(1_000)), Verdict::Finished);
    let ends = network.into_tenants();
    let loops = ends.iter().map(|end| {
        let app: &dyn Any = &*end.app;
        app.downcast_ref::<Loop>().unwrap().clone()
    });
    let loops = loops.collect();
    (ends, loops)
}

/// A frame of RoCE on the wire at 40 Gb/s, preamble included, in picoseconds.
fn frame(headers: u64, payload: u64) -> u64 {
    (8 + 14 + 20 + 8 + 4 + 4 + headers + payload) * 200
}

#[test]
fn a_read_takes_the_sum_of_its_stages() {
    let client = Loop { count: 50, ..Loop::new(0, 64, How::Poll) };
    let (_, loops) = live(costly(2), vec![place(0, 0, &client), place(1, 0, &client.server())]);
    let out = 150_000 + 250_000 + 220_000 + frame(12 + 16, 0) + 10_000;
    let there = 30_000 + 64 * 100 + 550_000 + frame(12 + 4, 64) + 10_000;
    let back = 64 * 100 + 300_000 + 100_000 + 60_000;
    assert_eq!(loops[0].latencies, vec![out + there + back; 50]);
}

#[test]
fn a_write_from_memory_reads_its_request_and_its_payload() {
    let client = Loop { is_read: false, count: 50, ..Loop::new(0, 64, How::Poll) };
    let (_, loops) = live(costly(2), vec![place(0, 0, &client), place(1, 0, &client.server())]);
    let work = 150_000 + 250_000 + 64 * 100 + 550_000 + 220_000;
    let out = 64 * 100 + 550_000 + frame(12 + 16, 64) + 10_000;
    let back = frame(12 + 4, 0) + 10_000 + 300_000 + 100_000 + 60_000;
    assert_eq!(loops[0].latencies, vec![work + out + back; 50]);
}

/// zhang17, table 3, as in `model/idle.rs`, with everything in its place.
#[test]
fn who_sleeps_between_messages_has_the_share_of_the_gap() {
    const BYTES: u32 = 1_000_000;
    let mut config = costly(2);
    let host = config.host.as_mut().unwrap();
    host.cpu.interrupt = Span::from_us(3);
    host.cpu.switch = Span::from_us(4);
    host.cpu.idle = vec![IdleState { exit: Span::from_us(60), stay: Span::from_us(150) }];
    host.cpu.package_factor = 0.5;
    let end = Time::from_ns(100_000_000);
    let busy = Loop { is_read: false, window: 4, end, ..Loop::new(0, BYTES, How::Poll) };
    let sleeper = Loop { is_read: false, end, ..Loop::new(1, BYTES, How::Event) };
    let (ends, loops) = live(
        config,
        vec![
            place(0, 0, &busy),
            place(0, 1, &sleeper),
            place(1, 0, &busy.server()),
            place(1, 1, &sleeper.server()),
        ],
    );
    // Half of the exit, as the other core is awake; then, among others, the doorbell, both reads, and
    // the way there and back.
    let gap = 30e6 + 3e6 + 4e6 + 4.5e6;
    // Frames on the wire, with gaps and the RETH of the first.
    let rate = 2_048.0 / (2_048.0 + 8.0 + 62.0 + 12.0) / 200.0;
    let expected = 1.0 + gap * rate / f64::from(BYTES);
    let ratio = loops[0].ended as f64 / loops[1].ended as f64;
    assert!((ratio / expected - 1.0).abs() < 0.03, "{ratio} {expected}");
    // The one polls all the time, the other works for a few microseconds of each message.
    assert!(ends[0].cpu.as_ps() > 99 * ends[0].wall.as_ps() / 100, "{:?}", ends[0]);
    assert!(ends[1].cpu.as_ps() < ends[1].wall.as_ps() / 30, "{:?}", ends[1]);
}

/// Little's law: what is outstanding over the latency is the rate, and at saturation that is what the
/// slowest stage does.
#[test]
fn at_saturation_the_slowest_stage_has_the_rate() {
    const CLIENTS: u32 = 4;
    let end = Time::from_ns(4_000_000);
    let mut config = costly(CLIENTS + 1);
    config.host.as_mut().unwrap().nic.request_in = Span::from_ns(200);
    let mut placed = Vec::new();
    for client in 0..CLIENTS {
        let app = Loop { window: 16, end, ..Loop::new(client, 64, How::Poll) };
        placed.extend([place(client + 1, 0, &app), place(0, client, &app.server())]);
    }
    let (_, loops) = live(config, placed);
    let asking: Vec<&Loop> = loops.iter().filter(|app| !app.serves).collect();
    let rate: f64 = asking.iter().map(|app| app.rate(0, end)).sum();
    assert!((rate / 5e6 - 1.0).abs() < 0.02, "{rate}: one every 200 ns");
    let all: Vec<u64> = asking.iter().flat_map(|app| app.latencies[64..].to_vec()).collect();
    let mean = all.iter().sum::<u64>() as f64 / all.len() as f64 / 1e12;
    let outstanding = rate * mean;
    assert!((outstanding / 64.0 - 1.0).abs() < 0.05, "{outstanding}");
}

/// Processor time over wall time, and operations, in 240 ms on a core that hogs share.
fn on_a_core(how: How, hogs: Vec<u32>, switch: Span) -> (f64, f64) {
    let mut config = costly(2);
    let host = config.host.as_mut().unwrap();
    host.cpu.hogs = hogs;
    host.cpu.interrupt = Span::from_us(2);
    host.cpu.switch = switch;
    let end = Time::from_ns(240_000_000);
    let client = Loop { end, ..Loop::new(0, 64, how) };
    let server = client.server();
    let (ends, loops) = live(config, vec![place(0, 0, &client), place(1, 1, &server)]);
    (ends[0].cpu.as_ps() as f64 / ends[0].wall.as_ps() as f64, loops[0].ended as f64)
}

#[test]
fn beside_a_hog_a_poller_has_half_of_its_core() {
    let run = |hogs| on_a_core(How::Poll, hogs, Span::from_us(2));
    let (alone, beside) = (run(vec![]), run(vec![0]));
    assert!(alone.0 > 0.99 && (beside.0 - 0.5).abs() < 0.03, "{alone:?} {beside:?}");
    assert!((beside.1 / alone.1 - 0.5).abs() < 0.03, "{alone:?} {beside:?}");
}

/// It takes the core whenever it wakes. Where a switch takes time, the one to the hog begins when it falls
/// asleep, and it waits for the end of that.
#[test]
fn beside_a_hog_a_sleeper_loses_the_switches_to_the_hog() {
    let ratio = |switch| {
        let run = |hogs| on_a_core(How::Event, hogs, switch);
        let (alone, beside) = (run(vec![]), run(vec![0]));
        (beside.1 / alone.1, 0.240 / alone.1 * 1e6)
    };
    let (free, round_us) = ratio(Span::ZERO);
    assert!((free - 1.0).abs() < 0.002, "{free}");
    // From falling asleep until the interrupt: the round without interrupt, and without its own step.
    let asleep_us = round_us - 2.0 - (0.15 + 0.06);
    let switch_us = 2.0;
    let lost_us = switch_us - asleep_us;
    assert!(lost_us > 0.2, "the answer comes before the switch ends: {asleep_us}");
    let (costly, costly_round_us) = ratio(Span::from_us(2));
    let expected = costly_round_us / (costly_round_us + lost_us);
    assert!((costly - expected).abs() < 0.01, "{costly} {expected}");
}

/// Polls for nothing until an end, and notes when it could; or serves, and does the same.
#[derive(Debug)]
struct Spinner {
    serves: bool,
    steps: Vec<u64>,
    regions: [RegionSpec; 1],
    cqs: [CqSpec; 1],
    qps: [QpSpec; 1],
}

impl Spinner {
    const EVERY: Span = Span::from_us(50);
    const END: Time = Time::from_ns(200_000_000);

    fn new(serves: bool) -> Self {
        Self {
            serves,
            steps: Vec::new(),
            regions: [RegionSpec { length: 8, access: ALL }],
            cqs: [CqSpec { depth: 16 }],
            qps: [QpSpec::new(QpType::Rc, Channel(0), CQ)],
        }
    }

    /// When others have had the core for long, in milliseconds of a turn of 24.
    fn phases(&self) -> Vec<f64> {
        let gaps = self.steps.windows(2).filter(|pair| pair[1] - pair[0] > 1_000_000_000);
        gaps.map(|pair| pair[0] as f64 / 1e9 % 24.0).collect()
    }
}

impl App for Spinner {
    fn layout(&self) -> Layout<'_> {
        let (regions, cqs, qps) = (&self.regions, &self.cqs, &self.qps);
        Layout { regions, cqs, qps, serves: self.serves }
    }

    fn step(&mut self, verbs: &mut dyn Verbs, _: Woke) -> Wait {
        let now = verbs.now();
        self.steps.push(now.as_ps());
        if now < Self::END { Wait::poll(CQ).or_at(now + Self::EVERY) } else { Wait::done() }
    }
}

/// By how much of a turn of 24 ms the slices of two hosts are apart, at the last of their turns.
fn apart(seed: u64, slices: Slices) -> f64 {
    let mut config = costly(2);
    config.seed = seed;
    let host = config.host.as_mut().unwrap();
    (host.cpu.hogs, host.cpu.slices) = (vec![0], slices);
    let placed = [false, true].map(|serves| Placed {
        host: u32::from(serves),
        core: 0,
        app: Box::new(Spinner::new(serves)),
    });
    let mut network = Network::with_tenants(config, placed.into()).unwrap();
    assert_eq!(network.run(Time::ZERO + Span::from_ms(1_000)), Verdict::Finished);
    let last = network.into_tenants().into_iter().map(|end| {
        let app: &dyn Any = &*end.app;
        let phases = app.downcast_ref::<Spinner>().unwrap().phases();
        assert!(phases.len() >= 5, "{phases:?}");
        phases[phases.len() - 1]
    });
    let both: Vec<f64> = last.collect();
    let apart = (both[0] - both[1]).abs();
    apart.min(24.0 - apart)
}

#[test]
fn slices_in_step_are_those_of_all_hosts_and_drawn_ones_are_of_each() {
    let of = |slices| (1..=8).map(|seed| apart(seed, slices)).collect::<Vec<_>>();
    let (together, drawn) = (of(Slices::InStep), of(Slices::Drawn));
    assert!(together.iter().all(|apart| *apart < 0.2), "{together:?}");
    let far = drawn.iter().filter(|apart| **apart > 1.0).count();
    assert!(far >= 4, "{drawn:?}");
}

#[test]
fn results_do_not_depend_on_partitions_or_threads() {
    let run = |partitions, threads| {
        let mut config = costly(5);
        config.partitions = Some(partitions);
        config.threads = threads;
        config.host.as_mut().unwrap().cpu.poll_empty = Span::from_ns(30);
        let mut placed = Vec::new();
        for (client, how) in [How::Poll, How::Event, How::Poll, How::Event].into_iter().enumerate()
        {
            let client = client as u32;
            let is_read = client < 2;
            let app = Loop { is_read, window: 3, count: 400, ..Loop::new(client, 5_000, how) };
            placed.extend([place(client + 1, 0, &app), place(0, client, &app.server())]);
        }
        live(config, placed).1.into_iter().map(|app| app.latencies).collect::<Vec<_>>()
    };
    let alone = run(1, 1);
    assert!(alone.iter().flatten().count() == 1_600);
    assert!(alone == run(5, 1) && alone == run(5, 2));
}

#[test]
fn a_pause_holds_what_is_fetched_and_nothing_is_lost() {
    use crate::fault::{Fault, FaultKind};
    let mut config = costly(3);
    let at = |us| Time::ZERO + Span::from_us(us);
    config.switch.groups[0].threshold = crate::switch::config::Threshold::Static { bytes: 20_000 };
    config.faults.push(Fault { at: at(50), kind: FaultKind::NicStuck { host: 1 } });
    config.faults.push(Fault { at: at(550), kind: FaultKind::NicRepaired { host: 1 } });
    let client = Loop { is_read: false, count: 20, ..Loop::new(0, 100_000, How::Poll) };
    let (_, loops) = live(config, vec![place(0, 0, &client), place(1, 0, &client.server())]);
    let slow = loops[0].latencies.iter().filter(|latency| **latency > 400_000_000).count();
    assert_eq!((loops[0].ended, slow), (20, 1));
}

#[test]
fn an_application_that_would_wait_for_ever_is_told_so() {
    let client = Loop { count: 5, ..Loop::new(0, 64, How::Unarmed) };
    let (ends, _) = live(costly(2), vec![place(0, 0, &client), place(1, 0, &client.server())]);
    let failure = ends[0].failure.as_deref();
    assert_eq!(
        failure,
        Some("it waits for an event of completion queue 0, which it has not armed")
    );
    assert!(!ends[0].is_done && ends[1].failure.is_none());
}

#[test]
fn what_cannot_be_set_up_is_refused() {
    let said = |config, placed| match Network::with_tenants(config, placed) {
        Err(error @ BuildError::Tenant { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let client = Loop::new(0, 64, How::Poll);
    let server = client.server();
    let bare = NetworkConfig { host: None, ..costly(2) };
    assert_eq!(
        said(bare, vec![place(0, 0, &client)]),
        "application 0: its host has no model: give it a [host]"
    );
    assert_eq!(
        said(costly(2), vec![place(0, 0, &client), place(1, 8, &server)]),
        "application 1: its host has 8 cores, from 0 on"
    );
    assert_eq!(
        said(costly(2), vec![place(0, 0, &client)]),
        "application 0: Channel(0) joins two queue pairs, and 1 name it"
    );
    assert_eq!(
        said(costly(2), vec![place(0, 0, &client), place(0, 1, &server)]),
        "application 0: Channel(0) has two ends at one host"
    );
}
