//! The router nodes as applications: two that pass messages to each other, on one core each.
//!
//! ```text
//!   latency:    one message to and fro, with four timestamps: ((t4 - t1) - (t3 - t2)) / 2
//!   throughput: both send all the time, and count what they receive
//! ```
//!
//! A message is a batch of packets, each a piece of memory of its own at both ends.

use rdma::app::{
    App, Channel, Cq, CqSpec, Layout, Qp, QpSpec, Region, RegionSpec, Verbs, Wait, Woke,
};
use rdma::{
    Access, Completion, CompletionOpcode, CompletionStatus, Operation, QpType, RecvRequest,
    SendFlags, Sge, Time, WorkRequest,
};

const CQ: Cq = Cq(0);
const QP: Qp = Qp(0);
const MEMORY: Region = Region(0);

/// Messages that are sent and have not ended, and receives that are posted.
const WINDOW: u64 = 64;
const RECEIVES: u64 = 256;
/// One of so many sends has a completion.
const SIGNAL: u64 = 16;
/// Places in memory that messages go round in, at either end.
const PLACES: u64 = 16;

/// What is passed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Traffic {
    /// RC or UC.
    pub(super) service: QpType,
    /// Bytes of a packet.
    pub(super) packet: u32,
    /// Packets of a message.
    pub(super) batch: u32,
    /// One message at a time.
    pub(super) is_ping_pong: bool,
    /// What is not measured, until when it is, and when it is over.
    pub(super) begin: Time,
    pub(super) end: Time,
}

/// One of the two.
#[derive(Clone, Debug)]
pub(super) struct Router {
    traffic: Traffic,
    /// It sends the first message of a ping-pong.
    asks: bool,
    regions: [RegionSpec; 1],
    cqs: [CqSpec; 1],
    qps: [QpSpec; 1],
    sent: u64,
    retired: u64,
    /// One-way latencies in nanoseconds.
    pub(super) latencies: Vec<f64>,
    /// Messages received while it was measured.
    pub(super) received: u64,
    pub(super) error: Option<CompletionStatus>,
    has_begun: bool,
}

impl Router {
    pub(super) fn new(traffic: Traffic, asks: bool) -> Self {
        let length = 2 * PLACES * Self::place(&traffic);
        let qp = QpSpec {
            send_depth: 2 * WINDOW as u32,
            recv_depth: 2 * RECEIVES as u32,
            sges: traffic.batch,
            ..QpSpec::new(traffic.service, Channel(0), CQ)
        };
        Self {
            traffic,
            asks,
            regions: [RegionSpec { length, access: Access::LOCAL_WRITE }],
            cqs: [CqSpec { depth: 4 * RECEIVES as u32 }],
            qps: [qp],
            sent: 0,
            retired: 0,
            latencies: Vec::new(),
            received: 0,
            error: None,
            has_begun: false,
        }
    }

    /// Bytes that a message takes: each packet begins at a cache line.
    fn place(traffic: &Traffic) -> u64 {
        u64::from(traffic.packet.next_multiple_of(64).max(64)) * u64::from(traffic.batch)
    }

    /// Where a message begins; those that are received lie behind those that are sent.
    fn at(&self, sequence: u64, is_received: bool) -> u64 {
        let place = sequence % PLACES + if is_received { PLACES } else { 0 };
        place * Self::place(&self.traffic)
    }

    fn pieces(&self, verbs: &dyn Verbs, at: u64) -> Vec<Sge> {
        let region = verbs.region(MEMORY);
        let stride = Self::place(&self.traffic) / u64::from(self.traffic.batch);
        let packets = 0..u64::from(self.traffic.batch);
        packets.map(|packet| region.sge(at + packet * stride, self.traffic.packet)).collect()
    }

    fn receive(&mut self, verbs: &mut dyn Verbs, sequence: u64) {
        let sges = self.pieces(verbs, self.at(sequence, true));
        let request = RecvRequest { id: sequence << 1 | 1, sges: &sges };
        if verbs.post_recv(QP, &[request]).is_err() {
            self.error = Some(CompletionStatus::LocalQpOperation);
        }
    }

