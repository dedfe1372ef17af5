//! Who is there, whom they probe, what is sick, and since when: a collector without its sockets.
//!
//! ```text
//!   hello ─► who is there ─► targets of the pinglist that are there, too
//!   window ─► admission ─► store
//!   now and then: the last windows ─► verdict ─► incidents that begin and end
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use fabric::topology::{End, Topology};

use super::admission::{Known, admit};
use super::configured::{Configuration, places};
use super::counted::{OfPort, Reading};
use super::evidence::{Digest, EndsOnly, Evidence, Interval};
use super::exchange::{Address, Aim, Answer, VERSION};
use super::limits::{NAME_MAX, PAIRS_JUDGED, WINDOWS_JUDGED};
use super::node::Node;
use super::pinglist::{Pinglist, Rates, pinglists};
use super::roll::Roll;
use super::scope::{Map, Scope};
use super::store::{Incident, Store, StoreError};
use super::summary::unit;
use super::verdict::{self, Cause, Culprit, Reach, Suspect, Verdict};
use super::window::Window;

/// See the module.
#[derive(Debug)]
pub struct Collector {
    judge: Judge,
    lists: BTreeMap<u32, Pinglist>,
    places: BTreeMap<String, u32>,
    length_ns: u64,
    roll: Roll,
    /// What the last windows say.
    digest: Digest,
    /// What was counted meanwhile, by when the window began.
    intervals: BTreeMap<u64, Interval>,
    open: BTreeMap<Culprit, (i64, Why)>,
}

/// What is wrong with a culprit, and what it hurts.
type Why = (Cause, Option<Reach>);

/// Who comes to a verdict, and needs no collector for that: it takes a while, and agents do not wait for it.
#[derive(Clone, Debug)]
pub struct Judge {
    topology: Arc<Topology>,
    map: Arc<Map>,
    configuration: Arc<Configuration>,
}

/// What is judged: what the last windows say, and what was counted meanwhile.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    digest: Digest,
    intervals: Vec<Interval>,
}

impl Judge {
    /// The topology.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The unit that a host counts to.
    pub fn unit(&self, scope: Scope, host: u32) -> String {
        unit(&self.topology, &self.map, scope, host)
    }

    /// What these windows come to.
    pub fn verdict(&self, seen: &Seen) -> Verdict {
        verdict::judge(&Evidence {
            topology: &self.topology,
            map: &self.map,
            digest: &seen.digest,
            paths: &EndsOnly(&self.map),
            intervals: &seen.intervals,
            configuration: &self.configuration,
        })
    }
}

/// What has changed with a verdict.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// Something is sick.
    Began(Suspect),
    /// It still is, and by now more is known of it: what is dead has been lossy for a while, or RDMA alone is hurt.
    Became(Suspect),
    /// It is no more.
    Ended(Culprit),
}

