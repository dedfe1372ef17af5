//! Captures: ports whose frames people look at while the lab runs.
//!
//! ```text
//!   taps of the network ─► LiveCapture ─► backlog ─► messages ─► whoever reads (`client::Capturing`)
//! ```
//!
//! A reader sends `stop`, or goes away; it is never waited for. What it does not take in time is kept up to a
//! bound, and missed from then on.
//!
//! ```text
//!   d BYTES                      the next bytes of the pcapng file
//!   e FRAMES BYTES MISSED WHY    it is over: limit, asked, or lab (which is over itself)
//! ```

use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use fabric::Network;
use fabric::capture::Capture;
use fabric::record::{CaptureLimits, CaptureTally, LiveCapture};
use fabric::topology::{End, Topology};
use softnic::lab::Channel;

use crate::limits::{
    CAPTURE_BACKLOG_BYTES, CAPTURE_FLUSH, CAPTURE_MESSAGE_BYTES, CAPTURE_PATIENCE, CAPTURES_MAX,
};
use crate::refusal::{Refusal, SAME_VERSION, no};

/// All captures.
#[derive(Debug, Default)]
pub(crate) struct Captures(Vec<Running>);

#[derive(Debug)]
struct Running {
    channel: Channel,
    state: Stage,
    /// Of the file: what has not been sent yet, behind so many bytes that have been.
    bytes: Vec<u8>,
    sent: usize,
    /// When something was sent last.
    flushed: Duration,
    /// There was no room for the next message.
    blocked: bool,
}

#[derive(Debug)]
enum Stage {
    Live(Box<LiveCapture>),
    /// It is over, as the reader will be told: what it came to, and why.
    Over(CaptureTally, &'static str),
    /// The reader is gone, or knows.
    Done,
}

/// What is to be captured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Asked {
    captures: Vec<Capture>,
    limits: CaptureLimits,
}

impl Asked {
    /// Reads a request, from behind its version on: `SNAP FRAMES BYTES PRIORITIES`, 0 for no bound, then a port a
    /// line.
    pub(crate) fn read(words: [&str; 4], ports: &[&str], of: &Topology) -> Result<Self, Refusal> {
        let numbers = words.map(|word| word.parse::<u64>().ok());
        let [Some(snap), Some(frames), Some(bytes), Some(priorities)] = numbers else {
            return Err(no("that is no capture", SAME_VERSION));
        };
        let snap_bytes = u32::try_from(snap).ok().filter(|bytes| *bytes > 0);
        let bound = |bound: u64| (bound > 0).then_some(bound);
        let limits = CaptureLimits { frames: bound(frames), bytes: bound(bytes) };
        if ports.is_empty() {
            return Err(no("there is no port to capture", "name one, such as leaf0:h3"));
        }
        let captures = ports.iter().map(|name| {
            let (node, neighbour) = port(name, of)?;
            Ok(Capture { node, neighbour, snap_bytes, priorities: priorities as u8 })
        });
        Ok(Self { captures: captures.collect::<Result<_, Refusal>>()?, limits })
    }
}

