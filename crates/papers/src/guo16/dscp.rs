//! 3 and figure 3: where the priority of a packet stands, in its VLAN tag or in its DSCP.

use fabric::Network;
use fabric::counters::Drop;
use fabric::nic::NicConfig;
use fabric::pfc::PRIORITIES;
use fabric::switch::config::{GroupConfig, PortMode, Trust};
use fabric::topology::End;
use fabric::workload::FlowSpec;
use rdma::Span;

use super::{jitter, scenario};
use crate::draws::{Spread, each, seeds};
use crate::figure::{Figure, Mark};
use crate::study::Context;
use crate::{Check, Error, Options, Outcome};

const DSCP: &str = "guo16.dscp.pfc";
pub(super) const CLAIMS: &[&str] = &[DSCP];

/// Within what flows begin.
const JITTER: Span = Span::from_us(20);
/// Flows of the scenario: across the router, and the boot.
const ACROSS: usize = 0;
const BOOT: usize = 2;

struct Run {
    /// The priority group of most of the flow's packets at each switch on its way.
    groups: Vec<usize>,
    booted: bool,
    /// RDMA packets that a full buffer cost.
    lost: u64,
    /// Pause frames by priority, of all switches.
    pauses: [u64; PRIORITIES],
}

fn measure(options: Options, trust: Trust) -> Result<Run, Error> {
    let mut scenario = scenario!(options, "dscp.toml")?;
    let config = &mut scenario.network;
    jitter(config, JITTER);
    config.switch.trust = trust;
    if trust == Trust::Pcp {
        config.switch.server_ports = PortMode::Trunk;
        let booting = config.flows[BOOT].destination;
        config.nics.insert(booting, config.nic.clone());
        config.nic = NicConfig { tagged: true, ..config.nic.clone() };
    }
    let (from, to) = (config.flows[ACROSS].source, config.flows[ACROSS].destination);
    let mut network = Network::new(scenario.network)?;
    network.run(scenario.end);
    let groups = groups(&network, from, to);
    let mut pauses = [0; PRIORITIES];
    for switch in 0..network.topology().switches.len() as u32 {
        for (_, counters) in network.switch_counters(switch) {
            for (sum, sent) in pauses.iter_mut().zip(counters.pause.sent) {
                *sum += sent;
            }
        }
    }
    Ok(Run {
        groups,
        booted: network.flows()[BOOT].finished_at.is_some(),
        lost: network.drops().of(Drop::Buffer) + network.drops().of(Drop::Headroom),
        pauses,
    })
}

/// The priority group of most of what comes from the first host at each switch on the way to the
/// second, in another rack: its ToR, the router, the other ToR.
fn groups(network: &Network, from: u32, to: u32) -> Vec<usize> {
    let topology = network.topology();
    let above = |host: u32| {
        topology.links.iter().find_map(|link| match link.ends {
            [End::Host(of), End::Switch(at)] | [End::Switch(at), End::Host(of)] if of == host => {
                Some(at)
            }
            _ => None,
        })
    };
    let router = topology.switches.iter().position(|switch| switch.tier == 1);
    let (Some(first), Some(router), Some(last)) = (above(from), router, above(to)) else {
        return Vec::new();
    };
    let router = router as u32;
    let ingress =
        [(first, End::Host(from)), (router, End::Switch(first)), (last, End::Switch(router))];
    let of = |(switch, neighbour)| {
        let came = network.port_counters(switch, neighbour).unwrap_or_default().group_bytes;
        (0..PRIORITIES).max_by_key(|&group| came[group]).unwrap_or(0)
    };
    ingress.map(of).to_vec()
}

/// What pauses say of the DSCPs 0 to 7.
struct Mapped {
    /// By DSCP: the priorities of pauses that its sender received.
    paused: Vec<Vec<usize>>,
    /// Packets that were lost.
    lost: u64,
}

