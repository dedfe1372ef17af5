//! `ferroce pingmesh`: probes between hosts, and what is sick by what they say.

mod arguments;
mod sim;
mod trial;

pub(crate) use arguments::Pingmesh;

use crate::failure::Failure;

pub(crate) fn run(command: &Pingmesh) -> Result<(), Failure> {
    match command {
        Pingmesh::Sim(arguments) => sim::run(arguments),
        Pingmesh::Trial(arguments) => trial::run(arguments),
    }
}
