//! `[nic]` and `[nics.NAME]`.

use rdma::{Mtu, Rate};
use transport::Recovery;
use transport::congestion::{Congestion, Dcqcn};
use transport::limits::OUT_OF_ORDER_PACKETS_MAX;

use super::controller::{BBR, Controller, DCTCP, HPCC, SWIFT, TIMELY, check, obey};
use super::dcqcn::DcqcnTable;
use super::switch::some;
use super::theirs::{CONTROLLERS, Theirs};
use super::{Files, Note};
use crate::NetworkConfig;
use crate::extend::Extensions;
use crate::limits::{CACHE_ENTRIES_MAX, TCP_BUFFER_BYTES_MAX};
use crate::nic::{HostMemory, NicConfig, Pcie};
use crate::scenario::at::{At, Entry, Result};
use crate::scenario::deferred::{Deferred, deferred, inner};
use crate::scenario::table::table;
use crate::scenario::value::{
    Value, choice, dscp_map, flag, named, named_and, or, rate, time, whole, within,
};
use crate::tcp::{KernelLatency, TcpConfig};

/// A path MTU.
fn mtu<'a>() -> Value<'a, Mtu> {
    let sizes = "256, 512, 1024, 2048 or 4096";
    let read = move |entry: &Entry<'a, '_>| {
        let bytes = whole::<u32>().get(entry)?;
        let wrong = || {
            let hint = format!("{sizes} bytes of a message in a packet");
            entry.wrong(format!("{bytes} is no path MTU")).hint(hint)
        };
        Mtu::ALL.into_iter().find(|mtu| mtu.bytes() == bytes).ok_or_else(wrong)
    };
    Value::new(sizes, read, |_, mtu| mtu.bytes().to_string())
}

fn recovery<'a>() -> Value<'a, Recovery> {
    named(Recovery::ALL.map(|recovery| (recovery.name(), recovery)))
}

fn congestion<'a>() -> Value<'a, Congestion> {
    let plain = [("none", Congestion::None), ("dcqcn", Congestion::Dcqcn(Dcqcn::default()))];
    let ours: Vec<_> = plain.into_iter().chain(Congestion::NAMED).collect();
    named_and(ours, Extensions::congestions)
}

/// What a table says of a NIC.
#[derive(Debug, Default)]
pub(super) struct Nic<'a> {
    config: NicConfig,
    lossless: Option<u8>,
    dcqcn: Option<Deferred<'a, DcqcnTable>>,
    dctcp: Option<Deferred<'a, Controller<DCTCP>>>,
    timely: Option<Deferred<'a, Controller<TIMELY>>>,
    swift: Option<Deferred<'a, Controller<SWIFT>>>,
    hpcc: Option<Deferred<'a, Controller<HPCC>>>,
    bbr: Option<Deferred<'a, Controller<BBR>>>,
    theirs: Theirs<CONTROLLERS>,
}

table! {
    /// The NICs. `[nics.NAME]` has the same keys, for the NIC of one host.
    impl Nic<'a> {
        /// The priorities that have PFC: it obeys pauses of them, and sends them.
        lossless_priorities = or("those of the switch that it hangs on", some()) => lossless;
        /// What DCQCN is set to, for congestion "dcqcn".
        dcqcn = deferred() => dcqcn;
        /// What the windows of DCTCP are set to, for congestion "dctcp".
        dctcp = deferred() => dctcp;
        /// What the rates of TIMELY are set to, for congestion "timely".
        timely = deferred() => timely;
        /// What the windows of Swift are set to, for congestion "swift".
        swift = deferred() => swift;
        /// What HPCC is set to, for congestion "hpcc".
        hpcc = deferred() => hpcc;
        /// What the windows of BBR are set to, for congestion "bbr".
        bbr = deferred() => bbr;
        ..theirs;
        ..config;
    }
}

