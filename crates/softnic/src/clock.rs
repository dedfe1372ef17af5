//! Time: the soft NIC's only clock, and how it pauses and tries again.

use core::time::Duration;
use std::io;
use std::sync::OnceLock;
use std::time::SystemTime;

use rdma::{Span, Time};

use crate::limits::Retry;
use crate::sys;

/// What is done once in a power of two of picoseconds, up to this one, all processes do at the same time, of all hosts whose wall
/// clocks agree: `bbr` drains queues so. A process that runs for long may drift from that.
const COMMON_PS: u128 = 1 << 46;

/// What the clock that never goes back shows when [`Time`] is zero, in ns, and the wall clock. The machine may have started later: that
/// wraps.
fn origin() -> &'static (u64, SystemTime) {
    static ORIGIN: OnceLock<(u64, SystemTime)> = OnceLock::new();
    ORIGIN.get_or_init(|| {
        let (ns, wall) = (sys::clock_ns(libc::CLOCK_MONOTONIC), SystemTime::now());
        let since_1970 = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let time_ns = (since_1970.as_nanos() * 1_000 % COMMON_PS / 1_000) as u64;
        (ns.wrapping_sub(time_ns), wall - Duration::from_nanos(time_ns))
    })
}

/// The time of this process. It begins within the first 70 s, and never goes back.
pub fn now() -> Time {
    let origin = origin().0;
    Time::from_ns(sys::clock_ns(libc::CLOCK_MONOTONIC).wrapping_sub(origin))
}

/// The processor time that all threads of the process but this one have had, on a clock of its own.
pub(crate) fn of_other_threads() -> Time {
    let all = sys::clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID);
    let own = sys::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
    Time::from_ns(all.saturating_sub(own))
}

/// Does nothing for a while.
pub(crate) fn pause(span: Span) {
    sys::assert_may_sleep();
    std::thread::sleep(Duration::from_nanos(span.as_ns_ceil()));
}

/// Attempts something again as long as its error `is_busy`. Returns the last result.
pub(crate) fn retry<T, E>(
    times: Retry,
    is_busy: impl Fn(&E) -> bool,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    for _ in 1..times.tries {
        match attempt() {
            Err(error) if is_busy(&error) => pause(times.pause),
            result => return result,
        }
    }
    attempt()
}

/// Whether the error says that a call would have to wait.
pub(crate) fn would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// What the wall clock showed at `time`, as a span since 1970.
pub fn wall(time: Time) -> Duration {
    let since_origin = Duration::from_nanos(time.as_ns());
    (origin().1 + since_origin).duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_does_not_go_back() {
        let first = now();
        assert!(now() >= first);
    }

    #[test]
    fn who_is_busy_is_asked_again_and_not_for_ever() {
        let mut tries = 0;
        let mut busy_until = |free, error: io::ErrorKind| {
            tries = 0;
            let result = retry(Retry { tries: 3, pause: Span::from_us(1) }, would_block, || {
                tries += 1;
                if tries == free { Ok(tries) } else { Err(io::Error::from(error)) }
            });
            (result.map_err(|error| error.kind()), tries)
        };
        let busy = io::ErrorKind::WouldBlock;
        assert_eq!(busy_until(1, busy), (Ok(1), 1));
        assert_eq!(busy_until(3, busy), (Ok(3), 3));
        assert_eq!(busy_until(4, busy), (Err(busy), 3));
        assert_eq!(busy_until(3, io::ErrorKind::NotFound), (Err(io::ErrorKind::NotFound), 1));
    }

    #[test]
    fn other_threads_have_the_time_that_they_use() {
        let before = of_other_threads();
        let busy = std::thread::spawn(|| {
            let end = now() + Span::from_ms(20);
            while now() < end {}
            sys::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
        });
        let used = Span::from_ns(busy.join().unwrap());
        assert!(of_other_threads().since(before) >= used);
    }

    #[test]
    fn processes_agree_on_the_time_but_for_multiples_of_it() {
        let (time, wall) = (now(), SystemTime::now());
        let wall = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() * 1_000;
        let apart = (wall + COMMON_PS - u128::from(time.as_ps()) % COMMON_PS) % COMMON_PS;
        let second = 1_000_000_000_000;
        assert!(apart < second || apart > COMMON_PS - second, "{apart} ps");
    }

    #[test]
    fn the_wall_clock_is_of_this_century() {
        assert!(wall(now()).as_secs() > 946_684_800);
    }
}
