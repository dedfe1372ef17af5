//! Draws: what hangs on chance (a hash, a moment) is run with several seeds, on all cores.

use core::fmt;
use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread;

use crate::outcome::short;
use crate::stats::quantile;
use crate::{Error, Options};

/// Draws of which a verdict is made, at least.
const DRAWS: u64 = 8;
/// The same in quick runs.
const QUICK_DRAWS: u64 = 2;

/// The same options with the seed of each draw, from the options' own on.
pub(crate) fn seeds(options: Options) -> Vec<Options> {
    some(options, DRAWS)
}

/// The same, of so many draws; of fewer in quick runs.
pub(crate) fn some(options: Options, draws: u64) -> Vec<Options> {
    let draws = if options.quick { QUICK_DRAWS } else { draws };
    (0..draws).map(|draw| Options { seed: options.seed.wrapping_add(draw), ..options }).collect()
}

/// What `run` gives for each draw, in their order.
pub(crate) fn each<T: Send>(
    draws: &[Options],
    run: impl Fn(Options) -> Result<T, Error> + Sync,
) -> Result<Vec<T>, Error> {
    let next = AtomicUsize::new(0);
    let made: Mutex<Vec<(usize, Result<T, Error>)>> = Mutex::new(Vec::new());
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(&options) = draws.get(index) else { return };
            let result = run(options);
            if let Ok(mut made) = made.lock() {
                made.push((index, result));
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(draws.len());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let mut made = made.into_inner().unwrap_or_default();
    made.sort_by_key(|(index, _)| *index);
    made.into_iter().map(|(_, result)| result).collect()
}

/// What draws came to.
#[derive(Clone, Debug)]
pub(crate) struct Spread(Vec<f64>);

impl Spread {
    pub(crate) fn from(values: Vec<f64>) -> Self {
        Self(values)
    }

    pub(crate) fn of<T>(draws: &[T], value: impl Fn(&T) -> f64) -> Self {
        Self(draws.iter().map(value).collect())
    }

    /// In the order of the seeds.
    pub(crate) fn draws(&self) -> &[f64] {
        &self.0
    }

    pub(crate) fn median(&self) -> f64 {
        quantile(&mut self.0.clone(), 0.5)
    }

    pub(crate) fn least(&self) -> f64 {
        quantile(&mut self.0.clone(), 0.0)
    }

    pub(crate) fn most(&self) -> f64 {
        quantile(&mut self.0.clone(), 1.0)
    }
}

impl fmt::Display for Spread {
    /// The median, and between what.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |value: f64| match value.fract() {
            0.0 => value.to_string(),
            _ => short(value),
        };
        let [median, least, most] = [self.median(), self.least(), self.most()].map(text);
        match least == most {
            true => f.write_str(&median),
            false => write!(f, "{median} ({least} to {most})"),
        }
    }
}

/// A row of an experiment: a setting, and what came of it in each draw.
pub(crate) struct Row<T> {
    pub(crate) name: &'static str,
    pub(crate) runs: Vec<T>,
}

impl<T> Row<T> {
    pub(crate) fn of(&self, value: impl Fn(&T) -> f64) -> Spread {
        Spread::of(&self.runs, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_in_order_and_their_spread_is_said() {
        let draws = seeds(Options { seed: 5, ..Options::default() });
        assert!(draws.len() as u64 >= 8);
        let seeds = each(&draws, |options| Ok(options.seed)).unwrap();
        assert_eq!(seeds, (5..13).collect::<Vec<u64>>());
        assert_eq!(Spread::of(&seeds, |&seed| seed as f64).to_string(), "8 (5 to 12)");
        assert_eq!(Spread::of(&[2.0, 2.0], |&value| value).to_string(), "2");
        let failed = each(&draws, |_| Err::<(), _>(Error::Claims("none".to_owned())));
        assert_eq!(failed.unwrap_err(), Error::Claims("none".to_owned()));
    }
}