impl Collector {
    /// Of a topology, with windows of `length_ns`. Hosts that were there before are probed at once.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn new(
        topology: Topology,
        rates: Rates,
        length_ns: u64,
        store: &mut Store,
        now_ns: u64,
    ) -> Result<Self, StoreError> {
        let known = store.hosts(Roll::since(length_ns, now_ns))?;
        let roll = Roll::new(length_ns, known, now_ns);
        // Whether what was sick still is, nobody has looked.
        for incident in store.incidents()?.iter().filter(|incident| incident.until_ns.is_none()) {
            store.end_incident(incident.id, now_ns)?;
        }
        let mut made = Self { roll, ..Self::reading(topology, rates, length_ns) };
        made.read(store, now_ns)?;
        Ok(made)
    }

    /// Reads what the last windows before a time say, in place of what it knows.
    fn read(&mut self, store: &Store, now_ns: u64) -> Result<(), StoreError> {
        self.digest = Digest::default();
        self.intervals.clear();
        let since_ns = self.since(now_ns, WINDOWS_JUDGED[1]);
        store.each_window(since_ns, |window| self.learn_one(&window))?;
        for (start_ns, ports) in store.ports(since_ns)? {
            self.learn_ports(start_ns, ports);
        }
        Ok(())
    }

    fn interval(&mut self, start_ns: u64) -> &mut Interval {
        let end_ns = start_ns.saturating_add(self.length_ns);
        let new = || Interval { start_ns, end_ns, ..Interval::default() };
        self.intervals.entry(start_ns).or_insert_with(new)
    }

    /// What ports of switches have counted in the window that began then.
    pub fn learn_ports(&mut self, start_ns: u64, ports: Vec<OfPort>) {
        self.interval(start_ns).ports.extend(ports);
    }

    /// What is wrong with the configuration, from now on.
    pub fn configure(&mut self, configuration: Configuration) {
        self.judge.configuration = Arc::new(configuration);
    }

    /// What ports of switches have counted between two readings, as far as it is known what they lead to; and how many
    /// others there are.
    pub fn ports_between(&self, before: &Reading, after: &Reading) -> (Vec<OfPort>, usize) {
        let places = places(self.topology());
        let (mut known, mut others) = (Vec::new(), 0);
        for (name, peer, delta) in after.ports_since(before) {
            let Some(&Node::Switch(switch)) = places.get(name.device.as_str()) else { continue };
            let port = (switch, name.port.clone());
            let by_file = self.judge.configuration.leads.get(&port).copied();
            let by_name = || places.get(peer.unwrap_or(&name.port)).copied();
            match by_file.or_else(by_name) {
                Some(to) => known.push(((switch, to), delta)),
                None => others += 1,
            }
        }
        (known, others)
    }

    /// When the first of the last `count` windows begins.
    fn since(&self, now_ns: u64, count: u64) -> u64 {
        now_ns.saturating_sub((count + 1) * self.length_ns)
    }

    fn learn_one(&mut self, window: &Window) {
        self.digest.add_ends(window);
        if let Some(counted) = window.counted {
            self.interval(window.start_ns).hosts.insert(window.host, counted);
        }
        let least = WINDOWS_JUDGED[0] * self.length_ns;
        while self.digest.pairs.len() > PAIRS_JUDGED
            && let Some(begin_ns) = self.digest.begin_ns()
            && begin_ns + least < window.start_ns
        {
            self.digest.forget(begin_ns + 1);
        }
    }

    /// What the windows that the store has kept say, for the next verdict; `new` as [`Store::keep`] has said it.
    pub fn learn(&mut self, windows: &[Window], new: &[bool]) {
        let is_new = windows.iter().zip(new).filter(|(_, is_new)| **is_new);
        is_new.for_each(|(window, _)| self.learn_one(window));
    }

    /// One that only reads: nobody is there.
    pub fn reading(topology: Topology, rates: Rates, length_ns: u64) -> Self {
        let map = Map::of(&topology);
        let lists = pinglists(&map, rates).into_iter().map(|list| (list.host, list)).collect();
        let hosts = 0..topology.hosts.len() as u32;
        let places = hosts.map(|host| (topology.name(End::Host(host)).to_owned(), host)).collect();
        let (topology, map) = (Arc::new(topology), Arc::new(map));
        let judge = Judge { topology, map, configuration: Arc::default() };
        let roll = Roll::new(length_ns, BTreeMap::new(), 0);
        let (digest, open, intervals) = Default::default();
        Self { judge, lists, places, length_ns, roll, digest, intervals, open }
    }

    /// The topology.
    pub fn topology(&self) -> &Topology {
        &self.judge.topology
    }

    /// Where hosts are.
    pub fn map(&self) -> &Map {
        &self.judge.map
    }

    /// Hosts that are there.
    pub fn agents(&self) -> usize {
        self.roll.len()
    }

    /// Who is there.
    pub const fn roll(&self) -> &Roll {
        &self.roll
    }

    /// An agent is there, and asks for its targets.
    ///
    /// # Errors
    /// It is none of this topology, or of another version.
    pub fn hello(
        &mut self,
        (version, name, address): (u32, &str, Option<Address>),
        now_ns: u64,
    ) -> Result<(u32, Answer), Answer> {
        let refused = |why: String| Answer::Refused { why };
        if version != VERSION {
            return Err(refused(format!("the collector speaks version {VERSION}, not {version}")));
        }
        let host = (name.len() <= NAME_MAX).then(|| self.places.get(name).copied()).flatten();
        let Some(host) = host else {
            let known: Vec<&str> = self.places.keys().take(3).map(String::as_str).collect();
            return Err(refused(format!(
                "its topology has no such host; it has {}, ...",
                known.join(", ")
            )));
        };
        let targets = |of: &Self| Answer::Targets {
            host,
            window_ms: of.length_ns / 1_000_000,
            targets: of.targets(host),
        };
        let Some(address) = address else { return Ok((host, targets(self))) };
        self.roll.hello(host, address, now_ns);
        Ok((host, targets(self)))
    }

    /// Who is there since the last time that this was asked: what the next collector is to find in the store.
    pub fn new_hosts(&mut self) -> Vec<(u32, Address, u64)> {
        self.roll.new_hosts()
    }

    /// Whom a host probes: those of its pinglist that are there.
    pub fn targets(&self, host: u32) -> Vec<Aim> {
        let duties = self.lists.get(&host).map_or(&[][..], |list| &list.duties);
        duties
            .iter()
            .flat_map(|duty| duty.targets.iter().map(move |&peer| (duty, duty.peers[peer])))
            .filter_map(|(duty, target)| {
                Some(Aim {
                    host: target,
                    scope: duty.scope,
                    address: self.roll.address(target)?,
                    every_us: duty.every.as_ps() / 1_000_000,
                    labels: duty.labels,
                })
            })
            .collect()
    }

    /// Whether a window of `host` can be kept.
    ///
    /// # Errors
    /// Why not.
    pub fn admit(&self, host: u32, window: &Window, now_ns: u64) -> Result<(), String> {
        admit(window, &Known { map: self.map(), host, length_ns: self.length_ns, now_ns })
    }

    /// Who comes to verdicts, and knows the topology.
    pub fn to_judge(&self) -> Judge {
        self.judge.clone()
    }

    /// The verdict by the last windows of a file, and when they ended.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn last_verdict(&mut self, store: &Store) -> Result<(Verdict, u64), StoreError> {
        let end_ns = store.last_window()?.map_or(0, |start| start + self.length_ns);
        self.read(store, end_ns)?;
        self.configure(store.configuration()?);
        Ok((self.verdict_at(end_ns), end_ns))
    }

    /// What is to be judged now, and by whom: the last windows, a few or more of them.
    pub fn look(&self, windows: u64, now_ns: u64) -> (Judge, Seen) {
        let since_ns = self.since(now_ns, windows);
        let intervals = self.intervals.range(since_ns..).map(|(_, of)| of.clone()).collect();
        (self.to_judge(), Seen { digest: self.digest.since(since_ns), intervals })
    }

    fn verdict_at(&self, now_ns: u64) -> Verdict {
        verdict_by(|windows| self.look(windows, now_ns))
    }

    /// Writes down what has begun and ended with a verdict.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn conclude(
        &mut self,
        verdict: &Verdict,
        store: &mut Store,
        now_ns: u64,
    ) -> Result<Vec<Change>, StoreError> {
        let oldest_ns = self.since(now_ns, WINDOWS_JUDGED[1]);
        self.digest.forget(oldest_ns);
        self.intervals = self.intervals.split_off(&oldest_ns);
        self.roll.forget(now_ns);
        let mut changes = Vec::new();
        // If nobody has looked, what was sick may be sick still.
        let now = |culprit: &Culprit| {
            verdict.probes == 0 || verdict.suspects.iter().any(|of| of.culprit == *culprit)
        };
        let ended: Vec<Culprit> = self.open.keys().copied().filter(|of| !now(of)).collect();
        for culprit in ended {
            if let Some((id, _)) = self.open.remove(&culprit) {
                store.end_incident(id, now_ns)?;
                changes.push(Change::Ended(culprit));
            }
        }
        for suspect in verdict.sick() {
            let why = (suspect.cause, suspect.joined.reach);
            let lines = || suspect.lines().collect::<Vec<_>>();
            match self.open.get_mut(&suspect.culprit) {
                Some((_, known)) if *known == why || (known.0 == why.0 && why.1.is_none()) => {}
                Some((id, known)) => {
                    store.change_incident(*id, suspect.cause.text(), &lines())?;
                    *known = why;
                    changes.push(Change::Became(suspect.clone()));
                }
                None => {
                    let incident = Incident {
                        id: 0,
                        culprit: suspect.culprit.named(self.topology()),
                        cause: suspect.cause.text().to_owned(),
                        since_ns: suspect.since_ns,
                        until_ns: None,
                        evidence: lines(),
                    };
                    let id = store.begin_incident(&incident)?;
                    self.open.insert(suspect.culprit, (id, why));
                    changes.push(Change::Began(suspect.clone()));
                }
            }
        }
        Ok(changes)
    }
}

