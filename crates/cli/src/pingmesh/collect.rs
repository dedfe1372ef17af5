//! `ferroce pingmesh collect`: takes windows of all agents, keeps them, and says what is sick.
//!
//! ```text
//!   agent ═ connection, a thread ─┬─ hello ──► collector
//!                                 └─ window ─► writer: many in one transaction ─► disk ─► kept
//!   every window: verdict, a thread ─► what begins and ends
//! ```
//!
//! Agents wait for the disk and not for a verdict. Whoever needs both locks takes the store's first.

use core::fmt::Display;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::fs::{self, File, TryLockError};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use fabric::scenario::Scenario;
use fabric::topology::{End, Topology};
use ops::pingmesh::collector::{Change, Collector, verdict_by};
use ops::pingmesh::exchange::{Address, Answer, Say};
use ops::pingmesh::layout;
use ops::pingmesh::store::{Store, StoreError};
use ops::pingmesh::verdict::{Suspect, of_wall};
use ops::pingmesh::window::Window;

use super::arguments::Collect;
use super::beside::Beside;
use super::clock::wall_ns;
use super::line::{Line, Secret};
use super::places::{GREETING, Place, Places, Refused, is_news};
use crate::failure::Failure;
use crate::output::{Lines, print_lines, tell};

/// Windows that are written in one transaction, at most.
const BATCH: usize = 512;
/// How often the collector looks for agents, and whether it is to end.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// How often old windows and sums are forgotten.
const PRUNE_INTERVAL: Duration = Duration::from_secs(60);
/// A verdict comes so long after a window has ended: agents wait for answers, and then deliver.
const GRACE_NS: u64 = 2_000_000_000;
/// What a report finds under these keys of the file: whom the collector has refused, and agents of one name.
pub(super) const REFUSED: &str = "refused";
/// See [`REFUSED`].
pub(super) const CLASHES: &str = "clashes";

/// A window that was admitted, and where to say that it is kept.
type Admitted = (Window, SyncSender<Answer>);

/// What all threads share.
struct Shared {
    secret: Secret,
    store: Mutex<Store>,
    collector: Mutex<Collector>,
    places: Arc<Places>,
    ends: Arc<AtomicBool>,
}

impl Shared {
    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn collector(&self) -> MutexGuard<'_, Collector> {
        self.collector.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }
}

/// Has the file for itself, for as long as what it returns lives. SQLite would let two collectors
/// write to one file, and each would begin and end the other's incidents.
fn alone(db: &Path) -> Result<Option<File>, Failure> {
    // Where there are no such locks, nothing can be said.
    let Ok(file) = File::open(db) else { return Ok(None) };
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            Err(Failure::new(format!("{}: another collector writes to it", db.display()))
                .hint("--db names another file; one collector can take all agents"))
        }
        _ => Ok(Some(file)),
    }
}

