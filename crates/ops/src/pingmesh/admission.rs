//! Which windows a collector believes: those that an agent can have seen. An agent that lies can spoil what is known of
//! its own host, and no more.

use std::collections::BTreeMap;

use super::limits::{
    AHEAD_NS, BEHIND_NS, HISTOGRAM_MAX_NS, RAW_FAILED_MAX, RAW_SAMPLED_MAX, RAW_SLOW_MAX,
    TARGETS_MAX,
};
use super::raw::{Outcome, Raw, Times};
use super::scope::{Map, Scope};
use super::window::{Counts, Window};

/// Probes a second that a host may say it has sent, with room for one whose clock runs fast.
const RATE_MAX: u64 = 20_000;
/// Flow labels of a target.
const LABELS: usize = rdma::app::LABELS_MAX as usize;

/// What a collector knows when a window arrives.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Where hosts are.
    pub map: &'a Map,
    /// The host that said hello.
    pub host: u32,
    /// How long windows are.
    pub length_ns: u64,
    /// Its own clock.
    pub now_ns: u64,
}

/// Whether a window can be.
///
/// # Errors
/// Why not, for the agent's log.
pub fn admit(window: &Window, known: &Known<'_>) -> Result<(), String> {
    let Known { map, host, length_ns, now_ns } = *known;
    if window.host != host {
        return Err(format!("it is of host {}, and host {host} says it", window.host));
    }
    if window.length_ns != length_ns || !window.start_ns.is_multiple_of(length_ns.max(1)) {
        return Err(format!("windows are {} ms here, from whole ones on", length_ns / 1_000_000));
    }
    if window.end_ns() > now_ns.saturating_add(AHEAD_NS) {
        return Err("it ends in the future: is the host's clock wrong?".to_owned());
    }
    if window.start_ns < now_ns.saturating_sub(BEHIND_NS) {
        return Err("it is older than what is kept".to_owned());
    }
    if window.pairs.len() > TARGETS_MAX * Scope::ALL.len() {
        return Err(format!("{} targets are more than there can be", window.pairs.len()));
    }
    let sent: u64 = window.pairs.iter().fold(0, |sum, pair| sum.saturating_add(pair.counts.sent));
    let most = RATE_MAX.saturating_mul(length_ns / 1_000_000_000 + 1);
    if sent > most || window.prober.count() > most {
        return Err(format!("{sent} probes are more than a host sends"));
    }
    for pair in &window.pairs {
        let about = |what: &str| Err(format!("of target {}: {what}", pair.target));
        if pair.target == host || map.rack_of(pair.target).is_none() {
            return about("no such target");
        }
        if map.scope(host, pair.target) > pair.scope {
            return about("it is farther away");
        }
        if !pair.counts.is_sound() {
            return about("more outcomes than probes");
        }
        if pair.network.count() > pair.counts.answered || pair.responder.count() > pair.counts.sent
        {
            return about("more round trips than answers");
        }
        let of_labels = |of: fn(&super::window::OfLabel) -> u64| {
            pair.labels.iter().try_fold(0_u64, |sum, label| sum.checked_add(of(label)))
        };
        let is_sound = |sum: Option<u64>| sum.is_some_and(|sum| sum <= pair.counts.sent);
        if pair.labels.len() > LABELS || !is_sound(of_labels(|label| label.sent)) {
            return about("more probes with labels than probes");
        }
        if !is_sound(of_labels(|label| label.lost)) || !is_sound(of_labels(|label| label.slow)) {
            return about("more losses than probes");
        }
    }
    if window.tcp.len() > TARGETS_MAX * Scope::ALL.len() {
        return Err(format!("{} targets of TCP are more than there can be", window.tcp.len()));
    }
    let sent: u64 = window.tcp.iter().fold(0, |sum, pair| sum.saturating_add(pair.counts.sent));
    if sent > most {
        return Err(format!("{sent} TCP probes are more than a host sends"));
    }
    for pair in &window.tcp {
        let about = |what: &str| Err(format!("TCP of target {}: {what}", pair.target));
        if pair.target == host || map.rack_of(pair.target).is_none() {
            return about("no such target");
        }
        if map.scope(host, pair.target) > pair.scope {
            return about("it is farther away");
        }
        let answered = pair.counts.answered;
        if !pair.counts.is_sound() || pair.late > answered || pair.round_trip.count() > answered {
            return about("more outcomes than probes");
        }
    }
    let mut tcp: Vec<_> = window.tcp.iter().map(|pair| (pair.scope, pair.target)).collect();
    tcp.sort_unstable();
    if tcp.windows(2).any(|two| two[0] == two[1]) {
        return Err("it names a target of TCP twice".to_owned());
    }
    let mut targets: Vec<_> = window.pairs.iter().map(|pair| (pair.scope, pair.target)).collect();
    targets.sort_unstable();
    if targets.windows(2).any(|two| two[0] == two[1]) {
        return Err("it names a target twice".to_owned());
    }
    admit_raw(window, map)
}

