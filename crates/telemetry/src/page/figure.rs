//! Figures: what to draw of a table, and the Vega-Lite specification that says so.
//!
//! The specification carries the rows that it draws, under the names `x`, `y` and `by`, so that a page
//! stays small; titles of axes come from the columns' names and units. A long series is thinned
//! before that: see [`thin`].

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::limits::{FIGURE_POINTS_MAX, LETTERS_FLAT, SERIES_POINTS_MAX};
use crate::{Cell, Column, Kind, Table};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mark {
    Line,
    Step,
    Bar,
    Point,
    Ecdf,
    Heat,
}

/// A line at a value, such as a threshold or what a paper says.
#[derive(Clone, PartialEq, Debug)]
struct Rule {
    value: f64,
    label: String,
}

/// What to draw of a table.
#[derive(Clone, Debug)]
pub struct Figure<'a> {
    title: String,
    caption: String,
    mark: Mark,
    table: &'a Table,
    x: &'a Column,
    y: Option<&'a Column>,
    by: Option<&'a Column>,
    titles: [Option<String>; 2],
    logarithmic: [bool; 2],
    rules: Vec<Rule>,
    height: u32,
}

/// A point on its way into the specification; where `by` is a text, it names the series.
#[derive(Clone, Copy, Debug)]
struct Point<'a> {
    x: Cell<'a>,
    y: Cell<'a>,
    by: Cell<'a>,
}

/// Columns are named by their labels, such as `time_us`.
///
/// # Panics
/// Each of the functions that name a column panics if the table has none of that label.
impl<'a> Figure<'a> {
    fn new(mark: Mark, table: &'a Table, x: &str, y: Option<&str>) -> Self {
        Self {
            title: String::new(),
            caption: String::new(),
            mark,
            table,
            x: named(table, x),
            y: y.map(|y| named(table, y)),
            by: None,
            titles: [None, None],
            logarithmic: [false, false],
            rules: Vec::new(),
            height: 240,
        }
    }

    /// `y` over `x`, joined by straight lines in the order of `x`.
    pub fn line(table: &'a Table, x: &str, y: &str) -> Self {
        Self::new(Mark::Line, table, x, Some(y))
    }

    /// `y` over `x`, where each value holds until the next.
    pub fn steps(table: &'a Table, x: &str, y: &str) -> Self {
        Self::new(Mark::Step, table, x, Some(y))
    }

    /// A bar of height `y` for each `x`, in the order of the rows; side by side for each `by`. Where
    /// `y` is text and `x` a number, the bars lie.
    pub fn bar(table: &'a Table, x: &str, y: &str) -> Self {
        Self::new(Mark::Bar, table, x, Some(y))
    }

    /// A point for each row.
    pub fn point(table: &'a Table, x: &str, y: &str) -> Self {
        Self::new(Mark::Point, table, x, Some(y))
    }

    /// The share of the rows, from 0 to 1, whose `x` is at most the value.
    pub fn ecdf(table: &'a Table, x: &str) -> Self {
        Self::new(Mark::Ecdf, table, x, None)
    }

    /// A rectangle for each row, coloured by `colour`. `x` are numbers at equal distances, or text.
    pub fn heat_map(table: &'a Table, x: &str, y: &str, colour: &str) -> Self {
        Self::new(Mark::Heat, table, x, Some(y)).by(colour)
    }

    /// A series, with a colour of its own, for each value of a column.
    pub fn by(mut self, column: &str) -> Self {
        self.by = Some(named(self.table, column));
        self
    }

    /// Its title.
    pub fn title(mut self, title: &str) -> Self {
        title.clone_into(&mut self.title);
        self
    }

    /// Its caption: how it was made, and what to see in it.
    pub fn caption(mut self, caption: &str) -> Self {
        caption.clone_into(&mut self.caption);
        self
    }

    /// The title of the horizontal axis, in place of the column's name and unit.
    pub fn x_title(mut self, title: &str) -> Self {
        self.titles[0] = Some(title.to_owned());
        self
    }

    /// The title of the vertical axis, in place of the column's name and unit.
    pub fn y_title(mut self, title: &str) -> Self {
        self.titles[1] = Some(title.to_owned());
        self
    }

    /// A logarithmic horizontal axis; values that are not positive are left out.
    pub fn log_x(mut self) -> Self {
        self.logarithmic[0] = true;
        self
    }

