//! What a seed decides before anything happens.
//!
//! First comes which faults there are, then how often each strikes (as in TigerBeetle's VOPR): a
//! storm of everything at once would hide what one fault alone does to a long conversation.

use std::vec::Vec;

use rdma::{Mtu, QpType, Rate, Span};

use super::random::Random;
use crate::congestion::{Bbr, Congestion, Dcqcn, Notification, Share, Volume};
use crate::limits::{ACK_TIMEOUT_DOUBLINGS, PACKET_OVERHEAD_BYTES, PART_BYTES, STRIDE_MAX};
use crate::{BetweenHosts, Config, Recovery};

/// The longest WRITE and READ.
pub(super) const RDMA_MAX: u64 = 64 << 10;
/// Bits of a queue pair number below those that say whose it is.
const NODE_SHIFT: u32 = 14;
/// The longest that a node lets an acknowledgement wait.
const ACK_DELAY_MAX: Span = Span::from_us(50);
/// The time of a bit at the lowest rate, 5 Gb/s.
const PS_PER_BIT_MAX: u64 = 200;
/// How long the effects of a fault may last: a stopped node or send queue, a late receive, the
/// backlog of a slow node.
pub(super) const AFTERMATH: Span = Span::from_ms(5);
/// Requests that each side of each link posts when the storm is over.
pub(super) const CALM_OPERATIONS: u64 = 6;
/// Retries of a queue pair at least, where paths become narrower: beside what else goes wrong, one for each end.
const NARROWING_RETRIES: u8 = 3;

/// How often things go wrong, in thousandths where nothing else is said.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    pub(super) loss: u64,
    /// How often a burst of losses begins, and how many packets it takes at most.
    pub(super) burst: (u64, u64),
    pub(super) corruption: u64,
    pub(super) duplication: u64,
    pub(super) reordering: u64,
    /// Each packet is late by up to so much.
    pub(super) jitter: Span,
    /// How many times one direction between two nodes is dead for a while.
    pub(super) partitions: u64,
    /// How many times a node stands still for a while.
    pub(super) stops: u64,
    /// How many times a node is slow for a while.
    pub(super) slows: u64,
    /// Packets marked for congestion, of those that allow it.
    pub(super) marks: u64,
    /// Receives that are posted after the message was.
    pub(super) late_receives: u64,
    /// How many times a connection is broken by its owner.
    pub(super) breaks: u64,
    /// Requests whose memory is deregistered while they run.
    pub(super) deregistrations: u64,
    /// Requests whose region is registered anew.
    pub(super) changes: u64,
    /// Requests whose memory is unmapped.
    pub(super) unmappings: u64,
    /// How many times a send queue is stopped and set going again.
    pub(super) drains: u64,
    /// How many packets are forged.
    pub(super) forgeries: u64,
    /// Links whose ends have been told different MTUs.
    pub(super) mtu_mismatches: u64,
    /// How many times nobody looks at a completion queue for a while.
    pub(super) sleeps: u64,
    /// How many times queues are resized, and the limit of a shared one is set.
    pub(super) resizes: u64,
    /// How many times the owner of a window frees it.
    pub(super) window_frees: u64,
    /// Requests that ask for what they must not get.
    pub(super) trespasses: u64,
    /// How many times the clock of a node is turned back.
    pub(super) setbacks: u64,
    /// Calls of an engine with the time of an earlier moment: who called had to wait for it.
    pub(super) waits: u64,
    /// Packets that a driver gives to another engine, and late or never to the one that they are for.
    pub(super) misdeliveries: u64,
    /// Timeouts that a driver puts off: it says that packets may still be on their way.
    pub(super) put_offs: u64,
    /// When paths become too narrow for packets beyond the path MTU, if ever. They stay so,
    /// and a queue pair needs a retry to find out.
    pub(super) narrowing: Option<Span>,
    /// Whether they then take 1,024 bytes of payload alone, where both ends send parts.
    pub(super) narrows_below_mtu: bool,
}

