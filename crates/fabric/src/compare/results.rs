//! What a folder of results holds: figures and flows of each seed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use telemetry::{Cell, Table};

use crate::report::is_one_draw;

/// The results of one variant, read from its folder.
#[derive(Clone, Debug)]
pub struct Results {
    /// The folder, as it was named.
    pub(super) name: String,
    pub(super) title: String,
    pub(super) model: String,
    /// By seed.
    pub(super) runs: BTreeMap<i64, Run>,
    /// The figures of every run, in their order, by label.
    pub(super) labels: Vec<String>,
}

/// A run.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Run {
    pub(super) ending: String,
    figures: BTreeMap<String, f64>,
    pub(super) flows: Vec<FlowResult>,
}

/// What became of a flow.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct FlowResult {
    pub(super) identity: Identity,
    /// From its start until its last message was complete, in microseconds; `None` if that was not so.
    pub(super) took: Option<f64>,
    /// In order, in both directions.
    pub(super) delivered: f64,
}

/// What makes a flow the same in two runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Identity {
    pub(super) number: i64,
    pub(super) ends: [String; 2],
    pub(super) what: [String; 2],
    pub(super) dscp: i64,
    pub(super) message_bytes: i64,
    /// Messages; `None` for one without an end.
    pub(super) asked: Option<i64>,
    pub(super) start_ps: i64,
}

impl Run {
    /// Delivers so much more, as another draw might.
    #[cfg(test)]
    pub(super) fn deliver(&mut self, more: f64) {
        self.flows[0].delivered += more;
    }

    /// The figure of a label, if the run has it.
    pub(super) fn figure(&self, label: &str) -> Option<f64> {
        self.figures.get(label).copied()
    }
}

/// A table, and where it is from.
struct Columns<'t> {
    table: &'t Table,
    path: &'t Path,
}

impl<'t> Columns<'t> {
    fn cells(&self, label: &str) -> Result<impl Fn(usize) -> Cell<'t> + use<'t>, String> {
        let column = self.table.column(label).ok_or_else(|| {
            format!(
                "{} has no column {label}\nhint: it is of another version: run `ferroce sim -o` again",
                self.path.display()
            )
        })?;
        Ok(move |row| column.cell(row))
    }

    fn integers(&self, label: &str) -> Result<impl Fn(usize) -> Option<i64> + use<'t>, String> {
        let cells = self.cells(label)?;
        Ok(move |row| match cells(row) {
            Cell::Integer(value) => Some(value),
            _ => None,
        })
    }

    fn texts(&self, label: &str) -> Result<impl Fn(usize) -> String + use<'t>, String> {
        let cells = self.cells(label)?;
        Ok(move |row| match cells(row) {
            Cell::Text(text) => text.to_owned(),
            _ => String::new(),
        })
    }
}

impl Results {
    /// Reads the results that `ferroce sim -o` has left in `folder`.
    ///
    /// # Errors
    /// What is wrong, and behind `hint: ` what to do.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let (seeds, about) = read(folder, "seeds.parquet")?;
        let (flows, _) = read(folder, "flows.parquet")?;
        let say = |key: &str| {
            let pair = about.iter().find(|(name, _)| name == key);
            pair.map_or_else(String::new, |(_, value)| value.clone())
        };
        let name = folder.display().to_string();
        Self::of(name, [say("title"), say("model")], [&seeds, &flows], folder)
    }

    /// Whether its seeds are one draw, flow by flow.
    pub(super) fn is_one_draw(&self) -> bool {
        is_one_draw(self.runs.values())
    }

    /// The same of tables that are read already.
    pub(super) fn of(
        name: String,
        [title, model]: [String; 2],
        [seeds, flows]: [&Table; 2],
        folder: &Path,
    ) -> Result<Self, String> {
        let path = folder.join("seeds.parquet");
        let columns = Columns { table: seeds, path: &path };
        let (seed, ended) = (columns.integers("seed")?, columns.texts("ended")?);
        let figures = seeds.columns().iter().skip(2);
        let labels: Vec<String> = figures.map(|column| column.label().to_owned()).collect();
        let mut runs: BTreeMap<i64, Run> = BTreeMap::new();
        for row in 0..seeds.len() {
            let run = runs.entry(seed(row).unwrap_or_default()).or_default();
            run.ending = ended(row);
            for label in &labels {
                let cell = seeds.column(label).and_then(|column| column.cell(row).number());
                run.figures.extend(cell.map(|value| (label.clone(), value)));
            }
        }
        if runs.is_empty() {
            return Err(format!("{} has no run", path.display()));
        }
        let path = folder.join("flows.parquet");
        add_flows(&Columns { table: flows, path: &path }, &mut runs)?;
        Ok(Self { name, title, model, runs, labels })
    }
}

fn add_flows(columns: &Columns<'_>, runs: &mut BTreeMap<i64, Run>) -> Result<(), String> {
    let whole = |label: &str| columns.integers(label);
    let (seed, number, dscp) = (whole("seed")?, whole("flow")?, whole("dscp")?);
    let (bytes, asked, failed) = (whole("message_bytes")?, whole("asked")?, whole("failed")?);
    let (there, back) = (whole("delivered_bytes")?, whole("delivered_back_bytes")?);
    let (start, finished) = (whole("start_ps")?, whole("finished_ps")?);
    let (source, destination) = (columns.texts("source")?, columns.texts("destination")?);
    let (service, verb) = (columns.texts("service")?, columns.texts("verb")?);
    for row in 0..columns.table.len() {
        let Some(run) = runs.get_mut(&seed(row).unwrap_or_default()) else { continue };
        let begun = start(row).unwrap_or_default();
        let is_well = failed(row) == Some(0);
        let finished = finished(row).filter(|_| is_well);
        run.flows.push(FlowResult {
            identity: Identity {
                number: number(row).unwrap_or_default(),
                ends: [source(row), destination(row)],
                what: [service(row), verb(row)],
                dscp: dscp(row).unwrap_or_default(),
                message_bytes: bytes(row).unwrap_or_default(),
                asked: asked(row),
                start_ps: begun,
            },
            took: finished.map(|finished| finished.saturating_sub(begun) as f64 / 1e6),
            delivered: [there(row), back(row)]
                .into_iter()
                .flatten()
                .map(|bytes| bytes as f64)
                .sum(),
        });
    }
    Ok(())
}

/// A table of a folder, and what it says of itself.
fn read(folder: &Path, name: &str) -> Result<(Table, Vec<(String, String)>), String> {
    let path = folder.join(name);
    let shown = path.display();
    let made = "results are what `ferroce sim SCENARIO -o FOLDER` leaves behind";
    let file = File::open(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            format!("there is no {shown}\nhint: {made}")
        }
        _ => format!("cannot read {shown}: {error}"),
    })?;
    // A pipe or a device may never end.
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Err(format!("{shown} is no file\nhint: {made}"));
    }
    Table::read_parquet(file).map_err(|error| format!("{shown} is damaged: {error}\nhint: {made}"))
}
