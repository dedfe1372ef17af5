//! What is to be run: flows, and for how long.
//!
//! A plan comes from a file, from flags, or from both; every key is set at one place ([`Plan::set`],
//! [`Flow::set`]), whoever sets it, so a mistake is explained in the same words everywhere.

mod differences;
mod file;
mod sweep;

use core::fmt;

use serde::{Deserialize, Serialize};
use telemetry::nearest;

use crate::Failure;
use crate::limits::{
    FLOWS_MAX, HOGS_MAX, LENGTH_MS_MAX, MESSAGE_BYTES_MAX, QUEUE_PAIRS_MAX, REQUEST_BYTES,
    THREADS_MAX, WINDOW_MAX, WINDOWS_MAX,
};
use crate::world::meeting::Service;

pub use file::read;
pub use sweep::{Point, Sweep, full};

/// See the module.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// What it is called.
    pub title: String,
    /// What is not measured, at the beginning, in milliseconds.
    pub warmup_ms: f64,
    /// What is measured after that, in milliseconds.
    pub length_ms: f64,
    /// Windows that the measured time is cut into, in milliseconds.
    pub window_ms: f64,
    /// Whether payloads are checked.
    pub verify: bool,
    /// Jain's index of the flows' bandwidths at least.
    pub fairness_min: Option<f64>,
    /// So many cores, from core 0 on, have a task that never waits.
    #[serde(default)]
    pub hogs: u32,
    /// All run at once.
    pub flows: Vec<Flow>,
}

/// What a flow does, again and again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verb {
    /// RDMA READ.
    Read,
    /// RDMA WRITE.
    Write,
    /// RDMA WRITE with immediate data, which takes a receive.
    WriteImm,
    /// SEND.
    Send,
    /// Fetch and add.
    FetchAdd,
    /// Compare and swap.
    CompareSwap,
    /// A compound read: the request by WRITE into memory that the server watches, the answer by SEND.
    WriteSend,
    /// A compound read: request and answer by SEND.
    SendSend,
    /// A compound read: request and answer by WRITE into memory that the other watches.
    WriteWrite,
}

/// How its end is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitMode {
    /// Busy, by polling the CQ.
    Poll,
    /// Asleep, for the event of the CQ.
    Event,
    /// Busy, by looking at the memory that is written last.
    Memory,
}

/// One flow.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Flow {
    /// What it is called.
    pub name: String,
    /// What it does.
    pub verb: Verb,
    /// Payload of a message, of a READ's answer, of a compound read's answer.
    pub size_bytes: u32,
    /// Operations outstanding on each queue pair.
    pub window: u32,
    /// READs and atomics outstanding on each queue pair, at most: `max_rd_atomic`. Others wait at the NIC.
    #[serde(default = "Flow::rd_atomic_default")]
    pub rd_atomic: u8,
    /// How their end is waited for.
    pub wait: WaitMode,
    /// Whether payloads are posted inline.
    pub inline: bool,
    /// Every so many requests have a completion.
    pub signal_every: u32,
    /// READs one after the other that make one operation.
    pub depends: u32,
    /// Work of the server for each message that it receives, in microseconds.
    pub service_us: f64,
    /// Work of who asks for each completion, before it goes on, in microseconds.
    #[serde(default)]
    pub work_us: f64,
    /// Whether who has a payload, to send it or because it has come, looks at every byte of it.
    pub touch: bool,
    /// Queue pairs of each thread.
    pub queue_pairs: u32,
    /// Threads, each with a NIC of its own, as processes have it.
    pub threads: u32,
    /// Threads that serve them, each as many; without it as many as there are threads.
    pub servers: Option<u32>,
    /// Requests that are posted by one call.
    pub post_list: u32,
    /// Operations a second of the whole flow; without it the next is posted when one ends.
    pub rate_per_s: Option<f64>,
    /// When it begins, in milliseconds after the others.
    pub start_ms: f64,
    /// Each of its threads begins so much later at most, as chance has it.
    pub start_within_ms: f64,
    /// How long it lasts; without it to the end.
    pub length_ms: Option<f64>,
    /// The transport service.
    pub transport: Service,
    /// DSCP and ECN bits.
    pub traffic_class: u8,
    /// The core of its first thread; the others have those that follow.
    pub core: Option<u32>,
    /// What it must reach.
    pub at_least: Thresholds,
}

