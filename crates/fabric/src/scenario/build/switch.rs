//! `[switch]` and `[switches.NAME]`.

use rdma::{Rate, Span};

use super::theirs::{BALANCERS, Theirs};
use crate::extend::Extensions;
use crate::limits::CELL_BYTES_MAX;
use crate::pfc::{PRIORITIES, PfcConfig};
use crate::scenario::at::{At, Entry, Result};
use crate::scenario::deferred::{Deferred, inner};
use crate::scenario::table::{Keys, table};
use crate::scenario::value::{
    Value, choice, dscp_map, flag, list, named, named_and, needed, or, otherwise, priorities,
    probability, rate, text, time, time_from, whole, within,
};
use crate::switch::Cell;
use crate::switch::config::{
    ALPHA_EXPONENTS, Balance, EcnConfig, GroupConfig, PortConfig, QueueConfig, Schedule,
    SwitchConfig, TableConfig, Threshold, WatchdogConfig, alpha_of,
};
use crate::switch::models::Model;

const LOSSLESS: GroupConfig = GroupConfig::LOSSLESS;

/// The alpha of lossless groups.
fn alpha_of_lossless() -> i8 {
    match LOSSLESS.threshold {
        Threshold::Dynamic { exponent } => exponent,
        Threshold::Static { .. } => 0,
    }
}

/// The weights of queues.
fn weights_of_queues() -> [u8; PRIORITIES] {
    SwitchConfig::default().queues.map(|queue| match queue.schedule {
        Schedule::Weighted(weight) => weight,
        Schedule::Strict => 0,
    })
}

pub(super) fn some<'a>() -> Value<'a, u8> {
    priorities("a list of priorities: [3, 4], for instance")
}

const FLOWLET_GAP: Span = Span::from_us(500);

fn balance<'a>() -> Value<'a, Balance> {
    named_and(Balance::ALL.map(|balance| (balance.name(), balance)), Extensions::balances)
}

fn model<'a>() -> Value<'a, Model> {
    named(Model::ALL.map(|model| (model.name, model)))
}

