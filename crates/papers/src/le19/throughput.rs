//! Figures 2 and 4: sixteen clients and one server, as fast as they can.

use bench::plan::Flow;

use super::{ABOUT, CLIENTS, Crowd, FRAMES, Method, WINDOW, all, bytes};
use crate::draws::Spread;
use crate::figure::{Figure, Mark};
use crate::hosts::Runs;
use crate::outcome::short;
use crate::study::Context;
use crate::{Check, Claim, Error, Outcome};

const OPS: &str = "le19.fig2a.ops-bound";
const DEPENDENT: &str = "le19.fig2a.dependent-reads";
const CAP: &str = "le19.fig2a.send-send-poll";
const TAIL: &str = "le19.fig2b.tail";
const CONTENDED: &str = "le19.fig4.contention-throughput";
pub(super) const CLAIMS: &[&str] = &[OPS, DEPENDENT, CAP, TAIL, CONTENDED];

const READ: Method = Method::ReadIntr(1);
const READ_2: Method = Method::ReadIntr(2);
const READ_3: Method = Method::ReadIntr(3);
const READ_POLL: Method = Method::ReadPoll;
const WRITE_SEND: Method = Method::WriteSendPoll;
const SEND_SEND: Method = Method::SendSendIntr;
const METHODS: [Method; 7] =
    [READ, READ_2, READ_3, READ_POLL, WRITE_SEND, SEND_SEND, Method::SendSendPoll];
const SIZES: [u32; 8] = [8, 32, 64, 128, 256, 512, 1_024, 4_096];
const QUICK_SIZES: [u32; 5] = [8, 64, 128, 1_024, 4_096];
const CONTENDED_METHODS: [Method; 5] = [READ, READ_2, READ_POLL, WRITE_SEND, SEND_SEND];
const CONTENDED_SIZES: [u32; 5] = [8, 64, 256, 1_024, 4_096];

/// Who is bound by the link has this part of its rate in payload: ours.
const LINE: f64 = 0.9;
const LINK_GBPS: f64 = 10.0;
/// What a READ's answer has on the wire beside its payload: Ethernet with preamble, FCS and gap, IPv4, UDP,
/// BTH, AETH and ICRC.
const HEADER_BYTES: u32 = 86;
/// At the link's rate none is ahead of another: what beats others there has this part of theirs, ours.
const LEVEL: f64 = 0.98;

/// What clients work for each completion, in microseconds, in the rows that try how slow they must be: from
/// less than what figure 2 allows them to three times that.
const SLOWER_US: [f64; 3] = [1.5, 3.0, 6.0];

/// What a method reaches with one size.
struct Reached {
    method: Method,
    size: u32,
    /// Objects a second, in millions.
    rate: Spread,
    gbps: Spread,
    p90_us: Spread,
}

/// That of all methods and sizes.
struct Throughput(Vec<Reached>);

impl Throughput {
    fn measure(
        context: &mut Context<'_>,
        methods: &[Method],
        sizes: &[u32],
        is_contended: bool,
    ) -> Result<Self, Error> {
        let crowd = Crowd::of(context);
        let mut rows = Vec::new();
        for &method in methods {
            let figure = if is_contended { 4 } else { 2 };
            context.say(&format!("figure {figure}: {}", method.name()));
            for &size in sizes {
                let runs = all(context, method.clients(crowd, size), is_contended)?;
                rows.push(Reached {
                    method,
                    size,
                    rate: runs.spread(0, |seen| seen.rate / 1e6),
                    gbps: runs.spread(0, |seen| seen.gbps),
                    p90_us: runs.spread(0, |seen| seen.p90_us),
                });
            }
        }
        Ok(Self(rows))
    }

    fn at(&self, method: Method, size: u32) -> Option<&Reached> {
        self.0.iter().find(|row| (row.method, row.size) == (method, size))
    }

    fn rate(&self, method: Method, size: u32) -> f64 {
        self.at(method, size).map_or(f64::NAN, |row| row.rate.median())
    }

    fn p90_us(&self, method: Method, size: u32) -> f64 {
        self.at(method, size).map_or(f64::NAN, |row| row.p90_us.median())
    }

    fn sizes(&self) -> Vec<u32> {
        self.0.iter().filter(|row| row.method == READ).map(|row| row.size).collect()
    }

    fn told(&self, methods: &[Method], unit: &str, value: fn(&Reached) -> &Spread) -> String {
        let one = |method: &Method| {
            let rows = self.0.iter().filter(|row| row.method == *method);
            let sizes = rows.map(|row| value(row).to_string()).collect::<Vec<_>>().join(", ");
            format!("{} {sizes}", method.name())
        };
        let all = methods.iter().map(one).collect::<Vec<_>>().join("; ");
        format!("{unit} at {:?} B: {all}", self.sizes())
    }

