//! What a host has seen in a window of time.
//!
//! Probes belong to the window in which they were posted. A window is finished when all of its probes are answered or
//! given up. Latencies are histograms that can be added up, so that percentiles of racks and podsets are those of all
//! probes, and no mean of percentiles.

use core::fmt;

use data_encoding::HEXLOWER;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use rdma::Span;
use serde::{Deserialize, Serialize};

use super::counted::HostDelta;
use super::limits::{DIGITS, HISTOGRAM_MAX_NS};
use super::raw::{Outcome, Raw};
use super::scope::Scope;

/// What is told apart, in nanoseconds.
const UNIT_NS: u64 = 64;
/// Cookie of the format V2, with eight bytes a word (HdrHistogram, `V2EncodingCookieBase`).
const COOKIE: u32 = 0x1c84_9303 | 0x10;
/// Of a histogram as bytes: more than all of its counts can take.
const ENCODED_BYTES_MAX: usize = 1 << 16;

/// Latencies, in nanoseconds.
#[derive(Clone, PartialEq)]
pub struct Latency(Histogram<u32>);

impl fmt::Debug for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = |rank| self.0.value_at_quantile(rank);
        write!(f, "{} values, p50 {} ns, p99 {} ns", self.0.len(), ns(0.5), ns(0.99))
    }
}

impl Default for Latency {
    fn default() -> Self {
        let made = Histogram::new_with_bounds(UNIT_NS, 4 * UNIT_NS, DIGITS);
        let mut made = made.expect("the bounds are fixed, and good");
        made.auto(true);
        Self(made)
    }
}

impl Latency {
    /// One more.
    pub fn record(&mut self, span: Span) {
        // What is longer than anything counts as the longest.
        let _ = self.0.record((span.as_ps() / 1_000).min(HISTOGRAM_MAX_NS));
    }

    /// All of another.
    pub fn add(&mut self, other: &Self) {
        // It grows as it must.
        let _ = self.0.add(&other.0);
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// What this part of them took at most, in microseconds; `None` of none.
    pub fn us(&self, rank: f64) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.value_at_quantile(rank) as f64 / 1e3)
    }

    /// As HdrHistogram's V2, which other programs read.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // Only a writer can fail, and a vector does not.
        let _ = V2Serializer::new().serialize(&self.0, &mut bytes);
        bytes
    }

    /// What [`Latency::encode`] has written, or another program of the same unit and digits. `None` if it is not that:
    /// the memory that it takes is bounded, whatever the bytes are.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
        let long = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes);
        let is_ours = bytes.len() <= ENCODED_BYTES_MAX
            && word(0)? == COOKIE
            && word(12)? == u32::from(DIGITS)
            && long(16)? == UNIT_NS
            && long(24)? <= 2 * HISTOGRAM_MAX_NS;
        if !is_ours {
            return None;
        }
        let mut from = bytes;
        let mut read: Histogram<u32> = Deserializer::new().deserialize(&mut from).ok()?;
        read.auto(true);
        Some(Self(read))
    }
}

/// Bytes of V2: as text where people read, as they are elsewhere.
impl Serialize for Latency {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let bytes = self.encode();
        match to.is_human_readable() {
            true => to.serialize_str(&HEXLOWER.encode(&bytes)),
            false => to.serialize_bytes(&bytes),
        }
    }
}

impl<'de> Deserialize<'de> for Latency {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let bytes = match from.is_human_readable() {
            true => HEXLOWER.decode(String::deserialize(from)?.as_bytes()).ok(),
            false => Some(<&[u8]>::deserialize(from)?.to_vec()),
        };
        bytes
            .and_then(|bytes| Self::decode(&bytes))
            .ok_or_else(|| serde::de::Error::custom("no histogram of ours"))
    }
}

/// Labels as text: how many there are, and of those that were sent their number and counts. A window has few probes of
/// each target, and a target many labels.
mod sent {
    use rdma::app::LABELS_MAX;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::OfLabel;

