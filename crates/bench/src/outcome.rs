//! What both ends of a run tell each other of it, and who looks on.

use serde::{Deserialize, Serialize};

use crate::Failure;

/// Who looks on while a plan runs.
pub trait Watcher {
    /// Asked every now and then; `Some` ends the run, whose results are partial.
    fn glance(&mut self) -> Option<Failure>;
}

impl Watcher for () {
    fn glance(&mut self) -> Option<Failure> {
        None
    }
}

/// What the serving end of a flow has to say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Served {
    /// Messages received.
    pub received: u64,
    /// Payloads checked.
    pub checked: u64,
    /// Those that were wrong.
    pub mismatches: u64,
    /// Processor time of its threads, in cores.
    pub cores: f64,
    /// What went wrong.
    pub errors: Vec<String>,
}