    fn figure(
        &self,
        (name, title): (&'static str, &str),
        y: (&'static str, &'static str),
        value: fn(&Reached) -> &Spread,
    ) -> Figure {
        let mut figure =
            Figure::new(name, title, Mark::Line).axes(("payload", ""), y).logarithmic();
        for row in &self.0 {
            figure.point(row.method.name(), bytes(row.size).as_str(), value(row).median());
        }
        figure
    }

    /// One method is faster than another at some sizes.
    fn beats(&self, [first, second]: [Method; 2], sizes: &[u32], part: f64) -> Vec<Check> {
        let both = |&size: &u32| {
            let other = part * self.rate(second, size);
            let name = match part {
                1.0 => second.name().to_owned(),
                _ => format!("{} x {part}", second.name()),
            };
            let (small, large) = ((&*name, other), (first.name(), self.rate(first, size)));
            let check = Check::order(small, large, "M/s");
            Check { text: format!("at {size} B {}", check.text), ..check }
        };
        sizes.iter().map(both).collect()
    }
}

/// Millions of payloads that the wire carries in a second.
fn on_wire(size: u32) -> f64 {
    LINK_GBPS * 1e3 / (f64::from(size + HEADER_BYTES) * 8.0)
}

fn those(sizes: &[u32], wanted: impl Fn(u32) -> bool) -> Vec<u32> {
    sizes.iter().copied().filter(|size| wanted(*size)).collect()
}

fn ops_bound(found: &Throughput) -> Vec<Check> {
    let sizes = found.sizes();
    let small = those(&sizes, |size| size <= 256);
    let large = those(&sizes, |size| size > 256);
    let longest = small.last().copied().unwrap_or(8);
    let gbps = |size| found.at(READ, size).map_or(f64::NAN, |row| row.gbps.median());
    let mut checks = vec![
        Check::order(
            ("nine tenths of the link", LINE * LINK_GBPS),
            ("READ-Intr at 4,096 B", gbps(4_096)),
            "Gb/s",
        )
        .of_machine(),
    ];
    let on_wire = on_wire(longest);
    for method in METHODS {
        let rate = found.rate(method, longest);
        let ratio = rate / found.rate(method, 8);
        let name = method.name();
        let text = format!("{name} at {longest} B over 8 B is about 1: {}", short(ratio));
        let check = Check::event(text, (1.0 / ABOUT..=ABOUT).contains(&ratio));
        checks.push(match rate > LEVEL * on_wire {
            true => check.because(format!(
                "in the model the wire is the bound there: with {HEADER_BYTES} B of headers it carries {} M/s",
                short(on_wire)
            )),
            false => check,
        });
    }
    for &size in &sizes {
        let ratio = found.rate(READ_POLL, size) / found.rate(READ, size);
        let text = format!("at {size} B READ-Poll over READ-Intr is about 1: {}", short(ratio));
        checks.push(Check::event(text, (1.0 / ABOUT..=ABOUT).contains(&ratio)));
    }
    for compound in [WRITE_SEND, SEND_SEND] {
        checks.extend(found.beats([READ, compound], &small, 1.0));
        checks.extend(found.beats([READ, compound], &large, LEVEL));
    }
    checks
}

fn dependent(found: &Throughput) -> Vec<Check> {
    let sizes = found.sizes();
    let mut checks = found.beats([READ_2, WRITE_SEND], &those(&sizes, |size| size <= 64), 1.0);
    let above = those(&sizes, |size| (128..=1_024).contains(&size));
    checks.extend(found.beats([WRITE_SEND, READ_2], &above, 1.0));
    for size in those(&sizes, |size| size <= 64) {
        let ratio = found.rate(READ_3, size) / found.rate(WRITE_SEND, size);
        let text =
            format!("at {size} B READ-Intr-3 over WRITE/SEND-Poll is about 1: {}", short(ratio));
        checks.push(Check::event(text, (1.0 / ABOUT..=ABOUT).contains(&ratio)));
    }
    checks
}

fn isolated(context: &mut Context<'_>) -> Result<(Vec<Outcome>, Throughput), Error> {
    let sizes: &[u32] = if context.options.quick { &QUICK_SIZES } else { &SIZES };
    let found = Throughput::measure(context, &METHODS, sizes, false)?;
    let ran = format!(
        "{CLIENTS} clients, {WINDOW} outstanding each, to a server of eight processes; {FRAMES}"
    );
    let rates = found.told(&METHODS, "million a second", |row| &row.rate);
    let outcome = |claim, measured: String, checks, figures| {
        let (ran, scale) = (ran.clone(), Some("4 ms instead of 10 s".to_owned()));
        Outcome { claim, ran, scale, measured, checks, figures }
    };
    let figure = |name, title, y, value| found.figure((name, title), y, value);
    let throughput = figure(
        "le19-figure-2a",
        "Figure 2a: throughput of a server that is read as fast as it can be",
        ("rate", "million_per_second"),
        |row: &Reached| &row.rate,
    );
    let tail = figure(
        "le19-figure-2b",
        "Figure 2b: 90th percentile of latency in figure 2a",
        ("latency", "us"),
        |row: &Reached| &row.p90_us,
    );
    let cap = context.claim(CAP)?;
    let capped = |row: &&Reached| row.method == Method::SendSendPoll;
    let most = found.0.iter().filter(capped).map(|row| row.gbps.median()).fold(0.0, f64::max);
    let limit = cap.value("rate_gbps_max") * cap.band.unwrap_or(1.0);
    let check = Check::order(
        ("SEND/SEND-Poll at its best", most),
        ("2 Gb/s and a half more", limit),
        "Gb/s",
    )
    .because(
        "a cap in bits a second at every size is no cost of a message and none of a byte: nothing \
             in the model makes one, and the paper gives no reason",
    )
    .of_machine();
    let by_size = found.told(&[Method::SendSendPoll], "Gb/s", |row| &row.gbps);
    let tails = context.claim(TAIL)?;
    let excluded = "with the throughput of figure 2a Little's law gives this and no more, unless \
                    requests were served very unequally";
    let number = |name: &str, method, size| {
        Check::number(&tails, name, found.p90_us(method, size)).because(excluded)
    };
    let small = if context.options.quick { 128 } else { 256 };
    let checks = vec![
        Check::at_most(&tails, "read_64_us_max", found.p90_us(READ, 64)),
        Check::number(&tails, "write_send_small_us", found.p90_us(WRITE_SEND, small)),
        number("read_1k_us", READ, 1_024),
        number("read_4k_us", READ, 4_096),
        Check::number(&tails, "read_4k_us", found.p90_us(READ_POLL, 4_096)),
        Check::number(&tails, "write_send_4k_ms", found.p90_us(WRITE_SEND, 4_096) / 1e3)
            .because(excluded),
        Check::number(&tails, "send_send_4k_ms", found.p90_us(SEND_SEND, 4_096) / 1e3)
            .because(excluded),
    ];
    let checks = checks.into_iter().map(Check::of_machine).collect();
    let told = found.told(&METHODS[..6], "us", |row| &row.p90_us);
    let outcomes = vec![
        outcome(context.claim(OPS)?, rates.clone(), ops_bound(&found), vec![throughput]),
        outcome(context.claim(DEPENDENT)?, rates, dependent(&found), Vec::new()),
        outcome(cap, by_size, vec![check], Vec::new()),
        outcome(tails.clone(), told, checks, vec![tail]),
    ];
    Ok((outcomes, found))
}

/// What clients reach at 64 B that work so long for each completion.
struct Slower {
    work_us: f64,
    /// Beside a solver, in millions a second: two READs, and a compound read.
    two: Spread,
    compound: Spread,
    /// One READ without the solver, and the 90th percentile of its latency.
    read: Spread,
    read_p90_us: f64,
}

impl Slower {
    fn measure(context: &mut Context<'_>) -> Result<Vec<Self>, Error> {
        context.say("figure 4: slower clients");
        let crowd = Crowd::of(context);
        let mut run = |work_us: f64, method: Method, is_contended| {
            all(context, Flow { work_us, ..method.clients(crowd, 64) }, is_contended)
        };
        let mut rows = Vec::new();
        for work_us in SLOWER_US {
            let rate = |runs: &Runs| runs.spread(0, |seen| seen.rate / 1e6);
            let read = run(work_us, READ, false)?;
            rows.push(Self {
                work_us,
                two: rate(&run(work_us, READ_2, true)?),
                compound: rate(&run(work_us, WRITE_SEND, true)?),
                read: rate(&read),
                read_p90_us: read.spread(0, |seen| seen.p90_us).median(),
            });
        }
        Ok(rows)
    }

