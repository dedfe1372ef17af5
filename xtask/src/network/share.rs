//! What TCP and RDMA have of a path while both are at work: iperf3 beside perftest's 64 KiB WRITEs, from one host to
//! the other, through one queue. The control is TCP beside TCP: what chance loses no flow of TCP has, whatever is beside. What
//! TCP has beside RDMA over what it has beside itself is the harm that RDMA does (Ware et al., "Beyond Jain's Fairness Index",
//! HotNets 2019): none where it is 1.

use core::array;

use anyhow::{Result, bail};

use super::programs::{Pair, Traffic};
use super::{Choice, Joined, Path, median, ratios, sorted, spread, told};

/// Unless it is said. The first quarter is not measured: who begins some tenths of a second sooner has no more for it.
pub(super) const SECONDS: u32 = 8;

/// What a round gives: TCP's rate beside TCP, TCP's beside RDMA, and RDMA's.
const MEASURED: usize = 3;

pub(super) fn heading(rounds: usize) {
    println!(
        "Gb/s of goodput of two at once. TCP's beside RDMA is told over TCP's beside TCP, and RDMA's over that of the TCP beside \
         it: medians of {rounds}, with least and most of the ratios.\n"
    );
    println!("  {:<28}{:>16}{:>25}{:>27}", "", "TCP beside TCP", "TCP beside RDMA", "WRITE");
}

pub(super) fn measure(path: Path, choice: &Choice) -> Result<()> {
    let mut all: [Vec<Option<f64>>; MEASURED] = Default::default();
    for round in 0..choice.rounds {
        let [one, other] = at_once(path, choice, round, [Traffic::Tcp, Traffic::Tcp])?;
        let [tcp, write] = at_once(path, choice, round, [Traffic::Tcp, Traffic::Write])?;
        let mean = one.zip(other).map(|(one, other)| (one + other) / 2.0);
        for (values, value) in all.iter_mut().zip([mean, tcp, write]) {
            values.push(value);
        }
    }
    let [control, tcp, write] = &all;
    let (harm, share) = (ratios(tcp, control), ratios(write, tcp));
    if harm.is_empty() || share.is_empty() {
        bail!("both were never measured at once");
    }
    let [beside_tcp, beside_write, ours] =
        all.each_ref().map(|values| median(&sorted(values.iter().flatten().copied())));
    let [beside_write, ours] = [(beside_write, harm), (ours, share)]
        .map(|(rate, over)| format!("{rate} x{} {}", median(&over), spread(&over)));
    println!("  {:<28}{beside_tcp:>16}{beside_write:>25}{ours:>27}", path.to_string());
    Ok(())
}

/// What both bring over.
fn at_once(
    path: Path,
    choice: &Choice,
    round: usize,
    both: [Traffic; 2],
) -> Result<[Option<f64>; 2]> {
    let joined = Joined::by(path, choice, round)?;
    // Each is the first as often as the other.
    let mut order = [0, 1];
    order.rotate_left(round % 2);
    let mut started = [const { None }; 2];
    for at in order {
        let pair = Pair::bulk(&joined.labs, both[at], choice.seconds, choice.events);
        started[at] = Some(pair.and_then(Pair::start));
    }
    let ended = started.map(|pair| pair.unwrap_or_else(|| bail!("it was not started"))?.end());
    let mut ended = ended.into_iter();
    let values = array::from_fn(|at| told(path, both[at], ended.next()?));
    joined.part()?;
    Ok(values)
}