/// The port that `NODE:NEIGHBOUR` names, or all of `NODE`.
pub(crate) fn port(name: &str, of: &Topology) -> Result<(End, Option<End>), Refusal> {
    if let Some(node) = of.find(name) {
        return Ok((node, None));
    }
    // Names may have colons themselves.
    let parts = name.match_indices(':').map(|(at, _)| (&name[..at], &name[at + 1..]));
    let found = parts.clone().find_map(|(a, b)| Some((of.find(a)?, of.find(b)?)));
    let Some((node, neighbour)) = found else {
        let unknown = parts
            .clone()
            .next()
            .map_or(name, |(node, rest)| if of.find(node).is_some() { rest } else { node });
        let names: Vec<&str> = of
            .hosts
            .iter()
            .map(String::as_str)
            .chain(of.switches.iter().map(|switch| switch.name.as_str()))
            .collect();
        let hint = match telemetry::nearest(unknown, &names) {
            Some(name) => format!("did you mean {name}?"),
            None => "`ferroce lab counters` lists all ports".to_owned(),
        };
        return Err(no(format!("there is no host or switch `{unknown}`"), hint));
    };
    let others = of.links.iter().filter_map(|link| match link.ends {
        [a, b] if a == node => Some(b),
        [a, b] if b == node => Some(a),
        _ => None,
    });
    if others.clone().any(|other| other == neighbour) {
        return Ok((node, Some(neighbour)));
    }
    let [a, b] = [node, neighbour].map(|end| of.name(end));
    let names: Vec<&str> = others.take(8).map(|end| of.name(end)).collect();
    Err(no(format!("no link joins {a} and {b}"), format!("{a} is linked to {}", names.join(", "))))
}

impl Captures {
    /// Begins one, whose reader is at `channel`. `remark` stands in the file.
    pub(crate) fn begin(
        &mut self,
        channel: Channel,
        asked: &Asked,
        network: &mut Network,
        remark: &str,
    ) -> Result<(), (Channel, Refusal)> {
        if self.0.len() >= CAPTURES_MAX {
            return Err((channel, no("there are as many captures as there can be", "end one")));
        }
        let mut bytes = Vec::new();
        let said = ["ferroce lab", remark];
        match LiveCapture::begin(network, &asked.captures, asked.limits, said, &mut bytes) {
            Ok(live) if channel.send(b"ok ", None).is_err() => {
                live.end(network, &mut bytes, 0);
                Ok(())
            }
            Ok(live) => {
                let state = Stage::Live(Box::new(live));
                let (sent, flushed, blocked) = (0, Duration::ZERO, false);
                self.0.push(Running { channel, state, bytes, sent, flushed, blocked });
                Ok(())
            }
            Err(error) => Err((channel, no(error.to_string(), "name a port that there is"))),
        }
    }

    /// Takes what was seen, and sends what has waited long enough: all of it if the lab is about to sleep.
    pub(crate) fn turn(&mut self, network: &mut Network, wall: Duration, sleeps: bool) {
        if self.0.is_empty() {
            return;
        }
        for running in &mut self.0 {
            running.take(network);
            let waits = running.bytes.len() - running.sent;
            if sleeps || waits >= CAPTURE_MESSAGE_BYTES || wall > running.flushed + CAPTURE_FLUSH {
                running.flushed = wall;
                running.send(network);
            }
        }
        self.0.retain(|running| !matches!(running.state, Stage::Done));
    }

    /// The readers, and whether each has to be asked for room.
    pub(crate) fn readers(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        self.0.iter().map(|running| (running.channel.as_fd(), running.blocked))
    }

    /// The readers that `ready` says it of have something to say, or have room.
    pub(crate) fn hear(&mut self, ready: &[bool], network: &mut Network) {
        for (running, _) in self.0.iter_mut().zip(ready).filter(|(_, ready)| **ready) {
            running.hear(network);
        }
        self.0.retain(|running| !matches!(running.state, Stage::Done));
    }