/// Two flows of each DSCP from 0 to 7 meet at a host, all priorities lossless. Switches take DSCP i
/// for priority i and `shift`, NICs for i.
fn by_dscp(options: Options, shift: usize) -> Result<Mapped, Error> {
    let mut mapped = Mapped { paused: Vec::new(), lost: 0 };
    for dscp in 0..PRIORITIES {
        let mut scenario = scenario!(options, "dscp.toml")?;
        let config = &mut scenario.network;
        jitter(config, JITTER);
        config.switch.groups = [GroupConfig::LOSSLESS; PRIORITIES];
        for (of, class) in config.switch.dscp_to_class.iter_mut().enumerate() {
            *class = ((of + shift) % PRIORITIES) as u8;
        }
        config.nic.lossless_priorities = u8::MAX;
        let across = &config.flows[..BOOT];
        let both = across.iter().map(|flow| FlowSpec { dscp: dscp as u8, ..*flow });
        config.flows = both.collect();
        let senders: Vec<u32> = config.flows.iter().map(|flow| flow.source).collect();
        let mut network = Network::new(scenario.network)?;
        network.run(scenario.end);
        let mut sums = [0; PRIORITIES];
        for pauses in senders.into_iter().filter_map(|host| network.host_pauses(host)) {
            for (sum, received) in sums.iter_mut().zip(pauses.received) {
                *sum += received;
            }
        }
        mapped.paused.push((0..PRIORITIES).filter(|&priority| sums[priority] > 0).collect());
        mapped.lost += network.drops().of(Drop::Buffer) + network.drops().of(Drop::Headroom);
    }
    Ok(mapped)
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    context.say("dscp: priority in the VLAN tag");
    let draws = seeds(context.options);
    let vlans = each(&draws, |options| measure(options, Trust::Pcp))?;
    context.say("dscp: priority in the DSCP");
    let dscps = each(&draws, |options| measure(options, Trust::Dscp))?;
    context.say("dscp: pauses by DSCP");
    let alike = each(&draws, |options| by_dscp(options, 0))?;
    let shifted = each(&draws, |options| by_dscp(options, 1))?;
    let mut figure = Figure::new(
        "guo16-figure-3",
        "Figure 3: the priority group of an RDMA flow of priority 3, by switch",
        Mark::Line,
    )
    .axes(("switch", ""), ("priority_group", ""))
    .caption("Group 3 is lossless, group 0 is not.");
    for (name, run) in [("VLAN", &vlans[0]), ("DSCP", &dscps[0])] {
        for (at, &queue) in ["first ToR", "router", "last ToR"].into_iter().zip(&run.groups) {
            figure.point(name, at, queue as f64);
        }
    }
    let by_shift = |shift: usize| -> Vec<Vec<usize>> {
        (0..PRIORITIES).map(|dscp| vec![(dscp + shift) % PRIORITIES]).collect()
    };
    let only = |pauses: &[u64; PRIORITIES]| {
        pauses.iter().enumerate().all(|(priority, &sent)| (sent > 0) == (priority == 3))
    };
    let yes = |so: bool| if so { "boots" } else { "does not boot" };
    Ok(vec![Outcome {
        claim: context.claim(DSCP)?,
        ran: format!(
            "two racks and a router, trunk ports for VLAN, access ports for DSCP; {} draws of when flows \
             begin; what is not a number is that of the first",
            draws.len()
        ),
        scale: None,
        measured: format!(
            "VLAN: groups {:?} hop by hop, {} RDMA packets lost, the untagged server {}; DSCP: \
             groups {:?}, {} lost, it {}; pauses of priority 3 alone in both ({} and {}); senders of \
             DSCP 0 to 7 receive pauses of priorities {:?}, {} lost; with switches that map DSCP i to \
             i + 1, of {:?}, which their NICs obey for others, {} lost",
            vlans[0].groups,
            Spread::of(&vlans, |run| run.lost as f64),
            yes(vlans[0].booted),
            dscps[0].groups,
            Spread::of(&dscps, |run| run.lost as f64),
            yes(dscps[0].booted),
            Spread::of(&vlans, |run| run.pauses[3] as f64),
            Spread::of(&dscps, |run| run.pauses[3] as f64),
            alike[0].paused,
            Spread::of(&alike, |run| run.lost as f64),
            shifted[0].paused,
            Spread::of(&shifted, |run| run.lost as f64),
        ),
        checks: vec![
            Check::event(
                "PCP is lost at the subnet boundary",
                vlans.iter().all(|run| run.groups == [3, 0, 0]),
            ),
            Check::event("RDMA packets are dropped for that", vlans.iter().all(|run| run.lost > 0)),
            Check::event(
                "the untagged boot fails on a trunk port",
                vlans.iter().all(|run| !run.booted),
            ),
            Check::event(
                "DSCP survives end to end",
                dscps.iter().all(|run| run.groups == [3, 3, 3] && run.lost == 0),
            ),
            Check::event("boot works with DSCP", dscps.iter().all(|run| run.booted)),
            Check::event(
                "pause frames are of priority 3 in both",
                vlans.iter().chain(&dscps).all(|run| only(&run.pauses)),
            ),
            Check::event(
                "pauses for DSCP i are of priority i, and nothing is lost",
                alike.iter().all(|run| run.paused == by_shift(0) && run.lost == 0),
            ),
            Check::event(
                "with another map in switches than in NICs packets are lost",
                shifted.iter().all(|run| run.paused == by_shift(1) && run.lost > 0),
            ),
        ],
        figures: vec![figure],
    }])
}
