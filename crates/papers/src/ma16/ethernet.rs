//! The paper's other path: Ethernet by a poll-mode driver, in bursts.
//!
//! ```text
//!   latency:    build and check-sum a burst, stamp it, check-sum it again, send it, look for a burst: again
//!   throughput: send a burst as long as the ring has room, look for a burst: again
//! ```
//!
//! That is the loop of the paper's generator (pspgen-dpdk), at both ends. It sends as fast as it can: no answer
//! is waited for. A packet here is a SEND over UC whose frame is as long on the wire as the Ethernet frame
//! would be; what else differs is the testbed's, `cx3-40g-ethernet`. Simulated clocks agree, so that a
//! packet's own stamp gives the one-way latency, which the paper takes from four.

use bench::world::sim::{self, Played, Seated};
use rdma::app::{
    App, Channel, Cq, CqSpec, Layout, Qp, QpSpec, Region, RegionSpec, Verbs, Wait, Woke,
};
use rdma::{
    Access, Completion, CompletionStatus, Operation, QpType, RecvRequest, SendFlags, Sge, Span,
    Time, WorkRequest,
};

use super::WARMUP;
use crate::draws::{Spread, each, seeds};
use crate::hosts::Hosts;
use crate::stats::quantile;
use crate::study::Context;
use crate::{Error, Options};

const TESTBED: &str = "cx3-40g-ethernet";
/// Of packets that have come, and of those that have left.
const RX: Cq = Cq(0);
const TX: Cq = Cq(1);
const QP: Qp = Qp(0);
const MEMORY: Region = Region(0);

/// What a frame has beside the packet, as the paper counts it (III-B).
const HEADER_BYTES: u32 = 14;
/// What the wire carries beside a packet: preamble, header, FCS and gap; and beside the payload of a SEND.
const ON_WIRE: u32 = 38;
const ON_WIRE_OF_SEND: u32 = 82;
/// Descriptors of the generator's rings, and sends for each completion (DPDK 2.1), for which it looks where
/// three quarters are taken.
const RING: u64 = 512;
const SIGNAL: u64 = 64;
/// Packets that are looked for at once.
const BURST_MAX: usize = 32;

/// What two generators do to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bursts {
    /// Bytes of a packet, and packets of a burst.
    pub(super) packet: u32,
    pub(super) burst: u32,
    /// Whether packets are stamped, and so check-summed.
    pub(super) is_stamped: bool,
}

impl Bursts {
    /// Bytes of a SEND that is as long on the wire.
    fn payload(self) -> u32 {
        self.packet + ON_WIRE - ON_WIRE_OF_SEND
    }

    /// From one packet in memory to the next.
    fn stride(self) -> u64 {
        u64::from(self.packet.next_multiple_of(64))
    }
}

/// One of the two.
#[derive(Clone, Debug)]
struct Generator {
    of: Bursts,
    begin: Time,
    end: Time,
    regions: [RegionSpec; 1],
    qps: [QpSpec; 1],
    has_begun: bool,
    sent: u64,
    retired: u64,
    received: u64,
    /// One-way latencies in nanoseconds.
    latencies: Vec<f64>,
    error: Option<CompletionStatus>,
}

const QUEUES: [CqSpec; 2] = [CqSpec { depth: 2 * RING as u32 }; 2];

impl Generator {
    fn new(of: Bursts, begin: Time, end: Time) -> Self {
        let depth = RING as u32;
        Self {
            of,
            begin,
            end,
            regions: [RegionSpec { length: 2 * RING * of.stride(), access: Access::LOCAL_WRITE }],
            qps: [QpSpec {
                send_depth: depth,
                recv_depth: depth,
                send_cq: TX,
                ..QpSpec::new(QpType::Uc, Channel(0), RX)
            }],
            has_begun: false,
            sent: 0,
            retired: 0,
            received: 0,
            latencies: Vec::new(),
            error: None,
        }
    }

    fn at(&self, sequence: u64, is_received: bool) -> u64 {
        (sequence % RING + if is_received { RING } else { 0 }) * self.of.stride()
    }

    fn failed(&mut self) {
        self.error = Some(CompletionStatus::LocalQpOperation);
    }

