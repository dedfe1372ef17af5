//! What the papers say of a question, as far as a claim does, and what became of that claim.

use bench::plan::{Verb, WaitMode};

use super::grid::Way;
use super::{Goal, Load, Question};
use crate::claims::{Claim, of_paper};
use crate::fitted::fitted;
use crate::le19::Method;
use crate::{Error, Verdict};

/// A claim, and the ways that it puts before the others.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Said {
    pub(super) claim: &'static str,
    ways: Vec<Way>,
    /// What its runs were of, if they were of less than what is asked.
    pub(super) runs: &'static str,
}

/// How what is advised agrees with a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Agrees {
    /// All of the ways that are advised, and that the paper has, are those that it puts ahead.
    Yes,
    /// Some are, and others are level with them here.
    Level,
    /// None is.
    No,
}

impl Said {
    /// How `ways` agree with it. The papers poll no CQ for READs, and so say nothing of that.
    pub(super) fn agrees(&self, ways: &[Way]) -> Agrees {
        let known = || ways.iter().filter(|way| !matches!(way, Way::Small(Method::ReadCq(_))));
        let ahead = known().filter(|way| self.ways.contains(way)).count();
        match ahead {
            0 => Agrees::No,
            _ if ahead == known().count() => Agrees::Yes,
            _ => Agrees::Level,
        }
    }

    pub(super) fn names(&self) -> String {
        self.ways.iter().map(|way| way.name()).collect::<Vec<_>>().join(" or ")
    }
}

/// What a claim of the papers says of a question.
pub(super) fn says(question: Question) -> Option<Said> {
    let Question { size, depends, load, goal } = question;
    let small = |claim, methods: &[Method]| {
        let ways = methods.iter().copied().map(Way::Small).collect();
        Some(Said { claim, ways, runs: "" })
    };
    let large = |claim, wait, runs| {
        let ways = [Verb::Read, Verb::Write, Verb::Send].map(|verb| Way::Large(verb, wait));
        Some(Said { claim, ways: ways.into(), runs })
    };
    let read = Method::ReadIntr(depends);
    let compound = [Method::WriteSendPoll, Method::SendSendIntr];
    match (goal, load, depends, size) {
        (Goal::Processor, Load::Idle, 1, 1_000_000..) => {
            large("zhang17.fig3.cpu", WaitMode::Event, ", of WRITEs alone")
        }
        (Goal::Throughput, Load::Beside, 1, 1_000_000..) => {
            large("zhang17.fig4b", WaitMode::Poll, ", of WRITEs alone")
        }
        (Goal::Latency, Load::Idle, 1, ..=256) => small("le19.fig1.read-poll", &[Method::ReadPoll]),
        (Goal::Latency, Load::Busy, 1, ..=256) => {
            small("le19.fig3.contention-latency", &[read, Method::ReadPoll])
        }
        (Goal::Latency, Load::Busy, 1, 4_096) => small("le19.fig3.contention-latency", &[read]),
        (Goal::Throughput, Load::Idle, 1, ..=4_096) => {
            small("le19.fig2a.ops-bound", &[read, Method::ReadPoll])
        }
        (Goal::Throughput, Load::Idle, 2, ..=64) => small("le19.fig2a.dependent-reads", &[read]),
        (Goal::Throughput, Load::Idle, 2, ..=4_096) => {
            small("le19.fig2a.dependent-reads", &[Method::WriteSendPoll])
        }
        (Goal::Throughput, Load::Idle, 3, ..=64) => {
            small("le19.fig2a.dependent-reads", &[read, Method::WriteSendPoll])
        }
        (Goal::Throughput, Load::Busy, 1, ..=4_096) => {
            small("le19.fig4.contention-throughput", &[read])
        }
        (Goal::Throughput, Load::Busy, 2, ..=4_096) => {
            small("le19.fig4.contention-throughput", &compound)
        }
        _ => None,
    }
}

/// The claims, with what they came to.
pub(super) struct Records(Vec<Claim>);

impl Records {
    pub(super) fn read() -> Result<Self, Error> {
        let mut all = Vec::new();
        for paper in ["le19", "zhang17"] {
            let claims = of_paper(paper);
            all.extend(claims.map_err(|error| Error::Claims(error.to_string()))?);
        }
        Ok(Self(all))
    }

    /// Why a claim is no support, if it is none: it does not hold in all its parts, a number was fitted on it,
    /// or it did not hold before its experiment was mended.
    pub(super) fn doubt(&self, id: &str) -> Option<&'static str> {
        let claim = self.0.iter().find(|claim| claim.id == id);
        match claim.map(|claim| (claim.first_run, claim.now)) {
            None | Some((_, None | Some(Verdict::DoesNotHold))) => {
                Some("does not hold in all its parts")
            }
            Some(_) if !fitted(id).is_empty() => Some("was fitted"),
            Some((None | Some(Verdict::DoesNotHold), _)) => {
                Some("holds since its experiment was mended")
            }
            Some(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_that_is_named_exists() {
        let records = Records::read().unwrap();
        let mut said = 0;
        for size in [64, 1_024, 4_096, 1_000_000] {
            for depends in 1..=3 {
                for load in [Load::Idle, Load::Busy, Load::Beside] {
                    for goal in [Goal::Latency, Goal::Throughput, Goal::Processor] {
                        let Some(of) = says(Question { size, depends, load, goal }) else {
                            continue;
                        };
                        assert!(records.0.iter().any(|claim| claim.id == of.claim), "{of:?}");
                        assert!(!of.names().is_empty());
                        said += 1;
                    }
                }
            }
        }
        assert!(said > 10, "{said}");
        assert_eq!(records.doubt("no.such"), Some("does not hold in all its parts"));
        assert_eq!(
            records.doubt("zhang17.fig3.cpu"),
            Some("holds since its experiment was mended")
        );
        assert_eq!(records.doubt("le19.fig1.send-send"), None);
    }

    #[test]
    fn what_ties_with_all_others_does_not_agree_with_a_paper_that_has_an_order() {
        let question =
            Question { size: 4_096, depends: 1, load: Load::Idle, goal: Goal::Throughput };
        let said = says(question).unwrap();
        let [read, memory, cq, send] =
            [Method::ReadIntr(1), Method::ReadPoll, Method::ReadCq(1), Method::SendSendIntr]
                .map(Way::Small);
        assert_eq!(said.agrees(&[read]), Agrees::Yes);
        assert_eq!(said.agrees(&[read, memory, cq]), Agrees::Yes);
        assert_eq!(said.agrees(&Way::of(1, 4_096)), Agrees::Level);
        assert_eq!(said.agrees(&[send]), Agrees::No);
        // The paper has no such way.
        assert_eq!(said.agrees(&[cq]), Agrees::No);
    }
}