impl Faults {
    fn new(random: &mut Random, driver: &mut Random) -> Self {
        // A perfect network and quick nodes show what the other faults do alone.
        let is_rough = random.chance(750);
        let mut some = |most| if random.chance(300) { random.between(1, most) } else { 0 };
        let mut rough = |most| if is_rough { some(most) } else { 0 };
        Self {
            loss: rough(80),
            burst: (rough(10), 8),
            corruption: rough(30),
            duplication: rough(80),
            reordering: rough(80),
            jitter: Span::from_ns(rough(20_000)),
            partitions: rough(3),
            stops: rough(3),
            slows: rough(3),
            marks: some(500),
            late_receives: some(500),
            breaks: some(3),
            deregistrations: some(40),
            changes: some(40),
            unmappings: some(15),
            drains: some(10),
            sleeps: some(10),
            resizes: some(5),
            forgeries: some(40),
            mtu_mismatches: some(300) * some(1),
            window_frees: some(6),
            trespasses: some(25),
            setbacks: some(3),
            waits: some(200),
            misdeliveries: some(30),
            put_offs: if driver.chance(300) { driver.between(1, 500) } else { 0 },
            narrowing: None,
            narrows_below_mtu: false,
        }
    }

    /// Whether packets may arrive twice, or not in the order in which they were sent.
    pub(super) fn disorders(&self) -> bool {
        let is_late = self.jitter > Span::ZERO || self.misdeliveries > 0;
        self.duplication > 0 || self.reordering > 0 || is_late
    }
}

/// A queue pair at each of two nodes, that talk to each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkPlan {
    pub(super) kind: QpType,
    pub(super) nodes: [usize; 2],
    /// Of both ends; and what the second is told.
    pub(super) mtu: Mtu,
    pub(super) other_mtu: Mtu,
    pub(super) timeout: u8,
    pub(super) retry_count: u8,
    pub(super) rnr_retry: u8,
    pub(super) min_rnr_timer: u8,
    /// READs and atomics outstanding.
    pub(super) rd_atomic: u8,
    pub(super) first_psns: [u32; 2],
    /// Whether receives come from the shared receive queue of the node.
    pub(super) shared: [bool; 2],
    /// Whether completions go to a small queue of the end's own.
    pub(super) own_cqs: [bool; 2],
    pub(super) signal_all: bool,
    /// Memory windows of each end.
    pub(super) windows: usize,
    /// Requests that each side posts during the storm.
    pub(super) operations: u64,
}

/// The whole of it.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) configs: Vec<Config>,
    pub(super) links: Vec<LinkPlan>,
    pub(super) faults: Faults,
    /// How long the faults last.
    pub(super) storm: Span,
    pub(super) latency: Span,
    /// Between two packets of a node: what its link takes for one.
    pub(super) gap: Span,
    /// Arrivals are seen at multiples of this, and so in batches.
    pub(super) grain: Span,
}

impl Plan {
    pub(super) fn new(random: &mut Random, driver: &mut Random) -> Self {
        let mut faults = Faults::new(random, driver);
        let count = random.pick(&[2, 2, 2, 3, 4]);
        let recovery = match random.below(1000) {
            0..100 => Recovery::GoBack0,
            100..450 => Recovery::SelectiveRepeat,
            _ => Recovery::GoBackN,
        };
        let mut configs: Vec<Config> =
            (0..count).map(|node| config(node, recovery, random)).collect();
        // Each node for itself, so that those that sign their packets meet others.
        for config in configs.iter_mut().filter(|_| recovery == Recovery::GoBackN) {
            config.between_hosts = driver.chance(500).then(|| between_hosts(config, driver));
        }
        for config in configs.iter_mut().filter(|_| recovery == Recovery::SelectiveRepeat) {
            let wait = Span::from_us(driver.pick(&[0, 5, 300]));
            config.overtaken_wait_min = driver.chance(500).then_some(wait);
        }
        for config in &mut configs {
            config.not_ready_grace = Span::from_us(driver.pick(&[0, 0, 100, 5_000]));
        }
        let narrows = driver.chance(300);
        faults.narrowing = narrows.then(|| Span::from_us(driver.between(0, 2_000)));
        faults.narrows_below_mtu = narrows && driver.chance(500);
        let links = random.between(1, 4);
        let mut links: Vec<LinkPlan> =
            (0..links).map(|_| link(count as usize, &faults, random)).collect();
        for link in links.iter_mut().filter(|_| narrows) {
            link.retry_count = link.retry_count.max(NARROWING_RETRIES);
        }
        Self {
            configs,
            links,
            faults,
            storm: Span::from_us(random.between(500, 8_000)),
            latency: Span::from_ns(random.between(500, 20_000)),
            gap: Span::from_ns(random.pick(&[0, 0, 80, 400, 1_500])),
            grain: Span::from_ns(random.pick(&[1, 1, 1_000, 5_000])),
        }
    }

