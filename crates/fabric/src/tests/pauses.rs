//! Losslessness, and what pauses do.

use rdma::{Rate, Span, Time};

use super::CABLES;
use crate::counters::Drop;
use crate::fault::{Fault, FaultKind};
use crate::switch::config::{GroupConfig, SwitchConfig, Threshold};
use crate::switch::{Cell, Frames, headroom_bytes};
use crate::topology::{Cables, End, propagation, single_switch};
use crate::workload::{FlowSpec, Verb};
use crate::{Network, NetworkConfig};

/// Host 0 sends to host 2, whose NIC stops and pauses at 150 us and `offset`; from then on all that
/// comes stays in the switch. Host 1 keeps the way back to host 0 busy, where pauses have to go.
fn blocked(metres: u32, headroom: u32, offset: Span) -> Network {
    blocked_but(metres, headroom, offset, |_| {})
}

fn blocked_but(
    metres: u32,
    headroom: u32,
    offset: Span,
    vary: impl FnOnce(&mut NetworkConfig),
) -> Network {
    let cables = Cables::new(Rate::from_gbps(40), metres);
    let mut config = NetworkConfig::new(single_switch(3, cables));
    config.switch.groups[3] = GroupConfig {
        headroom_bytes: Some(headroom),
        threshold: Threshold::Static { bytes: 50_000 },
        ..GroupConfig::LOSSLESS
    };
    config.switch.groups[4] = GroupConfig::LOSSY;
    config.nic.ack_interval_packets = 1_000;
    config.flows = vec![
        FlowSpec::write(0, 2, 8 << 20).endless(),
        // Of another class, whose acknowledgements do not count, and of frames of another length,
        // so that every phase of the two occurs.
        FlowSpec { dscp: 4, depth: 2_000, ..FlowSpec::write(1, 0, 1_000).endless() },
    ];
    let at = Time::ZERO + Span::from_us(150) + offset;
    config.faults.push(Fault { at, kind: FaultKind::NicStuck { host: 2 } });
    vary(&mut config);
    let mut network = Network::new(config).unwrap();
    network.run(at + Span::from_us(250));
    network
}

#[test]
fn in_cells_short_frames_need_the_headroom_that_counts_cells() {
    let cells = Cell::new(208).unwrap();
    let of = |cell| {
        let frames = Frames { longest_bytes: 1_086, cell };
        let pfc = SwitchConfig::default().pfc;
        headroom_bytes(Rate::from_gbps(40), propagation(300), Span::ZERO, frames, &pfc)
    };
    // What was lost, and the most that was used, of frames of 66 bytes.
    let run = |cell, headroom| {
        let each = (0..20).map(|step| {
            let network = blocked_but(300, headroom, Span::from_ns(317) * step, |config| {
                config.switch.cell = cell;
                let short = FlowSpec { verb: Verb::Send, message_bytes: 4, ..config.flows[0] };
                config.flows[0] = FlowSpec { depth: 4_000, ..short };
            });
            let counters = network.port_counters(0, End::Host(0)).unwrap();
            (network.drops().of(Drop::Headroom), counters.group_peak_headroom_bytes[3])
        });
        each.fold((0, 0), |sum, run| (sum.0 + run.0, sum.1.max(run.1)))
    };
    let (lost, used) = run(cells, of(cells));
    assert_eq!((lost, used % 208), (0, 0));
    assert!(used * 10 > u64::from(of(cells)) * 8, "{used} of {}", of(cells));
    let (lost, _) = run(cells, of(Cell::BYTE));
    assert!(lost > 0);
    let (lost, used) = run(Cell::BYTE, of(Cell::BYTE));
    assert_eq!(lost, 0);
    assert!(used < u64::from(of(Cell::BYTE)));
}