table! {
    /// The NICs.
    impl NicConfig {
        /// Bytes of a message in a packet.
        mtu_bytes = mtu() => mtu;
        /// What is sent again after a loss.
        recovery = recovery() => recovery;
        /// Selective repeat: how long packets that others have overtaken may still arrive before they are
        /// sent again, at least; longer where round trips are (RFC 6298's timeout). With 0 they count as lost at once.
        overtaken_wait_us = or(WAIT, time()) => overtaken_wait;
        /// Selective repeat: how many packets, from the first that is missing on, may be placed before their
        /// turn; no more are under way.
        out_of_order_packets =
            within(1, OUT_OF_ORDER_PACKETS_MAX, "1_024, for instance") => out_of_order_packets;
        /// How fast queue pairs may send; a line rate is that of the host's own link.
        congestion = congestion() => congestion;
        /// An acknowledgement is asked for every so many packets.
        ack_interval_packets = whole() => ack_interval_packets;
        /// Bytes that a queue pair may have in flight. Below a packet, 0 too, it has one packet or READ at a time.
        window_bytes = whole() => window_bytes;
        /// Local ACK timeout: 4.096 us x 2^code; 0 is none.
        ack_timeout_code =
            within(0, 31, "the timeout is 4.096 us x 2^code; 0 is none") => ack_timeout_code;
        /// Retries before a queue pair fails.
        retry_count = within(0, 7, "the field has three bits") => retry_count;
        /// The priority of a packet by its DSCP.
        dscp_to_priority = dscp_map() => dscp_to_priority;
        /// Whether it was told of VLANs: it tags what it sends, and takes what is tagged.
        tagged = flag() => tagged;
        /// How long it takes to take a packet out of the receive buffer.
        receive_ns = time() => receive;
        /// How long it takes to make a packet.
        transmit_ns = time() => transmit;
        /// How long it takes to begin with a work request.
        work_request_ns = time() => work_request;
        /// What it keeps in its server's memory; an empty table is the NIC of guo16, 4.4.
        host_memory = or("everything is in the NIC", inner()) => host_memory;
        /// The TCP of its server.
        tcp = inner() => tcp;
        /// The receive buffer.
        receive_buffer_bytes = whole() => receive_buffer_bytes;
        /// It pauses its switch above.
        xoff_bytes = whole() => xoff_bytes;
        /// It resumes at or below.
        xon_bytes = whole() => xon_bytes;
        /// How long its receive pipeline may stand still and pause, before it may pause no more.
        watchdog_ms = or("no watchdog", time()) => watchdog;
    }
    besides read_chunk_bytes, lossless_priorities, notification, pfc;
    check thresholds_rise;
}

const WAIT: &str = "0 where all switches keep a flow on one path, else 100";

fn thresholds_rise(nic: &NicConfig, at: &At<'_>) -> Result<()> {
    let NicConfig { xon_bytes, xoff_bytes, receive_buffer_bytes, .. } = nic;
    if xon_bytes <= xoff_bytes && xoff_bytes <= receive_buffer_bytes {
        return Ok(());
    }
    let message = format!(
        "xon_bytes {xon_bytes} <= xoff_bytes {xoff_bytes} <= receive_buffer_bytes \
         {receive_buffer_bytes} does not hold"
    );
    let hint = "the ToR is paused at XOFF, before the buffer is full, and resumed at XON";
    Err(at.wrong("xoff_bytes", message).hint(hint))
}

/// What `nic` says about overtaken packets beyond `base`, it says to a recovery that takes them.
fn only_selective_repeat_places(nic: &NicConfig, base: &NicConfig, at: &At<'_>) -> Result<()> {
    let key = if nic.overtaken_wait != base.overtaken_wait {
        "overtaken_wait_us"
    } else if nic.out_of_order_packets != base.out_of_order_packets {
        "out_of_order_packets"
    } else {
        return Ok(());
    };
    if nic.recovery == Recovery::SelectiveRepeat {
        return Ok(());
    }
    let message = format!("recovery {:?} takes packets in their turn alone", nic.recovery.name());
    Err(at.wrong(key, message).hint("write recovery = \"selective-repeat\", or remove it"))
}

