//! What is run for the guidance, and which way is the best of a question.

use bench::isolation;
use bench::plan::{Flow, Verb, WaitMode};

use super::{Goal, Load, Question};
use crate::Error;
use crate::draws::Spread;
use crate::hosts::{Hosts, Runs};
use crate::le19::{Crowd, Method, TURN_MS};
use crate::study::Context;

/// The hosts of le19 and of zhang17.
const TESTBEDS: [&str; 3] = ["cx3-10g-arm", "cx3-56g-xeon", "cx4-100g-power8"];
const SIZES: [u32; 3] = [64, 1_024, 4_096];
const QUICK_SIZES: [u32; 2] = [64, 4_096];
/// Large messages, as zhang17's elephants.
const LARGE: u32 = 1_000_000;
const LARGE_VERBS: [(Verb, &str, &str); 3] = [
    (Verb::Read, "READ, polling", "READ, asleep"),
    (Verb::Write, "WRITE, polling", "WRITE, asleep"),
    (Verb::Send, "SEND, polling", "SEND, asleep"),
];
/// Ways that differ by less are level: ours.
const LEVEL: f64 = 0.05;
/// The transfers beside small accesses: so many clients, and bytes.
const BESIDE: (u32, u32) = (16, 4 << 20);

/// A way to have what is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// An object by one of le19's methods.
    Small(Method),
    /// A large message by a verb, and how its end is waited for.
    Large(Verb, WaitMode),
}

impl Way {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Small(method) => method.name(),
            Self::Large(verb, wait) => {
                let names = LARGE_VERBS.iter().find(|of| of.0 == verb);
                names.map_or("", |of| if wait == WaitMode::Poll { of.1 } else { of.2 })
            }
        }
    }

    /// Those of a question.
    pub(super) fn of(depends: u32, size: u32) -> Vec<Self> {
        if size >= LARGE {
            let both = |of: &(Verb, &str, &str)| {
                [WaitMode::Poll, WaitMode::Event].map(|wait| Self::Large(of.0, wait))
            };
            return LARGE_VERBS.iter().flat_map(both).collect();
        }
        // Memory is watched for the last of one READ only.
        let in_memory = (depends == 1).then_some(Method::ReadPoll);
        let reads = [Some(Method::ReadIntr(depends)), in_memory, Some(Method::ReadCq(depends))];
        let compound = [Method::WriteSendPoll, Method::SendSendIntr, Method::SendSendPoll];
        reads.into_iter().flatten().chain(compound).map(Self::Small).collect()
    }
}

/// An object by one of le19's methods. Whoever has it looks at all of it: in le19 who polls the CQ, or is woken
/// for a READ, does not, and so would have nothing to pay for what the others pay for.
fn looked_at(method: Method, size: u32) -> Flow {
    Flow { touch: true, ..method.flow(size) }
}

/// What a way reaches on a testbed: as much better as it is less.
struct Row {
    testbed: &'static str,
    way: Way,
    size: u32,
    load: Load,
    goal: Goal,
    cost: Spread,
}

/// What all of them reach.
pub(super) struct Grid(Vec<Row>);

/// The best ways of a question, and where testbeds or draws do not agree about them.
pub(super) struct Found {
    pub(super) ways: Vec<Way>,
    pub(super) apart: Option<String>,
}

impl Grid {
    pub(super) fn measure(context: &mut Context<'_>) -> Result<Self, Error> {
        let is_quick = context.options.quick;
        let sizes: &[u32] = if is_quick { &QUICK_SIZES } else { &SIZES };
        let testbeds = if is_quick { &TESTBEDS[..2] } else { &TESTBEDS };
        let mut grid = Self(Vec::new());
        for &testbed in testbeds {
            let mut small: Vec<Method> = Vec::new();
            for way in (1..=3).flat_map(|depends| Way::of(depends, 0)) {
                let Way::Small(method) = way else { continue };
                if !small.contains(&method) {
                    small.push(method);
                }
            }
            // The number of ways is the same on each testbed.
            let of = (small.len() + 1) * testbeds.len();
            for method in small {
                context.next(of);
                context.say(&format!("{testbed}: {}", method.name()));
                for &size in sizes {
                    grid.small(context, testbed, method, size)?;
                }
            }
            context.next(of);
            context.say(&format!("{testbed}: large messages"));
            for way in Way::of(1, LARGE) {
                grid.large(context, testbed, way)?;
            }
        }
        Ok(grid)
    }

