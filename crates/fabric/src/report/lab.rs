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