table! {
    /// The switches. `[switches.NAME]` has the same keys, for one of them.
    struct Switch with config: SwitchConfig {
        /// A SONiC `config_db.json`, beside the scenario. Keys beside it count before what it says.
        config_db = or("none", text("a file")) => pub(super) config_db: Option<String>;
        /// Its port that each link of the switch is at, in the order of the links.
        config_db_ports =
            or("its first", list(text("a port")))
            => pub(super) config_db_ports: Option<Vec<String>>;
        /// The chip, whose buffer, cells and latency count unless keys beside it say others.
        model = or("none: 12 MB, in bytes", model()) => model: Option<Model>;
        /// Which field says a packet's class.
        trust = choice() => config.trust;
        /// The class of a packet by its DSCP, and so its priority group, queue and PFC priority.
        dscp_to_class = dscp_map() => config.dscp_to_class;
        /// Whether packets leave with a VLAN tag towards servers.
        server_ports = choice() => config.server_ports;
        /// The shared packet buffer, reserves and headroom included.
        buffer_bytes =
            otherwise(SwitchConfig::default().buffer_bytes, whole())
            => buffer_bytes: Option<u32>;
        /// The buffer is given out in cells of so many bytes, 208 in guo16's switches; a frame takes whole
        /// ones, and limits count them. 1: to the byte.
        cell_bytes = otherwise(Cell::BYTE, cell()) => cell: Option<Cell>;
        /// The priorities that are paused, and not dropped.
        lossless_priorities =
            otherwise(lossless(&SwitchConfig::default()), some()) => lossless: Option<u8>;
        /// A lossless priority group may take so many times what is still free of the buffer.
        alpha = otherwise(alpha_of_lossless(), alpha()) => exponent: Option<i8>;
        /// The same in bytes, in the place of alpha.
        threshold_bytes = or("alpha counts", whole()) => threshold_bytes: Option<u32>;
        /// Bytes that a lossless priority group has for itself.
        reserve_bytes = otherwise(LOSSLESS.reserve_bytes, whole()) => reserve_bytes: Option<u32>;
        /// Bytes for what arrives at a lossless priority group after XOFF.
        headroom_bytes =
            or("of rate, cable and MTU of each port", whole()) => headroom_bytes: Option<u32>;
        /// The part of the buffer that all headrooms share.
        headroom_pool_bytes = or("each has its own", whole()) => config.headroom_pool_bytes;
        /// XON is sent when a group is so far below its threshold, or empty.
        xon_offset_bytes =
            otherwise(LOSSLESS.xon_offset_bytes, whole()) => xon_offset_bytes: Option<u32>;
        /// XON is sent as well when a group takes no more than so much of shared memory.
        xon_bytes = otherwise(LOSSLESS.xon_bytes, whole()) => xon_bytes: Option<u32>;
        /// How long a queue may grow, for packets of lossy groups alone.
        lossy_queue_bytes =
            or("the buffer is the limit", whole()) => lossy_queue_bytes: Option<u32>;
        /// The shares of the queues in deficit round robin.
        weights = otherwise(weights_of_queues(), weights()) => weights: Option<[u8; PRIORITIES]>;
        /// Queues that go before all that are not in the list.
        strict_queues = or("none", some()) => strict: Option<u8>;
        /// Pause frames.
        pfc = Keys => config.pfc;
        /// How long a packet takes from its last bit to its queue; from its head, where it is cut through.
        latency_ns = otherwise(Span::ZERO, time()) => latency: Option<Span>;
        /// Whether a packet that need not wait leaves when its first 64 bytes are here, by ports that are not
        /// faster than that by which it came; what waits, and what a faster port sends, is stored.
        cut_through = flag() => config.cut_through;
        /// Which of several next hops a packet takes: one for each flow, one for each packet, or one for
        /// each flowlet.
        balance = otherwise(Balance::default(), balance()) => balance: Option<Balance>;
        /// How long a gap is at least, for balance "flowlet"; CONGA (Alizadeh et al. 2014) has 500.
        flowlet_gap_us = otherwise(FLOWLET_GAP, time()) => flowlet_gap: Option<Span>;
        /// Makes the ECMP choices of this switch differ from those of others.
        ecmp_seed = whole() => config.ecmp_seed;
        /// Whether all switches choose alike, as if nobody had set their hashes: what one has divided, the
        /// next does not divide again.
        polarised = flag() => config.polarised;
        /// Whether a next hop is chosen as often as what can flow on by it (WCMP), and not as often as the others.
        weighted = flag() => config.weighted;
        /// ARP and MAC addresses.
        tables = Keys => config.tables;
        /// Whether a queue's length at a packet's departure decides on its mark, or that at its arrival.
        ecn_mark = choice() => config.ecn_mark;
        /// When packets are marked.
        ecn = or("never", inner()) => ecn: Option<Ecn>;
        /// Against servers that pause without end.
        watchdog = or("none", inner()) => watchdog: Option<WatchdogConfig>;
        ..theirs: Theirs<BALANCERS>;
    }
    // What `over` makes of keys of their own, and what only a config_db says.
    besides buffer_bytes, cell, latency, groups, queues, balance, watchdog, ports, pcp_to_class,
        class_to_group, class_to_queue, priority_to_queue, group_to_priority;
    check no_contradiction;
}

table! {
    /// Pause frames.
    impl PfcConfig {
        /// How long a pause lasts unless it is renewed, in times of 512 bits.
        pause_quanta = whole() => quanta;
        /// How long this end takes to obey a pause, in the same unit.
        pause_response_quanta = whole() => response_quanta;
    }
}

table! {
    /// ARP and MAC tables.
    impl TableConfig {
        /// What becomes of a lossless packet whose MAC address is known and whose port is not.
        incomplete_arp = choice() => incomplete;
        /// How long the MAC address of a server that answers no ARP request stays known.
        arp_timeout_ms = time() => arp_timeout;
        /// How long the port of a server that sends nothing stays known.
        mac_timeout_ms = time() => mac_timeout;
    }
}

