//! `[[workload]]`: one function for each kind.

use std::collections::BTreeMap;

use rdma::{Rate, Span, Time};
use transport::limits::MESSAGE_BYTES_MAX;

use super::job::{Chakra, Collective, Goal};
use super::{Files, host};
use crate::limits::{FLOWS_MAX, SPREAD_BYTES_MAX};
use crate::random::Random;
use crate::scenario::at::{At, Result};
use crate::scenario::deferred::Deferred;
use crate::scenario::table::{kinds, table};
use crate::scenario::value::{
    TICK, Value, at_least, choice, flag, list, needed, or, otherwise, points, share, text, time,
    time_from, whole, within,
};
use crate::topology::{End, Topology};
use crate::workload::{self as make, FlowSpec, Interval, Job, Service, SizeDistribution, Verb};

kinds! {
    /// What the applications do.
    Workload by kind {
        /// One host sends to another.
        "flow" => Flow(Flow);
        /// Every host sends to another one, and every one is sent to once.
        "permutation" => Permutation(All);
        /// Hosts taken at random send to one.
        "incast" => Incast(Incast);
        /// Every host sends to every other one.
        "all-to-all" => AllToAll(All);
        /// Every host sends to the next, as in a step of a ring all-reduce.
        "ring" => Ring(All);
        /// Messages between hosts taken at random, at exponential intervals. One of message_bytes,
        /// sizes, distribution and distribution_file says how long they are.
        "poisson" => Poisson(Poisson);
        /// Messages of a file.
        "trace" => Trace(Trace);
        /// Chatty servers: each querier asks other hosts, taken at random, all at once (guo16, 6.2).
        "queries" => Queries(Queries);
        /// 512 bytes to another host and back, by the clock (guo16, 5.3). Either pairs is given, or
        /// from and to.
        "probes" => Probes(Probes);
        /// What ranks do together, step by step: a collective operation. A rank goes on when what it waits
        /// for has arrived.
        "collective" => Collective(Collective);
        /// What the ranks of a file do: a schedule in the text form of GOAL (LogGOPSim, ATLAHS).
        "goal" => Goal(Goal);
        /// What execution traces of Chakra (MLCommons) say, one for each rank.
        "chakra" => Chakra(Chakra);
    }
}

fn message<'a>() -> Value<'a, u32> {
    let longer = "is more than 2147483648, the longest message";
    within(0, MESSAGE_BYTES_MAX, (longer, "send several messages"))
}

fn interval<'a>() -> Value<'a, Span> {
    let hint = "10 for a message every 10 us; without it, messages follow each other";
    time_from(TICK, ("would begin all messages at one time", hint))
}

/// What a flow is of which nothing is said.
const PLAIN: FlowSpec = FlowSpec::write(0, 0, 0);
const DSCP_OF_TCP: u8 = 0;
const MESSAGES: u64 = 1;
const DEPTH_OF_ENDLESS: u32 = 2;
const QUEUE_PAIRS: u32 = 1;

table! {
    /// What carries messages.
    struct Carrier {
        /// Reliable and unreliable connections, datagrams, or TCP.
        service = choice() => service: Service;
        /// DSCP of the packets.
        dscp = or(format!("{}, and {DSCP_OF_TCP} of tcp", PLAIN.dscp), within(0, 63, "a DSCP has six bits")) => dscp: Option<u8>;
    }
}

impl Carrier {
    fn dscp(&self) -> u8 {
        self.dscp.unwrap_or(if self.service == Service::Tcp { DSCP_OF_TCP } else { PLAIN.dscp })
    }
}

table! {
    /// How messages follow each other.
    struct Posts {
        /// What is posted.
        verb = or("write, and send of ud and tcp", choice()) => verb: Option<Verb>;
        /// How many messages a flow has.
        messages =
            otherwise(MESSAGES, at_least(1, "endless = true for one that does not end"))
            => messages: Option<u64>;
        /// As many messages as the time allows.
        endless = flag() => endless: bool;
        /// Messages that are under way at a time.
        depth = or(format!("{}, and {DEPTH_OF_ENDLESS} of endless flows", PLAIN.depth),
            at_least(1, "1 for a message at a time")) => depth: Option<u32>;
        /// Queue pairs of each flow, with messages of their own.
        queue_pairs =
            otherwise(QUEUE_PAIRS, at_least(1, "1 for a queue pair of each flow"))
            => queue_pairs: Option<u32>;
        /// When the first message is posted.
        start_us = time() => start: Span;
        /// Messages are posted by the clock: one each interval, unless depth are under way.
        interval_us = or("when the one before is done", interval()) => interval: Option<Span>;
        /// Whether intervals are exponential, with interval_us for their mean.
        interval_random = otherwise(false, flag()) => interval_random: Option<bool>;
        /// Each SEND is answered by one of so many bytes, before the next is posted.
        reply_bytes = or("no answer", message()) => reply_bytes: Option<u32>;
        /// Messages go to places, taken at random, in so much of the destination's memory.
        spread_bytes = or("one place",
            within(0, SPREAD_BYTES_MAX, SPREAD)) => spread_bytes: Option<u64>;
        ..carrier: Carrier;
    }
    check can_be_posted;
}

