//! Verdicts, as an experiment comes to them and as they are on record.

use serde::Deserialize;

/// Whether a claim is met.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// At the paper's scale.
    Holds,
    /// In a network smaller, or a time shorter, than the paper's.
    HoldsAtAnotherScale,
    /// At least one of its checks does not.
    DoesNotHold,
}

impl Verdict {
    /// In words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::HoldsAtAnotherScale => "holds at another scale",
            Self::DoesNotHold => "does not hold",
        }
    }
}
