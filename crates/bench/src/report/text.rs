//! Results for people.

use core::fmt::{self, Write as _};

use telemetry::words::{COLUMNS, wrapped};

use super::{FlowResult, Report, Run};
use crate::plan::Verb;

/// What stands above a column, and its cells.
type Column<'a> = (&'static str, Box<dyn Fn(&FlowResult, usize) -> String + 'a>);

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let simulated = if self.simulated { " (simulated)" } else { "" };
        let world = format!("{}{simulated}: {}", self.world, self.about);
        f.write_str(&wrapped("world     ", &world, COLUMNS))?;
        let cores = match self.simulated {
            true => "of the simulated hosts",
            false => "for the whole process",
        };
        self.runs.iter().try_for_each(|run| run.write(f, cores))
    }
}

impl Run {
    /// `cores` says whose those are that it has used.
    fn write(&self, f: &mut fmt::Formatter<'_>, cores: &str) -> fmt::Result {
        if !self.at.is_empty() {
            writeln!(f, "\nat        {}", self.label())?;
        }
        let plan = &self.plan;
        match &self.partial {
            Some(why) => {
                let seconds = self.flows.iter().map(|flow| flow.seconds).fold(0.0, f64::max);
                writeln!(f, "PARTIAL   {why}")?;
                writeln!(f, "measured  {seconds:.3} s of {:.3} s", plan.length_ms / 1e3)?;
            }
            None => writeln!(
                f,
                "measured  {:.3} s, in {} windows, after {:.3} s of warm-up",
                plan.length_ms / 1e3,
                plan.windows(),
                plan.warmup_ms / 1e3
            )?,
        }
        f.write_char('\n')?;
        for columns in self.tables() {
            table(f, &columns)?;
            f.write_char('\n')?;
        }
        let together = &self.together;
        if self.flows.len() > 1 {
            writeln!(
                f,
                "together  {:.3} Gb/s, {} operations/s; fairness {:.3} (Jain)",
                together.bandwidth_gbps,
                grouped(together.rate_per_s),
                together.fairness
            )?;
            let ratios: Vec<String> =
                together.ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
            if ratios.len() <= 16 && !ratios.is_empty() {
                let ratios = format!("{} of bandwidth, to the first", ratios.join(" : "));
                f.write_str(&wrapped("ratios    ", &ratios, COLUMNS))?;
            }
        }
        writeln!(f, "cpu       {:.2} cores {cores}", together.process_cores)?;
        if together.events > 0 {
            let (events, each) = (grouped(together.events as f64), together.events_per_operation);
            writeln!(f, "events    {events} of the simulator, {each:.1} for each operation")?;
        }
        if plan.hogs > 0 {
            write!(f, "hogs      {}", plan.hogs)?;
            match together.hog_cores > 0.0 {
                true => writeln!(f, ", which had {:.2} cores in all", together.hog_cores)?,
                false => writeln!(f, " on each host")?,
            }
        }
        let counted: Vec<u64> = self.flows.iter().filter_map(|flow| flow.counted_bytes).collect();
        if !counted.is_empty() {
            let bytes = grouped(counted.iter().sum::<u64>() as f64);
            let agree = match self.flows.iter().all(|flow| flow.miscounts.is_empty()) {
                true => "as the applications did",
                false => "not as the applications did",
            };
            writeln!(f, "counted   {bytes} bytes of payload by the devices, {agree}")?;
        }
        if plan.verify {
            let checked: u64 = self.flows.iter().map(|flow| flow.checked).sum();
            let wrong: u64 = self.flows.iter().map(|flow| flow.mismatches).sum();
            writeln!(f, "verified  {} payloads, {wrong} wrong", grouped(checked as f64))?;
        }
        for error in self.flows.iter().flat_map(|flow| {
            let served = flow.served.iter().flat_map(|served| &served.errors);
            flow.errors.iter().chain(served).map(move |error| (&flow.name, error))
        }) {
            f.write_str(&wrapped("error     ", &format!("{}: {}", error.0, error.1), COLUMNS))?;
        }
        for miss in &self.misses {
            f.write_str(&wrapped("MISSED    ", &miss.to_string(), COLUMNS))?;
        }
        Ok(())
    }
}