    /// A logarithmic vertical axis; values that are not positive are left out.
    pub fn log_y(mut self) -> Self {
        self.logarithmic[1] = true;
        self
    }

    /// A dashed line at `y`, with a label: a threshold, or what a paper says.
    pub fn rule(mut self, y: f64, label: &str) -> Self {
        self.rules.push(Rule { value: y, label: label.to_owned() });
        self
    }

    /// How high it is drawn, in pixels; 240 otherwise.
    pub fn height(mut self, pixels: u32) -> Self {
        self.height = pixels;
        self
    }

    pub(super) fn headline(&self) -> &str {
        &self.title
    }

    pub(super) fn legend(&self) -> &str {
        &self.caption
    }

    /// What there is to say where a picture would show a single value, or none; `None` if there is one to draw.
    pub(super) fn instead(&self) -> Option<String> {
        let points = self.points();
        let first = points.first().map(|first| (first.x, first.y));
        let same = |point: &Point<'_>| match self.mark {
            Mark::Ecdf => Some(point.x) == first.map(|(x, _)| x),
            _ => Some((point.x, point.y)) == first,
        };
        if self.mark == Mark::Heat || !points.iter().all(same) {
            return None;
        }
        let Some((x, y)) = first else { return Some("There is no value.".to_owned()) };
        let of_x = format!("{}: {}", self.title_of(0, Some(self.x)), super::shown(x));
        let mut text = match self.y {
            Some(column) => {
                format!("{}: {}; {of_x}.", self.title_of(1, Some(column)), super::shown(y))
            }
            None if self.table.len() == 1 => format!("One value: {of_x}."),
            None => format!("All {} values are alike: {of_x}.", self.table.len()),
        };
        for Rule { value, label } in &self.rules {
            text += &format!(" {label}: {}.", super::shown(Cell::Float(*value)));
        }
        Some(text)
    }

    /// The specification, as Vega-Lite 6 reads it.
    pub fn to_vega_lite(&self) -> Value {
        let points = self.points();
        let step = step_of(&points);
        // A line through one point is not seen.
        let is_short = split(points.clone()).iter().any(|series| series.len() == 1);
        let values: Vec<Value> = points.iter().map(|point| self.row(*point, step)).collect();
        let mut layers = vec![json!({
            "data": {"values": values},
            "mark": self.mark(is_short),
            "encoding": self.encoding(&points, step.is_some()),
        })];
        for rule in &self.rules {
            layers.push(json!({
                "data": {"values": [{"y": rule.value, "label": rule.label}]},
                "layer": [
                    {"mark": {"type": "rule", "strokeDash": [4, 4], "color": "#777"},
                     "encoding": {"y": {"field": "y", "type": "quantitative"}}},
                    {"mark": {"type": "text", "align": "left", "dx": 4, "dy": -5, "color": "#555"},
                     "encoding": {"y": {"field": "y", "type": "quantitative"}, "x": {"value": 0},
                                  "text": {"field": "label"}}},
                ],
            }));
        }
        json!({
            "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
            "width": "container",
            "height": self.height,
            "layer": layers,
        })
    }

    fn row(&self, point: Point<'_>, step: Option<f64>) -> Value {
        let mut row = Map::new();
        row.insert("x".to_owned(), compact(point.x));
        row.insert("y".to_owned(), compact(point.y));
        if self.by.is_some() {
            row.insert("by".to_owned(), compact(point.by));
        }
        if let (Mark::Heat, Some(step), Some(x)) = (self.mark, step, point.x.number()) {
            row.insert("x2".to_owned(), compact(Cell::Float(x + step)));
        }
        row.into()
    }

    fn mark(&self, is_short: bool) -> Value {
        match self.mark {
            Mark::Line if is_short => json!({"type": "line", "strokeWidth": 1.6, "point": true}),
            Mark::Line => json!({"type": "line", "strokeWidth": 1.6}),
            Mark::Step | Mark::Ecdf => {
                json!({"type": "line", "strokeWidth": 1.6, "interpolate": "step-after"})
            }
            Mark::Bar => json!({"type": "bar"}),
            Mark::Point => json!({"type": "point", "filled": true, "size": 40, "opacity": 0.7}),
            Mark::Heat => json!({"type": "rect"}),
        }
    }

    fn encoding(&self, points: &[Point<'_>], even: bool) -> Value {
        let heat = self.mark == Mark::Heat;
        let of_x = self.title_of(0, Some(self.x));
        let of_y = match self.y {
            None => self.titles[1].clone().unwrap_or_else(|| "CDF".to_owned()),
            Some(_) => self.title_of(1, self.y),
        };
        let lying = self.mark == Mark::Bar && self.y.is_some_and(|y| y.kind() == Kind::Text);
        let bars = self.mark == Mark::Bar;
        let mut x = self.axis(0, &of_x, self.x.kind(), (bars && !lying) || (heat && !even));
        let mut y = self.axis(1, &of_y, self.y.map_or(Kind::Float, Column::kind), lying);
        if self.mark == Mark::Ecdf {
            y["scale"] = json!({"domain": [0, 1]});
        }
        if let Some(domain) = self.narrow(points)
            && x["scale"]["zero"] == false
        {
            x["scale"]["domain"] = json!(domain);
        }
        let mut tooltip = vec![
            json!({"field": "x", "title": of_x, "type": x["type"]}),
            json!({"field": "y", "title": of_y, "type": y["type"]}),
        ];
        let mut encoding = Map::new();
        if heat && even && self.x.kind() != Kind::Text {
            encoding.insert("x2".to_owned(), json!({"field": "x2"}));
            x["scale"] = json!({"nice": false, "zero": false});
        }
        if heat {
            // Rows and columns of the same names stand in one order, though neither has all of them first.
            let names = self.y.filter(|y| [self.x.kind(), y.kind()] == [Kind::Text; 2]);
            y["sort"] = names.map_or(Value::Null, |y| json!(self.names_of([self.x, y])));
            if names.is_some() {
                x["sort"] = y["sort"].clone();
            }
        }
        encoding.insert("x".to_owned(), x);
        encoding.insert("y".to_owned(), y);
        if let Some(by) = self.by {
            let title = titled(by);
            let colour = if heat {
                json!({"field": "by", "type": "quantitative", "title": title,
                       "scale": {"scheme": "lightorange", "domainMin": 0}})
            } else {
                json!({"field": "by", "type": "nominal", "title": title, "sort": null})
            };
            tooltip.push(json!({"field": "by", "title": title, "type": colour["type"]}));
            encoding.insert("color".to_owned(), colour);
            if bars {
                let offset = if lying { "yOffset" } else { "xOffset" };
                encoding.insert(offset.to_owned(), json!({"field": "by", "sort": null}));
            }
        }
        encoding.insert("tooltip".to_owned(), tooltip.into());
        encoding.into()
    }

    /// Ends of a horizontal axis whose values differ by next to nothing: a hundredth beyond them, so that its
    /// labels need no more digits than can be read.
    fn narrow(&self, points: &[Point<'_>]) -> Option<[f64; 2]> {
        let values = points.iter().filter_map(|point| point.x.number());
        let least = values.clone().reduce(f64::min)?;
        let most = values.reduce(f64::max)?;
        let beyond = most.abs().max(least.abs()) / 100.0;
        (most - least < beyond).then_some([least - beyond, most + beyond])
    }

    fn title_of(&self, axis: usize, column: Option<&Column>) -> String {
        let own = self.titles[axis].clone();
        own.unwrap_or_else(|| column.map_or_else(String::new, titled))
    }

    fn axis(&self, axis: usize, title: &str, kind: Kind, discrete: bool) -> Value {
        let field = ["x", "y"][axis];
        if discrete || kind == Kind::Text {
            let angle = if axis == 0 && self.is_crowded() { -40 } else { 0 };
            return json!({"field": field, "type": "ordinal", "title": title, "sort": null,
                          "axis": {"labelAngle": angle, "labelLimit": 260}});
        }
        let mut value = json!({"field": field, "type": "quantitative", "title": title,
                               "axis": {"tickCount": 8}});
        if self.logarithmic[axis] {
            value["scale"] = json!({"type": "log", "nice": false});
        } else if axis == 0 && matches!(self.mark, Mark::Ecdf | Mark::Point) {
            value["scale"] = json!({"zero": false});
        }
        value
    }

    /// Texts of two columns, each once: those of the first in its order, then those that only the other has.
    fn names_of(&self, columns: [&'a Column; 2]) -> Vec<&'a str> {
        let mut seen = BTreeSet::new();
        let rows = 0..self.table.len();
        let cells = columns.iter().flat_map(|column| rows.clone().map(|row| column.cell(row)));
        let texts = cells.filter_map(|cell| match cell {
            Cell::Text(name) => Some(name),
            _ => None,
        });
        texts.filter(|name| seen.insert(*name)).collect()
    }

    /// Whether the names below the figure would run into each other if they lay flat.
    fn is_crowded(&self) -> bool {
        let names: BTreeSet<&str> = (0..self.table.len())
            .filter_map(|row| match self.x.cell(row) {
                Cell::Text(name) => Some(name),
                _ => None,
            })
            .collect();
        names.iter().map(|name| name.chars().count()).sum::<usize>() > LETTERS_FLAT
    }

    // ---- what is drawn

    fn points(&self) -> Vec<Point<'a>> {
        let all = (0..self.table.len()).map(|row| Point {
            x: self.x.cell(row),
            y: self.y.map_or(Cell::Missing, |y| y.cell(row)),
            by: self.by.map_or(Cell::Missing, |by| by.cell(row)),
        });
        let drawn = |point: &Point<'_>| {
            let positive = |cell: Cell<'_>| cell.number().is_some_and(|value| value > 0.0);
            let there = point.x != Cell::Missing
                && (self.y.is_none() || point.y != Cell::Missing)
                && (self.by.is_none() || point.by != Cell::Missing);
            there
                && (!self.logarithmic[0] || positive(point.x))
                && (!self.logarithmic[1] || self.y.is_none() || positive(point.y))
        };
        let points: Vec<Point<'a>> = all.filter(drawn).collect();
        if matches!(self.mark, Mark::Heat | Mark::Bar) {
            return points;
        }
        let series = split(points);
        let most = SERIES_POINTS_MAX.min(FIGURE_POINTS_MAX / series.len().max(1)).max(8);
        let drawn = series.into_iter().map(|one| match self.mark {
            Mark::Ecdf => distribution(one, most),
            _ => thin(one, most),
        });
        drawn.flatten().collect()
    }
}

fn named<'a>(table: &'a Table, label: &str) -> &'a Column {
    let column = table.column(label);
    column.unwrap_or_else(|| panic!("the table {} has no column {label}", table.name()))
}

