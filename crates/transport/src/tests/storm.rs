//! A few storms (`cargo xtask storm` runs many), and proof that they would see what is wrong.

use std::panic;
use std::string::String;
use std::vec::Vec;

use crate::mutation::{Mutation, mutate};
use crate::testing::storm::{self, Log, Report};

#[test]
fn four_hundred_storms_break_no_promise_and_leave_nothing_out() {
    let mut total = Report::default();
    for seed in 0..400 {
        match storm::run(seed, &mut Log::silent()) {
            Ok(report) => total.add(&report),
            Err(failure) => {
                panic!("{failure}\n  cargo xtask storm --seed {seed} --trace --pcap storm.pcap")
            }
        }
    }
    let never: Vec<_> = total.tally.iter().filter(|(_, count)| *count == 0).collect();
    assert!(never.is_empty(), "faults that never struck, or requests never posted: {never:?}");
}

#[test]
fn packets_leave_in_runs_exactly_as_they_leave_singly() {
    // In the last, a packet is repeated, and the next to be sent was never sent, but is not the next
    // of the message: what is between them has arrived.
    for seed in (0..150).chain([776]) {
        let [singly, two, many] = [1, 2, 64].map(|run_packets| {
            let mut log = Log::recording();
            let report = storm::run_with(seed, run_packets, &mut log);
            (report, log)
        });
        for (report, log) in [two, many] {
            let first = singly.1.lines().iter().zip(log.lines()).find(|(a, b)| a != b);
            assert_eq!(first, None, "seed {seed}");
            // Packets are compared as bytes, payloads included, and counters at the end.
            let same = singly.1.lines().len() == log.lines().len()
                && singly.1.capture() == log.capture()
                && singly.0 == report;
            assert!(same, "seed {seed}");
        }
    }
}

/// What the storm of `seed` finds wrong.
fn finding(seed: u64) -> Option<String> {
    match panic::catch_unwind(|| storm::run(seed, &mut Log::silent())) {
        Ok(Ok(_)) => None,
        Ok(Err(failure)) => Some(failure.text),
        Err(_) => Some("panic".into()),
    }
}

#[test]
fn every_mutant_is_caught_within_two_thousand_storms() {
    let mut survivors = Vec::new();
    for &mutation in Mutation::ALL {
        mutate(Some(mutation));
        let found = (0..2000).find_map(|seed| Some((seed, finding(seed)?)));
        mutate(None);
        match found {
            Some((seed, text)) => std::println!("{mutation:?}: seed {seed}: {text}"),
            None => survivors.push(mutation),
        }
    }
    assert!(survivors.is_empty(), "not caught: {survivors:?}");
}