impl Run {
    /// What flows carried, and how long it took: side by side they would not fit a terminal.
    fn tables(&self) -> [Vec<Vec<String>>; 2] {
        let flows = &self.plan.flows;
        let us = |value: f64| {
            if value >= 1000.0 { format!("{value:.0}") } else { format!("{value:.1}") }
        };
        let carried: Vec<Column<'_>> = vec![
            ("flow", Box::new(|flow, _| flow.name.clone())),
            ("verb", Box::new(|_, at| verb(flows[at].verb, flows[at].depends))),
            ("bytes", Box::new(|_, at| flows[at].bytes().to_string())),
            ("wait", Box::new(|_, at| flows[at].wait.name().to_owned())),
            ("out", Box::new(|_, at| flows[at].outstanding().to_string())),
            ("Gb/s", Box::new(|flow, _| format!("{:.3}", flow.bandwidth_gbps))),
            ("worst", Box::new(|flow, _| format!("{:.3}", flow.window_gbps_min))),
            ("ops/s", Box::new(|flow, _| grouped(flow.rate_per_s))),
        ];
        let took: Vec<Column<'_>> = vec![
            ("flow", Box::new(|flow, _| flow.name.clone())),
            ("p50 us", Box::new(move |flow, _| us(flow.latency_us.p50))),
            ("p90", Box::new(move |flow, _| us(flow.latency_us.p90))),
            ("p99", Box::new(move |flow, _| us(flow.latency_us.p99))),
            ("p99.9", Box::new(move |flow, _| us(flow.latency_us.p999))),
            ("p99.99", Box::new(move |flow, _| us(flow.latency_us.p9999))),
            ("cores", Box::new(|flow, _| format!("{:.2}", flow.cores))),
            (
                "served by",
                Box::new(|flow, _| {
                    flow.served
                        .as_ref()
                        .map_or("-".to_owned(), |served| format!("{:.2}", served.cores))
                }),
            ),
        ];
        let of = |(title, cell): &Column<'_>| {
            let rows = self.flows.iter().enumerate().map(|(at, flow)| cell(flow, at));
            core::iter::once((*title).to_owned()).chain(rows).collect()
        };
        [carried, took].map(|cells| cells.iter().map(of).collect())
    }
}

fn verb(verb: Verb, depends: u32) -> String {
    if depends > 1 { format!("{}-{depends}", verb.name()) } else { verb.name().to_owned() }
}

/// Columns beside each other: texts to the left, all else to the right.
pub(super) fn table(f: &mut dyn fmt::Write, columns: &[Vec<String>]) -> fmt::Result {
    let rows = columns.first().map_or(0, Vec::len);
    let width =
        |column: &Vec<String>| column.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
    let is_text = |column: &Vec<String>| {
        column.iter().skip(1).any(|cell| cell.starts_with(|letter: char| letter.is_alphabetic()))
    };
    let shapes: Vec<(usize, bool)> =
        columns.iter().map(|column| (width(column), is_text(column))).collect();
    for row in 0..rows {
        let mut line = String::new();
        for (column, (width, is_text)) in columns.iter().zip(&shapes) {
            let cell = &column[row];
            let _ = match is_text {
                true => write!(line, "{cell:<width$}  "),
                false => write!(line, "{cell:>width$}  "),
            };
        }
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}

/// A whole number with its thousands apart.
pub(super) fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_stand_apart() {
        let said = [0.0, 999.4, 1_000.0, 1_234_567.0].map(grouped);
        assert_eq!(said, ["0", "999", "1,000", "1,234,567"]);
    }
}
