//! What a lab has: its network, its programs and its clock, as those see it who are asked about it.

use core::time::Duration;
use std::time::Instant;

use fabric::{Cycle, Network};
use rdma::{Span, Time};
use softnic::lab::Found;

use crate::captures::Captures;
use crate::clock::Clock;
use crate::factor::Choice;
use crate::programs::Programs;

/// See the module.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) found: Found,
    pub(crate) title: String,
    pub(crate) network: Network,
    pub(crate) hosts: u32,
    pub(crate) programs: Programs,
    pub(crate) captures: Captures,
    pub(crate) clock: Clock,
    pub(crate) choice: Choice,
    pub(crate) begin: Instant,
    /// The deadlocks that were found: when, and which queues.
    pub(crate) deadlocks: Vec<(Time, Cycle)>,
    pub(crate) is_over: bool,
}

impl State {
    /// How long it has lived, on the wall and in the model.
    pub(crate) fn ages(&self) -> (Duration, Span) {
        (self.begin.elapsed(), self.network.now().since(Time::ZERO))
    }
}
