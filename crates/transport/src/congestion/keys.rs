//! The settings of controllers by name, for scenarios and the environment. DCQCN has a table of its own,
//! because mlx5 has names for its settings, too ([`super::PARAMETERS`]).

use alloc::format;
use alloc::string::String;
use core::ops::RangeInclusive;

use super::Congestion;

/// One setting of a controller.
#[derive(Debug)]
pub struct Key {
    /// What it is called; its end is its unit.
    pub key: &'static str,
    /// What it is, and its symbol in the paper.
    pub about: &'static str,
    /// What it may be.
    pub range: RangeInclusive<u64>,
    pub(super) get: fn(&Congestion) -> u64,
    pub(super) set: fn(&mut Congestion, u64),
}

impl Key {
    /// What it is set to; 0 for a controller that does not have it.
    pub fn get(&self, congestion: &Congestion) -> u64 {
        (self.get)(congestion)
    }

    /// Sets it to `value`, which is within its range, if the controller has it.
    pub fn set(&self, congestion: &mut Congestion, value: u64) {
        (self.set)(congestion, value);
    }
}

/// Two settings of a controller that contradict each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conflict {
    /// What they are called. The second may be that of the port.
    pub keys: [&'static str; 2],
    /// What must hold, and the values for which it does not.
    pub problem: String,
    /// What would be right, and why.
    pub hint: String,
}

/// Says of two settings, if their order is wrong, that the first `must` be at most the second, or below.
pub(super) fn order(
    is_right: bool,
    [(low, low_value), (high, high_value)]: [(&'static str, u64); 2],
    must: &str,
    why: &str,
) -> Result<(), Conflict> {
    if is_right {
        return Ok(());
    }
    Err(Conflict {
        keys: [low, high],
        problem: format!("{low} = {low_value} must be {must} {high} = {high_value}"),
        hint: format!("lower {low} or raise {high}: {why}"),
    })
}

/// Rows of the settings of a controller: field, name, range, and what it is.
macro_rules! keys {
    ($controller:ident: $($field:ident: $key:literal, $range:expr, $about:literal;)*) => {
        [$(Key {
            key: $key,
            about: $about,
            range: $range,
            get: |congestion| match congestion {
                $crate::Congestion::$controller(it) => {
                    $crate::congestion::parameters::Field::number(it.$field, rdma::Rate::ZERO)
                }
                _ => 0,
            },
            set: |congestion, number| {
                if let $crate::Congestion::$controller(it) = congestion {
                    it.$field = $crate::congestion::parameters::Field::of(number);
                }
            },
        }),*]
    };
}

pub(super) use keys;
