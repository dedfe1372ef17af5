//! Causes: which link should have been full and was not, where a chain of pauses begins, and which threshold
//! came first.
//!
//! ```text
//!   flows that wait ─► their destination's link ─► full: so many lead there
//!                                              └► not full: paused, slowed down by CNPs, or sent again
//!   port that was paused longest ─► who paused it ─► who paused that ─► ... ─► the source
//! ```
//!
//! A cause is told before its effects. Where a setting would take it away and a run of the same length tells
//! whether that is so, the note says what to set ([`Note::remedies`]), and the report of a run that was
//! followed by trials says what they came to ([`Trial`]).

use std::collections::BTreeMap;

use rdma::{Span, Time};
use transport::Recovery;
use transport::congestion::{Congestion, Settings};

use super::Report;
use super::diagnosis::Note;
use crate::Verdict;
use crate::network::LinkUse;
use crate::topology::End;
use crate::workload::Flow;

/// A link that is busy for this part of the time or more is full. Ours.
const FULL: f64 = 0.8;
/// A flow waits if its messages take so many times longer than alone in the network. Ours.
const WAITS: f64 = 1.5;
/// A pause matters if it takes this part of the time. Ours.
pub(super) const MATTERS: f64 = 0.1;

/// A setting that was tried after a run, by another run of the same scenario that was stopped at the time of
/// the model when the first had ended.
#[derive(Clone, PartialEq, Debug)]
pub struct Trial {
    /// What was set, as `ferroce sim --set` takes it.
    pub set: Vec<String>,
    /// What that run came to.
    pub effect: Effect,
}

/// What a run came to, in the few figures that a trial is judged by.
#[derive(Clone, PartialEq, Debug)]
pub struct Effect {
    /// When all flows had ended, if they all have an end and reached it.
    finished: Option<Time>,
    /// When it stopped.
    at: Time,
    /// It stopped because queues waited for each other.
    deadlocked: bool,
    completed: u64,
    goodput_gbps: f64,
    pauses: u64,
    drops: u64,
}

impl Effect {
    /// Whether it is better than `before`: a goodput that is 5 % higher, or one as high (within 5 %) with at most
    /// half of the pauses and drops. Ours. No goodput makes up for a deadlock.
    pub fn is_better(&self, before: &Self) -> bool {
        if self.deadlocked != before.deadlocked {
            return before.deadlocked;
        }
        let troubles = [self, before].map(|effect| effect.pauses + effect.drops);
        let rate = self.goodput_gbps / before.goodput_gbps.max(f64::MIN_POSITIVE);
        rate >= 1.05 || rate >= 0.95 && troubles[1] > 0 && troubles[0] * 2 <= troubles[1]
    }

    /// What it came to, and what it was `before`.
    fn beside(&self, before: &Self) -> String {
        let mut parts = Vec::new();
        match (self.deadlocked, before.deadlocked) {
            (false, true) => parts.push(format!("no deadlock by {} (was one)", self.at)),
            (true, false) => parts.push(format!("DEADLOCK at {} (was none)", self.at)),
            _ => {}
        }
        parts.push(match (self.finished, before.finished) {
            (Some(now), Some(was)) => format!("finished at {now} (was {was})"),
            (Some(now), None) => format!("finished at {now} (was not by {})", before.at),
            (None, _) => {
                format!(
                    "messages done: {} by {} (was {})",
                    self.completed, self.at, before.completed
                )
            }
        });
        parts.push(format!("{:.1} Gb/s (was {:.1})", self.goodput_gbps, before.goodput_gbps));
        for (what, now, was) in
            [("pause frames", self.pauses, before.pauses), ("drops", self.drops, before.drops)]
        {
            if now + was > 0 {
                parts.push(format!("{now} {what} (was {was})"));
            }
        }
        parts.join(", ")
    }
}

impl Trial {
    /// What was set and what came of it, beside `before`, in a sentence.
    pub(super) fn said(&self, before: &Effect) -> String {
        let helps = match self.effect.is_better(before) {
            true => "helps",
            false => "does not help",
        };
        format!("{} {helps}: {}", self.set.join(", "), self.effect.beside(before))
    }
}

