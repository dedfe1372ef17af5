//! `[switch]` and `[switches.NAME]`.

use rdma::Span;

use super::{At, Result, span_us, tables};
use crate::switch::config::{
    EcnConfig, GroupConfig, Incomplete, PRIORITIES, QueueConfig, Schedule, SwitchConfig, Threshold,
    Trust, WatchdogConfig,
};

pub(super) fn switch(at: &At<'_, tables::Switch>, base: &SwitchConfig) -> Result<SwitchConfig> {
    let table = at.table;
    let mut config = base.clone();
    fn set<T: Copy>(target: &mut T, value: Option<T>) {
        if let Some(value) = value {
            *target = value;
        }
    }
    set(&mut config.buffer_bytes, table.buffer_bytes);
    set(&mut config.pfc.quanta, table.pause_quanta);
    set(&mut config.pfc.response_quanta, table.pause_response_quanta);
    set(&mut config.latency, table.latency_ns.map(Span::from_ns));
    set(&mut config.ecmp_seed, table.ecmp_seed);
    set(&mut config.tables.arp_timeout, table.arp_timeout_ms.map(Span::from_ms));
    set(&mut config.tables.mac_timeout, table.mac_timeout_ms.map(Span::from_ms));
    set(
        &mut config.trust,
        table.trust.map(|trust| match trust {
            tables::Trust::Dscp => Trust::Dscp,
            tables::Trust::Pcp => Trust::Pcp,
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
    if let Some(priorities) = &table.lossless_priorities {
        check_priorities(at, "lossless_priorities", priorities)?;
        for (priority, group) in config.groups.iter_mut().enumerate() {
            let lossless = priorities.contains(&(priority as u8));
            *group = match (lossless, group.lossless) {
                (true, false) => GroupConfig::LOSSLESS,
                (false, true) => GroupConfig::LOSSY,
                _ => *group,
            };
        }
    }
    let threshold = match (&table.alpha, table.threshold_bytes) {
        (Some(_), Some(_)) => {
            return Err(at.wrong("threshold_bytes", "a threshold is dynamic (alpha) or static"));
        }
        (Some(alpha), None) => Some(Threshold::Dynamic { exponent: exponent(at, alpha)? }),
        (None, bytes) => bytes.map(|bytes| Threshold::Static { bytes }),
    };
    for group in config.groups.iter_mut().filter(|group| group.lossless) {
        set(&mut group.threshold, threshold);
        set(&mut group.reserve_bytes, table.reserve_bytes);
        set(&mut group.xon_offset_bytes, table.xon_offset_bytes);
        set(&mut group.headroom_bytes, table.headroom_bytes.map(Some));
    }
    if let Some(strict) = &table.strict_queues {
        check_priorities(at, "strict_queues", strict)?;
    }
    for (index, queue) in config.queues.iter_mut().enumerate() {
        set(
            &mut queue.limit,
            table.lossy_queue_bytes.map(|bytes| Some(Threshold::Static { bytes })),
        );
        if let Some(weights) = &table.weights {
            if weights[index] == 0 {
                return Err(at.wrong("weights", "a weight is not zero"));
            }
            queue.schedule = Schedule::Weighted(weights[index]);
        }
        if table.strict_queues.as_ref().is_some_and(|strict| strict.contains(&(index as u8))) {
            queue.schedule = Schedule::Strict;
        }
    }
    if let Some(table) = &table.ecn {
        ecn(&At::new(at.text, "switch.ecn", table), &mut config.queues)?;
    }
    if let Some(watchdog) = &table.watchdog {
        let ms = |value: f64| span_us(value * 1_000.0);
        config.watchdog = Some(WatchdogConfig {
            poll: ms(watchdog.poll_ms).max(Span::from_us(1)),
            detection: ms(watchdog.detection_ms),
            restoration: ms(watchdog.restoration_ms),
        });
    }
    Ok(config)
}

fn check_priorities<T>(at: &At<'_, T>, key: &str, values: &[u8]) -> Result<()> {
    match values.iter().find(|&&value| usize::from(value) >= PRIORITIES) {
        Some(value) => Err(at.wrong(key, format!("{value} is not from 0 to 7"))),
        None => Ok(()),
    }
}

fn ecn(at: &At<'_, tables::Ecn>, queues: &mut [QueueConfig; PRIORITIES]) -> Result<()> {
    let table = at.table;
    if table.min_bytes >= table.max_bytes {
        return Err(at.wrong("max_bytes", "it is above min_bytes"));
    }
    if !(0.0..=1.0).contains(&table.max_probability) {
        return Err(at.wrong("max_probability", "a probability is from 0 to 1"));
    }
    if let Some(chosen) = &table.queues {
        check_priorities(at, "queues", chosen)?;
    }
    for (index, queue) in queues.iter_mut().enumerate() {
        if table.queues.as_ref().is_none_or(|chosen| chosen.contains(&(index as u8))) {
            queue.ecn = Some(EcnConfig {
                min_bytes: table.min_bytes,
                max_bytes: table.max_bytes,
                max_probability: table.max_probability,
            });
        }
    }
    Ok(())
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