/// What a flow must reach, or the run has failed.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Thresholds {
    /// Bandwidth over the measured time.
    pub bandwidth_gbps_min: Option<f64>,
    /// Bandwidth of its worst window.
    pub window_gbps_min: Option<f64>,
    /// Operations a second.
    pub rate_per_s_min: Option<f64>,
    /// The 50th percentile of latency.
    pub latency_p50_us_max: Option<f64>,
    /// The 99th.
    pub latency_p99_us_max: Option<f64>,
    /// The 99.9th.
    pub latency_p999_us_max: Option<f64>,
}

/// A value, as a file or a flag has it.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A number, whole or not.
    Number(f64),
    /// true or false.
    Truth(bool),
    /// All else.
    Text(String),
}

impl Value {
    /// What a word of the command line is.
    pub fn of_word(word: &str) -> Self {
        match (word, word.parse::<f64>()) {
            ("true", _) => Self::Truth(true),
            ("false", _) => Self::Truth(false),
            (_, Ok(number)) if number.is_finite() => Self::Number(number),
            _ => Self::Text(word.to_owned()),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Truth(truth) => truth.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

/// A key, and what is to be written behind it.
type Key = (&'static str, &'static str);

/// The keys of a plan that stand before its flows.
pub const PLAN_KEYS: [Key; 7] = [
    ("title", "a text"),
    ("warmup_ms", "milliseconds that are not measured, at the beginning"),
    ("length_ms", "milliseconds that are measured"),
    ("window_ms", "milliseconds of a window"),
    ("verify", "true or false: payloads are checked"),
    ("fairness_min", "Jain's index of the flows' bandwidths at least, from 0 to 1"),
    ("hogs", "cores, from core 0 on, that have a task which never waits"),
];

/// The keys of a flow.
pub const FLOW_KEYS: [Key; 30] = [
    ("name", "a text"),
    (
        "verb",
        "read, write, write_imm, send, fetch_add, compare_swap, write_send, send_send or write_write",
    ),
    ("size_bytes", "payload of a message"),
    ("window", "operations outstanding on each queue pair"),
    ("rd_atomic", "READs and atomics outstanding on each queue pair, at most"),
    ("wait", "poll, event or memory"),
    ("inline", "true or false"),
    ("signal_every", "one of so many requests has a completion"),
    ("depends", "READs one after the other that make one operation"),
    ("service_us", "work of the server for each message"),
    ("work_us", "work of who asks for each completion"),
    ("touch", "true or false: whoever has a payload looks at every byte"),
    ("queue_pairs", "of each thread"),
    ("threads", "each with a NIC of its own"),
    ("servers", "threads that serve, each as many"),
    ("post_list", "requests posted by one call"),
    ("rate_per_s", "operations a second of the whole flow"),
    ("start_ms", "when it begins"),
    ("start_within_ms", "by how much later each of its threads does, at most"),
    ("length_ms", "how long it lasts"),
    ("transport", "rc, uc or ud"),
    ("traffic_class", "DSCP and ECN bits, from 0 to 255"),
    ("core", "the core of its first thread"),
    ("bandwidth_gbps_min", "bandwidth at least"),
    ("window_gbps_min", "bandwidth of the worst window at least"),
    ("rate_per_s_min", "operations a second at least"),
    ("latency_p50_us_max", "50th percentile of latency at most"),
    ("latency_p99_us_max", "99th percentile of latency at most"),
    ("latency_p999_us_max", "99.9th percentile of latency at most"),
    ("count", "so many such flows, with a number behind the name"),
];

impl Default for Plan {
    fn default() -> Self {
        Self {
            title: "bench".to_owned(),
            warmup_ms: 500.0,
            length_ms: 3_000.0,
            window_ms: 250.0,
            verify: false,
            fairness_min: None,
            hogs: 0,
            flows: Vec::new(),
        }
    }
}

impl Flow {
    /// What ConnectX NICs have, and plans that were written before there was the key.
    const fn rd_atomic_default() -> u8 {
        16
    }

    /// A flow as it is if nothing is said of it: one 4 KiB message at a time.
    pub fn new(verb: Verb) -> Self {
        Self {
            name: verb.name().to_owned(),
            verb,
            size_bytes: 4096,
            window: 1,
            rd_atomic: Self::rd_atomic_default(),
            wait: WaitMode::Poll,
            inline: false,
            signal_every: 1,
            depends: 1,
            service_us: 0.0,
            work_us: 0.0,
            touch: false,
            queue_pairs: 1,
            threads: 1,
            servers: None,
            post_list: 1,
            rate_per_s: None,
            start_ms: 0.0,
            start_within_ms: 0.0,
            length_ms: None,
            transport: Service::Rc,
            traffic_class: 0,
            core: None,
            at_least: Thresholds::default(),
        }
    }
}

impl Verb {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Read,
        Self::Write,
        Self::WriteImm,
        Self::Send,
        Self::FetchAdd,
        Self::CompareSwap,
        Self::WriteSend,
        Self::SendSend,
        Self::WriteWrite,
    ];

    /// As files and flags have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::WriteImm => "write_imm",
            Self::Send => "send",
            Self::FetchAdd => "fetch_add",
            Self::CompareSwap => "compare_swap",
            Self::WriteSend => "write_send",
            Self::SendSend => "send_send",
            Self::WriteWrite => "write_write",
        }
    }