    /// One access at a time, and all clients at once, under every load.
    fn small(
        &mut self,
        context: &mut Context<'_>,
        testbed: &'static str,
        method: Method,
        size: u32,
    ) -> Result<(), Error> {
        let way = Way::Small(method);
        let crowd = Crowd::of(context);
        let clients = Flow { touch: true, ..method.clients(crowd, size) };
        for load in [Load::Idle, Load::Busy] {
            let runs = on(context, testbed, (2, load), vec![looked_at(method, size)])?;
            let cost = runs.spread(0, |seen| seen.mean_us);
            self.0.push(Row { testbed, way, size, load, goal: Goal::Latency, cost });
            let runs = on(context, testbed, (crowd.clients + 1, load), vec![clients.clone()])?;
            self.rates(testbed, way, (size, load), &runs);
        }
        let (count, bytes) = BESIDE;
        let large = Flow {
            size_bytes: bytes,
            threads: count,
            servers: Some(crowd.servers),
            wait: WaitMode::Event,
            ..Flow::new(Verb::Read)
        };
        let ms = if context.options.quick { 1.0 } else { 4.0 };
        let hosts = Hosts::of(testbed, crowd.clients + 1).after_ms(ms).for_ms(ms);
        let runs = context.runs(&hosts, &[clients, large])?;
        // The processor time is that of both flows.
        let (load, goal) = (Load::Beside, Goal::Throughput);
        let cost = runs.spread(0, |seen| 1e6 / seen.rate);
        self.0.push(Row { testbed, way, size, load, goal, cost });
        Ok(())
    }

    fn large(
        &mut self,
        context: &mut Context<'_>,
        testbed: &'static str,
        way: Way,
    ) -> Result<(), Error> {
        let Way::Large(verb, wait) = way else { return Ok(()) };
        let flow = isolation::kind(verb, LARGE, wait);
        let other = isolation::kind(Verb::Write, LARGE, WaitMode::Event);
        let hosts = Hosts::pair(testbed).after_ms(4.0).for_ms(8.0);
        let alone = context.runs(&hosts, core::slice::from_ref(&flow))?;
        self.rates(testbed, way, (LARGE, Load::Idle), &alone);
        let beside = context.runs(&hosts, &[flow, other])?;
        let (size, load, goal) = (LARGE, Load::Beside, Goal::Throughput);
        let cost = beside.spread(0, |seen| 1.0 / seen.serial_gbps);
        self.0.push(Row { testbed, way, size, load, goal, cost });
        Ok(())
    }

    /// Time and processor time of a message, where all that runs is the one flow.
    fn rates(&mut self, testbed: &'static str, way: Way, (size, load): (u32, Load), runs: &Runs) {
        let cost = runs.spread(0, |seen| 1e6 / seen.rate);
        self.0.push(Row { testbed, way, size, load, goal: Goal::Throughput, cost });
        let cost = runs.spread(0, |seen| 1e6 * seen.all_cores / seen.rate);
        self.0.push(Row { testbed, way, size, load, goal: Goal::Processor, cost });
    }

    pub(super) fn testbeds(&self) -> Vec<&'static str> {
        let mut all: Vec<&'static str> = self.0.iter().map(|row| row.testbed).collect();
        all.dedup();
        all
    }

    /// All that can be answered, with sizes side by side.
    pub(super) fn questions(&self) -> Vec<Question> {
        let mut sizes: Vec<u32> = self.0.iter().map(|row| row.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let mut all = Vec::new();
        for (depends, is_large) in [(1, false), (2, false), (3, false), (1, true)] {
            for load in [Load::Idle, Load::Busy, Load::Beside] {
                for goal in [Goal::Latency, Goal::Throughput, Goal::Processor] {
                    let of = sizes.iter().filter(|size| (**size >= LARGE) == is_large);
                    let asked = of.map(|&size| Question { size, depends, load, goal });
                    all.extend(asked.filter(|question| self.of(*question).next().is_some()));
                }
            }
        }
        all
    }

    /// The rows of a question.
    fn of(&self, question: Question) -> impl Iterator<Item = &Row> {
        let ways = Way::of(question.depends, question.size);
        self.0.iter().filter(move |row| {
            let asked = (row.size, row.load, row.goal);
            ways.contains(&row.way) && asked == (question.size, question.load, question.goal)
        })
    }

    /// The ways that are level with the best in every draw on every testbed. If there are none, those whose
    /// medians are, on every testbed or else on each, and what is not the same.
    pub(super) fn best(&self, question: Question) -> Found {
        let testbeds = self.testbeds();
        let on = |testbed: &str| -> Vec<&Row> {
            self.of(question).filter(|row| row.testbed == testbed).collect()
        };
        let level = |rows: &[&Row], value: &dyn Fn(&Row) -> f64| -> Vec<Way> {
            let least = rows.iter().map(|row| value(row)).fold(f64::INFINITY, f64::min);
            let mut ways = Way::of(question.depends, question.size);
            let is_near = |row: &&&Row| value(row) <= least * (1.0 + LEVEL);
            ways.retain(|way| rows.iter().filter(is_near).any(|row| row.way == *way));
            ways
        };
        let common = |sets: &[Vec<Way>]| -> Vec<Way> {
            let first = sets.first().cloned().unwrap_or_default();
            first.into_iter().filter(|way| sets.iter().all(|set| set.contains(way))).collect()
        };
        let mut of_draws = Vec::new();
        let mut of_medians = Vec::new();
        for testbed in &testbeds {
            let rows = on(testbed);
            let draws = rows.first().map_or(0, |row| row.cost.draws().len());
            for draw in 0..draws {
                let value = |row: &Row| row.cost.draws().get(draw).copied().unwrap_or(f64::NAN);
                of_draws.push(level(&rows, &value));
            }
            of_medians.push(level(&rows, &|row| row.cost.median()));
        }
        let ways = common(&of_draws);
        if !ways.is_empty() {
            return Found { ways, apart: None };
        }
        let ways = common(&of_medians);
        if !ways.is_empty() {
            return Found { ways, apart: Some("draws differ".to_owned()) };
        }
        let said = testbeds.iter().zip(&of_medians).map(|(testbed, of)| {
            let names: Vec<&str> = of.iter().map(|way| way.name()).collect();
            format!("{testbed} {}", names.join(" or "))
        });
        let apart = format!("testbeds differ: {}", said.collect::<Vec<_>>().join(", "));
        let mut ways = Way::of(question.depends, question.size);
        ways.retain(|way| of_medians.iter().any(|of| of.contains(way)));
        Found { ways, apart: Some(apart) }
    }
}

