//! How many packets of a queue pair may travel as one.
//!
//! A driver may hand several packets to the network as one train, which the network may drop as one: a
//! queue that is nearly full has room for a packet and none for sixty. So a loss makes trains short, and
//! packets that arrive make them longer again. Under selective repeat it is known which packets were lost: one
//! alone, or two, are no train.

use crate::limits::{
    TRAIN_GROWTH_PACKETS, TRAIN_LOSS_DIVISOR, TRAIN_PACKETS_MAX, TRAIN_PACKETS_MIN,
};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Train {
    packets: u32,
    /// Packets that have arrived since it last grew.
    arrived: u32,
}

impl Default for Train {
    fn default() -> Self {
        Self { packets: TRAIN_PACKETS_MAX, arrived: 0 }
    }
}

impl Train {
    /// Packets that may travel as one.
    #[inline]
    pub(crate) fn packets(self) -> u32 {
        self.packets
    }

    pub(crate) fn on_loss(&mut self) {
        *self = Self {
            packets: (self.packets / TRAIN_LOSS_DIVISOR).max(TRAIN_PACKETS_MIN),
            arrived: 0,
        };
    }

    /// So many `packets` more have arrived.
    #[inline]
    pub(crate) fn on_progress(&mut self, packets: u32) {
        if self.packets < TRAIN_PACKETS_MAX {
            self.arrived = self.arrived.saturating_add(packets);
            if self.arrived >= self.packets * TRAIN_GROWTH_PACKETS {
                (self.packets, self.arrived) = (self.packets + 1, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_train_is_short_after_a_loss_and_grows_with_what_arrives() {
        let mut train = Train::default();
        assert_eq!(train.packets(), TRAIN_PACKETS_MAX);
        let after = [(); 3].map(|()| {
            train.on_loss();
            train.packets()
        });
        assert_eq!(after, [8, 8, 8]);
        let mut arrived = 0;
        while train.packets() < TRAIN_PACKETS_MAX {
            train.on_progress(8);
            arrived += 8;
        }
        // 8 + 9 + ... + 63, times 16.
        assert_eq!(arrived, 31_808);
    }
}
