//! `[switch]` and `[switches.NAME]`.

use super::{At, MS, NS, Result, US, tables};
use crate::scenario::error::plain;
use crate::switch::config::{
    Balance, EcnConfig, EcnMark, GroupConfig, Incomplete, PRIORITIES, PortMode, Schedule,
    SwitchConfig, Threshold, Trust, WatchdogAction, WatchdogConfig, WatchdogRule,
};

fn set<T>(target: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *target = value;
    }
}

/// What a table says beside `base`. Keys concern all ports, those with settings of their own included.
pub(super) fn switch(at: &At<'_, tables::Switch>, base: &SwitchConfig) -> Result<SwitchConfig> {
    let table = at.table;
    let mut config = base.clone();
    match (&table.config_db, &table.config_db_ports) {
        // A file's pool has room for headrooms beside it, which this was the size of.
        (Some(_), _) => {}
        (None, Some(_)) => {
            return Err(at
                .wrong("config_db_ports", "these are ports of a config_db")
                .hint("name the file: config_db = \"tor.json\""));
        }
        (None, None) => set(&mut config.buffer_bytes, table.buffer_bytes),
    }
    set(&mut config.headroom_pool_bytes, table.headroom_pool_bytes.map(Some));
    set(&mut config.pfc.quanta, table.pause_quanta);
    set(&mut config.pfc.response_quanta, table.pause_response_quanta);
    set(&mut config.latency, at.span_of("latency_ns", table.latency_ns, NS)?);
    set(
        &mut config.ecn_mark,
        table.ecn_mark.map(|mark| match mark {
            tables::EcnMark::Departure => EcnMark::Departure,
            tables::EcnMark::Arrival => EcnMark::Arrival,
        }),
    );
    set(&mut config.ecmp_seed, table.ecmp_seed);
    let tables = &mut config.tables;
    set(&mut tables.arp_timeout, at.span_of("arp_timeout_ms", table.arp_timeout_ms, MS)?);
    set(&mut tables.mac_timeout, at.span_of("mac_timeout_ms", table.mac_timeout_ms, MS)?);
    set(
        &mut config.trust,
        table.trust.map(|trust| match trust {
            tables::Trust::Dscp => Trust::Dscp,
            tables::Trust::Pcp => Trust::Pcp,
        }),
    );
    set(
        &mut config.server_ports,
        table.server_ports.map(|mode| match mode {
            tables::PortMode::Access => PortMode::Access,
            tables::PortMode::Trunk => PortMode::Trunk,
        }),
    );
    set(
        &mut config.tables.incomplete,
        table.incomplete_arp.map(|incomplete| match incomplete {
            tables::Incomplete::Flood => Incomplete::Flood,
            tables::Incomplete::Drop => Incomplete::Drop,
            tables::Incomplete::Cpu => Incomplete::Cpu,
        }),
    );
    set(&mut config.balance, balance(at)?);
    groups(at, &mut config)?;
    queues(at, &mut config)?;
    if let Some(table) = &table.watchdog {
        let watchdog = watchdog(&At::new(at.text, &at.under("watchdog"), table))?;
        config.watchdog = Some(watchdog);
        for port in config.ports.values_mut() {
            port.watchdog = Some(watchdog);
        }
    }
    Ok(config)
}

fn balance(at: &At<'_, tables::Switch>) -> Result<Option<Balance>> {
    let gap = at.span_of("flowlet_gap_us", at.table.flowlet_gap_us, US)?;
    match (at.table.balance, gap) {
        (Some(tables::Balance::Flowlet), gap) => {
            let gap = at.need("flowlet_gap_us", gap, "balance \"flowlet\"")?;
            Ok(Some(Balance::Flowlet { gap }))
        }
        (_, Some(_)) => Err(at
            .wrong("flowlet_gap_us", "only flowlets have a gap")
            .hint("balance = \"flowlet\"")),
        (Some(tables::Balance::Flow), None) => Ok(Some(Balance::Flow)),
        (Some(tables::Balance::Packet), None) => Ok(Some(Balance::Packet)),
        (None, None) => Ok(None),
    }
}

fn groups(at: &At<'_, tables::Switch>, config: &mut SwitchConfig) -> Result<()> {
    let table = at.table;
    if let Some(priorities) = &table.lossless_priorities {
        check_priorities(at, "lossless_priorities", priorities)?;
    }
    let threshold = match (&table.alpha, table.threshold_bytes) {
        (Some(_), Some(_)) => {
            return Err(at
                .wrong("threshold_bytes", "a threshold is dynamic (alpha) or static")
                .hint("remove one of alpha and threshold_bytes"));
        }
        (Some(alpha), None) => Some(Threshold::Dynamic { exponent: exponent(at, alpha)? }),
        (None, bytes) => bytes.map(|bytes| Threshold::Static { bytes }),
    };
    let of_ports = config.ports.values_mut().map(|port| &mut port.groups);
    for groups in core::iter::once(&mut config.groups).chain(of_ports) {
        for (priority, group) in groups.iter_mut().enumerate() {
            let named = table.lossless_priorities.as_ref();
            let lossless = named.map(|named| named.contains(&(priority as u8)));
            *group = match (lossless, group.lossless) {
                (Some(true), false) => GroupConfig::LOSSLESS,
                (Some(false), true) => GroupConfig::LOSSY,
                _ => *group,
            };
            if group.lossless {
                set(&mut group.threshold, threshold);
                set(&mut group.reserve_bytes, table.reserve_bytes);
                set(&mut group.xon_offset_bytes, table.xon_offset_bytes);
                set(&mut group.xon_bytes, table.xon_bytes);
                set(&mut group.headroom_bytes, table.headroom_bytes.map(Some));
            }
        }
    }
    Ok(())
}

