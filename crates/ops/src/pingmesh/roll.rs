//! Who is there: agents, by the hellos that they say.
//!
//! ```text
//!   hello from A ─► there, at A
//!   hello from B ─► there, at B: it was started again
//!   hello from A ─► two agents have one name: what was left does not come back
//! ```

use std::collections::{BTreeMap, BTreeSet};

use super::exchange::Address;

/// An agent that has not said anything for so many windows is not probed any more: it has been shut down. Until then
/// its silence is lost probes.
const SILENT_WINDOWS: u64 = 20;
/// If nobody has said anything for so many windows, something is wrong with all, or with the way to them.
const ALL_SILENT_WINDOWS: u64 = 3;
/// Agents say hello every five seconds, however short windows are.
const ALL_SILENT_NS: u64 = 15_000_000_000;
/// Two agents of one name are told apart no longer if they have not taken turns for so long.
const CLASH_NS: u64 = 60_000_000_000;

#[derive(Clone, Copy, Debug)]
struct Agent {
    address: Address,
    seen_ns: u64,
    /// Where it was before it was there.
    before: Option<Address>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Roll {
    length_ns: u64,
    agents: BTreeMap<u32, Agent>,
    /// Of them, those that the store does not know yet.
    to_store: BTreeSet<u32>,
    /// Hosts that two agents say they are, where both are, and when that was last seen.
    clashes: BTreeMap<u32, ([Address; 2], u64)>,
    /// When anybody has said anything; `None` if nobody ever was there.
    heard_ns: Option<u64>,
}

impl Roll {
    /// Since when somebody has to have been there to be there still.
    pub(super) fn since(length_ns: u64, now_ns: u64) -> u64 {
        now_ns.saturating_sub(SILENT_WINDOWS * length_ns)
    }

    /// With windows of `length_ns`, and those that were there before.
    pub(super) fn new(length_ns: u64, known: BTreeMap<u32, Address>, now_ns: u64) -> Self {
        let heard_ns = (!known.is_empty()).then_some(now_ns);
        let agent = |address| Agent { address, seen_ns: now_ns, before: None };
        let agents = known.into_iter().map(|(host, address)| (host, agent(address))).collect();
        let (to_store, clashes) = Default::default();
        Self { length_ns, agents, to_store, clashes, heard_ns }
    }

    /// How many are there.
    pub(super) fn len(&self) -> usize {
        self.agents.len()
    }

    /// Where a host is.
    pub(super) fn address(&self, host: u32) -> Option<Address> {
        self.agents.get(&host).map(|agent| agent.address)
    }

    /// The agent of a host says that it is there.
    pub(super) fn hello(&mut self, host: u32, address: Address, now_ns: u64) {
        self.heard_ns = Some(now_ns);
        let last = self.agents.get(&host).copied();
        let moved = last.filter(|last| last.address != address);
        if let Some(last) = moved
            && last.before == Some(address)
        {
            self.clashes.insert(host, ([address, last.address], now_ns));
        }
        let before = match moved {
            Some(last) => Some(last.address),
            None => last.and_then(|last| last.before),
        };
        self.agents.insert(host, Agent { address, seen_ns: now_ns, before });
        // What is on the disk is for the next collector: it need not be newer than a window.
        let is_known = moved.is_none()
            && last.is_some_and(|last| now_ns.saturating_sub(last.seen_ns) < self.length_ns);
        if !is_known {
            self.to_store.insert(host);
        }
    }

    /// Who is there since the last time that this was asked: what the next collector is to find in the store.
    pub(super) fn new_hosts(&mut self) -> Vec<(u32, Address, u64)> {
        let agents = &self.agents;
        let of = |host| agents.get(&host).map(|agent| (host, agent.address, agent.seen_ns));
        core::mem::take(&mut self.to_store).into_iter().filter_map(of).collect()
    }

    /// Forgets those that were shut down.
    pub(super) fn forget(&mut self, now_ns: u64) {
        let since = Self::since(self.length_ns, now_ns);
        self.agents.retain(|_, agent| agent.seen_ns >= since);
        let patience = CLASH_NS.max(2 * self.length_ns);
        self.clashes.retain(|_, (_, seen_ns)| now_ns.saturating_sub(*seen_ns) <= patience);
    }

    /// Hosts that two agents say they are, and where both are.
    pub fn clashes(&self) -> impl Iterator<Item = (u32, [Address; 2])> {
        self.clashes.iter().map(|(host, (both, _))| (*host, *both))
    }

    /// Since when nobody has said anything, if that is long.
    pub fn silent_since(&self, now_ns: u64) -> Option<u64> {
        let patience = ALL_SILENT_NS.max(ALL_SILENT_WINDOWS * self.length_ns);
        self.heard_ns.filter(|heard_ns| now_ns.saturating_sub(*heard_ns) > patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(qpn: u32) -> Address {
        Address { gid: [7; 16], qpn, tcp: None }
    }

    #[test]
    fn an_agent_that_was_started_again_is_one_and_two_that_take_turns_are_two() {
        let mut roll = Roll::new(SECOND, BTreeMap::new(), 0);
        for (second, qpn) in [(0, 1), (5, 1), (10, 2), (15, 2), (20, 3)] {
            roll.hello(4, at(qpn), second * SECOND);
            assert_eq!(roll.clashes().count(), 0, "second {second}");
        }
        roll.hello(4, at(2), 21 * SECOND);
        let clashes: Vec<_> = roll.clashes().collect();
        assert_eq!(clashes, [(4, [at(2), at(3)])]);
        // One of them is gone.
        for second in 22..=81 {
            roll.hello(4, at(2), second * SECOND);
            roll.forget(second * SECOND);
            assert_eq!(roll.clashes().count(), 1, "second {second}");
        }
        roll.forget(82 * SECOND);
        assert_eq!((roll.clashes().count(), roll.len()), (0, 1));
    }

    #[test]
    fn silence_is_of_all_and_of_nobody_who_never_was_there() {
        let mut roll = Roll::new(SECOND, BTreeMap::new(), 0);
        assert_eq!(roll.silent_since(1_000 * SECOND), None);
        roll.hello(0, at(0), SECOND);
        roll.hello(1, at(1), 10 * SECOND);
        assert_eq!(roll.silent_since(25 * SECOND), None);
        assert_eq!(roll.silent_since(26 * SECOND), Some(10 * SECOND));
        // Who is not probed any more was there all the same.
        roll.forget(1_000 * SECOND);
        assert_eq!((roll.len(), roll.silent_since(1_000 * SECOND)), (0, Some(10 * SECOND)));
        roll.hello(1, at(1), 1_001 * SECOND);
        assert_eq!(roll.silent_since(1_002 * SECOND), None);
        // Long windows need more patience; whoever was there before is waited for, too.
        let known = BTreeMap::from([(0, at(0))]);
        let roll = Roll::new(30 * SECOND, known, 0);
        assert_eq!(roll.silent_since(90 * SECOND), None);
        assert_eq!(roll.silent_since(91 * SECOND), Some(0));
    }
}
