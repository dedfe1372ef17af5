//! Faults that are aimed: at the packets of a verb, for a queue pair, at the third, for a while.
//!
//! ```text
//!   drop:opcode=write,nth=3          the third packet of RDMA WRITEs that we send
//!   damage:opcode=ack,every=10,bits=16
//!   delay:delay_us=500,probability=0.1
//!   rnr:nth=1                        the first acknowledgement says "receiver not ready" instead
//!   link-down:at_us=20000,down_us=50000
//! ```
//!
//! The words are those of a scenario's `[[fault]]` where that has them: `drop`, `damage`, `link-down`, `probability`,
//! `every`, `at_us`, `down_us`, `every_us`, `times`.
//!
//! **Invariant:** a packet has suffered at most one aimed fault of each kind. Packets that do not fit a fault's
//! aim are not counted by it.

use rdma::{Span, Time, nearest};
use wire::opcode::Operation;
use wire::{Opcode, aeth, bth};

use crate::SettingError;

/// What happens to a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It is not sent.
    Drop,
    /// So many bits in a row are wrong, after the ICRC was computed.
    Damage {
        /// From the first wrong bit to the last.
        bits: u32,
    },
    /// It is sent later.
    Delay(Span),
    /// It is sent twice.
    Duplicate,
    /// It is marked for congestion, if it allows that.
    Mark,
    /// An acknowledgement becomes an RNR NAK: its peer waits, and sends the message again.
    Rnr {
        /// The code of how long it waits.
        timer: u8,
    },
    /// Nothing is sent for a while.
    LinkDown {
        /// For how long.
        down: Span,
        /// From one time to the next.
        every: Span,
    },
}

pub(super) const KINDS: [&str; 7] =
    ["damage", "delay", "drop", "duplicate", "link-down", "mark", "rnr"];

/// Keys that every kind but `link-down` has.
const AIMS: [&str; 7] = ["at_us", "every", "nth", "opcode", "probability", "qp", "times"];

/// Verbs, and what else is sent, by the names that `opcode` knows; a number is one opcode of the BTH.
const VERBS: [(&str, &[Operation]); 8] = [
    ("ack", &[Operation::Acknowledge, Operation::SelectiveAcknowledge]),
    ("atomic", &[Operation::CompareSwap, Operation::FetchAdd, Operation::AtomicWrite]),
    ("atomic-response", &[Operation::AtomicAcknowledge]),
    ("cnp", &[Operation::Cnp]),
    ("read", &[Operation::ReadRequest]),
    ("read-response", &[Operation::ReadResponse]),
    ("send", &[Operation::Send]),
    ("write", &[Operation::Write]),
];

/// Which packets an opcode is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Which {
    All,
    Verb(usize),
    Code(u8),
}

/// One aimed fault.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Aimed {
    kind: Kind,
    which: Which,
    /// The queue pair that the packet is for.
    qp: Option<u32>,
    /// Since the first packet that was sent.
    at: Span,
    nth: Option<u64>,
    every: Option<u64>,
    probability: Option<f64>,
    /// How often it happens.
    times: u64,
}

/// An aimed fault, and what it has seen.
#[derive(Clone, Debug)]
pub(super) struct Aim {
    fault: Aimed,
    /// Packets that fitted.
    seen: u64,
    /// Packets that suffered.
    struck: u64,
}

/// Bits per byte.
const BITS: u64 = 8;
/// The widest damage, in bits.
const DAMAGE_BITS_MAX: u32 = 64;
/// How many aimed faults may be given.
pub(super) const AIMED_MAX: usize = 32;

