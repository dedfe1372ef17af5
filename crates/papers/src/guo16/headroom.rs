//! 2: how much headroom a class needs after XOFF, and for how many classes there is room.

use fabric::counters::Drop;
use fabric::switch::config::{GroupConfig, PortConfig};
use fabric::switch::{Frames, headroom_bytes, sonic_headroom_bytes};
use fabric::topology::{End, LinkSpec, propagation};
use fabric::{BuildError, Network};
use rdma::{Rate, Span};

use super::scenario;
use crate::figure::{Figure, Mark};
use crate::study::Context;
use crate::{Check, Error, Outcome};

const HEADROOM: &str = "guo16.headroom";
pub(super) const CLAIMS: &[&str] = &[HEADROOM];

/// A frame of 1,024 bytes of payload, as in figure 7.
const FRAME_BYTES: u32 = 1_086;
/// Headroom of a priority group in the profile that SONiC has for the Arista 7050-QX32, a switch of
/// those years with 32 ports of 40 Gb/s and 12 MB: `xoff` in its `pg_profile_lookup.ini`, the same up
/// to 300 m. It is for the worst of frame lengths and counts in cells.
const PROFILE_BYTES: u32 = 76_800;

/// Packets lost because headroom was too small, and the most of it that was used, whenever the NIC stops.
fn blocked(context: &Context<'_>, metres: u32, headroom: u32) -> Result<(u64, u64), Error> {
    let steps: u64 = if context.options.quick { 20 } else { 60 };
    let mut lost = 0;
    let mut used = 0;
    for step in 0..steps {
        let mut scenario = scenario!(context, "headroom.toml")?;
        let config = &mut scenario.network;
        for link in &mut config.topology.links {
            link.propagation = propagation(metres);
        }
        config.switch.groups[3].headroom_bytes = Some(headroom);
        config.switch.groups[4] = GroupConfig::LOSSY;
        let later = Span::from_ns(317) * step;
        for fault in &mut config.faults {
            fault.at += later;
        }
        let mut network = Network::new(scenario.network)?;
        network.run(scenario.end + later);
        lost += network.drops().of(Drop::Headroom);
        for (_, counters) in network.switch_counters(0) {
            used = used.max(counters.group_peak_headroom_bytes[3]);
        }
    }
    Ok((lost, used))
}

/// The source of a port's headroom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    /// [`headroom_bytes`]: frames of one length, to the byte.
    Formula,
    /// [`sonic_headroom_bytes`]: a long frame of any class, and a slower answer. Cells count as full,
    /// and the chip's own share is not in it.
    Sonic,
    /// [`PROFILE_BYTES`].
    Profile,
}

