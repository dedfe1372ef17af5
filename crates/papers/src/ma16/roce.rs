//! III and IV, as far as they are about RoCE.

use rdma::QpType;

use super::{Batch, latency, throughput};
use crate::draws::Spread;
use crate::figure::{Figure, Mark};
use crate::outcome::short;
use crate::study::Context;
use crate::{Check, Error, Outcome};

const SERVICES: &str = "ma16.fig4.rc-uc-latency";
const ACKS: &str = "ma16.fig5.rc-uc-throughput";
const ALONE: &str = "ma16.fig7.latency";
const BATCHES: &str = "ma16.fig9.hw-batching";
const LATENCIES: &str = "ma16.fig10.hw-batching-latency";
pub(super) const CLAIMS: &[&str] = &[SERVICES, ACKS, ALONE, BATCHES, LATENCIES];

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
            measured: format!("Gb/s in all by size, headers counted: {}", told(1)),
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

fn batches(context: &mut Context<'_>) -> Result<Vec<Outcome>, Error> {
    let grid = Grid::measure(context)?;
    let ran = "UC, SENDs of 1 to 32 packets, a piece of memory each, from one core to another";
    let [alone, claim, linear] = [ALONE, BATCHES, LATENCIES].map(|id| context.claim(id));
    let (alone, claim, linear) = (alone?, claim?, linear?);
    let limit = ("the paper's most", alone.value("roce_us_max"));
    let lowest = PACKETS.map(|packet| {
        let what = format!("a packet of {packet} B");
        Check::order((&what, grid.at(packet, 1).0), limit, "us").of_machine()
    });
    let single = grid.0.iter().filter(|row| row.1 == 1).map(|row| format!("{} B {}", row.0, row.2));
    let single = single.collect::<Vec<_>>().join(", ");
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
    let mut grows: Vec<Check> = PACKETS
        .into_iter()
        .map(|packet| {
            let points: Vec<(f64, f64)> =
                grid.of(packet).map(|row| (f64::from(row.1), row.2.median())).collect();
            let what = format!("{packet} B: variance that no line explains");
            Check::order((&what, bent(&points)), ("a hundredth", BENT), "")
        })
        .collect();
    grows.push(Check::number(&linear, "longest_us", grid.at(1_500, 32).0).of_machine());
    let latencies = grid.figure(
        ("ma16-figure-10", "Figure 10: median one-way latency of hardware-assisted batching"),
        ("latency", "us"),
        |row| &row.2,
    );
    let rates = grid.figure(
        ("ma16-figure-9", "Figure 9: throughput of hardware-assisted batching, both directions"),
        ("throughput", "gbps"),
        |row| &row.3,
    );
    let part = |what: &str| Some(format!("RoCE alone: {what}"));
    let outcome = |claim, ran: &str, scale, measured, checks, figures| Outcome {
        claim,
        ran: ran.to_owned(),
        scale,
        measured,
        checks,
        figures,
    };
    let us = grid.told(|row| &row.2);
    Ok(vec![
        outcome(
            alone,
            "UC, SENDs of one packet, from one core to another",
            part("Ethernet by a poll-mode driver is not modelled"),
            format!("us {single}"),
            lowest.into(),
            Vec::new(),
        ),
        outcome(
            claim,
            ran,
            part("not held against Ethernet, which is not modelled"),
            format!("Gb/s, headers counted, {}", grid.told(|row| &row.3)),
            checks,
            vec![rates],
        ),
        outcome(
            linear,
            ran,
            part("not held against Ethernet, which is not modelled"),
            format!("us {us}"),
            grows,
            vec![latencies],
        ),
    ])
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