impl Report<'_> {
    /// What to try, so that the causes that were found go away: each several settings, as `ferroce sim --set`
    /// takes them.
    pub fn remedies(&self) -> Vec<Vec<String>> {
        self.notes().into_iter().flat_map(|note| note.remedies).collect()
    }

    /// The same without the remedies of `moot`, which change nothing in this scenario.
    #[must_use]
    pub fn without(mut self, moot: Vec<Vec<String>>) -> Self {
        self.moot = moot;
        self
    }

    /// The same, with what was tried.
    #[must_use]
    pub fn with_trials(mut self, trials: Vec<Trial>) -> Self {
        self.trials = trials;
        self
    }

    /// What this run came to as a trial.
    pub fn effect(&self) -> Effect {
        let network = self.network;
        let is_over = network.flows().iter().all(Flow::is_over);
        Effect {
            finished: is_over.then(|| network.now()),
            at: network.now(),
            deadlocked: matches!(self.verdict, Verdict::Deadlock(_)),
            completed: network.flows().iter().map(|flow| flow.completed).sum(),
            goodput_gbps: self.goodput_of().0,
            pauses: network.pause_frames(),
            drops: network.drops().total(),
        }
    }

    /// The part of the time from the first flow's start for which a link was used, of its part of the whole; the
    /// programs of a lab are no flows, and may send at any time.
    fn of_window(&self, used: f64) -> f64 {
        if self.network.flows().is_empty() {
            return used;
        }
        let (_, _, first) = self.goodput_of();
        let now = self.network.now();
        used * now.as_ps() as f64 / now.since(first).as_ps().max(1) as f64
    }

    /// Whether somebody waited for the messages of a flow longer than its network, alone, would have needed.
    fn waits(&self, index: usize, flow: &Flow) -> bool {
        let spec = &flow.spec;
        if spec.interval.is_some() || spec.reply_bytes.is_some() || flow.failed > 0 {
            return false;
        }
        if spec.messages.is_none() {
            return spec.message_bytes > 0;
        }
        let slowdowns = self.slowdowns(index);
        match slowdowns.is_empty() {
            true => !flow.is_over(),
            false => slowdowns.iter().sum::<f64>() / slowdowns.len() as f64 > WAITS,
        }
    }

    /// The link that most of the flows that wait lead to: full, or why not.
    pub(super) fn what_limits(&self) -> Option<Note> {
        let network = self.network;
        let mut towards: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (index, flow) in network.flows().iter().enumerate() {
            if flow.spec.job.is_none() && self.waits(index, flow) {
                towards.entry(flow.spec.destination).or_default().push(index as u32);
            }
        }
        let waiting: Vec<u32> = towards.values().flatten().copied().collect();
        // Of those with as many, the first.
        let most = towards.values().map(Vec::len).max()?;
        let flows = towards.into_values().find(|flows| flows.len() == most)?;
        let last = |flow: &u32| network.links_of(*flow).pop();
        let link = flows.iter().find_map(last)?;
        let topology = network.topology();
        let name = |end| topology.name(end);
        let carried = |link: &LinkUse| {
            let (used, line) = (self.of_window(link.used), link.rate.as_bps() as f64 / 1e9);
            let (at, to, percent) = (name(link.at), name(link.to), used * 100.0);
            format!("{at} -> {to} carried {:.1} of {line} Gb/s ({percent:.0} %)", used * line)
        };
        let (used, last) = (self.of_window(link.used), link);
        let carried_last = carried(&last);
        let led = match most {
            1 => "a flow that waits leads there".to_owned(),
            count => format!("{count} flows that wait lead there"),
        };
        let mut sources: Vec<u32> =
            flows.iter().map(|&flow| network.flows()[flow as usize].spec.source).collect();
        sources.sort_unstable();
        sources.dedup();
        let sum = |of: fn(&transport::Stats) -> u64| -> u64 {
            sources.iter().flat_map(|&source| network.host_stats(source)).map(|own| of(&own)).sum()
        };
        let nic = network.nic_config(*sources.first()?)?;
        let (again, timeouts) =
            (sum(|stats| stats.retransmitted_pkts), sum(|own| own.local_ack_timeout_err));
        let packets = sum(|stats| stats.sent_pkts).max(1);
        let part = again as f64 / packets as f64;
        let repeated = format!(
            "its senders retransmitted {again} of {packets} packets ({:.0} %), after {timeouts} timeouts",
            part * 100.0
        );
        if used >= FULL && part > MATTERS {
            let mut note =
                Note::new("wasted link", format!("{carried_last}, and {led}: {repeated}"));
            let better = [Recovery::GoBackN, Recovery::SelectiveRepeat];
            let better = better.iter().filter(|&&one| match nic.recovery {
                Recovery::GoBack0 => true,
                Recovery::GoBackN => one == Recovery::SelectiveRepeat,
                Recovery::SelectiveRepeat => false,
            });
            let set = |one: &Recovery| vec![format!("nic.recovery={}", one.name())];
            note.remedies = better.map(set).collect();
            return Some(note.change("see what was dropped and why, or nic.recovery"));
        }
        if used >= FULL {
            return Some(Note::new("full link", format!("{carried_last}: {led}")));
        }
        // What stands before it may be full: of such links that which most wait for, and of several the first,
        // where they queue. What follows it is as full, and nobody waits there.
        let all: Vec<_> = flows.iter().flat_map(|&flow| network.links_of(flow)).collect();
        let mut by: BTreeMap<u32, usize> = BTreeMap::new();
        for link in waiting.iter().flat_map(|&flow| network.links_of(flow)) {
            *by.entry(link.port).or_default() += 1;
        }
        let full = all.iter().filter(|link| self.of_window(link.used) >= FULL);
        // `max_by_key` takes the last of equals.
        if let Some(full) = full.rev().max_by_key(|link| by.get(&link.port)) {
            let go = match by.get(&full.port) {
                None | Some(1) => "a flow that waits goes by it".to_owned(),
                Some(count) => format!("{count} flows that wait go by it"),
            };
            let why = format!("{}: {go}; behind it, {carried_last}", carried(full));
            return Some(Note::new("full link", why));
        }
        let why = |cause: &str| format!("{carried_last}, though {led}: {cause}");
        let about = "idle link";
        let whole = network.now().as_ps() as f64;
        let paused = all.iter().max_by_key(|link| link.paused)?;
        if paused.paused.as_ps() as f64 > whole * (1.0 - FULL) {
            let cause = format!(
                "on the way, {} was paused by {} for {:.0} % of the time",
                name(paused.at),
                name(paused.to),
                paused.paused.as_ps() as f64 * 100.0 / whole
            );
            return Some(Note::new(about, why(&cause)));
        }
        let cnps = sum(|stats| stats.rp_cnp_handled);
        match nic.congestion {
            Congestion::Dcqcn(reaction) if cnps > 0 => {
                let (marked, _) = self.marks();
                let back = match reaction.recovery_time(2) {
                    Some(time) => format!("{:.1} ms", time.as_ps() as f64 / 1e9),
                    None => "more than 10 s".to_owned(),
                };
                let cause = format!(
                    "DCQCN slowed its senders down by {cnps} CNPs ({marked} marks), and from two in a row \
                     it takes {back} to line rate again"
                );
                let notification = nic.notification.unwrap_or_default();
                let timer = rate_timer_us(Settings { reaction, notification });
                let low = self.marks_too_soon(&last);
                let (cause, sooner) = match &low {
                    Some((said, _)) => (cause + said, "larger thresholds in switch.ecn, "),
                    None => (cause, ""),
                };
                let change = format!(
                    "{sooner}a shorter nic.dcqcn.rate_timer_us, or another nic.congestion; the network without any \
                     says what PFC alone would do"
                );
                let mut note = Note::new(about, why(&cause)).change(&change);
                note.remedies = vec![vec!["nic.congestion=none".to_owned()]];
                if let Some(timer) = timer.map(|timer| timer / 10).filter(|&timer| timer > 0) {
                    note.remedies.insert(0, vec![format!("nic.dcqcn.rate_timer_us={timer}")]);
                }
                if let Some((_, set)) = low {
                    note.remedies.insert(0, set);
                }
                Some(note)
            }
            _ => {
                if timeouts > 0 || part > MATTERS {
                    return Some(Note::new(about, why(&repeated)));
                }
                (nic.congestion != Congestion::None).then(|| {
                    let cause = format!("{} held its senders back", nic.congestion.name());
                    let mut note = Note::new(about, why(&cause)).change("see nic.congestion");
                    note.remedies = vec![vec!["nic.congestion=none".to_owned()]];
                    note
                })
            }
        }
    }

    /// Whether the switch before `link` marks from less than a quarter (ours) of what HPCC has for its rate: what
    /// is to be said of that, and the settings of HPCC.
    fn marks_too_soon(&self, link: &LinkUse) -> Option<(String, Vec<String>)> {
        let End::Switch(switch) = link.at else { return None };
        let config = self.network.switch_config(switch)?;
        let marks =
            config.queues.iter().filter_map(|queue| queue.ecn).map(|ecn| ecn.min_bytes).min()?;
        let of_rate = |bytes: u64| bytes * (link.rate.as_bps() / 1_000_000_000) / 25;
        let (min, max) = (of_rate(100_000), of_rate(400_000));
        let said = format!(
            "; marks begin at {marks} bytes, and HPCC (5.1) has {min} to {max} at this rate"
        );
        let set = |key: &str, bytes| format!("switch.ecn.{key}_bytes={bytes}");
        (u64::from(marks) * 4 < min).then(|| (said, vec![set("min", min), set("max", max)]))
    }

    /// Follows the pauses of the port that was paused longest to who began them: that one, and what is to be
    /// known. Where they lead in a circle nobody began them.
    pub(super) fn where_pauses_begin(&self) -> Option<(End, Note)> {
        let network = self.network;
        let topology = network.topology();
        let whole = network.now().as_ps() as f64;
        // By node, the port that was paused longest: by whom, and how long.
        let mut paused: BTreeMap<End, (u64, End)> = BTreeMap::new();
        for port in network.ports(network.now()) {
            let time = super::hops::longest(&port.pauses);
            let most = paused.entry(port.at).or_insert((0, port.to));
            if time > most.0 {
                *most = (time, port.to);
            }
        }
        // From a node that had to wait to whoever began it, and for how long the last was held; `None` in a circle.
        let behind = |from: End| {
            let (mut way, mut held, mut here) = (vec![from], None, from);
            while let Some(&(time, by)) = paused.get(&here) {
                if time as f64 <= whole * MATTERS {
                    break;
                }
                if way.contains(&by) {
                    return None;
                }
                (here, held) = (by, Some(time));
                way.push(by);
            }
            held.map(|held| (way, held))
        };
        let longest = |(end, (time, _)): &(&End, &(u64, End))| (*time, core::cmp::Reverse(**end));
        let (most, _) = paused.iter().max_by_key(longest)?;
        let (way, time) = behind(*most)?;
        let here = *way.last()?;
        // Of all who waited for the same, the farthest shows how far it spread.
        let all = paused.keys().filter_map(|&from| behind(from));
        let all = all.filter(|(way, _)| way.last() == Some(&here)).map(|(way, _)| way);
        let way = all.rev().max_by_key(Vec::len).unwrap_or(way);
        let names: Vec<&str> = way.iter().rev().map(|&end| topology.name(end)).collect();
        let (source, chain) = (topology.name(here), names.join(", which paused "));
        let part = time as f64 * 100.0 / whole;
        let about = "source of pauses";
        match here {
            End::Host(host) => {
                let sent = network.host_pauses(host)?.sent_frames;
                let why = format!(
                    "{chain}. {source} is the source: it sent {sent} pause frames, and held its switch for \
                     {part:.0} % of the time ({})",
                    Span::from_ps(time)
                );
                Some((here, Note::new(about, why)))
            }
            End::Switch(switch) => {
                // It was not paused itself: more came than one of its links takes, that which was busy for longest.
                let mut busiest: Option<(End, f64)> = None;
                for (port, used) in network.ports(network.now()).zip(network.link_uses()) {
                    let is_more = busiest.is_none_or(|(_, most)| used > most);
                    if port.at == End::Switch(switch) && is_more {
                        busiest = Some((port.to, used));
                    }
                }
                let (to, used) = busiest?;
                let used = self.of_window(used);
                let at_times = if used >= FULL { "" } else { " at times" };
                let why = format!(
                    "{chain}. {source} is the source: more comes there{at_times} than its link to {} takes \
                     ({:.0} % used)",
                    topology.name(to),
                    used * 100.0
                );
                Some((here, Note::new(about, why)))
            }
        }
    }

    /// Whether senders were told to slow down before they were paused.
    pub(super) fn which_is_first(&self) -> Option<Note> {
        let network = self.network;
        if !self.listens() {
            return None;
        }
        let (marked, _) = self.marks();
        let counters = network.all_switch_counters();
        // The least threshold of a group that paused, and where marks of that switch begin.
        let mut first: Option<(u64, u32, u32, usize)> = None;
        for (switch, _, own) in counters {
            let Some(config) = network.switch_config(switch) else { continue };
            let marks = config.queues.iter().filter_map(|queue| queue.ecn).map(|ecn| ecn.min_bytes);
            let Some(marks) = marks.min() else { continue };
            for (group, _) in config.groups.iter().enumerate().filter(|(_, own)| own.lossless) {
                let xoff = self.lowest_threshold(switch, group);
                let reached = own.group_peak_bytes[group] >= xoff.max(1);
                if reached && first.is_none_or(|(least, ..)| xoff < least) {
                    first = Some((xoff, marks, switch, group));
                }
            }
        }
        let (xoff, marks, switch, group) = first?;
        let name = network.topology().name(End::Switch(switch));
        if xoff >= u64::from(marks) {
            return None;
        }
        let why = format!(
            "XOFF of group {group} of {name} fell to {xoff} bytes of an ingress, and marks begin at {marks} \
             of a queue: senders are paused before they are told to slow down ({marked} marks, {} pause \
             frames)",
            network.pause_frames()
        );
        let mut note = Note::new("PFC before ECN", why)
            .change("a larger switch.alpha or buffer, or smaller switch.ecn.min_bytes");
        // As steep as before, from half of what is paused at.
        let ecn = network.switch_config(switch)?.queues.iter().filter_map(|queue| queue.ecn);
        let ecn = ecn.min_by_key(|ecn| ecn.min_bytes)?;
        let min = (xoff / 2).max(1);
        let max = min + u64::from(ecn.max_bytes.saturating_sub(ecn.min_bytes)).max(1);
        note.remedies = vec![vec![
            format!("switch.ecn.min_bytes={min}"),
            format!("switch.ecn.max_bytes={max}"),
        ]];
        Some(note)
    }
}

