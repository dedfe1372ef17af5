//! 2: how much headroom a class needs after XOFF, and for how many classes there is room.
//!
//! The buffer of a switch is given out in cells, of which a short frame takes a whole one. So headroom that
//! is right to the byte is too little when frames are short, and what is right takes more of the buffer.

use fabric::counters::Drop;
use fabric::random::Random;
use fabric::switch::config::{GroupConfig, PortConfig, SwitchConfig, Threshold};
use fabric::switch::{Cell, Frames, SONIC_MTU_BYTES, headroom_bytes, sonic_headroom_bytes};
use fabric::topology::{End, LinkSpec, propagation};
use fabric::workload::{FlowSpec, Verb};
use fabric::{BuildError, Network};
use rdma::{Rate, Span};

use super::scenario;
use crate::draws::{Spread, each, some};
use crate::figure::{Figure, Mark};
use crate::study::Context;
use crate::{Check, Error, Options, Outcome};

const HEADROOM: &str = "guo16.headroom";
pub(super) const CLAIMS: &[&str] = &[HEADROOM];

/// A frame of 1,024 bytes of payload, as in figure 7.
const FRAME_BYTES: u32 = 1_086;
/// A cell of those switches (Trident 2): the size of the pools that SONiC has for the Arista 7050-QX32,
/// 12,766,208 bytes, is a multiple.
const CELL_BYTES: u32 = 208;
/// Headroom of a priority group in the profile that SONiC has for the Arista 7050-QX32, a switch of
/// those years with 32 ports of 40 Gb/s and 12 MB: `xoff` in its `pg_profile_lookup.ini`, the same up
/// to 300 m. It is for the worst of frame lengths and counts in cells.
const PROFILE_BYTES: u32 = 76_800;
/// Moments at which the NIC stops, and within what.
const MOMENTS: u64 = 24;
const WITHIN: Span = Span::from_us(20);
/// Cables whose headroom is tried, beside the longest.
const METRES: [u32; 2] = [20, 100];
/// With headroom that is too little: for a cable in the rack.
const IN_RACK_M: u32 = 2;

const fn cells() -> Cell {
    match Cell::new(CELL_BYTES) {
        Some(cell) => cell,
        None => Cell::BYTE,
    }
}

/// What is tried at a cable.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    cell: Cell,
    /// Of what comes: frames of 66 bytes, or of [`FRAME_BYTES`].
    short: bool,
    /// How headroom was computed: for cells or bytes, and whether for a cable in the rack.
    counted: Cell,
    in_rack: bool,
}

const CASES: [Case; 5] = [
    Case { name: "short frames", cell: cells(), short: true, counted: cells(), in_rack: false },
    Case { name: "long frames", cell: cells(), short: false, counted: cells(), in_rack: false },
    Case {
        name: "short frames, headroom to the byte",
        cell: cells(),
        short: true,
        counted: Cell::BYTE,
        in_rack: false,
    },
    Case {
        name: "the same without cells",
        cell: Cell::BYTE,
        short: true,
        counted: Cell::BYTE,
        in_rack: false,
    },
    Case {
        name: "short frames, headroom of a cable of 2 m",
        cell: cells(),
        short: true,
        counted: cells(),
        in_rack: true,
    },
];

impl Case {
    /// What is reserved at a cable of so many metres.
    fn headroom(self, metres: u32) -> u32 {
        let metres = if self.in_rack { IN_RACK_M } else { metres };
        let frames = Frames { longest_bytes: FRAME_BYTES, cell: self.counted };
        let pfc = SwitchConfig::default().pfc;
        headroom_bytes(Rate::from_gbps(40), propagation(metres), Span::ZERO, frames, &pfc)
    }
}

/// Packets lost because headroom was too small, and the most of it that was used, in bytes of cells.
fn blocked(options: Options, case: Case, metres: u32) -> Result<(u64, u64), Error> {
    let mut scenario = scenario!(options, "headroom.toml")?;
    let config = &mut scenario.network;
    for link in &mut config.topology.links {
        link.propagation = propagation(metres);
    }
    config.switch.cell = case.cell;
    config.switch.groups[3].headroom_bytes = Some(case.headroom(metres));
    config.switch.groups[4] = GroupConfig::LOSSY;
    if case.short {
        let flow = &mut config.flows[0];
        *flow = FlowSpec { verb: Verb::Send, message_bytes: 4, depth: 4_000, ..*flow };
    }
    let later = Span::from_ps(Random::new(options.seed).below(WITHIN.as_ps()));
    for fault in &mut config.faults {
        fault.at += later;
    }
    let mut network = Network::new(scenario.network)?;
    network.run(scenario.end + later);
    let counters = network.switch_counters(0);
    let used = counters.iter().map(|(_, of)| of.group_peak_headroom_bytes[3]).max();
    Ok((network.drops().of(Drop::Headroom), used.unwrap_or(0)))
}