const SPREAD: &str = "it is the memory in which messages find a place";

fn can_be_posted(posts: &Posts, at: &At<'_>) -> Result<()> {
    let (key, message, hint) = if posts.interval_random.is_some() && posts.interval.is_none() {
        let follow = "without interval_us, messages follow each other";
        ("interval_random", follow, "add interval_us")
    } else if posts.endless && posts.messages.is_some() {
        let endless = "an endless flow has no number of messages";
        ("messages", endless, "remove one of messages and endless")
    } else if posts.reply_bytes.is_some() && posts.verb() != Verb::Send {
        ("reply_bytes", "only SENDs can be answered", "verb = \"send\"")
    } else if posts.spread_bytes.is_some() && posts.verb() == Verb::Send {
        let place = "a SEND goes where the receiver wants it";
        ("spread_bytes", place, "spread WRITEs or READs")
    } else {
        return Ok(());
    };
    Err(at.wrong(key, message).hint(hint))
}

table! {
    /// See [`Workload`].
    struct Flow {
        /// Who sends.
        from = needed(text("a host")) => from: String;
        /// Who receives.
        to = needed(text("a host")) => to: String;
        /// The length of a message.
        message_bytes = needed(message()) => message_bytes: u32;
        ..posts: Posts;
    }
}

table! {
    /// See [`Workload`].
    struct All {
        /// The length of a message.
        message_bytes = needed(message()) => message_bytes: u32;
        ..posts: Posts;
    }
}

table! {
    /// See [`Workload`].
    struct Incast {
        /// Who receives.
        receiver = needed(text("a host")) => receiver: String;
        /// How many send.
        senders = or("all others", whole()) => senders: Option<u32>;
        /// The length of a message.
        message_bytes = needed(message()) => message_bytes: u32;
        ..posts: Posts;
    }
}

table! {
    /// See [`Workload`].
    struct Poisson {
        /// The part of what the links of the hosts carry.
        load = needed(share("0.5 for half of what the links of the hosts carry")) => load: f64;
        /// When the last message is posted.
        until_us = or("the end", time()) => until: Option<Span>;
        /// Messages of one length.
        message_bytes = or("see the others", message()) => message_bytes: Option<u32>;
        /// Points of the cumulative distribution: bytes, and the probability of at most as many.
        sizes = or("see the others", points()) => sizes: Option<Vec<(u32, f64)>>;
        /// A distribution that is shipped: web-search, hadoop or memcached.
        distribution = or("see the others", text("a name")) => distribution: Option<String>;
        /// A distribution as CSV: bytes,cumulative.
        distribution_file =
            or("see the others", text("a file")) => distribution_file: Option<String>;
        ..posts: Posts;
    }
}

table! {
    /// See [`Workload`].
    struct Trace {
        /// As CSV: start_us,source,destination,bytes, and dscp and verb.
        trace_file = needed(text("a file")) => trace_file: String;
        ..posts: Posts;
    }
}

table! {
    /// See [`Workload`].
    struct Queries {
        /// Who asks.
        queriers = needed(list(text("a host"))) => queriers: Vec<String>;
        /// How many others each of them asks.
        fan_out = needed(whole()) => fan_out: u32;
        /// The length of a query.
        message_bytes = needed(message()) => message_bytes: u32;
        /// The length of an answer.
        reply_bytes = needed(message()) => reply_bytes: u32;
        /// From one query to the next.
        interval_us = needed(interval()) => interval: Span;
        /// Queries of each querier.
        messages = or("as many as the time allows",
            at_least(1, "leave it out for as many as the time allows"))
            => messages: Option<u64>;
        ..carrier: Carrier;
    }
}

table! {
    /// See [`Workload`].
    struct Probes {
        /// Who probes.
        from = or("see pairs", text("a host")) => from: Option<String>;
        /// Whom.
        to = or("see pairs", text("a host")) => to: Option<String>;
        /// So many pairs of hosts, taken at random.
        pairs = or("see from and to", whole()) => pairs: Option<u32>;
        /// From one probe of a pair to the next.
        interval_us = needed(interval()) => interval: Span;
        ..carrier: Carrier;
    }
}

