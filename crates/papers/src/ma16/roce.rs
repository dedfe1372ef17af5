//! III and IV: RoCE, and Ethernet beside it.

use rdma::QpType;

use super::{Batch, But, ethernet, latency, throughput, throughput_but};
use crate::draws::Spread;
use crate::figure::{Figure, Mark};
use crate::outcome::short;
use crate::study::Context;
use crate::{Check, Error, Outcome};

const SERVICES: &str = "ma16.fig4.rc-uc-latency";
const ACKS: &str = "ma16.fig5.rc-uc-throughput";
const BURSTS: &str = "ma16.fig6.ethernet-batched";
const ALONE: &str = "ma16.fig7.latency";
const LATE: &str = "ma16.fig8.batching-latency";
const BATCHES: &str = "ma16.fig9.hw-batching";
const LATENCIES: &str = "ma16.fig10.hw-batching-latency";
pub(super) const CLAIMS: &[&str] = &[SERVICES, ACKS, BURSTS, ALONE, LATE, BATCHES, LATENCIES];

const BOTH: [(QpType, &str); 2] = [(QpType::Rc, "RC"), (QpType::Uc, "UC")];
const MESSAGES: [u32; 11] = [64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768, 65_536];
const PACKETS: [u32; 6] = [64, 128, 256, 512, 1_024, 1_500];
const BATCH: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Medians that do not differ, differ by less: ours.
const SAME: f64 = 1.05;
/// A little above is no more than this: ours.
const LITTLE: f64 = 1.1;
/// What grows linearly leaves less than this of its variance to anything but a line: ours.
const BENT: f64 = 0.01;
/// What is near the line's rate has this part of it: ours.
const NEAR: f64 = 0.9;
const LINE_GBPS: f64 = 40.0;
/// Batches that are level differ by less: ours.
const LEVEL: f64 = 0.01;

/// The part of the variance of y that no line through the points explains.
fn bent(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean = |value: fn(&(f64, f64)) -> f64| points.iter().map(value).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let sum = |value: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(value).sum::<f64>();
    let slope = sum(&|point| (point.0 - x) * (point.1 - y)) / sum(&|point| (point.0 - x).powi(2));
    sum(&|point| (point.1 - y - slope * (point.0 - x)).powi(2))
        / sum(&|point| (point.1 - y).powi(2))
}

/// NICs whose acknowledgements take time of the stage that sends messages: one for each message, at what any
/// packet takes, and one for a window as the testbed has it, at what a message takes.
const OTHER_ACKS: [(&str, &[But]); 2] = [
    ("one acknowledgement for each message", &[("ack_interval_packets", "1")]),
    (
        "an acknowledgement that takes as long as a message",
        &[("transmit_ns", "255"), ("request_out_ns", "0")],
    ),
];
/// Messages of one packet that the stage is the bound of.
const STAGED: [u32; 3] = [64, 256, 1_024];

/// By how much UC is ahead of RC on those.
fn other_acks(context: &mut Context<'_>) -> Result<String, Error> {
    let mut said = String::new();
    for (name, but) in OTHER_ACKS {
        context.say(&format!("figure 5: {name}"));
        let mut ratios = Vec::new();
        for packet in STAGED {
            let mut gbps = |service| {
                let of = Batch { service, packet, batch: 1 };
                throughput_but(context, of, but)
            };
            let (uc, rc) = (gbps(QpType::Uc)?.median(), gbps(QpType::Rc)?.median());
            ratios.push(format!("{:.4}", uc / rc));
        }
        said += &format!("; UC over RC at 64, 256 and 1,024 B with {name} {}", ratios.join(", "));
    }
    Ok(said)
}