fn queues(at: &At<'_, tables::Switch>, config: &mut SwitchConfig) -> Result<()> {
    let table = at.table;
    if let Some(strict) = &table.strict_queues {
        check_priorities(at, "strict_queues", strict)?;
    }
    if table.weights.is_some_and(|weights| weights.contains(&0)) {
        return Err(at
            .wrong("weights", "0 is not a weight from 1 to 255")
            .hint("1 for the least; strict_queues for those that go first"));
    }
    let ecn = table.ecn.as_ref().map(|table| ecn(&At::new(at.text, &at.under("ecn"), table)));
    let ecn = ecn.transpose()?;
    let of_ports = config.ports.values_mut().map(|port| &mut port.queues);
    for queues in core::iter::once(&mut config.queues).chain(of_ports) {
        for (index, queue) in queues.iter_mut().enumerate() {
            let limit = table.lossy_queue_bytes.map(|bytes| Some(Threshold::Static { bytes }));
            set(&mut queue.limit, limit);
            set(
                &mut queue.schedule,
                table.weights.map(|weights| Schedule::Weighted(weights[index])),
            );
            let named =
                |list: &Option<Vec<u8>>| list.as_ref().map(|list| list.contains(&(index as u8)));
            if named(&table.strict_queues) == Some(true) {
                queue.schedule = Schedule::Strict;
            }
            if let Some((ecn, chosen)) = &ecn
                && named(chosen) != Some(false)
            {
                queue.ecn = Some(*ecn);
            }
        }
    }
    Ok(())
}

fn watchdog(at: &At<'_, tables::Watchdog>) -> Result<WatchdogConfig> {
    let table = at.table;
    let poll = at.span("poll_ms", table.poll_ms, MS)?;
    if poll < rdma::Span::from_us(1) {
        let message = format!("{} is less than a microsecond, 0.001", table.poll_ms);
        return Err(at.wrong("poll_ms", message).hint("SONiC looks every 200 ms"));
    }
    Ok(WatchdogConfig {
        rule: match table.rule {
            None | Some(tables::WatchdogRule::Guo16) => WatchdogRule::Guo16,
            Some(tables::WatchdogRule::Broadcom) => WatchdogRule::Broadcom,
            Some(tables::WatchdogRule::Mellanox) => WatchdogRule::Mellanox,
        },
        action: match table.action {
            None | Some(tables::WatchdogAction::Drop) => WatchdogAction::Drop,
            Some(tables::WatchdogAction::Forward) => WatchdogAction::Forward,
            Some(tables::WatchdogAction::Alert) => WatchdogAction::Alert,
        },
        poll,
        detection: at.span("detection_ms", table.detection_ms, MS)?,
        restoration: at.span("restoration_ms", table.restoration_ms, MS)?,
    })
}

fn check_priorities<T>(at: &At<'_, T>, key: &str, values: &[u8]) -> Result<()> {
    match values.iter().find(|&&value| usize::from(value) >= PRIORITIES) {
        Some(value) => Err(at
            .wrong(key, format!("{value} is not from 0 to 7"))
            .hint("a list of priorities: [3, 4], for instance")),
        None => Ok(()),
    }
}

fn ecn(at: &At<'_, tables::Ecn>) -> Result<(EcnConfig, Option<Vec<u8>>)> {
    let table = at.table;
    if table.min_bytes >= table.max_bytes {
        return Err(at
            .wrong(
                "max_bytes",
                format!("{} is not above min_bytes, {}", table.max_bytes, table.min_bytes),
            )
            .hint("marks begin at min_bytes, and are certain above max_bytes"));
    }
    if !(0.0..=1.0).contains(&table.max_probability) {
        return Err(at
            .wrong(
                "max_probability",
                format!("{} is not a probability from 0 to 1", plain(table.max_probability)),
            )
            .hint("0.1 for 10 %"));
    }
    if let Some(chosen) = &table.queues {
        check_priorities(at, "queues", chosen)?;
    }
    let ecn = EcnConfig {
        min_bytes: table.min_bytes,
        max_bytes: table.max_bytes,
        max_probability: table.max_probability,
    };
    Ok((ecn, table.queues.clone()))
}

/// "1/16" is -4, "8" is 3.
fn exponent(at: &At<'_, tables::Switch>, alpha: &str) -> Result<i8> {
    let (above, below) = alpha.split_once('/').unwrap_or((alpha, "1"));
    let power = |text: &str| {
        let value: u32 = text.trim().parse().ok()?;
        value.is_power_of_two().then(|| value.trailing_zeros() as i8)
    };
    let exponent = power(above).zip(power(below)).map(|(above, below)| above - below);
    exponent.filter(|exponent| (-8..=7).contains(exponent)).ok_or_else(|| {
        at.wrong("alpha", format!("{alpha:?} is no power of two from 1/256 to 128"))
            .hint("write \"1/16\", \"1\" or \"8\", for instance")
    })
}

/// The priorities that a switch pauses.
pub(super) fn lossless(config: &SwitchConfig) -> u8 {
    let groups = config.groups.iter().enumerate();
    groups
        .filter(|(_, group)| group.lossless)
        .fold(0, |mask, (group, _)| mask | 1 << (config.group_to_priority[group] & 7))
}