    fn receive(&mut self, verbs: &mut dyn Verbs, sequences: &[u64]) {
        let memory = verbs.region(MEMORY);
        let piece = |&sequence: &u64| [memory.sge(self.at(sequence, true), self.of.payload())];
        let pieces: Vec<[Sge; 1]> = sequences.iter().map(piece).collect();
        let list: Vec<RecvRequest<'_>> = sequences
            .iter()
            .zip(&pieces)
            .map(|(sequence, sges)| RecvRequest { id: sequence << 1 | 1, sges })
            .collect();
        if !list.is_empty() && verbs.post_recv(QP, &list).is_err() {
            self.failed();
        }
    }

    /// A look for a burst.
    fn look(&mut self, verbs: &mut dyn Verbs) {
        let mut some = [Completion::NOTHING; BURST_MAX];
        let count = verbs.poll(RX, &mut some);
        let now = verbs.now();
        let is_measured = (self.begin..self.end).contains(&now);
        let mut again = Vec::new();
        for completion in &some[..count] {
            let sequence = completion.id >> 1;
            if completion.status != CompletionStatus::Success {
                self.error = Some(completion.status);
                return;
            }
            let stamp = verbs.word(MEMORY, self.at(sequence, true));
            self.received += u64::from(is_measured);
            if is_measured && self.of.is_stamped {
                self.latencies.push((now.as_ps() - stamp) as f64 / 1e3);
            }
            again.push(sequence + RING);
        }
        self.receive(verbs, &again);
    }

    /// Sends a burst, as far as the ring has room.
    fn send(&mut self, verbs: &mut dyn Verbs) {
        let mut gone = [Completion::NOTHING; BURST_MAX];
        if RING - (self.sent - self.retired) < RING / 4 {
            let count = verbs.poll(TX, &mut gone);
            for completion in &gone[..count] {
                self.retired = (completion.id >> 1) + 1;
                if completion.status != CompletionStatus::Success {
                    self.error = Some(completion.status);
                }
            }
        }
        let room = RING - (self.sent - self.retired);
        let burst = u64::from(self.of.burst);
        if room < burst {
            return;
        }
        let places: Vec<u64> = (self.sent..self.sent + burst).map(|n| self.at(n, false)).collect();
        let sum = |verbs: &mut dyn Verbs| {
            for at in &places {
                verbs.touch(MEMORY, *at, self.of.packet.into());
            }
        };
        if self.of.is_stamped {
            sum(verbs);
        }
        let stamp = verbs.now().as_ps().to_ne_bytes();
        for at in &places {
            verbs.store(MEMORY, *at, &stamp);
        }
        if self.of.is_stamped {
            sum(verbs);
        }
        let memory = verbs.region(MEMORY);
        let pieces: Vec<[Sge; 1]> =
            places.iter().map(|at| [memory.sge(*at, self.of.payload())]).collect();
        let list: Vec<WorkRequest<'_>> = (self.sent..)
            .zip(&pieces)
            .map(|(sequence, sges)| WorkRequest {
                id: sequence << 1,
                operation: Operation::Send { immediate: None, address: None },
                flags: match (sequence + 1).is_multiple_of(SIGNAL) {
                    true => SendFlags::SIGNALED,
                    false => SendFlags::NONE,
                },
                sges,
                inline: None,
            })
            .collect();
        match verbs.post_send(QP, &list) {
            Ok(()) => self.sent += burst,
            Err(_) => self.failed(),
        }
    }
}

impl App for Generator {
    fn layout(&self) -> Layout<'_> {
        Layout { regions: &self.regions, cqs: &QUEUES, qps: &self.qps, serves: false }
    }

    fn step(&mut self, verbs: &mut dyn Verbs, _: Woke) -> Wait {
        if !self.has_begun {
            self.has_begun = true;
            let all: Vec<u64> = (0..RING).collect();
            self.receive(verbs, &all);
            // The other's receives are posted by then. Loops do not run in lockstep.
            let later = Span::from_ns(100_000 + verbs.random() % 5_000);
            return Wait::at(verbs.now() + later);
        }
        self.send(verbs);
        self.look(verbs);
        match self.error.is_some() || verbs.now() >= self.end {
            true => Wait::done(),
            false => Wait::turn(),
        }
    }
}

