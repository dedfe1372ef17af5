//! An experiment: `[[program]]`, `[[event]]`, `[[row]]`, `[[expect]]`, and the scenario that they are about.
//!
//! A text may have names in braces, such as `{seconds}`: those of `[set]`, over which a row says others. They are filled
//! in here, wherever a program, event or expectation has a text. Those that are known only when a row runs
//! ([`LATER`]) are left for then.

use core::time::Duration;
use std::collections::BTreeMap;

use rdma::Span;
use toml::de::DeTable;

use super::fault::{Fault, fault};
use super::scenario;
use crate::scenario::at::{At, Entry, Result};
use crate::scenario::deferred::{Deferred, all_deferred, deferred};
use crate::scenario::experiment::{
    Anchor, Bound, End, Event, Expectation, Experiment, Number, Program, Row, Take, What, When,
    merged,
};
use crate::scenario::table::{Describe as _, Table as _, table};
use crate::scenario::value::{
    Value, flag, list, named, needed, number_of, or, otherwise, text, time, whole, within,
};
use crate::scenario::{Files, ScenarioError, TableText};
use crate::topology::Topology;

/// What is filled in when a row runs: a free TCP port by name, the address of a host, `ferroce lab run` as a host, a
/// folder for the row, and that of the experiment.
const LATER: [&str; 5] = ["port", "address", "run", "folder", "here"];
/// How long a run of a row may take, if nothing is said.
const LIMIT_S: u32 = 60;
const DRAWS_MAX: u32 = 1_000;

table! {
    /// An experiment of `ferroce lab exec`: rows, programs on the hosts of a scenario, events, and what is expected.
    struct File<'a> {
        /// What it is called.
        title = or("untitled", text("a text")) => title: Option<String>;
        /// The network: a scenario beside the experiment, or its tables, as in [scenario.topology].
        scenario = needed(anything("a file, or tables")) => scenario: ();
        /// How often each row is run, each time with another seed; the median counts, or every draw where 0 is expected.
        draws = otherwise(1, within(1, DRAWS_MAX, "how often each row is run")) => draws: Option<u32>;
        /// How long a run of a row may take.
        limit_s = otherwise(LIMIT_S, within(1, 86_400, "a row ends after that, and has failed"))
            => limit: Option<u32>;
        /// Texts by name, which stand in braces elsewhere.
        set = deferred() => set: Option<Deferred<'a, Anything>>;
        /// Its variants; one if there is none.
        row = all_deferred() => rows: Vec<Deferred<'a, RowTable<'a>>>;
        /// What runs on the hosts.
        program = all_deferred() => programs: Vec<Deferred<'a, ProgramTable<'a>>>;
        /// What happens meanwhile.
        event = all_deferred() => events: Vec<Deferred<'a, EventTable<'a>>>;
        /// What is expected.
        expect = all_deferred() => expectations: Vec<Deferred<'a, ExpectTable>>;
    }
}

table! {
    /// A variant of the experiment.
    struct RowTable<'a> {
        /// What it is called.
        name = needed(text("a text")) => name: String;
        /// What it shows.
        about = or("nothing", text("a text")) => about: Option<String>;
        /// What it says over the scenario: tables, as in [row.scenario.switch].
        scenario = deferred() => scenario: Option<Deferred<'a, Anything>>;
        /// What it says over [set].
        set = deferred() => set: Option<Deferred<'a, Anything>>;
        /// It is run in the simulator: the scenario's workloads take the place of the programs.
        simulated = flag() => simulated: bool;
        /// In the simulator each flow begins so much later at most, as chance has it; programs do by themselves.
        starts_within_ms = or("0", time()) => starts_within: Option<Span>;
        /// It is left out where --quick is said.
        long = flag() => long: bool;
    }
}

table! {
    /// When something starts or happens. Times are those of the wall, from the beginning of the row.
    struct WhenTable {
        /// Programs that must be ready.
        after = list(text("a program")) => ready: Vec<String>;
        /// Programs that must have ended.
        after_end = list(text("a program")) => ended: Vec<String>;
        /// So long after that.
        at_ms = time() => delay: Span;
    }
}

