//! The switch's watchdogs: guo16's (4.3) over ports that servers hang on, and SONiC's two over the
//! lossless queues of any port.
//!
//! ```text
//!   lossless ── storm, by the rule, for `detection` ──────► stormed: the action is taken
//!   stormed  ── no pause frame came for `restoration` ────► lossless
//! ```
//!
//! guo16's rule is about a whole port, SONiC's about a queue. The pauses of a stormed queue are ignored.
//! Under [`WatchdogAction::Drop`] lossless packets for it are dropped, waiting ones too, as are those that
//! come in by its port for a queue of that number. The watchdog polls, so both times are met to within one
//! `poll`. The first poll of each switch is at a seeded moment: switches do not poll in phase.
//!
//! SONiC's rules are those of its `pfc_detect_broadcom.lua`, `pfc_detect_mellanox.lua` and
//! `pfc_restore.lua`: counters are compared with those of the last look, and the time between two
//! looks is charged whole. On Broadcom one look never charges all of the detection time, so a storm is
//! seen at least twice. Priority i is queue i, as there.

use super::{PortSpec, Switch};
use crate::counters::WatchdogCounters;
use crate::links::{EventKind, Links};
use crate::pfc::PRIORITIES;
use crate::random::{Random, split_mix};
use crate::switch::config::{SwitchConfig, WatchdogAction, WatchdogConfig, WatchdogRule};

/// What was counted at the last look.
#[derive(Clone, Copy, Debug)]
struct Sample {
    pauses: u64,
    transitions: u64,
    paused: bool,
    paused_ps: u64,
    sent: u64,
    holds: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct WatchedQueue {
    /// Since when it has been seen paused, with packets, and sending nothing (guo16's rule).
    stuck_since: Option<u64>,
    sent: u64,
    /// The rest is SONiC's.
    last: Option<Sample>,
    /// Time of detection, or of restoration, that is spent.
    spent: u64,
    stormed: bool,
}

#[derive(Clone, Debug)]
struct Watched {
    config: WatchdogConfig,
    is_on: bool,
    /// Queues of lossless groups.
    queues: u8,
    state: [WatchedQueue; PRIORITIES],
    counters: WatchdogCounters,
}

#[derive(Clone, Debug)]
pub(super) struct Watchdog {
    poll: u64,
    /// By local port; `None` for those that are not watched.
    ports: Vec<Option<Watched>>,
}

/// What becomes of a queue at a look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Stays,
    Storm,
    Over,
}

impl Watchdog {
    /// `None` if no port has one.
    pub(super) fn new(config: &SwitchConfig, ports: &[PortSpec]) -> Option<Self> {
        let watched = |(local, port): (usize, &PortSpec)| {
            let watchdog = *config.watchdog_of(local as u16)?;
            if watchdog.rule == WatchdogRule::Guo16 && !port.serves {
                return None;
            }
            let groups = config.groups_of(local as u16).iter().enumerate();
            let queues = groups
                .filter(|(_, group)| group.lossless)
                .map(|(group, _)| config.group_to_priority[group] & 7)
                .fold(0, |mask, queue| mask | 1 << queue);
            let (state, counters) = Default::default();
            Some(Watched { config: watchdog, is_on: true, queues, state, counters })
        };
        let ports: Vec<Option<Watched>> = ports.iter().enumerate().map(watched).collect();
        let any = ports.iter().flatten().next()?;
        let poll = config.watchdog.unwrap_or(any.config).poll.as_ps().max(1);
        Some(Self { poll, ports })
    }

    /// From now on no port is watched. What was counted stays.
    fn turn_off(&mut self) {
        for watched in self.ports.iter_mut().flatten() {
            (watched.is_on, watched.state) = (false, Default::default());
        }
    }

    /// Goes on counting where `other` has stopped.
    fn go_on_from(&mut self, other: &Self) {
        for (own, other) in self.ports.iter_mut().zip(&other.ports) {
            if let (Some(own), Some(other)) = (own, other) {
                own.counters = other.counters;
            }
        }
    }

