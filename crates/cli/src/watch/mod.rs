//! `ferroce watch`: rates of all ports and priorities, and what looks wrong on top.

mod hook;
mod recording;
mod rows;
mod screen;

use core::time::Duration;
use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Instant;

use clap::{Args, ValueEnum};
use ops::watch::{Event, Finding, Row, Sample, Settings, StormRule, Watch, rates};
use serde_json::{Value, json};

use crate::failure::{Failure, Status};
use crate::output::{print, print_lines, print_while_read};
use crate::sources::{self, Sources};
use hook::Hook;
use recording::Recording;

#[derive(Debug, Args)]
pub(crate) struct Look {
    #[command(flatten)]
    sources: Sources,

    /// Judge a recording that --record made, and end
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "record", "act"])]
    replay: Option<PathBuf>,

    /// Look for as long as the slowest rule takes, 10 s, then end: exit status 1 if something is wrong
    #[arg(long)]
    once: bool,

    /// End after so many looks, with the same exit status; what takes longer is said not to be judged
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(2..))]
    looks: Option<u64>,

    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = crate::values::seconds)]
    interval: f64,

    /// A line of JSON for each look
    #[arg(long)]
    json: bool,

    /// Append every counter of every look to this file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// By which rule a queue is in a pause storm
    #[arg(long, value_name = "RULE", default_value = "guo16")]
    rule: Rule,

    /// How long a storm lasts until it is one, in milliseconds; two looks at least
    #[arg(long, value_name = "MS", default_value_t = 400, value_parser = clap::value_parser!(u64).range(1..=600_000))]
    detection_ms: u64,

    /// Priorities that may lose nothing; otherwise those of which pauses were seen
    #[arg(long, value_name = "PRIORITY,...", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(0..8))]
    lossless: Option<Vec<u8>>,

    /// A command for each new finding, which `sh` gets with FERROCE_FINDING, FERROCE_WHO, FERROCE_PORT,
    /// FERROCE_PRIORITIES and FERROCE_EVIDENCE; without --act it is only told
    #[arg(long, value_name = "COMMAND")]
    on_finding: Option<String>,

    /// Really run the command of --on-finding
    #[arg(long, requires = "on_finding")]
    act: bool,
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  ferroce watch                            # this host, with its soft NICs
  ferroce watch --once                     # for scripts: see the exit status
  ferroce watch --from snapshots/ --json   # what others keep saving there
  ferroce watch --from out/ --once         # what `ferroce sim -o` wrote
  ferroce watch --record day.jsonl --looks 86400
  ferroce watch --replay day.jsonl         # and the same day again

On a terminal: arrows move, q ends. RX of pauses: the peer stopped this port, so
look behind it. TX: this port stopped the peer, so look at this device.

Exit status: 0 when nothing is wrong; 1 when something was found; 125 when
counters cannot be read.";

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Rule {
    /// Packets wait and none leaves while the server pauses (the paper's)
    Guo16,
    /// SONiC's for Broadcom chips
    Broadcom,
    /// SONiC's for Mellanox chips
    Mellanox,
    /// The same as it was in 2019
    Mellanox2019,
}

impl Look {
    fn settings(&self) -> Settings {
        let storm_rule = match self.rule {
            Rule::Guo16 => StormRule::Guo16,
            Rule::Broadcom => StormRule::Broadcom,
            Rule::Mellanox => StormRule::Mellanox,
            Rule::Mellanox2019 => StormRule::Mellanox2019,
        };
        let poll = Duration::from_secs_f64(self.interval);
        let lossless = self.lossless.as_ref();
        let lossless =
            lossless.map(|list| list.iter().fold(0, |mask, priority| mask | 1 << priority));
        let detection = Duration::from_millis(self.detection_ms);
        Settings { poll, storm_rule, detection, lossless, ..Settings::default() }
    }

    /// Whether it does more than print.
    fn does_more(&self) -> bool {
        self.record.is_some() || self.act
    }
}

