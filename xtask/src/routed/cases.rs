//! The cases: the rules of the router, a program, and what has to come of it.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};

use super::place::{CLIENT, Place, SERVER};

/// Says in a few words what was seen.
type Case = fn(&Place) -> Result<String>;

pub(super) const CASES: [(&str, Case); 12] = [
    ("queue pairs have UDP source ports of their own, the same in both directions", ports),
    ("datagrams pass a filter that lets in port 4791 alone", datagrams),
    ("with FERROCE_SOURCE_PORTS=4791 a filter of connections lets in answers", one_port),
    ("marks of nftables slow the sender down, and without them there is no CNP", marks),
    ("ferroce counters shows the control, its window and round trips", control),
    ("a path that is too narrow is named, and RDMA CM takes what fits", narrow),
    ("RDMA CM takes what fits the path from the server, too", narrow_from_server),
    ("packets are as long as the path takes in both directions", strides),
    ("a path may become narrower than the packets of a connection", narrows),
    ("a path may be too narrow for packets of the path MTU, or become so", narrows_below_mtu),
    ("hosts of two MTUs connect by RDMA CM, whichever asks", two_mtus),
    ("a path that drops long packets without a word is told from a peer that is gone", silent),
];

/// Lets pass RoCE and what programs say beside it, and keeps the addresses and source ports of RoCE.
const COUNTED: &str = "table ip routed {
    set ports { type ipv4_addr . inet_service; size 4096; flags dynamic; }
    chain forward {
        type filter hook forward priority 0; policy drop;
        udp dport 4791 add @ports { ip saddr . udp sport } accept
        ip protocol { tcp, icmp } accept
    }
}";

/// Nobody hears what the router says of packets that are too long.
const DEAF: &str = "table ip routed {
    chain output {
        type filter hook output priority 0;
        icmp type destination-unreachable drop
    }
}";
/// Who chooses a path MTU keeps to it.
const WITHOUT_PARTS: [(&str, &str); 1] = [("FERROCE_MTU", "4096")];

/// The source ports that packets of an address had.
fn ports_of(place: &Place, address: &str) -> Result<BTreeSet<u64>> {
    let mut ports = BTreeSet::new();
    for element in place.set("ports")? {
        let pair = &element["concat"];
        if pair[0] == address {
            ports.insert(pair[1].as_u64().context("a port")?);
        }
    }
    Ok(ports)
}

fn ports(place: &Place) -> Result<String> {
    place.rule(COUNTED)?;
    let words = ["ib_write_bw", "-q", "8", "-s", "16384", "-n", "200"];
    place.perftest(&[], &words)?.must_be_good()?;
    let (client, server) = (ports_of(place, CLIENT)?, ports_of(place, SERVER)?);
    ensure!(client == server, "client {client:?}, server {server:?}");
    // Two of eight have the same by chance, once in six hundred runs.
    ensure!(client.len() >= 7, "eight queue pairs have the ports {client:?}");
    ensure!(client.iter().all(|port| *port >= 0xc000), "{client:?}");
    Ok(format!("{} ports", client.len()))
}

fn datagrams(place: &Place) -> Result<String> {
    place.rule(COUNTED)?;
    let words = ["ib_send_lat", "-c", "UD", "-s", "64", "-n", "200"];
    place.perftest(&[], &words)?.must_be_good()?;
    let ports = ports_of(place, CLIENT)?;
    ensure!(ports.len() == 1 && ports.iter().all(|port| *port >= 0xc000), "{ports:?}");
    Ok("one port".to_owned())
}

fn one_port(place: &Place) -> Result<String> {
    place.rule(&format!(
        "table ip routed {{
            set ports {{ type ipv4_addr . inet_service; size 4096; flags dynamic; }}
            chain forward {{
                type filter hook forward priority 0; policy drop;
                udp dport 4791 add @ports {{ ip saddr . udp sport }}
                ct state established,related accept
                ip saddr {CLIENT} accept
            }}
        }}"
    ))?;
    let words = ["ib_write_bw", "-q", "4", "-s", "16384", "-n", "200"];
    place.perftest(&[("FERROCE_SOURCE_PORTS", "4791")], &words)?.must_be_good()?;
    let (client, server) = (ports_of(place, CLIENT)?, ports_of(place, SERVER)?);
    ensure!(client == BTreeSet::from([4791]) && client == server, "{client:?}, {server:?}");
    Ok("4791 alone".to_owned())
}