/// The moments at which packets were lost, of all, and what was used.
struct Blocked {
    moments: u64,
    losing: u64,
    reserved: u32,
    used: Spread,
}

impl Blocked {
    fn measure(context: &Context<'_>, case: Case, metres: u32) -> Result<Self, Error> {
        let draws = some(context.options, MOMENTS);
        let runs = each(&draws, |options| blocked(options, case, metres))?;
        Ok(Self {
            moments: runs.len() as u64,
            losing: runs.iter().filter(|(lost, _)| *lost > 0).count() as u64,
            reserved: case.headroom(metres),
            used: Spread::of(&runs, |&(_, used)| used as f64),
        })
    }
}

/// The source of a port's headroom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    /// [`headroom_bytes`] in cells, and two frames: what a switch of the simulator reserves by itself.
    Cells,
    /// The same, if every cable were as long as the longest.
    Far,
    /// The first to the byte.
    Bytes,
    /// [`sonic_headroom_bytes`]: a long frame of any class, and a slower answer. Cells count as full,
    /// and the chip's own share is not in it.
    Sonic,
    /// [`PROFILE_BYTES`].
    Profile,
}

impl By {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Cells, "formula in cells"),
        (Self::Far, "formula in cells at 300 m"),
        (Self::Bytes, "formula to the byte"),
        (Self::Sonic, "SONiC calculation"),
        (Self::Profile, "SONiC profile"),
    ];

    /// For a port with such a link, if not by the formula, which every switch knows.
    fn bytes(self, link: &LinkSpec) -> Option<u32> {
        match self {
            Self::Cells | Self::Far | Self::Bytes => None,
            Self::Sonic => {
                sonic_headroom_bytes(link.rate, link.propagation, SONIC_MTU_BYTES, FRAME_BYTES)
                    .map(|bytes| bytes.min(u64::from(u32::MAX)) as u32)
            }
            Self::Profile => Some(PROFILE_BYTES),
        }
    }
}

/// What headroom leaves of the buffer of a Leaf.
struct Left {
    /// In bytes; nothing if the headroom does not fit.
    shared: u32,
    /// What each of so many ports has for a mark before it pauses, if all fill together.
    to_mark: f64,
}

impl Left {
    /// Zhu et al., "Congestion Control for Large-Scale RDMA Deployments" (SIGCOMM 2015), section 4: ECN
    /// has to act before PFC, so a queue marks below the threshold of a group over the number of
    /// ports; below one frame, that is "infeasible".
    fn is_usable(&self) -> bool {
        self.to_mark >= f64::from(FRAME_BYTES)
    }
}

/// What headroom for `classes` classes leaves.
fn left(context: &Context<'_>, classes: usize, buffer_bytes: u32, by: By) -> Result<Left, Error> {
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
    of_leaf.cell = if by == By::Bytes { Cell::BYTE } else { cells() };
    let own = |link: &&LinkSpec| link.ends.contains(&End::Switch(leaf));
    let longest = config.topology.links.iter().map(|link| link.propagation).max();
    for link in config.topology.links.iter_mut().filter(|_| by == By::Far) {
        link.propagation = longest.unwrap_or(link.propagation);
    }
    let mut ports = 0;
    for (local, link) in (0..).zip(config.topology.links.iter().filter(own)) {
        ports += 1;
        let mut groups = of_leaf.groups;
        for group in &mut groups {
            group.headroom_bytes = by.bytes(link);
        }
        let port = PortConfig { groups, queues: of_leaf.queues, watchdog: None };
        of_leaf.ports.insert(local, port);
    }
    of_leaf.buffer_bytes = buffer_bytes;
    let alpha = match of_leaf.groups[0].threshold {
        Threshold::Dynamic { exponent } => 2f64.powi(exponent.into()),
        Threshold::Static { .. } => f64::NAN,
    };
    config.switches.insert(leaf, of_leaf);
    let shared = match Network::new(scenario.network) {
        Ok(network) => network.shared_bytes(leaf).unwrap_or(0),
        Err(BuildError::BufferTooSmall { .. }) => 0,
        Err(error) => return Err(error.into()),
    };
    let full = alpha * f64::from(shared) / (1.0 + alpha * f64::from(ports * classes as u32));
    Ok(Left { shared, to_mark: full / f64::from(ports) })
}

/// What is lost and used, by cable and case.
struct Lengths {
    figure: Figure,
    told: Vec<String>,
    /// By [`CASES`]: whether nothing was lost at any cable, and whether something was at the longest, at
    /// every moment.
    none: [bool; CASES.len()],
    always: [bool; CASES.len()],
}