pub(super) fn run(arguments: &Collect) -> Result<(), Failure> {
    let secret = Secret::read(&arguments.trust)?;
    let topology = topology(&arguments.topology)?;
    let of_store =
        |error: StoreError| Failure::from_message(&format!("{}: {error}", arguments.db.display()));
    let store = Store::open(&arguments.db).map_err(of_store)?;
    let mut store =
        store.keeping(arguments.single_probes, topology.hosts.len()).map_err(of_store)?;
    let _alone = alone(&arguments.db)?;
    let length_ns = arguments.window_ms * 1_000_000;
    let text = layout::to_text(&topology);
    for (what, value) in [("topology", text), ("window_ns", length_ns.to_string())] {
        match store.about(what).map_err(of_store)? {
            Some(before) if before != value => {
                return Err(Failure::new(format!(
                    "{} has windows of another {}",
                    arguments.db.display(),
                    if what == "topology" { "topology" } else { "length" }
                ))
                .hint(
                    "name another file for the new one: what is known of the old stays readable",
                ));
            }
            Some(_) => {}
            None => store.set_about(what, &value).map_err(of_store)?,
        }
    }
    let rates = arguments.rates();
    let collector = Collector::new(topology, rates, length_ns, &mut store, wall_ns());
    let mut collector = collector.map_err(of_store)?;
    let mut beside = Beside::new(arguments.cluster.as_deref(), arguments.counters.as_deref());
    // What is wrong with a folder is told now, and not in the middle of the night.
    let configuration = beside.configuration(collector.topology())?.unwrap_or_default();
    if arguments.cluster.is_some() {
        tell(&configuration.text());
    }
    store.put_configuration(&configuration).map_err(of_store)?;
    for warnings in [REFUSED, CLASHES] {
        store.set_about(warnings, "").map_err(of_store)?;
    }
    collector.configure(configuration);
    beside.counters()?;
    let listener = TcpListener::bind(arguments.listen).map_err(|error| {
        Failure::new(format!("cannot listen at {}: {error}", arguments.listen))
            .hint("--listen names another address; port 0 is any that is free")
    })?;
    let cannot = |error: io::Error| Failure::new(format!("cannot listen: {error}"));
    listener.set_nonblocking(true).map_err(cannot)?;
    let ends = crate::signals::stopper()?;
    let hosts = collector.topology().hosts.len();
    let address = listener.local_addr().map_err(cannot)?;
    print_lines(&format!(
        "collecting at {address} from {hosts} hosts, into {}\n",
        arguments.db.display()
    ))?;
    let (store, collector) = (Mutex::new(store), Mutex::new(collector));
    let shared = Arc::new(Shared { secret, store, collector, places: Arc::default(), ends });
    let (queue, admitted) = sync_channel(BATCH);
    let writer = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || write(&shared, &admitted))
    };
    let judge = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || judge(&shared, beside, length_ns))
    };
    while !shared.is_over() && !judge.is_finished() {
        while shared.places.has_room()
            && let Ok((stream, from)) = listener.accept()
        {
            let Some(mut place) = shared.places.take(from.ip()) else { continue };
            let (of_line, queue) = (Arc::clone(&shared), queue.clone());
            // Without a thread the place is free again, and the agent says it again.
            let _ = thread::Builder::new().spawn(move || {
                let ended = listen(stream, &mut place, &of_line, &queue);
                place.ended(&ended);
            });
        }
        thread::sleep(LOOK_INTERVAL);
    }
    drop(queue);
    // What is in the queue is written, unless an agent is in the middle of something.
    let until = Instant::now() + Duration::from_secs(2);
    while !writer.is_finished() && Instant::now() < until {
        thread::sleep(LOOK_INTERVAL);
    }
    judge.join().unwrap_or(Ok(()))
}

/// The topology of a scenario.
pub(super) fn topology(path: &Path) -> Result<Topology, Failure> {
    let text = fs::read_to_string(path).map_err(|error| {
        Failure::new(format!("cannot read {}: {error}", path.display())).hint(
            "a topology is the [topology] of a scenario, as in scenarios/pingmesh/four-hosts.toml",
        )
    })?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let scenario = Scenario::parse_in(&text, folder, None)
        .map_err(|error| Failure::from_message(&format!("{}: {error}", path.display())))?;
    Ok(scenario.network.topology)
}

/// When the next verdict is due.
fn due(now_ns: u64, length_ns: u64) -> u64 {
    (now_ns.saturating_sub(GRACE_NS) / length_ns + 1) * length_ns + GRACE_NS
}

/// Hears one agent out.
fn listen(
    stream: TcpStream,
    place: &mut Place,
    shared: &Shared,
    queue: &SyncSender<Admitted>,
) -> io::Result<()> {
    let mut line = Line::accept(stream, &shared.secret, GREETING)?;
    let mut known = None;
    while let Some(said) = line.hear()? {
        place.is_known();
        let answer = match said {
            Say::Hello { host, .. } if !line.may_be(&host) => {
                Answer::Refused { why: format!("its certificate does not have the name {host}") }
            }
            Say::Hello { version, host, address } => {
                let mut collector = shared.collector();
                let before = collector.agents();
                let heard = collector.hello((version, &host, address), wall_ns());
                let agents = collector.agents();
                if agents > before {
                    let of = collector.topology().hosts.len();
                    tell(&format!("{host} is there: {agents} of {of}"));
                }
                drop(collector);
                match heard {
                    Ok((host, answer)) => {
                        known = Some(host);
                        answer
                    }
                    Err(refused) => refused,
                }
            }
            Say::Window(window) => match known {
                None => Answer::Refused { why: "say hello first".to_owned() },
                Some(host) => {
                    let admitted = shared.collector().admit(host, &window, wall_ns());
                    match admitted {
                        Err(why) => Answer::Refused { why },
                        Ok(()) => {
                            let (tell, told) = sync_channel(1);
                            let gone = |_| io::Error::other("the collector ends");
                            queue
                                .send((*window, tell))
                                .map_err(|_| io::Error::other("the collector ends"))?;
                            told.recv().map_err(gone)?
                        }
                    }
                }
            },
        };
        line.say(&answer)?;
    }
    Ok(())
}

