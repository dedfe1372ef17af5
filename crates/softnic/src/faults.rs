//! Fault injection: what a bad network would do to the packets that we send.
//!
//! `FERROCE_FAULTS=loss=0.01,reorder=0.02,duplicate=0.01,corrupt=0.001,ecn=0.05,seed=7`: the
//! probability of each fault for each packet, and the seed of the generator. With faults, packets leave one by
//! one. A corrupt packet has one wrong bit, a burst of 2 to 64 bits, or a word of 32 bits that is another, each
//! as often. A seed makes the same decisions for the same sequence of packets; which packets are sent
//! depends on timing, so a run is not repeated bit for bit.
//!
//! Behind a semicolon each, faults can be aimed ([`aimed`]): `loss=0.01;drop:opcode=write,nth=3`.

pub mod aimed;

use rdma::{Span, Time};

use aimed::{AIMED_MAX, Aim, Aimed, Beginning, KINDS, Kind, damage, once, say_not_ready, unknown};

use crate::SettingError;
use crate::counts::Counts;
use crate::limits::REORDER_HOLD;
use crate::packet::Flow;

/// The probabilities, between 0 and 1, and the seed.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FaultSettings {
    /// A packet is not sent.
    pub loss: f64,
    /// A packet is held back until one to three others have been sent, or a millisecond has passed.
    pub reorder: f64,
    /// A packet is sent twice.
    pub duplicate: f64,
    /// A bit, a burst of bits or a word of the UDP payload is wrong, after the ICRC was computed.
    pub corrupt: f64,
    /// A packet that allows it (ECT, RFC 3168) is marked for congestion (CE), as by a switch whose
    /// queue is long.
    pub ecn: f64,
    /// Where the generator begins.
    pub seed: u64,
    /// Faults of some packets: each asks every packet.
    pub aimed: Vec<Aimed>,
}

/// What a packet may suffer by chance, and the seed.
const BY_CHANCE: [&str; 6] = ["corrupt", "duplicate", "ecn", "loss", "reorder", "seed"];

/// A list of these is by chance; what is aimed names its kind first.
fn is_by_chance(part: &str) -> bool {
    !part.contains(':') && !KINDS.contains(&part.trim())
}

impl core::str::FromStr for FaultSettings {
    type Err = SettingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut settings = Self::default();
        let (by_chance, aimed): (Vec<&str>, Vec<&str>) =
            text.split(';').partition(|part| is_by_chance(part));
        if aimed.len() > AIMED_MAX {
            let problem = format!("there are {} aimed faults", aimed.len());
            let hint = format!("give {AIMED_MAX} at most");
            return Err(SettingError::new("FERROCE_FAULTS", problem, hint));
        }
        settings.aimed =
            aimed.iter().map(|part| Aimed::parse(part.trim())).collect::<Result<_, _>>()?;
        let elements = by_chance.iter().flat_map(|part| part.split(','));
        let mut said = Vec::new();
        for element in elements.map(str::trim).filter(|element| !element.is_empty()) {
            let error = |problem| {
                let hint = "use loss, reorder, duplicate, corrupt and ecn, each between 0 and 1, \
                            and seed, as in loss=0.01,seed=7; or aim: drop:nth=3";
                SettingError::new("FERROCE_FAULTS", format!("`{element}` {problem}"), hint)
            };
            let (key, value) = element.split_once('=').ok_or_else(|| error("has no value"))?;
            once(&mut said, key.trim())?;
            let probability = match key.trim() {
                "loss" => &mut settings.loss,
                "reorder" => &mut settings.reorder,
                "duplicate" => &mut settings.duplicate,
                "corrupt" => &mut settings.corrupt,
                "ecn" => &mut settings.ecn,
                "seed" => {
                    settings.seed =
                        value.trim().parse().map_err(|_| error("is not a whole number"))?;
                    continue;
                }
                other => return Err(unknown("fault", other, &BY_CHANCE)),
            };
            *probability = value.trim().parse().map_err(|_| error("is not a number"))?;
            if !(0.0..=1.0).contains(probability) {
                return Err(error("is not a probability"));
            }
        }
        Ok(settings)
    }
}

/// What becomes of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Verdict {
    lost: bool,
    /// How many packets are sent before it; 0 if it is not held back.
    behind: u32,
    duplicated: bool,
    corrupted: Option<Damage>,
    /// A mark of congestion, if it allows one.
    marked: bool,
}