#[test]
fn nothing_is_lost_if_and_only_if_the_headroom_is_what_the_formula_says() {
    for metres in [2, 50, 300, 1_000, 5_000] {
        let pfc = SwitchConfig::default().pfc;
        let (rate, frames) = (Rate::from_gbps(40), Frames::of(1_086));
        let enough = headroom_bytes(rate, propagation(metres), Span::ZERO, frames, &pfc);
        // How much is needed depends on which frames have just begun when XOFF is due.
        let mut most = (0, Span::ZERO);
        for step in 0..60 {
            let offset = Span::from_ns(317) * step;
            let network = blocked(metres, enough, offset);
            let counters = network.port_counters(0, End::Host(0)).unwrap();
            assert_eq!(network.drops().of(Drop::Headroom), 0, "{metres} m, {enough} bytes");
            assert_eq!(counters.pause.sent[3], 1, "{metres} m");
            most = most.max((counters.group_peak_headroom_bytes[3], offset));
        }
        let frame = 1_086;
        assert!(most.0 + frame >= u64::from(enough), "{metres} m: {} of {enough}", most.0);
        // One byte less than that, and a packet is lost.
        let network = blocked(metres, most.0 as u32 - 1, most.1);
        assert_eq!(network.drops().of(Drop::Headroom), 1, "{metres} m");
    }
}

#[test]
fn pauses_split_a_bottleneck_by_the_ports_that_feed_it() {
    let mut config = NetworkConfig::new(single_switch(4, CABLES));
    config.flows = [0, 1, 2].map(|from| FlowSpec::write(from, 3, 1 << 20).endless()).to_vec();
    let mut network = Network::new(config).unwrap();
    network.run(Time::ZERO + Span::from_ms(10));
    assert_eq!(network.drops().total(), 0);
    let gbps: Vec<f64> =
        network.flows().iter().map(|flow| flow.bytes() as f64 * 8.0 / 10e-3 / 1e9).collect();
    for rate in &gbps {
        assert!((27.0..33.0).contains(rate), "{gbps:?}");
    }
    assert!(gbps.iter().sum::<f64>() > 88.0, "{gbps:?}");
}

#[test]
fn a_lossy_class_drops_and_never_pauses() {
    let mut config = NetworkConfig::new(single_switch(3, CABLES));
    config.switch.buffer_bytes = 1_000_000;
    config.flows = [0, 1]
        .map(|from| FlowSpec { dscp: 1, ..FlowSpec::write(from, 2, 1 << 20).endless() })
        .to_vec();
    let mut network = Network::new(config).unwrap();
    network.run(Time::ZERO + Span::from_ms(20));
    assert_eq!(network.pause_frames(), 0);
    assert!(network.drops().of(Drop::Buffer) > 0);
    assert_eq!(network.drops().of(Drop::Headroom), 0);
}

#[test]
fn groups_that_are_fed_together_stop_at_alpha_b_over_one_plus_k_alpha() {
    // k senders for one receiver fill k groups of the switch to its threshold.
    for (exponent, k) in [(0i8, 2u32), (-2, 4), (-4, 8), (1, 3)] {
        let mut config = NetworkConfig::new(single_switch(k + 1, CABLES));
        config.switch.buffer_bytes = 4_000_000;
        config.switch.groups[3].threshold = Threshold::Dynamic { exponent };
        config.switch.groups[3].xon_offset_bytes = 0;
        config.flows = (0..k).map(|from| FlowSpec::write(from, k, 1 << 20).endless()).collect();
        let mut network = Network::new(config).unwrap();
        network.run(Time::ZERO + Span::from_ms(3));
        let shared = f64::from(network.shared_bytes(0).unwrap());
        let alpha = 2f64.powi(i32::from(exponent));
        let expected = alpha * shared / (1.0 + f64::from(k) * alpha);
        for from in 0..k {
            // What stands in the headroom came after XOFF, and is beyond the threshold.
            let counters = network.port_counters(0, End::Host(from)).unwrap();
            let peak = counters.group_peak_bytes[3] as f64;
            assert!((peak / expected - 1.0).abs() < 0.15, "{exponent} {k}: {peak} {expected}");
        }
        assert_eq!(network.drops().total(), 0);
    }
}
