//! What probes have seen, on one page: the verdict on the topology, round trips over time as guo16 draws them (figure 8),
//! heat maps of racks and podsets, and the incidents.

use fabric::report::marked;
use fabric::topology::{End, Topology};
use telemetry::{Block, Cell, Figure, Page, Table};

use super::node::Node;
use super::raw::{Raw, Sent, Times};
use super::scope::Scope;
use super::store::Incident;
use super::summary::{Sum, Summary, TcpSum};
use super::verdict::{Clock, Culprit, Verdict, moment_of_model, moment_of_wall, of_model, of_wall};

/// How the line begins that says what is sick.
const VERDICT: &str = "verdict: ";

/// What is shown.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// The title.
    pub title: &'a str,
    /// Where, or of what model.
    pub place: &'a str,
    /// Whether the network is a model.
    pub is_simulated: bool,
    /// Who is linked to whom.
    pub topology: &'a Topology,
    /// What probes have seen.
    pub summary: &'a Summary,
    /// What is sick now.
    pub verdict: &'a Verdict,
    /// What was.
    pub incidents: &'a [Incident],
    /// The last single probes of interest: of what is accused or, if nothing is, of all.
    pub probes: &'a [Sent],
}

/// The page, as HTML that needs nothing else.
pub fn page(shown: &Shown<'_>) -> String {
    let Shown { title, place, is_simulated, topology, summary, verdict, incidents, probes } =
        *shown;
    let mut page =
        if is_simulated { Page::simulated(title, place) } else { Page::measured(title, place) };
    page.section("Verdict");
    let clock = if is_simulated { of_model } else { of_wall };
    let text = verdict.text_by(topology, clock).to_string();
    for one in text
        .split_inclusive('\n')
        .collect::<Vec<_>>()
        .chunk_by(|_, next| !next.starts_with(VERDICT))
    {
        let (said, evidence) = (one[0].trim_end(), one[1..].concat());
        page.add(&headline(verdict, said));
        if !evidence.is_empty() {
            page.add(&Block::Lines(evidence.trim_end()));
        }
    }
    let (nodes, links) = marks(verdict);
    let drawing = marked(topology, &nodes, &links, "now", "what the verdict names");
    page.add(&Block::Replay(&drawing));

    if !probes.is_empty() {
        page.section("Single probes");
        let sick: Vec<String> =
            verdict.sick().iter().map(|of| of.culprit.named(topology)).collect();
        let of = match sick.is_empty() {
            true => "of any host".to_owned(),
            false => format!("that tell of {}", sick.join(", ")),
        };
        let note = format!("The last {of} that failed or were slow, the newest first");
        let clock = if is_simulated { moment_of_model } else { moment_of_wall };
        page.add(&Block::Table(&single(topology, probes, clock), &note));
    }

    page.section("Probes");
    page.add(&Block::Table(&outcomes(summary), "By how far they went, and what became of them; host: what those that answered took themselves"));
    let times = over_time(summary);
    page.add(&Block::Figure(
        &Figure::line(&times, "time_s", "round_trip_us")
            .by("percentile")
            .title("Round trips of the network")
            .caption(
                "(T5 - T2) - (T4 - T3): what hosts take is not in it. Percentiles of all probes of a window, by scope, as \
                 in figure 8 of guo16.",
            )
            .log_y(),
    ));

    for scope in Scope::ALL {
        let pairs = summary.pairs_table(scope);
        if pairs.is_empty() {
            continue;
        }
        page.section(match scope {
            Scope::Tor => "Within racks",
            Scope::Podset => "Between racks of a podset",
            Scope::Dc => "Between podsets",
        });
        let p99 = Figure::heat_map(&pairs, "from", "to", "p99_us").title("99th percentile");
        page.add(&Block::Figure(&p99));
        if summary.scope(scope).counts.timeout > 0 {
            let lost = Figure::heat_map(&pairs, "from", "to", "lost_percent").title("Lost probes");
            page.add(&Block::Figure(&lost));
        }
    }

    if !incidents.is_empty() {
        page.section("Incidents");
        page.add(&Block::Table(&timeline(incidents, clock), "The oldest first"));
    }
    page.to_html()
}

/// What is sick must not be overlooked; that nothing is, is no warning.
fn headline<'a>(verdict: &Verdict, said: &'a str) -> Block<'a> {
    match verdict.culprit() {
        Culprit::Nothing if verdict.is_sick_unnamed() => Block::Notice(said),
        Culprit::Nothing => Block::Text(said),
        _ => Block::Notice(said),
    }
}