/// The median one-way latency in microseconds, and what both directions have in Gb/s, headers counted.
fn pass(hosts: &Hosts, options: Options, of: Bursts, length: Span) -> Result<[f64; 2], Error> {
    let wrong = |why: String| Error::Hosts(TESTBED, why);
    let config = hosts.network(options)?;
    let begin = Time::ZERO + WARMUP;
    let end = begin + length;
    let seat = |host| Seated { app: Generator::new(of, begin, end), host, core: 0 };
    let Played { outcomes, why, .. } =
        sim::run(config, vec![seat(0), seat(1)], end + Span::from_ms(50), &mut ())
            .map_err(|failure| wrong(failure.to_string()))?;
    if let Some(failure) = why {
        return Err(wrong(failure.to_string()));
    }
    let ends: Vec<Generator> = outcomes.into_iter().map(|outcome| outcome.app).collect();
    if let Some(status) = ends.iter().find_map(|end| end.error) {
        return Err(wrong(format!("a packet of {} bytes ended with {status}", of.packet)));
    }
    let received: u64 = ends.iter().map(|end| end.received).sum();
    let bits = f64::from(of.packet + HEADER_BYTES) * 8.0;
    let mut latencies: Vec<f64> = ends.into_iter().flat_map(|end| end.latencies).collect();
    let gbps = received as f64 * bits * 1e3 / length.as_ps() as f64;
    Ok([quantile(&mut latencies, 0.5) / 1e3, gbps])
}

fn run(context: &Context<'_>, hosts: &Hosts, of: Bursts) -> Result<[Spread; 2], Error> {
    let length = Span::from_us(if context.options.quick { 500 } else { 2_000 });
    let draws = each(&seeds(context.options), |options| pass(hosts, options, of, length))?;
    Ok([0, 1].map(|value| Spread::of(&draws, |draw| draw[value])))
}

/// The median one-way latency of bursts, in microseconds; `touch_byte_ns` is what a check-sum takes for a byte,
/// where that is another than the testbed's.
pub(super) fn latency(
    context: &mut Context<'_>,
    (packet, burst): (u32, u32),
    touch_byte_ns: Option<&str>,
) -> Result<Spread, Error> {
    let hosts = Hosts::pair(TESTBED);
    let hosts = match touch_byte_ns {
        Some(ns) => hosts.but("touch_byte_ns", ns),
        None => hosts,
    };
    let [us, _] = run(context, &hosts, Bursts { packet, burst, is_stamped: true })?;
    Ok(us)
}

/// What both directions have of bursts of 32, in Gb/s, headers counted.
pub(super) fn throughput(context: &mut Context<'_>, packet: u32) -> Result<Spread, Error> {
    let of = Bursts { packet, burst: BURST_MAX as u32, is_stamped: false };
    let [_, gbps] = run(context, &Hosts::pair(TESTBED), of)?;
    Ok(gbps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_take_the_wire_that_ethernet_frames_would() {
        let options = Options { quick: true, ..Options::default() };
        let of = Bursts { packet: 1_500, burst: 32, is_stamped: false };
        let [_, gbps] = pass(&Hosts::pair(TESTBED), options, of, Span::from_us(500)).unwrap();
        let line = 80.0 * f64::from(1_500 + HEADER_BYTES) / f64::from(1_500 + ON_WIRE);
        assert!((gbps / line - 1.0).abs() < 0.01, "{gbps} {line}");
    }

    #[test]
    fn a_burst_is_as_late_as_its_check_sums() {
        let options = Options { quick: true, ..Options::default() };
        let us = |ns| {
            let of = Bursts { packet: 1_500, burst: 32, is_stamped: true };
            let hosts = Hosts::pair(TESTBED).but("touch_byte_ns", ns);
            pass(&hosts, options, of, Span::from_us(500)).unwrap()[0]
        };
        // That of the sender after its stamp, and those of two loops of the receiver at most, before it looks.
        let more = us("0.4") - us("0.2");
        let sum = 32.0 * 1_500.0 * 0.2e-3;
        assert!(more > sum && more < 5.1 * sum, "{more}");
    }
}
