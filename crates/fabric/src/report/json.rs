//! Results as JSON, for programs that do not read Parquet: figures under the names that `seeds.parquet` has.

use serde_json::{Map, Value, json};
use telemetry::Table;

use super::seeds::{Number, label};
use super::{Interval, Report, Seeds};

impl Report<'_> {
    /// What the run came to: how it ended, its figures, its jobs, and what is to be known. A figure that it
    /// has not got is null.
    pub fn json(&self) -> String {
        let notes = self.notes().into_iter().map(|note| {
            json!({
                "about": note.about,
                "why": note.why,
                "change": note.change,
                "remedies": note.remedies,
                "tried": note.tried,
                "untried": note.untried,
            })
        });
        let origin = if self.lab.is_some() { "lab" } else { "simulated" };
        let lab = self.lab.map(|lab| {
            json!({
                "factor": lab.factor,
                "wall_s": lab.wall.as_secs_f64(),
                "kept": lab.kept,
                "fell_behind": lab.behind,
                "programs": rows(self.programs().as_ref()),
            })
        });
        let mut document = json!({
            "origin": origin,
            "title": self.title,
            "model": self.model(),
            "seed": self.network.seed(),
            "ended": self.verdict.word(),
            "figures": figures(&self.numbers()),
            "jobs": rows(self.jobs().as_ref()),
            "findings": notes.collect::<Vec<_>>(),
        });
        if let Some(lab) = lab {
            document["lab"] = lab;
        }
        written(&document)
    }
}

impl Seeds {
    /// What all runs came to: each of them, and each figure over all.
    pub fn json(&self) -> String {
        let runs = self.runs.iter().map(|run| {
            json!({
                "seed": run.seed,
                "ended": run.ending,
                "figures": figures(&run.numbers),
                "jobs": rows(run.jobs.as_ref()),
            })
        });
        let over_all = self.intervals().into_iter().map(|figure| {
            json!({"figure": figure.label, "runs": figure.runs, "value": Value::from(figure.of)})
        });
        written(&json!({
            "origin": "simulated",
            "title": self.title,
            "model": self.model,
            "runs": runs.collect::<Vec<_>>(),
            "figures": over_all.collect::<Vec<_>>(),
        }))
    }
}

/// What is beyond all numbers is null: JSON has no such thing.
impl From<Interval> for Value {
    fn from(Interval { median, likely, least, most }: Interval) -> Self {
        let likely = likely.map(|(low, high)| [low, high]);
        json!({"median": median, "likely_95_percent": likely, "least": least, "most": most})
    }
}

fn figures(numbers: &[Number]) -> Map<String, Value> {
    numbers.iter().map(|(name, unit, value)| (label(name, unit), Value::from(*value))).collect()
}

/// An object for each row.
fn rows(table: Option<&Table>) -> Vec<Value> {
    let Some(table) = table else { return Vec::new() };
    let row = |row: usize| {
        let cells = table
            .columns()
            .iter()
            .map(|column| (column.label().to_owned(), Value::from(column.cell(row))));
        Value::Object(cells.collect())
    };
    (0..table.len()).map(row).collect()
}

/// A document, and the end of its last line.
pub(crate) fn written(document: &Value) -> String {
    // A value whose maps have texts as keys can always be written.
    serde_json::to_string_pretty(document).unwrap_or_default() + "\n"
}