impl Aimed {
    /// Reads `KIND:KEY=VALUE,...`.
    pub(super) fn parse(text: &str) -> Result<Self, SettingError> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let (kind, mut draft) = (kind.trim(), Draft::default());
        let keys: &[&str] = match kind {
            "damage" => &["bits"],
            "delay" => &["delay_us"],
            "drop" | "duplicate" | "mark" => &[],
            "rnr" => &["timer"],
            "link-down" => &["at_us", "down_us", "every_us", "times"],
            _ => return Err(unknown("fault", kind, &KINDS)),
        };
        let common: &[&str] = if kind == "link-down" { &[] } else { &AIMS };
        let known = [keys, common].concat();
        let mut said = Vec::new();
        for element in rest.split(',').map(str::trim).filter(|element| !element.is_empty()) {
            let (key, value) = element.split_once('=').unwrap_or((element, ""));
            let (key, value) = (key.trim(), value.trim());
            if !known.contains(&key) {
                return Err(unknown(&format!("key of {kind}"), key, &known));
            }
            once(&mut said, key)?;
            draft.set(key, value).map_err(|hint| {
                SettingError::new("FERROCE_FAULTS", format!("{kind}: `{element}` cannot be"), hint)
            })?;
        }
        draft.finish(kind).map_err(|hint| {
            SettingError::new(
                "FERROCE_FAULTS",
                format!("`{text}` is not complete, or too much"),
                hint,
            )
        })
    }
}

/// What was read of an aimed fault.
#[derive(Default)]
struct Draft {
    which: Option<Which>,
    qp: Option<u32>,
    at: Span,
    nth: Option<u64>,
    every: Option<u64>,
    probability: Option<f64>,
    times: Option<u64>,
    bits: Option<u32>,
    delay: Option<Span>,
    timer: Option<u8>,
    down: Option<Span>,
    every_span: Option<Span>,
}

impl Draft {
    /// # Errors
    /// What the value should be.
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let number = |least: u64, most: u64| {
            let parsed = value.parse().ok().filter(|number| (least..=most).contains(number));
            parsed.ok_or_else(|| format!("{key} is a whole number from {least} to {most}"))
        };
        let span = || number(0, 1_000_000_000).map(Span::from_us);
        match key {
            "opcode" => self.which = Some(which(value)?),
            "qp" => {
                let digits = value.strip_prefix("0x");
                let parsed = match digits {
                    Some(digits) => u32::from_str_radix(digits, 16),
                    None => value.parse(),
                };
                let fits = parsed.ok().filter(|qpn| *qpn < 1 << 24);
                self.qp =
                    Some(fits.ok_or("qp is the number of the peer's queue pair, as in 0x71c000")?);
            }
            "at_us" => self.at = span()?,
            "nth" => self.nth = Some(number(1, u64::MAX)?),
            "every" => self.every = Some(number(1, u64::MAX)?),
            "times" => self.times = Some(number(1, u64::MAX)?),
            "probability" => {
                let parsed = value.parse().ok().filter(|chance| (0.0..=1.0).contains(chance));
                self.probability = Some(parsed.ok_or("probability is a number between 0 and 1")?);
            }
            "bits" => self.bits = Some(number(1, DAMAGE_BITS_MAX.into())? as u32),
            "delay_us" => self.delay = Some(span()?),
            "timer" => self.timer = Some(number(0, 31)? as u8),
            "down_us" => self.down = Some(span()?),
            "every_us" => self.every_span = Some(span()?),
            _ => return Err(String::from("there is no such key")),
        }
        Ok(())
    }

    /// # Errors
    /// What is missing or too much.
    fn finish(self, kind: &str) -> Result<Aimed, &'static str> {
        let rules = [self.nth.is_some(), self.every.is_some(), self.probability.is_some()];
        if rules.iter().filter(|given| **given).count() > 1 {
            return Err("use one of nth, every and probability; none means every packet");
        }
        let kind = match kind {
            "drop" => Kind::Drop,
            "damage" => Kind::Damage { bits: self.bits.unwrap_or(1) },
            "delay" => Kind::Delay(self.delay.ok_or("say how long: delay_us=500")?),
            "duplicate" => Kind::Duplicate,
            "mark" => Kind::Mark,
            "rnr" => Kind::Rnr { timer: self.timer.unwrap_or(1) },
            _ => {
                let down = self.down.ok_or("say how long: down_us=50000")?;
                let every = self.every_span.unwrap_or(Span::MAX);
                if down >= every {
                    return Err("a link is up before it fails again: down_us is below every_us");
                }
                Kind::LinkDown { down, every }
            }
        };
        let which = match (kind, self.which) {
            // Nothing else carries a syndrome, and nothing else can say so.
            (Kind::Rnr { .. }, None) => Which::Verb(0),
            (Kind::Rnr { .. }, Some(_)) => {
                return Err("rnr is of acknowledgements: leave out opcode");
            }
            (_, which) => which.unwrap_or(Which::All),
        };
        let once = if self.nth.is_some() { 1 } else { u64::MAX };
        let times = match kind {
            Kind::LinkDown { every, .. } if every == Span::MAX => 1,
            _ => self.times.unwrap_or(once),
        };
        let Self { qp, at, nth, every, probability, .. } = self;
        Ok(Aimed { kind, which, qp, at, nth, every, probability, times })
    }
}

