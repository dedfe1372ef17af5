//! DCQCN, by the engine's controller and the switch's marks, against the fixed point of its equations.

use rdma::{Rate, Span, Time};
use transport::congestion::{Congestion, Dcqcn};

use crate::switch::config::EcnConfig;
use crate::topology::{Cables, End, single_switch};
use crate::workload::FlowSpec;
use crate::{Network, NetworkConfig};

/// Bytes of the queue on average, and the rate of each flow as a part of its share.
fn settle(senders: u32) -> (f64, Vec<f64>) {
    let mut config =
        NetworkConfig::new(single_switch(senders + 1, Cables::new(Rate::from_gbps(40), 10)));
    let line = Rate::from_gbps(40);
    config.nic.congestion = Congestion::Dcqcn(Dcqcn { line_rate: line, ..Dcqcn::default() });
    config.nic.ack_interval_packets = 64;
    // Zhu 15: Kmin 5 KB, Kmax 200 KB, Pmax 1 %.
    config.switch.queues[3].ecn =
        Some(EcnConfig { min_bytes: 5_000, max_bytes: 200_000, max_probability: 0.01 });
    config.flows = (0..senders)
        .map(|from| FlowSpec::write(from, senders, 64 << 20).endless())
        .map(|flow| FlowSpec { message_bytes: 100_000, depth: 8, ..flow })
        .collect();
    let mut network = Network::new(config).unwrap();
    let from = 100;
    network.run(Time::ZERO + Span::from_ms(from));
    let before: Vec<u64> = network.flows().iter().map(|flow| flow.bytes()).collect();
    let mut sum = 0.0;
    let samples = 20_000;
    for sample in 1..=samples {
        network.run(Time::ZERO + Span::from_ms(from) + Span::from_us(10 * sample));
        sum += f64::from(network.queue_bytes(0, End::Host(senders), 3).unwrap());
    }
    let after = network.flows().iter().map(|flow| flow.bytes());
    let total: u64 = after.clone().sum::<u64>() - before.iter().sum::<u64>();
    let share = total as f64 / f64::from(senders);
    let parts = after.zip(&before).map(|(after, before)| (after - before) as f64 / share).collect();
    (sum / samples as f64, parts)
}

#[test]
fn dcqcn_settles_where_its_equations_do() {
    for (senders, queue) in [(2, 20_200.0), (4, 41_800.0)] {
        let (bytes, parts) = settle(senders);
        assert!((bytes / queue - 1.0).abs() < 0.2, "{senders}: {bytes} of {queue}");
        for part in parts {
            assert!((part - 1.0).abs() < 0.05, "{senders}: {part}");
        }
    }
}
