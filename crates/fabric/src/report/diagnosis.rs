//! What a reader would ask of a result: why there was no pause or no mark, why packets were dropped,
//! and what to change.
//!
//! Every note is derived from counters and settings; none guesses. One that advises names the key of
//! the scenario that it means.

use std::collections::BTreeMap;

use transport::congestion::Congestion;

use super::Report;
use crate::Verdict;
use crate::counters::Drop;
use crate::fault::FaultKind;
use crate::switch::config::Threshold;
use crate::topology::End;

/// Something that a reader should know, and what to do about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// What is the matter, in two or three words.
    pub about: String,
    /// Why, with the numbers.
    pub why: String,
    /// What to change, if it is not wanted so.
    pub change: Option<String>,
    /// What may be set so that it goes away, as `ferroce sim --set` takes it: each several settings.
    pub remedies: Vec<Vec<String>>,
    /// What those came to that were tried: each in a sentence.
    pub tried: Vec<String>,
    /// Those that were not.
    pub untried: Vec<Vec<String>>,
}

impl Note {
    pub(super) fn new(about: impl Into<String>, why: impl Into<String>) -> Self {
        let (about, why) = (about.into(), why.into());
        let (remedies, tried, untried) = (Vec::new(), Vec::new(), Vec::new());
        Self { about, why, change: None, remedies, tried, untried }
    }

    pub(super) fn change(mut self, change: &str) -> Self {
        self.change = Some(change.to_owned());
        self
    }
}

/// What a note about a run is about whose time was over before its flows had ended.
const TIME_OVER: &str = "time over";

/// What came nearest to a threshold: the part of it that was reached, and where that was.
#[derive(Default)]
struct Nearest(Option<(f64, String)>);

impl Nearest {
    fn note(&mut self, part: f64, place: impl FnOnce() -> String) {
        if self.0.as_ref().is_none_or(|(most, _)| part > *most) {
            self.0 = Some((part, place()));
        }
    }
}

/// Where packets were dropped.
struct Place {
    dropped: u64,
    text: String,
    /// The host that sent them and the priority of the pauses, if its NIC does not obey these.
    deaf: Option<(u32, u8)>,
}

