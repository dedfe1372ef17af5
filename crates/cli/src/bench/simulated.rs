//! Where a run happens: on the NICs of this machine, or on simulated hosts.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use bench::load::Tally;
use bench::plan::Plan;
use bench::report::Report;
use bench::session::{Ran, Watcher};
use bench::simulation::{self, Simulated, TESTBEDS};
use clap::Args;

use super::failure;
use super::nics::{Common, Nics, World};
use crate::failure::Failure;

#[derive(Debug, Args)]
pub(super) struct SimulatedHosts {
    /// Simulated hosts: cx3-10g-arm, cx3-40g-ethernet, cx3-40g-xeon, cx3-56g-xeon, cx4-100g-power8, or a
    /// file like those of studies/testbeds/
    #[arg(long, value_name = "NAME|FILE")]
    testbed: Option<String>,

    /// How many simulated hosts there are under one switch: h0 serves, the others ask
    #[arg(long, value_name = "NUMBER", conflicts_with = "topology")]
    hosts: Option<u32>,

    /// A file with the table of a scenario's topology, for simulated hosts
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,

    /// Of what is left to chance in a simulation
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
}

impl SimulatedHosts {
    /// A flag that means nothing elsewhere.
    fn first(&self) -> Option<&'static str> {
        let flags = [
            ("--testbed", self.testbed.is_some()),
            ("--hosts", self.hosts.is_some()),
            ("--topology", self.topology.is_some()),
            ("--seed", self.seed.is_some()),
        ];
        flags.into_iter().find(|(_, is_given)| *is_given).map(|(flag, _)| flag)
    }

    fn open(&self) -> Result<Simulated, Failure> {
        let names: Vec<&str> = TESTBEDS.iter().map(|(name, _)| *name).collect();
        let name = self.testbed.as_deref().ok_or_else(|| {
            Failure::new("the world sim needs a testbed")
                .hint(format!("--testbed {}, or a file", names.join(", ")))
        })?;
        let known = TESTBEDS.iter().find(|(known, _)| *known == name);
        let text = match known {
            Some((_, text)) => (*text).to_owned(),
            None => fs::read_to_string(name).map_err(|error| {
                Failure::new(format!("{name} is no testbed, and cannot be read as a file: {error}"))
                    .hint(format!("the testbeds are {}", names.join(", ")))
            })?,
        };
        let seed = self.seed.unwrap_or(1);
        let simulated = Simulated::new(&text, self.hosts.unwrap_or(2), seed)
            .map_err(|error| failure(error.within(name)))?;
        let Some(path) = &self.topology else { return Ok(simulated) };
        let text = fs::read_to_string(path).map_err(|error| {
            Failure::new(format!("cannot read {}: {error}", path.display()))
                .hint("name a file with the [topology] of a scenario")
        })?;
        simulated.on(&text).map_err(|error| failure(error.within(path.display())))
    }
}

/// See the module.
#[derive(Debug)]
pub(super) enum Place {
    Real(Nics),
    Simulated(Box<Simulated>),
}

impl Place {
    pub(super) fn open(
        common: &Common,
        simulated: &SimulatedHosts,
        address: Option<&str>,
    ) -> Result<Self, Failure> {
        let nothing = |flag: &str, hint: &str| {
            let message = format!("{flag} means nothing in the world {}", common.world.name());
            Err(Failure::new(message).hint(hint.to_owned()))
        };
        if common.world != World::Sim {
            return match simulated.first() {
                Some(flag) => nothing(flag, "add --world sim, or leave it out"),
                None => Nics::open(common).map(Self::Real),
            };
        }
        let of_nics = common.first().or(address.map(|_| "--connect"));
        match of_nics {
            Some(flag) => nothing(flag, "leave it out: simulated hosts are those of the testbed"),
            None => Ok(Self::Simulated(Box::new(simulated.open()?))),
        }
    }

    /// A report, without runs.
    pub(super) fn report(&self, world: World, address: Option<&str>) -> Report {
        match self {
            Self::Real(nics) => Report::measured(world.name(), &nics.about(address)),
            Self::Simulated(simulated) => Report::simulated(&simulated.about()),
        }
    }

    pub(super) fn run(
        &self,
        plan: &Plan,
        address: Option<&str>,
        tallies: &[Arc<Tally>],
        watcher: &mut dyn Watcher,
    ) -> Result<Ran, Failure> {
        match (self, address) {
            (Self::Real(nics), None) => nics.run(plan, tallies, watcher),
            (Self::Real(nics), Some(address)) => nics.connect(plan, address, tallies, watcher),
            (Self::Simulated(simulated), _) => {
                simulation::run(plan, simulated, tallies, watcher).map_err(failure)
            }
        }
    }
}