table! {
    /// A program.
    struct ProgramTable<'a> {
        /// What it is called.
        name = needed(text("a text")) => name: String;
        /// It is there once for each of these texts, which is {each} in the others.
        each = or("it is there once", list(text("a text"))) => each: Option<Vec<String>>;
        /// The host that it runs as.
        host = or("none: no host, as mpirun", text("a host")) => host: Option<String>;
        /// The program and its arguments, in quotes where they have blanks.
        command = needed(text("a text")) => command: String;
        /// Variables of its environment, NAME=value.
        env = list(text("a text")) => environment: Vec<String>;
        /// The rows in which it runs.
        rows = or("all", list(text("a row"))) => rows: Option<Vec<String>>;
        /// It is ready when it listens at this TCP port.
        ready_port = or("see ready_packets", text("a port")) => ready_port: Option<String>;
        /// It is ready when a line of its output matches this expression.
        ready_line = or("see ready_packets", text("an expression")) => ready_line: Option<String>;
        /// It is ready when its host has received so many packets.
        ready_packets = or("it is ready when it has started", whole()) => ready_packets: Option<u64>;
        /// The exit status that it is to have.
        status = otherwise(0, within(0, 255, "an exit status")) => status: Option<u32>;
        /// How it ends, if not with that status.
        ends = or("with its status", ends()) => end: Option<End>;
        /// Expressions, of which each is to match a line of its output.
        prints = list(text("an expression")) => prints: Vec<String>;
        /// Numbers in its output.
        numbers = all_deferred() => numbers: Vec<Deferred<'a, NumberTable>>;
        ..when: WhenTable;
    }
    check ready_once;
}

fn ready_once(program: &ProgramTable<'_>, at: &At<'_>) -> Result<()> {
    let ProgramTable { ready_port, ready_line, ready_packets, .. } = program;
    let said = [ready_port.is_some(), ready_line.is_some(), ready_packets.is_some()];
    if said.into_iter().filter(|said| *said).count() <= 1 {
        return Ok(());
    }
    let keys = ["ready_port", "ready_line", "ready_packets"];
    let key = at.first_of(&keys).unwrap_or("name");
    Err(at.wrong(key, "a program is ready in one way").hint("leave one in, and the others out"))
}

fn ends<'a>() -> Value<'a, End> {
    named([("failure", End::Failure), ("stays", End::Stays), ("killed", End::Killed)])
}

impl Default for End {
    fn default() -> Self {
        Self::Status(0)
    }
}

table! {
    /// A number in the output of a program.
    struct NumberTable {
        /// What it is called.
        name = needed(text("a text")) => name: String;
        /// An expression whose first group is the number.
        pattern = needed(text("an expression")) => pattern: String;
        /// Which counts, of several lines that match.
        take = otherwise(Take::Last, take()) => take: Option<Take>;
    }
}

fn take<'a>() -> Value<'a, Take> {
    named([
        ("last", Take::Last),
        ("first", Take::First),
        ("least", Take::Least),
        ("most", Take::Most),
        ("sum", Take::Sum),
        ("mean", Take::Mean),
        ("count", Take::Count),
    ])
}

table! {
    /// Something that happens. Without fault and signal it marks a time.
    struct EventTable<'a> {
        /// What it is called.
        name = or("the kind of the fault", text("a text")) => name: Option<String>;
        /// The rows in which it happens.
        rows = or("all", list(text("a row"))) => rows: Option<Vec<String>>;
        /// A fault of the fabric, with the keys of a [[fault]] of a scenario; its at_us is counted from here.
        fault = deferred() => fault: Option<Deferred<'a, Fault>>;
        /// A program gets a signal.
        signal = or("none", signal()) => signal: Option<String>;
        /// The program that gets the signal.
        program = or("none", text("a program")) => program: Option<String>;
        ..when: WhenTable;
    }
    check happens_once;
}

fn happens_once(event: &EventTable<'_>, at: &At<'_>) -> Result<()> {
    let hint = "a signal has a program, and a fault has neither";
    match (&event.fault, &event.signal, &event.program, &event.name) {
        (Some(_), None, None, _) | (None, Some(_), Some(_), _) | (None, None, None, Some(_)) => {
            Ok(())
        }
        (None, None, None, None) => Err(at.lacks("name")),
        (None, Some(_), None, _) => Err(at.lacks("program")),
        (None, None, Some(_), _) => Err(at.lacks("signal")),
        (Some(_), _, _, _) => Err(at.wrong("fault", "one event is one thing").hint(hint)),
    }
}