fn no_contradiction(switch: &Switch, at: &At<'_>) -> Result<()> {
    if switch.config_db_ports.is_some() && switch.config_db.is_none() {
        let wrong = at.wrong("config_db_ports", "these are ports of a config_db");
        return Err(wrong.hint("name the file: config_db = \"tor.json\""));
    }
    if switch.exponent.is_some() && switch.threshold_bytes.is_some() {
        let wrong = at.wrong("threshold_bytes", "a threshold is dynamic (alpha) or static");
        return Err(wrong.hint("remove one of alpha and threshold_bytes"));
    }
    match (switch.balance, switch.flowlet_gap) {
        (Some(Balance::Flowlet { .. }), Some(_)) | (_, None) => Ok(()),
        (_, Some(_)) => Err(at
            .wrong("flowlet_gap_us", "only flowlets have a gap")
            .hint("balance = \"flowlet\"")),
    }
}

/// Li et al., "HPCC", SIGCOMM 2019, 5.1, for DCQCN: 100 KB and 400 KB at 25 Gb/s, in proportion at
/// other rates; the probability is that of their simulator's files.
const HPCC: EcnConfig = EcnConfig { min_bytes: 100_000, max_bytes: 400_000, max_probability: 0.2 };
const HPCC_RATE: Rate = Rate::from_gbps(25);
const BY_RATE: &str = "100000 and 400000 at 25 Gb/s, in proportion (HPCC, 5.1)";

table! {
    /// WRED on the length of a queue, for packets that may be marked.
    struct Ecn {
        /// Nothing is marked up to here.
        min_bytes = or(BY_RATE, whole()) => min_bytes: Option<u32>;
        /// Everything is marked from here on.
        max_bytes = or(BY_RATE, whole()) => max_bytes: Option<u32>;
        /// The probability just before that.
        max_probability = otherwise(HPCC.max_probability, probability("0.1 for 10 %"))
            => max_probability: Option<f64>;
        /// min_bytes and max_bytes are those of ports of this rate; others have them in proportion.
        at_gbps = or("every port has the same", rate()) => at: Option<Rate>;
        /// Which queues mark.
        queues = or("all", some()) => queues: Option<u8>;
    }
    check marks_rise;
}

fn marks_rise(ecn: &Ecn, at: &At<'_>) -> Result<()> {
    match (ecn.min_bytes, ecn.max_bytes) {
        (Some(min), Some(max)) if min < max => Ok(()),
        (Some(min), Some(max)) => {
            let wrong = at.wrong("max_bytes", format!("{max} is not above min_bytes, {min}"));
            Err(wrong.hint("marks begin at min_bytes, and are certain above max_bytes"))
        }
        (Some(_), None) => Err(at.lacks("max_bytes")),
        (None, Some(_)) => Err(at.lacks("min_bytes")),
        (None, None) if ecn.at.is_some() => {
            let wrong = at.wrong("at_gbps", "min_bytes and max_bytes are not there");
            Err(wrong
                .hint("leave it out: without them, marks are in proportion to each port's rate"))
        }
        (None, None) => Ok(()),
    }
}

impl Ecn {
    fn marks(&self, queue: usize) -> bool {
        has(self.queues.unwrap_or(u8::MAX), queue)
    }

    /// The rate of ports in proportion to which others mark, if they do not mark alike.
    fn reference(&self) -> Option<Rate> {
        self.at.or(self.min_bytes.is_none().then_some(HPCC_RATE))
    }

    /// What is said, of ports of the reference rate.
    fn said(&self) -> EcnConfig {
        EcnConfig {
            min_bytes: self.min_bytes.unwrap_or(HPCC.min_bytes),
            max_bytes: self.max_bytes.unwrap_or(HPCC.max_bytes),
            max_probability: self.max_probability.unwrap_or(HPCC.max_probability),
        }
    }

    /// What a port of `rate` does.
    fn at(&self, rate: Rate) -> EcnConfig {
        let said = self.said();
        let Some(reference) = self.reference() else { return said };
        let scaled = |bytes: u32| {
            let bytes = u128::from(bytes) * u128::from(rate.as_bps());
            u32::try_from(bytes / u128::from(reference.as_bps().max(1))).unwrap_or(u32::MAX)
        };
        let min_bytes = scaled(said.min_bytes).min(u32::MAX - 1);
        let max_bytes = scaled(said.max_bytes).max(min_bytes + 1);
        EcnConfig { min_bytes, max_bytes, ..said }
    }
}

pub(super) const POLL: (&str, &str) = ("is less than a microsecond", "SONiC looks every 200 ms");