fn services(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    let mut latencies = Figure::new(
        "ma16-figure-4",
        "Figure 4: median one-way latency of SENDs, by service",
        Mark::Line,
    )
    .axes(("message", "bytes"), ("latency", "us"));
    let mut rates = Figure::new(
        "ma16-figure-5",
        "Figure 5: throughput of SENDs in both directions, by service",
        Mark::Line,
    )
    .axes(("message", "bytes"), ("throughput", "gbps"));
    let mut rows: Vec<[Vec<Spread>; 2]> = Vec::new();
    for (service, name) in BOTH {
        context.say(&format!("figures 4 and 5: {name}"));
        let mut both = [Vec::new(), Vec::new()];
        for packet in MESSAGES {
            let of = Batch { service, packet, batch: 1 };
            let (us, gbps) = (latency(context, of)?, throughput(context, of)?);
            latencies.point(name, f64::from(packet), us.median());
            rates.point(name, f64::from(packet), gbps.median());
            both[0].push(us);
            both[1].push(gbps);
        }
        rows.push(both);
    }
    let told = |value: usize| {
        let of = |index: usize| {
            let all = rows[index][value].iter().map(ToString::to_string);
            format!("{} {}", BOTH[index].1, all.collect::<Vec<_>>().join(", "))
        };
        format!("{}; {}", of(0), of(1))
    };
    let lines = BOTH.iter().zip(&rows).map(|((_, name), both)| {
        let points: Vec<(f64, f64)> = MESSAGES
            .iter()
            .zip(&both[0])
            .map(|(size, us)| (f64::from(*size), us.median()))
            .collect();
        let what = format!("{name}: variance that no line explains");
        Check::order((&what, bent(&points)), ("a hundredth", BENT), "")
    });
    let mut same: Vec<Check> = lines.collect();
    let mut little = Vec::new();
    for (index, size) in MESSAGES.iter().enumerate() {
        let [us, gbps] =
            [0, 1].map(|value| rows[1][value][index].median() / rows[0][value][index].median());
        same.push(Check::event(
            format!("at {size} B UC's latency is RC's within {SAME}: {}", short(us)),
            (1.0 / SAME..=SAME).contains(&us),
        ));
        little.push(Check::event(
            format!("at {size} B UC's throughput is a little above RC's: {gbps:.4} times"),
            gbps > 1.0 && gbps <= LITTLE,
        ));
    }
    let otherwise = if context.is_simulated() { other_acks(context)? } else { String::new() };
    let ran = |what: &str| format!("SENDs of 64 to 65,536 B, one core at either end; {what}");
    Ok(vec![
        Outcome {
            claim: context.claim(SERVICES)?,
            ran: ran("one at a time, four timestamps"),
            scale: None,
            measured: format!("us by size: {}", told(0)),
            checks: same,
            figures: vec![latencies],
        },
        Outcome {
            claim: context.claim(ACKS)?,
            ran: ran("both directions at once"),
            scale: None,
            measured: format!("Gb/s in all by size, headers counted: {}{otherwise}", told(1)),
            checks: little,
            figures: vec![rates],
        },
    ])
}

/// Every packet and batch: median latency and throughput.
struct Grid(Vec<(u32, u32, Spread, Spread)>);

impl Grid {
    fn measure(context: &mut Context<'_>) -> Result<Self, Error> {
        let mut rows = Vec::new();
        for packet in PACKETS {
            context.say(&format!("figures 7, 9 and 10: packets of {packet} B"));
            for batch in BATCH {
                let of = Batch { service: QpType::Uc, packet, batch };
                rows.push((packet, batch, latency(context, of)?, throughput(context, of)?));
            }
        }
        Ok(Self(rows))
    }

    fn of(&self, packet: u32) -> impl Iterator<Item = &(u32, u32, Spread, Spread)> {
        self.0.iter().filter(move |row| row.0 == packet)
    }

    fn at(&self, packet: u32, batch: u32) -> (f64, f64) {
        let row = self.of(packet).find(|row| row.1 == batch);
        row.map_or((f64::NAN, f64::NAN), |row| (row.2.median(), row.3.median()))
    }

    fn told(&self, value: fn(&(u32, u32, Spread, Spread)) -> &Spread) -> String {
        let one = |packet: u32| {
            let all = self.of(packet).map(|row| value(row).to_string()).collect::<Vec<_>>();
            format!("{packet} B: {}", all.join(", "))
        };
        format!("by batch of 1 to 32: {}", PACKETS.map(one).join("; "))
    }

