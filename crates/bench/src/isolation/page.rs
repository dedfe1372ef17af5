//! The matrix as tables, and as a page of heat maps.

use telemetry::{Block, Cell as Value, Figure, Page, Table};

use super::result::{Number, Results, Spread};
use super::{Cell, is_mouse};

/// Pairs, seen from both sides (a row each), and flows that are alike.
pub fn tables(results: &Results) -> [Table; 2] {
    [pairs(results), crowds(results)]
}

/// What a pair is told by: of two elephants the share, of others what they lose against being alone.
fn numbers(results: &Results, left: usize, top: usize) -> Vec<(&'static str, Option<Spread>)> {
    let kinds = &results.matrix.kinds;
    if is_mouse(&kinds[left]) {
        return vec![
            ("mouse: median latency over alone", results.beside(left, top, Number::P50)),
            ("mouse: p99 latency over alone", results.beside(left, top, Number::P99)),
            ("mouse: rate over alone", results.beside(left, top, Number::Rate)),
        ];
    }
    match is_mouse(&kinds[top]) {
        true => {
            let kept = results.beside(left, top, Number::Bandwidth);
            vec![("elephant beside a mouse: bandwidth over alone", kept)]
        }
        false => vec![("elephants: bandwidth of left over top", results.share(left, top))],
    }
}

fn pairs(results: &Results) -> Table {
    let mut table = Table::new("pairs")
        .texts("number")
        .texts("left")
        .texts("top")
        .floats("median", "")
        .floats("low", "")
        .floats("high", "");
    let kinds = &results.matrix.kinds;
    for cell in &results.matrix.cells {
        let Cell::Pair(left, top) = *cell else { continue };
        let sides = if left == top { vec![(left, top)] } else { vec![(left, top), (top, left)] };
        for (left, top) in sides {
            for (number, spread) in numbers(results, left, top) {
                let Some(Spread { median, low, high, .. }) = spread else { continue };
                table.push([
                    Value::Text(number),
                    Value::Text(&kinds[left].name),
                    Value::Text(&kinds[top].name),
                    Value::Float(median),
                    Value::Float(low),
                    Value::Float(high),
                ]);
            }
        }
    }
    table
}

fn crowds(results: &Results) -> Table {
    let mut table = Table::new("crowds")
        .texts("kind")
        .integers("flows", "")
        .floats("fairness", "")
        .floats("low", "")
        .floats("high", "");
    for cell in &results.matrix.cells {
        let Cell::Crowd(kind, flows) = *cell else { continue };
        let Some(Spread { median, low, high, .. }) = results.fairness(kind, flows) else {
            continue;
        };
        table.push([
            Value::Text(&results.matrix.kinds[kind].name),
            Value::Integer(flows.into()),
            Value::Float(median),
            Value::Float(low),
            Value::Float(high),
        ]);
    }
    table
}

/// One HTML file with all of it.
pub fn page(results: &Results, misses: &[String]) -> String {
    let [_, crowds] = tables(results);
    let mut page =
        Page::measured("Isolation", &format!("world {}: {}", results.world, results.about));
    page.section("What flows do to each other");
    if let Some(why) = &results.partial {
        page.add(&Block::Notice(&format!("Partial: {why}")));
    }
    for miss in misses {
        page.add(&Block::Notice(&format!("Missed: {miss}")));
    }
    let text = results.to_string();
    let maps = heat_maps(results);
    for (number, table) in &maps {
        let figure = Figure::heat_map(table, "top", "left", "median").title(number).height(360);
        page.add(&Block::Figure(&figure));
    }
    page.section("Many alike").add(&Block::Table(&crowds, "Jain's index of their bandwidths"));
    page.section("As in the terminal").add(&Block::Lines(&text));
    page.to_html()
}

/// For each number a table of its pairs.
fn heat_maps(results: &Results) -> Vec<(&'static str, Table)> {
    let mut maps: Vec<(&'static str, Table)> = Vec::new();
    let kinds = &results.matrix.kinds;
    for left in 0..kinds.len() {
        for top in 0..kinds.len() {
            for (number, spread) in numbers(results, left, top) {
                let Some(spread) = spread.filter(|spread| spread.median.is_finite()) else {
                    continue;
                };
                let table = match maps.iter().position(|(name, _)| *name == number) {
                    Some(at) => &mut maps[at].1,
                    None => {
                        let table =
                            Table::new("map").texts("left").texts("top").floats("median", "");
                        maps.push((number, table));
                        let last = maps.len() - 1;
                        &mut maps[last].1
                    }
                };
                table.push([
                    Value::Text(&kinds[left].name),
                    Value::Text(&kinds[top].name),
                    Value::Float(spread.median),
                ]);
            }
        }
    }
    maps
}