/// Writes what was admitted, as much at once as there is: a window is kept when it is on the disk, and a disk has time
/// for a few hundred such promises a second.
fn write(shared: &Shared, admitted: &Receiver<Admitted>) {
    let units = shared.collector().to_judge();
    let mut not_kept = NotKept::default();
    while let Ok(first) = admitted.recv() {
        let mut batch = vec![first];
        batch.extend(admitted.try_iter().take(BATCH - 1));
        let (mut windows, tellers): (Vec<Window>, Vec<_>) = batch.into_iter().unzip();
        let answer = {
            let kept = shared.store().keep(&mut windows, &|scope, host| units.unit(scope, host));
            match kept {
                Ok(new) => {
                    shared.collector().learn(&windows, &new);
                    not_kept.is_over().iter().for_each(|line| tell(line));
                    Answer::Kept
                }
                Err(error) => {
                    let more = not_kept.add(windows.len() as u64, &error);
                    more.iter().for_each(|line| tell(line));
                    Answer::Later { why: error.to_string() }
                }
            }
        };
        for teller in tellers {
            // Who has hung up says it again.
            let _ = teller.send(answer.clone());
        }
    }
}

/// Windows that the file has not taken, and of how many it was said.
#[derive(Debug, Default)]
struct NotKept {
    windows: u64,
    told: u64,
}

impl NotKept {
    /// So many more, and what is to be said of it.
    fn add(&mut self, windows: u64, why: &impl Display) -> Option<String> {
        self.windows += windows;
        if !is_news(self.windows, self.told) {
            return None;
        }
        self.told = self.windows;
        Some(format!("warning: windows are not kept, {} so far: {why}", self.windows))
    }

    fn is_over(&mut self) -> Option<String> {
        let was = core::mem::take(self);
        (was.windows > 0)
            .then(|| format!("windows are kept again; {} were not, and come again", was.windows))
    }
}

/// What was said already of what is wrong with agents.
#[derive(Default)]
struct Warned {
    refused: Refused,
    /// What the file has of it, which is as new as can be.
    written: Refused,
    clashes: String,
    is_silent: bool,
}

impl Warned {
    /// Says what is new, and writes it down for reports.
    fn look(&mut self, shared: &Shared) -> Result<(), StoreError> {
        let refused = shared.places.refused();
        if refused != self.written {
            shared.store().set_about(REFUSED, &refused.to_string())?;
            self.written = refused.clone();
        }
        if refused.is_news_after(&self.refused) {
            tell(&format!("warning: refused so far: {refused}"));
            self.refused = refused;
        }
        let (clashes, silent_since) = {
            let collector = shared.collector();
            (clashes(&collector), collector.roll().silent_since(wall_ns()))
        };
        if clashes != self.clashes {
            let is_new = |line: &&str| !self.clashes.lines().any(|told| told == *line);
            clashes.lines().filter(is_new).for_each(|line| tell(&format!("warning: {line}")));
            shared.store().set_about(CLASHES, &clashes)?;
            self.clashes = clashes;
        }
        match silent_since {
            Some(since_ns) if !self.is_silent => tell(&format!(
                "warning: all agents are silent since {}: is this collector reached?",
                of_wall(since_ns)
            )),
            None if self.is_silent => tell("agents are heard again"),
            _ => {}
        }
        self.is_silent = silent_since.is_some();
        Ok(())
    }
}

/// Two agents of one name, a line for each.
fn clashes(collector: &Collector) -> String {
    let line = |(host, [one, other]): (u32, [Address; 2])| {
        format!(
            "two agents call themselves {}: at {one} and at {other}; one window of two is kept, and --host gives each \
             its name\n",
            collector.topology().name(End::Host(host))
        )
    };
    collector.roll().clashes().map(line).collect()
}

