//! `[nic]` and `[nics.NAME]`.

use rdma::Mtu;
use transport::Recovery;
use transport::congestion::{Congestion, Dcqcn};

use super::{At, MS, NS, Result, US, lossless, tables};
use crate::NetworkConfig;
use crate::limits::{CACHE_ENTRIES_MAX, TCP_BUFFER_BYTES_MAX};
use crate::nic::{HostMemory, NicConfig};
use crate::tcp::{TcpConfig, TcpCongestion};

pub(super) fn nic(at: &At<'_, tables::Nic>, config: &NetworkConfig) -> Result<NicConfig> {
    let table = at.table;
    let mut nic = config.nic.clone();
    fn set<T>(target: &mut T, value: Option<T>) {
        if let Some(value) = value {
            *target = value;
        }
    }
    if let Some(bytes) = table.mtu_bytes {
        let known = Mtu::ALL.into_iter().find(|mtu| mtu.bytes() == bytes);
        let wrong = || {
            at.wrong("mtu_bytes", format!("{bytes} is no path MTU"))
                .hint("256, 512, 1024, 2048 or 4096 bytes of a message in a packet")
        };
        nic.mtu = known.ok_or_else(wrong)?;
    }
    if let Some(name) = &table.recovery {
        nic.recovery = match name.as_str() {
            "go-back-0" => Recovery::GoBack0,
            "go-back-n" => Recovery::GoBackN,
            "selective-repeat" => Recovery::SelectiveRepeat,
            _ => {
                let message = format!("there is no recovery {name:?}");
                let hint = "go-back-0, go-back-n or selective-repeat";
                return Err(at.wrong("recovery", message).hint(hint));
            }
        };
    }
    if let Some(congestion) = table.congestion {
        let line_rate = config.topology.links.iter().map(|link| link.rate).min();
        nic.congestion = match congestion {
            tables::Congestion::None => Congestion::None,
            tables::Congestion::Dcqcn => Congestion::Dcqcn(Dcqcn {
                line_rate: line_rate.unwrap_or_default(),
                ..Dcqcn::default()
            }),
        };
    }
    set(&mut nic.ack_interval_packets, table.ack_interval_packets);
    set(&mut nic.window_bytes, table.window_bytes);
    set(&mut nic.ack_timeout_code, table.ack_timeout_code);
    set(&mut nic.retry_count, table.retry_count);
    set(&mut nic.tagged, table.tagged);
    set(&mut nic.receive, at.span_of("receive_ns", table.receive_ns, NS)?);
    set(&mut nic.transmit, at.span_of("transmit_ns", table.transmit_ns, NS)?);
    set(&mut nic.work_request, at.span_of("work_request_ns", table.work_request_ns, NS)?);
    if let Some(table) = &table.host_memory {
        let base = nic.host_memory.unwrap_or_default();
        nic.host_memory =
            Some(host_memory(&At::new(at.text, &at.under("host_memory"), table), base)?);
    }
    if let Some(table) = &table.tcp {
        nic.tcp = tcp(&At::new(at.text, &at.under("tcp"), table), nic.tcp)?;
    }
    set(&mut nic.receive_buffer_bytes, table.receive_buffer_bytes);
    set(&mut nic.xoff_bytes, table.xoff_bytes);
    set(&mut nic.xon_bytes, table.xon_bytes);
    set(&mut nic.watchdog, at.span_of("watchdog_ms", table.watchdog_ms, MS)?.map(Some));
    nic.lossless_priorities = lossless(&config.switch);
    if nic.xon_bytes > nic.xoff_bytes || nic.xoff_bytes > nic.receive_buffer_bytes {
        let message = format!(
            "xon_bytes {} <= xoff_bytes {} <= receive_buffer_bytes {} does not hold",
            nic.xon_bytes, nic.xoff_bytes, nic.receive_buffer_bytes
        );
        let hint = "the ToR is paused at XOFF, before the buffer is full, and resumed at XON";
        return Err(at.wrong("xoff_bytes", message).hint(hint));
    }
    if nic.ack_timeout_code > 31 {
        let message = format!("{} is not from 0 to 31", nic.ack_timeout_code);
        return Err(at
            .wrong("ack_timeout_code", message)
            .hint("the timeout is 4.096 us x 2^code; 0 is none"));
    }
    if nic.retry_count > 7 {
        let message = format!("{} is not from 0 to 7", nic.retry_count);
        return Err(at.wrong("retry_count", message).hint("the field has three bits"));
    }
    Ok(nic)
}

fn host_memory(at: &At<'_, tables::HostMemory>, base: HostMemory) -> Result<HostMemory> {
    let table = at.table;
    let mut memory = base;
    if let Some(bytes) = table.page_bytes {
        if !bytes.is_power_of_two() || !(4_096..=1 << 30).contains(&bytes) {
            let message = "a page is a power of two from 4096 to 1073741824 bytes";
            return Err(at.wrong("page_bytes", message).hint("4_096 or 2_097_152"));
        }
        memory.page_bytes = bytes;
    }
    let counts = [
        ("mtt_entries", table.mtt_entries, &mut memory.mtt_entries),
        ("qpc_entries", table.qpc_entries, &mut memory.qpc_entries),
        ("ways", table.ways, &mut memory.ways),
    ];
    for (key, value, target) in counts {
        if let Some(value) = value {
            if value == 0 || value > CACHE_ENTRIES_MAX {
                return Err(at
                    .wrong(key, format!("{value} is not from 1 to {CACHE_ENTRIES_MAX}"))
                    .hint("guo16 has 2_048"));
            }
            *target = value;
        }
    }
    if let Some(gbps) = table.pcie_gbps {
        memory.pcie.rate = at.rate("pcie_gbps", gbps)?;
    }
    if let Some(read) = at.span_of("pcie_read_ns", table.pcie_read_ns, NS)? {
        memory.pcie.read = read;
    }
    Ok(memory)
}

fn tcp(at: &At<'_, tables::Tcp>, base: TcpConfig) -> Result<TcpConfig> {
    let table = at.table;
    let mut tcp = base;
    if let Some(bytes) = table.mtu_bytes {
        if !(576..=9_216).contains(&bytes) {
            let message = format!("{bytes} is not from 576 to 9216");
            let hint = "an IP packet at most: 1_500, or 9_000 where frames may be long";
            return Err(at.wrong("mtu_bytes", message).hint(hint));
        }
        tcp.mtu_bytes = bytes;
    }
    if let Some(bytes) = table.buffer_bytes {
        if !(2_048..=TCP_BUFFER_BYTES_MAX).contains(&bytes) {
            let message = format!("{bytes} is not from 2048 to {TCP_BUFFER_BYTES_MAX}");
            let hint = "what a connection may have under way: 262_144, for instance";
            return Err(at.wrong("buffer_bytes", message).hint(hint));
        }
        tcp.buffer_bytes = bytes;
    }
    if let Some(congestion) = table.congestion {
        tcp.congestion = match congestion {
            tables::TcpCongestion::Reno => TcpCongestion::Reno,
            tables::TcpCongestion::Cubic => TcpCongestion::Cubic,
        };
    }
    if let Some(floor) = at.span_of("kernel_floor_us", table.kernel_floor_us, US)? {
        tcp.kernel.floor = floor;
    }
    if let Some(mean) = at.span_of("kernel_mean_us", table.kernel_mean_us, US)? {
        tcp.kernel.mean = mean;
    }
    Ok(tcp)
}