    /// Whether the server answers each message with one.
    pub const fn is_compound(self) -> bool {
        matches!(self, Self::WriteSend | Self::SendSend | Self::WriteWrite)
    }

    /// Whether a message takes a receive of the server.
    pub const fn is_received(self) -> bool {
        matches!(self, Self::Send | Self::WriteImm | Self::SendSend)
    }

    /// Whether who asks sends a payload of its own.
    pub const fn has_source(self) -> bool {
        matches!(self, Self::Write | Self::WriteImm | Self::Send)
    }

    /// Whether it works on a word.
    pub const fn is_atomic(self) -> bool {
        matches!(self, Self::FetchAdd | Self::CompareSwap)
    }
}

impl WaitMode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Poll, Self::Event, Self::Memory];

    /// As files and flags have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Poll => "poll",
            Self::Event => "event",
            Self::Memory => "memory",
        }
    }
}

impl Service {
    /// As files and flags have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rc => "rc",
            Self::Uc => "uc",
            Self::Ud => "ud",
        }
    }
}

/// What a mistake in a value is called.
fn wrong(key: &str, value: &Value, expected: &str) -> Failure {
    let value = match value {
        Value::Text(text) => format!("the text {text:?}"),
        value => value.to_string(),
    };
    Failure::new(format!("{key}: expected {expected}, and found {value}"))
        .hint("write a value of that range; the end of the key says its unit")
}

fn real(key: &str, value: &Value, least: f64, most: f64) -> Result<f64, Failure> {
    let expected = || match most {
        f64::MAX => format!("a number from {least} on"),
        _ => format!("a number from {least} to {most}"),
    };
    match value {
        Value::Number(number) if (least..=most).contains(number) => Ok(*number),
        _ => Err(wrong(key, value, &expected())),
    }
}

fn whole(key: &str, value: &Value, least: u32, most: u32) -> Result<u32, Failure> {
    let number = match value {
        Value::Number(number) if number.fract() == 0.0 => Some(*number),
        _ => None,
    };
    let fits = number.filter(|number| (f64::from(least)..=f64::from(most)).contains(number));
    fits.map(|number| number as u32)
        .ok_or_else(|| wrong(key, value, &format!("a whole number from {least} to {most}")))
}

