//! Recording: a run is cut into stretches, and samples are taken between them.
//!
//! ```text
//!   run ─► the network lives until the next sample ─► Samples looks at every port ─► and on
//! ```
//!
//! A network that runs in stretches does exactly what it does in one. Between two stretches it can be
//! sampled, shown or stopped. A run that is not recorded pays nothing, and one that is recorded has the
//! same results.
//!
//! Captures are made by taps at ports ([`crate::capture`]); `record/pcapng.rs` writes their file, `record/live.rs`
//! one that grows while the network lives.

mod live;
pub(crate) mod pcapng;
mod samples;

use rdma::{Span, Time};

use crate::{Network, Verdict};

pub use live::{CaptureLimits, CaptureTally, LiveCapture};
pub use samples::{Change, Samples};

/// What to do after a stretch of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Go on, and ask again when so much time has passed in the model.
    Run(Span),
    /// Stop here.
    Stop,
}

/// Lets `network` live until `end`, as [`Network::run`] does, while `samples` are taken. `next` is
/// asked before each stretch.
pub fn run(
    network: &mut Network,
    end: Time,
    mut samples: Option<&mut Samples>,
    mut next: impl FnMut(&Network) -> Next,
) -> Verdict {
    // Of stretches, not of the last event: a stretch in which nothing happens is over all the same.
    let mut reached = network.now();
    let verdict = loop {
        let Next::Run(stretch) = next(network) else { break Verdict::Interrupted };
        let mut until = end.min(reached + stretch.max(Span::from_ps(1)));
        if let Some(samples) = &samples {
            until = until.min(samples.due());
        }
        let verdict = network.run(until);
        reached = until;
        if verdict != Verdict::TimeOver || until >= end {
            break verdict;
        }
        if let Some(samples) = samples.as_deref_mut().filter(|samples| samples.due() <= until) {
            samples.take(network);
        }
    };
    if let Some(samples) = samples {
        samples.take_last(network);
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NetworkConfig;
    use crate::topology::{Cables, single_switch};
    use crate::workload::FlowSpec;
    use rdma::Rate;

    fn network() -> Network {
        let cables = Cables::new(Rate::from_gbps(40), 200);
        let mut config = NetworkConfig::new(single_switch(5, cables));
        config.flows = (0..4).map(|host| FlowSpec::write(host, 4, 1_000_000)).collect();
        config.switch.buffer_bytes = 2_000_000;
        Network::new(config).unwrap()
    }

    const END: Time = Time::from_ps(5_000_000_000);

    #[test]
    fn a_run_in_stretches_is_the_run_in_one() {
        let mut whole = network();
        let verdict = whole.run(END);
        let mut parts = network();
        let mut samples = Samples::new(&parts, END, Some(Span::from_us(3)));
        let mut asked = 0u64;
        let outcome = run(&mut parts, END, Some(&mut samples), |_| {
            asked += 1;
            Next::Run(Span::from_ns(700 + asked % 13 * 100))
        });
        assert_eq!((outcome, parts.now(), parts.events()), (verdict, whole.now(), whole.events()));
        assert_eq!(parts.flows(), whole.flows());
        assert!(whole.pause_frames() > 0 && asked > 200);
    }

    #[test]
    fn a_run_that_is_stopped_says_so_and_keeps_what_there_is() {
        let mut network = network();
        let mut samples = Samples::new(&network, END, Some(Span::from_us(10)));
        let us = |us| Time::ZERO + Span::from_us(us);
        let verdict = run(&mut network, END, Some(&mut samples), |network| {
            if network.now() > us(200) { Next::Stop } else { Next::Run(Span::from_us(7)) }
        });
        assert_eq!(verdict, Verdict::Interrupted);
        assert!(network.now() < us(210));
        assert_eq!(samples.times().last(), Some(&network.now()));
        assert!(samples.changes().count() > 0);
    }
}
