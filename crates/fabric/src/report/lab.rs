//! What a report says of a lab: programs as hosts, in real time.

use core::time::Duration;

use telemetry::{Block, Page, Table};

use super::Report;

/// A network that has lived in real time, with programs as hosts.
#[derive(Clone, PartialEq, Debug)]
pub struct LabRun {
    /// What the lab was called.
    pub name: String,
    /// By how much its time was diluted.
    pub factor: f64,
    /// Why by so much, in a few words.
    pub why: String,
    /// How long it lived on the wall.
    pub wall: Duration,
    /// Whether it kept its factor all the time.
    pub kept: bool,
    /// When and by how much it fell behind, in a few words.
    pub behind: String,
    /// The programs, in the order in which they came.
    pub programs: Vec<ProgramRun>,
    /// Programs that are not among them, because there were too many.
    pub more_programs: u64,
    /// Packets that no program had.
    pub unclaimed: u64,
    /// The deadlocks that were found.
    pub deadlocks: Vec<String>,
}

/// A program of a lab.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProgramRun {
    /// Its host.
    pub host: String,
    /// Its process.
    pub process: u32,
    /// What it was called.
    pub command: String,
    /// Packets that it has sent.
    pub sent: u64,
    /// Packets that it has received.
    pub received: u64,
    /// Packets of it that were refused: malformed, of another host, or for nobody.
    pub refused: u64,
}

impl LabRun {
    pub(super) fn figures(&self) -> Vec<(&'static str, String)> {
        let of = |count: fn(&ProgramRun) -> u64| self.programs.iter().map(count).sum::<u64>();
        let programs = self.programs.len() as u64 + self.more_programs;
        let (sent, received) = (of(|program| program.sent), of(|program| program.received));
        let mut figures = vec![
            ("time", format!("factor {}, {}", self.factor, self.why)),
            ("fell behind", self.behind.clone()),
            ("programs", format!("{programs}: {sent} packets sent, {received} received")),
        ];
        if self.unclaimed > 0 {
            figures.push(("unclaimed", format!("{} packets for no program", self.unclaimed)));
        }
        let deadlocks = self.deadlocks.iter().take(DEADLOCKS);
        figures.extend(deadlocks.map(|deadlock| ("DEADLOCK", deadlock.clone())));
        figures
    }

    pub(super) fn programs(&self) -> Table {
        let mut table = Table::new("programs")
            .texts("host")
            .integers("process", "")
            .texts("program")
            .integers("sent", "packets")
            .integers("received", "packets")
            .integers("refused", "packets");
        for program in &self.programs {
            table.push([
                program.host.as_str().into(),
                program.process.into(),
                program.command.as_str().into(),
                program.sent.into(),
                program.received.into(),
                program.refused.into(),
            ]);
        }
        table
    }
}

/// Deadlocks that a summary tells.
const DEADLOCKS: usize = 4;

impl Report<'_> {
    /// What has packets sent.
    pub(super) fn who_sends(&self) -> &'static str {
        if self.lab.is_some() { "the programs" } else { "the workload" }
    }

    /// A fault, as whoever had it happen knows it: in a lab that need not be the file.
    pub(super) fn a_fault(&self) -> &'static str {
        if self.lab.is_some() { "a fault" } else { "a [[fault]]" }
    }

    /// The programs of a lab; `None` of a simulation.
    pub fn programs(&self) -> Option<Table> {
        self.lab.map(LabRun::programs)
    }

    /// How a lab ended.
    pub(super) fn lab_ending(&self, lab: &LabRun) -> String {
        let (now, wall) = (self.network.now(), lab.wall.as_secs_f64());
        let factor = lab.factor;
        format!("ended at {now} of the model, after {wall:.3} s on the wall (factor {factor})")
    }

    pub(super) fn add_lab(&self, page: &mut Page) {
        let (Some(lab), Some(programs)) = (self.lab, self.programs()) else { return };
        if !lab.kept {
            page.add(&Block::Notice(&format!(
                "The lab did not keep its factor: it fell behind {}. Its clock stood still meanwhile, so queues and \
                 pauses are the fabric's; what programs timed by the wall's clock is not.",
                lab.behind
            )));
        }
        page.section("Programs").add(&Block::Text(
            "Packets as the lab passed them on. Operations, retransmissions and errors are in the programs' own \
             counters (`ferroce counters`, while they ran).",
        ));
        match programs.is_empty() {
            true => page.add(&Block::Text("There were none.")),
            false => page.add(&Block::Table(&programs, "")),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Note;
    use crate::switch::config::EcnConfig;
    use crate::topology::{Cables, single_switch};
    use crate::workload::FlowSpec;
    use crate::{Network, NetworkConfig};
    use rdma::{Rate, Span, Time};

    fn notes(change: impl FnOnce(&mut NetworkConfig)) -> Vec<Note> {
        let mut config = NetworkConfig::new(single_switch(5, Cables::new(Rate::from_gbps(40), 2)));
        config.flows = (0..4).map(|host| FlowSpec::write(host, 4, 1_000_000)).collect();
        config.switch.buffer_bytes = 300_000;
        change(&mut config);
        let mut network = Network::new(config).unwrap();
        let verdict = network.run(Time::ZERO + Span::from_ms(20));
        let lab = LabRun {
            name: "a".to_owned(),
            factor: 1.0,
            why: String::new(),
            wall: Duration::from_millis(20),
            kept: true,
            behind: String::new(),
            programs: Vec::new(),
            more_programs: 0,
            unclaimed: 0,
            deadlocks: Vec::new(),
        };
        Report::new("notes", &network, &verdict).in_lab(&lab).notes()
    }

    #[test]
    fn what_is_advised_can_be_done_in_a_lab() {
        let lossy = notes(|config| {
            for group in &mut config.switch.groups {
                group.lossless = false;
            }
        });
        let marks = |min_bytes| {
            notes(|config| {
                let max_bytes = 2 * min_bytes;
                config.switch.queues[3].ecn =
                    Some(EcnConfig { min_bytes, max_bytes, max_probability: 0.1 });
            })
        };
        let no_marks = |notes: &[Note]| notes.iter().find(|it| it.about == "no ECN").cloned();
        let said = no_marks(&lossy).unwrap().change.unwrap();
        assert!(said.ends_with("; programs with FERROCE_CC=dcqcn obey marks"), "{said}");
        let said = no_marks(&marks(10_000)).unwrap().change.unwrap();
        assert!(said.starts_with("run programs with FERROCE_CC=dcqcn"), "{said}");
        let other = notes(|config| config.flows.iter_mut().for_each(|flow| flow.dscp = 1));
        let idle = notes(|config| config.flows.clear());
        assert_eq!((idle.len(), idle[0].about.as_str()), (1, "nothing sent"));
        for note in [lossy, marks(10_000), other, idle].iter().flatten() {
            assert!(note.remedies.is_empty() && note.untried.is_empty(), "{note:?}");
            let said = note.change.clone().unwrap_or_default();
            for word in ["nic.congestion", "workload", "[[fault]]"] {
                assert!(!said.contains(word), "{note:?}");
            }
        }
    }
}
