//! `[nic.NAME]` and `[switch.NAME]`: what a congestion controller and a load balancer that are not ours are set to.

use rdma::{Setting, Values};
use transport::congestion::{Congestion, Custom};

use crate::extend::Extensions;
use crate::scenario::at::{At, Result};
use crate::scenario::error::{Mistakes, ScenarioError};
use crate::scenario::place::Place;
use crate::scenario::table::{Pass, Table};
use crate::scenario::value::{Value, within};
use crate::switch::config::Balance;

/// The tables that stand in `[nic]`.
pub(super) const CONTROLLERS: usize = 0;
/// The tables that stand in `[switch]`.
pub(super) const BALANCERS: usize = 1;

/// What is written in the tables of extensions, which stand in this one.
#[derive(Debug, Default)]
pub(super) struct Theirs<const OF: usize>(Vec<Option<Said>>);

/// The table of one extension.
#[derive(Clone, Debug)]
struct Said {
    name: &'static str,
    place: Place,
    /// What is written in it.
    numbers: Vec<(&'static Setting, u64)>,
}

/// Their names, what they are and what they can be set to.
pub(super) type Known = Vec<(&'static str, &'static str, &'static [Setting])>;

pub(super) fn known<const OF: usize>(extensions: &Extensions) -> Known {
    if OF == CONTROLLERS {
        let all = extensions.controllers().iter();
        all.map(|kind| (kind.name(), kind.about(), kind.settings())).collect()
    } else {
        let all = extensions.balancers().iter();
        all.map(|kind| (kind.name(), kind.about(), kind.settings())).collect()
    }
}

impl<'a, const OF: usize> Table<'a> for Theirs<OF> {
    const ABOUT: &'static str = "What extensions are set to.";

    fn pass(&mut self, pass: &mut Pass<'a, '_>) {
        let known = match pass {
            Pass::Name { extensions, .. } => known::<OF>(extensions),
            Pass::Read { at, .. } => known::<OF>(at.extensions()),
            // They are described by themselves.
            Pass::Describe { .. } => return,
        };
        self.0.resize_with(known.len(), || None);
        for ((name, about, settings), said) in known.into_iter().zip(&mut self.0) {
            pass.key(name, about, &table_of(name, settings), said);
        }
    }
}

/// A table of numbers.
fn table_of<'a>(name: &'static str, settings: &'static [Setting]) -> Value<'a, Option<Said>> {
    Value::in_place(
        "a table",
        move |entry, out: &mut Option<Said>| {
            let at = entry.table()?;
            let numbers = numbers(settings, &[], &at)?;
            *out = Some(Said { name, place: at.itself(), numbers });
            Ok(())
        },
        |_, _| "none".to_owned(),
    )
}

/// The numbers that are written in a table, which has no other keys but `others`.
pub(super) fn numbers(
    settings: &'static [Setting],
    others: &[&'static str],
    at: &At<'_>,
) -> Result<Vec<(&'static Setting, u64)>> {
    let mut mistakes = Mistakes::default();
    let names: Vec<&'static str> =
        settings.iter().map(Setting::key).chain(others.iter().copied()).collect();
    mistakes.note(at.only(&names));
    let mut numbers = Vec::new();
    for setting in settings {
        let Some(entry) = at.entry(setting.key()) else { continue };
        let (least, most) = setting.bounds();
        let number = within(least, most, "").get(&entry);
        numbers.extend(mistakes.note(number).map(|number| (setting, number)));
    }
    mistakes.first().map(|()| numbers)
}

impl<const OF: usize> Theirs<OF> {
    /// Sets the values of the one that is chosen. `chosen` has its name, and says its values, if it is an
    /// extension; `key` chooses it.
    fn set(&self, name: &str, values: Option<&mut Values>, key: &str) -> Result<()> {
        let mut values = values;
        for said in self.0.iter().flatten() {
            match &mut values {
                Some(values) if said.name == name => {
                    said.numbers.iter().for_each(|(setting, number)| values.set(setting, *number));
                }
                _ => {
                    let wrong =
                        ScenarioError::at_place(&said.place, "nothing obeys these settings");
                    let hint = format!("add {key} = \"{}\" to the table that it is in", said.name);
                    return Err(wrong.hint(hint));
                }
            }
        }
        Ok(())
    }
}

impl Theirs<CONTROLLERS> {
    /// Sets the controller of a NIC.
    pub(super) fn obey(&self, congestion: &mut Congestion) -> Result<()> {
        let name = congestion.name();
        let values = match congestion {
            Congestion::Custom(Custom { values, .. }) => Some(values),
            _ => None,
        };
        self.set(name, values, "congestion")
    }
}

impl Theirs<BALANCERS> {
    /// Sets the balancer of a switch.
    pub(super) fn balance(&self, balance: &mut Balance) -> Result<()> {
        let name = balance.name();
        let values = match balance {
            Balance::Custom(custom) => Some(&mut custom.values),
            _ => None,
        };
        self.set(name, values, "balance")
    }
}