fn which(value: &str) -> Result<Which, String> {
    if let Some(digits) = value.strip_prefix("0x") {
        let code = u8::from_str_radix(digits, 16).ok().and_then(Opcode::from_code);
        let code = code.ok_or("there is no such opcode of the BTH; RC SEND only is 0x04")?;
        return Ok(Which::Code(code.code()));
    }
    let names = VERBS.map(|(name, _)| name);
    match names.iter().position(|name| *name == value) {
        Some(place) => Ok(Which::Verb(place)),
        None => Err(match nearest(value, &names) {
            Some(meant) => format!("you may have meant {meant}"),
            None => format!("opcode is one of {}, or a number as 0x04", names.join(", ")),
        }),
    }
}

/// Nothing may be said twice: one of both would be without effect.
pub(super) fn once<'a>(said: &mut Vec<&'a str>, key: &'a str) -> Result<(), SettingError> {
    if said.contains(&key) {
        let hint =
            "say it once; faults that differ stand behind semicolons, as in drop:nth=1;drop:nth=5";
        return Err(SettingError::new("FERROCE_FAULTS", format!("`{key}` is said twice"), hint));
    }
    said.push(key);
    Ok(())
}

/// A word that is none, with what may have been meant.
pub(super) fn unknown(what: &str, word: &str, known: &[&str]) -> SettingError {
    let hint = match nearest(word, known) {
        Some(meant) => format!("you may have meant {meant}"),
        None => format!("there are {}", known.join(", ")),
    };
    SettingError::new("FERROCE_FAULTS", format!("`{word}` is not a {what}"), hint)
}

impl Aim {
    pub(super) fn new(fault: Aimed) -> Self {
        Self { fault, seen: 0, struck: 0 }
    }

    /// What happens to a packet that is sent so long after the first one. `drawn` draws lots.
    pub(super) fn strike(
        &mut self,
        after: Span,
        packet: &[u8],
        drawn: impl FnOnce(f64) -> bool,
    ) -> Option<Kind> {
        let Aimed { kind, at, nth, every, probability, times, .. } = self.fault;
        let since = Span::from_ps(after.as_ps().checked_sub(at.as_ps())?);
        if let Kind::LinkDown { down, every } = kind {
            let (time, turn) = match every {
                Span::MAX => (since, 0),
                every => {
                    let turn = since.as_ps() / every.as_ps();
                    (Span::from_ps(since.as_ps() % every.as_ps()), turn)
                }
            };
            return (turn < times && time < down).then_some(kind);
        }
        if !self.fits(packet) || self.struck >= times {
            return None;
        }
        self.seen += 1;
        let strikes = match (nth, every, probability) {
            (Some(nth), _, _) => self.seen >= nth,
            (_, Some(every), _) => self.seen.is_multiple_of(every),
            (_, _, Some(probability)) => drawn(probability),
            _ => true,
        };
        self.struck += u64::from(strikes);
        strikes.then_some(kind)
    }