/// A column's name in words, and its unit.
pub(super) fn titled(column: &Column) -> String {
    let words = column.name().replace('_', " ");
    match column.unit() {
        "" => words,
        "gbps" => format!("{words} (Gb/s)"),
        "percent" => format!("{words} (%)"),
        "us" => format!("{words} (µs)"),
        unit => format!("{words} ({unit})"),
    }
}

/// Numbers with as many digits as can be seen.
fn compact(cell: Cell<'_>) -> Value {
    match cell {
        Cell::Float(value) if value.is_finite() => {
            let short: f64 = format!("{value:.6e}").parse().unwrap_or(value);
            if short.fract() == 0.0 && short.abs() < 1e15 {
                (short as i64).into()
            } else {
                short.into()
            }
        }
        other => other.into(),
    }
}

/// The points of each series, the series in the order of their first points.
fn split(points: Vec<Point<'_>>) -> Vec<Vec<Point<'_>>> {
    let mut places = std::collections::HashMap::new();
    let mut series: Vec<Vec<Point<'_>>> = Vec::new();
    for point in points {
        let key = match point.by {
            Cell::Text(text) => text.to_owned(),
            by => by.number().map_or_else(String::new, |number| number.to_string()),
        };
        let place = *places.entry(key).or_insert_with(|| {
            series.push(Vec::new());
            series.len() - 1
        });
        series[place].push(point);
    }
    series
}

/// At most `most` points: of each of so many stretches, those with the lowest and the highest `y`.
fn thin(points: Vec<Point<'_>>, most: usize) -> Vec<Point<'_>> {
    if points.len() <= most {
        return points;
    }
    let stretch = points.len().div_ceil(most / 2);
    let height = |point: &Point<'_>| point.y.number().unwrap_or(0.0);
    let mut kept = Vec::new();
    for part in points.chunks(stretch) {
        let mut lowest = 0;
        let mut highest = 0;
        for (index, point) in part.iter().enumerate() {
            if height(point) < height(&part[lowest]) {
                lowest = index;
            }
            if height(point) > height(&part[highest]) {
                highest = index;
            }
        }
        kept.push(part[lowest.min(highest)]);
        if lowest != highest {
            kept.push(part[lowest.max(highest)]);
        }
    }
    kept
}

/// The steps of the distribution of `x`; of very many, evenly spaced ones, the last among them.
fn distribution(mut points: Vec<Point<'_>>, most: usize) -> Vec<Point<'_>> {
    points.retain(|point| point.x.number().is_some_and(f64::is_finite));
    let value = |point: &Point<'_>| point.x.number().unwrap_or(0.0);
    points.sort_by(|a, b| value(a).total_cmp(&value(b)));
    let count = points.len();
    let steps = count.min(most);
    (1..=steps)
        .map(|step| {
            let rank = count * step / steps;
            Point { y: Cell::Float(rank as f64 / count as f64), ..points[rank - 1] }
        })
        .collect()
}

/// The distance of the `x` of a heat map, if they are numbers: the smallest there is.
fn step_of(points: &[Point<'_>]) -> Option<f64> {
    let mut places: Vec<f64> = points.iter().filter_map(|point| point.x.number()).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    places.windows(2).map(|pair| pair[1] - pair[0]).reduce(f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(rows: usize) -> Table {
        let mut table =
            Table::new("queue").integers("time", "us").integers("depth", "bytes").texts("port");
        for row in 0..rows {
            let depth = if row == rows / 2 { 1_000_000 } else { row % 7 };
            table.push([row.into(), depth.into(), "t0 to h0".into()]);
        }
        table
    }

    fn values(figure: &Figure<'_>) -> Vec<Value> {
        figure.to_vega_lite()["layer"][0]["data"]["values"].as_array().unwrap().clone()
    }

    #[test]
    fn a_single_value_is_said_and_not_drawn() {
        let mut table = Table::new("runs").floats("goodput", "gbps").integers("seed", "");
        assert_eq!(Figure::ecdf(&table, "goodput_gbps").instead().unwrap(), "There is no value.");
        table.push([34.0.into(), 1u32.into()]);
        let cdf = |table: &Table| Figure::ecdf(table, "goodput_gbps").instead();
        assert_eq!(cdf(&table).unwrap(), "One value: goodput (Gb/s): 34.");
        let line = Figure::line(&table, "seed", "goodput_gbps").instead();
        assert_eq!(line.unwrap(), "goodput (Gb/s): 34; seed: 1.");
        let line = Figure::line(&table, "seed", "goodput_gbps").rule(40.0, "paper").instead();
        assert_eq!(line.unwrap(), "goodput (Gb/s): 34; seed: 1. paper: 40.");
        table.push([34.0.into(), 2u32.into()]);
        assert_eq!(cdf(&table).unwrap(), "All 2 values are alike: goodput (Gb/s): 34.");
        assert!(Figure::line(&table, "seed", "goodput_gbps").instead().is_none());
        // Values that are nearly alike have an axis whose labels can be read.
        table.push([34.000_01.into(), 3u32.into()]);
        assert!(cdf(&table).is_none());
        let spec = Figure::ecdf(&table, "goodput_gbps").to_vega_lite();
        let x = &spec["layer"][0]["encoding"]["x"]["scale"]["domain"];
        assert!(x[0].as_f64().unwrap() < 33.7 && x[1].as_f64().unwrap() > 34.3, "{x}");
    }

    #[test]
    fn axes_are_titled_with_names_and_units() {
        let table = series(9);
        let spec = Figure::line(&table, "time_us", "depth_bytes").by("port").to_vega_lite();
        let encoding = &spec["layer"][0]["encoding"];
        assert_eq!(encoding["x"]["title"], "time (µs)");
        assert_eq!(encoding["y"]["title"], "depth (bytes)");
        assert_eq!(
            (&encoding["y"]["type"], &encoding["color"]["type"]),
            (&json!("quantitative"), &json!("nominal"))
        );
        assert_eq!(
            values(&Figure::line(&table, "time_us", "depth_bytes"))[1],
            json!({
                "x": 1, "y": 1
            })
        );
    }

    #[test]
    fn a_long_series_keeps_its_peak() {
        let table = series(100_000);
        let drawn = values(&Figure::steps(&table, "time_us", "depth_bytes"));
        assert!(drawn.len() <= SERIES_POINTS_MAX, "{}", drawn.len());
        assert!(drawn.iter().any(|point| point["y"] == 1_000_000));
        assert!(drawn.windows(2).all(|two| two[0]["x"].as_i64() < two[1]["x"].as_i64()));
    }

    #[test]
    fn a_distribution_ends_at_one_and_its_steps_are_ranks() {
        let mut table = Table::new("flows").floats("slowdown", "");
        for value in [3.0, 1.0, 2.0, 2.0] {
            table.push([value.into()]);
        }
        let drawn = values(&Figure::ecdf(&table, "slowdown"));
        assert_eq!(
            drawn,
            [
                json!({"x": 1, "y": 0.25}),
                json!({"x": 2, "y": 0.5}),
                json!({"x": 2, "y": 0.75}),
                json!({"x": 3, "y": 1}),
            ]
        );
        let mut long = Table::new("flows").floats("slowdown", "");
        for value in 0..50_000u32 {
            long.push([f64::from(value).into()]);
        }
        let drawn = values(&Figure::ecdf(&long, "slowdown"));
        assert_eq!((drawn.len(), &drawn[999]), (1_000, &json!({"x": 49_999, "y": 1})));
    }

    #[test]
    fn what_a_logarithm_cannot_show_is_left_out() {
        let table = series(8);
        let figure = Figure::point(&table, "time_us", "depth_bytes").log_x().log_y();
        assert!(values(&figure).iter().all(|point| point["x"] != 0 && point["y"] != 0));
        assert_eq!(values(&figure).len(), 6);
    }

    #[test]
    fn cells_of_a_heat_map_touch() {
        let mut table =
            Table::new("pauses").integers("time", "us").texts("hop").floats("paused", "percent");
        for (time, hop) in [(0u64, "a"), (10, "a"), (30, "b")] {
            table.push([time.into(), hop.into(), 50.0.into()]);
        }
        let drawn = values(&Figure::heat_map(&table, "time_us", "hop", "paused_percent"));
        assert_eq!(drawn[2], json!({"x": 30, "x2": 40, "y": "b", "by": 50}));
    }

    #[test]
    fn a_heat_map_of_pairs_has_its_names_in_one_order_both_ways() {
        let mut table = Table::new("pairs").texts("from").texts("to").floats("p99", "us");
        for (from, to) in [("h0", "h1"), ("h0", "h2"), ("h1", "h0"), ("h2", "h0"), ("h2", "h3")] {
            table.push([from.into(), to.into(), 5.0.into()]);
        }
        let drawn = Figure::heat_map(&table, "from", "to", "p99_us").to_vega_lite();
        for axis in ["x", "y"] {
            let sort = &drawn["layer"][0]["encoding"][axis]["sort"];
            assert_eq!(*sort, json!(["h0", "h1", "h2", "h3"]), "{axis}");
        }
    }

    #[test]
    fn bars_lie_where_the_names_are_on_the_left() {
        let mut table = Table::new("drops").texts("cause").integers("packets", "");
        table.push(["headroom full (lossless)".into(), 3u64.into()]);
        let lying = Figure::bar(&table, "packets", "cause").to_vega_lite();
        assert_eq!(lying["layer"][0]["encoding"]["y"]["type"], "ordinal");
        assert_eq!(lying["layer"][0]["encoding"]["x"]["type"], "quantitative");
        let standing =
            Figure::bar(&table, "cause", "packets").rule(5.0, "the paper").to_vega_lite();
        assert_eq!(standing["layer"][0]["encoding"]["x"]["type"], "ordinal");
        assert_eq!(standing["layer"][1]["data"]["values"][0]["label"], "the paper");
    }

    #[test]
    #[should_panic(expected = "the table queue has no column time_ms")]
    fn a_column_that_is_not_there_is_named() {
        Figure::line(&series(1), "time_ms", "depth_bytes");
    }

    #[test]
    fn names_that_would_run_into_each_other_are_turned() {
        for (name, angle) in [("h", 0), ("a name that is rather long", -40)] {
            let mut table = Table::new("t").texts("host").floats("value", "");
            for host in 0..8 {
                table.push([Cell::Text(&format!("{name} {host}")), Cell::Float(1.0)]);
            }
            let figure = Figure::bar(&table, "host", "value").to_vega_lite();
            let axis = &figure["layer"][0]["encoding"]["x"]["axis"];
            assert_eq!(axis["labelAngle"], angle, "{name}");
        }
    }
}
