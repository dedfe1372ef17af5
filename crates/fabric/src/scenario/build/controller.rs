//! `[nic.dctcp]` and its like: what a controller is set to, by the names of its
//! [`transport::congestion::Key`]s.

use rdma::Rate;
use transport::congestion::{Conflict, Congestion};

use crate::scenario::at::{At, Result};
use crate::scenario::deferred::Deferred;
use crate::scenario::error::ScenarioError;
use crate::scenario::table::{Pass, Table};
use crate::scenario::value::{otherwise, within};

/// Places in [`Congestion::NAMED`].
pub(super) const DCTCP: usize = 0;
pub(super) const TIMELY: usize = 1;
pub(super) const SWIFT: usize = 2;
pub(super) const HPCC: usize = 3;
pub(super) const BBR: usize = 4;

/// What is written of the settings of a controller; what is not is as it was.
#[derive(Debug, Default)]
pub(super) struct Controller<const PLACE: usize>(Vec<Option<u64>>);

impl<'a, const PLACE: usize> Table<'a> for Controller<PLACE> {
    const ABOUT: &'static str = "What a congestion control is set to.";

    fn pass(&mut self, pass: &mut Pass<'a, '_>) {
        let default = Congestion::NAMED[PLACE].1;
        self.0.resize(default.keys().len(), None);
        for (key, said) in default.keys().iter().zip(&mut self.0) {
            let (first, last) = key.range.clone().into_inner();
            let value = otherwise(key.get(&default), within(first, last, ""));
            pass.key(key.key, key.about, &value, said);
        }
    }
}

impl<const PLACE: usize> Controller<PLACE> {
    /// Sets the controller of a NIC. `at` is this table.
    fn set(&self, congestion: &mut Congestion, at: &At<'_>) -> Result<()> {
        let name = Congestion::NAMED[PLACE].0;
        if congestion.name() != name {
            let wrong = ScenarioError::at_place(&at.itself(), "nothing obeys these settings");
            let hint = format!("add congestion = \"{name}\" to the table that it is in");
            return Err(wrong.hint(hint));
        }
        for (key, said) in congestion.keys().iter().zip(&self.0) {
            if let Some(value) = *said {
                key.set(congestion, value);
            }
        }
        Ok(())
    }
}

/// Sets `congestion` to what a NIC's table of a controller says, if it has one; that table is then `at`.
pub(super) fn obey<'t, 'a, const PLACE: usize>(
    table: Option<&'t Deferred<'a, Controller<PLACE>>>,
    congestion: &mut Congestion,
    at: &mut &'t At<'a>,
) -> Result<()> {
    if let Some(table) = table {
        table.read()?.set(congestion, &table.at)?;
        *at = &table.at;
    }
    Ok(())
}

/// Refuses settings that contradict each other where the slowest link of a host that has them is of rate
/// `line`. `at` is the table that has them, or that of a NIC.
pub(super) fn check(congestion: &Congestion, line: Rate, at: &At<'_>) -> Result<()> {
    congestion.at_rate(line).check().map_err(|Conflict { keys, problem, hint }| {
        let wrong = match at.first_of(&keys).or(at.first_of(&["congestion"])) {
            Some(key) => at.wrong(key, problem),
            None => ScenarioError::at_place(&at.itself(), problem),
        };
        wrong.hint(hint)
    })
}