    /// Whether a packet, from its BTH on, is one of those that are aimed at.
    fn fits(&self, packet: &[u8]) -> bool {
        let Aimed { kind, which, qp, .. } = self.fault;
        let Ok(bth) = bth::Packet::new_checked(packet) else { return false };
        let for_it = qp.is_none_or(|qpn| bth.destination().value() == qpn);
        let Some(opcode) = Opcode::from_code(packet[0]) else { return false };
        let of_it = match which {
            Which::All => true,
            Which::Verb(place) => VERBS[place].1.contains(&opcode.facts().operation),
            Which::Code(code) => opcode.code() == code,
        };
        // A selective acknowledgement has more to say than that nothing was ready.
        let may_say = !matches!(kind, Kind::Rnr { .. })
            || opcode.facts().operation == Operation::Acknowledge && is_positive(packet);
        for_it && of_it && may_say
    }
}

/// Whether the acknowledgement is no NAK.
fn is_positive(packet: &[u8]) -> bool {
    let header = packet.get(bth::LEN..).map(aeth::Repr::parse);
    header.is_some_and(|aeth| {
        aeth.is_ok_and(|aeth| matches!(aeth.syndrome, aeth::Syndrome::Ack { .. }))
    })
}

/// Makes an RNR NAK of an acknowledgement; its ICRC is then to be computed again.
pub(super) fn say_not_ready(packet: &mut [u8], timer: u8) {
    let Some(bytes) = packet.get_mut(bth::LEN..) else { return };
    if let Ok(aeth) = aeth::Repr::parse(bytes) {
        aeth::Repr { syndrome: aeth::Syndrome::RnrNak { timer }, ..aeth }.emit(bytes);
    }
}

/// Damages `bits` bits in a row, the first and the last of them surely.
pub(super) fn damage(packet: &mut [u8], bits: u32, drawn: u64, between: u64) {
    let whole = packet.len() as u64 * BITS;
    let first = drawn % (whole - u64::from(bits) + 1);
    for bit in 0..u64::from(bits) {
        let is_edge = bit == 0 || bit + 1 == u64::from(bits);
        if is_edge || between >> bit & 1 == 1 {
            let place = first + bit;
            packet[(place / BITS) as usize] ^= 1 << (place % BITS);
        }
    }
}

/// When the first packet of a NIC was sent; faults with a time count from there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Beginning(Option<Time>);

