//! What a host costs: its processor, its operating system, its bus, and the stages of its NIC.
//!
//! ```text
//!   application ─ post ─► doorbell ─► work request ─► payload ─► prefetch window ─► port
//!        ▲                  over the bus, unless they came with the doorbell
//!        │ poll, or interrupt ─► idle exit ─► run queue
//!   completion ◄─ bus ◄─ receive ◄─ port
//! ```
//!
//! [`HostConfig`] has the numbers. The files beside it have the mechanisms, one each, without events,
//! links or engines: time is an argument. Each is tested against what can be computed by hand.
//!
//! | mechanism | file | oracle |
//! |---|---|---|
//! | reads and writes over the bus | `bus.rs` | the bus bound; Little's law at saturation |
//! | what is read ahead of the wire | `window.rs` | W / C; the least W that fills the wire |
//! | idle states | `idle.rs` | 1 + gC / S for the share of who sleeps between messages |
//! | run queue | `run_queue.rs` | slice arithmetic |
//! | what is read of a work request | `work.rs` | blocks and reads, counted |
//!
//! **What is deliberately absent:** caches of the processor (what is cold is said by the application),
//! interrupt moderation, migration of tasks between cores, and frequencies of cores.

mod bus;
mod idle;
mod run_queue;
mod window;
mod work;

use rdma::{Rate, Span};
use serde::Deserialize;

pub(crate) use bus::Bus;
pub(crate) use idle::Governor;
pub(crate) use run_queue::{RunQueue, TaskId};
pub(crate) use window::{Planned, PrefetchWindow};
pub(crate) use work::{fetches, wqe_bytes};

/// A state in which a core sleeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IdleState {
    /// How long it takes to leave it, at worst: with the whole package asleep.
    pub exit: Span,
    /// It is entered if the core is expected to sleep so long at least.
    pub stay: Span,
}

/// When the work request travels with the doorbell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlueFlame {
    /// Never: it is read from memory.
    Never,
    /// If it is alone, and needs no payload from memory: inline data, READs and atomics.
    #[default]
    Inline,
    /// If it is alone; its payload is read from memory.
    Always,
}

/// In which order packets leave whose payloads are being read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// As they were begun: who waits for its payload holds up those behind it.
    #[default]
    InOrder,
    /// As their payloads arrive; those of one queue pair in order.
    ByReadiness,
}

/// Where in their slices the tasks of a core that has a hog begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Slices {
    /// Somewhere, as chance has it for each host.
    #[default]
    Drawn,
    /// At the beginning of a slice, on every host at the same time.
    InStep,
}

/// The processor of a host, and its operating system.
#[derive(Clone, PartialEq, Debug)]
pub struct CpuConfig {
    /// Cores.
    pub cores: u32,
    /// Cores that enter deep states together.
    pub cores_per_package: u32,
    /// Cores on which a task runs that never waits.
    pub hogs: Vec<u32>,
    /// Where in its slice whoever runs beside them begins.
    pub slices: Slices,
    /// Posting a send request.
    pub post: Span,
    /// Each piece of it beyond the first.
    pub post_sge: Span,
    /// Each byte of inline data.
    pub inline_byte: Span,
    /// Posting a receive request.
    pub post_recv: Span,
    /// Taking a completion.
    pub poll: Span,
    /// A poll that finds nothing.
    pub poll_empty: Span,
    /// Asking for an event.
    pub arm: Span,
    /// Looking at a word of memory.
    pub look: Span,
    /// Reading a byte that the NIC has written.
    pub touch_byte: Span,
    /// An interrupt, until its handler has woken who waits.
    pub interrupt: Span,
    /// From there until the task runs.
    pub switch: Span,
    /// From the lightest to the deepest. Without any, an idle core spins.
    pub idle: Vec<IdleState>,
    /// What is left of an exit if another core of the package is awake.
    pub package_factor: f64,
    /// Time in which each of the tasks of a core runs once.
    pub latency: Span,
    /// The shortest slice.
    pub slice_min: Span,
    /// A task that wakes takes the core from one that is further ahead than this.
    pub granularity: Span,
    /// What a task that has slept may be behind the others.
    pub credit: Span,
}

/// The bus of a host, and the stages of its NIC.
#[derive(Clone, PartialEq, Debug)]
pub struct StageConfig {
    /// Payload over the bus, in each direction.
    pub bus: Rate,
    /// From asking for a few bytes of memory to having them.
    pub dma_read: Span,
    /// From writing a few bytes to their being seen.
    pub dma_write: Span,
    /// From the processor's store to the NIC.
    pub doorbell: Span,
    /// What the entry of the completion queue adds to that.
    pub cqe: Span,
    /// Beginning a request.
    pub request_out: Span,
    /// Beginning the answer to a READ.
    pub request_in: Span,
    /// Each piece of a request beyond the first.
    pub sge: Span,
    /// What is read of a work request at once.
    pub wqe_fetch_bytes: u32,
    /// When it travels with the doorbell.
    pub blueflame: BlueFlame,
    /// The longest that does.
    pub blueflame_bytes: u32,
    /// A receive is at hand already if its queue holds so many.
    pub recv_prefetch: u32,
    /// What is read, or being read, ahead of the wire, of each priority.
    pub prefetch_bytes: u32,
    /// In which order it leaves.
    pub prefetch_order: Order,
}

/// See the module.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct HostConfig {
    /// Processor and operating system.
    pub cpu: CpuConfig,
    /// Bus and NIC.
    pub nic: StageConfig,
}

impl Default for CpuConfig {
    /// A core that takes no time, and slices of Linux on eight cores or more (`kernel/sched/fair.c`:
    /// 24 ms, 3 ms, 4 ms, and half the first as a sleeper's credit).
    fn default() -> Self {
        Self {
            cores: 8,
            cores_per_package: 8,
            hogs: Vec::new(),
            slices: Slices::Drawn,
            post: Span::ZERO,
            post_sge: Span::ZERO,
            inline_byte: Span::ZERO,
            post_recv: Span::ZERO,
            poll: Span::ZERO,
            poll_empty: Span::ZERO,
            arm: Span::ZERO,
            look: Span::ZERO,
            touch_byte: Span::ZERO,
            interrupt: Span::ZERO,
            switch: Span::ZERO,
            idle: Vec::new(),
            package_factor: 1.0,
            latency: Span::from_ms(24),
            slice_min: Span::from_ms(3),
            granularity: Span::from_ms(4),
            credit: Span::from_ms(12),
        }
    }
}

impl Default for StageConfig {
    /// A bus of 63 Gb/s without latency, and stages that take no time.
    fn default() -> Self {
        Self {
            bus: Rate::from_mbps(63_015),
            dma_read: Span::ZERO,
            dma_write: Span::ZERO,
            doorbell: Span::ZERO,
            cqe: Span::ZERO,
            request_out: Span::ZERO,
            request_in: Span::ZERO,
            sge: Span::ZERO,
            wqe_fetch_bytes: 512,
            blueflame: BlueFlame::Inline,
            blueflame_bytes: 256,
            recv_prefetch: 8,
            prefetch_bytes: 12 << 10,
            prefetch_order: Order::InOrder,
        }
    }
}