impl Report<'_> {
    /// Everything that a reader should know, causes first.
    pub fn notes(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        let ended = self.why_it_ended();
        // That the time was over is what came of the causes, and comes behind them.
        let (late, ended) = match self.verdict {
            Verdict::TimeOver if ended.as_ref().is_some_and(|note| note.about == TIME_OVER) => {
                (ended, None)
            }
            _ => (None, ended),
        };
        notes.extend(ended);
        if let Some(nothing) = self.why_nothing() {
            notes.push(nothing);
            return notes;
        }
        let source = self.where_pauses_begin();
        let by_host = source.as_ref().is_some_and(|(end, _)| matches!(end, End::Host(_)));
        // Whoever is behind a host that pauses waits for that host, and for no link.
        let source = source.map(|(end, note)| match end {
            End::Host(host) => self.slowed(host, note),
            End::Switch(_) => note,
        });
        let [first, second] = match by_host {
            true => [source, self.what_limits()],
            false => [self.what_limits(), source],
        };
        notes.extend(first);
        notes.extend(second);
        if !by_host {
            notes.extend(self.who_paused());
        }
        // Where PFC would have kept what was dropped, that there is none comes first.
        let (no_pauses, cause) = match self.why_no_pauses() {
            Some(note) if !note.remedies.is_empty() => (None, Some(note)),
            note => (note, None),
        };
        notes.extend(cause);
        notes.extend(self.why_drops());
        notes.extend(self.why_again());
        notes.extend(self.which_is_first());
        notes.extend(no_pauses);
        // Marks would slow nobody down who waits for a host, or in a circle.
        if !by_host && !matches!(self.verdict, Verdict::Deadlock(_)) {
            notes.extend(self.why_no_marks());
        }
        notes.extend(late);
        notes.extend(self.what_was_missed());
        let before = self.effect();
        for Note { remedies, tried, untried, .. } in &mut notes {
            // Nothing is set where a lab begins.
            remedies.retain(|remedy| self.lab.is_none() && !self.moot.contains(remedy));
            for remedy in &*remedies {
                match self.trials.iter().find(|trial| trial.set == *remedy) {
                    Some(trial) => tried.push(trial.said(&before)),
                    None => untried.push(remedy.clone()),
                }
            }
        }
        notes
    }

    /// Why no packet was sent, if none was.
    fn why_nothing(&self) -> Option<Note> {
        let network = self.network;
        let pauses = self.lab.is_some() && network.pause_frames() > 0;
        if network.link_hops() > 0 || pauses {
            return None;
        }
        if self.lab.is_some() {
            let note = Note::new("nothing sent", "no packet was sent");
            return Some(note.change("have programs talk: `ferroce lab run --host h0 -- PROGRAM`"));
        }
        let about = "nothing simulated";
        let now = network.now();
        Some(match network.flows() {
            [] => Note::new(about, "no packet was sent: no application does anything")
                .change("add a [[workload]]"),
            flows if flows.iter().all(|flow| flow.spec.start >= now) => {
                Note::new(about, format!("no packet was sent: no flow begins before {now}"))
                    .change("raise end_ms, or let the workload begin sooner")
            }
            _ => Note::new(about, "no packet was sent, though flows have begun"),
        })
    }

    fn why_it_ended(&self) -> Option<Note> {
        let flows = self.network.flows();
        let failed = flows.iter().filter(|flow| flow.failed > 0).count();
        match self.verdict {
            Verdict::Deadlock(cycle) => {
                let mut way: Vec<String> =
                    cycle.queues.iter().map(|(at, to, _)| format!("{at} -> {to}")).collect();
                way.extend(way.first().cloned());
                let why = format!(
                    "each of these ports is paused by the next, for ever: {}",
                    way.join(", ")
                );
                let flooded = self.network.drops().of(Drop::NotForMe) > 0;
                let mut note = Note::new("deadlock", why).change(if flooded {
                    "packets must not go up again once they have gone down: with \
                     switch.incomplete_arp = \"drop\" none is flooded"
                } else {
                    "routes must not lead in a circle: see [[topology.route]] and the links between \
                     switches of one tier"
                });
                if flooded {
                    note.remedies = vec![vec!["switch.incomplete_arp=drop".to_owned()]];
                }
                Some(note)
            }
            _ if failed > 0 => {
                let mut why =
                    format!("{failed} of {} flows gave up after their last retry", flows.len());
                let others = flows.iter().filter(|flow| flow.failed == 0 && !flow.is_over());
                if *self.verdict == Verdict::Stalled && others.clone().count() > 0 {
                    why += &format!(", and {} wait for what they were to bring", others.count());
                }
                Some(Note::new("failed flows", why).change(
                    "see what was dropped; nic.retry_count and nic.ack_timeout_code say how long a \
                     queue pair tries",
                ))
            }
            Verdict::Stalled => {
                let open = flows.iter().filter(|flow| !flow.is_over()).count();
                let why = format!("{open} flows wait for something that will not happen");
                let waits = self.network.nic_configs().any(|(_, nic)| nic.ack_timeout_code == 0);
                Some(Note::new("stalled", why).change(if waits {
                    "give nic.ack_timeout_code a value other than 0, so that what is lost is sent again"
                } else {
                    "see what was dropped: what is lost over UC or UD is not sent again"
                }))
            }
            Verdict::TimeOver => {
                let late =
                    flows.iter().filter(|flow| flow.spec.messages.is_some() && !flow.is_over());
                let late = late.count();
                let why = format!("{late} of {} flows had not finished", flows.len());
                (late > 0).then(|| Note::new(TIME_OVER, why).change("raise end_ms to see them end"))
            }
            Verdict::Finished | Verdict::Interrupted => None,
        }
    }

    // ---- pauses

    fn why_no_pauses(&self) -> Option<Note> {
        let network = self.network;
        if network.pause_frames() > 0 || network.topology().switches.is_empty() {
            return None;
        }
        let about = "no PFC";
        let mut configs = network.switch_configs();
        if !configs.any(|(_, config)| config.groups.iter().any(|group| group.lossless)) {
            let mut note = Note::new(about, "no switch has a lossless priority").change(
                "give switch.lossless_priorities the priorities that are to be paused, not dropped",
            );
            let dropped = network.drops().of(Drop::Buffer) + network.drops().of(Drop::QueueLimit);
            if let Some(priority) = self.busiest_priority().filter(|_| dropped > 0) {
                note.remedies = vec![vec![format!("switch.lossless_priorities=[{priority}]")]];
            }
            return Some(note);
        }
        // The group that came nearest to its threshold.
        let mut nearest = Nearest::default();
        for (switch, neighbour, counters) in network.all_switch_counters() {
            let Some(config) = network.switch_config(switch) else { continue };
            for (group, _) in config.groups.iter().enumerate().filter(|(_, own)| own.lossless) {
                let peak = counters.group_peak_bytes[group];
                if counters.group_packets[group] == 0 {
                    continue;
                }
                let lowest = self.lowest_threshold(switch, group);
                nearest.note(peak as f64 / lowest.max(1) as f64, || {
                    let name = network.topology().name(End::Switch(switch));
                    let from = network.topology().name(neighbour);
                    format!(
                        "no group reached XOFF: the nearest, group {group} of {name} from {from}, \
                         held {peak} of {lowest} bytes at most"
                    )
                });
            }
        }
        let (marked, _) = self.marks();
        Some(match nearest.0 {
            Some((_, why)) if marked > 0 && self.listens() => Note::new(
                "ECN before PFC",
                format!("{marked} packets were marked before any sender had to be paused: {why}"),
            ),
            Some((_, why)) => Note::new(about, why)
                .change("nothing, if that is wanted; a smaller switch.alpha pauses sooner"),
            None => Note::new(about, "no packet came in a lossless group").change(&format!(
                "give {} a dscp whose class is lossless, or add its priority to \
                 switch.lossless_priorities",
                self.who_sends()
            )),
        })
    }

    /// The priority of the group by which most packets came.
    fn busiest_priority(&self) -> Option<u8> {
        let mut packets = [0_u64; 8];
        for (switch, _, counters) in self.network.all_switch_counters() {
            let Some(config) = self.network.switch_config(switch) else { continue };
            for (group, priority) in config.group_to_priority.iter().enumerate() {
                packets[usize::from(priority & 7)] += counters.group_packets[group];
            }
        }
        (0..8_u8).max_by_key(|&priority| packets[usize::from(priority)])
    }

    /// The lowest that the threshold of a group of `switch` ever was.
    pub(super) fn lowest_threshold(&self, switch: u32, group: usize) -> u64 {
        let Some(config) = self.network.switch_config(switch) else { return 0 };
        let config = config.groups[group];
        let shared = match config.threshold {
            Threshold::Static { bytes } => u64::from(bytes),
            Threshold::Dynamic { exponent } => {
                let free = self.network.least_free_bytes(switch);
                if exponent >= 0 { free << exponent } else { free >> -exponent }
            }
        };
        u64::from(config.reserve_bytes) + shared
    }

    /// Servers that paused their switch: a slow receiver, or a storm.
    fn who_paused(&self) -> Option<Note> {
        let topology = self.network.topology();
        let sent = |host: u32| Some((self.network.host_pauses(host)?.sent_frames, host));
        let hosts = 0..topology.hosts.len() as u32;
        let mut senders: Vec<(u64, u32)> =
            hosts.filter_map(sent).filter(|&(sent, _)| sent > 0).collect();
        senders.sort_by_key(|&(sent, host)| (core::cmp::Reverse(sent), host));
        let &(sent, host) = senders.first()?;
        let name = topology.name(End::Host(host));
        let why = match senders.len() {
            1 => format!("{name} sent {sent} pause frames to its switch"),
            count => format!("{count} servers paused their switches, {name} most: {sent} frames"),
        };
        Some(self.slowed(host, Note::new("pausing servers", why)))
    }

    // ---- marks

    fn why_no_marks(&self) -> Option<Note> {
        let network = self.network;
        if network.topology().switches.is_empty() {
            return None;
        }
        let mut configured = false;
        let mut nearest = Nearest::default();
        for (switch, config) in network.switch_configs() {
            for (local, (neighbour, counters)) in (0..).zip(network.switch_counters(switch)) {
                for (queue, settings) in config.queues_of(local).iter().enumerate() {
                    let Some(ecn) = settings.ecn else { continue };
                    configured = true;
                    let peak = counters.queue_peak_bytes[queue];
                    if peak == 0 {
                        continue;
                    }
                    nearest.note(peak as f64 / f64::from(ecn.min_bytes.max(1)), || {
                        let name = network.topology().name(End::Switch(switch));
                        let to = network.topology().name(neighbour);
                        let least = ecn.min_bytes;
                        format!(
                            "queue {queue} of {name} to {to} held {peak} bytes at most, and marks begin \
                             at {least}"
                        )
                    });
                }
            }
        }
        // Programs of a lab choose for themselves.
        let listens = self.lab.is_some() || self.listens();
        if !listens && network.nic_configs().any(|(_, nic)| nic.congestion != Congestion::None) {
            // Senders are slowed down by something else.
            return None;
        }
        let (marked, notified) = self.marks();
        let about = "no ECN";
        if marked > 0 {
            let why = format!("{marked} packets were marked, and nobody sent a CNP");
            let mut nics = network.nic_configs();
            let obeys = nics.any(|(_, nic)| matches!(nic.congestion, Congestion::Dcqcn(_)));
            return (obeys && notified == 0).then(|| Note::new("no CNPs", why));
        }
        let by_switch = || matches!(self.where_pauses_begin(), Some((End::Switch(_), _)));
        let is_off = |kind: &FaultKind| matches!(kind, FaultKind::EcnChanges { ecn: None, .. });
        if !configured && network.faults_so_far().iter().any(|fault| is_off(&fault.kind)) {
            let why = format!("no queue marks any more: {} has turned marks off", self.a_fault());
            return Some(Note::new(about, why).change("take the fault of kind \"ecn\" out"));
        }
        if !configured {
            let and_nic = match (self.lab, listens) {
                (Some(_), _) => "; programs with FERROCE_CC=dcqcn obey marks",
                (None, true) => "",
                (None, false) => ", and nic.congestion = \"dcqcn\"",
            };
            let ecn = "give switch.ecn min_bytes, max_bytes and max_probability";
            let note = Note::new(about, "no queue marks: no switch.ecn says so");
            let mut note = note.change(&format!("{ecn}{and_nic}"));
            if by_switch() {
                let mut set = vec!["switch.ecn={}".to_owned()];
                set.extend((!listens).then(|| "nic.congestion=dcqcn".to_owned()));
                note.remedies = vec![set];
            }
            return Some(note);
        }
        if !listens {
            let why = "queues mark, but no packet may be marked: no NIC listens to marks";
            return Some(Note::new(about, why).change("give nic.congestion = \"dcqcn\""));
        }
        match nearest.0 {
            Some((part, why)) if part <= 1.0 => {
                Some(Note::new(about, why).change(
                    "nothing, if that is wanted; a smaller switch.ecn.min_bytes marks sooner",
                ))
            }
            Some((_, why)) if self.lab.is_some() => {
                Some(Note::new(about, format!("no packet was marked: {why}")).change(
                    "run programs with FERROCE_CC=dcqcn: packets of others may not be marked",
                ))
            }
            Some((_, why)) => Some(
                Note::new(about, format!("chance marked none: {why}"))
                    .change("raise switch.ecn.max_probability, or lower max_bytes"),
            ),
            None => {
                let mut note = Note::new(about, "no packet went through a queue that marks")
                    .change(&format!(
                        "give switch.ecn.queues those of the dscp of {}",
                        self.who_sends()
                    ));
                if let Some(queue) = self.longest_queue().filter(|_| by_switch()) {
                    note.remedies = vec![vec![format!("switch.ecn.queues=[{queue}]")]];
                }
                Some(note)
            }
        }
    }

    /// The queue that was longest at any port of a switch.
    fn longest_queue(&self) -> Option<usize> {
        let peaks = self.network.all_switch_counters().map(|(_, _, own)| own.queue_peak_bytes);
        let all = peaks.flat_map(|peaks| peaks.into_iter().enumerate());
        all.filter(|&(_, peak)| peak > 0).max_by_key(|&(_, peak)| peak).map(|(queue, _)| queue)
    }

    // ---- drops

    fn why_drops(&self) -> Vec<Note> {
        let places = self.places_of_drops();
        let note = |(cause, count): (Drop, u64)| {
            let mut why = format!("{count} packets: {}", what_it_means(cause));
            let place = match cause {
                Drop::Headroom => places.get(&true),
                Drop::Buffer => places.get(&false),
                _ => None,
            };
            if let Some(place) = place {
                why += &format!("; most in {}", place.text);
            }
            let deaf = place.filter(|_| cause == Drop::Headroom).and_then(|place| place.deaf);
            let change = deaf.map_or_else(
                || self.remedy(cause),
                |(host, priority)| {
                    let host = self.network.topology().name(End::Host(host));
                    format!(
                        "the NIC of {host} does not obey pauses of priority {priority}: name it in \
                         nic.lossless_priorities"
                    )
                },
            );
            Note::new(format!("dropped, {cause}"), why).change(&change)
        };
        self.network.drops().iter().map(note).collect()
    }

    /// What to change so that packets are not dropped so; nothing that is so already.
    fn remedy(&self, cause: Drop) -> String {
        let mut configs = self.network.switch_configs();
        match cause {
            Drop::Headroom if !configs.any(|(_, config)| config.sets_headroom()) => {
                "the headroom is computed, and senders went on for longer: see the cables, and \
                 switch.pause_response_quanta"
                    .to_owned()
            }
            Drop::Buffer | Drop::QueueLimit if !self.is_controlled() => {
                let by = if self.lab.is_some() { "FERROCE_CC=dcqcn" } else { "nic.congestion" };
                format!("{}, or slow senders by switch.ecn and {by}", remedy(cause))
            }
            _ => remedy(cause).to_owned(),
        }
    }

    /// Whether any queue marks, and any NIC listens to marks.
    fn is_controlled(&self) -> bool {
        let mut configs = self.network.switch_configs();
        configs.any(|(_, own)| own.queues.iter().any(|queue| queue.ecn.is_some())) && self.listens()
    }

    /// Whether any NIC listens to marks.
    pub(super) fn listens(&self) -> bool {
        self.network.nic_configs().any(|(_, nic)| nic.congestion.obeys_marks())
    }

    /// For lossless groups and for lossy ones, the group that dropped most.
    fn places_of_drops(&self) -> BTreeMap<bool, Place> {
        let network = self.network;
        let mut places: BTreeMap<bool, Place> = BTreeMap::new();
        for (switch, neighbour, counters) in network.all_switch_counters() {
            let Some(config) = network.switch_config(switch) else { continue };
            for (group, &dropped) in counters.group_dropped.iter().enumerate() {
                let lossless = config.groups[group].lossless;
                if dropped == 0
                    || places.get(&lossless).is_some_and(|place| place.dropped >= dropped)
                {
                    continue;
                }
                let name = network.topology().name(End::Switch(switch));
                let from = network.topology().name(neighbour);
                let full = if lossless {
                    let room = counters.group_peak_headroom_bytes[group];
                    format!(", whose headroom held {room} bytes")
                } else {
                    format!(", which held {} bytes", counters.group_peak_bytes[group])
                };
                let text = format!("group {group} of {name} from {from}: {dropped}{full}");
                let priority = config.group_to_priority[group] & 7;
                let deaf = match neighbour {
                    End::Host(host) => network
                        .nic_config(host)
                        .filter(|nic| nic.lossless_priorities >> priority & 1 == 0)
                        .map(|_| (host, priority)),
                    End::Switch(_) => None,
                };
                places.insert(lossless, Place { dropped, text, deaf });
            }
        }
        places
    }

    // ---- retransmissions

    fn what_was_missed(&self) -> Option<Note> {
        let missed = self.network.missed_frames();
        let why = format!("{missed} frames came when as many were kept as there is room for");
        (missed > 0).then(|| {
            Note::new("captures end early", why).change("capture fewer ports, or a shorter time")
        })
    }

    fn why_again(&self) -> Option<Note> {
        let network = self.network;
        let (_, timeouts) = self.repeated();
        let has_timeouts =
            |host| network.host_stats(host).iter().any(|stats| stats.local_ack_timeout_err > 0);
        let (_, nic) = network.nic_configs().find(|&(host, _)| has_timeouts(host))?;
        if network.drops().total() > 0 {
            return None;
        }
        let timeout = transport::limits::ack_timeout(nic.ack_timeout_code)?;
        let why = format!(
            "{timeouts} timeouts, and nothing was lost: packets were under way or paused for longer \
             than {timeout}"
        );
        Some(
            Note::new("timeouts without loss", why)
                .change("raise nic.ack_timeout_code, or see why the pauses are so long"),
        )
    }
}

