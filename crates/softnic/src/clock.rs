//! The only clock of the soft NIC.

use core::time::Duration;
use std::sync::OnceLock;
use std::time::SystemTime;

use rdma::Time;

use crate::sys;

/// The beginning of [`Time`] in this process: ns of the clock that never goes back, and the time of
/// the wall clock.
fn origin() -> &'static (u64, SystemTime) {
    static ORIGIN: OnceLock<(u64, SystemTime)> = OnceLock::new();
    ORIGIN.get_or_init(|| (sys::clock_ns(libc::CLOCK_MONOTONIC), SystemTime::now()))
}

/// The time since the process first asked for it. It never goes back.
pub fn now() -> Time {
    let origin = origin().0;
    let elapsed = sys::clock_ns(libc::CLOCK_MONOTONIC).saturating_sub(origin);
    // 2^64 ps are 213 days; a process that is older stands still in time rather than jumping back.
    Time::from_ps(elapsed.saturating_mul(1_000))
}

/// The processor time that all threads of the process but this one have had, on a clock of its own.
pub(crate) fn of_other_threads() -> Time {
    let all = sys::clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID);
    let own = sys::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
    Time::from_ns(all.saturating_sub(own))
}

/// What the wall clock showed at `time`, as a span since 1970.
pub fn wall(time: Time) -> Duration {
    let since_origin = Duration::from_nanos(time.as_ps() / 1_000);
    (origin().1 + since_origin).duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdma::Span;

    #[test]
    fn time_does_not_go_back() {
        let first = now();
        assert!(now() >= first);
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
    fn the_wall_clock_is_of_this_century() {
        assert!(wall(now()).as_secs() > 946_684_800);
    }
}