/// Flows on so many hosts of a testbed, with or without a task on every core.
fn on(
    context: &mut Context<'_>,
    testbed: &'static str,
    (count, load): (u32, Load),
    flows: Vec<Flow>,
) -> Result<Runs, Error> {
    let hosts = Hosts::of(testbed, count);
    let is_quick = context.options.quick;
    if load != Load::Busy {
        let ms = if is_quick { 0.5 } else { 1.0 };
        return context.runs(&hosts.after_ms(ms).for_ms(2.0 * ms), &flows);
    }
    // A pair meets every phase of the two slices in some turns, a crowd in one.
    let (before, turns) = match (count, is_quick) {
        (2, false) => (1.0, 10.0),
        (2, true) => (0.5, 2.5),
        (_, false) => (1.0, 1.0),
        (_, true) => (0.25, 0.25),
    };
    let cores = hosts.cores()?;
    let hosts = hosts.with_hogs(cores).after_ms(before * TURN_MS).for_ms(turns * TURN_MS);
    let later = |flow: Flow| Flow { start_within_ms: before * TURN_MS, ..flow };
    context.runs(&hosts, &flows.into_iter().map(later).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_polls_the_cq_pays_for_the_look_that_who_watches_memory_pays_for() {
        let us = |method| {
            let hosts = Hosts::pair(TESTBEDS[0]).for_ms(1.0);
            let options = crate::Options::default();
            hosts.run(options, &[looked_at(method, 4_096)]).unwrap()[0].mean_us
        };
        let ways = Way::of(1, 4_096);
        assert!(ways.contains(&Way::Small(Method::ReadCq(1))));
        let [memory, cq, asleep] =
            [Method::ReadPoll, Method::ReadCq(1), Method::ReadIntr(1)].map(us);
        // A look at so many bytes takes 10 us there.
        assert!((cq / memory - 1.0).abs() < 0.1 && asleep > memory, "{memory} {cq} {asleep}");
        assert!(!Way::of(2, 64).contains(&Way::Small(Method::ReadPoll)));
    }

    fn row(testbed: &'static str, method: Method, costs: [f64; 2]) -> Row {
        let way = Way::Small(method);
        let cost = Spread::from(costs.into());
        Row { testbed, way, size: 64, load: Load::Idle, goal: Goal::Latency, cost }
    }

    fn best(rows: Vec<Row>) -> (Vec<&'static str>, Option<String>) {
        let (size, depends, load, goal) = (64, 1, Load::Idle, Goal::Latency);
        let found = Grid(rows).best(Question { size, depends, load, goal });
        (found.ways.iter().map(|way| way.name()).collect(), found.apart)
    }

    #[test]
    fn what_is_best_in_every_draw_is_advised_and_what_is_level_with_it() {
        let (intr, poll, send) = (Method::ReadIntr(1), Method::ReadPoll, Method::SendSendIntr);
        let of = |last| vec![row("a", intr, [3.0, 3.1]), row("a", poll, [2.9, 3.2]), last];
        let level = best(of(row("a", send, [4.0, 4.0])));
        assert_eq!(level, (vec!["READ-Intr", "READ-Poll"], None));
        assert_eq!(best(of(row("a", send, [2.0, 2.0]))), (vec!["SEND/SEND-Intr"], None));
        let draws = best(of(row("a", send, [2.0, 5.0])));
        assert_eq!(draws.1.as_deref(), Some("draws differ"));
    }

    #[test]
    fn testbeds_that_differ_are_told() {
        let (intr, poll) = (Method::ReadIntr(1), Method::ReadPoll);
        let rows = vec![
            row("a", intr, [3.0, 3.0]),
            row("a", poll, [2.0, 2.0]),
            row("b", intr, [3.0, 3.0]),
            row("b", poll, [4.0, 4.0]),
        ];
        let (ways, apart) = best(rows);
        assert_eq!(ways, ["READ-Intr", "READ-Poll"]);
        assert_eq!(apart.as_deref(), Some("testbeds differ: a READ-Poll, b READ-Intr"));
    }
}
