//! Results as tables, and as a page with figures.

use telemetry::{Block, Cell, Figure, Page, Table};

use super::{Report, Run};

/// Flows (a row each), windows (a row for each flow and window), and latencies (a row a bucket).
pub fn tables(report: &Report) -> [Table; 3] {
    [flows(report), windows(report), latencies(report)]
}

fn name<'a>(run: &Run, flow: &'a str) -> std::borrow::Cow<'a, str> {
    let label = run.label();
    if label.is_empty() { flow.into() } else { format!("{flow} {label}").into() }
}

fn flows(report: &Report) -> Table {
    let mut table = Table::new("flows")
        .texts("world")
        .texts("flow")
        .texts("verb")
        .integers("size", "bytes")
        .texts("wait")
        .integers("outstanding", "")
        .floats("bandwidth", "gbps")
        .floats("worst", "gbps")
        .floats("operations", "per_s")
        .floats("p50", "us")
        .floats("p90", "us")
        .floats("p99", "us")
        .floats("p999", "us")
        .floats("p9999", "us")
        .floats("asks", "cores")
        .floats("serves", "cores")
        .integers("partial", "");
    for run in &report.runs {
        for (flow, result) in run.plan.flows.iter().zip(&run.flows) {
            let latency = &result.latency_us;
            let float = |value: f64| Cell::Float(value);
            let served = result.served.as_ref();
            let name = name(run, &result.name);
            table.push([
                Cell::Text(&report.world),
                Cell::Text(&name),
                Cell::Text(flow.verb.name()),
                Cell::Integer(flow.bytes().into()),
                Cell::Text(flow.wait.name()),
                Cell::Integer(flow.outstanding() as i64),
                float(result.bandwidth_gbps),
                float(result.window_gbps_min),
                float(result.rate_per_s),
                float(latency.p50),
                float(latency.p90),
                float(latency.p99),
                float(latency.p999),
                float(latency.p9999),
                float(result.cores),
                served.map_or(Cell::Missing, |served| float(served.cores)),
                Cell::Integer(run.partial.is_some().into()),
            ]);
        }
    }
    table
}

fn windows(report: &Report) -> Table {
    let mut table = Table::new("windows")
        .texts("flow")
        .floats("time", "s")
        .floats("bandwidth", "gbps")
        .integers("operations", "")
        .floats("p50", "us")
        .floats("p99", "us");
    for run in &report.runs {
        for result in &run.flows {
            let name = name(run, &result.name);
            for (index, window) in result.windows.iter().enumerate() {
                let has_any = window.operations > 0;
                let us = |value| if has_any { Cell::Float(value) } else { Cell::Missing };
                table.push([
                    Cell::Text(&name),
                    Cell::Float(index as f64 * run.plan.window_ms / 1e3),
                    Cell::Float(window.bandwidth_gbps),
                    Cell::Integer(window.operations as i64),
                    us(window.p50_us),
                    us(window.p99_us),
                ]);
            }
        }
    }
    table
}

fn latencies(report: &Report) -> Table {
    let mut table = Table::new("latencies")
        .texts("flow")
        .floats("latency", "us")
        .integers("operations", "")
        .floats("part", "");
    for run in &report.runs {
        for result in &run.flows {
            let name = name(run, &result.name);
            let all: u64 = result.histogram_ns.iter().map(|(_, count)| count).sum();
            let mut until = 0;
            for (ns, count) in &result.histogram_ns {
                until += count;
                table.push([
                    Cell::Text(&name),
                    Cell::Float(*ns as f64 / 1e3),
                    Cell::Integer(*count as i64),
                    Cell::Float(until as f64 / all.max(1) as f64),
                ]);
            }
        }
    }
    table
}

/// One HTML file with all of it.
pub fn page(report: &Report) -> String {
    let [flows, windows, latencies] = tables(report);
    let title = report.runs.first().map_or("bench", |run| run.plan.title.as_str());
    let about = format!("world {}: {}", report.world, report.about);
    let mut page = match report.simulated {
        true => Page::simulated(title, &about),
        false => Page::measured(title, &about),
    };
    page.section("Results");
    if let Some(why) = report.partial() {
        page.add(&Block::Notice(&format!("Partial: {why}")));
    }
    for miss in report.misses() {
        page.add(&Block::Notice(&format!("Missed: {miss}")));
    }
    page.add(&Block::Table(&flows, ""));
    page.section("Bandwidth by window");
    let over_time = Figure::line(&windows, "time_s", "bandwidth_gbps").by("flow");
    page.add(&Block::Figure(&over_time));
    page.section("Latency");
    let distribution = Figure::steps(&latencies, "latency_us", "part")
        .by("flow")
        .log_x()
        .x_title("latency, us")
        .y_title("part of the operations that took no longer");
    page.add(&Block::Figure(&distribution));
    page.to_html()
}