fn truth(key: &str, value: &Value) -> Result<bool, Failure> {
    match value {
        Value::Truth(truth) => Ok(*truth),
        _ => Err(wrong(key, value, "true or false")),
    }
}

fn text(key: &str, value: &Value) -> Result<String, Failure> {
    match value {
        Value::Text(text) => Ok(text.clone()),
        _ => Err(wrong(key, value, "a text in quotes").hint("write it in quotes")),
    }
}

fn choice<T: Copy>(
    key: &str,
    value: &Value,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<T, Failure> {
    let names: Vec<&str> = all.iter().map(|one| name(*one)).collect();
    let text = text(key, value)?.replace('-', "_");
    all.iter().copied().find(|one| name(*one) == text).ok_or_else(|| {
        let failure = Failure::new(format!("{key}: there is no {text:?}"));
        match nearest(&text, &names) {
            Some(close) => failure.hint(format!("did you mean {close:?}?")),
            None => failure.hint(format!("one of {}", names.join(", "))),
        }
    })
}

/// That a key is unknown.
pub(crate) fn unknown(key: &str, keys: &[Key]) -> Failure {
    let names: Vec<&str> = keys.iter().map(|(name, _)| *name).collect();
    let failure = Failure::new(format!("unknown key `{key}`"));
    // Somebody may have left the unit out, and mistyped the rest.
    let without_unit = |name: &'static str| {
        ["_bytes", "_us", "_ms", "_per_s"].iter().find_map(|unit| name.strip_suffix(unit))
    };
    let short: Vec<&str> = names.iter().filter_map(|name| without_unit(name)).collect();
    let of_short =
        |close: &str| names.iter().find(|name| without_unit(name) == Some(close)).copied();
    let close = nearest(key, &names).or_else(|| nearest(key, &short).and_then(of_short));
    match close {
        Some(name) => failure.hint(format!("did you mean `{name}`?")),
        None => failure.hint(format!("the keys here are {}", names.join(", "))),
    }
}

impl Plan {
    /// Sets a key.
    ///
    /// # Errors
    /// An unknown key, or a value that it cannot have.
    pub fn set(&mut self, key: &str, value: &Value) -> Result<(), Failure> {
        match key {
            "title" => self.title = text(key, value)?,
            "warmup_ms" => self.warmup_ms = real(key, value, 0.0, LENGTH_MS_MAX)?,
            "length_ms" => self.length_ms = real(key, value, 1.0, LENGTH_MS_MAX)?,
            "window_ms" => self.window_ms = real(key, value, 1.0, LENGTH_MS_MAX)?,
            "verify" => self.verify = truth(key, value)?,
            "fairness_min" => self.fairness_min = Some(real(key, value, 0.0, 1.0)?),
            "hogs" => self.hogs = whole(key, value, 0, HOGS_MAX)?,
            _ => return Err(unknown(key, &PLAN_KEYS)),
        }
        Ok(())
    }

    /// How many windows are measured.
    pub fn windows(&self) -> usize {
        (self.length_ms / self.window_ms).ceil().max(1.0) as usize
    }

    /// The same, with every value held against its range: for a plan that somebody else has made.
    ///
    /// # Errors
    /// As [`Plan::set`], [`Flow::set`] and [`Plan::check`].
    pub fn vetted(&self) -> Result<Self, Failure> {
        let mut plan = Self { fairness_min: self.fairness_min, ..Self::default() };
        plan.set("title", &Value::Text(self.title.clone()))?;
        for (key, value) in self.values() {
            plan.set(key, &value)?;
        }
        for from in &self.flows {
            let mut flow = Flow { at_least: from.at_least, ..Flow::new(from.verb) };
            for (key, value) in from.values() {
                flow.set(key, &value)?;
            }
            plan.flows.push(flow);
        }
        plan.check()?;
        Ok(plan)
    }

