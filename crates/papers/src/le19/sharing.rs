//! 4.2 and 4.3, figure 5: small accesses beside large transfers, and frames of two sizes.

use bench::plan::{Flow, Verb, WaitMode};

use super::{CLIENTS, CORES, Crowd, FRAMES, Method, TESTBED, bytes};
use crate::draws::Spread;
use crate::figure::{Figure, Mark};
use crate::hosts::Hosts;
use crate::outcome::short;
use crate::study::Context;
use crate::{Check, Error, Outcome};

const NIC: &str = "le19.fig5.nic-contention";
const JUMBO: &str = "le19.jumbo";
pub(super) const CLAIMS: &[&str] = &[NIC, JUMBO];

const METHODS: [Method; 4] =
    [Method::ReadIntr(1), Method::ReadPoll, Method::WriteSendPoll, Method::SendSendIntr];
const SIZES: [u32; 3] = [8, 64, 256];
const LARGE: u32 = 4 << 20;
/// Large flows, and what each has outstanding: none, one, as many requests as there are clients on one
/// queue pair, on some and on as many, and four times these.
fn besides(clients: u32) -> [(u32, u32); 6] {
    let some = clients.isqrt();
    [(0, 1), (1, 1), (1, clients), (some, some), (clients, 1), (clients, 4)]
}

/// What falls sharply loses half at least; what does not set the share changes it by less than this: ours.
const SHARPLY: f64 = 0.5;
const ALIKE: f64 = 1.3;
/// The part of the link that is the small flows' is less than this of their part of queue pairs and of
/// requests, if those do not set it: ours.
const FAIR: f64 = 0.5;
/// A little more, and much longer: ours.
const LITTLE: f64 = 1.15;
const MUCH: f64 = 1.5;

/// So many clients that read 4 MB again and again.
fn large(crowd: Crowd, clients: u32, window: u32) -> Flow {
    Flow {
        size_bytes: LARGE,
        threads: clients,
        servers: Some(clients.min(crowd.servers)),
        window,
        wait: WaitMode::Event,
        ..Flow::new(Verb::Read)
    }
}

struct Row {
    method: Method,
    size: u32,
    beside: (u32, u32),
    /// Millions a second.
    rate: Spread,
    gbps: Spread,
}

fn nic(context: &mut Context<'_>) -> Result<Outcome, Error> {
    let crowd = Crowd::of(context);
    let beside = besides(crowd.clients);
    let mut rows = Vec::new();
    let sizes: &[u32] = if context.options.quick { &SIZES[1..2] } else { &SIZES };
    let length_ms = if context.options.quick { 4.0 } else { 8.0 };
    let hosts = Hosts::of(TESTBED, CLIENTS + 1).after_ms(4.0).for_ms(length_ms);
    for method in METHODS {
        context.say(&format!("figure 5: {}", method.name()));
        for &size in sizes {
            for beside in beside {
                let mut flows = vec![method.clients(crowd, size)];
                flows.extend((beside.0 > 0).then(|| large(crowd, beside.0, beside.1)));
                let runs = context.runs(&hosts, &flows)?;
                let rate = runs.spread(0, |seen| seen.rate / 1e6);
                let gbps = runs.spread(0, |seen| seen.gbps);
                rows.push(Row { method, size, beside, rate, gbps });
            }
        }
    }
    let mut figure = Figure::new(
        "le19-figure-5",
        "Figure 5: small accesses beside clients that read 4 MB",
        Mark::Line,
    )
    .axes(("large_clients", ""), ("rate", "million_per_second"))
    .logarithmic();
    let name = |row: &Row| format!("{} {}", row.method.name(), bytes(row.size));
    let named = |of: (u32, u32)| match of {
        (0, _) => "none".to_owned(),
        (clients, window) => format!("{clients} x {window}"),
    };
    let mut said: Vec<String> = Vec::new();
    let mut checks = Vec::new();
    for of in rows.chunks(beside.len()) {
        let [alone, one, single, some, many, deep] = of else { continue };
        for row in of {
            figure.point(name(row), named(row.beside).as_str(), row.rate.median());
        }
        let rates: Vec<String> = of.iter().map(|row| row.rate.to_string()).collect();
        said.push(format!("{} {}", name(alone), rates.join(", ")));
        checks.push(Check::order(
            (&format!("{} beside one", name(one)), one.rate.most()),
            ("half of what it is alone", SHARPLY * alone.rate.median()),
            "M/s",
        ));
        let change = deep.rate.median() / many.rate.median();
        checks.push(Check::event(
            format!(
                "{}: four outstanding of each large client instead of one change it by less than {ALIKE} \
                 times: {}",
                name(many),
                short(change)
            ),
            (1.0 / ALIKE..=ALIKE).contains(&change),
        ));
        let equal = [single, some, many].map(|row| row.rate.median());
        let [least, most] = [f64::min, f64::max].map(|of| equal.into_iter().fold(equal[0], of));
        checks.push(Check::event(
            format!(
                "{}: {2} large requests on {3}, {4} or {2} queue pairs change it by less than {ALIKE} times: {1}",
                name(many),
                short(most / least),
                many.beside.0,
                single.beside.0,
                some.beside.0
            ),
            most / least < ALIKE,
        ));
        // It has half of the queue pairs, and more than half of the requests.
        let share = many.gbps.median() / alone.gbps.median().max(1e-9);
        checks.push(Check::order(
            (&format!("{}: what {} clients of 4 MB leave of it", name(many), many.beside.0), share),
            ("half of its part of the queue pairs", FAIR / 2.0),
            "",
        ));
    }
    Ok(Outcome {
        claim: context.claim(NIC)?,
        ran: format!(
            "16 clients with 16 outstanding beside 0 to 16 clients that READ 4 MB from the same server, 1 \
             to 16 at a time each; {FRAMES}"
        ),
        scale: Some("8 ms instead of 10 s".to_owned()),
        measured: format!(
            "million a second beside {}: {}",
            beside.map(named).join(", "),
            said.join("; ")
        ),
        checks,
        figures: vec![figure],
    })
}