fn marks(place: &Place) -> Result<String> {
    let words = ["ib_write_bw", "-s", "65536", "-n", "500"];
    let dcqcn = [("FERROCE_CC", "dcqcn,line_mbps=1000")];
    place.rule(COUNTED)?;
    let without = place.perftest(&dcqcn, &words)?;
    without.must_be_good()?;
    ensure!(without.at_client("rp_cnp_handled")? == 0, "CNPs where nothing marks");
    let rate = without.at_client("cc_rate_mbps")?;
    ensure!(rate == 1000, "{rate} Mb/s where nothing marks");
    // Every tenth of the client's packets that may be marked, as a switch does whose queue is long.
    place.rule(&format!(
        "{COUNTED}
        table ip marks {{
            chain forward {{
                type filter hook forward priority -10;
                ip saddr {CLIENT} udp dport 4791 ip ecn ect0 numgen inc mod 10 0 ip ecn set ce
            }}
        }}"
    ))?;
    let with = place.perftest(&dcqcn, &words)?;
    with.must_be_good()?;
    let marked = with.at_server("np_ecn_marked_roce_packets")?;
    let (told, heard) = (with.at_server("np_cnp_sent")?, with.at_client("rp_cnp_handled")?);
    ensure!(marked > 0 && told > 0 && heard > 0, "{marked} marked, {told} CNPs, {heard} heard");
    ensure!(told <= marked && heard <= told, "{marked} marked, {told} CNPs, {heard} heard");
    // Fewer than the gigabit that it began with.
    let rate = with.at_client("cc_rate_mbps")?;
    ensure!((1..1000).contains(&rate), "{rate} Mb/s after {heard} CNPs");
    Ok(format!("{marked} marked, {told} CNPs sent, {heard} obeyed, {rate} Mb/s at the end"))
}

fn control(place: &Place) -> Result<String> {
    place.rule("")?;
    let outcome = place.perftest(&[], &["ib_write_bw", "-s", "65536", "-D", "1"])?;
    outcome.must_be_good()?;
    let said = &outcome.told;
    let value = |name: &str| -> Option<u64> {
        let line = said.lines().find(|line| line.trim_start().starts_with(name))?;
        line.split_whitespace().last()?.parse().ok()
    };
    ensure!(said.contains("congestion control: bbr to other hosts (by default"), "{said}");
    for name in
        ["cc_queue_pairs", "cc_window_bytes", "cc_rate_mbps", "rtt_min_us", "rtt_smoothed_us"]
    {
        ensure!(value(name).is_some_and(|value| value > 0), "{name} is not shown:\n{said}");
    }
    let [least, smoothed] = ["rtt_min_us", "rtt_smoothed_us"].map(|name| value(name).unwrap_or(0));
    // Nobody waits for a second on this path.
    ensure!(least <= smoothed && smoothed < 1_000_000, "{least} and {smoothed} us");
    Ok(format!("round trips of {least} us at least, {smoothed} us smoothed"))
}

fn narrow(place: &Place) -> Result<String> {
    place.rule("")?;
    place.set_mtu([9000; 2], 1500)?;
    let result = on_narrow_path(place);
    place.set_mtu([1500; 2], 1500)?;
    result
}

/// Of 1,500 bytes, where both hosts send 9,000.
fn on_narrow_path(place: &Place) -> Result<String> {
    let words = ["ib_write_bw", "-s", "65536", "-n", "20"];
    // 4 ms, so that seven retries do not take half a second.
    let outcome = place.perftest(&WITHOUT_PARTS, &[&words[..], &["-u", "10"]].concat())?;
    ensure!(!outcome.is_good(), "packets of 4,096 bytes pass a path of 1,500");
    let said = outcome.said();
    ensure!(said.contains("the path to 10.81.2.1 takes packets of 1500 bytes"), "{said}");
    ensure!(said.contains("hint: FERROCE_MTU=1024"), "{said}");
    place.perftest(&[("FERROCE_MTU", "1024")], &words)?.must_be_good()?;
    // The kernel has been told, so RDMA CM asks for a path MTU that fits.
    place.perftest(&[], &[&words[..], &["-R"]].concat())?.must_be_good()?;
    Ok("told at the end, and passed with 1,024".to_owned())
}

