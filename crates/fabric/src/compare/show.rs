//! A comparison as lines for a terminal, as JSON, and as a page.

use core::fmt::Write as _;

use serde_json::{Value, json};
use telemetry::{Block, Figure as Drawing, Page, Table};

use super::figures::{Against, So};
use super::flows::{ALIKE, Pair, Pairs};
use super::results::Results;
use super::{Comparison, letter};
use crate::report::{Interval, capital, written};
use telemetry::words::{COLUMNS, wrapped};

/// Flows at either end of the list that a terminal shows.
const SHOWN: usize = 4;
/// The same of a page and of JSON.
const SHOWN_MORE: usize = 100;

impl Comparison {
    /// What matters, in lines for a terminal of 80 columns.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> core::fmt::Result {
        for (index, variant) in self.variants.iter().enumerate() {
            let mark = format!("{}  ", letter(index));
            let said = format!("{}: {} ({})", variant.name, variant.title, ended(variant));
            *text += &wrapped(&mark, &said, COLUMNS - 1);
        }
        for note in &self.notes {
            *text += &wrapped("!  ", note, COLUMNS - 1);
        }
        for (index, pairs) in self.pairs.iter().enumerate() {
            writeln!(text)?;
            self.write_figures(text, index)?;
            write_pairs(text, index, pairs)?;
        }
        Ok(())
    }

    fn write_figures(&self, text: &mut String, index: usize) -> core::fmt::Result {
        let name = letter(index + 1);
        let (title, ratio) = (format!("{name} against A"), format!("{name} / A (95 %)"));
        let mut row = |[title, a, b, so, ratio]: [&str; 5]| {
            let title = shortened(title, 21);
            let line = format!("{title:<21}  {a:>11}  {b:>11}  {so:<8}  {ratio}");
            writeln!(text, "{}", line.trim_end())
        };
        row([&title, "A", &name, "", &ratio])?;
        for figure in &self.figures {
            let [a, b] = [0, index + 1].map(|which| median(figure.values[which]));
            let Against { ratio, so } = figure.against[index];
            let ratio = if so == So::Same { String::new() } else { interval(ratio, times) };
            row([&figure.name, &a, &b, so.text(), &ratio])?;
        }
        Ok(())
    }

    /// All of it, as JSON. What was not finished is null.
    pub fn json(&self) -> String {
        let variants = self.variants.iter().enumerate().map(|(index, variant)| {
            let runs = variant.runs.iter();
            let runs = runs.map(|(seed, run)| json!({"seed": seed, "ended": run.ending}));
            json!({
                "variant": letter(index),
                "folder": variant.name,
                "title": variant.title,
                "runs": runs.collect::<Vec<_>>(),
            })
        });
        let figures = self.figures.iter().map(|figure| {
            let values: Vec<Value> =
                figure.values.iter().map(|value| Value::from(*value)).collect();
            let against = figure.against.iter().enumerate().map(|(index, against)| {
                json!({
                    "variant": letter(index + 1),
                    "ratio": Value::from(against.ratio),
                    "so": against.so.text(),
                })
            });
            json!({
                "figure": figure.name,
                "values": values,
                "against_a": against.collect::<Vec<_>>(),
            })
        });
        let flows = self.pairs.iter().enumerate().map(|(index, pairs)| {
            let ([sooner, later, alike], [in_a, in_other, in_none]) = (pairs.both(), pairs.alone());
            let [more, less, as_much] = pairs.endless;
            json!({
                "variant": letter(index + 1),
                "sooner": sooner, "later": later, "alike": alike,
                "done_in_a_alone": in_a, "done_in_it_alone": in_other, "done_in_none": in_none,
                "endless": {"more": more, "less": less, "alike": as_much},
                "extremes": extremes(pairs, SHOWN_MORE).map(of_pair).collect::<Vec<_>>(),
            })
        });
        let all = json!({
            "origin": "simulated",
            "variants": variants.collect::<Vec<_>>(),
            "notes": self.notes,
            "figures": figures.collect::<Vec<_>>(),
            "flows": flows.collect::<Vec<_>>(),
        });
        written(&all)
    }

    /// One HTML file, with everything that it needs.
    pub fn page(&self) -> String {
        let names: Vec<&str> = self.variants.iter().map(|of| of.title.as_str()).collect();
        let models: Vec<&str> = self.variants.iter().map(|of| of.model.as_str()).collect();
        let model = models.first().copied().unwrap_or_default();
        let mut page = Page::simulated(&names.join(" / "), model);
        page.section("What is compared");
        for (index, variant) in self.variants.iter().enumerate() {
            let letter = letter(index);
            let said =
                format!("{letter} is {}: {} ({}).", variant.name, variant.title, ended(variant));
            page.add(&Block::Text(&said));
        }
        for note in &self.notes {
            page.add(&Block::Notice(&format!("{}.", capital(note))));
        }
        page.section("Figures").add(&Block::Text(
            "Medians over seeds, with the interval of 95 % of the median in brackets. Ratios are of the \
             same seed. `more` and `less` are said where the interval of the differences is on one side \
             of zero, and `chance` where it is not. A flow that was not finished counts as later than all \
             that were; `of fewer` is a figure of messages, better for whom has completed fewer of them.",
        ));
        page.add(&Block::Table(&self.table(), ""));
        let done = self.done();
        if !done.is_empty() {
            let figure = Drawing::steps(&done, "time_us", "done_share")
                .by("variant")
                .title("Flows that are done")
                .x_title("after their start (µs)")
                .y_title("share of all flows that have an end")
                .log_x()
                .caption("Of all seeds. A line that does not come to 1 has flows that were not finished.");
            page.add(&Block::Figure(&figure));
        }
        for (index, pairs) in self.pairs.iter().enumerate() {
            let name = letter(index + 1);
            let heading = format!("Flow by flow, {name} against A");
            page.section(&heading).add(&Block::Text(&(counts(index, pairs).join(". ") + ".")));
            let mut table = Table::new("flows")
                .integers("seed", "")
                .integers("flow", "")
                .texts("from")
                .texts("to")
                .integers("message", "bytes")
                .floats("A", "us")
                .floats(&name, "us")
                .floats("ratio", "");
            for pair in extremes(pairs, SHOWN_MORE) {
                let [from, to] = &pair.identity.ends;
                table.push([
                    pair.seed.into(),
                    pair.identity.number.into(),
                    from.into(),
                    to.into(),
                    pair.identity.message_bytes.into(),
                    pair.took[0].into(),
                    pair.took[1].into(),
                    Some(pair.ratio()).filter(|ratio| ratio.is_finite()).into(),
                ]);
            }
            if !table.is_empty() {
                let caption =
                    "Those that are slowed most, and sped up most. An empty time: not finished.";
                page.add(&Block::Table(&table, caption));
            }
        }
        page.to_html()
    }

    fn table(&self) -> Table {
        let mut table = Table::new("figures").texts("figure");
        for index in 0..self.variants.len() {
            table = table.texts(&letter(index));
        }
        for index in 1..self.variants.len() {
            table = table
                .texts(&format!("{} / A", letter(index)))
                .texts(&format!("so {}", letter(index)));
        }
        for figure in &self.figures {
            let mut cells = vec![figure.name.clone()];
            cells.extend(figure.values.iter().map(|value| interval(*value, number)));
            for against in &figure.against {
                cells.push(interval(against.ratio, times));
                cells.push(against.so.text().to_owned());
            }
            table.push(cells.iter().map(Into::into));
        }
        table
    }

    /// Which share of the flows with an end was done when, by variant.
    fn done(&self) -> Table {
        let mut table =
            Table::new("done").floats("time", "us").floats("done", "share").texts("variant");
        for (index, variant) in self.variants.iter().enumerate() {
            let name = format!("{} {}", letter(index), variant.title);
            let flows = variant.runs.values().flat_map(|run| &run.flows);
            let flows: Vec<Option<f64>> =
                flows.filter(|flow| flow.identity.asked.is_some()).map(|flow| flow.took).collect();
            let mut took: Vec<f64> = flows.iter().filter_map(|took| *took).collect();
            took.sort_unstable_by(f64::total_cmp);
            for (done, time) in (1..).zip(&took) {
                let share = f64::from(done) / flows.len() as f64;
                table.push([(*time).into(), share.into(), (&name).into()]);
            }
        }
        table
    }
}

