//! What the soft world does with waits, and with those who do not end.

use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use bench::Failure;
use bench::world::soft::{Host, SoftSeat};
use bench::world::{self, Bystander, Ended, Outcome, Player, Stop};
use rdma::app::{
    App, Channel, Cq, CqSpec, Layout, On, Qp, QpSpec, Region, RegionSpec, Verbs, Wait, Woke, Words,
    poll_or_arm,
};
use rdma::{Access, Completion, Operation, QpType, RecvRequest, SendFlags, Span, WorkRequest};
use softnic::{DeviceInfo, Options};

const REGIONS: [RegionSpec; 1] =
    [RegionSpec { length: 4096, access: Access::LOCAL_WRITE.with(Access::REMOTE_WRITE) }];
const CQS: [CqSpec; 1] = [CqSpec { depth: 64 }];
const PAIR: [QpSpec; 1] = [QpSpec::new(QpType::Rc, Channel(0), Cq(0))];
const MOMENT: Span = Span::from_ms(30);
const WORD: Words = Words { region: Region(0), offset: 0, stride: 8, count: 4, idle: 0 };

/// Two of these are connected. Each step is the closure's.
struct Steps<F>(F, bool);

impl<F: FnMut(&mut dyn Verbs, Woke) -> Wait> App for Steps<F> {
    fn layout(&self) -> Layout<'_> {
        Layout { regions: &REGIONS, cqs: &CQS, qps: &PAIR, serves: self.1 }
    }

    fn step(&mut self, verbs: &mut dyn Verbs, woke: Woke) -> Wait {
        (self.0)(verbs, woke)
    }
}

type Boxed<'a> = Box<dyn FnMut(&mut dyn Verbs, Woke) -> Wait + Send + 'a>;