/// What a client reads is long, and what it sends is not: the server alone is told.
fn narrow_from_server(place: &Place) -> Result<String> {
    place.rule("")?;
    place.set_mtu([9000; 2], 9000)?;
    place.narrow_to_client(1500)?;
    let words = ["ib_read_bw", "-s", "65536", "-n", "20", "-R", "-u", "10"];
    let result = place.perftest(&WITHOUT_PARTS, &words).and_then(|first| {
        ensure!(!first.is_good(), "packets of 4,096 bytes pass a path of 1,500");
        place.perftest(&WITHOUT_PARTS, &words)?.must_be_good()
    });
    place.set_mtu([1500; 2], 1500)?;
    result.map(|()| "once it was told".to_owned())
}

fn strides(place: &Place) -> Result<String> {
    place.rule("")?;
    let write: &[&str] = &["ib_write_bw", "-s", "65536", "-n", "2000"];
    let read: &[&str] = &["ib_read_bw", "-s", "65536", "-n", "2000"];
    let result = [
        // Of hosts and router, in bytes, where which way is narrow, and what packets carry at least.
        (1500, [1500, 1500], 1_200),
        (9000, [9000, 9000], 6_000),
        (9000, [4500, 9000], 3_500),
        (9000, [9000, 4500], 3_500),
    ]
    .into_iter()
    .try_for_each(|(hosts, [to_server, to_client], least)| {
        place.set_mtu([hosts; 2], to_server)?;
        place.narrow_to_client(to_client)?;
        for words in [write, read] {
            let outcome = place.perftest(&[], words)?;
            let about = || format!("{hosts}, to {to_server} and {to_client} bytes, {}", words[0]);
            outcome.must_be_good().with_context(about)?;
            let answered = outcome.at_client("path_probes_answered")?;
            let fits = to_server.min(to_client) == hosts;
            ensure!(outcome.at_client("path_probes_sent")? > 0, "{}: no probe", about());
            // Once, and again if the peer was slow for a while.
            ensure!((answered > 0) == fits, "{}: {answered} answered", about());
            let each = outcome.in_each(words[0])?;
            ensure!(each >= least && (fits || each <= 4096), "{}: {each} in each", about());
        }
        Ok(())
    });
    place.set_mtu([1500; 2], 1500)?;
    result.map(|()| "with 1,500 and 9,000 bytes; and a path of 4,500 keeps 4,096".to_owned())
}

/// As where a route changes to a tunnel. What the router says of it, nobody hears in the second round.
fn narrows(place: &Place) -> Result<String> {
    let result = ["", DEAF].into_iter().try_for_each(|rules| {
        place.rule(rules)?;
        ["ib_write_bw", "ib_read_bw", "ib_send_bw"].into_iter().try_for_each(|program| {
            let words = [program, "-s", "65536", "-D", "2"];
            let narrow = ("path_probes_answered", || place.route_mtu(Some(1420)));
            let outcome = place.perftest_and(&[], &words, narrow)?;
            place.route_mtu(None)?;
            outcome.must_be_good().with_context(|| program)?;
            let sent = outcome.at_client("path_probes_sent")?;
            let answered = outcome.at_client("path_probes_answered")?;
            let timeouts = outcome.at_client("local_ack_timeout_err")?;
            let about =
                format!("{program}: {sent} probes, {answered} answered, {timeouts} timeouts");
            // Found to be wide, again if the peer was slow for a while, and narrow later.
            ensure!(answered > 0 && sent > answered, "{about}");
            Ok(())
        })
    });
    place.route_mtu(None)?;
    result.map(|()| "from 1,500 to 1,420 bytes, with and without a word of the router".to_owned())
}

/// Of 1,500 bytes, where both hosts send 9,000, and nobody is told; at first for a while, too, or not.
fn narrows_below_mtu(place: &Place) -> Result<String> {
    place.set_mtu([9000; 2], 9000)?;
    place.rule(DEAF)?;
    let mut rates = Vec::new();
    let result = [false, true].into_iter().try_for_each(|is_so_at_first| {
        ["ib_write_bw", "ib_read_bw", "ib_send_bw"].into_iter().try_for_each(|program| {
            let words = [program, "-s", "65536", "-D", "2"];
            place.route_mtu(is_so_at_first.then_some(1500))?;
            let narrow = ("path_probes_answered", || place.route_mtu(Some(1500)));
            let outcome = place.perftest_and(&[], &words, narrow)?;
            let about = || format!("{program}, from the beginning: {is_so_at_first}");
            outcome.must_be_good().with_context(about)?;
            let answered = outcome.at_client("path_probes_answered")?;
            let each = outcome.in_each(program)?;
            let is_as_told =
                if is_so_at_first { answered == 0 && each <= 1024 } else { answered > 0 };
            ensure!(is_as_told, "{}: {answered} answered, {each} in each", about());
            rates.push(format!("{:.0}", outcome.rate()?));
            Ok(())
        })
    });
    place.route_mtu(None)?;
    place.set_mtu([1500; 2], 1500)?;
    result.map(|()| format!("from 9,000 to 1,500 bytes, with {} MB/s", rates.join(", ")))
}