/// How the runs of a variant ended.
fn ended(variant: &Results) -> String {
    let mut endings: Vec<(&str, usize)> = Vec::new();
    for run in variant.runs.values() {
        match endings.iter_mut().find(|(ending, _)| *ending == run.ending) {
            Some((_, count)) => *count += 1,
            None => endings.push((&run.ending, 1)),
        }
    }
    let ended: Vec<String> =
        endings.iter().map(|(ending, count)| format!("{count} {ending}")).collect();
    let seeds = variant.runs.len();
    format!("{seeds} seed{}: {}", if seeds == 1 { "" } else { "s" }, ended.join(", "))
}

/// What became of the flows of two variants, in sentences without a full stop.
fn counts(index: usize, pairs: &Pairs) -> Vec<String> {
    let name = letter(index + 1);
    let mut said = Vec::new();
    if !pairs.with_end.is_empty() {
        let ([sooner, later, alike], [in_a, in_other, in_none]) = (pairs.both(), pairs.alone());
        said.push(format!(
            "Of {} flows with an end {name} has {sooner} done sooner by more than 1 %, {later} later, and \
             {alike} as soon",
            pairs.with_end.len()
        ));
        if in_a + in_other + in_none > 0 {
            said.push(format!(
                "{in_a} are done in A alone, {in_other} in {name} alone, and {in_none} in neither"
            ));
        }
    }
    if pairs.endless.iter().sum::<usize>() > 0 {
        let [more, less, alike] = pairs.endless;
        said.push(format!(
            "Of flows without an end {more} were given more than 1 % more in {name}, {less} less, and \
             {alike} as much"
        ));
    }
    said
}