/// Says what is sick, when that changes, and keeps the file in order.
fn judge(shared: &Shared, mut beside: Beside, length_ns: u64) -> Result<(), Failure> {
    let mut next_ns = due(wall_ns(), length_ns);
    let mut pruned = Instant::now();
    let mut warned = Warned::default();
    let mut lines = Lines::default();
    while !shared.is_over() {
        thread::sleep(LOOK_INTERVAL);
        if wall_ns() < next_ns {
            continue;
        }
        // The window that has ended before the grace began.
        let start_ns = next_ns.saturating_sub(GRACE_NS + length_ns);
        next_ns = due(wall_ns(), length_ns);
        if let Err(failure) = look_beside(shared, &mut beside, start_ns) {
            beside.tell(&failure.to_string());
        }
        let looked = warned.look(shared).and_then(|()| put_hosts(shared));
        let done = looked.and_then(|()| conclude(shared)).and_then(|said| {
            if pruned.elapsed() > PRUNE_INTERVAL {
                pruned = Instant::now();
                shared.store().prune(wall_ns())?;
            }
            Ok(said)
        });
        match done {
            Ok(said) if said.is_empty() => {}
            Ok(said) => lines.print(&said),
            Err(error) => tell(&format!("warning: the file is not as it should be: {error}")),
        }
    }
    Ok(())
}

/// Reads what is beside windows: counters of switches, and the configuration.
fn look_beside(shared: &Shared, beside: &mut Beside, start_ns: u64) -> Result<(), Failure> {
    let of_store = |error: StoreError| Failure::from_message(&error);
    let judge = shared.collector().to_judge();
    if let Some(configuration) = beside.configuration(judge.topology())? {
        shared.store().put_configuration(&configuration).map_err(of_store)?;
        shared.collector().configure(configuration);
    }
    let Some((Some(before), now)) = beside.counters()? else { return Ok(()) };
    let (ports, others) = shared.collector().ports_between(&before, &now);
    if others > 0 {
        beside.tell(&format!(
            "warning: of {others} ports nobody knows what they lead to: they are left out (--cluster with LLDP's \
             neighbours says)"
        ));
    }
    shared.store().put_ports(start_ns, &ports).map_err(of_store)?;
    shared.collector().learn_ports(start_ns, ports);
    Ok(())
}

/// Writes down who is there.
fn put_hosts(shared: &Shared) -> Result<(), StoreError> {
    let (judge, hosts) = {
        let mut collector = shared.collector();
        (collector.to_judge(), collector.new_hosts())
    };
    let name = |host| judge.topology().name(End::Host(host));
    let rows = hosts.iter().map(|&(host, address, seen_ns)| (host, name(host), address, seen_ns));
    shared.store().put_hosts(rows)
}

/// Comes to a verdict, and says what has begun and ended with it.
fn conclude(shared: &Shared) -> Result<String, StoreError> {
    let now_ns = wall_ns();
    let verdict = verdict_by(|windows| shared.collector().look(windows, now_ns));
    let mut store = shared.store();
    let mut collector = shared.collector();
    let changes = collector.conclude(&verdict, &mut store, now_ns)?;
    let topology = collector.topology();
    let said = changes.into_iter().map(|change| match change {
        Change::Began(suspect) => sick("SICK", &suspect, topology),
        Change::Became(suspect) => sick("BY NOW", &suspect, topology),
        Change::Ended(culprit) => format!("well: {}\n", culprit.named(topology)),
    });
    Ok(said.collect())
}

fn sick(word: &str, suspect: &Suspect, topology: &Topology) -> String {
    let (what, why) = (suspect.culprit.named(topology), suspect.cause.text());
    let (since, support) = (of_wall(suspect.since_ns), suspect.support());
    let mut said = format!("{word}: {what}: {why}, since {since}{support}\n");
    suspect.lines().for_each(|line| said += &format!("  {line}\n"));
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_that_are_not_kept_are_told_at_first_and_at_ten_times_as_many() {
        let mut not_kept = NotKept::default();
        let told: Vec<String> = (0..250).filter_map(|_| not_kept.add(4, &"full")).collect();
        let of = |windows| format!("warning: windows are not kept, {windows} so far: full");
        assert_eq!(told, [4, 40, 400].map(of));
        let over = "windows are kept again; 1000 were not, and come again";
        assert_eq!(not_kept.is_over().as_deref(), Some(over));
        assert_eq!(not_kept.is_over(), None);
        assert_eq!(not_kept.add(1, &"full"), Some(of(1)));
    }
}
