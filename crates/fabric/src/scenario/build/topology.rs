//! `[topology]`: one function for each shape.

use std::collections::BTreeMap;

use rdma::Rate;

use crate::limits::{ALL_PORTS_MAX, CABLE_M_MAX, HOSTS_MAX, PORTS_MAX, SWITCHES_MAX};
use crate::scenario::at::{At, Result};
use crate::scenario::deferred::{Deferred, all_deferred};
use crate::scenario::table::{kinds, table};
use crate::scenario::value::{Value, list, needed, or, otherwise, rate, text, whole, within};
use crate::topology::{
    Cables, ClosShape, End, StaticRoute, Topology, back_to_back, clos, fat_tree, leaf_spine,
    parking_lot, propagation, rail_optimised, single_switch,
};

/// The most of anything that a shape is given.
const SIZE_MAX: u32 = 1 << 16;

/// How many there are of something.
fn size<'a>() -> Value<'a, u32> {
    within(1, SIZE_MAX, "large networks are of layers: shape = \"clos\", for instance")
}

/// The length of a cable.
pub(super) fn metres<'a>() -> Value<'a, u32> {
    within(0, CABLE_M_MAX, ("is more than once around the earth", "the unit is metres"))
}

kinds! {
    /// What hangs on what. Hosts are h0, h1 and so on, except in a list of links.
    Shape<'a> by shape {
        /// Two hosts and a cable.
        "back-to-back" => BackToBack(Access);
        /// Hosts under one switch, s0.
        "single-switch" => SingleSwitch(SingleSwitch);
        /// Racks under leaf0, leaf1 and so on; each of these is linked to every spine: spine0, spine1.
        "leaf-spine" => LeafSpine(LeafSpine);
        /// Three tiers (guo16, figures 1 and 7): tor0-3 is the fourth rack of the first podset, beside
        /// leaf0-1 and spine5.
        "clos" => Clos(Clos);
        /// A fat tree of switches with k ports each: k^3/4 hosts in k pods, named as in a clos.
        "fat-tree" => FatTree(FatTree);
        /// Servers with several NICs, each NIC a host: those of server 0 are h0, h1 and so on, in the order of their
        /// rails. The first NICs of all servers of segment 0 are under rail0-0, the second under rail0-1, and
        /// each of these is linked to every spine.
        "rail-optimised" => RailOptimised(RailOptimised);
        /// A chain of switches, s0, s1 and so on, with a host each and a second one at both ends: flows
        /// to the last host all cross the last link.
        "parking-lot" => ParkingLot(ParkingLot);
        /// Whatever is listed.
        "links" => Links(Links<'a>);
    }
}

/// The links of hosts, and all others that nothing else is said of.
#[derive(Debug)]
pub(super) struct Access {
    rate: Rate,
    pub(super) cable_m: u32,
}

impl Default for Access {
    fn default() -> Self {
        Self { rate: Rate::ZERO, cable_m: 2 }
    }
}

impl Access {
    fn cables(&self) -> Cables {
        Cables::new(self.rate, self.cable_m)
    }
}

table! {
    /// The links of hosts.
    impl Access {
        /// The rate of a link, in both directions.
        rate_gbps = needed(rate()) => rate;
        /// The length of a link.
        cable_m = metres() => cable_m;
    }
}

table! {
    /// The links above the racks.
    struct Uplinks {
        /// The rate of a link between switches.
        uplink_rate_gbps = or("rate_gbps", rate()) => rate: Option<Rate>;
        /// The length of a link between a rack and the layer above.
        uplink_cable_m = or("cable_m", metres()) => cable_m: Option<u32>;
    }
}

impl Uplinks {
    fn cables(&self, access: &Access) -> Cables {
        let metres = self.cable_m.unwrap_or(access.cable_m);
        Cables::new(self.rate.unwrap_or(access.rate), metres)
    }
}

table! {
    /// See [`Shape`].
    struct SingleSwitch {
        /// How many.
        hosts = needed(size()) => hosts: u32;
        ..access: Access;
    }
}

table! {
    /// See [`Shape`].
    struct LeafSpine {
        /// Racks, and so switches of the lower tier.
        leaves = needed(size()) => leaves: u32;
        /// Switches of the upper tier.
        spines = needed(size()) => spines: u32;
        /// Hosts of each rack.
        hosts = needed(size()) => hosts: u32;
        ..access: Access;
        ..uplinks: Uplinks;
    }
}

table! {
    /// See [`Shape`].
    struct Clos {
        /// How many podsets.
        podsets = needed(size()) => podsets: u32;
        /// Racks of a podset.
        tors = needed(size()) => tors: u32;
        /// Leaf switches of a podset; each is linked to all its racks.
        leaves = needed(size()) => leaves: u32;
        /// Spine switches, a multiple of leaves: leaf i of every podset is linked to the i-th part.
        spines = needed(size()) => spines: u32;
        /// Hosts of each rack.
        hosts = needed(size()) => hosts: u32;
        /// The rate of a link between leaf and spine.
        spine_rate_gbps = or("uplink_rate_gbps", rate()) => spine_rate: Option<Rate>;
        /// The length of a link between leaf and spine.
        spine_cable_m = or("uplink_cable_m", metres()) => spine_cable_m: Option<u32>;
        ..access: Access;
        ..uplinks: Uplinks;
    }
    check leaves_have_spines;
}

