//! The jobs on which simulators are compared: link-hops (packets, acknowledgements included, times
//! links crossed) a second. `cargo bench -p ferroce-fabric [job] [repetitions]`.
//!
//! `permutation` is job P: fat tree k = 8, 100 Gb/s, 1 us a link, 128 hosts, 2,000 packets of 1,024
//! bytes a flow, an acknowledgement a packet, lossless with all of PFC, ECN and ECMP.

use std::time::Instant;

use fabric::random::Random;
use fabric::switch::config::EcnConfig;
use fabric::topology::{Cables, fat_tree};
use fabric::workload::permutation;
use fabric::{Network, NetworkConfig, Verdict};
use rdma::{Rate, Span, Time};

fn main() {
    let mut job = String::from("permutation");
    let mut repetitions = 1;
    for argument in std::env::args().skip(1).filter(|argument| !argument.starts_with("--")) {
        match argument.parse() {
            Ok(count) => repetitions = count,
            Err(_) => job = argument,
        }
    }
    let k = match job.as_str() {
        "permutation" => 8,
        "thousand" => 16,
        "eight-thousand" => 32,
        _ => {
            eprintln!("there is no job {job}: permutation, thousand, eight-thousand");
            return;
        }
    };
    for _ in 0..repetitions {
        let mut config = NetworkConfig::new(fat_tree(k, Cables::new(Rate::from_gbps(100), 200)));
        let hosts = k * k * k / 4;
        config.switch.buffer_bytes = 32_000_000;
        for queue in &mut config.switch.queues {
            queue.ecn =
                Some(EcnConfig { min_bytes: 400_000, max_bytes: 1_600_000, max_probability: 0.2 });
        }
        let packets = if k == 8 { 2_000 } else { 200 };
        config.flows = permutation(hosts, packets * 1_024, &mut Random::new(1));
        let begin = Instant::now();
        let mut network = Network::new(config).expect("the job is well formed");
        let built = begin.elapsed();
        let verdict = network.run(Time::ZERO + Span::from_ms(1_000));
        assert_eq!(verdict, Verdict::Finished);
        let took = (begin.elapsed() - built).as_secs_f64();
        let hops = network.link_hops() as f64;
        println!(
            "{job}: {hops} link-hops, {:.2} events each, in {took:.2} s: {:.2} M/s; built in {:.2} s; \
             {} pause frames, {} drops",
            network.events() as f64 / hops,
            hops / took / 1e6,
            built.as_secs_f64(),
            network.pause_frames(),
            network.drops().total(),
        );
    }
}
