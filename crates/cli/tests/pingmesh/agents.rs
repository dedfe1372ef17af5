//! Agents on soft NICs of loopback, and a collector.

use core::time::Duration;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Instant;

use telemetry::{Cell, Table};

use super::{Collecting, ferroce};

const PATIENCE: Duration = Duration::from_secs(60);

/// An agent; what it says is in a file of its name.
struct Agent(Child);

impl Agent {
    fn start(collecting: &Collecting, host: &str, spool: &str) -> Self {
        let folder = collecting.folder.path();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ferroce"));
        command.args(["pingmesh", "agent", "--collector", &collecting.address, "--key", "key"]);
        command.args(["--host", host, "--dev", "lo", "--no-tcp", "--spool", spool]);
        command.current_dir(folder).stdout(Stdio::null());
        command.stderr(File::create(folder.join(format!("{spool}.stderr"))).unwrap());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn report(folder: &Path, more: &[&str]) -> String {
    let command = ferroce().args(["pingmesh", "report", "mesh.db"]).args(more);
    let output = command.current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Single probes, as a report writes them.
struct Probes(Table);

fn probes(folder: &Path) -> Probes {
    report(folder, &["--parquet", "tables"]);
    let file = File::open(folder.join("tables/probes.parquet")).unwrap();
    Probes(Table::read_parquet(file).unwrap().0)
}

impl Probes {
    /// How many have a text in a column.
    fn count(&self, column: &str, text: &str) -> usize {
        let cells = self.0.column(column).unwrap();
        (0..self.0.len()).filter(|&row| cells.cell(row) == Cell::Text(text)).count()
    }
}

/// What something says, once that contains `what`.
fn until(what: &str, says: impl Fn() -> String) -> String {
    let end = Instant::now() + PATIENCE;
    loop {
        let said = says();
        if said.contains(what) {
            return said;
        }
        assert!(Instant::now() < end, "not \"{what}\" but {said}");
        sleep(Duration::from_millis(100));
    }
}

#[test]
fn single_probes_of_a_host_that_dies_are_evidence_and_a_full_spool_keeps_nobody_silent() {
    let collecting = Collecting::start(&[]);
    let folder = collecting.folder.path();
    let agents = ["h0", "h1", "h2"].map(|host| Agent::start(&collecting, host, host));
    // Where h0 keeps what it has not delivered, nothing can be kept any more.
    until("2 targets", || fs::read_to_string(folder.join("h1.stderr")).unwrap_or_default());
    fs::remove_dir_all(folder.join("h0")).unwrap();
    until("a window cannot be kept in h0", || {
        fs::read_to_string(folder.join("h0.stderr")).unwrap_or_default()
    });
    // All three go on telling of their windows: h0, too.
    let of_each = || ["h0", "h1", "h2"].map(|host| probes(folder).count("from", host));
    let before = of_each();
    let end = Instant::now() + PATIENCE;
    while of_each().iter().zip(before).any(|(now, before)| *now < before + 20) {
        assert!(Instant::now() < end, "{before:?} and then {:?}", of_each());
        sleep(Duration::from_millis(100));
    }
    let [h0, h1, h2] = agents;
    drop(h2);
    let said = until("verdict: link h2-s0: ", || report(folder, &[]));
    // Nobody reads any more what the collector says; it collects all the same.
    collecting
        .says("warning: standard output is lost (Broken pipe (os error 32)); all else goes on");
    assert!(said.contains(" to h2, label 0: no answer in time\n"), "{said}");
    let value: serde_json::Value = serde_json::from_str(&report(folder, &["--json"])).unwrap();
    let single = &value["single_probes"];
    assert!(single["failed_or_slow"].as_u64().unwrap() > 0, "{single}");
    let last = single["last_failed_or_slow"].as_array().unwrap();
    // Others may be slow while the machine is busy.
    let is_of_the_dead = |probe: &serde_json::Value| {
        (probe["from"] == "h2" || probe["to"] == "h2") && probe["outcome"] == "no-answer"
    };
    assert!(last.iter().any(is_of_the_dead), "{last:?}");
    report(folder, &["-o", "mesh.html"]);
    let page = fs::read_to_string(folder.join("mesh.html")).unwrap();
    assert!(page.contains("no answer in time"));
    let probes = probes(folder);
    let outcomes = ["answered", "no-answer"].map(|outcome| probes.count("outcome", outcome));
    assert!(outcomes[0] > 20 && outcomes[1] > 2, "{outcomes:?}");
    drop((h0, h1));
}

#[test]
fn two_agents_of_one_name_are_told_with_both_addresses() {
    let collecting = Collecting::start(&[]);
    let _agents = [("h0", "one"), ("h0", "other"), ("h1", "third")]
        .map(|(host, spool)| Agent::start(&collecting, host, spool));
    let said = collecting.says("warning: two agents call themselves h0: at ");
    let line = said.lines().find(|line| line.contains("two agents")).unwrap();
    assert_eq!(line.matches("(queue pair ").count(), 2, "{line}");
    let said = until("warning: two agents", || report(collecting.folder.path(), &[]));
    assert!(said.lines().all(|line| line.len() <= 80), "{said}");
}
