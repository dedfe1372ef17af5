//! How far a look goes: to which ports, and whether to the next one.
//!
//! A port is a socket, or what other NICs hand over. A look at one is a call of the kernel; one at a ring is
//! not, and costs a tenth. So a poll looks where something was last, and now and then elsewhere:
//!
//! ```text
//!   no rings      hot hot hot ...... all       hot hot hot ...... all
//!   rings         -   -   -   ...... a part    -   -   -   ...... the next part     rings at each
//!   both          hot hot (hot is empty)  -   -  ...... a part
//! ```
//!
//! **Invariants:** one that goes on polling comes round to every port. Nothing counts as lost before all ports
//! were found empty, or as often looked at as a full buffer holds packets.

use core::ops::Range;

use crate::limits::{
    FINDS_BEFORE_MORE, LOOKS_BEFORE_TIMEOUT, PARTS_OF_ROUND, POLLS_PER_ROUND, SHORT_BATCH_BYTES,
};

/// How far a look goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// To the port that had something last, and now and then to the others.
    Hot,
    /// To every port.
    All,
}

/// Whose turn it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns {
    /// The port that had something last.
    hot: usize,
    /// Whether it had something when it was last looked at.
    is_hot: bool,
    looks: u32,
    /// The first port of the next part of a round.
    next: usize,
    /// How many looks in a row have found something, the socket not being empty after them.
    finds: u32,
}

impl Turns {
    /// Which of `all` ports the next look goes to beside the rings. `None`: to none, and nothing is in the
    /// rings. `has_rings` if rings are read, `has_packets` if there is something in one, and `awaits_sockets`
    /// if there is something in one that is not read before every socket was looked at.
    #[inline]
    pub(crate) fn next(
        &mut self,
        reach: Reach,
        all: usize,
        has_rings: bool,
        has_packets: impl FnOnce() -> bool,
        awaits_sockets: impl FnOnce() -> bool,
    ) -> Option<Range<usize>> {
        self.looks = self.looks.wrapping_add(1);
        if reach == Reach::All {
            Some(0..all)
        } else if self.looks.is_multiple_of(POLLS_PER_ROUND) {
            let in_parts = has_rings && !awaits_sockets();
            let part = part(self.next, all, if in_parts { PARTS_OF_ROUND } else { 1 });
            self.next = part.end;
            Some(part)
        } else if self.is_hot || !has_rings {
            Some(self.hot..self.hot + 1)
        } else {
            has_packets().then_some(0..0)
        }
    }

    /// `ports` are looked at.
    pub(crate) fn begins(&mut self, ports: &Range<usize>) {
        self.is_hot &= !ports.contains(&self.hot);
    }

    /// A socket was found empty.
    pub(crate) fn found_empty(&mut self) {
        self.finds = 0;
    }

    /// So many bytes were found at `port`. Says whether that is enough of this port. `is_window_full` if the
    /// queue pair that was served last has more to send than its window allows.
    ///
    /// One that polls waits for just these few bytes, and does not pay for a look at an empty socket. In a
    /// run of acknowledgements it looks again, so that the application's next posts leave together; unless
    /// there is enough to be sent.
    pub(crate) fn found_at(
        &mut self,
        port: usize,
        bytes: usize,
        reach: Reach,
        is_window_full: impl FnOnce() -> bool,
    ) -> bool {
        (self.hot, self.is_hot) = (port, true);
        reach == Reach::Hot
            && bytes < SHORT_BATCH_BYTES
            && (self.finds < FINDS_BEFORE_MORE || is_window_full())
    }

    /// A look has found so many packets, in sockets and rings.
    #[inline]
    pub(crate) fn ends(&mut self, packets: u64) {
        self.finds = if packets > 0 { self.finds.saturating_add(1) } else { 0 };
    }

    /// The port that had something last.
    pub(crate) fn hot(&self) -> usize {
        self.hot
    }
}

/// The next of so many `parts` of all ports: from `next` on, or from the first.
fn part(next: usize, ports: usize, parts: usize) -> Range<usize> {
    let first = if parts == 1 || next >= ports { 0 } else { next };
    first..(first + ports.div_ceil(parts)).min(ports)
}

/// Whether a look is followed by another at every port, because something is about to count as lost that may
/// lie there: after so many looks of `reach`, of which the last has found `packets`.
pub(crate) fn looks_again(
    looks: u32,
    reach: Reach,
    packets: u64,
    is_loss_due: impl FnOnce() -> bool,
) -> bool {
    let is_empty = reach == Reach::All && packets == 0;
    !is_empty && looks < LOOKS_BEFORE_TIMEOUT && is_loss_due()
}