/// Whether single probes can be those that the window has counted.
fn admit_raw(window: &Window, map: &Map) -> Result<(), String> {
    let mut single: BTreeMap<(Scope, u32), Counts> = BTreeMap::new();
    let [mut failed, mut slow, mut others] = [0; 3];
    for probe in &window.raw {
        let Raw { target, scope, label, posted_ns, outcome, times } = *probe;
        let about = |what: &str| Err(format!("a probe of target {target}: {what}"));
        if map.rack_of(target).is_none() {
            return about("no such target");
        }
        if !(window.start_ns..window.end_ns()).contains(&posted_ns) {
            return about("it is not of this window");
        }
        let is_short = |Times { network_ns, responder_ns, prober_ns }: Times| {
            [network_ns, responder_ns, prober_ns].into_iter().all(|ns| ns <= HISTOGRAM_MAX_NS)
        };
        if times.is_some() != outcome.is_answer() || !times.is_none_or(is_short) {
            return about("it has not taken what it says");
        }
        if usize::from(label) >= LABELS {
            return about("no such label");
        }
        single.entry((scope, target)).or_default().end(outcome);
        *match outcome {
            Outcome::Answered => &mut others,
            Outcome::Slow => &mut slow,
            _ => &mut failed,
        } += 1;
    }
    if failed > RAW_FAILED_MAX || slow > RAW_SLOW_MAX || others > RAW_SAMPLED_MAX {
        return Err(format!("{} single probes are more than there can be", window.raw.len()));
    }
    for pair in &window.pairs {
        let Some(of) = single.remove(&(pair.scope, pair.target)) else { continue };
        let is_within = of.answered <= pair.counts.answered
            && of.timeout <= pair.counts.timeout
            && of.send_error <= pair.counts.send_error
            && of.invalid_rtt <= pair.counts.invalid_rtt
            && of.unknown <= pair.counts.unknown;
        if !is_within {
            return Err(format!("of target {}: more single probes than probes", pair.target));
        }
    }
    match single.first_key_value() {
        None => Ok(()),
        Some(((_, target), _)) => Err(format!("of target {target}: single probes, and no others")),
    }
}

#[cfg(test)]
mod tests {
    use fabric::topology::{Cables, single_switch};
    use rdma::{Rate, Span};

    use super::super::window::{Counts, OfLabel, Pair, TcpPair};
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const NOW: u64 = 1_800_000_000 * SECOND;
    const START: u64 = NOW - 60 * SECOND;

    fn probe(outcome: Outcome) -> Raw {
        let times = outcome.is_answer().then_some(Times::from((5_000, 0, 0)));
        Raw { target: 1, scope: Scope::Tor, label: 0, posted_ns: START, outcome, times }
    }

    fn good() -> Window {
        let mut pair = Pair::new(1, Scope::Tor, 1);
        pair.counts = Counts { sent: 10, answered: 9, timeout: 1, ..Counts::default() };
        pair.labels = vec![OfLabel { sent: 10, lost: 1, slow: 0 }];
        (0..9).for_each(|_| pair.network.record(Span::from_us(5)));
        let raw = vec![probe(Outcome::Answered), probe(Outcome::NoAnswer)];
        Window { pairs: vec![pair], raw, ..Window::new(0, START, 30 * SECOND) }
    }

    fn said(window: &Window) -> Result<(), String> {
        let map = Map::of(&single_switch(3, Cables::new(Rate::from_gbps(40), 2)));
        admit(window, &Known { map: &map, host: 0, length_ns: 30 * SECOND, now_ns: NOW })
    }

    #[test]
    fn what_can_be_is_believed_and_every_lie_is_told_apart() {
        assert_eq!(said(&good()), Ok(()));
        type Lie = (&'static str, fn(&mut Window));
        fn tcp(late: u64) -> TcpPair {
            TcpPair { late, ..TcpPair::new(1, Scope::Tor) }
        }
        let lies: [Lie; 28] = [
            ("a probe of target 9: no such target", |w| w.raw[0].target = 9),
            ("single probes, and no others", |w| w.raw[0].target = 2),
            ("single probes, and no others", |w| w.raw[0].scope = Scope::Dc),
            ("not of this window", |w| w.raw[0].posted_ns = START + 30 * SECOND),
            ("not taken what it says", |w| w.raw[0].times = None),
            ("not taken what it says", |w| w.raw[0].times = Some(Times::from((u64::MAX, 0, 0)))),
            ("no such label", |w| w.raw[1].label = 64),
            ("more single probes than probes", |w| w.raw.push(probe(Outcome::NotSent))),
            ("17 single probes are more than", |w| w.raw = vec![probe(Outcome::Answered); 17]),
            ("TCP of target 1: more", |w| w.tcp = vec![tcp(1)]),
            ("TCP twice", |w| w.tcp = vec![tcp(0); 2]),
            ("TCP of target 0: no such", |w| w.tcp = vec![TcpPair::new(0, Scope::Tor)]),
            ("targets of TCP are more", |w| w.tcp = vec![tcp(0); 500]),
            ("of host 2", |w| w.host = 2),
            ("from whole ones on", |w| w.start_ns += 1),
            ("from whole ones on", |w| w.length_ns = 1),
            ("in the future", |w| w.start_ns += 120 * SECOND),
            ("older than", |w| w.start_ns = 0),
            ("more than there can be", |w| w.pairs = vec![w.pairs[0].clone(); 500]),
            ("more than a host sends", |w| w.pairs[0].counts.sent = u64::MAX),
            ("no such target", |w| w.pairs[0].target = 0),
            ("no such target", |w| w.pairs[0].target = 77),
            ("more outcomes", |w| w.pairs[0].counts.timeout = u64::MAX),
            ("more round trips", |w| w.pairs[0].counts.answered = 3),
            ("with labels", |w| w.pairs[0].labels = vec![OfLabel::default(); 65]),
            ("with labels", |w| w.pairs[0].labels[0].sent = 11),
            ("more losses", |w| w.pairs[0].labels[0].lost = u64::MAX),
            ("twice", |w| w.pairs.push(w.pairs[0].clone())),
        ];
        for (what, lie) in lies {
            let mut window = good();
            lie(&mut window);
            let why = said(&window).unwrap_err();
            assert!(why.contains(what), "{what}: {why}");
        }
    }
}