    fn counters(&mut self, local: u16) -> Option<&mut WatchdogCounters> {
        let watched = self.ports.get_mut(usize::from(local))?.as_mut()?;
        Some(&mut watched.counters)
    }
}

impl WatchedQueue {
    /// A look by one of SONiC's rules, `poll` after the last.
    fn look(&mut self, config: &WatchdogConfig, now: Sample, poll: u64) -> Outcome {
        let Some(last) = self.last.replace(now) else { return Outcome::Stays };
        if self.stormed && config.action != WatchdogAction::Alert {
            if now.pauses != last.pauses {
                self.spent = 0;
                return Outcome::Stays;
            }
            self.spent += poll;
            return if self.spent >= config.restoration.as_ps() {
                Outcome::Over
            } else {
                Outcome::Stays
            };
        }
        let detection = config.detection.as_ps();
        let (storm, charge, enough) = match config.rule {
            WatchdogRule::Mellanox => {
                let paused = now.paused_ps - last.paused_ps;
                let storm = now.holds && now.sent == last.sent && paused > poll / 100 * 99;
                (storm, poll, detection / 100 * 99 + 1)
            }
            WatchdogRule::Broadcom | WatchdogRule::Guo16 => {
                let rose = now.pauses > last.pauses && now.transitions == last.transitions;
                // All but a microsecond at most, for one look.
                let most = detection.saturating_sub(1_000_000);
                (rose && now.paused && last.paused, poll.min(most), detection)
            }
        };
        if !storm {
            self.spent = 0;
            return if self.stormed { Outcome::Over } else { Outcome::Stays };
        }
        self.spent += charge;
        if self.spent < enough {
            return Outcome::Stays;
        }
        self.spent = 0;
        if self.stormed { Outcome::Stays } else { Outcome::Storm }
    }
}

impl Switch {
    /// Schedules the first look, if there is a watchdog.
    pub(crate) fn start_watchdog(&self, links: &mut Links) {
        if let Some(watchdog) = &self.watchdog {
            let seed = links.common.seed ^ split_mix(u64::from(self.index) ^ 0xd06);
            let first = 1 + Random::new(seed).below(watchdog.poll);
            let number = u32::from(self.watchdog_number);
            links.schedule(first, EventKind::Watchdog, self.first_port, number);
        }
    }

    /// Gives it the watchdog that its settings say, in the place of the one that it has.
    pub(super) fn change_watchdog(&mut self, links: &mut Links) {
        if self.watchdog.is_some() {
            for port in self.ports() {
                let at = links.port(port);
                at.stormed = 0;
                if at.deaf != 0 && links.obey_all_but(port, 0) {
                    self.kick(links, port);
                }
            }
        }
        let old = self.watchdog.take();
        self.watchdog_number = self.watchdog_number.wrapping_add(1);
        match (Watchdog::new(&self.config, &self.specs), old) {
            (Some(mut new), old) => {
                if let Some(old) = &old {
                    new.go_on_from(old);
                }
                self.watchdog = Some(new);
                self.start_watchdog(links);
            }
            (None, Some(mut old)) => {
                old.turn_off();
                self.watchdog = Some(old);
            }
            (None, None) => {}
        }
    }

    /// What the watchdog has found and done at a port.
    pub(crate) fn watchdog_counters(&self, local: u16) -> WatchdogCounters {
        let watched =
            self.watchdog.as_ref().and_then(|at| at.ports.get(usize::from(local))?.as_ref());
        watched.map(|watched| watched.counters).unwrap_or_default()
    }

    /// A packet that came in by a port, or was to leave by it, is dropped because of a storm there.
    pub(super) fn watchdog_drops(&mut self, local: u16, arrives: bool) {
        if let Some(counters) = self.watchdog.as_mut().and_then(|at| at.counters(local)) {
            counters.rx_dropped += u64::from(arrives);
            counters.tx_dropped += u64::from(!arrives);
        }
    }