/// The nodes and links that a verdict names.
fn marks(verdict: &Verdict) -> (Vec<End>, Vec<[End; 2]>) {
    let (mut nodes, mut links) = (Vec::new(), Vec::new());
    for of in verdict.sick() {
        match of.culprit {
            Culprit::Nothing => {}
            Culprit::Host(host) | Culprit::Nic(host) => nodes.push(End::Host(host)),
            Culprit::Tor(switch) | Culprit::Plane(switch) => nodes.push(End::Switch(switch)),
            Culprit::Link(a, b) => links.push([a, b].map(|node: Node| node.into())),
        }
    }
    (nodes, links)
}

fn float(value: Option<f64>) -> Cell<'static> {
    value.map_or(Cell::Missing, Cell::Float)
}

fn outcomes(summary: &Summary) -> Table {
    let mut table = Table::new("outcomes")
        .texts("scope")
        .integers("probes", "")
        .integers("answered", "")
        .integers("timeout", "")
        .integers("send_error", "")
        .integers("invalid", "")
        .integers("unknown", "")
        .floats("p50", "us")
        .floats("p99", "us")
        .floats("p999", "us")
        .floats("host_p99", "us");
    for scope in Scope::ALL {
        let Sum { counts, network, responder } = summary.scope(scope);
        if counts.sent == 0 {
            continue;
        }
        table.push([
            scope.name().into(),
            counts.sent.into(),
            counts.answered.into(),
            counts.timeout.into(),
            counts.send_error.into(),
            counts.invalid_rtt.into(),
            counts.unknown.into(),
            float(network.us(0.5)),
            float(network.us(0.99)),
            float(network.us(0.999)),
            float(responder.us(0.99)),
        ]);
        let TcpSum { counts, round_trip, .. } = summary.tcp(scope);
        if counts.sent > 0 {
            let name = format!("{} by TCP", scope.name());
            table.push([
                Cell::Text(&name),
                counts.sent.into(),
                counts.answered.into(),
                counts.timeout.into(),
                counts.send_error.into(),
                Cell::Missing,
                counts.unknown.into(),
                float(round_trip.us(0.5)),
                float(round_trip.us(0.99)),
                float(round_trip.us(0.999)),
                Cell::Missing,
            ]);
        }
    }
    table
}

/// Single probes, for people.
fn single(topology: &Topology, probes: &[Sent], clock: Clock) -> Table {
    let mut table = Table::new("single")
        .texts("posted")
        .texts("from")
        .texts("to")
        .integers("label", "")
        .texts("outcome")
        .floats("network", "us")
        .floats("responder", "us");
    for &(host, Raw { target, label, posted_ns, outcome, times, .. }) in probes {
        let us = |of: fn(Times) -> u64| float(times.map(|times| of(times) as f64 / 1e3));
        table.push([
            Cell::Text(&clock(posted_ns)),
            Cell::Text(topology.name(End::Host(host))),
            Cell::Text(topology.name(End::Host(target))),
            u64::from(label).into(),
            Cell::Text(&outcome.text()),
            us(|times| times.network_ns),
            us(|times| times.responder_ns),
        ]);
    }
    table
}

fn over_time(summary: &Summary) -> Table {
    let mut table = Table::new("round_trips")
        .floats("time", "s")
        .texts("percentile")
        .floats("round_trip", "us");
    let begin = summary.begin_ns();
    for ((scope, start), sum) in &summary.windows {
        for (name, rank) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
            let series = format!("{} {name}", scope.name());
            let time = (start - begin) as f64 / 1e9;
            table.push([time.into(), Cell::Text(&series), float(sum.network.us(rank))]);
        }
    }
    table
}

fn timeline(incidents: &[Incident], clock: Clock) -> Table {
    let mut table = Table::new("incidents")
        .texts("what")
        .texts("why")
        .texts("since")
        .texts("until")
        .texts("evidence");
    for incident in incidents {
        let since = clock(incident.since_ns);
        let until = incident.until_ns.map_or_else(|| "now".to_owned(), clock);
        table.push([
            Cell::Text(&incident.culprit),
            Cell::Text(&incident.cause),
            Cell::Text(&since),
            Cell::Text(&until),
            Cell::Text(&incident.evidence.join("; ")),
        ]);
    }
    table
}