    pub(super) fn serialize<S: Serializer>(labels: &[OfLabel], to: S) -> Result<S::Ok, S::Error> {
        let seen = (0_u16..).zip(labels).filter(|(_, of)| **of != OfLabel::default());
        let seen: Vec<(u16, u64, u64, u64)> =
            seen.map(|(label, of)| (label, of.sent, of.lost, of.slow)).collect();
        (labels.len(), seen).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<OfLabel>, D::Error> {
        let (count, seen) = <(usize, Vec<(u16, u64, u64, u64)>)>::deserialize(from)?;
        if count > usize::from(LABELS_MAX) {
            return Err(D::Error::custom("more labels than there are"));
        }
        let mut labels = vec![OfLabel::default(); count];
        for (label, sent, lost, slow) in seen {
            let place = labels.get_mut(usize::from(label));
            *place.ok_or_else(|| D::Error::custom("a label that there is not"))? =
                OfLabel { sent, lost, slow };
        }
        Ok(labels)
    }
}

/// Probes, by what became of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Posted, or tried to.
    pub sent: u64,
    /// Answered, with round trip and delays.
    pub answered: u64,
    /// Answer or report did not come in time.
    pub timeout: u64,
    /// The NIC refused it, completed it with an error, or has not sent it in time.
    pub send_error: u64,
    /// Clocks that do not agree: a round trip that is negative, or longer than any.
    pub invalid_rtt: u64,
    /// Anything else: the world ended first.
    pub unknown: u64,
}

impl Counts {
    /// These and those.
    pub fn add(&mut self, other: &Self) {
        self.sent = self.sent.saturating_add(other.sent);
        self.answered = self.answered.saturating_add(other.answered);
        self.timeout = self.timeout.saturating_add(other.timeout);
        self.send_error = self.send_error.saturating_add(other.send_error);
        self.invalid_rtt = self.invalid_rtt.saturating_add(other.invalid_rtt);
        self.unknown = self.unknown.saturating_add(other.unknown);
    }

    /// What became of one that was sent.
    pub const fn end(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Answered | Outcome::Slow => self.answered += 1,
            Outcome::NoAnswer | Outcome::NoReport => self.timeout += 1,
            Outcome::Refused | Outcome::Failed(_) | Outcome::NotSent => self.send_error += 1,
            Outcome::Clocks => self.invalid_rtt += 1,
            Outcome::Unknown => self.unknown += 1,
        }
    }

    /// Those that have failed, whatever the network has had to do with it.
    pub const fn failed(&self) -> u64 {
        self.sent.saturating_sub(self.answered)
    }

    /// Those of which it is known whether the network has carried them.
    pub fn known(&self) -> u64 {
        self.answered.saturating_add(self.timeout)
    }

    /// Part of those that were lost.
    pub fn lost(&self) -> f64 {
        self.timeout as f64 / (self.known() as f64).max(1.0)
    }

    /// Whether they can be: no more outcomes than probes.
    pub fn is_sound(&self) -> bool {
        let Self { sent, answered, timeout, send_error, invalid_rtt, unknown } = *self;
        let outcomes = [answered, timeout, send_error, invalid_rtt, unknown];
        let sum = outcomes.iter().try_fold(0u64, |sum, count| sum.checked_add(*count));
        sum.is_some_and(|sum| sum <= sent)
    }
}

/// Probes that have carried one flow label.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct OfLabel {
    /// Answered, or not in time.
    pub sent: u64,
    /// Not in time.
    pub lost: u64,
    /// Answered, and slow: see [`Settings::slow`](super::probe::Settings::slow).
    pub slow: u64,
}

/// What became of the probes of one target.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Pair {
    /// The target, by index in the topology.
    pub target: u32,
    /// How far away it is.
    pub scope: Scope,
    /// By outcome.
    pub counts: Counts,
    /// By number of the flow label; as text, those that were sent alone.
    #[serde(with = "sent")]
    pub labels: Vec<OfLabel>,
    /// Round trips of the network: (T5 - T2) - (T4 - T3).
    pub network: Latency,
    /// What the target's processor took: T4 - T3.
    pub responder: Latency,
}

impl Pair {
    /// None yet.
    pub fn new(target: u32, scope: Scope, labels: u16) -> Self {
        Self {
            target,
            scope,
            counts: Counts::default(),
            labels: vec![OfLabel::default(); usize::from(labels.max(1))],
            network: Latency::default(),
            responder: Latency::default(),
        }
    }
}

/// A TCP probe that takes longer has lost a packet on its way: Linux sends again after 200 ms at the earliest.
pub const TCP_LATE: Span = Span::from_ms(150);

/// What became of TCP probes of one target: a connection, and a few bytes there and back.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TcpPair {
    /// The target, by index in the topology.
    pub target: u32,
    /// How far away it is.
    pub scope: Scope,
    /// By outcome; a port at which nobody listens is an error of the sender's.
    pub counts: Counts,
    /// Of those that were answered: how many took longer than [`TCP_LATE`].
    pub late: u64,
    /// From the beginning of the connection until the bytes were back.
    pub round_trip: Latency,
}

impl TcpPair {
    /// None yet.
    pub fn new(target: u32, scope: Scope) -> Self {
        let (counts, round_trip) = Default::default();
        Self { target, scope, counts, late: 0, round_trip }
    }