    /// The lab is over: gives readers a moment to take what is left.
    pub(crate) fn end(&mut self, network: &mut Network) {
        let begin = Instant::now();
        for running in &mut self.0 {
            running.end(network, "lab");
        }
        while !self.0.is_empty() && begin.elapsed() < CAPTURE_PATIENCE {
            for running in &mut self.0 {
                running.send(network);
            }
            self.0.retain(|running| !matches!(running.state, Stage::Done));
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Running {
    fn take(&mut self, network: &mut Network) {
        let Stage::Live(live) = &mut self.state else { return };
        if self.sent > CAPTURE_BACKLOG_BYTES / 2 {
            self.bytes.drain(..core::mem::take(&mut self.sent));
        }
        live.take(network, &mut self.bytes, self.sent + CAPTURE_BACKLOG_BYTES);
        if live.is_full() {
            self.end(network, "limit");
        }
    }

    fn end(&mut self, network: &mut Network, why: &'static str) {
        if let Stage::Live(live) = core::mem::replace(&mut self.state, Stage::Done) {
            let room = self.sent + CAPTURE_BACKLOG_BYTES;
            let tally = live.end(network, &mut self.bytes, room);
            self.state = Stage::Over(tally, why);
        }
    }

    /// Sends as much as the reader takes.
    fn send(&mut self, network: &mut Network) {
        let mut message = Vec::with_capacity(1 + CAPTURE_MESSAGE_BYTES);
        self.blocked = false;
        while self.sent < self.bytes.len() {
            let end = self.bytes.len().min(self.sent + CAPTURE_MESSAGE_BYTES);
            message.clear();
            message.push(b'd');
            message.extend_from_slice(&self.bytes[self.sent..end]);
            match self.channel.send(&message, None) {
                Ok(()) => self.sent = end,
                Err(error) => return self.fails(&error, network),
            }
        }
        self.bytes.clear();
        self.sent = 0;
        if let Stage::Over(CaptureTally { frames, bytes, missed }, why) = self.state {
            let text = format!("e {frames} {bytes} {missed} {why}");
            match self.channel.send(text.as_bytes(), None) {
                Ok(()) => self.state = Stage::Done,
                Err(error) => self.fails(&error, network),
            }
        }
    }

    fn fails(&mut self, error: &io::Error, network: &mut Network) {
        match error.kind() {
            io::ErrorKind::WouldBlock => self.blocked = true,
            _ => self.leave(network),
        }
    }

    /// The reader is gone.
    fn leave(&mut self, network: &mut Network) {
        self.end(network, "asked");
        self.state = Stage::Done;
    }

    fn hear(&mut self, network: &mut Network) {
        let mut bytes = [0; 32];
        loop {
            match self.channel.receive_short(&mut bytes) {
                Ok(4) if bytes.starts_with(b"stop") => self.end(network, "asked"),
                // What makes no sense has no effect.
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return self.leave(network),
            }
        }
        self.send(network);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabric::topology::{Cables, single_switch};
    use rdma::Rate;

    #[test]
    fn a_port_is_named_by_its_node_and_where_it_leads_to() {
        let topology = single_switch(2, Cables::new(Rate::from_gbps(1), 2));
        let switch = topology.switches[0].name.clone();
        let named = |name: &str| port(name, &topology);
        assert_eq!(named("h1"), Ok((End::Host(1), None)));
        let both = format!("{switch}:h1");
        assert_eq!(named(&both), Ok((End::Switch(0), Some(End::Host(1)))));
        for (name, expected) in [
            ("h7", ["there is no host or switch `h7`", "did you mean h0?"]),
            ("h0:h9", ["there is no host or switch `h9`", "did you mean h0?"]),
            ("h0:h1", ["no link joins h0 and h1", &format!("h0 is linked to {switch}")]),
        ] {
            assert_eq!(named(name), Err(no(expected[0], expected[1])), "{name}");
        }
    }

    #[test]
    fn a_request_has_bounds_and_ports() {
        let topology = single_switch(2, Cables::new(Rate::from_gbps(1), 2));
        let read = |words, ports: &[&str]| Asked::read(words, ports, &topology);
        let asked = read(["96", "0", "1000", "8"], &["h0"]).unwrap();
        assert_eq!(asked.limits, CaptureLimits { frames: None, bytes: Some(1_000) });
        let of = &asked.captures[0];
        assert_eq!((of.snap_bytes, of.priorities), (Some(96), 8));
        assert!(read(["x", "0", "0", "255"], &["h0"]).is_err());
        assert!(read(["0", "0", "0", "255"], &[]).is_err());
    }
}
