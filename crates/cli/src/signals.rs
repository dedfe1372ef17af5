//! What ends a command that runs until somebody has seen enough.

use core::sync::atomic::AtomicBool;
use std::sync::Arc;

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::failure::Failure;

/// Is set when somebody wants us to end.
pub(crate) fn stopper() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Failure::new(format!("cannot catch signals: {error}")))?;
    }
    Ok(stop)
}