/// The timer of a reaction point's increase, in microseconds.
fn rate_timer_us(settings: Settings) -> Option<u64> {
    let mut all = transport::congestion::PARAMETERS.iter();
    all.find(|parameter| parameter.key == "rate_timer_us").map(|timer| timer.get(&settings))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::Network;
    use crate::scenario::Scenario;

    const RACK: &str = r#"
end_ms = 20
[topology]
shape = "single-switch"
hosts = 18
rate_gbps = 100
cable_m = 5
[switch]
buffer_bytes = 32_000_000
alpha = 1
lossless_priorities = [3]
[[workload]]
kind = "incast"
receiver = "h0"
senders = 16
message_bytes = 1_000_000
"#;

    /// What is told of a run of the scenario `text` with `set`, and what it came to.
    pub(in crate::report) fn told(text: &str, set: &[&str]) -> (Vec<Note>, Effect) {
        let set: Vec<String> = set.iter().map(|&set| set.to_owned()).collect();
        let folder = std::path::Path::new(".");
        let scenario = Scenario::parse_set(text, folder, &set, None).unwrap();
        let mut network = Network::new(scenario.network).unwrap();
        let verdict: Verdict = network.run(scenario.end);
        let report = Report::new("told", &network, &verdict);
        (report.notes(), report.effect())
    }

    #[test]
    fn what_a_link_is_used_without_flows_is_of_the_whole_time() {
        let text = RACK.split("[[workload]]").next().unwrap();
        let scenario = Scenario::parse_set(text, std::path::Path::new("."), &[], None).unwrap();
        let mut network = Network::new(scenario.network).unwrap();
        let verdict = network.run(scenario.end);
        let used = Report::new("no flows", &network, &verdict).of_window(0.5);
        assert!((used - 0.5).abs() < 1e-9, "{used}");
    }

    #[test]
    fn a_link_that_dcqcn_leaves_idle_is_told_with_settings_that_fill_it() {
        let ecn =
            "switch.ecn={ min_bytes = 1_000_000, max_bytes = 2_000_000, max_probability = 0.05 }";
        let dcqcn = ["nic.congestion=dcqcn", ecn];
        let (notes, before) = told(RACK, &dcqcn);
        let first = &notes[0];
        assert_eq!(first.about, "idle link");
        assert!(first.why.starts_with("s0 -> h0 carried "), "{first:?}");
        assert!(first.why.contains("16 flows that wait lead there: DCQCN slowed"), "{first:?}");
        let remedies = [["nic.dcqcn.rate_timer_us=5"], ["nic.congestion=none"]];
        assert_eq!(first.remedies, remedies);
        for [remedy] in remedies {
            let set = [&dcqcn[..], &[remedy]].concat();
            let (notes, effect) = told(RACK, &set);
            assert_eq!(notes[0].about, "full link", "{remedy}: {notes:?}");
            let trial = Trial { set: vec![remedy.to_owned()], effect };
            let said = trial.said(&before);
            assert!(said.starts_with(&format!("{remedy} helps: finished at 1.3")), "{said}");
            assert!(said.contains(" Gb/s (was "), "{said}");
            // The other way round it is a loss.
            assert!(!before.is_better(&trial.effect));
        }
    }

    #[test]
    fn the_source_of_a_storm_is_found_behind_those_whom_it_paused() {
        let storm = "[[fault]]\nkind = \"nic-stuck\"\nhost = \"h0\"\nat_us = 100\n";
        let (notes, _) = told(&format!("{RACK}{storm}"), &["switch.alpha=1/64"]);
        let source = notes.iter().find(|note| note.about == "source of pauses").unwrap();
        assert!(source.why.contains("h0, which paused s0, which paused h"), "{source:?}");
        assert!(source.why.contains("h0 is the source: it sent "), "{source:?}");
    }

    #[test]
    fn the_source_is_before_the_link_that_is_full_and_not_before_the_one_with_most_bytes() {
        let text = r#"
end_ms = 5
[topology]
shape = "links"
rate_gbps = 100
cable_m = 2
switch = [{ name = "s", tier = 0 }]
host = ["a", "b", "c", "d"]
link = [
    { from = "a", to = "s" },
    { from = "b", to = "s" },
    { from = "c", to = "s" },
    { from = "d", to = "s", rate_gbps = 10 },
]
[switch]
lossless_priorities = [3]
[[workload]]
kind = "flow"
from = "a"
to = "b"
message_bytes = 1_000_000
messages = 1_000
interval_us = 200
[[workload]]
kind = "flow"
from = "c"
to = "d"
message_bytes = 1_000_000
messages = 100
"#;
        let (notes, _) = told(text, &["switch.alpha=1/64"]);
        let source = notes.iter().find(|note| note.about == "source of pauses").unwrap();
        assert!(source.why.contains("more comes there than its link to d takes (9"), "{source:?}");
    }

    #[test]
    fn of_an_incast_the_switch_is_the_source() {
        let (notes, _) = told(RACK, &["switch.alpha=1/64"]);
        let source = notes.iter().find(|note| note.about == "source of pauses").unwrap();
        assert!(
            source.why.contains("s0 is the source: more comes there than its link to h0"),
            "{source:?}"
        );
    }

    const INCAST: &str = r#"
end_ms = 20
[topology]
shape = "single-switch"
hosts = 5
rate_gbps = 100
[[workload]]
kind = "incast"
receiver = "h0"
message_bytes = 4_000_000
"#;

    /// What is told first of what advises something to try, and what of that helps.
    fn tried(text: &str, set: &[&str]) -> (Note, Vec<bool>) {
        let (notes, before) = told(text, set);
        let note = notes.into_iter().find(|note| !note.remedies.is_empty()).unwrap();
        let helps = note.remedies.iter().map(|remedy| {
            let remedy: Vec<&str> = remedy.iter().map(String::as_str).collect();
            told(text, &[set, &remedy].concat()).1.is_better(&before)
        });
        let helps = helps.collect();
        (note, helps)
    }

    #[test]
    fn of_links_that_are_full_one_behind_the_other_the_first_is_named() {
        let flow = |host: u32| {
            format!(
                "[[workload]]\nkind = \"flow\"\nfrom = \"h{host}\"\nto = \"h{}\"\nmessage_bytes = 2_000_000\n",
                host + 3
            )
        };
        let uplink = "end_ms = 20\n[topology]\nshape = \"leaf-spine\"\nleaves = 2\nspines = 1\nhosts = 3\n\
                      rate_gbps = 100\n";
        let (notes, _) = told(&format!("{uplink}{}{}{}", flow(0), flow(1), flow(2)), &[]);
        assert_eq!(notes[0].about, "full link");
        let why = &notes[0].why;
        assert!(why.starts_with("leaf0 -> spine0 carried 9"), "{why}");
        assert!(why.contains(": 3 flows that wait go by it; behind it, leaf1 -> h"), "{why}");
    }

    #[test]
    fn an_advice_to_mark_is_tried_where_it_makes_a_run_slower() {
        // A full link that PFC alone keeps full: marks can only slow it down.
        let (note, helps) = tried(INCAST, &["nic.congestion=dcqcn"]);
        assert_eq!(note.about, "no ECN");
        assert_eq!((note.remedies, helps), (vec![vec!["switch.ecn={}".to_owned()]], vec![false]));
        let late = "switch.ecn={ min_bytes = 5_000_000, max_bytes = 8_000_000 }";
        let (note, helps) = tried(INCAST, &["nic.congestion=dcqcn", late]);
        assert_eq!(note.about, "PFC before ECN");
        assert_eq!(helps, [false], "{note:?}");
    }

    #[test]
    fn no_goodput_makes_up_for_a_deadlock() {
        let (_, flows) = told(INCAST, &[]);
        let dead =
            Effect { deadlocked: true, goodput_gbps: flows.goodput_gbps * 2.0, ..flows.clone() };
        assert!(flows.is_better(&dead) && !dead.is_better(&flows));
        let set = vec!["switch.incomplete_arp=drop".to_owned()];
        let said = Trial { set: set.clone(), effect: flows.clone() }.said(&dead);
        assert!(said.starts_with("switch.incomplete_arp=drop helps: no deadlock by "), "{said}");
        let said = Trial { set, effect: dead }.said(&flows);
        assert!(said.contains(" does not help: DEADLOCK at "), "{said}");
    }

    #[test]
    fn marks_that_are_not_of_the_queue_that_is_used_are_told_with_that_queue() {
        let other = "switch.ecn={ queues = [0] }";
        let (note, _) = tried(INCAST, &["nic.congestion=dcqcn", other]);
        assert_eq!(note.why, "no packet went through a queue that marks");
        assert_eq!(note.remedies, [["switch.ecn.queues=[3]"]]);
        let (notes, _) = told(INCAST, &["nic.congestion=dcqcn", other, "switch.ecn.queues=[3]"]);
        assert!(notes.iter().all(|note| note.about != "no ECN"), "{notes:?}");
        // It is no help to say again what a fault takes back.
        let off = "[[fault]]\nkind = \"ecn\"\nat_us = 1\nswitch = \"s0\"\noff = true\n";
        let (notes, _) =
            told(&format!("{INCAST}{off}"), &["nic.congestion=dcqcn", "switch.ecn={}"]);
        let note = notes.iter().find(|note| note.about == "no ECN").unwrap();
        assert!(note.why.ends_with("a [[fault]] has turned marks off"), "{note:?}");
        assert_eq!(note.remedies, [[""; 0]; 0]);
    }

    #[test]
    fn what_changes_nothing_is_no_remedy_and_what_was_not_tried_is_told_so() {
        let set = ["nic.congestion=dcqcn".to_owned()];
        let scenario = Scenario::parse_set(INCAST, std::path::Path::new("."), &set, None).unwrap();
        let mut network = Network::new(scenario.network).unwrap();
        let verdict = network.run(scenario.end);
        let ecn = vec!["switch.ecn={}".to_owned()];
        let report = Report::new("told", &network, &verdict);
        let of_ecn = |report: &Report<'_>| {
            let notes = report.notes().into_iter();
            notes.filter(|note| note.about == "no ECN").map(|note| note.untried).next().unwrap()
        };
        assert_eq!(of_ecn(&report), [["switch.ecn={}"]]);
        assert!(report.summary().contains("to try: --set 'switch.ecn={}'"));
        let trial = Trial { set: ecn.clone(), effect: report.effect() };
        let report = report.with_trials(vec![trial]);
        assert_eq!(of_ecn(&report), [[""; 0]; 0]);
        let report = report.without(vec![ecn]);
        assert!(!report.summary().contains("switch.ecn={}"), "{}", report.summary());
    }

    #[test]
    fn marks_that_begin_far_too_soon_are_the_cause_of_an_idle_link() {
        let soon = "switch.ecn={ min_bytes = 500, max_bytes = 1_000, max_probability = 1.0 }";
        let (notes, _) = told(INCAST, &["nic.congestion=dcqcn", soon]);
        assert_eq!(notes[0].about, "idle link", "before that the time was over: {notes:?}");
        let (note, helps) = tried(INCAST, &["nic.congestion=dcqcn", soon]);
        let says = "; marks begin at 500 bytes, and HPCC (5.1) has 400000 to 1600000 at this rate";
        assert!(note.why.ends_with(says), "{note:?}");
        let set = ["switch.ecn.min_bytes=400000", "switch.ecn.max_bytes=1600000"];
        assert_eq!(note.remedies[0], set);
        assert!(helps[0]);
    }

    #[test]
    fn an_incast_without_pfc_is_told_so_before_what_was_dropped() {
        let lossy = ["switch={ lossless_priorities = [], lossy_queue_bytes = 200_000 }"];
        let (notes, _) = told(INCAST, &lossy);
        let at = |about: &str| notes.iter().position(|note| note.about.starts_with(about)).unwrap();
        assert!(at("no PFC") < at("dropped, egress queue full"), "{notes:?}");
        let (note, helps) = tried(INCAST, &lossy);
        assert_eq!(note.remedies, [["switch.lossless_priorities=[3]"]]);
        assert_eq!(helps, [true]);
    }

    #[test]
    fn a_link_full_of_retransmissions_is_told_with_a_recovery_that_wastes_less() {
        let text = r#"
end_ms = 10
[topology]
shape = "single-switch"
hosts = 2
rate_gbps = 40
cable_m = 2
[nic]
recovery = "go-back-0"
[[fault]]
kind = "drop"
from = "s0"
to = "h1"
ip_id_ends = 0xff
[[workload]]
kind = "flow"
from = "h0"
to = "h1"
message_bytes = 4_194_304
endless = true
"#;
        let (notes, before) = told(text, &[]);
        assert_eq!(notes[0].about, "wasted link", "{notes:?}");
        assert!(notes[0].why.contains("a flow that waits leads there: its senders retransmitted"));
        let names = [["nic.recovery=go-back-n"], ["nic.recovery=selective-repeat"]];
        assert_eq!(notes[0].remedies, names);
        let (_, better) = told(text, &names[0]);
        assert!(better.is_better(&before), "{better:?}");
    }
}
