//! What DCQCN is set to, at the sender and at the receiver.
//!
//! ```text
//!   line rate of the port ──┐
//!   Share, Volume ──────────┴─► rates and bytes of this port
//! ```
//!
//! The paper gives its constants for ports of 40 Gb/s. At another rate the same numbers are another
//! algorithm: steps of 40 Mb/s lead to 400 Gb/s in half a second. So what is a rate or a number of
//! bytes either follows the line rate, which is the default, or is said to be fixed.

use rdma::{Rate, Span};

/// A rate: a part of the line rate, or one of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Share {
    /// The line rate over this; over 1, for 0.
    OfLine(u32),
    /// The same whatever the line rate is.
    Fixed(Rate),
}

impl Share {
    /// What it is at a port of rate `line`.
    pub const fn at(self, line: Rate) -> Rate {
        match self {
            Self::OfLine(0) => line,
            Self::OfLine(divisor) => Rate::from_bps(line.as_bps() / divisor as u64),
            Self::Fixed(rate) => rate,
        }
    }
}

/// A number of bytes: what the line sends in a time, or one of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Volume {
    /// As many as leave in this time at the line rate.
    OfLine(Span),
    /// The same whatever the line rate is.
    Fixed(u64),
}

impl Volume {
    /// What it is at a port of rate `line`.
    pub const fn at(self, line: Rate) -> u64 {
        const PS_PER_SECOND: u128 = 1_000_000_000_000;
        match self {
            Self::OfLine(time) => {
                let bytes = line.as_bps() as u128 * time.as_ps() as u128 / (8 * PS_PER_SECOND);
                if bytes > u64::MAX as u128 { u64::MAX } else { bytes as u64 }
            }
            Self::Fixed(bytes) => bytes,
        }
    }
}

/// What a reaction point is set to. The default is what the paper deploys, in proportion to the line
/// rate; [`super::PARAMETERS`] has the names under which operators know these.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dcqcn {
    /// The rate of the port: where a flow begins.
    pub line_rate: Rate,
    /// What a flow never exceeds, if that is less.
    pub maximum_rate: Option<Rate>,
    /// What a flow never falls below. The paper has none; 100 Mb/s at 40 Gb/s is that of its authors'
    /// simulator (ns3-rdma).
    pub minimum_rate: Share,
    /// What the first CNP sets the rate to, instead of cutting it.
    pub first_rate: Option<Rate>,
    /// Alpha at the first CNP of a flow, in 2^-10; if not said, what is left of the 1 that it was
    /// when the flow began.
    pub initial_alpha: Option<u16>,
    /// g: the part of the way that alpha moves at a time, in 2^-10. From 1 to 1024.
    pub alpha_gain: u16,
    /// Without a CNP for so long, alpha falls (K; longer than the interval of CNPs).
    pub alpha_timer: Span,
    /// A CNP cuts the rate by alpha x 2^10 / 2^this: 11 is the paper's half of alpha.
    pub cut_log2: u8,
    /// The least that a cut leaves, in per cent of the rate.
    pub cut_floor_percent: u8,
    /// CNPs that come sooner than this after a cut raise alpha alone.
    pub cut_interval: Span,
    /// Whether each cut makes the rate before it the target (R_T), as in the paper; if not, only the
    /// first one after a step up, so that CNPs in a row have one target.
    pub clamp_target: bool,
    /// Whether the steps up that the target is moved after are those of the rate timer too, and not
    /// of the byte counter alone.
    pub clamp_target_after_timer: bool,
    /// Whether a loss halves the rate, and the target with it. The paper's network has none; a ConnectX
    /// slows down after one, too (`roce_slow_restart` of its register ROCE_ACCL). How, is ours.
    pub cut_on_loss: bool,
    /// The rate climbs a step each time that so much time has passed (T).
    pub rate_timer: Span,
    /// And each time that so many bytes have been sent (B).
    pub byte_counter: Volume,
    /// Steps of fast recovery (F).
    pub fast_recovery_steps: u32,
    /// What the target rate gains by a step of additive increase (R_AI), at least 2^-18 of the line
    /// rate.
    pub additive_increase: Share,
    /// What it gains by the first step of hyper increase, twice that by the second, and so on
    /// (R_HAI). The paper gives no value; 200 Mb/s at 40 Gb/s is that of ns3-rdma.
    pub hyper_increase: Share,
}

impl Default for Dcqcn {
    fn default() -> Self {
        Self::scaled()
    }
}

