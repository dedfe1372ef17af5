//! Refusals: why somebody does not get what he has asked for.

/// What is wrong, and what to do about it.
pub(crate) type Refusal = (String, String);

/// What to do where both ends do not understand each other.
pub(crate) const SAME_VERSION: &str = "use the same version of Ferroce for both";

pub(crate) fn no(what: impl Into<String>, hint: impl Into<String>) -> Refusal {
    (what.into(), hint.into())
}