fn leaves_have_spines(clos: &Clos, at: &At<'_>) -> Result<()> {
    let Clos { leaves, spines, .. } = clos;
    if spines.is_multiple_of(*leaves) {
        return Ok(());
    }
    let message = format!("{spines} spines cannot be dealt out to {leaves} leaves");
    Err(at.wrong("spines", message).hint("make it a multiple of leaves"))
}

table! {
    /// See [`Shape`].
    struct RailOptimised {
        /// Groups of servers that share the switches of their rails.
        segments = otherwise(1, size()) => segments: Option<u32>;
        /// Servers of each segment.
        servers = needed(size()) => servers: u32;
        /// NICs of each server, and so switches of each segment.
        rails = needed(size()) => rails: u32;
        /// Spine switches.
        spines = needed(size()) => spines: u32;
        ..access: Access;
        ..uplinks: Uplinks;
    }
}

table! {
    /// See [`Shape`].
    struct FatTree {
        /// Ports of every switch, an even number.
        k = needed(within(2, 128, PORTS_OF_ALL)) => k: u32;
        ..access: Access;
    }
    check halves_of_switches;
}

const PORTS_OF_ALL: &str = "k is the number of ports of every switch";

fn halves_of_switches(tree: &FatTree, at: &At<'_>) -> Result<()> {
    if tree.k.is_multiple_of(2) {
        return Ok(());
    }
    let message = format!("{} is no even number from 2 to 128", tree.k);
    Err(at.wrong("k", message).hint(PORTS_OF_ALL))
}

table! {
    /// See [`Shape`].
    struct ParkingLot {
        /// How many.
        switches = needed(size()) => switches: u32;
        ..access: Access;
    }
}

table! {
    /// See [`Shape`].
    struct Links<'a> {
        /// The switches.
        switch = all_deferred() => switches: Vec<Deferred<'a, Switch>>;
        /// The names of the hosts; each has one link.
        host = list(text("a name")) => hosts: Vec<String>;
        /// The links. Ports of a switch are numbered in their order.
        link = all_deferred() => links: Vec<Deferred<'a, Link>>;
        /// What must not be left to ECMP.
        route = all_deferred() => routes: Vec<Deferred<'a, Route>>;
        ..access: Access;
    }
}

table! {
    /// A switch of a list of links.
    struct Switch {
        /// What it is called.
        name = needed(text("a name")) => name: String;
        /// How far from the servers: 0 for the top of a rack. Packets go up, then down.
        tier = needed(whole()) => tier: u8;
    }
}

table! {
    /// A link of a list of links.
    struct Link {
        /// One end.
        from = needed(text("a host or switch")) => from: String;
        /// The other.
        to = needed(text("a host or switch")) => to: String;
        /// Its rate.
        rate_gbps = or("the topology's", rate()) => rate: Option<Rate>;
        /// Its length.
        cable_m = or("the topology's", metres()) => cable_m: Option<u32>;
    }
}

table! {
    /// Where packets at one switch for the hosts of another go.
    struct Route {
        /// The switch at which they are.
        at = needed(text("a switch")) => at: String;
        /// The switch whose hosts they are for.
        to = needed(text("a switch")) => to: String;
        /// The neighbours that they may go by.
        via = needed(list(text("a switch"))) => via: Vec<String>;
    }
}

pub(super) fn topology(shape: &Deferred<'_, Shape<'_>>) -> Result<Topology> {
    let at = &shape.at;
    Ok(match shape.kind()? {
        Shape::BackToBack(access) => back_to_back(access.cables()),
        Shape::SingleSwitch(SingleSwitch { hosts, access }) => {
            let each = u64::from(hosts);
            fits(at, [each, 1, each, each])?;
            single_switch(hosts, access.cables())
        }
        Shape::LeafSpine(shape) => racks(&shape, at)?,
        Shape::Clos(shape) => podsets(&shape, at)?,
        Shape::RailOptimised(shape) => on_rails(&shape, at)?,
        Shape::FatTree(FatTree { k, access }) => fat_tree(k, access.cables()),
        Shape::ParkingLot(lot) => parking_lot(lot.switches, lot.access.cables()),
        Shape::Links(shape) => links(&shape, at)?,
    })
}

/// Refuses what there is no room for, before anything of it is made: hosts, switches, links, and the
/// ports of the largest switch.
fn fits(at: &At<'_>, sums: [u64; 4]) -> Result<()> {
    let most = [
        ("hosts", HOSTS_MAX),
        ("switches", SWITCHES_MAX),
        ("links", ALL_PORTS_MAX / 2),
        ("ports of one switch", PORTS_MAX),
    ];
    for (sum, (what, most)) in sums.into_iter().zip(most) {
        if sum > most as u64 {
            let message = format!("these are {sum} {what}, and there is room for {most}");
            return Err(at.wrong("shape", message).hint("make one of the sizes smaller"));
        }
    }
    Ok(())
}