fn lengths(context: &mut Context<'_>, longest: u32) -> Result<Lengths, Error> {
    let figure = Figure::new(
        "guo16-headroom",
        "Headroom by cable length: what is used, and what the formula reserves",
        Mark::Line,
    )
    .axes(("cable", "m"), ("headroom", "bytes"))
    .caption("Of the most that was used at any moment, in cells of 208 bytes.");
    let (none, always) = ([true; CASES.len()], [false; CASES.len()]);
    let mut made = Lengths { figure, told: Vec::new(), none, always };
    for metres in METRES.into_iter().chain([longest]) {
        context.say(&format!("headroom: cables of {metres} m"));
        for (index, case) in CASES.into_iter().enumerate() {
            let run = Blocked::measure(context, case, metres)?;
            made.none[index] &= run.losing == 0;
            if run.losing == 0 {
                let line = |what: &str| format!("{}, {what}", case.name);
                made.figure.point(line("reserved"), f64::from(metres), f64::from(run.reserved));
                made.figure.point(line("used"), f64::from(metres), run.used.most());
            }
            if metres == longest {
                made.always[index] = run.losing == run.moments;
                made.told.push(format!(
                    "{}: {} of {} bytes used, lost at {} of {} moments",
                    case.name, run.used, run.reserved, run.losing, run.moments
                ));
            }
        }
    }
    Ok(made)
}

/// How many classes fit, and how many leave a pool that is of use, by source and buffer.
struct Room {
    by: By,
    name: &'static str,
    megabytes: f64,
    fit: usize,
    usable: usize,
    /// What two classes leave, in per cent.
    two_leave: f64,
}

fn rooms(context: &mut Context<'_>, buffers: [f64; 2]) -> Result<(Vec<Room>, Figure), Error> {
    context.say("headroom: classes in the buffer of a Leaf");
    let mut figure = Figure::new(
        "guo16-headroom-classes",
        "What headroom leaves of the buffer of figure 7's Leaf",
        Mark::Line,
    )
    .axes(("lossless_classes", ""), ("left_to_share", "percent"));
    let mut rooms = Vec::new();
    for (by, name) in By::ALL {
        for megabytes in buffers {
            let bytes = (megabytes * 1e6) as u32;
            let mut room = Room { by, name, megabytes, fit: 0, usable: 0, two_leave: 0.0 };
            for count in 1..=8 {
                let left = left(context, count, bytes, by)?;
                let part = f64::from(left.shared) / f64::from(bytes) * 100.0;
                figure.point(format!("{megabytes} MB, {name}"), count as f64, part);
                if left.shared > 0 {
                    room.fit = count;
                }
                if left.is_usable() {
                    room.usable = count;
                }
                if count == 2 {
                    room.two_leave = part;
                }
            }
            rooms.push(room);
        }
    }
    Ok((rooms, figure))
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    let claim = context.claim(HEADROOM)?;
    let longest = claim.value("cable_m") as u32;
    let lengths = lengths(context, longest)?;
    let (rooms, classes) =
        rooms(context, ["buffer_small_mb", "buffer_large_mb"].map(|name| claim.value(name)))?;
    let told: Vec<String> = rooms
        .iter()
        .map(|room| {
            format!(
                "{} MB by the {}: {} fit, {} leave a usable pool, two leave {:.0} %",
                room.megabytes, room.name, room.fit, room.usable, room.two_leave
            )
        })
        .collect();
    let in_cells = || rooms.iter().filter(|room| room.by == By::Cells);
    Ok(vec![Outcome {
        ran: format!(
            "40 Gb/s, cables of {} to {longest} m, frames of 66 bytes or {FRAME_BYTES}, cells of \
             {CELL_BYTES}; {} moments at which the NIC stops, within {WITHIN}; the Leaf of figure 7, 24 \
             ports of 20 m and 16 of 300 m; a pool is usable if, with all groups full at alpha 1/16, \
             a port can mark a frame before it pauses (Zhu 15, 4)",
            METRES[0],
            some(context.options, MOMENTS).len(),
        ),
        scale: None,
        measured: format!(
            "at {longest} m {}. Classes: {}",
            lengths.told.join("; "),
            told.join("; ")
        ),
        checks: vec![
            Check::event(
                "nothing is lost with the headroom of the formula, at any cable, moment and frame",
                lengths.none[0] && lengths.none[1],
            ),
            Check::event(
                format!(
                    "with that of a cable of 2 m, packets are lost at {longest} m at every moment"
                ),
                lengths.always[4],
            ),
            Check::event(
                format!(
                    "where it counts bytes, short frames are lost at {longest} m at every moment"
                ),
                lengths.always[2],
            ),
            Check::event(
                "and are not, at any cable, where the buffer counts bytes, too",
                lengths.none[3],
            ),
            Check::event(
                "two classes leave a usable pool, in cells",
                in_cells().all(|room| room.usable >= 2),
            ),
            Check::event("eight do not, in cells", in_cells().all(|room| room.usable < 8)),
            Check::event(
                "eight do not fit at all where every cable is of 300 m",
                rooms.iter().filter(|room| room.by == By::Far).all(|room| room.fit < 8),
            ),
        ],
        figures: vec![lengths.figure, classes],
        claim,
    }])
}
