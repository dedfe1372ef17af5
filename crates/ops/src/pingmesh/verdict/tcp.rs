//! What TCP probes say of a suspect: whether all that goes by it is hurt, or RDMA alone.
//!
//! ```text
//!   RDMA's probes by the suspect: lost at a rate r, or slow
//!   TCP's probes by the suspect:  hurt as often ──► everything: link, cable, host
//!                                 hardly ever ────► RDMA alone: PFC, DSCP, the NIC's RoCE
//! ```
//!
//! A TCP probe is hurt if it is not answered, or as late as if a packet of it had been sent again. It has more packets
//! than a probe of RDMA, so what loses packets of all kinds hurts it as often at least.
//!
//! **The rule.** Of losses: *everything*, if three TCP probes were hurt, and half as often as RDMA's; *RDMA alone*, if so
//! few hurt ones had a chance below 1 % at RDMA's rate. Of delays: three pairs and windows have to be seen; *everything*,
//! if their median is three times that of other pairs, and 200 us more; *RDMA alone* otherwise. Else nothing is said.

use super::super::evidence::{Evidence, TcpBrief};
use super::super::node::Node;
use super::join::{Joined, Reach};
use super::{Cause, Culprit, Suspect};

/// Fewer hurt probes are chance.
const HURT_MIN: u64 = 3;
/// What has less of a chance is none.
const CHANCE: f64 = 0.01;
/// Medians of fewer pairs and windows say nothing.
const PAIRS_MIN: usize = 3;
/// A median that is so many times the others',
const SLOW_TIMES: f32 = 3.0;
/// and so much longer, is slow: as for RDMA.
const SLOW_LONGER_US: f32 = 200.0;

/// Asks TCP probes about a suspect.
pub(super) fn ask(evidence: &Evidence<'_>, suspect: &Suspect, joined: &mut Joined) {
    let goes_by = |from: u32, to: u32| goes_by(evidence, suspect.culprit, from, to);
    let tcp = evidence.digest.tcp.iter().filter(|pair| pair.start_ns >= suspect.since_ns);
    let (by, others): (Vec<&TcpBrief>, Vec<&TcpBrief>) =
        tcp.partition(|pair| goes_by(pair.host, pair.target));
    match suspect.cause {
        Cause::Dead | Cause::Lossy => {
            let (known, hurt) =
                by.iter().fold((0, 0), |sum, of| (sum.0 + of.known, sum.1 + of.hurt.min(of.known)));
            let rdma = evidence.digest.pairs.iter().filter(|pair| {
                pair.start_ns >= suspect.since_ns && goes_by(pair.host, pair.target)
            });
            let (sent, lost) = rdma.fold((0, 0), |sum, pair| {
                let (sent, lost) = pair.losses();
                (sum.0 + sent, sum.1 + lost)
            });
            let Some(reach) = of_losses((sent, lost), (known, hurt)) else { return };
            joined.reach = Some(reach);
            joined.tcp = Some(format!(
                "TCP by the same way: {hurt} of {known} probes were late or not answered; of RDMA's {lost} of {sent}"
            ));
        }
        Cause::Slow => {
            let (Some(own), Some(usual)) = (median(&by, 2), median(&others, 4)) else { return };
            if by.len() < PAIRS_MIN {
                return;
            }
            let is_slow = own > SLOW_TIMES * usual && own > usual + SLOW_LONGER_US;
            joined.reach = Some(if is_slow { Reach::Everything } else { Reach::RdmaOnly });
            joined.tcp = Some(format!(
                "TCP by the same way: the median is {own:.0} us, elsewhere {usual:.0} us"
            ));
        }
        _ => {}
    }
}

fn of_losses((sent, lost): (u64, u64), (known, hurt): (u64, u64)) -> Option<Reach> {
    let rate = lost as f64 / (sent as f64).max(1.0);
    if hurt >= HURT_MIN && hurt as f64 >= rate / 2.0 * known as f64 {
        return Some(Reach::Everything);
    }
    (known > 0 && at_most(hurt, known, rate) < CHANCE).then_some(Reach::RdmaOnly)
}

/// The chance that no more than `hurt` of `known` are hurt, if each is at this rate.
fn at_most(hurt: u64, known: u64, rate: f64) -> f64 {
    let rate = rate.clamp(0.0, 1.0 - 1e-9);
    let mut term = (known as f64 * (1.0 - rate).ln()).exp();
    let mut sum = term;
    for count in 0..hurt.min(known) {
        term *= (known - count) as f64 / (count + 1) as f64 * rate / (1.0 - rate);
        sum += term;
    }
    sum
}

/// Of the medians of some pairs, that which is a part of the way up.
fn median(of: &[&TcpBrief], part: usize) -> Option<f32> {
    let mut all: Vec<f32> = of.iter().filter_map(|pair| pair.p50_us).collect();
    all.sort_by(f32::total_cmp);
    all.get(all.len() / part).copied()
}

/// Whether probes between two hosts go by a suspect, there or back. Ports of TCP are others than those of a flow label: the
/// way is that of the first.
fn goes_by(evidence: &Evidence<'_>, culprit: Culprit, from: u32, to: u32) -> bool {
    let ways = [evidence.paths.path(from, to, 0), evidence.paths.path(to, from, 0)];
    let mut hops = ways.into_iter().flatten().flatten();
    let is_end = |node: Node| node == Node::Host(from) || node == Node::Host(to);
    match culprit {
        Culprit::Nothing => false,
        Culprit::Host(host) | Culprit::Nic(host) => is_end(Node::Host(host)),
        Culprit::Link(a, b) => hops.any(|hop| hop == (a, b) || hop == (b, a)),
        Culprit::Tor(switch) | Culprit::Plane(switch) => {
            hops.any(|(from, to)| [from, to].contains(&Node::Switch(switch)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_of_tcp_are_held_against_those_of_rdma() {
        use Reach::{Everything, RdmaOnly};
        for (rdma, tcp, expected) in [
            // A dead link, and one of which TCP knows nothing.
            ((100, 100), (12, 12), Some(Everything)),
            ((100, 100), (12, 0), Some(RdmaOnly)),
            // 14 % of RDMA's: of 36 none is no chance (0.4 %), of 12 it may be (16 %).
            ((600, 84), (36, 0), Some(RdmaOnly)),
            ((600, 84), (12, 0), None),
            ((600, 84), (36, 7), Some(Everything)),
            ((600, 84), (36, 2), None),
            // 0.1 %: nobody knows before thousands of probes.
            ((100_000, 100), (1_000, 0), None),
            ((100_000, 100), (5_000, 0), Some(RdmaOnly)),
            ((100, 100), (0, 0), None),
        ] {
            assert_eq!(of_losses(rdma, tcp), expected, "{rdma:?} {tcp:?}");
        }
    }

    #[test]
    fn chances_add_up() {
        assert!((at_most(36, 36, 0.14) - 1.0).abs() < 1e-9);
        assert!((at_most(0, 36, 0.14) - 0.86_f64.powi(36)).abs() < 1e-12);
        assert!((at_most(1, 2, 0.5) - 0.75).abs() < 1e-12);
        assert!(at_most(0, 5, 1.0) < 1e-6);
    }
}