    fn told(&self) -> String {
        let Self { work_us, two, compound, read, read_p90_us } = self;
        format!(
            "with {work_us} us of work READ-Intr-2 {two} and WRITE/SEND-Poll {compound}, and READ-Intr without \
             the solver {read}, p90 {} us",
            short(*read_p90_us)
        )
    }

    /// Why a compound read is not ahead of two READs: a reason, and what came of it in these rows. Figure 2 is
    /// left as it was where the tail of READs is within the paper's bound.
    fn reason(rows: &[Self], tails: &Claim) -> String {
        let reason =
            "with clients that are slow enough for this READs could not have the tail of figure 2b";
        let mut ahead = rows.iter().filter(|row| row.compound.least() > row.two.most()).peekable();
        if ahead.peek().is_none() {
            return format!("untried: that {reason}; no row of slower clients has it");
        }
        let keeps = |row: &&Self| Check::at_most(tails, "read_64_us_max", row.read_p90_us).holds;
        match ahead.find(keeps) {
            None => format!("{reason}; tried in the rows of slower clients"),
            Some(row) => {
                format!("tried, and not so: that {reason}; {}", row.told())
            }
        }
    }
}

fn contended(context: &mut Context<'_>, isolated: &Throughput) -> Result<Outcome, Error> {
    let sizes: &[u32] = if context.options.quick { &[64, 4_096] } else { &CONTENDED_SIZES };
    let found = Throughput::measure(context, &CONTENDED_METHODS, sizes, true)?;
    let mut checks = Vec::new();
    for other in [READ_2, READ_POLL, WRITE_SEND, SEND_SEND] {
        let small = those(sizes, |size| size <= 256);
        let large = those(sizes, |size| size > 256);
        checks.extend(found.beats([READ, other], &small, 1.0));
        checks.extend(found.beats([READ, other], &large, LEVEL));
    }
    let (mut otherwise, mut reason) = (String::new(), String::new());
    if context.is_simulated() {
        let rows = Slower::measure(context)?;
        let told: Vec<String> = rows.iter().map(Slower::told).collect();
        otherwise = format!(
            "; million a second at 64 B if clients worked longer for each completion: {}",
            told.join("; ")
        );
        reason = Slower::reason(&rows, &context.claim(TAIL)?);
    }
    for check in found.beats([WRITE_SEND, READ_2], &those(sizes, |size| size <= 1_024), 1.0) {
        checks.push(check.because(&*reason));
    }
    for method in CONTENDED_METHODS {
        for &size in sizes {
            let ratio = found.p90_us(method, size) / isolated.p90_us(method, size);
            if ratio.is_nan() {
                continue;
            }
            let text = format!(
                "{} at {size} B: 90th percentile within a factor of 2 of figure 2b's: {}",
                method.name(),
                short(ratio)
            );
            checks.push(Check::event(text, (0.5..=2.0).contains(&ratio)));
        }
    }
    let figures = vec![
        found.figure(
            ("le19-figure-4a", "Figure 4a: throughput with a task that never waits on every core"),
            ("rate", "million_per_second"),
            |row| &row.rate,
        ),
        found.figure(
            ("le19-figure-4b", "Figure 4b: 90th percentile of latency in figure 4a"),
            ("latency", "us"),
            |row| &row.p90_us,
        ),
    ];
    Ok(Outcome {
        claim: context.claim(CONTENDED)?,
        ran: format!(
            "{CLIENTS} clients, {WINDOW} outstanding each, to a server of eight processes; a task that \
             never waits on every core, each somewhere in its slice; {FRAMES}"
        ),
        scale: Some("0.1 s instead of 10".to_owned()),
        measured: format!(
            "{}; {}{otherwise}",
            found.told(&CONTENDED_METHODS, "million a second", |row| &row.rate),
            found.told(&CONTENDED_METHODS, "p90 in us", |row| &row.p90_us),
        ),
        checks,
        figures,
    })
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    let (mut outcomes, found) = isolated(context)?;
    outcomes.push(contended(context, &found)?);
    Ok(outcomes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::of_paper;

    #[test]
    fn a_reason_that_its_rows_contradict_is_printed_as_one() {
        let claims = of_paper("le19").unwrap();
        let tails = claims.iter().find(|claim| claim.id == TAIL).unwrap();
        let row = |compound: f64, read_p90_us| Slower {
            work_us: 1.5,
            two: Spread::from(vec![1.24, 1.3]),
            compound: Spread::from(vec![compound, 1.8]),
            read: Spread::from(vec![5.7]),
            read_p90_us,
        };
        let said = |row| Slower::reason(&[row], tails);
        assert!(said(row(1.29, 33.0)).starts_with("untried: that "));
        assert!(said(row(1.34, 35.0)).starts_with("with clients that are slow enough "));
        let not_so = said(row(1.34, 33.0));
        assert!(not_so.starts_with("tried, and not so: that with clients "), "{not_so}");
        assert!(
            not_so.contains("; with 1.5 us of work READ-Intr-2 1.24 (1.24 to 1.30) "),
            "{not_so}"
        );
    }
}
