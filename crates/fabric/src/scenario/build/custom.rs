//! What extensions add to a scenario: `[[workload]]` tables of kinds that are not ours, what is said of all extensions
//! in the reference, and which of them are refused.

use rdma::{Setting, Values};
use transport::congestion::Congestion;

use super::nic::Nic;
use super::switch::Switch;
use super::theirs::{BALANCERS, CONTROLLERS, Known, known, numbers};
use super::workload::{Scene, Work, Workload, room, workload as ours};
use crate::extend::{Extensions, HostList, Refusal, SETTINGS_MAX, Traffic, WorkloadKind};
use crate::limits::{OPERATIONS_MAX, REPETITIONS_MAX};
use crate::random::Random;
use crate::scenario::at::{At, Result};
use crate::scenario::deferred::Deferred;
use crate::scenario::error::{Mistakes, ScenarioError};
use crate::scenario::reference::{KeyText, TableText};
use crate::scenario::table::{Kinds as _, Table as _};
use crate::scenario::value::{Value, list, otherwise, text, within};
use crate::switch::config::Balance;
use crate::workload::{self as make, FlowSpec, Job};

/// The kind of a `[[workload]]`, if it is not ours.
fn kind_of(at: &At<'_>) -> Result<Option<&'static WorkloadKind>> {
    let theirs = at.extensions().workloads();
    if theirs.is_empty() {
        return Ok(None);
    }
    let names = theirs.iter().map(|kind| kind.name());
    let names: Vec<&'static str> = Workload::TAGS.iter().copied().chain(names).collect();
    let tag = at.tag("kind", &names)?;
    Ok(theirs.iter().find(|kind| kind.name() == tag).copied())
}

/// A workload of ours or of others, as far as it can be read without a network.
pub(super) fn look(at: &At<'_>) -> Result<()> {
    match kind_of(at)? {
        Some(kind) => said(kind, at).map(drop),
        None => Workload::read(at).map(drop),
    }
}

type Lists = Vec<(&'static HostList, Vec<String>)>;

fn said(kind: &'static WorkloadKind, at: &At<'_>) -> Result<(Values, Lists)> {
    let at = at.of_kind("kind", kind.name(), |_| Vec::new());
    let mut mistakes = Mistakes::default();
    let keys: Vec<&'static str> = kind.lists().iter().map(HostList::key).collect();
    let numbers = mistakes.note(numbers(kind.settings(), &keys, &at));
    let mut lists = Vec::new();
    for of in kind.lists() {
        let Some(entry) = at.entry(of.key()) else { continue };
        let names = mistakes.note(list(text("a host")).get(&entry));
        lists.extend(names.map(|names| (of, names)));
    }
    mistakes.first()?;
    let mut values = Values::of(kind.settings());
    for (setting, number) in numbers.unwrap_or_default() {
        values.set(setting, number);
    }
    Ok((values, lists))
}

/// What a workload adds, ours or not.
pub(super) fn workload(
    table: &Deferred<'_, Workload>,
    scene: &Scene<'_>,
    random: &mut Random,
) -> Result<Work> {
    match kind_of(&table.at)? {
        Some(kind) => added(kind, &table.at, scene, random),
        None => ours(table, scene, random),
    }
}

/// What a workload that is not ours adds.
fn added(
    kind: &'static WorkloadKind,
    at: &At<'_>,
    scene: &Scene<'_>,
    random: &mut Random,
) -> Result<Work> {
    let (values, named) = said(kind, at)?;
    let mut lists = Vec::new();
    for (of, names) in named {
        let mut hosts: Vec<u32> = Vec::new();
        for name in &names {
            let host = super::host(at, scene.topology, of.key(), name)?;
            if hosts.contains(&host) {
                let wrong = at.wrong(of.key(), format!("{name:?} is there twice"));
                return Err(wrong.hint("name it once"));
            }
            hosts.push(host);
        }
        lists.push((of.key(), hosts));
    }
    let (topology, end) = (scene.topology, scene.end);
    let made = kind.make(&mut make::Scene { topology, end, values, lists, random });
    let wrong = |Refusal { key, message, hint }: Refusal| {
        let wrong = at.wrong(key, message);
        hint.map_or(wrong.clone(), |hint| wrong.hint(hint))
    };
    match made.map_err(wrong)? {
        Traffic::Flows(flows) => {
            room(at, flows.len() as f64)?;
            let hosts = topology.hosts.len() as u32;
            let is_lost = |flow: &FlowSpec| flow.source.max(flow.destination) >= hosts;
            match flows.iter().find(|flow| is_lost(flow)) {
                Some(FlowSpec { source, destination, .. }) => {
                    let flow = format!("it makes a flow from host {source} to host {destination}");
                    Err(broken(at, format!("{flow}, and there are {hosts}, from 0 on")))
                }
                None => Ok(Work::Flows(flows)),
            }
        }
        Traffic::Job(job) => check_job(&job, topology.hosts.len(), at).map(|()| Work::Job(job)),
    }
}

/// Refuses a job that the network has no place for.
fn check_job(job: &Job, hosts: usize, at: &At<'_>) -> Result<()> {
    room(at, job.schedule.connections().len() as f64)?;
    let operations = job.schedule.len();
    let turns = u64::from(job.repeat) * u64::from(job.schedule.ranks());
    if operations > OPERATIONS_MAX {
        let much = format!("it makes {operations} operations");
        return Err(broken(at, format!("{much}, and there is room for {OPERATIONS_MAX}")));
    }
    if turns > REPETITIONS_MAX {
        let much = format!("it makes {turns} parts of all ranks");
        return Err(broken(at, format!("{much}, and there is room for {REPETITIONS_MAX}")));
    }
    if job.repeat == 0 {
        return Err(broken(at, "it makes a job that is done no times".to_owned()));
    }
    job.mistake(hosts).map_or(Ok(()), |mistake| Err(broken(at, mistake.to_owned())))
}

fn broken(at: &At<'_>, message: String) -> ScenarioError {
    at.wrong("kind", message).hint("another setting may do; else the workload is to be mended")
}

/// Refuses extensions whose names or keys would hide others.
pub(super) fn sound(extensions: &Extensions) -> Result<()> {
    if extensions.is_empty() {
        return Ok(());
    }
    let none = Extensions::none();
    let plain = ["none", "dcqcn", "fixed"];
    let ours: Vec<&str> =
        plain.into_iter().chain(Congestion::NAMED.map(|(name, _)| name)).collect();
    let balances = Balance::ALL.map(|balance| balance.name());
    let theirs = extensions.workloads().iter();
    let workloads = theirs.map(|kind| {
        let keys = kind.lists().iter().map(HostList::key).collect();
        (kind.name(), kind.settings(), keys)
    });
    let of = |(name, _, settings)| (name, settings, Vec::new());
    let controllers = known::<CONTROLLERS>(extensions).into_iter().map(of);
    let balancers = known::<BALANCERS>(extensions).into_iter().map(of);
    names("congestion", controllers.collect(), &ours, &Nic::names(none))?;
    names("balance", balancers.collect(), &balances, &Switch::names(none))?;
    names("workload", workloads.collect(), Workload::TAGS, &["kind"])
}

type Named = (&'static str, &'static [Setting], Vec<&'static str>);

/// `ours` are the names of ours, and `keys` those of the table in which theirs would stand.
fn names(what: &str, all: Vec<Named>, ours: &[&str], keys: &[&str]) -> Result<()> {
    let is_key = |name: &str| {
        let fits =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        !name.is_empty() && name.bytes().all(fits)
    };
    let mut seen: Vec<&str> = Vec::new();
    for (name, settings, lists) in all {
        let wrong = |message: &str, hint: &str| {
            let error = ScenarioError::of_extension(format!("{what} {name:?} {message}"));
            Err(error.hint(hint))
        };
        let own: Vec<&'static str> =
            settings.iter().map(Setting::key).chain(lists.iter().copied()).collect();
        if !is_key(name) {
            return wrong("has no name for a file", "lower-case letters, digits, - and _");
        }
        if ours.contains(&name) {
            return wrong("has the name of one of ours", "give it another name");
        }
        if what != "workload" && keys.contains(&name) {
            return wrong("has the name of a key beside its table", "give it another name");
        }
        if seen.contains(&name) {
            return wrong("is there twice", "add it once, or give one of them another name");
        }
        if settings.len() > SETTINGS_MAX {
            let hint = format!("{SETTINGS_MAX} at most");
            return wrong("has too many settings", &hint);
        }
        for (index, key) in own.iter().enumerate() {
            if !is_key(key) || *key == "kind" || own[..index].contains(key) {
                let hint = "lower-case letters, digits, - and _, each name once, and not kind";
                return wrong(&format!("has a setting that cannot be called {key:?}"), hint);
            }
        }
        seen.push(name);
    }
    Ok(())
}

/// Adds what extensions have to the reference.
pub(super) fn describe(extensions: &Extensions, texts: &mut Vec<TableText>) {
    let tables = known::<CONTROLLERS>(extensions).into_iter().map(|of| ("nic", of));
    let tables = tables.chain(known::<BALANCERS>(extensions).into_iter().map(|of| ("switch", of)));
    for (table, (name, about, settings)) in tables {
        texts.push(TableText::new(&format!("[{table}.{name}]"), about, keys_of(settings)));
    }
    for kind in extensions.workloads() {
        let mut keys = keys_of(kind.settings());
        for of in kind.lists() {
            let accepts = list(text("a host")).accepts;
            keys.push(KeyText::new(of.key(), of.about(), &accepts, "none".to_owned()));
        }
        let name = format!("[[workload]] kind = {:?}", kind.name());
        texts.push(TableText::new(&name, kind.about(), keys));
    }
    for (table, key, theirs) in [
        ("[nic]", "congestion", names_of(&known::<CONTROLLERS>(extensions))),
        ("[switch]", "balance", names_of(&known::<BALANCERS>(extensions))),
        ("[[workload]]", "kind", extensions.workloads().iter().map(|kind| kind.name()).collect()),
    ] {
        let keys =
            texts.iter_mut().filter(|text| text.name == table).flat_map(|text| &mut text.keys);
        for of in keys.filter(|of| of.name == key && !theirs.is_empty()) {
            let quoted: Vec<String> = theirs.iter().map(|name| format!("{name:?}")).collect();
            of.accepts += &format!("; of extensions {}", quoted.join(", "));
        }
    }
}

fn names_of(known: &Known) -> Vec<&'static str> {
    known.iter().map(|(name, ..)| *name).collect()
}

fn keys_of(settings: &'static [Setting]) -> Vec<KeyText> {
    let of = |setting: &'static Setting| {
        let (least, most) = setting.bounds();
        let value: Value<'_, Option<u64>> = otherwise(setting.default(), within(least, most, ""));
        let default = value.otherwise(setting.key(), &None);
        KeyText::new(setting.key(), setting.about(), &value.accepts, default)
    };
    settings.iter().map(of).collect()
}