    /// Watchdog `number` looks at every port that is watched.
    pub(crate) fn watch(&mut self, links: &mut Links, number: u32) {
        if number != u32::from(self.watchdog_number) {
            return;
        }
        let Some(mut watchdog) = self.watchdog.take() else { return };
        for local in 0..watchdog.ports.len() {
            let Some(watched) = &mut watchdog.ports[local] else { continue };
            if !watched.is_on {
                continue;
            }
            let port = self.first_port + local as u32;
            match watched.config.rule {
                WatchdogRule::Guo16 => self.watch_port(links, port, watched),
                _ => self.watch_queues(links, port, watched, watchdog.poll),
            }
        }
        links.schedule(watchdog.poll, EventKind::Watchdog, self.first_port, number);
        self.watchdog = Some(watchdog);
    }

    /// guo16's rule.
    fn watch_port(&mut self, links: &mut Links, port: u32, watched: &mut Watched) {
        if watched.state[0].stormed {
            if self.is_over(links, port, &watched.config) {
                watched.state = Default::default();
                watched.counters.restored += 1;
                let at = links.port(port);
                (at.stormed, at.deaf) = (0, 0);
            }
            return;
        }
        if !self.is_stuck(links, port, watched) {
            return;
        }
        watched.state[0].stormed = true;
        watched.counters.detected += 1;
        if watched.config.action != WatchdogAction::Alert {
            links.port(port).deaf = u8::MAX;
            links.forget_pauses(port);
            self.mitigate(links, port, watched, u8::MAX);
        }
    }

    fn is_stuck(&self, links: &mut Links, port: u32, watched: &mut Watched) -> bool {
        let now = links.now();
        let at = links.port(port);
        let waiting = at.occupied & at.paused;
        let mut stuck = false;
        for (queue, state) in watched.state.iter_mut().enumerate() {
            let sent = self.sent(port, queue);
            let moved = core::mem::replace(&mut state.sent, sent) != sent;
            if waiting >> queue & 1 == 0 || moved {
                state.stuck_since = None;
                continue;
            }
            let since = *state.stuck_since.get_or_insert(now);
            stuck |= now - since >= watched.config.detection.as_ps();
        }
        stuck
    }

    /// Whether no pause has come for long enough.
    fn is_over(&self, links: &Links, port: u32, config: &WatchdogConfig) -> bool {
        links.now() - links.last_pause(port) >= config.restoration.as_ps()
    }

    /// SONiC's rules.
    fn watch_queues(&mut self, links: &mut Links, port: u32, watched: &mut Watched, poll: u64) {
        let counters = links.pause_counters(port, links.now());
        let paused = links.paused(port);
        let local = (port - self.first_port) as u16;
        let queues = watched.queues;
        for queue in (0..PRIORITIES).filter(|queue| queues >> queue & 1 != 0) {
            let sample = Sample {
                pauses: counters.received[queue] + counters.received_resume[queue],
                transitions: counters.transitions[queue],
                paused: paused >> queue & 1 != 0,
                paused_ps: counters.paused_ps[queue],
                sent: self.sent(port, queue),
                holds: self.queue_bytes(local, queue) > 0,
            };
            let state = &mut watched.state[queue];
            let bit = 1 << queue;
            let deaf = links.port(port).deaf;
            match state.look(&watched.config, sample, poll) {
                Outcome::Stays => {}
                Outcome::Storm => {
                    state.stormed = true;
                    watched.counters.detected += 1;
                    if watched.config.action != WatchdogAction::Alert {
                        links.obey_all_but(port, deaf | bit);
                        self.mitigate(links, port, watched, bit);
                    }
                }
                Outcome::Over => {
                    *state = WatchedQueue::default();
                    watched.counters.restored += 1;
                    links.port(port).stormed &= !bit;
                    links.obey_all_but(port, deaf & !bit);
                }
            }
        }
    }

    /// Does to the queues of `mask`, whose pauses are ignored by now, what the action says.
    fn mitigate(&mut self, links: &mut Links, port: u32, watched: &mut Watched, mask: u8) {
        if watched.config.action == WatchdogAction::Drop {
            links.port(port).stormed |= mask;
            watched.counters.tx_dropped += self.flush(links, port, mask);
        }
        self.kick(links, port);
    }
}
