//! How evenly flows of one kind share a path: eight of iperf3's, and eight queue pairs of `ferroce bench`, each with a thread
//! that waits for events. Told are what all have together, and Jain's index of what each has (Jain, Chiu, Hawe,
//! DEC-TR-301, 1984): 1 if all have the same, an eighth if one has all.

use core::array;

use anyhow::{Result, bail};

use super::programs::{Pair, Traffic};
use super::{Choice, Joined, Path, median, sorted, spread, told};

/// Unless it is said. The first quarter is not measured: windows fall and rise until they are alike.
pub(super) const SECONDS: u32 = 16;
pub(super) const FLOWS: usize = 8;

const MEASURED: [Traffic; 3] = [Traffic::Tcp, Traffic::Write, Traffic::Read];

pub(super) fn heading(rounds: usize) {
    println!(
        "Gb/s of goodput of {FLOWS} flows of one kind together, and Jain's index of what each has: medians of {rounds}, with \
         least and most of the index.\n"
    );
    let [tcp, ours @ ..] = MEASURED.map(Traffic::name);
    println!("  {:<28}{tcp:>24}{:>24}{:>24}", "", ours[0], ours[1]);
}

pub(super) fn measure(path: Path, choice: &Choice) -> Result<()> {
    let mut all: [Vec<(f64, f64)>; MEASURED.len()] = Default::default();
    for round in 0..choice.rounds {
        let joined = Joined::by(path, choice, round)?;
        // None is always the first.
        let mut order: [usize; MEASURED.len()] = array::from_fn(|at| at);
        order.rotate_left(round % MEASURED.len());
        for at in order {
            let pair = Pair::alike(&joined.labs, MEASURED[at], FLOWS, choice.seconds);
            let rates = told(path, MEASURED[at], pair.and_then(Pair::run));
            all[at].extend(rates.map(|rates| (rates.iter().sum(), jain(&rates))));
        }
        joined.part()?;
    }
    print!("  {:<28}", path.to_string());
    for values in &all {
        let together = sorted(values.iter().map(|(together, _)| *together));
        let indices = sorted(values.iter().map(|(_, index)| *index));
        let cell = format!("{} {} {}", median(&together), median(&indices), spread(&indices));
        print!("{cell:>24}");
    }
    println!();
    match all.iter().position(Vec::is_empty) {
        Some(at) => bail!("{} was never measured", MEASURED[at].name()),
        None => Ok(()),
    }
}

/// The index of shares of which one is more than nothing.
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    sum * sum / shares.len() as f64 / shares.iter().map(|share| share * share).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_between_one_of_all_and_one() {
        assert_eq!(jain(&[2.0; FLOWS]), 1.0);
        assert_eq!(jain(&[8.0, 0.0, 0.0, 0.0]), 0.25);
        assert_eq!(jain(&[3.0, 1.0]), 0.8);
    }
}