fn run_with<'a>(
    address: &str,
    apps: [(Boxed<'a>, bool); 2],
    stop: &Stop,
    bystander: &mut impl Bystander,
) -> (Vec<Outcome<Steps<Boxed<'a>>>>, Option<Failure>) {
    let device = DeviceInfo::find(&format!("lo/{address}"), 0).unwrap();
    let open = || Host::open(&device, &Options::default()).unwrap();
    let hosts = [open(), open()];
    let player = |((step, serves), host): ((Boxed<'a>, bool), &Arc<Host>)| {
        let app = Steps(step, serves);
        let seat = SoftSeat::new(host, &app.layout(), stop, 1).unwrap();
        Player { app, seat, core: None }
    };
    let players = apps.into_iter().zip(&hosts).map(player).collect();
    world::run(players, stop, bystander).unwrap()
}

fn run(address: &str, apps: [(Boxed<'_>, bool); 2]) -> Vec<Ended> {
    let (outcomes, why) = run_with(address, apps, &Stop::default(), &mut ());
    assert_eq!(why, None);
    outcomes.into_iter().map(|outcome| outcome.ended).collect()
}

fn done() -> (Boxed<'static>, bool) {
    (Box::new(|_, _| Wait::done()), false)
}

#[test]
fn every_wait_ends_at_its_deadline() {
    let waits =
        [Wait::poll(Cq(0)), Wait::event(Cq(0)), Wait::words(WORD), Wait::at(Default::default())];
    for wait in waits {
        let mut began = None;
        let app = |verbs: &mut dyn Verbs, woke: Woke| match began {
            None => {
                assert_eq!(woke, Woke::Start);
                verbs.arm(Cq(0), false);
                began = Some(verbs.now());
                wait.or_at(verbs.now() + MOMENT)
            }
            Some(began) => {
                assert_eq!(woke, Woke::Deadline, "{wait:?}");
                assert!(verbs.now().since(began) >= MOMENT);
                Wait::done()
            }
        };
        assert_eq!(run("127.0.78.1", [(Box::new(app), false), done()]), [Ended::Done, Ended::Done]);
    }
}

#[test]
fn an_event_that_was_not_asked_for_is_an_error_and_no_hang() {
    let app: Boxed<'_> = Box::new(|_, _| Wait::event(Cq(0)));
    let serves: Boxed<'_> = Box::new(|_, _| Wait { on: On::Time, until: None });
    let ended = run("127.0.78.2", [(app, false), (serves, true)]);
    let Ended::Failed(failure) = &ended[0] else { panic!("{ended:?}") };
    assert!(failure.to_string().contains("which it has not armed"), "{failure}");
    assert_eq!(ended[1], Ended::Stopped);
}

#[test]
fn a_message_wakes_who_sleeps_for_it_and_who_watches_memory() {
    for asleep in [true, false] {
        let mut rounds = 0;
        let receive = |verbs: &mut dyn Verbs, woke: Woke| {
            let mut some = [Completion::NOTHING; 4];
            match woke {
                Woke::Start => {
                    let sges = [verbs.region(Region(0)).sge(0, 8)];
                    let requests = [RecvRequest { id: 1, sges: &sges }; 3];
                    verbs.post_recv(Qp(0), &requests).unwrap();
                }
                Woke::Event | Woke::Word(0) => rounds += 1,
                woke => panic!("{woke:?}"),
            }
            if asleep {
                let found = poll_or_arm(verbs, Cq(0), &mut some);
                return if found > 0 { Wait::done() } else { Wait::event(Cq(0)) };
            }
            if verbs.word(Region(0), 0) == 7 { Wait::done() } else { Wait::words(WORD) }
        };
        let send = |verbs: &mut dyn Verbs, woke: Woke| {
            if woke == Woke::Start {
                return Wait::at(verbs.now() + MOMENT);
            }
            if woke == Woke::Deadline {
                let request = WorkRequest {
                    id: 9,
                    operation: Operation::Send { immediate: None, address: None },
                    flags: SendFlags::SIGNALED,
                    sges: &[],
                    inline: None,
                };
                verbs.store(Region(0), 0, &7_u64.to_ne_bytes());
                let sges = [verbs.region(Region(0)).sge(0, 8)];
                verbs.post_send(Qp(0), &[WorkRequest { sges: &sges, ..request }]).unwrap();
                return Wait::poll(Cq(0));
            }
            assert_eq!(woke, Woke::Completions);
            let mut some = [Completion::NOTHING; 4];
            assert_eq!(verbs.poll(Cq(0), &mut some), 1);
            Wait::done()
        };
        let apps: [(Boxed<'_>, bool); 2] = [(Box::new(receive), false), (Box::new(send), false)];
        assert_eq!(run("127.0.78.3", apps), [Ended::Done, Ended::Done]);
        assert!((1..=2).contains(&rounds), "{rounds}");
    }
}

/// Ends the world after so many glances.
struct Impatient(u32);

impl Bystander for Impatient {
    fn glance(&mut self) -> Option<Failure> {
        self.0 = self.0.saturating_sub(1);
        (self.0 == 0).then(|| Failure::new("interrupted"))
    }
}

#[test]
fn a_world_that_is_stopped_ends_every_wait() {
    let waits = [
        Wait::poll(Cq(0)),
        Wait::event(Cq(0)),
        Wait::words(WORD),
        Wait::turn(),
        Wait { on: On::Time, until: None },
    ];
    for wait in waits {
        let app = move || -> (Boxed<'static>, bool) {
            let step = move |verbs: &mut dyn Verbs, _: Woke| {
                verbs.arm(Cq(0), false);
                wait
            };
            (Box::new(step), false)
        };
        let began = Instant::now();
        let apps = [app(), app()];
        let (outcomes, why) = run_with("127.0.78.4", apps, &Stop::default(), &mut Impatient(3));
        assert_eq!(why, Some(Failure::new("interrupted")));
        assert!(outcomes.iter().all(|outcome| outcome.ended == Ended::Stopped), "{wait:?}");
        assert!(began.elapsed() < Duration::from_secs(10), "{wait:?}");
    }
}

#[test]
fn what_the_nic_has_no_room_for_is_said() {
    let device = DeviceInfo::find("lo/127.0.78.5", 0).unwrap();
    let host = Host::open(&device, &Options::default()).unwrap();
    let qps = [QpSpec { send_depth: 1 << 20, ..PAIR[0] }];
    let layout = Layout { regions: &REGIONS, cqs: &CQS, qps: &qps, serves: false };
    let said = SoftSeat::new(&host, &layout, &Stop::default(), 1).unwrap_err().to_string();
    assert_eq!(said, "the NIC did not make queue pair 0: a size is beyond the limit of the device");
    let qps = [QpSpec { send_cq: Cq(1), ..PAIR[0] }];
    let layout = Layout { regions: &REGIONS, cqs: &CQS, qps: &qps, serves: false };
    let said = SoftSeat::new(&host, &layout, &Stop::default(), 1).unwrap_err().to_string();
    assert_eq!(said, "queue pair 0 completes to a queue that is not there");
}
