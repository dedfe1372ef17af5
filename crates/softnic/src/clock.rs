//! The only clock of the soft NIC.

use core::time::Duration;
use std::sync::OnceLock;
use std::time::{Instant, SystemTime};

use rdma::Time;

use crate::sys;

/// The beginning of [`Time`] in this process, by both of its clocks.
fn origin() -> &'static (Instant, SystemTime) {
    static ORIGIN: OnceLock<(Instant, SystemTime)> = OnceLock::new();
    ORIGIN.get_or_init(|| (Instant::now(), SystemTime::now()))
}

/// The time since the process first asked for it. It never goes back.
pub fn now() -> Time {
    let elapsed = origin().0.elapsed();
    // 2^64 ps are 213 days; a process that is older stands still in time rather than jumping back.
    Time::from_ps(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX).saturating_mul(1_000))
}

/// The processor time that all threads of the process but this one have had, on a clock of its own.
pub(crate) fn of_other_threads() -> Time {
    let all = sys::processor_time(libc::CLOCK_PROCESS_CPUTIME_ID);
    let own = sys::processor_time(libc::CLOCK_THREAD_CPUTIME_ID);
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
            sys::processor_time(libc::CLOCK_THREAD_CPUTIME_ID)
        });
        let used = Span::from_ns(busy.join().unwrap());
        assert!(of_other_threads().since(before) >= used);
    }

    #[test]
    fn the_wall_clock_is_of_this_century() {
        assert!(wall(now()).as_secs() > 946_684_800);
    }
}