    fn figure(
        &self,
        (name, title): (&'static str, &str),
        y: (&'static str, &'static str),
        value: fn(&(u32, u32, Spread, Spread)) -> &Spread,
    ) -> Figure {
        let mut figure = Figure::new(name, title, Mark::Line).axes(("batch", "packets"), y);
        for row in &self.0 {
            figure.point(format!("{} B", row.0), f64::from(row.1), value(row).median());
        }
        figure
    }
}

/// What Ethernet reaches, beside which RoCE is held.
struct Ethernet {
    /// By packet: both directions in bursts of 32, and a packet at a time.
    gbps: Vec<Spread>,
    us: Vec<Spread>,
    /// Of 1,500 B by burst.
    late_us: Vec<Spread>,
    /// The longest of these if a check-sum takes 0.5 ns a byte.
    slower_us: Spread,
}

impl Ethernet {
    fn measure(context: &mut Context<'_>) -> Result<Self, Error> {
        context.say("figures 6, 7 and 8: Ethernet");
        let mut all = |of: (u32, u32)| ethernet::latency(context, of, None);
        let us: Result<Vec<Spread>, Error> =
            PACKETS.map(|packet| all((packet, 1))).into_iter().collect();
        let late_us: Result<Vec<Spread>, Error> =
            BATCH.map(|burst| all((1_500, burst))).into_iter().collect();
        let slower_us = ethernet::latency(context, (1_500, 32), Some("0.5"))?;
        let gbps = PACKETS.map(|packet| ethernet::throughput(context, packet));
        let gbps: Result<Vec<Spread>, Error> = gbps.into_iter().collect();
        Ok(Self { gbps: gbps?, us: us?, late_us: late_us?, slower_us })
    }

    fn gbps(&self, packet: u32) -> f64 {
        let place = PACKETS.iter().position(|of| *of == packet);
        place.map_or(f64::NAN, |place| self.gbps[place].median())
    }

    /// The longest latency of a burst.
    fn latest(&self) -> f64 {
        self.late_us.last().map_or(f64::NAN, Spread::median)
    }

    fn bursts(&self, context: &Context<'_>, grid: &Grid) -> Result<Outcome, Error> {
        let claim = context.claim(BURSTS)?;
        let mut figure = Figure::new(
            "ma16-figure-6",
            "Figure 6: throughput of Ethernet in bursts of 32 and of RoCE, both directions",
            Mark::Bar,
        )
        .axes(("packet", ""), ("throughput", "gbps"));
        let mut checks = Vec::new();
        for packet in PACKETS {
            let (ours, theirs) = (self.gbps(packet), grid.at(packet, 1).1);
            let name = format!("{packet} B");
            figure.point("Ethernet", name.as_str(), ours);
            figure.point("RoCE", name.as_str(), theirs);
            let part = if packet <= 256 { 0.5 } else { 1.0 };
            let what = if packet <= 256 { "half of Ethernet" } else { "Ethernet" };
            let check = Check::order(("RoCE", theirs), (what, part * ours), "Gb/s");
            checks.push(Check { text: format!("at {name} {}", check.text), ..check });
        }
        let line = claim.value("line_gbps");
        let near = ("nine tenths of both lines", NEAR * line);
        checks.push(Check::order(near, ("Ethernet at 1500 B", self.gbps(1_500)), "Gb/s"));
        let rates = |all: &mut dyn Iterator<Item = &Spread>| {
            all.map(ToString::to_string).collect::<Vec<_>>().join(", ")
        };
        let of_roce = PACKETS.map(|packet| grid.of(packet).next().map(|row| &row.3));
        Ok(Outcome {
            claim,
            ran: "packets of 64 to 1,500 B both ways from one core to another: Ethernet in bursts of 32, and \
                  UC with a message a packet"
                .to_owned(),
            scale: None,
            measured: format!(
                "Gb/s, headers counted, by packet: Ethernet {}; RoCE {}",
                rates(&mut self.gbps.iter()),
                rates(&mut of_roce.into_iter().flatten())
            ),
            checks,
            figures: vec![figure],
        })
    }

