//! `[host]` and `[hosts.NAME]`.

use rdma::Span;

use crate::model::{CpuConfig, HostConfig, IdleState, StageConfig};
use crate::scenario::at::{At, Entry, Result};
use crate::scenario::table::{Describe as _, Table as _, table};
use crate::scenario::value::{Value, choice, list, rate, share, time, time_from, whole, within};

/// Cores of a host.
const CORES_MAX: u32 = 256;
const CORES: &str = "a host has 1 to 256 cores";
const SLICE: &str = "Linux has 3 ms: 3";
const BLOCKS: &str = "a work request takes blocks of 64 bytes: 512, for instance";

/// Tables of which each is a state.
fn states<'a>() -> Value<'a, Vec<IdleState>> {
    let one = |member: Entry<'a, '_>| {
        let mut state = IdleState::default();
        state.read(&member.table()?).map(|()| state)
    };
    let read = move |entry: &Entry<'a, '_>, out: &mut Vec<IdleState>| {
        *out = entry.list()?.map(one).collect::<Result<_>>()?;
        Ok(())
    };
    Value::of_tables("a list of tables", read, |path, texts| {
        IdleState::describe(&format!("[[{path}]]"), "", texts);
    })
}

table! {
    /// What the hosts cost. Without the table they cost nothing. `[hosts.NAME]` has the same keys, and is
    /// about one of them. Applications (`ferroce bench --world sim`) feel all of it. The flows of a
    /// scenario feel bus and NIC; their posts and polls take no processor time.
    impl HostConfig {
        ..cpu;
        ..nic;
    }
    check is_sound;
}

table! {
    /// The processor of a host, and its operating system.
    impl CpuConfig {
        /// Cores.
        cores = within(1, CORES_MAX, CORES) => cores;
        /// Cores that enter deep idle states together.
        cores_per_package = within(1, CORES_MAX, CORES) => cores_per_package;
        /// Cores on which a task runs that never waits.
        hogs = list(whole()) => hogs;
        /// Where in its slice whoever runs beside such a task begins: drawn for each host, or on all at once.
        slices = choice() => slices;
        /// Posting a send request.
        post_ns = time() => post;
        /// Each piece of it beyond the first.
        post_sge_ns = time() => post_sge;
        /// Each byte of inline data.
        inline_byte_ns = time() => inline_byte;
        /// Posting a receive request.
        post_recv_ns = time() => post_recv;
        /// Taking a completion.
        poll_ns = time() => poll;
        /// A poll that finds nothing.
        poll_empty_ns = time() => poll_empty;
        /// Asking for an event.
        arm_ns = time() => arm;
        /// Looking at a word of memory.
        look_ns = time() => look;
        /// Reading a byte that the NIC has written.
        touch_byte_ns = time() => touch_byte;
        /// An interrupt, until its handler has woken who waits.
        interrupt_ns = time() => interrupt;
        /// From there until the task runs; and from one task to another.
        switch_ns = time() => switch;
        /// States in which a core sleeps, from the lightest to the deepest.
        idle = states() => idle;
        /// What is left of their exit if another core of the package is awake.
        package_factor = share("1 if a package has no part in it") => package_factor;
        /// Time in which each task of a core runs once.
        sched_latency_ms = time() => latency;
        /// The shortest slice.
        slice_min_ms = time_from(Span::from_us(1), SLICE) => slice_min;
        /// A task that wakes takes the core from one that is further ahead.
        granularity_ms = time() => granularity;
        /// What a task that has slept may be behind the others.
        credit_ms = time() => credit;
    }
}

table! {
    /// The bus of a host, and the stages of its NIC.
    impl StageConfig {
        /// Payload over the bus, in each direction.
        bus_gbps = rate() => bus;
        /// From asking for a few bytes of memory to having them.
        dma_read_ns = time() => dma_read;
        /// From writing a few bytes to their being seen.
        dma_write_ns = time() => dma_write;
        /// From the processor's store to the NIC.
        doorbell_ns = time() => doorbell;
        /// What the entry of a completion queue adds to that.
        cqe_ns = time() => cqe;
        /// Beginning a request.
        request_out_ns = time() => request_out;
        /// Beginning the answer to a READ.
        request_in_ns = time() => request_in;
        /// Each piece of a request beyond the first.
        sge_ns = time() => sge;
        /// What is read of a work request at once.
        wqe_fetch_bytes = within(64, 4_096, BLOCKS) => wqe_fetch_bytes;
        /// When a work request that is alone travels with its doorbell.
        blueflame = choice() => blueflame;
        /// The longest that does.
        blueflame_bytes = whole() => blueflame_bytes;
        /// A receive is at hand already if its queue holds so many.
        recv_prefetch = whole() => recv_prefetch;
        /// What is read, or being read, ahead of the wire, of each priority.
        prefetch_bytes = whole() => prefetch_bytes;
        /// In which order it leaves.
        prefetch_order = choice() => prefetch_order;
    }
}

fn is_sound(host: &HostConfig, at: &At<'_>) -> Result<()> {
    let cpu = &host.cpu;
    if let Some(core) = cpu.hogs.iter().find(|core| **core >= cpu.cores) {
        let hint = format!("cores are 0 to {}", cpu.cores - 1);
        return Err(at.wrong("hogs", format!("there is no core {core}")).hint(hint));
    }
    let rises = |pair: &[IdleState]| pair[0].exit <= pair[1].exit && pair[0].stay <= pair[1].stay;
    if !cpu.idle.windows(2).all(rises) {
        let hint = "a deeper state has a longer exit_us and a longer stay_us";
        return Err(at.wrong("idle", "the states are not in the order of their depth").hint(hint));
    }
    Ok(())
}

table! {
    /// A state in which a core sleeps.
    impl IdleState {
        /// How long it takes to leave it, with the whole package asleep.
        exit_us = time() => exit;
        /// It is entered if the core is expected to sleep so long at least.
        stay_us = time() => stay;
    }
}