/// What it means that packets were dropped so.
fn what_it_means(cause: Drop) -> &'static str {
    match cause {
        Drop::Headroom => "lossless packets that came after XOFF found no room",
        Drop::Buffer => "lossy packets found their group at its threshold, or the buffer full",
        Drop::QueueLimit => "lossy packets found their egress queue at its limit",
        Drop::HopLimit => "they went in a circle, or further than their hop limit",
        Drop::NoRoute => "no way led to their destination",
        Drop::Damaged => "a link damaged them, as the scenario says",
        Drop::Rule => "a fault of kind \"drop\" took them",
        Drop::LinkDown => "their link was down",
        Drop::IncompleteArp => "the switch knew a MAC address and not its port, and does not flood",
        Drop::SwitchCpu => "the switch knew a MAC address and not its port, and asked its CPU",
        Drop::NoArp => "the switch knew no MAC address of the destination",
        Drop::NotForMe => "copies of flooded packets came to others than their destination",
        Drop::Watchdog => "the switch's watchdog had taken the lossless mode from a paused port",
        Drop::ReceiveBuffer => "the receive buffer of a NIC was full",
        Drop::Tagged => {
            "a switch had put a VLAN tag on them, and the NIC has not been told of VLANs"
        }
        Drop::DeadHost => "they came to a host that was dead",
        Drop::Icrc => "their bytes were changed on the way, and the receiver's ICRC said so",
        Drop::Restart => "they were in a switch that restarted",
        Drop::Refused => "the engine refused them; the counters of the NIC say why",
    }
}