    /// The longest payload that a path takes once it has become narrower, in bytes.
    pub(super) fn narrowed(&self, link: &LinkPlan) -> usize {
        let sends_parts = |node: usize| {
            let between = self.configs[node].between_hosts;
            between.is_some_and(|it| it.out_of_order().is_some() && it.stride_max > 0)
        };
        let is_below = self.faults.narrows_below_mtu
            && link.mtu == link.other_mtu
            && link.nodes.into_iter().all(sends_parts);
        let mtu = link.mtu.max(link.other_mtu).bytes();
        (if is_below { mtu.min(PART_BYTES) } else { mtu }) as usize
    }

    /// Whether a link takes so long for what may be under way that an answer can come after the
    /// timeout: every packet of every link may stand before it in the queue of a node, and as many
    /// behind it at the other.
    pub(super) fn is_paced(&self) -> bool {
        let packets = |link: &LinkPlan| {
            let mtu = u64::from(link.mtu.bytes());
            let posted = (link.operations + CALM_OPERATIONS) * RDMA_MAX / mtu;
            let windows = link.nodes.map(|node| self.configs[node].window_bytes / mtu + 1);
            let read = u64::from(link.rd_atomic) * RDMA_MAX / mtu;
            windows.map(|window| window.min(posted) + read.min(posted)).iter().sum::<u64>()
        };
        let queued: u64 = self.links.iter().map(packets).sum();
        let answer = self.gap * (2 * queued) + (self.latency + self.grain) * 2;
        let timeouts = self.links.iter().map(|link| Span::from_ps(4_096_000 << link.timeout));
        self.gap > Span::ZERO && timeouts.min().is_some_and(|timeout| answer >= timeout)
    }

    /// After the faults have stopped, everything ends within this.
    ///
    /// Each fault that is left costs its timeouts once, as nothing new goes wrong: a lost packet
    /// costs a timeout, a failed peer all retries and one more timeout, and a receiver that was not
    /// ready its delay. (Three of each, because a repeated packet may wait behind another that
    /// waits.) Then all packets need their time: see [`Plan::travel`].
    pub(super) fn bound(&self) -> Span {
        let waits = self.links.iter().map(|link| {
            let timeout = Span::from_ps(4_096_000 << (link.timeout + ACK_TIMEOUT_DOUBLINGS));
            timeout * (u64::from(link.retry_count) + 3)
                + wire::aeth::rnr_delay(link.min_rnr_timer) * 3
        });
        waits.max().unwrap_or(Span::ZERO) + self.travel()
    }

    /// The longest time of all messages that the applications post, over a network without losses:
    /// a round trip for each window, one link after the other, and the time of each packet on its
    /// node's link at the lowest rate.
    fn travel(&self) -> Span {
        let trip = (self.latency + self.grain) * 2 + ACK_DELAY_MAX;
        let link = |link: &LinkPlan| {
            let mtu = u64::from(link.mtu.min(link.other_mtu).bytes());
            let messages = 2 * (link.operations + CALM_OPERATIONS);
            let configs = link.nodes.map(|node| &self.configs[node]);
            let window = configs.map(|c| c.window_bytes.min(c.read_chunk_bytes.into()));
            // A packet of 256 bytes counts for twice as many in the window.
            let each = (window[0].min(window[1]) / 2).max(mtu);
            let rounds = messages * (RDMA_MAX.div_ceil(each) + 1);
            let packets = messages * (RDMA_MAX.div_ceil(mtu) + 1) * 2;
            let serial = Span::from_ps((mtu + PACKET_OVERHEAD_BYTES) * 8 * PS_PER_BIT_MAX);
            trip * rounds + (self.gap + serial) * packets
        };
        self.links.iter().map(link).fold(Span::ZERO, |sum, span| sum + span)
    }
}

