//! A lab in this process, and NICs that are its hosts: what programs see of it.

mod common;

use core::time::Duration;
use std::time::Instant;

use common::{End, Running, two_hosts, wait_until};
use lab::client;
use rdma::CompletionStatus;
use softnic::DeviceInfo;
use softnic::lab::{Channel, Site};

#[test]
fn data_arrive_whole_over_the_fabric_and_nothing_is_dropped() {
    let running = Running::start("whole", two_hosts());
    let (mut a, mut b) = (End::open(&running, "h0"), End::open(&running, "h1"));
    common::connect(&mut a, &mut b);
    for round in 0..20_u8 {
        a.fill(round);
        assert_eq!(a.write_to(&b), CompletionStatus::Success);
        assert_eq!(b.bytes(), a.bytes(), "round {round}");
    }
    let status = running.ask("status");
    assert!(status.contains("dropped     nothing"), "{status}");
    assert!(status.contains("h0          process"), "{status}");
    running.end();
}

#[test]
fn programs_of_one_host_reach_each_other_inside_its_nic() {
    let running = Running::start("inside", two_hosts());
    let (mut a, mut b) = (End::open(&running, "h0"), End::open(&running, "h0"));
    common::connect(&mut a, &mut b);
    a.fill(7);
    assert_eq!(a.write_to(&b), CompletionStatus::Success);
    assert_eq!(b.bytes(), a.bytes());
    running.end();
}

#[test]
fn who_loses_his_peer_sees_retries_exceeded_and_the_place_is_free() {
    let running = Running::start("peer", two_hosts());
    let (mut a, mut b) = (End::open(&running, "h0"), End::open(&running, "h1"));
    common::connect(&mut a, &mut b);
    assert_eq!(a.write_to(&b), CompletionStatus::Success);
    let target = b.target();
    drop(b);
    assert_eq!(a.write(target), CompletionStatus::RetryExceeded);
    wait_until(|| running.ask("status").matches(" process ").count() == 1);
    running.end();
}

#[test]
fn who_loses_the_fabric_sees_retries_exceeded_and_does_not_hang() {
    let running = Running::start("fabric", two_hosts());
    let (mut a, mut b) = (End::open(&running, "h0"), End::open(&running, "h1"));
    common::connect(&mut a, &mut b);
    assert_eq!(a.write_to(&b), CompletionStatus::Success);
    running.end();
    let begin = Instant::now();
    assert_eq!(a.write_to(&b), CompletionStatus::RetryExceeded);
    assert!(begin.elapsed() < Duration::from_secs(10));
}

#[test]
fn two_labs_run_beside_each_other_with_the_same_addresses() {
    let labs = [Running::start("one", two_hosts()), Running::start("other", two_hosts())];
    let mut ends = labs.each_ref().map(|lab| (End::open(lab, "h0"), End::open(lab, "h1")));
    for (number, (a, b)) in (1..).zip(&mut ends) {
        common::connect(a, b);
        a.fill(number);
        assert_eq!(a.write_to(b), CompletionStatus::Success);
    }
    for (number, (_, b)) in (1..).zip(&ends) {
        assert!(b.bytes().iter().all(|byte| *byte == number));
    }
    drop(ends);
    labs.into_iter().for_each(Running::end);
}

#[test]
fn who_asks_for_what_is_not_there_is_told_what_is() {
    let running = Running::start("asked", two_hosts());
    let site = Site::new(&running.found.socket, "h9").unwrap();
    assert_eq!(
        DeviceInfo::in_lab(&site, None).unwrap_err().to_string(),
        "FERROCE_LAB: there is no host `h9` in lab `asked`\nhint: its hosts are h0 to h1"
    );
    let site = Site::new(&running.found.socket, "h1").unwrap();
    let wrong = DeviceInfo::in_lab(&site, Some("8192")).unwrap_err().to_string();
    assert!(wrong.contains("`8192` is not an RDMA MTU"), "{wrong}");
    let refused = |request: &str| client::ask(&running.found, request).unwrap_err().to_string();
    assert!(refused("device 999 h0").starts_with("the lab speaks version 1"));
    assert!(refused("attach 1 h0 0 7").contains("no slot"));
    assert!(refused("attach 1 h0 7 7").contains("the ring cannot be used"));
    assert!(refused("dance").contains("does not know what is asked"));
    let found = running.found.clone();
    running.end();
    assert!(client::ask(&found, "status").is_err());
    let site = Site::new(&found.socket, "h1").unwrap();
    let gone = DeviceInfo::in_lab(&site, None).unwrap_err().to_string();
    assert!(gone.contains("no lab runs at"), "{gone}");
    assert!(Site::new(std::path::Path::new("/tmp/x"), "h0").is_err());
}

#[test]
fn visitors_who_say_nothing_and_leave_harm_nobody() {
    let running = Running::start("silent", two_hosts());
    let visitors: Vec<Channel> =
        (0..40).map(|_| Channel::connect(&running.found.socket).unwrap()).collect();
    assert!(running.ask("status").contains("programs    none"));
    drop(visitors);
    running.end();
}

#[test]
fn nothing_is_left_of_many_labs_and_their_programs() {
    for round in 0..20 {
        let running = Running::start("left", two_hosts());
        let (mut a, mut b) = (End::open(&running, "h0"), End::open(&running, "h1"));
        common::connect(&mut a, &mut b);
        assert_eq!(a.write_to(&b), CompletionStatus::Success, "round {round}");
        let (folder, part) = running.place();
        running.end();
        drop((a, b));
        softnic::lab::sweep();
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> = names.filter(|name| name.to_string_lossy().contains(&part)).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}