fn write_pairs(text: &mut String, index: usize, pairs: &Pairs) -> core::fmt::Result {
    for sentence in counts(index, pairs) {
        *text += &wrapped("  ", &format!("{sentence}."), COLUMNS - 1);
    }
    if extremes(pairs, SHOWN).next().is_none() {
        return Ok(());
    }
    let name = letter(index + 1);
    writeln!(
        text,
        "  {:>6}  {:>6}  {:<17}  {:>10}  {:>10}  {:>10}  {name} / A",
        "seed",
        "flow",
        "from and to",
        "bytes",
        "A, us",
        format!("{name}, us")
    )?;
    for pair in extremes(pairs, SHOWN) {
        let Pair { seed, identity, took } = pair;
        let ends = shortened(&identity.ends.join(" "), 17);
        let [a, b] = took.map(|took| took.map_or_else(|| "never".to_owned(), number));
        let ratio = Some(pair.ratio()).filter(|ratio| ratio.is_finite() && !took.contains(&None));
        let ratio = ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
        let (number, bytes) = (identity.number, identity.message_bytes);
        writeln!(
            text,
            "  {seed:>6}  {number:>6}  {ends:<17}  {bytes:>10}  {a:>10}  {b:>10}  {ratio}"
        )?;
    }
    Ok(())
}

/// The flows that are slowed most, and then those that are sped up most; none that is alike in both.
fn extremes(pairs: &Pairs, count: usize) -> impl Iterator<Item = &Pair> {
    let slowed = pairs.with_end.iter().rev().take_while(|pair| pair.ratio() > 1.0 + ALIKE);
    let sped = pairs.with_end.iter().take_while(|pair| pair.ratio() < 1.0 - ALIKE);
    slowed.take(count).chain(sped.take(count))
}

fn of_pair(pair: &Pair) -> Value {
    let [from, to] = &pair.identity.ends;
    json!({
        "seed": pair.seed,
        "flow": pair.identity.number,
        "from": from,
        "to": to,
        "message_bytes": pair.identity.message_bytes,
        "a_us": pair.took[0],
        "other_us": pair.took[1],
    })
}

fn median(interval: Option<Interval>) -> String {
    interval.map_or_else(|| "-".to_owned(), |of| number(of.median))
}

/// A median, and its interval if there is one.
fn interval(interval: Option<Interval>, show: fn(f64) -> String) -> String {
    match interval {
        None => "-".to_owned(),
        Some(Interval { median, likely: None, .. }) => show(median),
        Some(Interval { median, likely: Some((low, high)), .. }) => {
            format!("{} ({} to {})", show(median), show(low), show(high))
        }
    }
}

/// In at most five letters.
fn times(ratio: f64) -> String {
    match ratio {
        _ if ratio.is_infinite() => "never".to_owned(),
        1_000.0.. => ">999".to_owned(),
        100.0.. => format!("{ratio:.0}"),
        _ => number(ratio),
    }
}

/// With as many decimals as matter; whole ones without.
fn number(value: f64) -> String {
    match value.abs() {
        _ if value.is_infinite() => "never".to_owned(),
        _ if value.fract() == 0.0 => format!("{value}"),
        1_000.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// At most so many letters.
fn shortened(text: &str, letters: usize) -> String {
    match text.chars().count() <= letters {
        true => text.to_owned(),
        false => text.chars().take(letters - 1).chain(['~']).collect(),
    }
}