table! {
    /// A watchdog over ports whose other end pauses without end.
    impl WatchdogConfig {
        /// When it finds a storm: as guo16 does, or as SONiC does on either chip.
        rule = choice() => rule;
        /// What it does about one.
        action = choice() => action;
        /// How often it looks.
        poll_ms = needed(time_from(Span::from_us(1), POLL)) => poll;
        /// A storm has lasted so long.
        detection_ms = needed(time()) => detection;
        /// It is over when no pause has come for so long.
        restoration_ms = needed(time()) => restoration;
    }
}

/// A number of bytes.
fn cell<'a>() -> Value<'a, Cell> {
    let bytes = within(1, CELL_BYTES_MAX, "208 in Trident 2; 1 counts bytes");
    let accepts = bytes.accepts.clone();
    let read = move |entry: &Entry<'a, '_>| {
        let bytes = bytes.get(entry)?;
        Cell::new(bytes).ok_or_else(|| entry.wrong("a cell has bytes"))
    };
    Value::new(accepts, read, |_, cell| cell.to_string())
}

/// "1/16" is -4, "8" is 3, and so is 8.
pub(super) fn alpha<'a>() -> Value<'a, i8> {
    let read = |entry: &Entry<'a, '_>| {
        let alpha = match entry.value().as_integer() {
            Some(whole) => whole.as_str().to_owned(),
            None => text("").get(entry)?,
        };
        let (above, below) = alpha.split_once('/').unwrap_or((&alpha, "1"));
        let power = |text: &str| {
            let value: u32 = text.trim().parse().ok()?;
            value.is_power_of_two().then(|| value.trailing_zeros() as i8)
        };
        let exponent = power(above).zip(power(below)).map(|(above, below)| above - below);
        exponent.filter(|exponent| ALPHA_EXPONENTS.contains(exponent)).ok_or_else(|| {
            entry
                .wrong(format!("{alpha:?} is no power of two from 1/256 to 128"))
                .hint("write \"1/16\", \"1\" or \"8\", for instance")
        })
    };
    let show = |_: &str, exponent: &i8| format!("\"{}\"", alpha_of(*exponent));
    Value::new("a power of two from \"1/256\" to \"128\"", read, show)
}

/// One for each queue.
fn weights<'a>() -> Value<'a, [u8; PRIORITIES]> {
    let hint = "1 for the least; strict_queues for those that go first";
    let one = within(1, u8::MAX, ("is not a weight from 1 to 255", hint));
    let accepts = format!("a list of {PRIORITIES}, each {}", one.accepts);
    let read = move |entry: &Entry<'a, '_>| {
        let weights: Vec<u8> =
            entry.list()?.map(|member| one.get(&member)).collect::<Result<_>>()?;
        let found = weights.len();
        weights.try_into().map_err(|_| {
            let wrong = format!("expected a list of {PRIORITIES}, and found {found}");
            entry.wrong(wrong).hint("one value for each of priorities 0 to 7")
        })
    };
    Value::new(accepts, read, |_, weights| format!("{weights:?}"))
}

/// What a table says beside `base`, of a switch whose ports have `rates`.
pub(super) fn switch(
    table: &Deferred<'_, Switch>,
    base: &SwitchConfig,
    rates: &[Rate],
) -> Result<SwitchConfig> {
    let mut said = Switch { config: base.clone(), ..Switch::default() };
    table.read_over(&mut said)?;
    let mut config = said.over();
    said.theirs.balance(&mut config.balance)?;
    if let Some(ecn) = &said.ecn {
        mark_by_rate(&mut config, ecn, rates);
    }
    Ok(config)
}

/// Gives each port the thresholds of its rate.
fn mark_by_rate(config: &mut SwitchConfig, ecn: &Ecn, rates: &[Rate]) {
    let Some(reference) = ecn.reference() else { return };
    let set = |queues: &mut [QueueConfig; PRIORITIES], rate| {
        let marking = queues.iter_mut().enumerate();
        for (_, queue) in marking.filter(|(index, _)| ecn.marks(*index)) {
            queue.ecn = Some(ecn.at(rate));
        }
    };
    let first = rates.first().copied().unwrap_or(reference);
    set(&mut config.queues, first);
    for (local, &rate) in (0..).zip(rates) {
        let is_own = config.ports.contains_key(&local);
        if rate == first && !is_own {
            continue;
        }
        let SwitchConfig { groups, queues, watchdog, .. } = config;
        let all = PortConfig { groups: *groups, queues: *queues, watchdog: *watchdog };
        set(&mut config.ports.entry(local).or_insert(all).queues, rate);
    }
}

