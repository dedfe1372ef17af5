//! No congestion control: what is posted is sent, as far as the window reaches.
//!
//! It is the default: an engine cannot know a link's rate, and a lossless fabric (or loopback)
//! pushes back by itself. A driver with another network chooses a controller.

use rdma::{Rate, Time};

use super::Controller;

/// The controller that controls nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Unlimited;

impl Controller for Unlimited {
    fn on_sent(&mut self, _: Time, _: u64) -> Option<Rate> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_limits_it() {
        let mut controller = Unlimited;
        assert_eq!(controller.on_sent(Time::ZERO, 4096), None);
        assert!(!controller.on_cnp(Time::ZERO));
        assert_eq!(controller.on_sent(Time::ZERO, 4096), None);
    }
}