    /// Sends a message with two words: when it left, and how long its forerunner has been held.
    fn send(&mut self, verbs: &mut dyn Verbs, held: Option<(u64, u64)>) {
        let at = self.at(self.sent, false);
        let sges = self.pieces(verbs, at);
        let now = verbs.now().as_ps();
        // An answer bears the stamp of what it answers.
        let (stamp, held) = held.map_or((now, 0), |(stamp, since)| (stamp, now - since));
        verbs.store(MEMORY, at, &stamp.to_ne_bytes());
        verbs.store(MEMORY, at + 8, &held.to_ne_bytes());
        let is_signaled = (self.sent + 1).is_multiple_of(SIGNAL);
        let request = WorkRequest {
            id: (self.sent + 1) << 1,
            operation: Operation::Send { immediate: None, address: None },
            flags: if is_signaled { SendFlags::SIGNALED } else { SendFlags::NONE },
            sges: &sges,
            inline: None,
        };
        match verbs.post_send(QP, &[request]) {
            Ok(()) => self.sent += 1,
            Err(_) => self.error = Some(CompletionStatus::LocalQpOperation),
        }
    }

    fn take(&mut self, verbs: &mut dyn Verbs, completion: &Completion) {
        if completion.status != CompletionStatus::Success {
            self.error = Some(completion.status);
            return;
        }
        let sequence = completion.id >> 1;
        if completion.opcode != CompletionOpcode::Recv {
            self.retired = sequence;
            return;
        }
        let now = verbs.now();
        let at = self.at(sequence, true);
        let mut words = [0; 16];
        verbs.load(MEMORY, at, &mut words);
        self.receive(verbs, sequence + RECEIVES);
        let is_measured = (self.traffic.begin..self.traffic.end).contains(&now);
        self.received += u64::from(is_measured);
        if !self.traffic.is_ping_pong {
            return;
        }
        let mut halves = [[0; 8]; 2];
        halves[0].copy_from_slice(&words[..8]);
        halves[1].copy_from_slice(&words[8..]);
        let [stamp, held] = halves.map(u64::from_ne_bytes);
        if !self.asks {
            return self.send(verbs, Some((stamp, now.as_ps())));
        }
        if is_measured {
            self.latencies.push((now.as_ps() - stamp - held) as f64 / 2e3);
        }
        if now < self.traffic.end {
            self.send(verbs, None);
        }
    }
}

impl App for Router {
    fn layout(&self) -> Layout<'_> {
        let (regions, cqs, qps) = (&self.regions, &self.cqs, &self.qps);
        Layout { regions, cqs, qps, serves: self.traffic.is_ping_pong && !self.asks }
    }

    fn step(&mut self, verbs: &mut dyn Verbs, _: Woke) -> Wait {
        if !self.has_begun {
            self.has_begun = true;
            for sequence in 0..RECEIVES {
                self.receive(verbs, sequence);
            }
            if !self.traffic.is_ping_pong {
                // The other's receives are posted by then.
                return Wait::at(verbs.now() + rdma::Span::from_us(100));
            }
            if self.asks {
                self.send(verbs, None);
            }
            return Wait::poll(CQ);
        }
        let mut some = [Completion::NOTHING; 16];
        let count = verbs.poll(CQ, &mut some);
        for completion in &some[..count] {
            self.take(verbs, completion);
        }
        let now = verbs.now();
        if self.error.is_some()
            || (now >= self.traffic.end && (self.asks || !self.traffic.is_ping_pong))
        {
            return Wait::done();
        }
        if !self.traffic.is_ping_pong {
            while self.sent - self.retired < WINDOW && self.error.is_none() {
                self.send(verbs, None);
            }
        }
        Wait::poll(CQ).or_at(self.traffic.end)
    }
}