fn signal<'a>() -> Value<'a, String> {
    let names = ["KILL", "TERM", "INT", "STOP", "CONT"].map(|name| (name, name.to_owned()));
    named(names)
}

table! {
    /// What is expected of a measure: see the book, lab.md, for those that there are.
    struct ExpectTable {
        /// Why, in a sentence.
        why = or("nothing is said", text("a text")) => why: Option<String>;
        /// The rows of which it is expected.
        rows = or("all", list(text("a row"))) => rows: Option<Vec<String>>;
        /// What is measured.
        measure = needed(text("a measure")) => measure: String;
        /// The event from which on counters count.
        from = or("the beginning of the row", text("an event")) => from: Option<String>;
        /// So long after that.
        from_ms = or("0", time()) => from_delay: Option<Span>;
        /// The event until which they count.
        to = or("the end of the row; with to_ms, its beginning", text("an event")) => to: Option<String>;
        /// So long after that.
        to_ms = or("0", time()) => to_delay: Option<Span>;
        /// For each second of the time in which they count, of the network's own time.
        per_second = flag() => per_second: bool;
        /// What the measure is multiplied by.
        scale = or("1", number_of("a number")) => scale: Option<f64>;
        /// It is at least so much; with than_row so many times that row's.
        at_least = or("no bound", number_of("a number")) => at_least: Option<f64>;
        /// It is at most so much; with than_row so many times that row's. Without, 0 is to hold in every draw.
        at_most = or("no bound", number_of("a number")) => at_most: Option<f64>;
        /// It is exactly so much; 0 in every draw.
        equals = or("no bound", number_of("a number")) => equals: Option<f64>;
        /// The row that it is compared with.
        than_row = or("none", text("a row")) => than_row: Option<String>;
        /// That row's least draw is the one that it is at least, and its greatest the one that it is at most.
        any_draw = flag() => any_draw: bool;
        /// It differs from that row's by at most so many percent of it.
        within_percent = or("no bound", number_of("a number")) => within_percent: Option<f64>;
    }
    check has_bound;
}

fn has_bound(expect: &ExpectTable, at: &At<'_>) -> Result<()> {
    let ExpectTable { at_least, at_most, equals, than_row, within_percent, .. } = expect;
    if expect.any_draw && than_row.is_none() {
        return Err(at.lacks("than_row"));
    }
    let between = at_least.is_some() || at_most.is_some();
    match (between, equals.is_some(), within_percent.is_some(), than_row.is_some()) {
        (true, false, false, _) | (false, true, false, false) | (false, false, true, true) => {
            Ok(())
        }
        (_, _, true, false) => Err(at.lacks("than_row")),
        (false, false, false, _) => Err(at.lacks("at_most")),
        _ => {
            let wrong = at.wrong("measure", "what is expected is to be said once");
            Err(wrong.hint("give at_least and at_most, or equals, or within_percent and than_row"))
        }
    }
}

/// A table, or a value, that is read elsewhere.
#[derive(Debug, Default)]
pub(super) struct Anything;

impl<'a> crate::scenario::table::Describe<'a> for Anything {
    fn describe(_: &str, _: &str, _: &mut Vec<TableText>) {}
}

fn anything<'a>(accepts: &str) -> Value<'a, ()> {
    Value::new(accepts, |_: &Entry<'a, '_>| Ok(()), |_, ()| "none".to_owned())
}

/// See [`crate::scenario::experiment_reference`].
pub(in crate::scenario) fn experiment_reference() -> Vec<TableText> {
    let mut texts = Vec::new();
    File::describe("", "", &mut texts);
    texts
}

/// Texts by name.
type Names = BTreeMap<String, String>;

