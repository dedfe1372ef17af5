//! Probes that went by something, and how many of them were lost.

/// Fewer losses accuse nobody.
pub(super) const LOSSES_MIN: u64 = 3;

/// Probes that went by something, and how many of them were lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Losses {
    /// Probes.
    pub sent: u64,
    /// Of them.
    pub lost: u64,
}

impl Losses {
    pub(super) fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.lost += other.lost;
    }

    pub(super) fn and(mut self, other: Self) -> Self {
        self.add(other);
        self
    }

    pub(super) fn rate(self) -> f64 {
        self.lost as f64 / self.sent.max(1) as f64
    }

    fn likelihood(self) -> f64 {
        let (sent, lost) = (self.sent as f64, self.lost as f64);
        let rate = self.rate();
        let of = |count: f64, rate: f64| if count > 0.0 { count * rate.ln() } else { 0.0 };
        of(lost, rate) + of(sent - lost, 1.0 - rate)
    }

    /// How much likelier `all` are if these have a rate of their own.
    pub(super) fn score(self, all: Self) -> f64 {
        let rest = Self { sent: all.sent - self.sent, lost: all.lost - self.lost };
        let is_worse = self.lost as f64 * rest.sent as f64 > rest.lost as f64 * self.sent as f64;
        let gain = self.likelihood() + rest.likelihood() - all.likelihood();
        if is_worse { gain } else { 0.0 }
    }
}