impl By {
    const ALL: [(Self, &'static str); 3] = [
        (Self::Formula, "formula"),
        (Self::Sonic, "SONiC calculation"),
        (Self::Profile, "SONiC profile"),
    ];

    /// For a port with such a link, if not by the formula, which every switch knows.
    fn bytes(self, link: &LinkSpec) -> Option<u32> {
        match self {
            Self::Formula => None,
            Self::Sonic => sonic_headroom_bytes(link.rate, link.propagation, FRAME_BYTES)
                .map(|bytes| bytes.min(u64::from(u32::MAX)) as u32),
            Self::Profile => Some(PROFILE_BYTES),
        }
    }
}

/// What headroom for `classes` classes leaves of the buffer of a Leaf in bytes; nothing if it does
/// not fit.
fn left(context: &Context<'_>, classes: usize, buffer_bytes: u32, by: By) -> Result<u32, Error> {
    let mut scenario = scenario!(context, "leaf-buffer.toml")?;
    let config = &mut scenario.network;
    let leaf = config.topology.switches.iter().position(|switch| switch.tier == 1);
    let leaf = leaf.unwrap_or(0) as u32;
    // The other ports have all the room that they need.
    let mut of_leaf = config.switch.clone();
    config.switch.buffer_bytes = 1 << 30;
    for (index, group) in of_leaf.groups.iter_mut().enumerate() {
        *group = if index < classes { GroupConfig::LOSSLESS } else { GroupConfig::LOSSY };
    }
    let own = |link: &&LinkSpec| link.ends.contains(&End::Switch(leaf));
    for (local, link) in (0..).zip(config.topology.links.iter().filter(own)) {
        let mut groups = of_leaf.groups;
        for group in &mut groups {
            group.headroom_bytes = by.bytes(link);
        }
        let port = PortConfig { groups, queues: of_leaf.queues, watchdog: None };
        of_leaf.ports.insert(local, port);
    }
    of_leaf.buffer_bytes = buffer_bytes;
    config.switches.insert(leaf, of_leaf);
    match Network::new(scenario.network) {
        Ok(network) => Ok(network.shared_bytes(leaf).unwrap_or(0)),
        Err(BuildError::BufferTooSmall { .. }) => Ok(0),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    let claim = context.claim(HEADROOM)?;
    let longest = claim.value("cable_m") as u32;
    let mut lengths = Figure::new(
        "guo16-headroom",
        "Headroom by cable length: what is used, and what the formula reserves",
        Mark::Line,
    )
    .axes(("cable", "m"), ("headroom", "bytes"));
    let (mut lossless, mut lossy, mut at_longest) = (true, true, (0, 0));
    let response = fabric::switch::config::SwitchConfig::default().pfc;
    for metres in [2, 20, 100, 200, longest] {
        context.say(&format!("headroom: cables of {metres} m"));
        let (cable, frames) = (propagation(metres), Frames::of(FRAME_BYTES));
        let formula = headroom_bytes(Rate::from_gbps(40), cable, Span::ZERO, frames, &response);
        let (lost, used) = blocked(context, metres, formula)?;
        lossless &= lost == 0;
        lengths.point("reserved by the formula", f64::from(metres), f64::from(formula));
        lengths.point("used at most", f64::from(metres), used as f64);
        let (lost, _) = blocked(context, metres, used as u32 - 1)?;
        lossy &= lost > 0;
        at_longest = (formula, used);
    }
    let mut classes = Figure::new(
        "guo16-headroom-classes",
        "What headroom leaves of the buffer of figure 7's Leaf",
        Mark::Line,
    )
    .axes(("lossless_classes", ""), ("left_to_share", "percent"));
    context.say("headroom: classes in the buffer of a Leaf");
    let buffers = ["buffer_small_mb", "buffer_large_mb"].map(|name| claim.value(name));
    let mut fits = Vec::new();
    for (by, name) in By::ALL {
        for megabytes in buffers {
            let bytes = (megabytes * 1e6) as u32;
            let mut most = 0;
            for count in 1..=8 {
                let left = left(context, count, bytes, by)?;
                let part = f64::from(left) / f64::from(bytes) * 100.0;
                classes.point(format!("{megabytes} MB, {name}"), count as f64, part);
                if left > 0 {
                    most = count;
                }
            }
            fits.push((by, name, megabytes, most));
        }
    }
    let all: Vec<String> = fits
        .iter()
        .map(|(_, name, megabytes, most)| format!("{most} in {megabytes} MB by the {name}"))
        .collect();
    let not_eight = |by: By| fits.iter().filter(|of| of.0 == by).all(|of| of.3 < 8);
    Ok(vec![Outcome {
        ran: format!(
            "40 Gb/s, cables of 2 to {longest} m; the Leaf of figure 7, 24 ports of 20 m and 16 of \
             300 m; headroom by our formula, by SONiC's calculation without cells, and by the \
             {PROFILE_BYTES} bytes of a SONiC profile of that switch generation"
        ),
        scale: None,
        measured: format!(
            "at {longest} m the formula reserves {} bytes, {} are used, and with one byte less than \
             that packets are lost; room for classes: {}",
            at_longest.0,
            at_longest.1,
            all.join(", ")
        ),
        checks: vec![
            Check::event("nothing is lost with the headroom of the formula", lossless),
            Check::event("packets are lost with a byte less than what is used", lossy),
            Check::event("two classes fit, by each", fits.iter().all(|of| of.3 >= 2)),
            Check::event("eight do not, by the profile", not_eight(By::Profile)),
            Check::event("eight do not, by SONiC's calculation", not_eight(By::Sonic)).because(
                "it leaves out cells that short frames do not fill, and the chip's own share; the \
                 profile, which has them, is more than twice as much",
            ),
            Check::event("eight do not, by the formula", not_eight(By::Formula)).because(
                "the formula counts frames of one length to the byte; real headroom is for the \
                 worst length, in cells, and more than three times as much",
            ),
        ],
        figures: vec![lengths, classes],
        claim,
    }])
}
