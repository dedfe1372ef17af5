//! Applications: what flows post, and what they are told of.

use rdma::{CompletionOpcode, CompletionStatus, Operation, Qpn};
use transport::PostError;

use super::{Host, PairId, REPLY};
use crate::links::Links;
use crate::memory::BASE;
use crate::workload::{Flows, Verb};

impl Host {
    /// Posts as many messages of `flow`, to the queue pair `pair`, as it has room for.
    pub(crate) fn post(&mut self, links: &mut Links, flows: &mut Flows, flow: u32, pair: PairId) {
        self.post_at(links, flows, flow, pair.engine, pair.qpn);
        self.after(links, pair.engine);
        self.kick(links);
    }

    fn post_at(&mut self, links: &Links, flows: &mut Flows, flow: u32, engine: usize, qpn: Qpn) {
        let now = links.now();
        self.doorbell(links);
        let at = &mut self.engines[engine];
        let index = at.index_of(qpn);
        for _ in 0..flows.flow(flow).room() {
            let spec = *flows.spec(flow);
            let r_key = at.pairs[index].remote_key;
            let remote_address = BASE + flows.flow(flow).place(links.common.seed, flow);
            let operation = match spec.verb {
                Verb::Write => Operation::Write { remote_address, r_key, immediate: None },
                Verb::WriteImmediate => {
                    Operation::Write { remote_address, r_key, immediate: Some([0; 4]) }
                }
                Verb::Read => Operation::Read { remote_address, r_key },
                Verb::Send => Operation::Send { immediate: None, address: at.pairs[index].address },
                Verb::CompareSwap => {
                    Operation::CompareSwap { remote_address, r_key, compare: 0, swap: 0 }
                }
                Verb::FetchAdd => Operation::FetchAdd { remote_address, r_key, add: 1 },
            };
            // A WRITE reads from one place here; a READ stores at the address that it has there.
            let fetched = matches!(spec.verb, Verb::Read | Verb::CompareSwap | Verb::FetchAdd);
            let here = if fetched { remote_address } else { BASE };
            match at.send(now, qpn, flow.into(), operation, (here, spec.message_bytes)) {
                Ok(()) => flows.posted(flow, now),
                Err(PostError::Full) => {
                    at.pairs[index].backlog.push_back(flow.into());
                    return;
                }
                Err(_) => return flows.failed(flow, now),
            }
        }
    }

    /// Tells flows what has completed.
    pub(super) fn drain(&mut self, links: &mut Links, flows: &mut Flows, engine: usize) {
        let now = links.now();
        while let Some(completion) = {
            let at = &mut self.engines[engine];
            at.endpoint.poll_cq(at.cq)
        } {
            let qpn = completion.qpn;
            let at = &mut self.engines[engine];
            let index = at.index_of(qpn);
            let failed = completion.status != CompletionStatus::Success;
            let received = [CompletionOpcode::Recv, CompletionOpcode::RecvWriteImmediate];
            if received.contains(&completion.opcode) {
                if failed {
                    continue;
                }
                // The receive is posted again, so the receiver never runs out of them.
                let _ = at.post_receive(qpn);
                at.pairs[index].received += 1;
                let flow = at.pairs[index].flow;
                let spec = *flows.spec(flow);
                if let Some(job) = spec.job {
                    self.job_received(links, flows, job, completion.attached);
                    continue;
                }
                match spec.reply_bytes {
                    Some(bytes) if self.index == spec.destination => {
                        let address = at.pairs[index].address;
                        let operation = Operation::Send { immediate: None, address };
                        let reply = u64::from(flow) | REPLY;
                        if at.send(now, qpn, reply, operation, (BASE, bytes)).is_err() {
                            flows.unanswered.push(flow);
                        }
                    }
                    Some(_) => {
                        flows.completed(flow, now);
                        self.continue_after(links, flows, flow, engine, qpn);
                    }
                    None => {}
                }
                continue;
            }
            if completion.id & REPLY != 0 {
                continue;
            }
            let flow = completion.id as u32;
            if failed {
                flows.failed(flow, now);
                continue;
            }
            if flows.spec(flow).reply_bytes.is_none() {
                flows.completed(flow, now);
                self.job_sent(links, flows, completion.id);
                self.continue_after(links, flows, flow, engine, qpn);
            }
        }
    }

    fn continue_after(
        &mut self,
        links: &Links,
        flows: &mut Flows,
        flow: u32,
        engine: usize,
        qpn: Qpn,
    ) {
        for next in flows.next_of(flow) {
            // Flows of a round have queue pairs of their own.
            let of_next = if next == flow { Some((engine, qpn)) } else { self.pair_of(next) };
            if let Some((engine, qpn)) = of_next {
                self.post_at(links, flows, next, engine, qpn);
            }
        }
        let at = &mut self.engines[engine];
        let index = at.index_of(qpn);
        if let Some(waiting) = at.pairs[index].backlog.pop_front() {
            let flow = waiting as u32;
            match flows.spec(flow).job {
                Some(_) => self.post_of_job(links, flows, waiting, engine, qpn),
                None => self.post_at(links, flows, flow, engine, qpn),
            }
        }
    }

    /// Messages of `flow`, or answers, that came here and took a receive.
    pub(crate) fn received_of(&self, flow: u32) -> u64 {
        let of = |(engine, qpn): (usize, Qpn)| {
            let at = &self.engines[engine];
            at.pairs[at.index_of(qpn)].received
        };
        self.pair_of(flow).map_or(0, of)
    }

    /// Where a flow that begins or ends here has its queue pair. Queue pairs are made flow by flow.
    pub(super) fn pair_of(&self, flow: u32) -> Option<(usize, Qpn)> {
        self.engines.iter().enumerate().find_map(|(engine, at)| {
            let place = at.pairs.binary_search_by_key(&flow, |pair| pair.flow).ok()?;
            Some((engine, at.pairs[place].qpn))
        })
    }
}