fn jumbo(context: &mut Context<'_>) -> Result<Outcome, Error> {
    let mtu = |bytes: &str| Hosts::of(TESTBED, CLIENTS + 1).but("mtu_bytes", bytes);
    let mut figure = Figure::new(
        "le19-jumbo",
        "Small READs beside large ones, by the size of frames",
        Mark::Bar,
    )
    .axes(("mtu", ""), ("latency", "us"));
    context.say("frames of 1 KB and of 4 KB");
    let crowd = Crowd::of(context);
    let mut found = Vec::new();
    for bytes in ["1_024", "4_096"] {
        let hosts = mtu(bytes).after_ms(4.0).for_ms(8.0);
        let fast = context.runs(&hosts, &[Method::ReadIntr(1).clients(crowd, 4_096)])?;
        let small = Flow { threads: CLIENTS, servers: Some(CORES), ..Method::ReadIntr(1).flow(64) };
        let beside = context.runs(&hosts, &[small.clone(), large(crowd, CLIENTS, 1)])?;
        let alone = context.runs(&hosts, &[small])?;
        let tails = [&beside, &alone].map(|runs| runs.spread(0, |seen| seen.p99_us));
        figure.point("beside 16 clients of 4 MB", bytes, tails[0].median());
        figure.point("alone", bytes, tails[1].median());
        found.push((fast.spread(0, |seen| seen.gbps), tails));
    }
    let ([short_frames, long_frames], said) = match &found[..] {
        [first, second] => (
            [first, second],
            format!(
                "READs of 4 KB: {} Gb/s in frames of 1 KB, {} in frames of 4 KB; p99 of READs of 64 B \
                 beside 4 MB {} and {} us, alone {} and {}",
                first.0, second.0, first.1[0], second.1[0], first.1[1], second.1[1]
            ),
        ),
        _ => return Err(Error::Hosts(TESTBED, "two sizes of frames were to be run".to_owned())),
    };
    let more = long_frames.0.median() / short_frames.0.median();
    Ok(Outcome {
        claim: context.claim(JUMBO)?,
        ran: "16 clients: READs of 4 KB, and READs of 64 B one at a time beside 16 clients that READ 4 MB; \
              RDMA MTU 1,024 and 4,096"
            .to_owned(),
        scale: Some("8 ms instead of 10 s".to_owned()),
        measured: said,
        checks: vec![
            Check::event(
                format!("large frames add a little throughput: {} times", short(more)),
                more > 1.0 && more <= LITTLE,
            ),
            Check::order(
                ("half more than the tail in frames of 1 KB", MUCH * short_frames.1[0].median()),
                ("that in frames of 4 KB", long_frames.1[0].median()),
                "us",
            ),
        ],
        figures: vec![figure],
    })
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    let mut outcomes = vec![nic(context)?];
    // The size of frames is a testbed's.
    if context.is_simulated() {
        outcomes.push(jumbo(context)?);
    }
    Ok(outcomes)
}