/// Packets are as long as both ports carry, and as the path MTU where one of them is kept to that.
fn two_mtus(place: &Place) -> Result<String> {
    place.rule("")?;
    let twice = ("FERROCE_FAULTS", "duplicate");
    let result = [[9000, 1500], [1500, 9000]].into_iter().try_for_each(|hosts| {
        place.set_mtu(hosts, hosts[1])?;
        let words = ["ib_read_bw", "-s", "65536", "-n", "20", "-R"];
        [&[][..], &[twice]].into_iter().try_for_each(|variables| {
            let outcome = place.perftest(variables, &words)?;
            let about = || format!("client and server of {hosts:?} bytes, {variables:?}");
            outcome.must_be_good().with_context(about)
        })?;
        let words = ["ib_write_bw", "-s", "65536", "-n", "2000", "-R"];
        [(&[][..], 1_200..1_409), (&[("FERROCE_MTU", "1024")], 900..1_025)]
            .into_iter()
            .try_for_each(|(variables, expected)| {
                let outcome = place.perftest(variables, &words)?;
                let about = || format!("client and server of {hosts:?} bytes, {variables:?}");
                outcome.must_be_good().with_context(about)?;
                let each = outcome.in_each(words[0])?;
                ensure!(expected.contains(&each), "{}: {each} in each", about());
                Ok(())
            })
    });
    place.set_mtu([1500; 2], 1500)?;
    result.map(|()| "9,000 and 1,500 bytes, in packets of 1,408".to_owned())
}

/// No ICMP tells of what is dropped.
fn silent(place: &Place) -> Result<String> {
    place.set_mtu([9000; 2], 9000)?;
    let result = on_silent_path(place);
    place.set_mtu([1500; 2], 1500)?;
    result
}

fn on_silent_path(place: &Place) -> Result<String> {
    let drops = |which: &str| {
        place.rule(&format!(
            "table ip routed {{
                chain forward {{
                    type filter hook forward priority 0;
                    {which} drop
                }}
            }}"
        ))
    };
    let failed = |words: &[&str]| -> Result<String> {
        // 4 ms, so that seven retries do not take half a second.
        let words = [words, &["-n", "20", "-u", "10"]].concat();
        let outcome = place.perftest(&WITHOUT_PARTS, &words)?;
        ensure!(!outcome.is_good(), "long packets pass a path that drops them");
        Ok(outcome.said())
    };
    let hint = "hint: if `ping -M do -s 4152 10.81.2.1` is not answered";
    drops("udp dport 4791 meta length > 1500")?;
    let said = failed(&["ib_write_bw", "-s", "65536"])?;
    ensure!(said.contains("10.81.2.1 has never answered this queue pair"), "{said}");
    ensure!(said.contains(hint) && said.contains("FERROCE_MTU=1024 at both ends"), "{said}");
    // All sizes, one at a time, for what leaves together is one long packet here: the short ones pass. READs are short,
    // and their responses are not.
    let said = failed(&["ib_read_lat", "-a"])?;
    let passed =
        "10.81.2.1 has answered packets with up to 1024 bytes of payload, and none with 2048";
    ensure!(said.contains(passed), "{said}");
    let words = ["ib_write_bw", "-s", "1024", "-t", "1", "-n", "20"];
    place.perftest(&[("FERROCE_MTU", "1024")], &words)?.must_be_good()?;
    // Everything is dropped, and short packets would pass any path.
    drops("udp dport 4791")?;
    let said = failed(&["ib_write_bw", "-s", "64"])?;
    ensure!(said.contains("no answer to 8 attempts") && !said.contains("ping -M do"), "{said}");
    Ok("told, with what to try; and passed with 1,024".to_owned())
}
