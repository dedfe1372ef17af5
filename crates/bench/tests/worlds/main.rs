//! The same application gives the same bytes, and the same completions in the same order, in every world.
//!
//! Applications are made of chance: two that post to each other over queue pairs of every kind. What
//! one does never depends on when the other does it: what it reads or changes in the other's memory is
//! its own, by queue pair; receives are all posted beforehand. So the bytes at the end are the same
//! in every world, and of the completions: those of a queue pair, by direction, in their order. How those
//! of several queue pairs are mixed in a CQ is not.
//!
//! To add a world, add a row to `WORLDS`.

mod program;
mod reference;

use std::collections::BTreeMap;

use bench::world::soft::{Host, SoftSeat};
use bench::world::{self, Ended, Player, Stop};
use program::{Program, Record};
use rdma::app::App;
use softnic::{DeviceInfo, Link, Options};

/// Runs two applications to their end.
type World = fn([Program; 2]) -> [Program; 2];

const WORLDS: [(&str, World); 4] = [
    ("two engines and a pretended network", reference::run),
    ("soft NICs over shared memory", |apps| soft(apps, Link::SharedMemory, false)),
    ("soft NICs over UDP", |apps| soft(apps, Link::Udp, false)),
    ("one soft NIC", |apps| soft(apps, Link::Udp, true)),
];

fn soft(apps: [Program; 2], link: Link, shared: bool) -> [Program; 2] {
    let options = Options { link, ..Options::default() };
    let open = |last: u8| {
        let device = DeviceInfo::find(&format!("lo/127.0.77.{last}"), 0).unwrap();
        Host::open(&device, &options).unwrap()
    };
    let first = open(1);
    let second = if shared { std::sync::Arc::clone(&first) } else { open(2) };
    let stop = Stop::default();
    let players = apps
        .into_iter()
        .zip([&first, &second])
        .map(|(app, host)| {
            let seat = SoftSeat::new(host, &app.layout(), &stop, 1).unwrap();
            Player { app, seat, core: None }
        })
        .collect();
    let (outcomes, why) = world::run(players, &stop, &mut ()).unwrap();
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
    for seed in seeds {
        let mut expected: Option<[Result; 2]> = None;
        for (name, world) in WORLDS {
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