    fn late(&self, context: &Context<'_>, roce_us: f64) -> Result<Outcome, Error> {
        let claim = context.claim(LATE)?;
        let mut figure = Figure::new(
            "ma16-figure-8",
            "Figure 8: median one-way latency of Ethernet packets of 1,500 B, by burst",
            Mark::Line,
        )
        .axes(("burst", "packets"), ("latency", "us"));
        for (burst, us) in BATCH.iter().zip(&self.late_us) {
            figure.point("Ethernet", f64::from(*burst), us.median());
        }
        figure.reference("paper: bursts of 32", claim.value("burst_32_us"));
        let single = self.late_us.first().map_or(f64::NAN, Spread::median);
        let reason = "it is the generator's loop that is measured, and how long its check-sums take is an \
                      estimate: see the row with slower ones";
        let checks = [
            ("burst_32_us", self.latest()),
            ("over_unbatched", self.latest() / single),
            ("over_roce", self.latest() / roce_us),
        ];
        let checks = checks.map(|(name, value)| Check::number(&claim, name, value).because(reason));
        let told: Vec<String> = self.late_us.iter().map(ToString::to_string).collect();
        Ok(Outcome {
            ran: "packets of 1,500 B in bursts of 1 to 32 from the loop of the paper's generator, both ways".to_owned(),
            scale: None,
            measured: format!(
                "us by burst of 1 to 32: {}; of 32, if a check-sum took 0.5 ns a byte instead of 0.2, {}",
                told.join(", "),
                self.slower_us
            ),
            checks: checks.into(),
            figures: vec![figure],
            claim,
        })
    }
}

/// Figure 7: a packet at a time.
fn alone(
    context: &Context<'_>,
    grid: &Grid,
    ethernet: Option<&Ethernet>,
) -> Result<Outcome, Error> {
    let claim = context.claim(ALONE)?;
    let limit = ("the paper's most", claim.value("roce_us_max"));
    let lowest = PACKETS.map(|packet| {
        let what = format!("a packet of {packet} B");
        Check::order((&what, grid.at(packet, 1).0), limit, "us").of_machine()
    });
    let mut checks = Vec::from(lowest);
    let single = grid.0.iter().filter(|row| row.1 == 1).map(|row| format!("{} B {}", row.0, row.2));
    let mut measured = format!("us {}", single.collect::<Vec<_>>().join(", "));
    let mut figure = Figure::new(
        "ma16-figure-7",
        "Figure 7: median one-way latency of a packet at a time",
        Mark::Line,
    )
    .axes(("packet", "bytes"), ("latency", "us"));
    for packet in PACKETS {
        figure.point("RoCE", f64::from(packet), grid.at(packet, 1).0);
    }
    if let Some(ethernet) = ethernet {
        for (packet, us) in PACKETS.iter().zip(&ethernet.us) {
            figure.point("Ethernet", f64::from(*packet), us.median());
        }
        let told: Vec<String> = ethernet.us.iter().map(ToString::to_string).collect();
        measured += &format!("; Ethernet {}", told.join(", "));
        let ends =
            [("ethernet_us_min", ethernet.us.first()), ("ethernet_us_max", ethernet.us.last())];
        for (name, us) in ends {
            checks.push(Check::number(&claim, name, us.map_or(f64::NAN, Spread::median)));
        }
    }
    Ok(Outcome {
        claim,
        ran: "UC, SENDs of one packet, from one core to another; Ethernet, a packet at a time"
            .to_owned(),
        scale: None,
        measured,
        checks,
        figures: vec![figure],
    })
}

/// Figure 9: what batches gain.
fn gains(
    context: &Context<'_>,
    grid: &Grid,
    ethernet: Option<&Ethernet>,
) -> Result<Outcome, Error> {
    let claim = context.claim(BATCHES)?;
    let best = |packet: u32| {
        let rates = BATCH.map(|batch| grid.at(packet, batch).1);
        rates.into_iter().fold(0.0, f64::max)
    };
    let mut checks = Vec::new();
    for packet in [64, 128, 256] {
        let factor = best(packet) / grid.at(packet, 1).1;
        let what = format!("{packet} B: the best batch over none");
        checks.push(Check::between(&claim, &what, factor, ["gain_min", "gain_max"]));
    }
    for packet in [512, 1_024, 1_500] {
        let near = format!("{packet} B: nine tenths of both lines");
        let near = (near.as_str(), NEAR * 2.0 * LINE_GBPS);
        checks.push(Check::order(near, ("the best batch", best(packet)), "Gb/s").of_machine());
    }
    for packet in PACKETS.into_iter().filter(|packet| *packet < 1_500) {
        let of_16 = grid.at(packet, 16).1;
        checks.push(Check::order(
            (
                &format!("{packet} B: the best batch, but for a hundredth"),
                (1.0 - LEVEL) * best(packet),
            ),
            ("that of 16", of_16),
            "Gb/s",
        ));
    }
    for packet in PACKETS.into_iter().filter(|_| ethernet.is_some()) {
        let ours = ethernet.map_or(f64::NAN, |ethernet| ethernet.gbps(packet));
        let close = format!("{packet} B: Ethernet, but for a tenth");
        let close = (close.as_str(), ours / LITTLE);
        checks.push(Check::order(close, ("the best batch", best(packet)), "Gb/s"));
        if packet >= 1_024 {
            let below = format!("{packet} B: the best batch");
            checks.push(Check::order((&below, best(packet)), ("Ethernet", ours), "Gb/s"));
        }
    }
    let figure = grid.figure(
        ("ma16-figure-9", "Figure 9: throughput of hardware-assisted batching, both directions"),
        ("throughput", "gbps"),
        |row| &row.3,
    );
    Ok(Outcome {
        claim,
        ran: BATCHED.to_owned(),
        scale: None,
        measured: format!("Gb/s, headers counted, {}", grid.told(|row| &row.3)),
        checks,
        figures: vec![figure],
    })
}

const BATCHED: &str =
    "UC, SENDs of 1 to 32 packets, a piece of memory each, from one core to another";

/// Figure 10: what batches cost.
fn delays(
    context: &Context<'_>,
    grid: &Grid,
    ethernet: Option<&Ethernet>,
) -> Result<Outcome, Error> {
    let claim = context.claim(LATENCIES)?;
    let mut checks: Vec<Check> = PACKETS
        .into_iter()
        .map(|packet| {
            let points: Vec<(f64, f64)> =
                grid.of(packet).map(|row| (f64::from(row.1), row.2.median())).collect();
            let what = format!("{packet} B: variance that no line explains");
            Check::order((&what, bent(&points)), ("a hundredth", BENT), "")
        })
        .collect();
    let longest = grid.at(1_500, 32).0;
    checks.push(Check::number(&claim, "longest_us", longest).of_machine());
    if let Some(ethernet) = ethernet {
        checks.push(Check::number(&claim, "below_ethernet", ethernet.latest() / longest));
    }
    let figure = grid.figure(
        ("ma16-figure-10", "Figure 10: median one-way latency of hardware-assisted batching"),
        ("latency", "us"),
        |row| &row.2,
    );
    Ok(Outcome {
        claim,
        ran: BATCHED.to_owned(),
        scale: None,
        measured: format!("us {}", grid.told(|row| &row.2)),
        checks,
        figures: vec![figure],
    })
}

fn batches(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    let grid = Grid::measure(context)?;
    let ethernet = match context.is_simulated() {
        true => Some(Ethernet::measure(context)?),
        false => None,
    };
    let mut outcomes = Vec::new();
    if let Some(ethernet) = &ethernet {
        outcomes.push(ethernet.bursts(context, &grid)?);
        outcomes.push(ethernet.late(context, grid.at(1_500, 1).0)?);
    }
    for held in [alone, gains, delays] {
        outcomes.push(held(context, &grid, ethernet.as_ref())?);
    }
    Ok(outcomes)
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    let mut outcomes = services(context)?;
    outcomes.extend(batches(context)?);
    Ok(outcomes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_not_bent_and_a_parabola_is() {
        let of = |value: fn(f64) -> f64| {
            (0..20).map(|x| (f64::from(x), value(f64::from(x)))).collect::<Vec<_>>()
        };
        assert!(bent(&of(|x| 3.0 * x + 1.0)) < 1e-12);
        assert!(bent(&of(|x| x * x)) > 0.05);
    }
}