/// The verdict by the last few windows, and by more of them, in which rare losses show.
pub fn verdict_by(look: impl Fn(u64) -> (Judge, Seen)) -> Verdict {
    let [few, many] = WINDOWS_JUDGED.map(|windows| {
        let (judge, seen) = look(windows);
        judge.verdict(&seen)
    });
    if few.suspects.is_empty() { many } else { few.with_losses_of(many) }
}

#[cfg(test)]
mod tests {
    use fabric::topology::{Cables, single_switch};
    use rdma::{Rate, Span};

    use super::super::window::{Counts, Latency, OfLabel, Pair};
    use super::*;

    const LENGTH: u64 = 1_000_000_000;

    fn made(store: &mut Store) -> Collector {
        of_hosts(4, store)
    }

    fn of_hosts(hosts: u32, store: &mut Store) -> Collector {
        let topology = single_switch(hosts, Cables::new(Rate::from_gbps(40), 2));
        Collector::new(topology, Rates::default(), LENGTH, store, 0).unwrap()
    }

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("mesh.db")).unwrap();
        (folder, store)
    }

    fn address(host: u32) -> Address {
        Address { gid: [host as u8; 16], qpn: 100 + host, tcp: None }
    }

    /// What a host of four sees of all others, with these round trips in microseconds.
    fn window(host: u32, start_ns: u64, us: impl Fn(u32) -> u64) -> Window {
        window_of(4, host, start_ns, us)
    }

    fn window_of(hosts: u32, host: u32, start_ns: u64, us: impl Fn(u32) -> u64) -> Window {
        let pairs = (0..hosts).filter(|target| *target != host).map(|target| {
            let mut pair = Pair::new(target, Scope::Tor, 1);
            pair.counts = Counts { sent: 10, answered: 10, ..Counts::default() };
            pair.labels = vec![OfLabel { sent: 10, lost: 0, slow: 0 }];
            (0..10).for_each(|_| pair.network.record(Span::from_us(us(target))));
            (0..10).for_each(|_| pair.responder.record(Span::from_us(9)));
            pair
        });
        let pairs = pairs.collect();
        Window { pairs, ..Window::new(host, start_ns, LENGTH) }
    }

    fn judge(collector: &mut Collector, store: &mut Store, now_ns: u64) -> Vec<Change> {
        let verdict = collector.verdict_at(now_ns);
        // Who has only the file comes to the same.
        let topology = collector.topology().clone();
        let mut reader = Collector::reading(topology, Rates::default(), LENGTH);
        assert_eq!(reader.last_verdict(store).unwrap().0, verdict);
        collector.conclude(&verdict, store, now_ns).unwrap()
    }

    fn keep(collector: &mut Collector, windows: &[Window], store: &mut Store) {
        let judge = collector.to_judge();
        let new =
            store.keep(&mut windows.to_vec(), &|scope, host| judge.unit(scope, host)).unwrap();
        collector.learn(windows, &new);
    }

    #[test]
    fn whoever_is_there_is_probed_by_those_who_are() {
        let (_folder, mut store) = store();
        let mut collector = made(&mut store);
        let hello = |collector: &mut Collector, name: &str, host| {
            collector.hello((VERSION, name, Some(address(host))), 0)
        };
        let (host, answer) = hello(&mut collector, "h2", 2).unwrap();
        let alone = Answer::Targets { host: 2, window_ms: 1_000, targets: vec![] };
        assert_eq!((host, answer), (2, alone));
        hello(&mut collector, "h0", 0).unwrap();
        let (_, answer) = hello(&mut collector, "h2", 2).unwrap();
        let Answer::Targets { targets, .. } = answer else { panic!("{answer:?}") };
        assert_eq!(targets.len(), 1);
        let Aim { host, address: at, every_us, .. } = targets[0];
        assert_eq!((host, at, every_us), (0, address(0), 100_000));
        let refused = hello(&mut collector, "h9", 9).unwrap_err();
        assert!(matches!(&refused, Answer::Refused { why } if why.contains("no such host")));
        // Another collector with the same file knows them at once.
        let judge = collector.to_judge();
        let hosts = collector.new_hosts().into_iter();
        let hosts =
            hosts.map(|(host, at, seen)| (host, judge.topology().name(End::Host(host)), at, seen));
        store.put_hosts(hosts).unwrap();
        assert!(collector.new_hosts().is_empty());
        assert_eq!(made(&mut store).agents(), 2);
    }

    #[test]
    fn a_link_that_seemed_lossy_and_is_dead_stays_one_incident() {
        let (_folder, mut store) = store();
        let mut collector = made(&mut store);
        let mut seen = Vec::new();
        for round in 0..6 {
            let at = round * LENGTH;
            let windows = (0..4).map(|host| {
                let mut window = window(host, at, |_| 20);
                for pair in &mut window.pairs {
                    if round > 2 && (host == 1 || pair.target == 1) {
                        pair.counts.answered = 0;
                        pair.counts.timeout = 10;
                        pair.labels[0].lost = 10;
                        pair.network = Latency::default();
                        pair.responder = Latency::default();
                    }
                }
                window
            });
            keep(&mut collector, &windows.collect::<Vec<_>>(), &mut store);
            seen.extend(judge(&mut collector, &mut store, at + LENGTH));
        }
        let [Change::Began(first), Change::Became(then)] = &seen[..] else { panic!("{seen:?}") };
        assert_eq!(first.culprit.named(collector.topology()), "link h1-s0");
        assert_eq!([first.cause, then.cause], [Cause::Lossy, Cause::Dead]);
        let incidents = store.incidents().unwrap();
        assert_eq!(incidents.len(), 1);
        assert_eq!((incidents[0].cause.as_str(), incidents[0].until_ns), ("carries nothing", None));
    }

    #[test]
    fn each_of_several_that_lose_packets_is_an_incident() {
        let (_folder, mut store) = store();
        let mut collector = of_hosts(12, &mut store);
        let mut seen = Vec::new();
        for round in 0..12 {
            let at = round * LENGTH;
            let windows = (0..12).map(|host| {
                let mut window = window_of(12, host, at, |_| 20);
                for pair in &mut window.pairs {
                    let is_of = |one: u32| host == one || pair.target == one;
                    // Two links are dead from the sixth window on; a third loses one probe a window.
                    let lost = match () {
                        () if round > 5 && (is_of(1) || is_of(7)) => 10,
                        () if host == 3 && u64::from(pair.target) == (4 + round) % 12 => 1,
                        () => continue,
                    };
                    pair.counts.answered = 10 - lost;
                    pair.counts.timeout = lost;
                    pair.labels[0].lost = lost;
                    if lost == 10 {
                        pair.network = Latency::default();
                        pair.responder = Latency::default();
                    }
                }
                window
            });
            keep(&mut collector, &windows.collect::<Vec<_>>(), &mut store);
            seen.extend(judge(&mut collector, &mut store, at + LENGTH));
        }
        let named = |of: &Suspect| (of.culprit.named(collector.topology()), of.cause);
        let began = seen.iter().filter_map(|change| match change {
            Change::Began(suspect) => Some(named(suspect).0),
            Change::Became(_) => None,
            Change::Ended(_) => panic!("{seen:?}"),
        });
        assert_eq!(began.collect::<Vec<_>>(), ["link h3-s0", "link h1-s0", "link h7-s0"]);
        let verdict = collector.verdict_at(12 * LENGTH);
        let sick: Vec<_> = verdict.sick().iter().map(named).collect();
        let dead = |host: &str| (format!("link {host}-s0"), Cause::Dead);
        assert_eq!(sick, [dead("h7"), dead("h1"), ("link h3-s0".to_owned(), Cause::Lossy)]);
        let said = verdict.text(collector.topology()).to_string();
        assert_eq!(said.matches("verdict: link").count(), 3, "{said}");
        assert!(!said.contains("also seen"), "{said}");
    }

    #[test]
    fn a_host_whose_link_is_slow_is_an_incident_that_begins_and_ends() {
        let (_folder, mut store) = store();
        let mut collector = made(&mut store);
        let mut at = 0;
        let mut round = |collector: &mut Collector, store: &mut Store, sick: Option<u32>| {
            let windows: Vec<Window> = (0..4)
                .map(|host| {
                    let is_slow = |target| sick.is_some_and(|sick| sick == host || sick == target);
                    window(host, at, |target| if is_slow(target) { 5_000 } else { 20 })
                })
                .collect();
            windows.iter().for_each(|of| collector.admit(of.host, of, at + LENGTH).unwrap());
            keep(collector, &windows, store);
            at += LENGTH;
            judge(collector, store, at)
        };
        assert_eq!(round(&mut collector, &mut store, None), []);
        // One window of two is not enough to accuse anybody.
        assert_eq!(round(&mut collector, &mut store, Some(2)), []);
        let changes = round(&mut collector, &mut store, Some(2));
        let [Change::Began(suspect)] = &changes[..] else { panic!("{changes:?}") };
        assert_eq!(suspect.culprit.named(collector.topology()), "link h2-s0");
        assert_eq!(suspect.since_ns, LENGTH);
        assert_eq!(round(&mut collector, &mut store, Some(2)), []);
        for _ in 0..=WINDOWS_JUDGED[1] {
            let ended = round(&mut collector, &mut store, None);
            if let [Change::Ended(culprit)] = ended[..] {
                assert_eq!(culprit, suspect.culprit);
                let incidents = store.incidents().unwrap();
                assert_eq!(incidents.len(), 1);
                assert!(incidents[0].until_ns.is_some());
                return;
            }
        }
        panic!("it has not ended");
    }
    #[test]
    fn while_nobody_says_anything_nobody_is_called_well() {
        let (_folder, mut store) = store();
        let mut collector = made(&mut store);
        let mut seen = Vec::new();
        for round in 0..30 {
            let at = round * LENGTH;
            if round < 4 {
                let slow = |host, target| if host == 2 || target == 2 { 5_000 } else { 20 };
                let windows: Vec<Window> =
                    (0..4).map(|host| window(host, at, |target| slow(host, target))).collect();
                keep(&mut collector, &windows, &mut store);
            }
            let verdict = collector.verdict_at(at + LENGTH);
            seen.extend(collector.conclude(&verdict, &mut store, at + LENGTH).unwrap());
        }
        assert!(matches!(seen[..], [Change::Began(_)]), "{seen:?}");
        assert_eq!(store.incidents().unwrap()[0].until_ns, None);
    }
}