pub(crate) fn run(arguments: &Look) -> Result<(), Failure> {
    if let Some(path) = &arguments.replay {
        return recording::replay(arguments, path);
    }
    if let Some(folder) = arguments.sources.simulation() {
        if arguments.record.is_some() {
            return Err(Failure::new(
                "a simulation has its own record: --record is of live counters",
            )
            .hint("judge the simulation's by --from alone"));
        }
        return simulated(arguments, folder);
    }
    let mut looker = Looker::new(arguments)?;
    let ends = arguments.once || arguments.looks.is_some();
    if io::stdout().is_terminal() && !arguments.json && !ends {
        return screen::run(arguments, looker);
    }
    let all = if arguments.once { arguments.settings().looks_for_all() } else { u64::MAX };
    let looks = arguments.looks.unwrap_or(all);
    looker.look()?;
    if arguments.once && looker.ports() == 0 {
        let message = "there is nothing to watch here: no RDMA device, no interface with statistics, and no program over Ferroce";
        return Err(Failure::new(message)
            .hint("install ethtool and iproute2, or name a folder of snapshots with --from"));
    }
    for number in 1..looks {
        sleep(Duration::from_secs_f64(arguments.interval));
        looker.look()?;
        let last = number + 1 == looks;
        // With --once only the end counts; otherwise each look is told.
        let is_read = match arguments.json {
            _ if arguments.once && !last => true,
            true => print_while_read(&looker.to_json())?,
            false => print_while_read(&looker.to_text())?,
        };
        if !is_read && !ends && !arguments.does_more() {
            return Ok(());
        }
    }
    match looker.unread.len() {
        files if files > 0 && looker.found == 0 => Err(Failure::new(format!(
            "nothing was found, but {} cannot be read",
            if files == 1 { "one file".to_owned() } else { format!("{files} files") }
        ))),
        _ => verdict(looker.found),
    }
}

fn verdict(found: u64) -> Result<(), Failure> {
    match found {
        0 => Ok(()),
        1 => Err(Failure::new("one thing was found wrong").status(Status::Missed)),
        found => {
            Err(Failure::new(format!("{found} things were found wrong")).status(Status::Missed))
        }
    }
}

/// Looks, and what they came to.
#[derive(Debug)]
struct Looker<'a> {
    sources: &'a Sources,
    record: Option<Recording>,
    hook: Hook,
    watch: Watch,
    begin: Instant,
    at: Duration,
    sample: Option<Sample>,
    /// What could not be read at the last look.
    unread: Vec<String>,
    rows: Vec<Row>,
    /// How many things were found since the beginning.
    found: u64,
    /// What the hook did or would do.
    told: Vec<String>,
}

impl<'a> Looker<'a> {
    fn new(arguments: &'a Look) -> Result<Self, Failure> {
        let record = arguments.record.as_ref().map(|path| Recording::open(path)).transpose()?;
        Ok(Self {
            sources: &arguments.sources,
            record,
            hook: Hook::new(arguments.on_finding.clone(), arguments.act),
            watch: Watch::new(arguments.settings()),
            begin: Instant::now(),
            at: Duration::ZERO,
            sample: None,
            unread: Vec::new(),
            rows: Vec::new(),
            found: 0,
            told: Vec::new(),
        })
    }

    fn look(&mut self) -> Result<(), Failure> {
        let raw = self.sources.gather()?;
        let at = self.begin.elapsed();
        if let Some(recording) = &mut self.record {
            recording.add(&raw, at)?;
        }
        let sample = raw.sample();
        if let Some(before) = &self.sample {
            self.rows = rates(before, &sample, at - self.at);
        }
        for event in self.watch.look(at, &sample) {
            if let Event::Found(finding) = event {
                self.found += 1;
                let told = self.hook.found(&finding, sample.ports.get(&finding.port));
                self.told
                    .extend(told.into_iter().map(|line| format!("{}: {line}", rows::time(at))));
            }
        }
        (self.at, self.sample, self.unread) = (at, Some(sample), raw.notes);
        Ok(())
    }