    /// What is set before the flows, by key; without the title, and what is to be reached.
    fn values(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("warmup_ms", Value::Number(self.warmup_ms)),
            ("length_ms", Value::Number(self.length_ms)),
            ("window_ms", Value::Number(self.window_ms)),
            ("verify", Value::Truth(self.verify)),
            ("hogs", Value::Number(self.hogs.into())),
        ]
    }

    /// Whether its keys go together.
    ///
    /// # Errors
    /// Names the flow, the key and what to do.
    pub fn check(&self) -> Result<(), Failure> {
        if self.flows.is_empty() {
            return Err(Failure::new("there is no flow").hint("add a [[flow]] with a verb"));
        }
        if self.flows.len() > FLOWS_MAX {
            return Err(Failure::new(format!("{} flows", self.flows.len()))
                .hint(format!("a plan may have {FLOWS_MAX}; a flow may have many queue pairs")));
        }
        if self.window_ms > self.length_ms {
            let message = format!(
                "window_ms: {} is longer than the {} that are measured",
                self.window_ms, self.length_ms
            );
            return Err(Failure::new(message).hint("make window_ms shorter, or length_ms longer"));
        }
        if self.windows() > WINDOWS_MAX {
            return Err(Failure::new(format!(
                "window_ms: {} windows are too many",
                self.windows()
            ))
            .hint(format!("make window_ms longer: {WINDOWS_MAX} windows at most")));
        }
        for (index, flow) in self.flows.iter().enumerate() {
            if self.flows[..index].iter().any(|other| other.name == flow.name) {
                return Err(Failure::new(format!("name: two flows are called {:?}", flow.name))
                    .hint("give each a name of its own"));
            }
            flow.check(self).map_err(|failure| failure.within(format!("flow {:?}", flow.name)))?;
        }
        Ok(())
    }
}

impl Flow {
    /// Sets a key.
    ///
    /// # Errors
    /// An unknown key, or a value that it cannot have.
    pub fn set(&mut self, key: &str, value: &Value) -> Result<(), Failure> {
        let bound = || real(key, value, 0.0, f64::MAX).map(Some);
        match key {
            "name" => self.name = text(key, value)?,
            "verb" => self.verb = choice(key, value, &Verb::ALL, Verb::name)?,
            "size_bytes" => self.size_bytes = whole(key, value, 1, MESSAGE_BYTES_MAX)?,
            "window" => self.window = whole(key, value, 1, WINDOW_MAX)?,
            "rd_atomic" => {
                let most = transport::limits::RD_ATOMIC_MAX.into();
                self.rd_atomic = whole(key, value, 1, most)? as u8;
            }
            "wait" => self.wait = choice(key, value, &WaitMode::ALL, WaitMode::name)?,
            "inline" => self.inline = truth(key, value)?,
            "signal_every" => self.signal_every = whole(key, value, 1, WINDOW_MAX)?,
            "depends" => self.depends = whole(key, value, 1, 64)?,
            "service_us" => self.service_us = real(key, value, 0.0, 1e6)?,
            "work_us" => self.work_us = real(key, value, 0.0, 1e6)?,
            "touch" => self.touch = truth(key, value)?,
            "servers" => self.servers = Some(whole(key, value, 1, THREADS_MAX)?),
            "queue_pairs" => self.queue_pairs = whole(key, value, 1, QUEUE_PAIRS_MAX)?,
            "threads" => self.threads = whole(key, value, 1, THREADS_MAX)?,
            "post_list" => self.post_list = whole(key, value, 1, WINDOW_MAX)?,
            "rate_per_s" => self.rate_per_s = Some(real(key, value, 0.001, 1e9)?),
            "start_ms" => self.start_ms = real(key, value, 0.0, LENGTH_MS_MAX)?,
            "start_within_ms" => self.start_within_ms = real(key, value, 0.0, LENGTH_MS_MAX)?,
            "length_ms" => self.length_ms = Some(real(key, value, 1.0, LENGTH_MS_MAX)?),
            "transport" => {
                let all = [Service::Rc, Service::Uc, Service::Ud];
                self.transport = choice(key, value, &all, Service::name)?;
            }
            "traffic_class" => self.traffic_class = whole(key, value, 0, 255)? as u8,
            "core" => self.core = Some(whole(key, value, 0, 1023)?),
            "bandwidth_gbps_min" => self.at_least.bandwidth_gbps_min = bound()?,
            "window_gbps_min" => self.at_least.window_gbps_min = bound()?,
            "rate_per_s_min" => self.at_least.rate_per_s_min = bound()?,
            "latency_p50_us_max" => self.at_least.latency_p50_us_max = bound()?,
            "latency_p99_us_max" => self.at_least.latency_p99_us_max = bound()?,
            "latency_p999_us_max" => self.at_least.latency_p999_us_max = bound()?,
            _ => return Err(unknown(key, &FLOW_KEYS)),
        }
        Ok(())
    }

