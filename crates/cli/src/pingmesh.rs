//! `ferroce pingmesh`: probes between hosts, and what is sick by what they say.

mod agent;
mod arguments;
mod beside;
mod clock;
mod collect;
mod counting;
mod line;
mod load;
mod nic;
mod places;
mod report;
mod sim;
mod spool;
mod tcp;
mod tls;
mod trial;

pub(crate) use arguments::Pingmesh;

use crate::failure::Failure;

pub(crate) fn run(command: &Pingmesh) -> Result<(), Failure> {
    match command {
        Pingmesh::Sim(arguments) => sim::run(arguments),
        Pingmesh::Agent(arguments) => agent::run(arguments),
        Pingmesh::Collect(arguments) => collect::run(arguments),
        Pingmesh::Report(arguments) => report::run(arguments),
        Pingmesh::Load(arguments) => load::run(arguments),
        Pingmesh::Trial(arguments) => trial::run(arguments),
    }
}
