//! `cargo xtask programs`: unmodified programs from end to end.
//!
//! Each row of the [`matrix`] runs as separate processes of an ordinary user, with a TCP port and
//! a deadline of its own. Exit statuses count, and [`judge`] reads what the programs print.

mod elsewhere;
pub(crate) mod judge;
pub(crate) mod matrix;
mod middleware;
#[cfg(test)]
mod packages;
mod rsockets;

use core::time::Duration;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Instant;

use anyhow::{Result, bail};
use pico_args::Arguments;

use crate::lab::{Ended, Lab, free_port};
use crate::tally::Tally;
use matrix::{ADDRESS, GROUP, Kind, OF_DISTRIBUTIONS, QUICK, Row};

/// What was asked for on the command line.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    full: bool,
    filter: Option<String>,
    faults: Option<String>,
    link: Option<String>,
    /// In the namespace, for rows whose programs ignore loopback.
    inside: bool,
    /// Another distribution's root folder, whose programs are run.
    root: Option<PathBuf>,
}

/// How long a row may take, so that one that hangs is found; those that run every size, or repeat what was lost,
/// get more. The longest needs a quarter of it on a machine that does nothing else.
const DEADLINE: Duration = Duration::from_secs(60);
const DEADLINE_SIZES: Duration = Duration::from_secs(120);
const DEADLINE_FACTOR_FAULTS: u32 = 3;
/// Iterations of each size in runs of all sizes, unless all rows run without faults.
const ITERATIONS_SIZES: &str = "100";
/// The flag of `ferroce run` that injects faults.
const FAULTS: &str = "--faults";
/// Lines of output shown of a row that failed, from the beginning (causes) and from the end
/// (consequences).
const LINES_SHOWN: usize = 12;

impl Choice {
    pub(crate) fn parse(arguments: &mut Arguments) -> Result<Self> {
        Ok(Self {
            full: arguments.contains("--full"),
            filter: arguments.opt_value_from_str("--filter")?,
            faults: arguments.opt_value_from_str("--faults")?,
            link: arguments.opt_value_from_str("--link")?,
            inside: arguments.contains(elsewhere::INSIDE),
            root: arguments.opt_value_from_str(elsewhere::ROOT)?,
        })
    }

    /// Whether this process only runs what its parent has prepared.
    pub(crate) fn is_prepared(&self) -> bool {
        self.inside
    }

    /// What was asked for, in words of the command line.
    fn words(&self) -> Vec<String> {
        let mut words = if self.full { vec!["--full".to_owned()] } else { Vec::new() };
        let root = self.root.as_ref().map(|root| root.display().to_string());
        let named = [
            ("--filter", &self.filter),
            ("--faults", &self.faults),
            ("--link", &self.link),
            (elsewhere::ROOT, &root),
        ];
        for (name, value) in named {
            words.extend(value.iter().flat_map(|value| [name.to_owned(), value.clone()]));
        }
        words
    }

    /// The quick rows, with faults injected.
    pub(crate) fn under(faults: &str) -> Self {
        Self { faults: Some(faults.to_owned()), ..Self::default() }
    }

    /// The quick rows, over a path that is not the default.
    pub(crate) fn over(link: &str) -> Self {
        Self { link: Some(link.to_owned()), ..Self::default() }
    }

    /// Rows of another distribution's own programs: the quick ones, or one of each program.
    pub(crate) fn of_distribution(root: PathBuf, full: bool) -> Self {
        Self { root: Some(root), full, ..Self::default() }
    }

    /// Whether a row is to run below another root folder, and says so if that lacks the program. Programs of
    /// ours are compiled here.
    fn is_there(&self, root: &Path, row: &Row) -> bool {
        let name = row.name();
        let is_listed = |list: &[&str]| list.contains(&name.as_str());
        let is_wanted = match self.full {
            true => is_listed(QUICK) || middleware::is_ours(row),
            false => is_listed(OF_DISTRIBUTIONS),
        };
        if !is_wanted {
            return false;
        }
        if !middleware::has_verbs(root, row) {
            self.tell_skip(&name, "UCX is there without its InfiniBand transport");
            return false;
        }
        let is_there = row.example().is_some() || root.join("usr/bin").join(row.words[0]).exists();
        if !is_there {
            self.tell_skip(&name, "not installed there");
        }
        is_there
    }