    /// All that is set, by key.
    fn values(&self) -> Vec<(&'static str, Value)> {
        let number = |key, value: f64| (key, Value::Number(value));
        let text = |key, value: &str| (key, Value::Text(value.to_owned()));
        let mut values = vec![
            text("name", &self.name),
            text("verb", self.verb.name()),
            number("size_bytes", self.size_bytes.into()),
            number("window", self.window.into()),
            number("rd_atomic", self.rd_atomic.into()),
            text("wait", self.wait.name()),
            ("inline", Value::Truth(self.inline)),
            ("touch", Value::Truth(self.touch)),
            number("signal_every", self.signal_every.into()),
            number("depends", self.depends.into()),
            number("service_us", self.service_us),
            number("work_us", self.work_us),
            number("queue_pairs", self.queue_pairs.into()),
            number("threads", self.threads.into()),
            number("post_list", self.post_list.into()),
            number("start_ms", self.start_ms),
            number("start_within_ms", self.start_within_ms),
            text("transport", self.transport.name()),
            number("traffic_class", self.traffic_class.into()),
        ];
        values.extend(self.servers.map(|servers| number("servers", servers.into())));
        values.extend(self.rate_per_s.map(|rate| number("rate_per_s", rate)));
        values.extend(self.length_ms.map(|length| number("length_ms", length)));
        values.extend(self.core.map(|core| number("core", core.into())));
        values
    }

    /// Operations outstanding of all queue pairs and threads.
    pub fn outstanding(&self) -> u64 {
        u64::from(self.window) * u64::from(self.queue_pairs) * u64::from(self.threads)
    }

    /// Threads that serve.
    pub fn servers(&self) -> u32 {
        self.servers.unwrap_or(self.threads)
    }

    /// Bytes that an operation moves.
    pub fn bytes(&self) -> u32 {
        if self.verb.is_atomic() { 8 } else { self.size_bytes }
    }

    /// Inline data that its queue pairs take, for payloads or for requests of compound reads.
    pub fn inline_bytes(&self) -> u32 {
        let payload = if self.inline { self.size_bytes } else { 0 };
        if self.verb.is_compound() { payload.max(REQUEST_BYTES as u32) } else { payload }
    }