    fn ports(&self) -> usize {
        self.sample.as_ref().map_or(0, |sample| sample.ports.len())
    }

    fn wrong(&self, findings: &[&Finding]) -> Vec<String> {
        rows::wrong(findings, &self.watch.unjudged(), &self.unread)
    }

    fn to_text(&self) -> String {
        let findings: Vec<&Finding> = self.watch.open().collect();
        let wrong = self.wrong(&findings);
        let mut text = rows::summary(self.ports(), self.at, &wrong, &self.told);
        text += &rows::text(&self.rows, &findings);
        text.push('\n');
        text
    }

    fn to_json(&self) -> String {
        let findings: Vec<Value> = self.watch.open().map(finding_json).collect();
        let rows: Vec<Value> = self.rows.iter().map(row_json).collect();
        let unjudged = self.watch.unjudged().into_iter().map(|(kind, _)| kind.name());
        let line = json!({
            "at_seconds": self.at.as_secs_f64(),
            "findings": findings,
            "not_judged_yet": unjudged.collect::<Vec<_>>(),
            "not_read": self.unread,
            "rows": rows,
        });
        format!("{line}\n")
    }
}

fn finding_json(finding: &Finding) -> Value {
    json!({
        "kind": finding.kind.name(),
        "who": finding.who,
        "port": finding.port.to_string(),
        "priorities": finding.priority_list(),
        "since_seconds": finding.since.as_secs_f64(),
        "found_seconds": finding.found.as_secs_f64(),
        "evidence": finding.evidence,
        "remedy": ops::watch::remedy(finding.kind),
    })
}

fn row_json(row: &Row) -> Value {
    json!({
        "port": row.port.to_string(),
        "priority": row.priority,
        "rx_pauses_per_second": row.pauses_received,
        "rx_paused_fraction": row.paused,
        "tx_pauses_per_second": row.pauses_sent,
        "marks_per_second": row.marks,
        "cnps_per_second": row.cnps,
        "drops_per_second": row.drops,
        "retransmissions_per_second": row.retransmissions,
        "bits_per_second": row.bits,
    })
}

/// Events of the past, a line each. Says how many things were found, and how many of them were so at the end.
fn history(arguments: &Look, events: &[(Duration, Event)]) -> Result<(u64, u64), Failure> {
    let (mut found, mut open) = (0, BTreeMap::new());
    let mut text = String::new();
    for (at, event) in events {
        let (word, finding) = match event {
            Event::Found(finding) => ("found", finding),
            Event::Over(finding) => ("over", finding),
        };
        let priorities: &mut u8 = open.entry((finding.kind, &finding.who)).or_default();
        match event {
            Event::Found(_) => {
                found += 1;
                *priorities |= finding.priorities;
            }
            Event::Over(_) => *priorities &= !finding.priorities,
        }
        if arguments.json {
            let mut line = finding_json(finding);
            line["event"] = word.into();
            line["at_seconds"] = at.as_secs_f64().into();
            text += &format!("{line}\n");
        } else {
            text += &format!("{:>12}  {word:<5}  {finding}\n", rows::time(*at));
        }
    }
    match arguments.json {
        true => print(&text)?,
        false => print_lines(&text)?,
    }
    let open = open.values().filter(|priorities| **priorities != 0).count() as u64;
    Ok((found, open))
}

fn simulated(arguments: &Look, folder: &std::path::Path) -> Result<(), Failure> {
    let settings = arguments.settings();
    let events = sources::replay(folder, &settings)?;
    let (found, open) = history(arguments, &events)?;
    if !arguments.json {
        let raw = arguments.sources.gather()?;
        let ports = raw.ports().len();
        print(&format!(
            "{ports} ports of a simulation; {found} found, {open} of them at its end\n"
        ))?;
    }
    verdict(found)
}