/// What a workload is about.
pub(super) struct Scene<'s> {
    pub(super) topology: &'s Topology,
    pub(super) end: Time,
    pub(super) files: &'s dyn Files,
}

/// What a workload adds.
pub(super) enum Work {
    Flows(Vec<FlowSpec>),
    Job(Job),
}

/// Flows that are made, before it is known how their messages follow each other.
struct Made {
    flows: Vec<FlowSpec>,
    posts: Posts,
    /// Each flow has a verb of its own already.
    has_verbs: bool,
    /// Each flow has a DSCP of its own already.
    has_dscps: bool,
}

impl Made {
    fn new(flows: Vec<FlowSpec>, posts: Posts) -> Self {
        Self { flows, posts, has_verbs: false, has_dscps: false }
    }
}

pub(super) fn workload(
    table: &Deferred<'_, Workload>,
    scene: &Scene<'_>,
    random: &mut Random,
) -> Result<Work> {
    let at = &table.at;
    let made = match table.kind()? {
        Workload::Queries(of) => return scene.queries(&of, at, random).map(Work::Flows),
        Workload::Probes(of) => return scene.probes(&of, at, random).map(Work::Flows),
        Workload::Collective(of) => return job(of.job(at, scene.topology)?, at),
        Workload::Chakra(of) => return job(of.job(at, scene.topology, scene.files)?, at),
        Workload::Goal(of) => return job(of.job(at, scene.topology, scene.files)?, at),
        Workload::Flow(of) => scene.flow(of, at)?,
        Workload::Permutation(of) => scene.permutation(of, at, random)?,
        Workload::Incast(of) => scene.incast(of, at, random)?,
        Workload::AllToAll(of) => scene.all_to_all(of, at)?,
        Workload::Ring(of) => scene.ring(of, at)?,
        Workload::Poisson(of) => scene.poisson(of, at, random)?,
        Workload::Trace(of) => scene.trace(of, at)?,
    };
    made.posted(at).map(Work::Flows)
}