    /// Says which row is left out, once: a process in the namespace chooses anew.
    fn tell_skip(&self, name: &str, why: &str) {
        if !self.inside {
            println!("  skip          {name}: {why}");
        }
    }

    fn rows(&self) -> Vec<Row> {
        let wanted = |row: &Row| {
            let name = row.name();
            if let Some(root) = &self.root {
                let matches = self.filter.as_ref().is_none_or(|filter| name.contains(filter));
                return matches && self.is_there(root, row);
            }
            match &self.filter {
                Some(filter) => name.contains(filter.as_str()),
                None => {
                    self.full
                        || middleware::is_ours(row)
                        || rsockets::is_ours(row)
                        || QUICK.contains(&name.as_str())
                }
            }
        };
        rows().into_iter().filter(wanted).collect()
    }

    fn deadline(&self, row: &Row) -> Duration {
        let deadline = if row.words.contains(&"-a") { DEADLINE_SIZES } else { DEADLINE };
        if self.faults.is_some() { deadline * DEADLINE_FACTOR_FAULTS } else { deadline }
    }

    /// Arguments that only shorten the run.
    fn shorter(&self, row: &Row) -> &'static [&'static str] {
        let short = !self.full || self.faults.is_some();
        if short && row.words.contains(&"-a") { &["-n", ITERATIONS_SIZES] } else { &[] }
    }
}

/// Every row there is.
fn rows() -> Vec<Row> {
    let mut rows = matrix::rows();
    rows.extend(middleware::rows());
    rows.extend(rsockets::rows());
    rows
}

/// The arguments of every program of the row's family: the device, the port, and the flags that keep it
/// quiet.
fn family_words(row: &Row, port: &str) -> Vec<String> {
    middleware::port_words(row, port).unwrap_or_else(|| row.family_words(port))
}

/// Runs the rows that were chosen, with a line each.
pub(crate) fn run(choice: &Choice) -> Result<Tally> {
    let rows = choice.rows();
    if rows.is_empty() {
        bail!("no row matches\n hint: `cargo xtask programs --full` shows all of them");
    }
    let (elsewhere, here): (Vec<Row>, Vec<Row>) =
        rows.into_iter().partition(|row| matches!(row.kind, Kind::Elsewhere { .. }));
    if choice.inside {
        elsewhere::make_interface()?;
        let lab = Lab::open_on(elsewhere::INTERFACE, elsewhere::ADDRESS)?;
        return run_rows(&lab.below(choice.root.clone()), choice, &elsewhere);
    }
    let mut tally = Tally::default();
    if !here.is_empty() {
        tally = run_rows(&Lab::open_apart()?.below(choice.root.clone()), choice, &here)?;
    }
    if elsewhere.is_empty() {
        return Ok(tally);
    }
    if let Err(why) = elsewhere::may_be_made() {
        for row in &elsewhere {
            println!("  skip          {}: leaves loopback out, and {why:#}", row.name());
        }
        return Ok(tally);
    }
    let more = elsewhere::run(choice)?;
    Ok(Tally { passed: tally.passed + more.passed, failed: tally.failed + more.failed })
}

fn run_rows(lab: &Lab, choice: &Choice, rows: &[Row]) -> Result<Tally> {
    let faults = choice.faults.as_deref().map_or(String::new(), |f| format!(", faults {f}"));
    let link = choice.link.as_deref().map_or(String::new(), |link| format!(", link {link}"));
    println!("{} programs as {}{faults}{link}", rows.len(), lab.user());

    let mut tally = Tally::default();
    let mut skipped = 0;
    for row in rows {
        let name = row.name();
        if choice.faults.is_some() && !row.survives_loss {
            println!("  skip          {name}: waits for messages that nobody repeats");
            skipped += 1;
            continue;
        }
        let start = Instant::now();
        let result = run_row(lab, choice, row)?;
        let seconds = start.elapsed().as_secs_f64();
        match result {
            Ok(()) => {
                println!("  ok   {seconds:6.1} s  {name}");
                tally.passed += 1;
            }
            Err(failure) => {
                println!("  FAIL {seconds:6.1} s  {name}");
                println!("{}", indent(&failure));
                tally.failed += 1;
            }
        }
    }
    if skipped > 0 {
        println!("{skipped} not run: unreliable transports lose messages for good");
    }
    println!("{tally}");
    Ok(tally)
}

