//! What runs the experiments of a paper, and finds those that somebody asks for.

use bench::session::Settings;

use crate::claims::{Claim, of_paper};
use crate::draws::{each, seeds};
use crate::hosts::{Hosts, Runs, Seen};
use crate::soft::{self, OnSoft, Rounds, Row};
use crate::{Error, Options, Outcome, Study};

/// What is being run, of how much.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Step<'a> {
    /// What is being run.
    pub text: &'a str,
    /// The number of the experiment, from 1 on.
    pub number: usize,
    /// How many experiments there are.
    pub of: usize,
}

/// What an experiment is given.
pub(crate) struct Context<'a> {
    claims: &'a [Claim],
    pub(crate) options: Options,
    /// The rounds of the experiment that runs on soft NICs, if one does.
    pub(crate) soft: Option<Rounds>,
    /// The number of the experiment that runs, and how many there are.
    number: usize,
    of: usize,
    progress: &'a mut dyn FnMut(&Step<'_>),
}

/// An experiment: the claims that it is about, and how it is run.
pub(crate) struct Experiment {
    pub(crate) claims: &'static [&'static str],
    pub(crate) run: fn(&mut Context<'_>) -> Result<Vec<Outcome>, Error>,
}

/// Runs every experiment of a paper, or those about the claim or figure `only`: the id of a claim or the
/// beginning of one ("storm", "guo16.storm.unprotected"), a figure or a table ("figure-7", "fig7",
/// "table-3"). `progress` is told what is being run. Those of `on_soft` run on soft NICs, too, if the
/// options say so.
pub(crate) fn run(
    paper: &str,
    experiments: &[Experiment],
    on_soft: &[Experiment],
    only: Option<&str>,
    options: Options,
    progress: &mut dyn FnMut(&Step<'_>),
) -> Result<Study, Error> {
    let claims = of_paper(paper).map_err(|error| Error::Claims(error.to_string()))?;
    let wanted = |claim: &Claim| only.is_none_or(|name| is_meant(claim, name));
    some_of(&claims, only)?;
    let is_meant = |experiment: &&Experiment| {
        let about = |claim: &Claim| experiment.claims.contains(&claim.id.as_str());
        claims.iter().any(|claim| about(claim) && wanted(claim))
    };
    let on_soft: Vec<&Experiment> = on_soft.iter().filter(is_meant).collect();
    if options.soft && on_soft.is_empty() {
        let why =
            "--soft: nothing of that is about hosts alone\nhint: leave --soft or the claim out";
        return Err(Error::Soft(why.to_owned()));
    }
    let simulated: Vec<&Experiment> = experiments.iter().filter(is_meant).collect();
    let of = simulated.len() + if options.soft { on_soft.len() } else { 0 };
    let mut context = Context { claims: &claims, options, soft: None, number: 0, of, progress };
    let mut outcomes = Vec::new();
    for experiment in simulated {
        context.number += 1;
        outcomes.extend((experiment.run)(&mut context)?);
    }
    let place = |id: &str| claims.iter().position(|claim| claim.id == id);
    let put_in_order = |outcomes: &mut Vec<Outcome>| {
        outcomes.retain(|outcome| wanted(&outcome.claim));
        outcomes.sort_by_key(|outcome| place(&outcome.claim.id));
    };
    put_in_order(&mut outcomes);
    let mut soft = None;
    if options.soft {
        let mut made = on_soft_nics(&on_soft, &mut context)?;
        put_in_order(&mut made.outcomes);
        soft = Some(made);
    }
    let later = |claim: &&Claim| {
        wanted(claim) && !outcomes.iter().any(|outcome| outcome.claim.id == claim.id)
    };
    let later = claims.iter().filter(later).cloned().collect();
    let unlike = |outcome: &Outcome| {
        let now = outcome.claim.now.filter(|now| *now != outcome.verdict());
        now.map(|now| (outcome.claim.id.clone(), now))
    };
    // A quick run may come to another verdict, and is not what is on record.
    let whole = outcomes.iter().filter(|_| !options.quick);
    let unlike = whole.filter_map(unlike).collect();
    Ok(Study { outcomes, later, soft, unlike })
}

/// The claims that `only` means; all of them if it names none.
///
/// # Errors
/// [`Error::NoSuchClaim`].
pub(crate) fn some_of<'a>(
    claims: &'a [Claim],
    only: Option<&str>,
) -> Result<Vec<&'a Claim>, Error> {
    let wanted = |claim: &&Claim| only.is_none_or(|name| is_meant(claim, name));
    let meant: Vec<&Claim> = claims.iter().filter(wanted).collect();
    if meant.is_empty() {
        let names = claims.iter().map(|claim| in_paper(&claim.id));
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.extend(claims.iter().flat_map(exhibits));
        return Err(Error::NoSuchClaim(only.unwrap_or("").to_owned(), names));
    }
    Ok(meant)
}