/// What to change so that packets are not dropped so.
fn remedy(cause: Drop) -> &'static str {
    match cause {
        Drop::Headroom => {
            "leave switch.headroom_bytes out: it is then computed from rate, cable and MTU of each port"
        }
        Drop::Buffer => {
            "make the class lossless (switch.lossless_priorities), raise switch.alpha or \
             switch.buffer_bytes"
        }
        Drop::QueueLimit => "raise switch.lossy_queue_bytes",
        Drop::HopLimit => "look for a circle among [[topology.route]]",
        Drop::NoRoute => "look for a missing link, or a [[topology.route]] without an exit",
        Drop::Damaged | Drop::Icrc | Drop::Rule | Drop::LinkDown | Drop::Restart => {
            "change the fault, if it is not wanted"
        }
        Drop::IncompleteArp => {
            "nothing: that is guo16's remedy against deadlock; the host is dead, or silent for longer \
             than switch.mac_timeout_ms"
        }
        Drop::SwitchCpu | Drop::NoArp => {
            "the host is dead, or silent for longer than switch.mac_timeout_ms and arp_timeout_ms"
        }
        Drop::NotForMe => "give switch.incomplete_arp = \"drop\", so that nothing is flooded",
        Drop::Watchdog => "repair the server that pauses; see who sent pauses",
        Drop::ReceiveBuffer => {
            "let the NIC pause sooner (nic.xoff_bytes), or give it more (nic.receive_buffer_bytes)"
        }
        Drop::Tagged => {
            "trust DSCP (switch.trust = \"dscp\"), with access ports: then no packet needs a tag"
        }
        Drop::DeadHost => "see the fault of kind \"host-dies\"",
        Drop::Refused => {
            "see counters of the NIC: out_of_seq_request and duplicate_request follow losses"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{Cables, single_switch};
    use crate::workload::FlowSpec;
    use crate::{Network, NetworkConfig};
    use rdma::{Rate, Span, Time};

    fn notes(change: impl FnOnce(&mut NetworkConfig)) -> Vec<Note> {
        let cables = Cables::new(Rate::from_gbps(40), 200);
        let mut config = NetworkConfig::new(single_switch(5, cables));
        config.flows = (0..4).map(|host| FlowSpec::write(host, 4, 1_000_000)).collect();
        change(&mut config);
        let mut network = Network::new(config).unwrap();
        let verdict = network.run(Time::ZERO + Span::from_ms(20));
        Report::new("notes", &network, &verdict).notes()
    }

    fn note(notes: &[Note], about: &str) -> Note {
        let found = notes.iter().find(|note| note.about == about);
        found.unwrap_or_else(|| panic!("no note about {about}: {notes:?}")).clone()
    }

    #[test]
    fn it_is_said_why_nothing_paused() {
        let none = notes(|config| {
            for group in &mut config.switch.groups {
                group.lossless = false;
            }
            config.switch.buffer_bytes = 100_000_000;
        });
        assert_eq!(note(&none, "no PFC").why, "no switch has a lossless priority");
        let other = notes(|config| {
            for flow in &mut config.flows {
                flow.dscp = 1;
            }
        });
        assert_eq!(note(&other, "no PFC").why, "no packet came in a lossless group");
        let below = notes(|config| {
            for group in &mut config.switch.groups {
                group.threshold = Threshold::Static { bytes: 4_000_000 };
            }
            config.switch.buffer_bytes = 30_000_000;
        });
        let why = note(&below, "no PFC").why;
        assert!(why.contains("group 3 of s0 from h") && why.contains(" of 4000000 bytes"), "{why}");
    }

    #[test]
    fn a_deadlock_is_told_with_its_ports_and_what_led_to_it() {
        let text = r#"
end_ms = 20
[topology]
shape = "links"
rate_gbps = 40
cable_m = 20
switch = [{ name = "a", tier = 0 }, { name = "b", tier = 0 }, { name = "c", tier = 0 }]
host = ["h0", "h1", "h2"]
link = [
    { from = "h0", to = "a" }, { from = "h1", to = "b" }, { from = "h2", to = "c" },
    { from = "a", to = "b" }, { from = "b", to = "c" }, { from = "c", to = "a" },
]
route = [
    { at = "a", to = "c", via = ["b"] },
    { at = "b", to = "a", via = ["c"] },
    { at = "c", to = "b", via = ["a"] },
]
[switch]
buffer_bytes = 1_000_000
lossless_priorities = [3]
"#;
        let flow = |from: u32, to: u32| {
            format!(
                "[[workload]]\nkind = \"flow\"\nfrom = \"h{from}\"\nto = \"h{to}\"\n\
                 message_bytes = 1_000_000\nendless = true\n"
            )
        };
        // Each flow passes a third switch, and so each port between switches carries two.
        let text = format!("{text}{}{}{}", flow(0, 2), flow(1, 0), flow(2, 1));
        let scenario = crate::scenario::Scenario::parse(&text, None).unwrap();
        let mut network = Network::new(scenario.network).unwrap();
        let verdict = network.run(scenario.end);
        let report = Report::new("ring", &network, &verdict);
        let told = note(&report.notes(), "deadlock");
        assert!(told.why.ends_with("for ever: a -> b, b -> c, c -> a, a -> b"), "{}", told.why);
        assert!(told.change.unwrap().starts_with("routes must not lead in a circle"));
        let summary = report.summary();
        assert!(summary.contains("  DEADLOCK at "), "{summary}");
        assert!(summary.contains("\n    c port to a, queue 3\n"), "{summary}");
    }

    #[test]
    fn where_nothing_is_sent_nothing_else_is_explained() {
        let none = notes(|config| config.flows.clear());
        assert_eq!(note(&none, "nothing simulated").change.unwrap(), "add a [[workload]]");
        let late = notes(|config| {
            for flow in &mut config.flows {
                flow.start = Time::ZERO + Span::from_ms(30);
            }
        });
        assert!(note(&late, "nothing simulated").why.ends_with("no flow begins before 20.000 ms"));
        for notes in [none, late] {
            assert!(notes.iter().all(|note| !note.about.starts_with("no ")), "{notes:?}");
        }
    }

    #[test]
    fn it_is_said_why_nothing_was_marked() {
        assert!(note(&notes(|_| {}), "no ECN").why.starts_with("no queue marks"));
        let marks = |config: &mut NetworkConfig, min_bytes| {
            let ecn = crate::switch::config::EcnConfig {
                min_bytes,
                max_bytes: min_bytes * 2,
                max_probability: 0.1,
            };
            config.switch.queues[3].ecn = Some(ecn);
        };
        let deaf = notes(|config| marks(config, 10_000));
        assert!(note(&deaf, "no ECN").why.contains("no NIC listens"));
        let short = notes(|config| {
            marks(config, 50_000_000);
            let dcqcn = transport::congestion::Dcqcn::default();
            config.nic.congestion = Congestion::Dcqcn(dcqcn);
        });
        let other = notes(|config| config.nic.congestion = Congestion::NAMED[2].1);
        assert!(other.iter().all(|note| note.about != "no ECN"), "Swift needs no marks");
        let why = note(&short, "no ECN").why;
        assert!(
            why.starts_with("queue 3 of s0 to h4 held ") && why.ends_with(" 50000000"),
            "{why}"
        );
    }

    #[test]
    fn it_is_said_why_packets_were_dropped_and_where() {
        let small = notes(|config| {
            config.switch.groups[3].headroom_bytes = Some(1_000);
            config.switch.buffer_bytes = 300_000;
        });
        let dropped = note(&small, "dropped, headroom full (lossless)");
        assert!(dropped.why.contains("; most in group 3 of s0 from h"), "{dropped:?}");
        assert!(dropped.change.unwrap().contains("headroom_bytes"));
    }

    #[test]
    fn headroom_that_a_nic_without_pfc_fills_is_laid_at_its_door() {
        let deaf = notes(|config| {
            config.nic.lossless_priorities = 0;
            config.switch.buffer_bytes = 300_000;
        });
        let change = note(&deaf, "dropped, headroom full (lossless)").change.unwrap();
        assert!(change.starts_with("the NIC of h"), "{change}");
        assert!(
            change.ends_with(
                "does not obey pauses of priority 3: name it in nic.lossless_priorities"
            ),
            "{change}"
        );
    }
}
