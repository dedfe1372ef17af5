//! What happens to a lab while it runs, and what it says of it.

mod common;

use core::time::Duration;
use std::time::Instant;

use common::{End, Running, hosts, two_hosts, wait_until};
use lab::client;
use rdma::CompletionStatus;

/// The texts of the events of a lab, without their times.
fn events(running: &Running) -> String {
    let page = running.ask("events 0");
    let texts = page.lines().skip(1).filter_map(|line| line.rsplit_once("s  "));
    texts.map(|(_, text)| format!("{text}\n")).collect()
}

fn event(running: &Running, table: &str) -> String {
    running.ask(&format!("event {table}"))
}

#[test]
fn a_link_that_goes_down_and_up_loses_packets_that_are_sent_again() {
    let running = Running::start("flap", two_hosts());
    let (mut a, mut b) = (End::open(&running, "h0"), End::open(&running, "h1"));
    common::connect(&mut a, &mut b);
    assert_eq!(a.write_to(&b), CompletionStatus::Success);
    let flap = "kind = \"link-flaps\"\nfrom = \"h1\"\nto = \"s0\"\ndown_us = 3000\nevery_us = 9000\ntimes = 1";
    let said = event(&running, flap);
    assert!(said.contains("now: link-down h1 - s0\n"), "{said}");
    a.fill(9);
    assert_eq!(a.write_to(&b), CompletionStatus::Success);
    assert_eq!(b.bytes(), a.bytes());
    wait_until(|| events(&running).contains("link-up h1 - s0"));
    let all = events(&running);
    let order =
        ["came", "link-down h1 - s0", "link-up h1 - s0"].map(|text| all.find(text).unwrap());
    assert!(order.is_sorted(), "{all}");
    running.end();
}

#[test]
fn what_is_corrupted_on_the_way_never_reaches_memory() {
    let running = Running::start("corrupt", two_hosts());
    let (mut a, mut b) = (End::open(&running, "h0"), End::open(&running, "h1"));
    common::connect(&mut a, &mut b);
    event(&running, "kind = \"corrupt\"\nfrom = \"h0\"\nto = \"s0\"\nprobability = 0.2");
    for round in 0..20 {
        a.fill(round);
        assert_eq!(a.write_to(&b), CompletionStatus::Success);
        assert_eq!(b.bytes(), a.bytes(), "round {round}");
    }
    let status = running.ask("status");
    // Nothing in the network has noticed it: the ICRC of the NIC has.
    assert!(status.contains("dropped     nothing"), "{status}");
    event(&running, "kind = \"link-repaired\"\nfrom = \"h0\"\nto = \"s0\"");
    running.end();
}

#[test]
fn settings_change_while_it_runs_and_a_storm_is_found_by_a_watchdog() {
    let running = Running::start("changes", hosts(3));
    for table in [
        "kind = \"alpha\"\nswitch = \"s0\"\nalpha = \"1/64\"",
        "kind = \"ecn\"\nmin_bytes = 1000\nmax_bytes = 2000",
        "kind = \"pfc\"\nlossless_priorities = [0]",
        "kind = \"dscp-map\"\ndscp_to_class = [[0, 0]]",
        "kind = \"watchdog\"\npoll_ms = 5\ndetection_ms = 20\nrestoration_ms = 20",
        "kind = \"nic-watchdog\"\nhost = \"h1\"\noff = true",
    ] {
        event(&running, table);
    }
    let (mut a, mut b) = (End::open(&running, "h0"), End::open(&running, "h1"));
    common::connect(&mut a, &mut b);
    assert_eq!(a.write_to(&b), CompletionStatus::Success);
    event(&running, "kind = \"nic-stuck\"\nhost = \"h1\"");
    // It gives up, once the watchdog drops what is for the host.
    assert_eq!(a.write_to(&b), CompletionStatus::RetryExceeded);
    wait_until(|| events(&running).contains("s0: its watchdog found a storm"));
    event(&running, "kind = \"nic-repaired\"\nhost = \"h1\"");
    wait_until(|| events(&running).contains("s0: its watchdog found a storm to be over"));
    running.end();
}

#[test]
fn a_switch_that_restarts_is_back_after_a_while() {
    let running = Running::start("reboot", two_hosts());
    let (mut a, mut b) = (End::open(&running, "h0"), End::open(&running, "h1"));
    common::connect(&mut a, &mut b);
    event(&running, "kind = \"switch-reboots\"\nswitch = \"s0\"\ndown_ms = 5");
    assert_eq!(a.write_to(&b), CompletionStatus::Success);
    wait_until(|| events(&running).contains("switch-reboots s0: back"));
    running.end();
}

#[test]
fn an_event_that_cannot_be_is_refused_with_a_remedy() {
    let running = Running::start("refused", two_hosts());
    let refused = |table: &str| {
        client::ask(&running.found, &format!("event {table}")).unwrap_err().to_string()
    };
    for (table, told) in [
        ("kind = \"link-dwn\"", "hint: did you mean \"link-down\"?"),
        ("kind = \"link-down\"\nfrom = \"h0\"\nto = \"h1\"", "there is no link between h0 and h1"),
        ("kind = \"nic-stuck\"\nhost = \"h7\"", "hint: hosts are h0 to h1"),
        ("kind = \"nic-stuck\"\nhos = \"h1\"", "did you mean `host`?"),
        ("= =", "hint: "),
        ("", "kind"),
    ] {
        let error = refused(table);
        assert!(error.contains(told), "{error}");
    }
    running.end();
}

#[test]
fn who_is_killed_leaves_its_host_clean_and_its_peer_gives_up() {
    let running = Running::start("killed", two_hosts());
    let (mut a, mut b) = (End::open(&running, "h0"), End::open(&running, "h1"));
    common::connect(&mut a, &mut b);
    assert_eq!(a.write_to(&b), CompletionStatus::Success);
    let target = b.target();
    drop(b);
    let begin = Instant::now();
    assert_eq!(a.write(target), CompletionStatus::RetryExceeded);
    assert!(begin.elapsed() < Duration::from_secs(20));
    wait_until(|| events(&running).contains("h1: process") && events(&running).contains(" went"));
    // The next program of that host begins anew.
    let mut again = End::open(&running, "h1");
    let mut other = End::open(&running, "h0");
    common::connect(&mut other, &mut again);
    assert_eq!(other.write_to(&again), CompletionStatus::Success);
    running.end();
}
