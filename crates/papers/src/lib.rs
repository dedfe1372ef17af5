//! The papers' claims, compared with what Ferroce measures.
//!
//! ```text
//!   studies/claims.toml ──► claim ─────────────────────────┐
//!   scenarios/<paper>/ ──► experiment, which varies it ──► outcome: checks, verdict, figures
//!                                                            └─► table, page, CSV
//! ```
//!
//! An experiment repeats the paper's, at the paper's scale where time allows, else at a stated one. The
//! paper's numbers come from its claim, never from code. If a claim does not hold, the report says so,
//! with what is known of the reason.
//!
//! All of that is deterministic: the same seed gives the same figures on every machine. Experiments that are
//! about hosts also run on soft NICs of the machine at hand, in real time, by the same code.

#![forbid(unsafe_code)]

pub mod claims;
mod draws;
mod figure;
mod fitted;
mod guidance;
pub mod guo16;
mod hosts;
pub mod le19;
pub mod ma16;
mod outcome;
mod page;
mod record;
mod soft;
mod stats;
mod study;
mod table;
mod verdict;
pub mod zhang17;

use core::fmt;

use fabric::BuildError;
use fabric::scenario::ScenarioError;

pub use claims::Claim;
pub use figure::Figure;
pub use guidance::{Guidance, run as guidance};
pub use outcome::{Check, Outcome};
pub use record::table as record;
pub use soft::OnSoft;
pub use study::Step;
pub use verdict::Verdict;

/// How experiments are run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Smaller and shorter, for continuous integration: seconds in all.
    pub quick: bool,
    /// The seed of all random choices.
    pub seed: u64,
    /// Whether the same is run on soft NICs of this machine afterwards, where that can be.
    pub soft: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { quick: false, seed: 1, soft: false }
    }
}

/// The title of a paper, by the name that the command line has for it.
pub fn title(paper: &str) -> &'static str {
    match paper {
        "guo16" => "RDMA over Commodity Ethernet at Scale",
        "zhang17" => "Performance Isolation Anomalies in RDMA",
        "le19" => "On the Impact of Cluster Configuration on RoCE Application Design",
        "ma16" => "Exploring Low-latency Interconnect for Scaling Out Software Routers",
        _ => "Claims of a paper",
    }
}

/// The claims of a paper, and their outcomes.
#[derive(Clone, Debug)]
pub struct Study {
    /// In the order of the claims.
    pub outcomes: Vec<Outcome>,
    /// Claims without an experiment so far.
    pub later: Vec<Claim>,
    /// What the same experiments came to on soft NICs, if they were run there.
    pub soft: Option<OnSoft>,
    /// Claims whose verdict is another than the one on record, and that one.
    pub unlike: Vec<(String, Verdict)>,
}

/// Why a study cannot be made.
#[derive(Clone, PartialEq, Debug)]
pub enum Error {
    /// No claim and no figure has this name. Lists the valid names.
    NoSuchClaim(String, Vec<String>),
    /// The claims cannot be read.
    Claims(String),
    /// A scenario cannot be read.
    Scenario(&'static str, ScenarioError),
    /// A network cannot be made.
    Network(BuildError),
    /// Flows between the hosts of a testbed could not be run to their end.
    Hosts(&'static str, String),
    /// A configuration that is simulated makes no network.
    Files(String),
    /// There are no soft NICs on this machine.
    Soft(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchClaim(name, known) => {
                write!(f, "there is no claim or figure {name:?}\nhint: {}", known.join(", "))
            }
            Self::Claims(error) => write!(f, "studies/claims.toml: {error}"),
            Self::Scenario(name, error) => write!(f, "scenarios/{name}: {error}"),
            Self::Network(error) => error.fmt(f),
            Self::Soft(why) | Self::Files(why) => f.write_str(why),
            Self::Hosts(testbed, why) => write!(f, "studies/testbeds/{testbed}.toml: {why}"),
        }
    }
}

impl core::error::Error for Error {}

impl From<BuildError> for Error {
    fn from(error: BuildError) -> Self {
        Self::Network(error)
    }
}
