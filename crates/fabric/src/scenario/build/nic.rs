//! `[nic]` and `[nics.NAME]`.

use rdma::{Mtu, Span};
use transport::Recovery;
use transport::congestion::{Congestion, Dcqcn};

use super::{At, Result, lossless, span_us, tables};
use crate::NetworkConfig;
use crate::nic::NicConfig;

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
        let wrong = || at.wrong("mtu_bytes", "a path MTU is 256, 512, 1024, 2048 or 4096");
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
    set(&mut nic.receive, table.receive_ns.map(Span::from_ns));
    set(&mut nic.receive_buffer_bytes, table.receive_buffer_bytes);
    set(&mut nic.xoff_bytes, table.xoff_bytes);
    set(&mut nic.xon_bytes, table.xon_bytes);
    set(&mut nic.watchdog, table.watchdog_ms.map(|ms| Some(span_us(ms * 1_000.0))));
    nic.lossless_priorities = lossless(&config.switch);
    if nic.xon_bytes > nic.xoff_bytes || nic.xoff_bytes > nic.receive_buffer_bytes {
        let message = "xon_bytes <= xoff_bytes <= receive_buffer_bytes does not hold";
        return Err(at.wrong("xoff_bytes", message));
    }
    if nic.ack_timeout_code > 31 || nic.retry_count > 7 {
        return Err(
            at.wrong("retry_count", "a timeout code is at most 31, a retry count at most 7")
        );
    }
    Ok(nic)
}