/// Runs experiments in rounds of real time.
fn on_soft_nics(experiments: &[&Experiment], context: &mut Context<'_>) -> Result<OnSoft, Error> {
    let settings = Settings::of_environment();
    let settings = settings.map_err(|failure| Error::Soft(failure.to_string()))?;
    let mut made = OnSoft::new(&settings);
    let draws = seeds(context.options);
    for experiment in experiments {
        context.number += 1;
        context.soft = Some(Rounds::new(&settings, context.options));
        let mut outcomes = Vec::new();
        for (round, options) in (1..).zip(&draws) {
            context.say(&format!("round {round} of {} on soft NICs", draws.len()));
            if let Some(rounds) = &mut context.soft {
                rounds.options = *options;
            }
            outcomes = (experiment.run)(context)?;
            if let Some(rounds) = &mut context.soft {
                rounds.end_round();
            }
        }
        if let Some(rounds) = context.soft.take() {
            made.add(experiment.claims.first().copied().unwrap_or_default(), rounds, outcomes);
        }
    }
    Ok(made)
}

/// An id without its paper.
fn in_paper(id: &str) -> &str {
    id.split_once('.').map_or(id, |(_, rest)| rest)
}

/// Whether `name` means `claim`.
fn is_meant(claim: &Claim, name: &str) -> bool {
    let paper = claim.id.split('.').next().unwrap_or("");
    let rest = name.strip_prefix(paper).and_then(|rest| rest.strip_prefix('.'));
    let name = rest.unwrap_or(name);
    let id = in_paper(&claim.id);
    let begins = id
        .strip_prefix(name)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']) && !name.is_empty());
    let long = match name.strip_prefix("fig") {
        Some(number) if !number.starts_with("ure") => format!("figure-{number}"),
        _ => name.to_owned(),
    };
    begins || exhibits(claim).any(|exhibit| exhibit == long)
}

/// The figures and tables that `claim` is about: "figure-7".
fn exhibits(claim: &Claim) -> impl Iterator<Item = String> {
    claim.place.split([',', ';']).flat_map(|part| {
        let (kind, numbers) = part.trim().split_once(' ').unwrap_or_default();
        let kind = kind.strip_suffix('s').unwrap_or(kind).to_owned();
        let is_one = matches!(kind.as_str(), "figure" | "table");
        let numbers = numbers.split(" and ").filter(move |_| is_one);
        numbers.map(move |number| format!("{kind}-{number}")).collect::<Vec<_>>()
    })
}

