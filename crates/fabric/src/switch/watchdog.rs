//! The switch's watchdog over ports that servers hang on (guo16, 4.3).
//!
//! ```text
//!   lossless ── paused, and a queue sent nothing, for `detection` ──► stormed
//!   stormed  ── no pause frame came for `restoration` ──────────────► lossless
//! ```
//!
//! While a port is stormed its pauses are ignored, and lossless packets to and from it are dropped,
//! those that wait in its queues included. It looks every `poll`, so both times are met to within
//! one of those.

use super::{PortSpec, Switch};
use crate::plant::{Event, Plant, What};
use crate::switch::config::{PRIORITIES, WatchdogConfig};

#[derive(Clone, Copy, Debug, Default)]
struct Watched {
    /// Since when each queue has been seen paused, with packets, and sending nothing.
    stuck_since: [Option<u64>; PRIORITIES],
    sent: [u64; PRIORITIES],
}

#[derive(Clone, Debug)]
pub(super) struct Watchdog {
    config: WatchdogConfig,
    /// By local port; `None` for those towards switches.
    ports: Vec<Option<Watched>>,
    pub(super) detected: u64,
    pub(super) restored: u64,
}

impl Watchdog {
    pub(super) fn new(config: WatchdogConfig, ports: &[PortSpec]) -> Self {
        let watched = |port: &PortSpec| port.serves.then(Watched::default);
        Self { config, ports: ports.iter().map(watched).collect(), detected: 0, restored: 0 }
    }
}

impl Switch {
    /// Schedules the first look, if there is a watchdog.
    pub(crate) fn start_watchdog(&self, plant: &mut Plant) {
        if let Some(watchdog) = &self.watchdog {
            let event = Event::new(What::Watchdog, self.index, 0);
            plant.events.push(watchdog.config.poll.as_ps(), event);
        }
    }

    /// Storms that the watchdog has found, and ports that it has given back.
    pub(crate) fn watchdog_counts(&self) -> (u64, u64) {
        self.watchdog.as_ref().map_or((0, 0), |watchdog| (watchdog.detected, watchdog.restored))
    }

    /// Looks at every port towards a server.
    pub(crate) fn watch(&mut self, plant: &mut Plant) {
        let Some(mut watchdog) = self.watchdog.take() else { return };
        for local in 0..watchdog.ports.len() {
            let Some(watched) = &mut watchdog.ports[local] else { continue };
            let port = self.first_port + local as u32;
            if plant.port(port).stormed {
                if !self.is_over(plant, port, &watchdog.config) {
                    continue;
                }
                watchdog.restored += 1;
                plant.port(port).stormed = false;
                *watched = Watched::default();
            } else if self.is_stuck(plant, port, watched, &watchdog.config) {
                watchdog.detected += 1;
                plant.port(port).stormed = true;
                plant.forget_pauses(port);
                self.flush(plant, port);
            }
        }
        let event = Event::new(What::Watchdog, self.index, 0);
        plant.events.push(watchdog.config.poll.as_ps(), event);
        self.watchdog = Some(watchdog);
    }

    fn is_stuck(
        &self,
        plant: &mut Plant,
        port: u32,
        watched: &mut Watched,
        config: &WatchdogConfig,
    ) -> bool {
        let now = plant.now();
        let at = plant.port(port);
        let waiting = at.occupied & at.paused;
        let mut stuck = false;
        for queue in 0..PRIORITIES {
            let sent = self.sent(port, queue);
            let moved = core::mem::replace(&mut watched.sent[queue], sent) != sent;
            let since = &mut watched.stuck_since[queue];
            if waiting >> queue & 1 == 0 || moved {
                *since = None;
                continue;
            }
            let since = *since.get_or_insert(now);
            stuck |= now - since >= config.detection.as_ps();
        }
        stuck
    }

    /// Whether no pause has come for long enough.
    fn is_over(&self, plant: &Plant, port: u32, config: &WatchdogConfig) -> bool {
        let last = plant.pauses[port as usize].last_received.iter().max().copied();
        plant.now() - last.unwrap_or(0) >= config.restoration.as_ps()
    }
}
