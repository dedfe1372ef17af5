//! What a lab has: its network, its programs and its clock, as those see it who are asked about it.

use core::net::SocketAddr;
use core::time::Duration;
use std::path::PathBuf;
use std::time::Instant;

use fabric::counters::WatchdogCounters;
use fabric::record::Samples;
use fabric::topology::End;
use fabric::{Cycle, Network};
use rdma::{Span, Time};
use softnic::lab::{Channel, Found};

use crate::captures::Captures;
use crate::clock::Clock;
use crate::factor::Choice;
use crate::journal::Journal;
use crate::processors::Processors;
use crate::programs::{MoveKind, Programs};
use crate::scribe::Scribe;
use crate::snapshot::Snapshot;

/// See the module.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) found: Found,
    pub(crate) title: String,
    pub(crate) network: Network,
    pub(crate) hosts: u32,
    pub(crate) programs: Programs,
    pub(crate) captures: Captures,
    pub(crate) samples: Samples,
    pub(crate) scribe: Scribe,
    /// Where its metrics are.
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) clock: Clock,
    pub(crate) choice: Choice,
    pub(crate) begin: Instant,
    /// The deadlocks that were found: when, and which queues.
    pub(crate) deadlocks: Vec<(Time, Cycle)>,
    pub(crate) journal: Journal,
    /// How long routing takes to go round a link.
    pub(crate) reroute: Option<Span>,
    pub(crate) processors: Processors,
    /// What the journal knows already.
    pub(crate) told: Told,
    pub(crate) is_over: bool,
    /// Who has ended it and waits for its results, and where those are to be.
    pub(crate) heir: Option<(Channel, PathBuf)>,
}

/// What the journal knows already.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) faults: usize,
    /// By switch.
    watchdogs: Vec<WatchdogCounters>,
    /// By host: how often the watchdog of its NIC has muted it.
    storms: Vec<u64>,
}

impl State {
    /// Writes down what has happened in the network since it was last asked, and who has come and gone.
    pub(crate) fn write_down(&mut self) {
        let wall = self.begin.elapsed();
        let topology = self.network.topology();
        for fault in &self.network.faults_so_far()[self.told.faults..] {
            self.journal.note(wall, fault.at, fault.kind.text(topology));
            self.told.faults += 1;
        }
        let model = self.network.now();
        for gone in self.programs.moves() {
            let host = topology.name(End::Host(gone.host));
            let what = match gone.kind {
                MoveKind::Came => "came",
                MoveKind::Went => "went",
                MoveKind::Expelled => "was expelled: it had scribbled over its ring",
            };
            self.journal.note(wall, model, format!("{host}: process {} {what}", gone.process));
        }
    }

    /// Looks at what says nothing by itself: watchdogs, and the processors of programs.
    pub(crate) fn watch(&mut self) {
        let (wall, model) = (self.begin.elapsed(), self.network.now());
        let topology = self.network.topology();
        let (switches, hosts) = (topology.switches.len(), topology.hosts.len());
        self.told.watchdogs.resize(switches, WatchdogCounters::default());
        self.told.storms.resize(hosts, 0);
        for (switch, told) in self.told.watchdogs.iter_mut().enumerate() {
            let Some(now) = self.network.watchdog_counters(switch as u32) else { continue };
            let name = topology.name(End::Switch(switch as u32));
            for (before, now, what) in [
                (told.detected, now.detected, "found a storm"),
                (told.restored, now.restored, "found a storm to be over"),
            ] {
                if now > before {
                    let more = if now - before > 1 {
                        format!(", {} times", now - before)
                    } else {
                        String::new()
                    };
                    self.journal.note(wall, model, format!("{name}: its watchdog {what}{more}"));
                }
            }
            *told = now;
        }
        for (host, told) in self.told.storms.iter_mut().enumerate() {
            let now = self.network.nic_storms(host as u32).unwrap_or(0);
            if now > *told {
                let name = topology.name(End::Host(host as u32));
                self.journal.note(
                    wall,
                    model,
                    format!("{name}: the watchdog of its NIC has muted it"),
                );
                *told = now;
            }
        }
        self.processors.look(self.programs.iter().map(|program| (program.process, program.host)));
    }

    /// What is counted now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let wall = self.begin.elapsed();
        let mut snapshot = Snapshot::of(&self.network, wall);
        snapshot.add_programs(&self.network, &self.programs.totals());
        snapshot.add("deadlocks", self.deadlocks.len() as f64);
        snapshot.add("unclaimed", self.programs.unclaimed as f64);
        let slips = self.clock.slips();
        snapshot.add("slips", slips.count as f64);
        let share = 100.0 * slips.sum.as_secs_f64() / wall.as_secs_f64().max(1e-9);
        snapshot.add("slipped_percent", share);
        for host in 0..self.hosts {
            let waited = self.processors.of(host).waited.as_secs_f64() * 1e3;
            let name = self.network.topology().name(End::Host(host));
            snapshot.add(&format!("nic {name} processor_wait_ms"), waited);
        }
        snapshot
    }

    /// How long it has lived, on the wall and in the model.
    pub(crate) fn ages(&self) -> (Duration, Span) {
        (self.begin.elapsed(), self.network.now().since(Time::ZERO))
    }
}