fn config(node: u64, recovery: Recovery, random: &mut Random) -> Config {
    let first = (1 + node as u32) << NODE_SHIFT;
    let selective = recovery == Recovery::SelectiveRepeat;
    Config {
        qpns: first..first + (1 << NODE_SHIFT),
        recovery,
        out_of_order_packets: if selective { random.pick(&[1, 2, 9, 60, 1024]) } else { 0 },
        out_of_order_bytes: if selective { random.pick(&[0, 5_000, 40_000, 1 << 20]) } else { 0 },
        window_bytes: random.pick(&[2_000, 8_000, 30_000, 256 << 10, 256 << 10, u64::MAX]),
        refill_bytes: random.pick(&[0, 0, 5_000, 100 << 10]),
        read_chunk_bytes: random.pick(&[1, 4_096, 10_000, 128 << 10, u32::MAX]),
        burst_packets: random.pick(&[1, 3, 16]),
        ack_interval_packets: random.pick(&[1, 2, 5, 16, 1_000]),
        ack_delay: Span::from_us(random.pick(&[0, 0, 5, 50])),
        congestion: congestion(random),
        notification: notification(random),
        ..Config::default()
    }
}

/// The same windows, with a control if there is none, and the sign of selective repeat.
fn between_hosts(config: &Config, random: &mut Random) -> BetweenHosts {
    // What others do with marks is checked by what the node is set to.
    let congestion = match config.congestion {
        Congestion::None => Congestion::Bbr(Bbr::default()),
        other => other,
    };
    BetweenHosts {
        congestion,
        window_bytes: config.window_bytes,
        refill_bytes: config.refill_bytes,
        signs: true,
        out_of_order_packets: random.pick(&[1, 2, 9, 60, 8192]),
        out_of_order_bytes: random.pick(&[0, 5_000, 40_000, 1 << 20]),
        stride_max: random.pick(&[0, STRIDE_MAX]),
    }
}

/// Rates that are high enough for everything to end in time. What they hold back is no reason for a
/// timeout: a request is not timed before it is sent, and a READ makes progress with each response.
fn congestion(random: &mut Random) -> Congestion {
    let rate = Rate::from_gbps(random.pick(&[5, 10, 40]));
    let settings = Dcqcn {
        minimum_rate: Share::Fixed(rate),
        alpha_gain: random.pick(&[1_024, 64, 4]),
        byte_counter: Volume::Fixed(random.pick(&[5_000, 10_000_000])),
        rate_timer: Span::from_us(random.pick(&[2, 55])),
        ..Dcqcn::default()
    };
    random.pick(&[
        Congestion::None,
        Congestion::None,
        Congestion::Fixed(rate),
        Congestion::Dcqcn(settings),
    ])
}

fn notification(random: &mut Random) -> Option<Notification> {
    let interval = Span::from_us(random.pick(&[0, 3, 50]));
    Some(Notification { interval, ..Notification::default() }).filter(|_| !random.chance(50))
}

fn link(nodes: usize, faults: &Faults, random: &mut Random) -> LinkPlan {
    use QpType::{Rc, Uc, Ud};
    let kind = random.pick(&[Rc, Rc, Rc, Rc, Rc, Rc, Uc, Ud]);
    let first = random.below(nodes as u64) as usize;
    let second = (first + random.between(1, nodes as u64 - 1) as usize) % nodes;
    // Most PSNs wrap on the way.
    let psn = |random: &mut Random| match random.below(4) {
        0 => random.below(1 << 24) as u32,
        _ => 0xff_ffff - random.below(60) as u32,
    };
    let first_psns = [psn(random), psn(random)];
    // A message that arrives twice takes two receives, unless the service detects duplicates; the
    // other users of a shared queue would miss one.
    let may_share = kind == Rc || !faults.disorders();
    let mtu = random.pick(&Mtu::ALL);
    LinkPlan {
        kind,
        nodes: [first, second],
        mtu,
        other_mtu: if random.chance(faults.mtu_mismatches) { random.pick(&Mtu::ALL) } else { mtu },
        timeout: random.between(8, 12) as u8,
        retry_count: random.pick(&[0, 1, 3, 7, 7, 7]),
        rnr_retry: random.pick(&[0, 2, 6, 7, 7, 7]),
        min_rnr_timer: random.between(1, 14) as u8,
        rd_atomic: random.pick(&[1, 2, 4, 8]),
        first_psns,
        shared: [may_share && random.chance(300), may_share && random.chance(300)],
        own_cqs: [0; 2].map(|_| faults.sleeps > 0 && random.chance(400)),
        signal_all: random.chance(200),
        windows: if kind != Ud && random.chance(400) { random.between(1, 4) as usize } else { 0 },
        operations: random.between(3, 40),
    }
}
