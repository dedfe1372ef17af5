//! 3 and figure 3: where the priority of a packet stands, in its VLAN tag or in its DSCP.

use fabric::Network;
use fabric::counters::Drop;
use fabric::nic::NicConfig;
use fabric::pfc::PRIORITIES;
use fabric::switch::config::{PortMode, Trust};
use fabric::topology::End;
use fabric::workload::FlowSpec;

use super::scenario;
use crate::figure::{Figure, Mark};
use crate::study::Context;
use crate::{Check, Error, Outcome};

const DSCP: &str = "guo16.dscp.pfc";
pub(super) const CLAIMS: &[&str] = &[DSCP];

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

fn measure(context: &Context<'_>, trust: Trust) -> Result<Run, Error> {
    let mut scenario = scenario!(context, "dscp.toml")?;
    let config = &mut scenario.network;
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

/// The priority group at the last hop of a flow of each DSCP from 0 to 7.
fn by_dscp(context: &Context<'_>) -> Result<Vec<usize>, Error> {
    let mut queues = Vec::new();
    for dscp in 0..PRIORITIES as u8 {
        let mut scenario = scenario!(context, "dscp.toml")?;
        let config = &mut scenario.network;
        let of = config.flows[ACROSS];
        config.flows = vec![FlowSpec { dscp, message_bytes: 1_000_000, ..of }];
        let mut network = Network::new(scenario.network)?;
        network.run(scenario.end);
        queues.extend(groups(&network, of.source, of.destination).pop());
    }
    Ok(queues)
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    context.say("dscp: priority in the VLAN tag");
    let vlan = measure(context, Trust::Pcp)?;
    context.say("dscp: priority in the DSCP");
    let dscp = measure(context, Trust::Dscp)?;
    let mapped = by_dscp(context)?;
    let mut figure = Figure::new(
        "guo16-figure-3",
        "Figure 3: the priority group of an RDMA flow of priority 3, by switch",
        Mark::Line,
    )
    .axes(("switch", ""), ("priority_group", ""))
    .caption("Group 3 is lossless, group 0 is not.");
    for (name, run) in [("VLAN", &vlan), ("DSCP", &dscp)] {
        for (at, &queue) in ["first ToR", "router", "last ToR"].into_iter().zip(&run.groups) {
            figure.point(name, at, queue as f64);
        }
    }
    let identity: Vec<usize> = (0..PRIORITIES).collect();
    let only = |pauses: &[u64; PRIORITIES]| {
        pauses.iter().enumerate().all(|(priority, &sent)| (sent > 0) == (priority == 3))
    };
    let yes = |so: bool| if so { "boots" } else { "does not boot" };
    Ok(vec![Outcome {
        claim: context.claim(DSCP)?,
        ran: "two racks and a router, trunk ports for VLAN, access ports for DSCP".to_owned(),
        scale: None,
        measured: format!(
            "VLAN: groups {:?} hop by hop, {} RDMA packets lost, the untagged server {}; DSCP: \
             groups {:?}, {} lost, it {}; pauses of priority 3 alone in both ({} and {}); DSCP 0 \
             to 7 are in groups {mapped:?}",
            vlan.groups,
            vlan.lost,
            yes(vlan.booted),
            dscp.groups,
            dscp.lost,
            yes(dscp.booted),
            vlan.pauses[3],
            dscp.pauses[3],
        ),
        checks: vec![
            Check::event("PCP is lost at the subnet boundary", vlan.groups == [3, 0, 0]),
            Check::event("RDMA packets are dropped for that", vlan.lost > 0),
            Check::event("the untagged boot fails on a trunk port", !vlan.booted),
            Check::event("DSCP survives end to end", dscp.groups == [3, 3, 3] && dscp.lost == 0),
            Check::event("boot works with DSCP", dscp.booted),
            Check::event(
                "pause frames are of priority 3 in both",
                only(&vlan.pauses) && only(&dscp.pauses),
            ),
            Check::event("DSCP i maps to priority i", mapped == identity),
        ],
        figures: vec![figure],
    }])
}