/// Fills in what is in braces and known now.
fn fill(at: &At<'_>, key: &str, text: &str, names: &Names) -> Result<String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('{') {
        filled += before;
        let name = behind.split_once('}').map(|(name, _)| name).filter(|name| is_name(name));
        let Some(name) = name else {
            // A brace of an expression, or of a shell.
            filled.push('{');
            rest = behind;
            continue;
        };
        rest = &behind[name.len() + 1..];
        match names.get(name) {
            Some(value) => filled += value,
            None if LATER.contains(&name.split(':').next().unwrap_or("")) => {
                filled += &format!("{{{name}}}");
            }
            None => {
                let known: Vec<&str> = names.keys().map(String::as_str).chain(LATER).collect();
                let wrong = at.wrong(key, format!("nothing is called {{{name}}}"));
                return Err(wrong.hint(format!("there are {}", known.join(", "))));
            }
        }
    }
    Ok(filled + rest)
}

fn is_name(text: &str) -> bool {
    let is_fit = |letter: char| letter.is_ascii_alphanumeric() || "_:-.".contains(letter);
    text.starts_with(|letter: char| letter.is_ascii_alphabetic()) && text.chars().all(is_fit)
}

/// The words of a command; quotes of either kind hold words together.
fn words(at: &At<'_>, command: &str) -> Result<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in command.chars() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    match (quote, words.is_empty()) {
        (None, false) => Ok(words),
        (Some(open), _) => {
            let wrong = at.wrong("command", format!("the quote {open} is not closed"));
            Err(wrong.hint("a quote of the other kind may stand within it"))
        }
        _ => Err(at.wrong("command", "there is no program").hint("name one, and its arguments")),
    }
}

fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_ps() / 1_000)
}