/// Whether a stand-in that packets have woken looks at every socket, or only at the one that last had
/// something.
pub(crate) fn reach_of_stand_in(is_woken_by_others: bool, has_rings: bool) -> Reach {
    if is_woken_by_others || has_rings { Reach::All } else { Reach::Hot }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORTS: usize = 10;
    const ROUND: usize = POLLS_PER_ROUND as usize;

    /// What a NIC has beside its sockets.
    #[derive(Clone, Copy, Default)]
    struct Rings {
        are_read: bool,
        have_packets: bool,
        await_sockets: bool,
    }

    const NONE: Rings = Rings { are_read: false, have_packets: false, await_sockets: false };
    const EMPTY: Rings = Rings { are_read: true, ..NONE };
    const FULL: Rings = Rings { have_packets: true, ..EMPTY };

    impl Turns {
        /// A look, which finds nothing.
        fn look(&mut self, reach: Reach, rings: Rings) -> Option<Range<usize>> {
            let Rings { are_read, have_packets, await_sockets } = rings;
            let ports = self.next(reach, PORTS, are_read, || have_packets, || await_sockets);
            self.begins(&ports.clone().unwrap_or_default());
            self.ends(0);
            ports
        }
    }

    /// One that has found something at port 3 the last time.
    fn hot() -> Turns {
        let mut turns = Turns::default();
        turns.found_at(3, 100, Reach::Hot, || false);
        turns
    }

    #[test]
    fn a_poll_looks_where_something_was_last_and_now_and_then_elsewhere() {
        let newcomers = Rings { await_sockets: true, ..FULL };
        for (situation, rings, first, second, round) in [
            ("no rings", NONE, Some(3..4), Some(3..4), 0..PORTS),
            ("nothing in rings", EMPTY, Some(3..4), None, 0..3),
            ("packets in rings", FULL, Some(3..4), Some(0..0), 0..3),
            ("rings that wait for the sockets", newcomers, Some(3..4), Some(0..0), 0..PORTS),
        ] {
            let mut turns = hot();
            let looks: Vec<_> = (0..ROUND).map(|_| turns.look(Reach::Hot, rings)).collect();
            assert_eq!(looks[0], first, "{situation}");
            assert!(looks[1..ROUND - 1].iter().all(|ports| *ports == second), "{situation}");
            assert_eq!(looks[ROUND - 1], Some(round), "{situation}");
            assert_eq!(hot().look(Reach::All, rings), Some(0..PORTS), "{situation}");
        }
    }

    #[test]
    fn one_that_polls_comes_round_to_every_port() {
        for (rings, rounds) in [(NONE, 1), (EMPTY, PARTS_OF_ROUND), (FULL, PARTS_OF_ROUND)] {
            let mut turns = Turns::default();
            let mut looks = [0; PORTS];
            for _ in 0..rounds * ROUND {
                turns.look(Reach::Hot, rings).into_iter().flatten().for_each(|at| looks[at] += 1);
            }
            assert!(looks.iter().all(|looks| *looks >= 1), "{looks:?}");
        }
        for ports in 1..20 {
            let (mut looks, mut next) = (vec![0; ports], 0);
            for _ in 0..PARTS_OF_ROUND.min(ports) {
                let part = part(next, ports, PARTS_OF_ROUND);
                next = part.end;
                part.for_each(|port| looks[port] += 1);
            }
            assert!(looks.iter().all(|looks| *looks >= 1), "{looks:?}");
            assert_eq!(part(next, ports, 1), 0..ports);
        }
    }

    #[test]
    fn a_few_bytes_are_enough_for_a_poll_but_not_in_a_run_of_them() {
        let (few, many) = (SHORT_BATCH_BYTES - 1, SHORT_BATCH_BYTES);
        let (first, run) = (0, FINDS_BEFORE_MORE);
        for (situation, finds, bytes, reach, is_window_full, is_enough) in [
            ("an answer", first, few, Reach::Hot, false, true),
            ("a batch", first, many, Reach::Hot, false, false),
            ("everything is looked at", first, few, Reach::All, false, false),
            ("almost a run", run - 1, few, Reach::Hot, false, true),
            ("a run of acknowledgements", run, few, Reach::Hot, false, false),
            ("a run, and much to be sent", run, few, Reach::Hot, true, true),
        ] {
            let mut turns = Turns::default();
            (0..finds).for_each(|_| turns.ends(1));
            let found = turns.found_at(0, bytes, reach, || is_window_full);
            assert_eq!(found, is_enough, "{situation}");
        }
    }

    #[test]
    fn a_run_ends_with_an_empty_socket_or_a_look_in_vain() {
        for end in [Turns::found_empty, |turns: &mut Turns| turns.ends(0)] {
            let mut turns = Turns::default();
            (0..FINDS_BEFORE_MORE).for_each(|_| turns.ends(1));
            end(&mut turns);
            assert!(turns.found_at(0, 1, Reach::Hot, || false));
        }
    }

    #[test]
    fn nothing_counts_as_lost_before_all_ports_are_empty_or_a_full_buffer_was_taken() {
        let last = LOOKS_BEFORE_TIMEOUT;
        for (situation, looks, reach, packets, is_loss_due, again) in [
            ("nothing is due", 0, Reach::Hot, 1, false, false),
            ("one port was looked at", 0, Reach::Hot, 0, true, true),
            ("all ports are empty", 0, Reach::All, 0, true, false),
            ("something was found", 1, Reach::All, 1, true, true),
            ("almost a full buffer", last - 1, Reach::All, 1, true, true),
            ("a full buffer", last, Reach::All, 1, true, false),
        ] {
            assert_eq!(looks_again(looks, reach, packets, || is_loss_due), again, "{situation}");
        }
    }
}