impl<'a> Context<'a> {
    /// For what is simulated and is about no claim of its own.
    pub(crate) fn without_claims(options: Options, progress: &'a mut dyn FnMut(&Step<'_>)) -> Self {
        Self { claims: &[], options, soft: None, number: 0, of: 0, progress }
    }

    /// Another of `of` experiments begins.
    pub(crate) fn next(&mut self, of: usize) {
        (self.number, self.of) = (self.number + 1, of);
    }

    /// The claim `id`. Experiments name those of the file, as a test checks.
    pub(crate) fn claim(&self, id: &str) -> Result<Claim, Error> {
        let found = self.claims.iter().find(|claim| claim.id == id);
        found.cloned().ok_or_else(|| Error::Claims(format!("there is no claim {id}")))
    }

    /// Whether what runs is simulated.
    pub(crate) fn is_simulated(&self) -> bool {
        self.soft.is_none()
    }

    /// Soft NICs of this machine, if the experiment runs there.
    pub(crate) fn settings(&self) -> Option<&Settings> {
        self.soft.as_ref().map(|rounds| &rounds.settings)
    }

    /// What becomes of flows that run at once: all draws on simulated hosts, or those so far on soft NICs.
    pub(crate) fn runs(
        &mut self,
        hosts: &Hosts,
        flows: &[bench::plan::Flow],
    ) -> Result<Runs, Error> {
        self.draws(|options| hosts.run(options, flows), soft::flows(hosts, flows))
    }

    /// The same of anything that is simulated once for each draw, or a row on soft NICs.
    pub(crate) fn draws(
        &mut self,
        simulated: impl Fn(Options) -> Result<Vec<Seen>, Error> + Sync,
        on_soft: Row,
    ) -> Result<Runs, Error> {
        match &mut self.soft {
            Some(rounds) => Ok(rounds.draw(on_soft)),
            None => Ok(Runs::from(each(&seeds(self.options), simulated)?)),
        }
    }

    /// Says what is being run.
    pub(crate) fn say(&mut self, text: &str) {
        (self.progress)(&Step { text, number: self.number, of: self.of });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{guo16, le19, ma16, zhang17};

    const PAPERS: [(&str, &[Experiment]); 4] = [
        ("guo16", guo16::EXPERIMENTS),
        ("zhang17", zhang17::EXPERIMENTS),
        ("le19", le19::EXPERIMENTS),
        ("ma16", ma16::EXPERIMENTS),
    ];

    #[test]
    fn experiments_are_about_claims_that_there_are_and_no_two_about_one() {
        for (paper, experiments) in PAPERS {
            let claims = of_paper(paper).unwrap();
            let mut named: Vec<&str> =
                experiments.iter().flat_map(|experiment| experiment.claims).copied().collect();
            assert!(named.iter().all(|id| claims.iter().any(|claim| claim.id == *id)), "{named:?}");
            let count = named.len();
            named.sort_unstable();
            named.dedup();
            assert_eq!(named.len(), count);
            for claim in claims.iter().filter(|claim| claim.unmeasured.is_some()) {
                assert!(!named.contains(&claim.id.as_str()), "{}", claim.id);
            }
        }
    }

    #[test]
    fn claims_are_meant_by_id_by_its_beginning_and_by_figure() {
        let meant = |paper: &str, name: &str| -> Vec<String> {
            let claims = of_paper(paper).unwrap();
            let meant = claims.iter().filter(|claim| is_meant(claim, name));
            meant.map(|claim| in_paper(&claim.id).to_owned()).collect()
        };
        assert_eq!(meant("guo16", "storm").len(), 3);
        assert_eq!(meant("guo16", "guo16.storm.nic-watchdog"), ["storm.nic-watchdog"]);
        assert_eq!(meant("guo16", "figure-4"), ["deadlock.flooding"]);
        assert_eq!(meant("guo16", "fig7"), ["fig7.ecmp-throughput"]);
        assert_eq!(meant("guo16", "figure-9"), ["storm.unprotected"]);
        assert_eq!(meant("guo16", "deadlock.drop"), ["deadlock.drop-incomplete-arp"]);
        assert_eq!(meant("guo16", "sto"), [""; 0]);
        assert_eq!(meant("guo16", ""), [""; 0]);
        assert_eq!(meant("zhang17", "figure-6"), ["mouse-mouse"]);
        assert_eq!(meant("zhang17", "table-3"), ["table3"]);
        let error = guo16::run(Some("nothing"), Options::default(), &mut |_| {}).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("livelock.go-back-0") && error.contains(", figure-4, "), "{error}");
    }
}