    fn check(&self, plan: &Plan) -> Result<(), Failure> {
        let wrong = |message: String, hint: &str| Err(Failure::new(message).hint(hint));
        let verb = self.verb.name();
        if self.rd_atomic == 0 {
            let message = "rd_atomic: no READ or atomic could begin with 0".to_owned();
            return wrong(message, "write 1 or more");
        }
        if self.signal_every > self.window {
            return wrong(
                format!(
                    "signal_every: {} requests, of {} outstanding, would never complete",
                    self.signal_every, self.window
                ),
                "make signal_every smaller than window, or window larger",
            );
        }
        if self.depends > 1 && self.verb != Verb::Read {
            return wrong(
                format!("depends: a {verb} does not depend on another"),
                "use verb = \"read\"",
            );
        }
        if self.depends > 1 && (self.signal_every > 1 || self.wait == WaitMode::Memory) {
            return wrong(
                "depends: every READ must complete before the next".to_owned(),
                "use signal_every = 1, and wait = \"poll\" or \"event\"",
            );
        }
        let watches = matches!(self.verb, Verb::Read | Verb::WriteWrite);
        if self.wait == WaitMode::Memory && !watches {
            return wrong(
                format!("wait: the end of a {verb} is not to be seen in memory"),
                "use wait = \"poll\" or \"event\"; or verb = \"read\", or \"write_write\", which is a ping-pong",
            );
        }
        if self.verb == Verb::WriteWrite && self.wait != WaitMode::Memory {
            return wrong(
                format!("wait: an answer by WRITE has no completion to {} for", self.wait.name()),
                "use wait = \"memory\"",
            );
        }
        if (self.wait == WaitMode::Memory || (plan.verify && !self.verb.is_atomic()))
            && !self.size_bytes.is_multiple_of(8)
        {
            return wrong(
                format!("size_bytes: {} is not a multiple of 8", self.size_bytes),
                "memory is watched, and payloads are checked, by words of eight bytes",
            );
        }
        if self.inline && (matches!(self.verb, Verb::Read) || self.verb.is_atomic()) {
            return wrong(format!("inline: a {verb} carries no data"), "leave it out");
        }
        if self.inline && self.size_bytes > transport::limits::INLINE_MAX {
            return wrong(
                format!("inline: {} bytes are too many", self.size_bytes),
                "a soft NIC takes 4096 bytes inline",
            );
        }
        let served = matches!(self.verb, Verb::Send | Verb::WriteImm) || self.verb.is_compound();
        if self.service_us > 0.0 && !served {
            return wrong(
                format!("service_us: no server sees a {verb}"),
                "use a verb that is received",
            );
        }
        if !self.threads.is_multiple_of(self.servers()) {
            return wrong(
                format!("servers: {} cannot share {} threads", self.servers(), self.threads),
                "make threads a multiple of servers",
            );
        }
        let offered = match self.transport {
            Service::Rc => true,
            Service::Uc => matches!(self.verb, Verb::Write | Verb::WriteImm | Verb::Send),
            Service::Ud => matches!(self.verb, Verb::Send),
        };
        if !offered {
            return wrong(
                format!("transport: {} has no {verb}", self.transport.name()),
                "use transport = \"rc\"",
            );
        }
        if self.transport == Service::Ud && self.size_bytes > 4096 {
            return wrong(
                format!(
                    "size_bytes: a datagram of {} bytes is longer than a packet",
                    self.size_bytes
                ),
                "a datagram has 4096 bytes at most, and no more than the path MTU",
            );
        }
        if plan.verify && self.verb == Verb::Write && self.transport != Service::Rc {
            return wrong(
                "verify: what a WRITE has written is read back, which UC cannot".to_owned(),
                "use verb = \"write_imm\", or transport = \"rc\"",
            );
        }
        if plan.verify && self.verb == Verb::Write && self.signal_every > 1 {
            return wrong(
                "verify: each WRITE must complete before it is read back".to_owned(),
                "use signal_every = 1",
            );
        }
        let end = plan.warmup_ms + plan.length_ms;
        if self.start_ms + self.start_within_ms >= end {
            return wrong(
                format!(
                    "start_ms: {} is after the end of the run, at {end}",
                    self.start_ms + self.start_within_ms
                ),
                "let it start earlier, or make length_ms of the plan longer",
            );
        }
        let lanes = u64::from(self.queue_pairs) * u64::from(self.threads / self.servers());
        let depth = u64::from(self.window) * 2 * lanes;
        if depth > u64::from(transport::limits::CQE_MAX) / 2 {
            return wrong(
                format!(
                    "window: {} times {} queue pairs are more than a completion queue holds",
                    self.window, self.queue_pairs
                ),
                "make window or queue_pairs smaller, or use more threads",
            );
        }
        Ok(())
    }
}