/// The outer error is ours, the inner one is the row's.
fn run_row(lab: &Lab, choice: &Choice, row: &Row) -> Result<Result<(), String>> {
    let mut flags = Vec::new();
    if let Some(link) = &choice.link {
        flags.extend(["--link".to_owned(), link.clone()]);
    }
    if let Some(faults) = &choice.faults {
        flags.extend([FAULTS.to_owned(), faults.clone()]);
    }
    let deadline = Instant::now() + choice.deadline(row);
    match row.kind {
        Kind::Alone | Kind::Elsewhere { pair: false } => {
            let ended =
                lab.finish("alone", command(lab, &flags, row, &program(lab, row)?), deadline)?;
            Ok(verdict(row, &ended, "program").and_then(|()| expected(row, &ended, "program")))
        }
        Kind::Watcher => watch(lab, &flags, row, deadline),
        Kind::Copies => rsockets::copies(lab, &flags, row, deadline),
        Kind::Preloaded => rsockets::preloaded(lab, &flags, row, deadline),
        Kind::Pair
        | Kind::Elsewhere { .. }
        | Kind::Cm { .. }
        | Kind::Group { .. }
        | Kind::Qperf
        | Kind::Fio => pair(lab, &flags, choice, row, deadline),
    }
}

fn command<W: AsRef<OsStr>>(lab: &Lab, flags: &[String], row: &Row, words: &[W]) -> Command {
    let mut command = lab.run(flags, words);
    let under_faults = flags.iter().any(|flag| flag == FAULTS);
    command.envs(middleware::environment(row, under_faults, lab.is_below_another_root()));
    command
}

/// The row's words, with the path of the program if it is to be compiled first.
fn program(lab: &Lab, row: &Row) -> Result<Vec<String>> {
    let mut words = middleware::program(lab, row)?;
    if let Some(example) = row.example() {
        words[0] = lab.compile(row.words[0], example.sources)?;
    }
    Ok(words)
}

fn watch(lab: &Lab, flags: &[String], row: &Row, deadline: Instant) -> Result<Result<(), String>> {
    // A program that never ends never flushes its output to a file, unless line buffering is set.
    let words = [&["stdbuf", "-oL"], row.words.as_slice()].concat();
    let mut running = lab.start("watcher", command(lab, flags, row, &words))?;
    while judge::results(row.expect, &running.printed()?).is_err() {
        if running.has_ended()? || Instant::now() >= deadline {
            break;
        }
        sleep(Duration::from_millis(20));
    }
    let ended = running.finish(Instant::now())?;
    if let Some(status) = ended.status {
        return Ok(Err(describe("program", &format!("ended by itself: {status}"), &ended)));
    }
    Ok(complaints(row, &ended, "program").and_then(|()| expected(row, &ended, "program")))
}