    /// One was answered.
    pub fn answered(&mut self, after: Span) {
        self.counts.sent += 1;
        self.counts.answered += 1;
        self.late += u64::from(after > TCP_LATE);
        self.round_trip.record(after);
    }

    /// Those that were answered late or not at all.
    pub fn hurt(&self) -> u64 {
        self.late.saturating_add(self.counts.timeout)
    }
}

/// See the module.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Window {
    /// The host that probed, by index in the topology.
    pub host: u32,
    /// When it began, in nanoseconds: since 1970, or of the model.
    pub start_ns: u64,
    /// How long it was.
    pub length_ns: u64,
    /// By target.
    pub pairs: Vec<Pair>,
    /// What this host's own processor took: (T6 - T1) - (T5 - T2).
    pub prober: Latency,
    /// What its NIC has counted meanwhile; `None` if nobody could read that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<HostDelta>,
    /// By target: what became of TCP probes that ended meanwhile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tcp: Vec<TcpPair>,
    /// Some of its probes by themselves, the oldest first: see [`Draw`](super::raw::Draw).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub raw: Vec<Raw>,
}

impl Window {
    /// A window in which nothing was seen yet.
    pub fn new(host: u32, start_ns: u64, length_ns: u64) -> Self {
        let (pairs, prober, counted, tcp, raw) = Default::default();
        Self { host, start_ns, length_ns, pairs, prober, counted, tcp, raw }
    }

    /// All outcomes.
    pub fn counts(&self) -> Counts {
        let mut all = Counts::default();
        self.pairs.iter().for_each(|pair| all.add(&pair.counts));
        all
    }

    /// When it ended, in nanoseconds.
    pub const fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.length_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_are_added_up_and_read_again() {
        let (mut one, mut other) = (Latency::default(), Latency::default());
        (1..=99).for_each(|us| one.record(Span::from_us(us)));
        other.record(Span::from_ms(700));
        one.add(&other);
        let read = Latency::decode(&one.encode()).unwrap();
        assert_eq!(read.count(), 100);
        let at = |rank: f64| read.us(rank).unwrap();
        assert!((at(0.5) - 50.0).abs() < 1.0 && (at(1.0) - 700_000.0).abs() < 7_000.0, "{read:?}");
        assert!(one.encode().len() < 400, "{}", one.encode().len());
        let json = serde_json::to_string(&one).unwrap();
        assert_eq!(serde_json::from_str::<Latency>(&json).unwrap().encode(), one.encode());
    }

    #[test]
    fn what_is_no_histogram_of_ours_takes_no_memory() {
        let mut good = Latency::default();
        good.record(Span::from_us(7));
        let good = good.encode();
        assert!(Latency::decode(&good).is_some());
        // Digits, lowest, highest; and every cut.
        for (at, byte) in [(0, 0), (15, 5), (23, 1), (24, 0xff)] {
            let mut wrong = good.clone();
            wrong[at] = byte;
            assert!(Latency::decode(&wrong).is_none(), "byte {at}");
        }
        assert!((0..good.len()).all(|length| Latency::decode(&good[..length]).is_none()));
        let mut huge = Histogram::<u64>::new(5).unwrap();
        huge.record(u64::MAX / 4).unwrap();
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&huge, &mut bytes).unwrap();
        assert!(Latency::decode(&bytes).is_none());
        assert!(serde_json::from_str::<Latency>("\"1c8\"").is_err());
    }

    #[test]
    fn labels_are_written_if_they_were_sent_and_take_no_more_memory_than_there_are() {
        let mut pair = Pair::new(3, Scope::Dc, 40);
        pair.labels[7] = OfLabel { sent: 2, lost: 1, slow: 0 };
        let text = serde_json::to_string(&pair).unwrap();
        assert!(text.contains("\"labels\":[40,[[7,2,1,0]]]"), "{text}");
        assert_eq!(serde_json::from_str::<Pair>(&text).unwrap(), pair);
        for wrong in ["[40,[[40,2,1,0]]]", "[4000000000,[]]"] {
            let text = text.replace("[40,[[7,2,1,0]]]", wrong);
            assert!(serde_json::from_str::<Pair>(&text).is_err(), "{wrong}");
        }
    }

    #[test]
    fn outcomes_are_no_more_than_probes() {
        let counts = Counts { sent: 3, answered: 2, timeout: 1, ..Counts::default() };
        assert!(counts.is_sound());
        assert!(!Counts { unknown: 1, ..counts }.is_sound());
        assert!(!Counts { unknown: u64::MAX, ..counts }.is_sound());
    }
}
