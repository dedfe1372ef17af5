//! The command line of `ferroce bench`.

use std::path::PathBuf;

use bench::plan::{self, Value};
use clap::{Args, Subcommand};

use super::isolation::Isolation;
use super::nics::Common;
use super::simulated::SimulatedHosts;
use crate::failure::Failure;

const EXAMPLES: &str = "\
Verbs: read, write, write_imm, send, fetch_add, compare_swap; and compound
reads, in which the server answers: write_send, send_send, write_write.

Examples:
  ferroce bench read --size 64 --wait poll
  ferroce bench write --sweep size=64,65536 --window 16 --json results.json
  ferroce bench flows/mix.toml -o results
  ferroce bench serve                             # on one host, or terminal
  ferroce bench send --connect 127.0.0.1:18516    # on another
  ferroce bench compare before.json after.json    # or a.json,b.json c.json
  ferroce bench read --world sim --testbed cx3-56g-xeon --size 64

A flag sets the key of the same name in every flow; --set sets any key of a flow
file (docs/book/bench.md). Ctrl-C ends the run: what was measured until then is
told, and said to be partial.

Exit status: 0 when all was measured; 1 when a threshold was missed, or a
payload was wrong; 125 when the run could not begin, or was cut short; 130 when
it was interrupted; 2 when the command line cannot be read.";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub(crate) struct Bench {
    #[command(subcommand)]
    pub(super) action: Option<Action>,

    /// A verb, or a flow file, such as flows/mix.toml
    #[arg(value_name = "VERB|FILE")]
    pub(super) what: Option<String>,

    /// Payload of a message
    #[arg(long, value_name = "BYTES")]
    size: Option<String>,

    /// Operations outstanding on each queue pair
    #[arg(long, value_name = "NUMBER")]
    window: Option<String>,

    /// How the end of an operation is waited for: poll, event or memory
    #[arg(long, value_name = "MODE")]
    wait: Option<String>,

    /// Queue pairs of each thread
    #[arg(long, value_name = "NUMBER")]
    queue_pairs: Option<String>,

    /// Threads at each end, each with a NIC of its own
    #[arg(long, value_name = "NUMBER")]
    threads: Option<String>,

    /// Operations a second, all threads together; otherwise the next begins when one ends
    #[arg(long, value_name = "NUMBER")]
    rate: Option<String>,

    /// How long is measured
    #[arg(long, value_name = "MILLISECONDS")]
    length_ms: Option<String>,

    /// How long is run before that
    #[arg(long, value_name = "MILLISECONDS")]
    warmup_ms: Option<String>,

    /// So many cores, from core 0 on, have a task that never waits: a solver of queens on a chessboard
    #[arg(long, value_name = "CORES")]
    hogs: Option<String>,

    /// Check every payload
    #[arg(long)]
    verify: bool,

    /// Set a key of all flows, such as inline=true, depends=3 or latency_p99_us_max=50
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Run once for each value, or for each combination of several sweeps
    #[arg(long, value_name = "KEY=VALUE,...")]
    pub(super) sweep: Vec<String>,

    #[command(flatten)]
    pub(super) simulated: SimulatedHosts,

    /// The address of a `ferroce bench serve`; otherwise both ends are in this process
    #[arg(long, value_name = "HOST:PORT")]
    pub(super) connect: Option<String>,

    /// Write the results as one JSON document; - for stdout, instead of the text
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,

    /// A folder for report.html, results.json, the summary, and tables as Parquet
    #[arg(short, long, value_name = "FOLDER")]
    pub(super) output: Option<PathBuf>,

    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Debug, Subcommand)]
pub(super) enum Action {
    /// Serve clients of other processes or hosts, one after the other
    Serve(Serve),
    /// Hold the results of two runs against each other: ratios, with an interval each
    Compare(Compare),
    /// What flows do to each other: every kind beside every other, as a heat map
    Isolation(Isolation),
}

#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Where to listen for clients; loopback unless another address is given
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:18516")]
    pub(super) listen: String,

    /// End after the first client
    #[arg(long)]
    pub(super) once: bool,

    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Debug, Args)]
pub(super) struct Compare {
    /// What --json has written; of several runs of one plan all, with commas between
    #[arg(value_name = "FILE[,FILE]...")]
    pub(super) first: String,
    /// What is held against it
    #[arg(value_name = "FILE[,FILE]...")]
    pub(super) second: String,
}

impl Bench {
    /// What the flags set, by key.
    pub(super) fn settings(&self) -> Result<Vec<(String, Value)>, Failure> {
        let flags = [
            ("size_bytes", &self.size),
            ("window", &self.window),
            ("wait", &self.wait),
            ("queue_pairs", &self.queue_pairs),
            ("threads", &self.threads),
            ("rate_per_s", &self.rate),
            ("length_ms", &self.length_ms),
            ("warmup_ms", &self.warmup_ms),
            ("hogs", &self.hogs),
        ];
        let mut settings: Vec<(String, Value)> = flags
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), Value::of_word(value.as_ref()?))))
            .collect();
        if self.verify {
            settings.push(("verify".to_owned(), Value::Truth(true)));
        }
        for text in &self.set {
            settings.push(setting(text)?);
        }
        Ok(settings)
    }

    /// Whether `--set` sets `key`.
    pub(super) fn names(&self, key: &str) -> bool {
        self.set.iter().any(|text| text.split('=').next().is_some_and(|name| name.trim() == key))
    }
}

/// A setting of the command line, `key=value`.
fn setting(text: &str) -> Result<(String, Value), Failure> {
    let (key, value) = text.split_once('=').ok_or_else(|| {
        Failure::new(format!("--set: {text:?} sets nothing")).hint("write key=value")
    })?;
    Ok((
        plan::full(key.trim()).map_err(|error| Failure::from_message(&error))?,
        Value::of_word(value.trim()),
    ))
}
