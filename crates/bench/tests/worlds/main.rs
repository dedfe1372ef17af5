//! The same application gives the same bytes, and the same completions in the same order, in every world.
//!
//! Applications are made of chance: two that post to each other over queue pairs of every kind. What
//! one does never depends on when the other does it: what it reads or changes in the other's memory is
//! its own, by queue pair; receives are all posted beforehand. So the bytes at the end are the same
//! in every world, and of the completions: those of a queue pair, by direction, in their order. How those
//! of several queue pairs are mixed in a CQ is not.
//!
//! To add a world, add a row to `worlds`.

mod program;
mod reference;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bench::simulation::TESTBEDS;
use bench::world::nic::{Device, NicSeat};
use bench::world::sim::{self, Seated};
use bench::world::soft::{Host, SoftSeat};
use bench::world::{self, Ended, Outcome, Player, Seat, Stop};
use fabric::scenario::Testbed;
use program::{Program, Record};
use rdma::app::App;
use rdma::{Span, Time};
use softnic::{DeviceInfo, Options, PathChoice};
use verbs::Library;

/// Runs two applications to their end.
type World = Box<dyn Fn([Program; 2]) -> [Program; 2]>;

fn worlds() -> Vec<(&'static str, World)> {
    let mut worlds: Vec<(&str, World)> = vec![
        ("two engines and a pretended network", Box::new(reference::run)),
        (
            "soft NICs over shared memory",
            Box::new(|apps| soft(apps, PathChoice::SharedMemory, false)),
        ),
        ("soft NICs over UDP", Box::new(|apps| soft(apps, PathChoice::Udp, false))),
        ("one soft NIC", Box::new(|apps| soft(apps, PathChoice::Udp, true))),
        ("simulated hosts, in order", Box::new(|apps| simulated(apps, "cx3-56g-xeon"))),
        ("simulated hosts, by readiness", Box::new(|apps| simulated(apps, "cx4-100g-power8"))),
    ];
    if let Some(library) = library() {
        worlds.push(("libibverbs", Box::new(move |apps| nic(apps, &library))));
    }
    worlds
}

/// Ferroce's own library, loaded as any program loads one, if it was built.
fn library() -> Option<Arc<Library>> {
    let built =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/dist/lib/ferroce/libibverbs.so.1");
    if !Path::new(built).exists() {
        assert!(std::env::var_os("CI").is_none(), "there is no {built}");
        eprintln!("not tested: the NIC world, as `cargo xtask dist` has not built {built}");
        return None;
    }
    Some(Library::load(Some(Path::new(built))).unwrap())
}

fn nic(apps: [Program; 2], library: &Arc<Library>) -> [Program; 2] {
    let device = Device::open(library, None, None).unwrap();
    let stop = Stop::default();
    let seat = |app: &Program| NicSeat::new(&device, &app.layout(), &stop, 1).unwrap();
    let players = apps.map(|app| Player { seat: seat(&app), app, core: None });
    run(players.into(), &stop)
}

fn simulated(apps: [Program; 2], testbed: &str) -> [Program; 2] {
    let (_, text) = TESTBEDS.into_iter().find(|(name, _)| *name == testbed).unwrap();
    let config = Testbed::parse(text).unwrap().network(2);
    let seated = (0..).zip(apps).map(|(host, app)| Seated { app, host, core: 3 }).collect();
    let end = Time::ZERO + Span::from_ms(1_000);
    let sim::Played { outcomes, why, .. } = sim::run(config, seated, end, &mut ()).unwrap();
    assert_eq!(why, None);
    let ended = |outcome: Outcome<Program>| {
        assert_eq!(outcome.ended, Ended::Done);
        outcome.app
    };
    let apps: Vec<Program> = outcomes.into_iter().map(ended).collect();
    apps.try_into().unwrap()
}

fn soft(apps: [Program; 2], path: PathChoice, shared: bool) -> [Program; 2] {
    let options = Options { path, ..Options::default() };
    let open = |last: u8| {
        let device = DeviceInfo::find(&format!("lo/127.0.77.{last}"), 0).unwrap();
        Host::open(&device, &options).unwrap()
    };
    let first = open(1);
    let second = if shared { Arc::clone(&first) } else { open(2) };
    let stop = Stop::default();
    let players = apps
        .into_iter()
        .zip([&first, &second])
        .map(|(app, host)| {
            let seat = SoftSeat::new(host, &app.layout(), &stop, 1).unwrap();
            Player { app, seat, core: None }
        })
        .collect();
    run(players, &stop)
}

/// Runs two applications to their end.
fn run<S: Seat>(players: Vec<Player<Program, S>>, stop: &Stop) -> [Program; 2] {
    let (outcomes, why) = world::run(players, stop, &mut ()).unwrap();
    assert_eq!(why, None);
    let apps: Vec<Program> = outcomes
        .into_iter()
        .map(|outcome| {
            assert_eq!(outcome.ended, Ended::Done);
            outcome.app
        })
        .collect();
    apps.try_into().unwrap()
}

/// What may be compared: the bytes, and by queue pair and direction the completions.
type Result = (Vec<Vec<u8>>, BTreeMap<(u16, bool), Vec<Record>>);

fn result(app: Program) -> Result {
    let mut completions: BTreeMap<_, Vec<Record>> = BTreeMap::new();
    for record in app.records {
        completions.entry((record.qp, record.is_receive())).or_default().push(record);
    }
    (app.memory, completions)
}

fn check(seeds: core::ops::Range<u64>) {
    let worlds = worlds();
    for seed in seeds {
        let mut expected: Option<[Result; 2]> = None;
        for (name, world) in &worlds {
            let apps = world(Program::pair(seed));
            let results = apps.map(result);
            assert!(results.iter().all(|(_, completions)| !completions.is_empty()));
            match &expected {
                None => expected = Some(results),
                Some(expected) => {
                    for (side, (is, should)) in results.iter().zip(expected).enumerate() {
                        assert_eq!(is.1, should.1, "completions, seed {seed}, side {side}: {name}");
                        // Not by `assert_eq`: nobody reads a hundred thousand numbers.
                        assert!(is.0 == should.0, "bytes, seed {seed}, side {side}: {name}");
                    }
                }
            }
        }
    }
}

#[test]
fn every_world_gives_the_same_bytes_and_completions() {
    check(0..12);
}

#[test]
#[ignore = "minutes; cargo test -p ferroce-bench --test worlds -- --ignored"]
fn every_world_gives_the_same_bytes_and_completions_at_length() {
    check(100..400);
}

#[test]
fn programs_do_something_of_everything() {
    let opcodes: std::collections::BTreeSet<u8> = (0..12)
        .flat_map(|seed| reference::run(Program::pair(seed)))
        .flat_map(|app| app.records)
        .map(|record| record.opcode)
        .collect();
    // SEND, WRITE, READ, compare and swap, fetch and add; received: SEND, WRITE with immediate.
    assert_eq!(opcodes.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 128, 129]);
}
