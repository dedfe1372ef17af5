//! Hogs: tasks that never wait, one bound to each of the first cores of this machine, as beside the
//! applications of le19: solvers of N queens.

use core::hint::black_box;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use rdma::Span;

use super::runner::{bind, thread_cpu};
use crate::Failure;
use crate::limits::QUEENS;

/// Hogs that run until they are dropped, or ended.
#[derive(Debug, Default)]
pub struct Hogs {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Span>>,
}

impl Hogs {
    /// Starts one on each of the first `cores` cores.
    ///
    /// # Errors
    /// The machine has less, or does not let this process have them.
    pub fn start(cores: u32) -> Result<Self, Failure> {
        let mut hogs = Self::default();
        let (tell, told) = mpsc::channel();
        for core in 0..cores {
            let (tell, is_over) = (tell.clone(), Arc::clone(&hogs.is_over));
            let body = move || {
                let is_bound = bind(core as usize);
                let _ = tell.send((core, is_bound));
                let began = thread_cpu();
                while is_bound && !is_over.load(Ordering::Relaxed) {
                    black_box(placings(black_box(QUEENS)));
                }
                thread_cpu().since(began)
            };
            let thread = thread::Builder::new().name(format!("hog{core}")).spawn(body);
            let cannot = |error| Failure::new(format!("starting a hog: {error}"));
            hogs.threads.push(thread.map_err(cannot)?);
        }
        // Each says it once, and keeps its end of the channel.
        match told.iter().take(cores as usize).find(|(_, is_bound)| !is_bound) {
            None => Ok(hogs),
            Some((core, _)) => {
                Err(Failure::new(format!("hogs: core {core} is not to be had on this machine"))
                    .hint("fewer hogs: they are bound to core 0 and those that follow"))
            }
        }
    }

    /// Ends them; the processor time that they had.
    pub fn end(mut self) -> Span {
        self.halt()
    }

    fn halt(&mut self) -> Span {
        self.is_over.store(true, Ordering::Relaxed);
        let ended = self.threads.drain(..).map(|thread| thread.join().unwrap_or(Span::ZERO));
        ended.fold(Span::ZERO, |sum, span| sum + span)
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.halt();
    }
}

/// In how many ways so many queens stand on a board of that size and none attacks another.
fn placings(queens: u32) -> u32 {
    /// Bits of the row to be filled: columns that are taken, and diagonals that come from the left and
    /// from the right.
    fn row(all: u32, columns: u32, left: u32, right: u32) -> u32 {
        if columns == all {
            return 1;
        }
        let mut free = all & !(columns | left | right);
        let mut count = 0;
        while free != 0 {
            let place = free & free.wrapping_neg();
            free ^= place;
            count += row(all, columns | place, (left | place) << 1, (right | place) >> 1);
        }
        count
    }
    row((1 << queens) - 1, 0, 0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queens_are_placed_in_as_many_ways_as_is_known() {
        assert_eq!([1, 2, 4, 6, 8, 9].map(placings), [1, 0, 2, 4, 92, 352]);
    }

    #[test]
    fn a_hog_takes_a_core_until_it_is_ended_and_a_core_that_is_not_there_is_refused() {
        let hogs = Hogs::start(1).unwrap();
        thread::sleep(core::time::Duration::from_millis(100));
        assert!(hogs.end() > Span::from_ms(5));
        assert_eq!(Hogs::start(0).unwrap().end(), Span::ZERO);
        let said = Hogs::start(1000).unwrap_err().to_string();
        assert!(said.starts_with("hogs: core ") && said.contains("\nhint: "), "{said}");
    }
}