fn set<T>(target: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *target = value;
    }
}

/// Whether a set of priorities has `index` in it.
fn has(set: u8, index: usize) -> bool {
    set >> index & 1 == 1
}

/// What concerns priority groups and queues concerns those of all ports, and of ports with settings of
/// their own, too.
impl Switch {
    /// The whole buffer, if it is said.
    pub(super) fn buffer_bytes(&self) -> Option<u32> {
        self.buffer_bytes.or(self.model.map(|model| model.buffer_bytes))
    }

    /// The settings, with what is said of groups, queues and ports.
    fn over(&self) -> SwitchConfig {
        let mut config = self.config.clone();
        // The pool of a file has room for headrooms beside it, which this was the size of.
        if self.config_db.is_none() {
            set(&mut config.buffer_bytes, self.buffer_bytes());
        }
        let latency = self.model.map(|model| model.latency).filter(|latency| *latency > Span::ZERO);
        set(&mut config.cell, self.cell.or(self.model.map(|model| model.cell)));
        set(&mut config.latency, self.latency.or(latency));
        set(
            &mut config.balance,
            match (self.balance, self.flowlet_gap) {
                (Some(Balance::Flowlet { .. }), gap) => {
                    Some(Balance::Flowlet { gap: gap.unwrap_or(FLOWLET_GAP) })
                }
                (balance, _) => balance,
            },
        );
        self.over_groups(&mut config.groups);
        self.over_queues(&mut config.queues);
        if self.watchdog.is_some() {
            config.watchdog = self.watchdog;
        }
        for port in config.ports.values_mut() {
            self.over_groups(&mut port.groups);
            self.over_queues(&mut port.queues);
            if self.watchdog.is_some() {
                port.watchdog = self.watchdog;
            }
        }
        config
    }

    fn over_groups(&self, groups: &mut [GroupConfig; PRIORITIES]) {
        let dynamic = self.exponent.map(|exponent| Threshold::Dynamic { exponent });
        let fixed = self.threshold_bytes.map(|bytes| Threshold::Static { bytes });
        for (priority, group) in groups.iter_mut().enumerate() {
            match (self.lossless.map(|set| has(set, priority)), group.lossless) {
                (Some(true), false) => *group = GroupConfig::LOSSLESS,
                (Some(false), true) => *group = GroupConfig::LOSSY,
                _ => {}
            }
            let GroupConfig {
                lossless,
                reserve_bytes,
                threshold,
                headroom_bytes,
                xon_offset_bytes,
                xon_bytes,
            } = group;
            if *lossless {
                set(threshold, dynamic.or(fixed));
                set(reserve_bytes, self.reserve_bytes);
                set(xon_offset_bytes, self.xon_offset_bytes);
                set(xon_bytes, self.xon_bytes);
                set(headroom_bytes, self.headroom_bytes.map(Some));
            }
        }
    }

    fn over_queues(&self, queues: &mut [QueueConfig; PRIORITIES]) {
        for (index, queue) in queues.iter_mut().enumerate() {
            let QueueConfig { schedule, limit, ecn } = queue;
            let said = self.lossy_queue_bytes.map(|bytes| Threshold::Static { bytes });
            set(limit, said.map(Some));
            set(schedule, self.weights.map(|all| Schedule::Weighted(all[index])));
            if self.strict.is_some_and(|set| has(set, index)) {
                *schedule = Schedule::Strict;
            }
            if let Some(said) = self.ecn.as_ref().filter(|ecn| ecn.marks(index)) {
                *ecn = Some(said.said());
            }
        }
    }
}

/// The priorities that a switch pauses.
pub(super) fn lossless(config: &SwitchConfig) -> u8 {
    let groups = config.groups.iter().enumerate();
    groups
        .filter(|(_, group)| group.lossless)
        .fold(0, |mask, (group, _)| mask | 1 << (config.group_to_priority[group] & 7))
}