fn pair(
    lab: &Lab,
    flags: &[String],
    choice: &Choice,
    row: &Row,
    deadline: Instant,
) -> Result<Result<(), String>> {
    let port = row.fixed_port().map_or_else(free_port, Ok)?;
    let family = family_words(row, &port.to_string());
    let mut words = program(lab, row)?;
    // qperf's server does not get them, and fio wants its engine before them.
    let own =
        if matches!(row.kind, Kind::Qperf | Kind::Fio) { words.split_off(1) } else { Vec::new() };
    words.extend(family);
    words.extend(choice.shorter(row).iter().map(|&word| word.to_owned()));
    if choice.root.is_some() {
        words.extend(middleware::words_elsewhere(row).iter().map(|&word| word.to_owned()));
    }
    let mut client_words = words.clone();
    // RDMA CM finds the device by its address; the others agree over TCP.
    let told = |word: &str| match word {
        ADDRESS => lab.address().to_owned(),
        GROUP => lab.group(),
        other => other.to_owned(),
    };
    match row.kind {
        Kind::Cm { server, client: [], .. } => {
            words.extend(server.iter().map(|word| told(word)));
            client_words.push(told(ADDRESS));
        }
        Kind::Cm { server, client, .. } => {
            words.extend(server.iter().map(|word| told(word)));
            client_words.splice(..1, client.iter().map(|word| told(word)));
        }
        Kind::Qperf => {
            client_words.extend(["-t", "1", "-cm1", lab.address()].map(str::to_owned));
            client_words.extend(own);
            client_words.push("quit".to_owned());
        }
        Kind::Fio => {
            words.extend(own.iter().cloned().chain(["--rw=read".to_owned()]));
            client_words.extend(own);
            client_words.extend(["--rw=write".to_owned(), format!("--hostname={}", lab.address())]);
        }
        Kind::Group { receiver, sender } => {
            words.extend(receiver.iter().map(|word| told(word)));
            client_words.extend(sender.iter().map(|word| told(word)));
        }
        Kind::Elsewhere { .. } => {
            client_words = middleware::client_words(client_words);
            client_words.push(told(ADDRESS));
        }
        _ => client_words.push(ADDRESS.to_owned()),
    }

    let mut server = lab.start("server", command(lab, flags, row, &words))?;
    let listens = match row.kind {
        Kind::Cm { .. } | Kind::Fio => server.listens_for_cm(port, deadline)?,
        Kind::Group { .. } => server.has_joined(&lab.group(), port, deadline)?,
        _ => server.listens(port, deadline)?,
    };
    if !listens {
        let ended = server.finish(Instant::now())?;
        return Ok(Err(describe("server", "does not listen", &ended)));
    }
    let client = lab.finish("client", command(lab, flags, row, &client_words), deadline)?;
    // A server whose client failed may wait for ever.
    let failed = !client.status.is_some_and(|status| status.success());
    let patience = if failed { Instant::now() + Duration::from_secs(1) } else { deadline };
    let server = server.finish(patience)?;

    let checked = verdict(row, &client, "client")
        .and_then(|()| expected(row, &client, "client"))
        .and_then(|()| verdict(row, &server, "server"));
    let checked = match row.expect {
        matrix::Expect::Pingpong => checked.and_then(|()| expected(row, &server, "server")),
        _ => checked,
    };
    Ok(checked.map_err(|failure| {
        if failed { format!("{failure}\n{}", describe("server", "then", &server)) } else { failure }
    }))
}

/// Whether a process ended well and without complaint.
fn verdict(row: &Row, ended: &Ended, role: &str) -> Result<(), String> {
    match ended.status {
        None => Err(describe(role, "did not end in time", ended)),
        Some(status) if !status.success() => Err(describe(role, &status.to_string(), ended)),
        Some(_) => complaints(row, ended, role),
    }
}

fn complaints(row: &Row, ended: &Ended, role: &str) -> Result<(), String> {
    // Our own examples print the errors that they provoke, and ucx_info prints how transports handle
    // errors; there only the exit status counts.
    let speaks_of_errors = row.example().is_some() || row.words[0] == "ucx_info";
    let stdout = if speaks_of_errors { "" } else { &ended.stdout };
    match judge::complaint(stdout, &ended.stderr) {
        Some(line) => Err(format!("{role} complains: {}", line.trim())),
        None => Ok(()),
    }
}

fn expected(row: &Row, ended: &Ended, role: &str) -> Result<(), String> {
    judge::results(row.expect, &ended.stdout).map_err(|message| describe(role, &message, ended))
}

fn describe(role: &str, what: &str, ended: &Ended) -> String {
    described(role, what, [&ended.stdout, &ended.stderr])
}

/// What went wrong with one side, and the first and last lines of what was printed.
pub(crate) fn described<const N: usize>(role: &str, what: &str, printed: [&String; N]) -> String {
    let lines: Vec<&str> = printed.into_iter().flat_map(|text| text.lines()).collect();
    let (first, rest) = lines.split_at(lines.len().min(LINES_SHOWN));
    let left_out = rest.len().saturating_sub(LINES_SHOWN);
    let mut text = format!("{role}: {what}");
    for line in first {
        text.push_str("\n| ");
        text.push_str(line);
    }
    if left_out > 0 {
        text.push_str(&format!("\n  ({left_out} lines)"));
    }
    for line in &rest[left_out..] {
        text.push_str("\n| ");
        text.push_str(line);
    }
    text
}

pub(crate) fn indent(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("                 {line}")).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_in_the_namespace_is_told_all_that_its_parent_was() {
        let choice = Choice {
            filter: Some("fi_".to_owned()),
            link: Some("udp".to_owned()),
            ..Choice::of_distribution(PathBuf::from("/else where"), true)
        };
        let words = choice.words().into_iter().map(Into::into).collect();
        let mut arguments = Arguments::from_vec(words);
        let told = Choice::parse(&mut arguments).unwrap();
        assert_eq!((told.words(), arguments.finish().len()), (choice.words(), 0));
        assert_eq!((told.root, told.full), (choice.root, true));
    }
}