/// Which bits of a packet are flipped: those of `mask`, whose lowest is bit `first` of the packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Damage {
    first: u64,
    mask: u64,
}

impl Damage {
    fn apply(self, packet: &mut [u8]) {
        for bit in (0..u64::BITS.into()).filter(|bit| self.mask >> bit & 1 == 1) {
            let place = self.first + bit;
            packet[(place / 8) as usize] ^= 1 << (place % 8);
        }
    }
}

/// What comes of the faults that are aimed at a packet.
enum Fate {
    Gone,
    Late(Span),
    Leaves { twice: bool },
}

/// A packet that is held back.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) flow: Flow,
    pub(crate) packet: Vec<u8>,
    behind: u32,
    until: Time,
}

/// The generator of faults.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    settings: FaultSettings,
    aims: Vec<Aim>,
    beginning: Beginning,
    state: u64,
    held: Vec<Held>,
}

impl Faults {
    pub(crate) fn new(settings: FaultSettings) -> Self {
        let aims = settings.aimed.iter().copied().map(Aim::new).collect();
        let (state, beginning) = (settings.seed, Beginning::default());
        Self { settings, aims, beginning, state, held: Vec::new() }
    }

    /// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn happens(&mut self, probability: f64) -> bool {
        // 53 bits are what a double holds exactly.
        let drawn = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        drawn < probability
    }

    /// Has a packet suffer what it has to, and `leave` send what leaves now.
    pub(crate) fn pass(
        &mut self,
        now: Time,
        mut flow: Flow,
        packet: &mut [u8],
        counts: &mut Counts,
        mut leave: impl FnMut(&Flow, &[u8], &mut Counts),
    ) {
        let mut twice = false;
        if !self.aims.is_empty() {
            match self.aim(now, &mut flow, packet, counts) {
                Fate::Gone => return,
                Fate::Late(delay) => {
                    counts.fault_delayed += 1;
                    let (packet, behind, until) = (packet.to_vec(), u32::MAX, now + delay);
                    self.held.push(Held { flow, packet, behind, until });
                    return;
                }
                Fate::Leaves { twice: again } => twice = again,
            }
        }
        let verdict = self.judge(packet.len());
        if verdict.lost {
            counts.fault_lost += 1;
            return;
        }
        if let Some(damage) = verdict.corrupted {
            counts.fault_corrupted += 1;
            damage.apply(packet);
        }
        if verdict.marked && flow.mark() {
            counts.fault_marked += 1;
        }
        if verdict.behind > 0 {
            counts.fault_reordered += 1;
            self.hold(now, flow, packet, verdict.behind);
            return;
        }
        if verdict.duplicated || twice {
            counts.fault_duplicated += 1;
            leave(&flow, packet, counts);
        }
        leave(&flow, packet, counts);
        for held in self.after_packet() {
            leave(&held.flow, &held.packet, counts);
        }
    }

    /// Has a packet suffer what is aimed at it.
    fn aim(&mut self, now: Time, flow: &mut Flow, packet: &mut [u8], counts: &mut Counts) -> Fate {
        let after = self.beginning.after(now);
        let (mut twice, mut delay) = (false, None);
        // They ask the generator for lots, which is a part of this.
        let mut aims = core::mem::take(&mut self.aims);
        let struck: Vec<Kind> = aims
            .iter_mut()
            .filter_map(|aim| aim.strike(after, packet, |probability| self.happens(probability)))
            .collect();
        self.aims = aims;
        for kind in struck {
            match kind {
                Kind::Drop | Kind::LinkDown { .. } => {
                    counts.fault_lost += 1;
                    return Fate::Gone;
                }
                Kind::Damage { bits } => {
                    counts.fault_corrupted += 1;
                    damage(packet, bits, self.next(), self.next());
                }
                Kind::Delay(by) => delay = Some(by),
                Kind::Duplicate => twice = true,
                Kind::Mark => counts.fault_marked += u64::from(flow.mark()),
                Kind::Rnr { timer } => {
                    counts.fault_not_ready += 1;
                    say_not_ready(packet, timer);
                    flow.seal(packet);
                }
            }
        }
        delay.map_or(Fate::Leaves { twice }, Fate::Late)
    }

    /// Decides about a packet of `length` bytes.
    fn judge(&mut self, length: usize) -> Verdict {
        let FaultSettings { loss, reorder, duplicate, corrupt, ecn, .. } = self.settings;
        let lost = self.happens(loss);
        let late = self.happens(reorder);
        let behind = 1 + (self.next() % 3) as u32;
        let duplicated = self.happens(duplicate);
        let corrupt = self.happens(corrupt);
        let place = self.next();
        let corrupted = corrupt.then(|| self.damage(place, 8 * length as u64));
        // Asked last and only if need be, so that older seeds do what they did.
        let marked = ecn > 0.0 && self.happens(ecn);
        Verdict { lost, behind: if late { behind } else { 0 }, duplicated, corrupted, marked }
    }

    /// Decides how a packet of so many `bits`, 64 at least, is corrupted. `place` is drawn before.
    fn damage(&mut self, place: u64, bits: u64) -> Damage {
        let width = 2 + self.next() % 63;
        match self.next() % 3 {
            0 => Damage { first: place % bits, mask: 1 },
            1 => {
                // Its first and last bits are wrong, and those between them as it happens.
                let between = self.next() & u64::MAX >> (64 - width);
                let mask = between | 1 | 1 << (width - 1);
                Damage { first: place % (bits - width + 1), mask }
            }
            _ => {
                let mask = (self.next() & u64::from(u32::MAX)).max(1);
                Damage { first: place % (bits / 32) * 32, mask }
            }
        }
    }

    /// Holds a packet back.
    fn hold(&mut self, now: Time, flow: Flow, packet: &[u8], behind: u32) {
        let until = now + REORDER_HOLD;
        self.held.push(Held { flow, packet: packet.to_vec(), behind, until });
    }

    /// A packet was sent: returns those whose turn has come by that.
    fn after_packet(&mut self) -> Vec<Held> {
        for held in &mut self.held {
            held.behind = held.behind.saturating_sub(1);
        }
        self.held.extract_if(.., |held| held.behind == 0).collect()
    }

    /// Returns the packets that have waited long enough.
    pub(crate) fn after_time(&mut self, now: Time) -> Vec<Held> {
        self.held.extract_if(.., |held| held.until <= now).collect()
    }

    /// When a packet will have waited long enough. May change after every call.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.held.iter().map(|held| held.until).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdma::Gid;

    fn flow() -> Flow {
        Flow {
            port: 0,
            path: crate::packet::Path::Udp,
            source: Gid::ZERO,
            destination: Gid::ZERO,
            source_port: wire::udp::ROCE_PORT,
            slot: 0,
            traffic_class: 0,
            hop_limit: 0,
        }
    }

    #[test]
    fn settings_are_read_strictly() {
        let settings: FaultSettings =
            "loss=0.5, reorder=0,duplicate=1,corrupt=1e-3,ecn=0.25,seed=7".parse().unwrap();
        assert_eq!(
            settings,
            FaultSettings {
                loss: 0.5,
                reorder: 0.0,
                duplicate: 1.0,
                corrupt: 0.001,
                ecn: 0.25,
                seed: 7,
                aimed: Vec::new(),
            }
        );
        assert_eq!("".parse(), Ok(FaultSettings::default()));
        for (text, problem) in [
            ("lost=0.1", "`lost` is not a fault"),
            ("loss=0.1,reorder", "`reorder` has no value"),
            ("loss=1.5", "`loss=1.5` is not a probability"),
            ("loss=-0.1", "`loss=-0.1` is not a probability"),
            ("loss=NaN", "`loss=NaN` is not a probability"),
            ("loss=0.1;seed=2;loss=0.2", "`loss` is said twice"),
            ("loss=much", "`loss=much` is not a number"),
            ("seed=-1", "`seed=-1` is not a whole number"),
        ] {
            let error = text.parse::<FaultSettings>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("FERROCE_FAULTS: {problem}\nhint: ")), "{error}");
        }
    }

    #[test]
    fn aimed_faults_stand_beside_those_by_chance() {
        let settings: FaultSettings =
            "loss=0.5,seed=3;drop:nth=2;link-down:down_us=5".parse().unwrap();
        assert_eq!((settings.loss, settings.seed, settings.aimed.len()), (0.5, 3, 2));
        let hint = |text: &str| text.parse::<FaultSettings>().unwrap_err().to_string();
        assert!(hint("los=0.1").ends_with("\nhint: you may have meant loss"));
        assert!(hint("loss").contains("`loss` has no value"));
    }

    #[test]
    fn what_is_aimed_at_a_packet_is_done_to_it() {
        let flow = flow();
        let mut acknowledgement = vec![0; 20];
        acknowledgement[0] = 0x11;
        let passed = |text: &str| {
            let mut faults = Faults::new(text.parse().unwrap());
            let (mut counts, mut left) = (Counts::default(), Vec::new());
            let mut packet = acknowledgement.clone();
            faults.pass(Time::from_ns(1), flow, &mut packet, &mut counts, |_, packet, _| {
                left.push(packet.to_vec());
            });
            (left, counts, faults.deadline())
        };
        let (left, counts, _) = passed("drop:nth=1");
        assert_eq!((left.len(), counts.fault_lost), (0, 1));
        assert_eq!(passed("drop:nth=2").0.len(), 1);
        assert_eq!(passed("duplicate").0.len(), 2);
        let (left, counts, deadline) = passed("delay:delay_us=7");
        assert_eq!((left.len(), counts.fault_delayed), (0, 1));
        assert_eq!(deadline, Some(Time::from_ns(7_001)));
        let (left, counts, _) = passed("rnr:timer=3");
        assert_eq!((left[0][12], counts.fault_not_ready), (0x23, 1));
        assert_ne!(left[0][16..], [0; 4], "its ICRC is computed again");
        assert_eq!(passed("damage:bits=9").1.fault_corrupted, 1);
    }

    #[test]
    fn faults_are_as_frequent_as_asked_and_the_same_for_a_seed() {
        let settings = FaultSettings {
            loss: 0.1,
            reorder: 0.2,
            corrupt: 1.0,
            ecn: 0.3,
            seed: 3,
            ..FaultSettings::default()
        };
        let judge_all = || {
            let mut faults = Faults::new(settings.clone());
            (0..10_000).map(move |_| faults.judge(100)).collect::<Vec<_>>()
        };
        let verdicts = judge_all();
        assert_eq!(verdicts, judge_all());
        let count = |of: fn(&Verdict) -> bool| verdicts.iter().filter(|v| of(v)).count();
        assert!((900..1100).contains(&count(|v| v.lost)));
        assert!((1800..2200).contains(&count(|v| v.behind > 0)));
        assert!((2800..3200).contains(&count(|v| v.marked)));
        assert_eq!(count(|v| v.duplicated), 0);
        assert_eq!(count(|v| v.corrupted.is_some_and(|damage| damage.first < 800)), 10_000);
        assert!(verdicts.iter().all(|v| v.behind <= 3));
    }

    #[test]
    fn a_corrupt_packet_has_a_wrong_bit_a_burst_or_a_wrong_word() {
        let settings = FaultSettings { corrupt: 1.0, seed: 5, ..FaultSettings::default() };
        let mut faults = Faults::new(settings);
        let (mut bits, mut bursts, mut words, mut widest) = (0, 0, 0, 0);
        for length in (16..=116).cycle().take(10_000) {
            let damage = faults.judge(length).corrupted.unwrap();
            let mut packet = vec![0; length];
            damage.apply(&mut packet);
            let wrong: u32 = packet.iter().map(|byte| byte.count_ones()).sum();
            assert_eq!(wrong, damage.mask.count_ones());
            assert!(wrong > 0);
            let width = u64::BITS - damage.mask.leading_zeros();
            match width {
                1 => bits += 1,
                33.. => bursts += 1,
                _ => words += u32::from(damage.first.is_multiple_of(32)),
            }
            widest = widest.max(width);
        }
        // Half of the bursts are wider than a word, and one in 32 of the others begins where one does.
        assert!((3_100..3_600).contains(&bits), "{bits}");
        assert!((1_550..1_850).contains(&bursts), "{bursts}");
        assert!((3_200..3_700).contains(&words), "{words}");
        assert_eq!(widest, 64);
    }

    #[test]
    fn a_packet_is_held_for_packets_or_for_time() {
        let flow = flow();
        let mut faults = Faults::new(FaultSettings::default());
        faults.hold(Time::ZERO, flow, b"two", 2);
        faults.hold(Time::ZERO, flow, b"one", 1);
        assert_eq!(faults.after_packet()[0].packet, b"one");
        assert_eq!(faults.deadline(), Some(Time::ZERO + REORDER_HOLD));
        assert!(faults.after_time(Time::ZERO + Span::from_us(999)).is_empty());
        assert_eq!(faults.after_time(Time::ZERO + REORDER_HOLD)[0].packet, b"two");
        assert_eq!(faults.deadline(), None);
        assert!(faults.after_packet().is_empty());
    }
}