impl Scene<'_> {
    fn hosts(&self) -> u32 {
        self.topology.hosts.len() as u32
    }

    fn host(&self, at: &At<'_>, key: &str, name: &str) -> Result<u32> {
        host(at, self.topology, key, name)
    }

    fn flow(&self, of: Flow, at: &At<'_>) -> Result<Made> {
        let (from, to) = (self.host(at, "from", &of.from)?, self.host(at, "to", &of.to)?);
        if from == to {
            let wrong = at.wrong("to", format!("{:?} is at both ends", of.to));
            return Err(wrong.hint("a flow is between two hosts"));
        }
        of.posts.room(at, 1.0, of.message_bytes)?;
        Ok(Made::new(vec![FlowSpec::write(from, to, of.message_bytes)], of.posts))
    }

    fn permutation(&self, of: All, at: &At<'_>, random: &mut Random) -> Result<Made> {
        of.posts.room(at, f64::from(self.hosts()), of.message_bytes)?;
        Ok(Made::new(make::permutation(self.hosts(), of.message_bytes, random), of.posts))
    }

    fn ring(&self, of: All, at: &At<'_>) -> Result<Made> {
        of.posts.room(at, f64::from(self.hosts()), of.message_bytes)?;
        Ok(Made::new(make::ring(self.hosts(), of.message_bytes), of.posts))
    }

    fn all_to_all(&self, of: All, at: &At<'_>) -> Result<Made> {
        of.posts.room(at, f64::from(self.hosts()).powi(2), of.message_bytes)?;
        Ok(Made::new(make::all_to_all(self.hosts(), of.message_bytes), of.posts))
    }

    fn incast(&self, of: Incast, at: &At<'_>, random: &mut Random) -> Result<Made> {
        let receiver = self.host(at, "receiver", &of.receiver)?;
        let others = self.hosts().saturating_sub(1);
        let senders = of.senders.unwrap_or(others);
        if senders == 0 || senders > others {
            let wrong = at.wrong("senders", format!("{senders} of {others} other hosts"));
            return Err(wrong.hint("at least one; queue_pairs gives each several flows"));
        }
        of.posts.room(at, f64::from(senders), of.message_bytes)?;
        let flows = make::incast(self.hosts(), receiver, senders, of.message_bytes, random);
        Ok(Made::new(flows, of.posts))
    }

    fn poisson(&self, of: Poisson, at: &At<'_>, random: &mut Random) -> Result<Made> {
        let sizes = self.sizes(&of, at)?;
        if sizes.mean() <= 0.0 {
            let wrong = at.wrong("load", "messages of no bytes make no load");
            return Err(wrong.hint("let them have a byte at least"));
        }
        let until = of.until.map_or(self.end, |until| Time::ZERO + until);
        let line = self.slowest_of_hosts();
        let per_second = of.load * line.as_bps() as f64 * f64::from(self.hosts());
        let flows = per_second * until.as_ps() as f64 / 1e12 / (sizes.mean() * 8.0);
        of.posts.room(at, flows, of.message_bytes.unwrap_or(0))?;
        let flows = make::poisson(self.hosts(), line, of.load, &sizes, until, random);
        Ok(Made::new(flows, of.posts))
    }

    /// The links of hosts are of one rate in every shape but a list.
    fn slowest_of_hosts(&self) -> Rate {
        let is_host = |end: &End| matches!(end, End::Host(_));
        let links = self.topology.links.iter().filter(|link| link.ends.iter().any(is_host));
        links.map(|link| link.rate).min().unwrap_or_default()
    }

    /// Said by one of four keys.
    fn sizes(&self, of: &Poisson, at: &At<'_>) -> Result<SizeDistribution> {
        let Poisson { message_bytes, sizes, distribution, distribution_file, .. } = of;
        match (sizes, distribution, distribution_file, message_bytes) {
            (Some(points), None, None, None) => {
                SizeDistribution::new(points.clone()).ok_or_else(|| {
                    at.wrong("sizes", "bytes and probabilities rise, the last one to 1")
                        .hint("sizes = [[1_000, 0.5], [100_000, 1.0]]")
                })
            }
            (None, Some(name), None, None) => SizeDistribution::named(name).ok_or_else(|| {
                let names: Vec<&str> = SizeDistribution::names().collect();
                at.wrong("distribution", format!("there is no distribution {name:?}"))
                    .hint(format!("{}, or distribution_file = \"sizes.csv\"", names.join(", ")))
            }),
            (None, None, Some(name), None) => {
                let text = at.open("distribution_file", name, self.files)?;
                let made = SizeDistribution::from_csv(&text);
                made.map_err(|error| at.wrong_in("distribution_file", name, error))
            }
            (None, None, None, Some(bytes)) => Ok(SizeDistribution::constant(*bytes)),
            _ => Err(at
                .wrong("sizes", "the sizes of messages are to be said once")
                .hint("give one of message_bytes, sizes, distribution and distribution_file")),
        }
    }

    fn trace(&self, of: Trace, at: &At<'_>) -> Result<Made> {
        let name = &of.trace_file;
        let text = at.open("trace_file", name, self.files)?;
        let hosts = self.topology.hosts.iter().map(String::as_str);
        let known: BTreeMap<&str, u32> = hosts.zip(0..).collect();
        let host = |name: &str| known.get(name).copied();
        let traced =
            make::trace(&text, &host).map_err(|error| at.wrong_in("trace_file", name, error))?;
        of.posts.room(at, traced.flows.len() as f64, 0)?;
        let make::Trace { flows, verbs: has_verbs, dscps: has_dscps } = traced;
        Ok(Made { flows, posts: of.posts, has_verbs, has_dscps })
    }

    fn queries(&self, of: &Queries, at: &At<'_>, random: &mut Random) -> Result<Vec<FlowSpec>> {
        let queriers = of.queriers.iter().map(|name| self.host(at, "queriers", name));
        let queriers = queriers.collect::<Result<Vec<u32>>>()?;
        let others = self.hosts().saturating_sub(1);
        let fan_out = of.fan_out;
        if fan_out == 0 || fan_out > others {
            let wrong = at.wrong("fan_out", format!("{fan_out} of {others} other hosts"));
            return Err(wrong.hint("at least 1, and not more than there are"));
        }
        room(at, queriers.len() as f64 * f64::from(fan_out))?;
        let of = make::Queries {
            service: of.carrier.service,
            dscp: of.carrier.dscp(),
            query_bytes: of.message_bytes,
            answer_bytes: of.reply_bytes,
            every: of.interval,
            count: of.messages,
        };
        Ok(make::queries(self.hosts(), &queriers, fan_out, &of, random))
    }

    fn probes(&self, of: &Probes, at: &At<'_>, random: &mut Random) -> Result<Vec<FlowSpec>> {
        room(at, f64::from(of.pairs.unwrap_or(1)))?;
        let pairs = self.probed(of, at, random)?;
        let Carrier { service, .. } = of.carrier;
        Ok(make::probes(&pairs, service, of.carrier.dscp(), of.interval, random))
    }

    /// The pairs of hosts that are probed.
    fn probed(&self, of: &Probes, at: &At<'_>, random: &mut Random) -> Result<Vec<(u32, u32)>> {
        let hosts = u64::from(self.hosts());
        match (&of.from, &of.to, of.pairs) {
            (Some(from), Some(to), None) => {
                let (from, to) = (self.host(at, "from", from)?, self.host(at, "to", to)?);
                if from == to {
                    let wrong = at.wrong("to", "a probe is between two hosts");
                    return Err(wrong.hint("name another one"));
                }
                Ok(vec![(from, to)])
            }
            (None, None, Some(_)) if hosts < 2 => {
                Err(at.wrong("pairs", "there are not two hosts").hint("a topology of two or more"))
            }
            (None, None, Some(count)) => {
                let pair = |_| {
                    let from = random.below(hosts);
                    let to = (from + 1 + random.below(hosts - 1)) % hosts;
                    // Hosts are fewer than 2^32.
                    (from as u32, to as u32)
                };
                Ok((0..count).map(pair).collect())
            }
            _ => Err(at
                .wrong("pairs", "which hosts are probed is not said, or twice")
                .hint("give pairs, or from and to")),
        }
    }
}

