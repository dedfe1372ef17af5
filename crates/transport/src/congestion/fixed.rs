//! A constant rate, whatever the network says: a rate limit of the operator, or the constant sender
//! of an experiment.

use rdma::{Rate, Time};

use super::Controller;

/// The controller of a constant rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Fixed {
    rate: Rate,
}

impl Fixed {
    /// Sends at `rate`, which is one bit per second at least.
    pub(super) fn new(rate: Rate) -> Self {
        Self { rate: rate.max(Rate::from_bps(1)) }
    }
}

impl Controller for Fixed {
    fn rate(&self) -> Option<Rate> {
        Some(self.rate)
    }

    fn on_sent(&mut self, _: Time, _: u64) -> Option<Rate> {
        Some(self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdma::Span;

    #[test]
    fn the_rate_is_flat_whatever_comes() {
        let rate = Rate::from_mbps(500);
        let mut controller = Fixed::new(rate);
        for ms in 0..10 {
            let now = Time::ZERO + Span::from_ms(ms);
            assert_eq!(controller.on_sent(now, 4096), Some(rate));
            assert!(!controller.on_cnp(now));
        }
    }

    #[test]
    fn a_rate_of_nothing_still_moves() {
        assert_eq!(Fixed::new(Rate::ZERO).on_sent(Time::ZERO, 1), Some(Rate::from_bps(1)));
    }
}