fn entries<'a>() -> Value<'a, u32> {
    within(1, CACHE_ENTRIES_MAX, "guo16 has 2_048")
}

const PAGE_BYTES: &str = "4_096 or 2_097_152";

table! {
    /// What a NIC keeps in its server's memory (guo16, 4.4).
    impl HostMemory {
        /// A page of the regions that applications register: a power of two.
        page_bytes = within(4_096, 1 << 30, PAGE_BYTES) => page_bytes;
        /// Translations that the NIC holds, one a page.
        mtt_entries = entries() => mtt_entries;
        /// Contexts of queue pairs that the NIC holds.
        qpc_entries = entries() => qpc_entries;
        /// Entries of a cache that are compared at a time.
        ways = entries() => ways;
        ..pcie;
    }
    check pages_are_powers;
}

table! {
    /// The bus to the memory of a server.
    impl Pcie {
        /// The bus to the server's memory, in each direction.
        pcie_gbps = rate() => rate;
        /// What a miss costs: from asking for a few bytes of memory to having them.
        pcie_read_ns = time() => read;
    }
    besides payload_bytes, header_bytes;
}

fn pages_are_powers(memory: &HostMemory, at: &At<'_>) -> Result<()> {
    if memory.page_bytes.is_power_of_two() {
        return Ok(());
    }
    let message = format!("{} is no power of two", memory.page_bytes);
    Err(at.wrong("page_bytes", message).hint(PAGE_BYTES))
}

const TCP_MTU: &str = "an IP packet at most: 1_500, or 9_000 where frames may be long";
const TCP_BUFFER: &str = "what a connection may have under way: 262_144, for instance";

table! {
    /// The TCP of a host. Between an application and the stack a message is under way for
    /// kernel_floor_us, and longer by kernel_mean_us on average, exponentially distributed.
    impl TcpConfig {
        /// An IP packet at most.
        mtu_bytes = within(576, 9_216, TCP_MTU) => mtu_bytes;
        /// The buffer of a connection in each direction, and so its window.
        buffer_bytes = within(2_048, TCP_BUFFER_BYTES_MAX, TCP_BUFFER) => buffer_bytes;
        /// What a loss means to a sender.
        congestion = choice() => congestion;
        ..kernel;
    }
}

table! {
    /// Between an application and its TCP.
    impl KernelLatency {
        /// The least that a message takes between application and stack.
        kernel_floor_us = time() => floor;
        /// What is added on average.
        kernel_mean_us = time() => mean;
    }
}

/// What a table says over the settings of all NICs, and whether it says which priorities have PFC. The
/// slowest link of those that it is about is of rate `line`.
pub(super) fn nic(
    table: &Deferred<'_, Nic<'_>>,
    config: &NetworkConfig,
    line: Rate,
    files: &dyn Files,
    notes: &mut Vec<Note>,
) -> Result<(NicConfig, bool)> {
    let mut said = Nic { config: config.nic.clone(), ..Nic::default() };
    table.read_over(&mut said)?;
    let Nic { config: mut nic, lossless, dcqcn, dctcp, timely, swift, hpcc, bbr, theirs } = said;
    if let Some(dcqcn) = dcqcn {
        let told = dcqcn.read()?.set(&mut nic, &dcqcn.at, files)?;
        notes.extend(told);
    }
    let mut at = &table.at;
    obey(dctcp.as_ref(), &mut nic.congestion, &mut at)?;
    obey(timely.as_ref(), &mut nic.congestion, &mut at)?;
    obey(swift.as_ref(), &mut nic.congestion, &mut at)?;
    obey(hpcc.as_ref(), &mut nic.congestion, &mut at)?;
    obey(bbr.as_ref(), &mut nic.congestion, &mut at)?;
    theirs.obey(&mut nic.congestion)?;
    check(&nic.congestion, line, at)?;
    only_selective_repeat_places(&nic, &config.nic, at)?;
    nic.lossless_priorities = lossless.unwrap_or(nic.lossless_priorities);
    Ok((nic, lossless.is_some()))
}
