//! How long a message is under way between an application and its TCP stack.

use rdma::Span;

use crate::random::Random;

/// A delay that is never less than `floor`, and beyond it exponential.
///
/// System calls, copies and wake-ups take a floor; interrupts, queues for a core and softirqs add a
/// tail without memory. A message and its answer meet four such delays, whose sum is an Erlang
/// variate: its 99th percentile is 4 x `floor` + 10.05 x `mean`, its median 4 x `floor` + 3.67 x
/// `mean`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelLatency {
    /// The least.
    pub floor: Span,
    /// What is added on average.
    pub mean: Span,
}

impl Default for KernelLatency {
    /// An input, fitted to results: a message and its answer between idle servers take 500 us at the
    /// 99th percentile, because TCP's do in guo16, figure 8; their median is then 218 us, where Guo et
    /// al., "Pingmesh", SIGCOMM 2015, measure 216 us within a podset. A simulation does not find these
    /// latencies out; it finds out whether load changes them.
    fn default() -> Self {
        Self { floor: Span::from_us(15), mean: Span::from_us(43) }
    }
}

impl KernelLatency {
    /// One delay, in picoseconds.
    pub(crate) fn sample(&self, random: &mut Random) -> u64 {
        let tail = random.exponential() * self.mean.as_ps() as f64;
        self.floor.as_ps() + tail as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_delays_are_those_of_the_paper() {
        let kernel = KernelLatency::default();
        let mut random = Random::new(1);
        let mut sums: Vec<u64> = (0..100_000)
            .map(|_| (0..4).map(|_| kernel.sample(&mut random)).sum::<u64>() / 1_000_000)
            .collect();
        sums.sort_unstable();
        assert!((213..223).contains(&sums[50_000]), "{} us", sums[50_000]);
        assert!((485..500).contains(&sums[99_000]), "{} us", sums[99_000]);
        assert!(sums[0] >= 60);
    }
}
