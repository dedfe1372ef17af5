//! What is seen of a lab: counters under the names of SAI and Linux, metrics that a scraper reads, and the report.

mod common;

use core::sync::atomic::{AtomicBool, Ordering};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;

use common::{End, Running, two_hosts};
use fabric::Verdict;
use fabric::counters::PortCounted;
use fabric::report::Report;
use lab::{Lab, Seen, Settings, client};
use rdma::CompletionStatus;
use softnic::lab::Channel;

fn value(port: &PortCounted, name: &str) -> u64 {
    let named = port.named();
    let found = named.iter().find(|(known, _)| known == name);
    found.unwrap_or_else(|| panic!("no counter is called {name}")).1
}

fn port<'a>(seen: &'a Seen, node: &str, neighbour: &str) -> &'a PortCounted {
    let mut ports = seen.ports.iter();
    ports.find(|at| (&*at.node, &*at.neighbour) == (node, neighbour)).unwrap()
}

#[test]
fn ports_and_programs_have_their_counters_and_they_agree() {
    let running = Running::start("counted", two_hosts());
    let (mut a, mut b) = (End::open(&running, "h0"), End::open(&running, "h1"));
    common::connect(&mut a, &mut b);
    let before = client::look(&running.found).unwrap();
    for _ in 0..5 {
        assert_eq!(a.write_to(&b), CompletionStatus::Success);
    }
    let seen = client::look(&running.found).unwrap();
    assert!(seen.model_ps > before.model_ps && seen.wall_ns > before.wall_ns);
    assert_eq!(seen.ports.len(), 4);
    let (nic, switch) = (port(&seen, "h0", "s0"), port(&seen, "s0", "h1"));
    let sent: u64 = (0..8).map(|priority| value(nic, &format!("tx_prio{priority}_packets"))).sum();
    let on: u64 =
        (0..8).map(|queue| value(switch, &format!("SAI_QUEUE_STAT_PACKETS:{queue}"))).sum();
    assert!(sent >= 5 * 50_000 / 4_096 && on == sent, "{sent} and {on}");
    assert_eq!(value(port(&seen, "s0", "h0"), "SAI_PORT_STAT_PFC_3_RX_PKTS"), 0);
    let program = seen.programs.iter().find(|program| program.host == "h0").unwrap();
    assert_eq!(program.process, std::process::id());
    assert!(program.sent >= sent && program.counters.len() > 10, "{program:?}");
    // The programs are among those of `ferroce counters`, too.
    let all = softnic::counters::read_all();
    assert!(all.iter().filter(|of| of.pid == std::process::id()).count() >= 2);
    drop((a, b));
    running.end();
}

#[test]
fn many_who_look_and_go_away_do_not_stop_a_lab() {
    let running = Running::start("looked", two_hosts());
    let (mut a, mut b) = (End::open(&running, "h0"), End::open(&running, "h1"));
    common::connect(&mut a, &mut b);
    let mut away = Vec::new();
    for round in 0..40 {
        let channel = Channel::connect(&running.found.socket).unwrap();
        channel.send(b"seen", None).unwrap();
        if round % 2 == 0 {
            away.push(channel);
        }
        assert_eq!(a.write_to(&b), CompletionStatus::Success, "round {round}");
    }
    drop(away);
    // One that has asked for too much is told so, and may ask again.
    common::wait_until(|| client::look(&running.found).is_ok());
    drop((a, b));
    running.end();
}

/// What is served at `path`, behind the headers.
fn scrape(address: core::net::SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    text
}

#[test]
fn prometheus_reads_counters_and_the_report_tells_of_the_run() {
    let (tell, told) = mpsc::channel();
    let stop = std::sync::Arc::new(AtomicBool::new(false));
    let stops = std::sync::Arc::clone(&stop);
    let thread = std::thread::spawn(move || {
        let settings = Settings {
            name: "metrics".to_owned(),
            title: "Two hosts".to_owned(),
            network: two_hosts(),
            factor: Some(1.0),
            metrics: Some("127.0.0.1:0".parse().unwrap()),
        };
        let mut lab = Lab::begin(settings).unwrap();
        tell.send(lab.found().clone()).unwrap();
        lab.run(|_| stops.load(Ordering::Relaxed));
        let (title, run) = lab.told();
        let report = Report::new(title, lab.network(), &Verdict::TimeOver);
        let report = report.with_samples(lab.samples()).in_lab(&run);
        (
            report.summary(),
            report.page(),
            report.programs().unwrap().to_csv(),
            report.samples().unwrap().len(),
        )
    });
    let found = told.recv().unwrap();
    let running = Running::of(found.clone());
    let (mut a, mut b) = (End::open(&running, "h0"), End::open(&running, "h1"));
    common::connect(&mut a, &mut b);
    for _ in 0..20 {
        assert_eq!(a.write_to(&b), CompletionStatus::Success);
    }
    let status = client::ask(&found, "status").unwrap();
    let address = status.split_once("http://").unwrap().1.split_once("/metrics").unwrap().0;
    let text = scrape(address.parse().unwrap());
    for part in [
        "# TYPE sai_queue_stat_packets_total counter\n",
        "sai_port_stat_pfc_rx_pkts_total{lab=\"metrics\",neighbour=\"h0\",priority=\"3\",switch=\"s0\"} 0\n",
        "ethtool_rx_prio_pause_total{host=\"h1\",lab=\"metrics\",neighbour=\"s0\",priority=\"3\"} 0\n",
        "ferroce_lab_factor{lab=\"metrics\"} 1\n",
        "ferroce_lab_programs{lab=\"metrics\"} 2\n",
        "hw_counters_acks_sent_total{host=\"h1\",",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    drop((a, b));
    stop.store(true, Ordering::Relaxed);
    let (summary, page, programs, samples) = thread.join().unwrap();
    assert!(summary.starts_with("Two hosts (a lab run)\n  ended at "), "{summary}");
    assert!(summary.contains("  time         factor 1, as it was set\n"), "{summary}");
    assert!(summary.contains("  drops        0\n"), "{summary}");
    assert!(!summary.contains("flows"), "{summary}");
    for part in ["<strong>Lab run:</strong>", "<h2>Programs</h2>", "Throughput"] {
        assert!(page.contains(part), "{part}");
    }
    assert_eq!(programs.lines().count(), 3, "{programs}");
    assert!(samples > 4, "{samples}");
}