/// A job, if there is room for its connections.
fn job(job: Job, at: &At<'_>) -> Result<Work> {
    room(at, job.schedule.connections().len() as f64)?;
    Ok(Work::Job(job))
}

/// Refuses more flows than there is room for, before any of them is made.
pub(super) fn room(at: &At<'_>, flows: f64) -> Result<()> {
    if flows <= FLOWS_MAX as f64 {
        return Ok(());
    }
    let message = format!("these would be {flows:.0} flows, and there is room for {FLOWS_MAX}");
    Err(at.wrong("kind", message).hint("take fewer hosts, less time, load or queue pairs"))
}

impl Posts {
    fn verb(&self) -> Verb {
        let of_service = match self.carrier.service {
            Service::Ud | Service::Tcp => Verb::Send,
            Service::Rc | Service::Uc => Verb::Write,
        };
        self.verb.unwrap_or(of_service)
    }

    /// Refuses more flows than there is room for, and messages that their place has no room for.
    fn room(&self, at: &At<'_>, flows: f64, message_bytes: u32) -> Result<()> {
        if self.spread_bytes.is_some_and(|spread| spread < u64::from(message_bytes)) {
            let spread = self.spread_bytes.unwrap_or(0);
            let message = format!("{spread} bytes is not from message_bytes to {SPREAD_BYTES_MAX}");
            return Err(at.wrong("spread_bytes", message).hint(SPREAD));
        }
        room(at, flows * f64::from(self.queue_pairs()))
    }

    fn queue_pairs(&self) -> u32 {
        self.queue_pairs.unwrap_or(QUEUE_PAIRS)
    }

    fn depth(&self) -> u32 {
        self.depth.unwrap_or(if self.endless { DEPTH_OF_ENDLESS } else { PLAIN.depth })
    }

    fn messages(&self) -> Option<u64> {
        (!self.endless).then(|| self.messages.unwrap_or(MESSAGES))
    }
}

impl Made {
    /// The flows, with all that their table says.
    fn posted(self, at: &At<'_>) -> Result<Vec<FlowSpec>> {
        let Self { mut flows, posts, has_verbs, has_dscps } = self;
        let Posts { reply_bytes, spread_bytes, interval, .. } = posts;
        for flow in &mut flows {
            // The kind of workload has said between whom, and of how many bytes.
            let FlowSpec { source, destination, message_bytes, round, start, job, .. } = *flow;
            *flow = FlowSpec {
                source,
                destination,
                message_bytes,
                round,
                job,
                service: posts.carrier.service,
                verb: if has_verbs { flow.verb } else { posts.verb() },
                dscp: if has_dscps { flow.dscp } else { posts.carrier.dscp() },
                reply_bytes,
                spread_bytes,
                interval: interval.map(|mean| Interval {
                    mean,
                    exponential: posts.interval_random.unwrap_or_default(),
                }),
                depth: posts.depth(),
                messages: posts.messages(),
                start: start + posts.start,
            };
        }
        if !flows.iter().all(|flow| flow.verb.is_of(posts.carrier.service)) {
            let hint = "uc: write, write-immediate and send; ud and tcp: send";
            return Err(at.wrong("verb", "the service does not have it").hint(hint));
        }
        let copies = posts.queue_pairs() as usize;
        Ok(flows.into_iter().flat_map(|flow| core::iter::repeat_n(flow, copies)).collect())
    }
}