fn racks(shape: &LeafSpine, at: &At<'_>) -> Result<Topology> {
    let LeafSpine { access, uplinks, .. } = shape;
    let [leaves, spines, hosts] = [shape.leaves, shape.spines, shape.hosts].map(u64::from);
    let links = leaves * hosts + leaves * spines;
    fits(at, [leaves * hosts, leaves + spines, links, (hosts + spines).max(leaves)])?;
    let (down, up) = (access.cables(), uplinks.cables(access));
    Ok(leaf_spine(shape.leaves, shape.spines, shape.hosts, down, up))
}

fn on_rails(shape: &RailOptimised, at: &At<'_>) -> Result<Topology> {
    let RailOptimised { segments, servers, rails, spines, access, uplinks } = shape;
    let sizes = [segments.unwrap_or(1), *servers, *rails];
    let [segments, servers, rails] = sizes.map(u64::from);
    let (switches, spine) = (segments * rails, u64::from(*spines));
    let hosts = switches.saturating_mul(servers);
    let links = hosts.saturating_add(switches.saturating_mul(spine));
    fits(at, [hosts, switches + spine, links, (servers + spine).max(switches)])?;
    Ok(rail_optimised(sizes, *spines, access.cables(), uplinks.cables(access)))
}

fn podsets(shape: &Clos, at: &At<'_>) -> Result<Topology> {
    let Clos { podsets, tors, leaves, spines, hosts, spine_rate, spine_cable_m, access, uplinks } =
        shape;
    let tor_cables = uplinks.cables(access);
    let shape = ClosShape {
        podsets: *podsets,
        tors: *tors,
        leaves: *leaves,
        spines: *spines,
        hosts: *hosts,
        host_cables: access.cables(),
        tor_cables,
        spine_cables: Cables {
            rate: spine_rate.unwrap_or(tor_cables.rate),
            propagation: spine_cable_m.map_or(tor_cables.propagation, propagation),
        },
    };
    let [podsets, tors, leaves, spines, hosts] =
        [*podsets, *tors, *leaves, *spines, *hosts].map(u64::from);
    let racks = podsets * tors;
    let links = racks.saturating_mul(hosts + leaves).saturating_add(podsets * spines);
    let ports = (hosts + leaves).max(tors + spines / leaves).max(podsets);
    let switches = podsets * (tors + leaves) + spines;
    fits(at, [racks.saturating_mul(hosts), switches, links, ports])?;
    Ok(clos(&shape))
}

fn links(shape: &Links<'_>, at: &At<'_>) -> Result<Topology> {
    let mut topology = Topology::default();
    let mut ends: BTreeMap<String, End> = BTreeMap::new();
    let mut name = |key: &str, name: &str, end| match ends.insert(name.to_owned(), end) {
        Some(_) => Err(at
            .wrong(key, format!("{name:?} is there twice"))
            .hint("hosts and switches have names of their own")),
        None => Ok(()),
    };
    for switch in &shape.switches {
        let switch = switch.read()?;
        let index = topology.add_switch(switch.name.clone(), switch.tier);
        name("switch", &switch.name, End::Switch(index))?;
    }
    for host in &shape.hosts {
        let index = topology.add_host(host.clone());
        name("host", host, End::Host(index))?;
    }
    let mut ports: BTreeMap<u32, usize> = BTreeMap::new();
    for link in &shape.links {
        let (at, link) = (&link.at, link.read()?);
        let end = |key: &str, name: &str| {
            let missing = || {
                at.wrong(key, format!("there is no host or switch {name:?}"))
                    .hint("add it to switch or host, or change the link")
            };
            ends.get(name).copied().ok_or_else(missing)
        };
        let (from, to) = (end("from", &link.from)?, end("to", &link.to)?);
        if from == to {
            return Err(at
                .wrong("to", format!("{:?} is at both ends", link.to))
                .hint("a link is between two nodes"));
        }
        for end in [from, to] {
            if let End::Host(host) = end {
                *ports.entry(host).or_default() += 1;
            }
        }
        let metres = link.cable_m.unwrap_or(shape.access.cable_m);
        topology.link(from, to, link.rate.unwrap_or(shape.access.rate), propagation(metres));
    }
    for (index, host) in shape.hosts.iter().enumerate() {
        let links = ports.get(&(index as u32)).copied().unwrap_or(0);
        if links != 1 {
            let message = format!("host {host:?} has {links} links, and one port");
            return Err(at.wrong("host", message).hint("give it one link, to a switch or a host"));
        }
    }
    for route in &shape.routes {
        let (at, route) = (&route.at, route.read()?);
        let switch = |key: &str, name: &str| match topology.find(name) {
            Some(End::Switch(index)) => Ok(index),
            _ => Err(at
                .wrong(key, format!("there is no switch {name:?}"))
                .hint("a route is from a switch to another, by switches between them")),
        };
        let via = route.via.iter().map(|name| switch("via", name)).collect::<Result<_>>()?;
        let route = StaticRoute { at: switch("at", &route.at)?, to: switch("to", &route.to)?, via };
        topology.routes.push(route);
    }
    Ok(topology)
}