impl Beginning {
    pub(super) fn after(&mut self, now: Time) -> Span {
        let began = *self.0.get_or_insert(now);
        now.since(began)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn aim(text: &str) -> Aim {
        Aim::new(Aimed::parse(text).unwrap())
    }

    /// The beginning of a packet with this opcode for this queue pair, and room for an AETH.
    fn packet(code: u8, qpn: u32) -> Vec<u8> {
        let mut bytes = vec![0; 40];
        bytes[0] = code;
        bytes[2..4].copy_from_slice(&[0xff, 0xff]);
        bytes[5..8].copy_from_slice(&qpn.to_be_bytes()[1..]);
        bytes
    }

    const WRITE_ONLY: u8 = 0x0a;
    const SEND_ONLY: u8 = 0x04;
    const ACK: u8 = 0x11;

    /// Which of ten packets suffer.
    fn struck(text: &str, packets: impl Fn(u64) -> Vec<u8>) -> Vec<u64> {
        let mut aim = aim(text);
        let hits = |number: &u64| {
            let after = Span::from_us(number * 10);
            aim.strike(after, &packets(*number), |_| false).is_some()
        };
        (0..10).filter(hits).collect()
    }

    #[test]
    fn a_fault_is_aimed_by_opcode_queue_pair_number_and_time() {
        let mixed = |number: u64| {
            packet(
                if number.is_multiple_of(2) { WRITE_ONLY } else { SEND_ONLY },
                7 + number as u32 % 3,
            )
        };
        assert_eq!(struck("drop", mixed).len(), 10);
        assert_eq!(struck("drop:opcode=write", mixed), [0, 2, 4, 6, 8]);
        assert_eq!(struck("drop:opcode=write,nth=3", mixed), [4]);
        assert_eq!(struck("drop:opcode=0x04,nth=2,times=2", mixed), [3, 5]);
        assert_eq!(struck("drop:qp=8", mixed), [1, 4, 7]);
        assert_eq!(struck("drop:qp=0x8,every=2", mixed), [4]);
        assert_eq!(struck("drop:at_us=70", mixed), [7, 8, 9]);
        assert_eq!(struck("drop:probability=0.5", mixed), [0_u64; 0]);
        assert_eq!(struck("link-down:at_us=20,down_us=25", mixed), [2, 3, 4]);
        assert_eq!(struck("link-down:down_us=10,every_us=40,times=2", mixed), [0, 4]);
    }

    #[test]
    fn only_a_positive_acknowledgement_becomes_an_rnr_nak() {
        let acks = |_| packet(ACK, 7);
        assert_eq!(struck("rnr:nth=2", acks), [1]);
        assert_eq!(struck("rnr", |_| packet(WRITE_ONLY, 7)), [0_u64; 0]);
        let mut bytes = packet(ACK, 7);
        say_not_ready(&mut bytes, 12);
        let aeth = aeth::Repr::parse(&bytes[bth::LEN..]).unwrap();
        assert_eq!(aeth.syndrome, aeth::Syndrome::RnrNak { timer: 12 });
        assert_eq!(struck("rnr", |_| bytes.clone()), [0_u64; 0]);
    }

    #[test]
    fn damage_is_as_wide_as_asked() {
        for bits in [1, 2, 16, 64] {
            let mut bytes = vec![0; 20];
            damage(&mut bytes, bits, 0x1234_5678_9abc_def0, 0);
            let wrong: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
            assert_eq!(wrong, bits.min(2), "its edges alone");
            let mut bytes = vec![0; 8];
            damage(&mut bytes, bits, u64::MAX, u64::MAX);
            let wrong: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
            assert_eq!(wrong, bits);
        }
    }

    #[test]
    fn a_mistake_says_what_is_wrong_with_the_nearest_name() {
        let said = |text: &str| Aimed::parse(text).unwrap_err().to_string();
        for (text, problem, hint) in [
            ("dorp:nth=1", "`dorp` is not a fault", "you may have meant drop"),
            ("drop:opcod=write", "`opcod` is not a key of drop", "you may have meant opcode"),
            ("drop:opcode=wirte", "drop: `opcode=wirte` cannot be", "you may have meant write"),
            ("drop:opcode=0xff", "drop: `opcode=0xff` cannot be", "there is no such opcode"),
            ("drop:nth=0", "drop: `nth=0` cannot be", "nth is a whole number from 1"),
            ("drop:nth=1,every=2", "`drop:nth=1,every=2` is not complete", "use one of nth, every"),
            ("drop:nth=1,nth=2", "`nth` is said twice", "say it once"),
            ("delay:nth=1", "`delay:nth=1` is not complete", "say how long"),
            ("rnr:opcode=send", "`rnr:opcode=send` is not complete", "rnr is of acknowledgements"),
            ("link-down:qp=1", "`qp` is not a key of link-down", "there are at_us"),
            ("link-down:down_us=9,every_us=9", "is not complete", "a link is up before"),
            (
                "damage:bits=65",
                "damage: `bits=65` cannot be",
                "bits is a whole number from 1 to 64",
            ),
        ] {
            let error = said(text);
            assert!(error.starts_with("FERROCE_FAULTS: ") && error.contains(problem), "{error}");
            assert!(error.contains(&format!("\nhint: {hint}")), "{error}");
        }
    }
}