/// Reads an experiment. What its scenario's own file says is `base`, if it has one.
pub(in crate::scenario) fn experiment(
    at: &At<'_>,
    base: &DeTable<'_>,
    seed: Option<u64>,
    files: &dyn Files,
) -> Result<Experiment> {
    let mut file = File::default();
    file.read(at)?;
    let entry = at.entry("scenario").ok_or_else(|| at.lacks("scenario"))?;
    let inline = if entry.value().as_str().is_some() { None } else { Some(entry.table()?) };
    let base = inline.as_ref().map_or(base, At::written);
    let shared = file.set.as_ref().map_or(Ok(Vec::new()), |set| set.at.texts())?;
    let mut rows = Vec::new();
    if file.rows.is_empty() {
        let only = RowTable { name: "only".to_owned(), ..RowTable::default() };
        rows.push((only, None, scenario(&at.as_file(base), seed, files)?));
    }
    for table in &file.rows {
        let row = table.read()?;
        if rows.iter().any(|(other, _, _): &(RowTable<'_>, _, _)| other.name == row.name) {
            let wrong = table.at.wrong("name", format!("two rows are called {:?}", row.name));
            return Err(wrong.hint("name them apart"));
        }
        let over = row.scenario.as_ref().map(|over| merged(base, over.at.written()));
        let all = over.as_ref().unwrap_or(base);
        let made = scenario(&at.as_file(all), seed, files)?;
        rows.push((row, Some(table.at.clone()), made));
    }
    let names: Vec<String> = rows.iter().map(|(row, _, _)| row.name.clone()).collect();
    let context = Context { file: &file, rows: &names };
    let rows = rows.into_iter().map(|(row, _, scenario)| context.row(row, scenario, &shared));
    let rows: Vec<Row> = rows.collect::<Result<_>>()?;
    let set = shared.iter().cloned().collect();
    let expectations =
        file.expectations.iter().map(|table| context.expectation(table, &rows, &set));
    Ok(Experiment {
        title: file.title.clone().unwrap_or_else(|| "untitled".to_owned()),
        draws: file.draws.unwrap_or(1),
        limit: Duration::from_secs(file.limit.unwrap_or(LIMIT_S).into()),
        expectations: expectations.collect::<Result<_>>()?,
        rows,
        behind: None,
    })
}

/// What the rows have in common.
struct Context<'f, 'a> {
    file: &'f File<'a>,
    rows: &'f [String],
}

impl Context<'_, '_> {
    fn row(
        &self,
        row: RowTable<'_>,
        scenario: crate::scenario::Scenario,
        shared: &[(String, String)],
    ) -> Result<Row> {
        let mut set: Names = shared.iter().cloned().collect();
        if let Some(over) = &row.set {
            set.extend(over.at.texts()?);
        }
        let topology = &scenario.network.topology;
        let mut programs: Vec<Program> = Vec::new();
        for table in &self.file.programs {
            let said = table.read()?;
            if !self.is_of(&table.at, said.rows.as_deref(), &row.name)? || row.simulated {
                continue;
            }
            for set in of_each(said.each.as_deref(), &set) {
                let made = program(&table.at, &said, topology, &set)?;
                if programs.iter().any(|program| program.name == made.name) {
                    let wrong = format!("two programs are called {:?}", made.name);
                    return Err(table.at.wrong("name", wrong).hint("name them apart"));
                }
                programs.push(made);
            }
        }
        let mut events: Vec<Event> = Vec::new();
        for table in &self.file.events {
            let said = table.read()?;
            if !self.is_of(&table.at, said.rows.as_deref(), &row.name)? {
                continue;
            }
            events.push(event(&table.at, said, topology)?);
        }
        if !row.simulated {
            self.know_each_other(&programs)?;
        }
        Ok(Row {
            about: row.about.unwrap_or_default(),
            simulated: row.simulated,
            starts_within: row.starts_within.unwrap_or(Span::ZERO),
            long: row.long,
            name: row.name,
            scenario,
            programs,
            events,
        })
    }

    /// Refuses programs and events that wait for programs which are not there. The first of each name in the file
    /// says where.
    fn know_each_other(&self, programs: &[Program]) -> Result<()> {
        let known: Vec<&str> = programs.iter().map(|program| program.name.as_str()).collect();
        // Of another row it may well be.
        let mut all = Vec::new();
        for table in &self.file.programs {
            let said = table.read()?;
            for set in of_each(said.each.as_deref(), &Names::new()) {
                // Names that only a row knows do not matter here.
                all.push(fill(&table.at, "name", &said.name, &set).unwrap_or_default());
            }
        }
        let check = |at: &At<'_>, key: &str, names: &[String]| match names
            .iter()
            .find(|name| !all.contains(name))
        {
            None => Ok(()),
            Some(name) => {
                let wrong = at.wrong(key, format!("there is no program {name:?}"));
                Err(wrong.hint(format!("programs are {}", known.join(", "))))
            }
        };
        for table in &self.file.programs {
            let ProgramTable { each, when, .. } = table.read()?;
            for set in of_each(each.as_deref(), &Names::new()) {
                let fill = |names: &[String]| -> Result<Vec<String>> {
                    names.iter().map(|name| fill(&table.at, "after", name, &set)).collect()
                };
                check(&table.at, "after", &fill(&when.ready)?)?;
                check(&table.at, "after_end", &fill(&when.ended)?)?;
            }
        }
        for table in &self.file.events {
            let EventTable { when, program, .. } = table.read()?;
            check(&table.at, "after", &when.ready)?;
            check(&table.at, "after_end", &when.ended)?;
            check(&table.at, "program", program.as_slice())?;
        }
        Ok(())
    }

    /// Whether a table that names rows is about this one.
    fn is_of(&self, at: &At<'_>, rows: Option<&[String]>, row: &str) -> Result<bool> {
        let Some(rows) = rows else { return Ok(true) };
        self.are_rows(at, "rows", rows)?;
        Ok(rows.iter().any(|name| name == row))
    }

    fn are_rows(&self, at: &At<'_>, key: &str, names: &[String]) -> Result<()> {
        match names.iter().find(|name| !self.rows.contains(name)) {
            None => Ok(()),
            Some(name) => {
                let wrong = at.wrong(key, format!("there is no row {name:?}"));
                Err(wrong.hint(format!("rows are {}", self.rows.join(", "))))
            }
        }
    }

    fn expectation(
        &self,
        table: &Deferred<'_, ExpectTable>,
        rows: &[Row],
        set: &Names,
    ) -> Result<Expectation> {
        let (at, said) = (&table.at, table.read()?);
        let of = said.rows.unwrap_or_else(|| self.rows.to_vec());
        self.are_rows(at, "rows", &of)?;
        self.are_rows(at, "than_row", said.than_row.as_slice())?;
        let is_event = |name: &String| {
            let mut events = rows.iter().flat_map(|row| &row.events);
            events.any(|event| event.name == *name)
        };
        for (key, name) in [("from", &said.from), ("to", &said.to)] {
            if let Some(name) = name.as_ref().filter(|name| !is_event(name)) {
                let wrong = at.wrong(key, format!("there is no event {name:?}"));
                return Err(wrong.hint("name one of [[event]]"));
            }
        }
        let anchor = |event: &Option<String>, delay: Option<Span>| {
            let is_said = event.is_some() || delay.is_some();
            let delay = duration(delay.unwrap_or(Span::ZERO));
            is_said.then(|| Anchor { event: event.clone(), delay })
        };
        let (least, most) = match (said.equals, said.within_percent) {
            (Some(value), _) => (value, value),
            (None, Some(percent)) => (1.0 - percent / 100.0, 1.0 + percent / 100.0),
            (None, None) => {
                (said.at_least.unwrap_or(f64::NEG_INFINITY), said.at_most.unwrap_or(f64::INFINITY))
            }
        };
        Ok(Expectation {
            line: at.place("measure").line.number(),
            why: fill(at, "why", &said.why.unwrap_or_default(), set)?,
            rows: of,
            measure: said.measure,
            from: anchor(&said.from, said.from_delay),
            to: anchor(&said.to, said.to_delay),
            per_second: said.per_second,
            scale: said.scale.unwrap_or(1.0),
            bound: match said.than_row {
                Some(row) => Bound::Times { row, any_draw: said.any_draw, least, most },
                None => Bound::Between(least, most),
            },
        })
    }
}

fn when(said: WhenTable) -> When {
    When { ready: said.ready, ended: said.ended, delay: duration(said.delay) }
}

/// The names that hold for each of the texts of `each`.
fn of_each(each: Option<&[String]>, set: &Names) -> Vec<Names> {
    let Some(each) = each else { return vec![set.clone()] };
    let with = |text: &String| {
        let mut set = set.clone();
        set.insert("each".to_owned(), text.clone());
        set
    };
    each.iter().map(with).collect()
}

fn program(
    at: &At<'_>,
    said: &ProgramTable<'_>,
    topology: &Topology,
    set: &Names,
) -> Result<Program> {
    let filled = |key: &str, text: &str| fill(at, key, text, set);
    let all = |key: &str, texts: &[String]| -> Result<Vec<String>> {
        texts.iter().map(|text| filled(key, text)).collect()
    };
    let one = |key: &str, text: Option<&str>| text.map(|text| filled(key, text)).transpose();
    let host = one("host", said.host.as_deref())?;
    if let Some(name) = &host {
        super::host(at, topology, "host", name)?;
    }
    let status = said.status.unwrap_or(0) as i32;
    let numbers = said.numbers.iter().map(|table| {
        let NumberTable { name, pattern, take } = table.read()?;
        let line = table.at.place("pattern").line.number();
        Ok(Number { line, name, pattern, take: take.unwrap_or_default() })
    });
    Ok(Program {
        line: at.place("command").line.number(),
        name: filled("name", &said.name)?,
        host,
        words: words(at, &filled("command", &said.command)?)?,
        environment: all("env", &said.environment)?,
        start: When {
            ready: all("after", &said.when.ready)?,
            ended: all("after_end", &said.when.ended)?,
            delay: duration(said.when.delay),
        },
        ready_port: one("ready_port", said.ready_port.as_deref())?,
        ready_line: said.ready_line.clone(),
        ready_packets: said.ready_packets,
        end: said.end.unwrap_or(End::Status(status)),
        prints: said.prints.clone(),
        numbers: numbers.collect::<Result<_>>()?,
    })
}

fn event(at: &At<'_>, said: EventTable<'_>, topology: &Topology) -> Result<Event> {
    let kind =
        |at: &At<'_>| at.entry("kind").and_then(|entry| entry.value().as_str().map(str::to_owned));
    let name = said.name.or_else(|| said.fault.as_ref().and_then(|fault| kind(&fault.at)));
    let what = match (&said.fault, said.signal, said.program) {
        (Some(table), _, _) => What::Faults(fault(table, topology)?),
        (None, Some(signal), Some(program)) => What::Signal { program, signal },
        _ => What::Mark,
    };
    let name = name.unwrap_or_else(|| match &what {
        What::Signal { program, signal } => format!("{signal} {program}"),
        _ => String::new(),
    });
    if name.is_empty() {
        let error: ScenarioError = at.lacks("name");
        return Err(error);
    }
    Ok(Event { name, when: when(said.when), what })
}
