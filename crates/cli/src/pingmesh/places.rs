//! Places at the collector: who reaches the port and has no key may keep few of them, and not for long.
//!
//! ```text
//!   connection ─► place among those that greet ─ proves itself within 2 s ─► place among those that are heard
//!                   64, and 32 of an address                                   256
//! ```
//!
//! A connection beyond the bound of its address is closed at once; while all places are taken others wait in the backlog
//! of the listener, for as long as a greeting lasts. All that are refused are counted by why.

use core::fmt;
use core::net::IpAddr;
use core::time::Duration;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How long whoever connects may take until it has proved that it has the key.
pub(super) const GREETING: Duration = Duration::from_secs(2);
/// Connections that are heard at a time.
const HEARD_MAX: usize = 256;
/// Connections that have not proved anything yet.
const GREETING_MAX: usize = 64;
/// Of them, those of one address: of IPv6 its first 64 bits, which one host may have all of.
const OF_ADDRESS_MAX: usize = 32;

/// Connections that were refused, by why.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Refused {
    /// Their address had all of its places.
    pub(super) crowded: u64,
    /// They have proved nothing in time, or hung up before.
    pub(super) silent: u64,
    /// They have another key or certificate than ours, or none.
    pub(super) strangers: u64,
    /// What was wrong with the last of those.
    pub(super) why: String,
    /// Where the last came from.
    pub(super) last: Option<IpAddr>,
}

impl Refused {
    /// Whether more is to be said than was: a new reason, or ten times as many.
    pub(super) fn is_news_after(&self, told: &Self) -> bool {
        let counts = |of: &Self| [of.crowded, of.silent, of.strangers];
        counts(self).into_iter().zip(counts(told)).any(|(now, told)| is_news(now, told))
    }
}

/// What is said again and again is said at first, and when it is ten times as many as were told.
pub(super) fn is_news(now: u64, told: u64) -> bool {
    now > 0 && told == 0 || now >= 10 * told.max(1)
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { crowded, silent, strangers, why, last } = self;
        write!(
            f,
            "{crowded} connections beyond {OF_ADDRESS_MAX} of one address, {silent} that said nothing within {} s, \
             {strangers} without our key or certificate",
            GREETING.as_secs()
        )?;
        if !why.is_empty() {
            write!(f, " ({why})")?;
        }
        last.map_or(Ok(()), |last| write!(f, "; the last from {last}"))
    }
}

#[derive(Debug, Default)]
struct Taken {
    greeting: BTreeMap<IpAddr, usize>,
    heard: usize,
    refused: Refused,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Places(Mutex<Taken>);

/// A place, which is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    from: IpAddr,
    is_heard: bool,
}

/// What one host can have all of.
fn of_host(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V4(from) => from.into(),
        IpAddr::V6(from) => {
            let mut octets = from.octets();
            octets[8..].fill(0);
            octets.into()
        }
    }
}

impl Places {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one more may be accepted.
    pub(super) fn has_room(&self) -> bool {
        let taken = self.taken();
        taken.heard < HEARD_MAX && taken.greeting.values().sum::<usize>() < GREETING_MAX
    }

    /// A place to greet at; `None` if its address has enough.
    pub(super) fn take(self: &Arc<Self>, from: IpAddr) -> Option<Place> {
        let mut taken = self.taken();
        let of_address = taken.greeting.entry(of_host(from)).or_default();
        if *of_address >= OF_ADDRESS_MAX {
            taken.refused.crowded += 1;
            taken.refused.last = Some(from);
            return None;
        }
        *of_address += 1;
        Some(Place { places: Arc::clone(self), from, is_heard: false })
    }

    /// Who was refused so far.
    pub(super) fn refused(&self) -> Refused {
        self.taken().refused.clone()
    }
}

impl Place {
    fn leave_greeting(&self, taken: &mut Taken) {
        let of = of_host(self.from);
        if let Some(count) = taken.greeting.get_mut(&of) {
            *count -= 1;
            if *count == 0 {
                taken.greeting.remove(&of);
            }
        }
    }

    /// It has the key.
    pub(super) fn is_known(&mut self) {
        if !self.is_heard {
            self.is_heard = true;
            let mut taken = self.places.taken();
            self.leave_greeting(&mut taken);
            taken.heard += 1;
        }
    }

    /// The conversation has ended so.
    pub(super) fn ended(&self, by: &io::Result<()>) {
        if self.is_heard {
            return;
        }
        let mut taken = self.places.taken();
        match by {
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                taken.refused.strangers += 1;
                taken.refused.why = error.to_string();
            }
            _ => taken.refused.silent += 1,
        }
        taken.refused.last = Some(self.from);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        if self.is_heard {
            taken.heard -= 1;
        } else {
            self.leave_greeting(&mut taken);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_has_few_places_until_it_proves_itself_and_others_have_theirs() {
        let places = Arc::new(Places::default());
        let take = |from: &str| places.take(address(from));
        let mut held: Vec<Place> = (0..OF_ADDRESS_MAX).map(|_| take("10.0.0.7").unwrap()).collect();
        // The same host by another name.
        for from in ["10.0.0.7", "::ffff:10.0.0.7"] {
            assert!(take(from).is_none());
        }
        assert!(places.has_room());
        assert_eq!(
            (places.refused().crowded, places.refused().last),
            (2, Some(address("::ffff:10.0.0.7")))
        );
        held.extend(
            (0..OF_ADDRESS_MAX as u16)
                .map(|low| places.take(address(&format!("2001:db8::{low:x}"))).unwrap()),
        );
        assert!(take("2001:db8::1:0:0:1").is_none());
        assert!(!places.has_room());
        held[0].is_known();
        assert!(places.has_room() && take("10.0.0.7").is_some());
        held.clear();
        let taken = places.taken();
        assert!(taken.greeting.is_empty() && taken.heard == 0);
    }

    #[test]
    fn refusals_are_said_at_first_and_then_at_ten_times_as_many() {
        let mut told = Refused::default();
        let mut said = Vec::new();
        for silent in 0..=450 {
            let now = Refused { silent, strangers: silent / 40, ..Refused::default() };
            if now.is_news_after(&told) {
                said.push(silent);
                told = now;
            }
        }
        assert_eq!(said, [1, 10, 40, 400]);
    }

    #[test]
    fn whoever_is_refused_is_counted_by_why() {
        let places = Arc::new(Places::default());
        let ended = |by: io::Result<()>| places.take(address("::1")).unwrap().ended(&by);
        ended(Ok(()));
        ended(Err(ErrorKind::TimedOut.into()));
        ended(Err(ErrorKind::InvalidData.into()));
        let mut known = places.take(address("::1")).unwrap();
        known.is_known();
        known.ended(&Err(ErrorKind::TimedOut.into()));
        let refused = places.refused();
        assert_eq!((refused.crowded, refused.silent, refused.strangers), (0, 2, 1));
        assert!(
            refused
                .to_string()
                .ends_with("without our key or certificate (invalid data); the last from ::1"),
            "{refused}"
        );
    }
}