impl Dcqcn {
    /// The paper's constants in proportion to the line rate, at 40 Gb/s those of [`Self::paper`], for
    /// networks with losses.
    pub const fn scaled() -> Self {
        Self {
            minimum_rate: Share::OfLine(400),
            byte_counter: Volume::OfLine(Span::from_ms(2)),
            additive_increase: Share::OfLine(1_000),
            hyper_increase: Share::OfLine(200),
            cut_on_loss: true,
            ..Self::paper()
        }
    }

    /// The constants of Zhu et al., SIGCOMM 2015, for a port of 40 Gb/s, and fixed.
    pub const fn paper() -> Self {
        Self {
            line_rate: Rate::from_gbps(40),
            maximum_rate: None,
            minimum_rate: Share::Fixed(Rate::from_mbps(100)),
            first_rate: None,
            initial_alpha: None,
            alpha_gain: 4,
            alpha_timer: Span::from_us(55),
            cut_log2: 11,
            cut_floor_percent: 0,
            cut_interval: Span::ZERO,
            clamp_target: true,
            clamp_target_after_timer: true,
            cut_on_loss: false,
            rate_timer: Span::from_us(55),
            byte_counter: Volume::Fixed(10_000_000),
            fast_recovery_steps: 5,
            additive_increase: Share::Fixed(Rate::from_mbps(40)),
            hyper_increase: Share::Fixed(Rate::from_mbps(200)),
        }
    }

    /// What a ConnectX-4 and later comes with, as `mlxconfig query` prints it and NVIDIA's page "DCQCN
    /// CC Parameters" has it, for ports of any rate. Alpha moves with each CNP, as in the paper, where
    /// that NIC moves it once in a period.
    pub const fn connectx() -> Self {
        Self {
            line_rate: Rate::from_gbps(40),
            maximum_rate: None,
            minimum_rate: Share::Fixed(Rate::from_mbps(1)),
            first_rate: None,
            initial_alpha: Some(1_023),
            alpha_gain: 5,
            alpha_timer: Span::from_us(1),
            cut_log2: 11,
            cut_floor_percent: 50,
            cut_interval: Span::from_us(4),
            clamp_target: false,
            clamp_target_after_timer: true,
            cut_on_loss: true,
            rate_timer: Span::from_us(300),
            byte_counter: Volume::Fixed(32_767),
            fast_recovery_steps: 1,
            additive_increase: Share::Fixed(Rate::from_mbps(5)),
            hyper_increase: Share::Fixed(Rate::from_mbps(50)),
        }
    }
}

/// How a receiver tells senders of marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notification {
    /// A queue pair sends at most one CNP in this time (N).
    pub interval: Span,
    /// The DSCP of CNPs, so that a network can let them overtake the congestion. NICs use 48 (CS6)
    /// by default.
    pub dscp: u8,
}

impl Default for Notification {
    fn default() -> Self {
        Self { interval: Span::from_us(50), dscp: 48 }
    }
}

/// Both ends of DCQCN.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    /// The sender's.
    pub reaction: Dcqcn,
    /// The receiver's.
    pub notification: Notification,
}

impl Settings {
    /// Settings that have a name. `scaled` is the default. A ConnectX shows 0 for the interval of
    /// CNPs, which is its own choice; 4 us, in which it makes one cut at most, is ours.
    pub const PRESETS: [(&'static str, Self); 3] = [
        ("scaled", Self::new(Dcqcn::scaled(), Span::from_us(50))),
        ("paper-40g", Self::new(Dcqcn::paper(), Span::from_us(50))),
        ("connectx", Self::new(Dcqcn::connectx(), Span::from_us(4))),
    ];

    const fn new(reaction: Dcqcn, interval: Span) -> Self {
        Self { reaction, notification: Notification { interval, dscp: 48 } }
    }

    /// The preset of this name.
    pub fn preset(name: &str) -> Option<Self> {
        Self::PRESETS.iter().find(|(known, _)| *known == name).map(|(_, settings)| *settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_40_gbps_what_follows_the_line_rate_is_what_the_paper_has() {
        let (scaled, paper) = (Dcqcn::scaled(), Dcqcn::paper());
        let rates = |settings: &Dcqcn, line| {
            let Dcqcn { minimum_rate, additive_increase, hyper_increase, .. } = *settings;
            let bytes = settings.byte_counter.at(line);
            ([minimum_rate, additive_increase, hyper_increase].map(|share| share.at(line)), bytes)
        };
        let line = Rate::from_gbps(40);
        assert_eq!(rates(&scaled, line), rates(&paper, line));
        let line = Rate::from_gbps(400);
        let expected = [1_000, 400, 2_000].map(Rate::from_mbps);
        assert_eq!(rates(&scaled, line), (expected, 100_000_000));
        assert_eq!(rates(&paper, line), rates(&paper, Rate::from_gbps(40)));
    }
}
