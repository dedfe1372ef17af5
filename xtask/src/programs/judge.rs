//! Reading what the programs printed.

use super::matrix::Expect;

/// Words that no run may print, in lower case. perftest prints some of its errors on stdout.
const BAD: [&str; 8] = [
    "error",
    "failed",
    "couldn't",
    "unable to",
    "invalid data",
    "no version information",
    "panicked",
    "segmentation fault",
];

/// Why the output of the process that reports the results is not what the row expects.
pub(crate) fn results(expect: Expect, stdout: &str) -> Result<(), String> {
    match expect {
        Expect::Texts(texts) => match texts.iter().find(|text| !stdout.contains(**text)) {
            None => Ok(()),
            Some(text) => Err(format!("does not print {text:?}")),
        },
        Expect::Pingpong => pingpong(stdout),
        Expect::Results => match table(stdout)?.is_empty() {
            false => Ok(()),
            true => Err("prints no row of results".to_owned()),
        },
        Expect::ResultsUpTo(last) => {
            let expected: Vec<u64> =
                (1..).map(|power| 1 << power).take_while(|b| *b <= last).collect();
            let bytes = table(stdout)?;
            if bytes != expected {
                return Err(format!("prints rows for {bytes:?} bytes, not for all up to {last}"));
            }
            Ok(())
        }
    }
}

/// The first line in which a program complains.
pub(crate) fn complaint<'a>(stdout: &'a str, stderr: &'a str) -> Option<&'a str> {
    let complains = |line: &&str| {
        let line = line.to_lowercase();
        BAD.iter().any(|bad| line.contains(bad))
    };
    stderr.lines().chain(stdout.lines()).find(complains)
}

/// `8192000 bytes in 0.01 seconds = 7183.17 Mbit/sec`, then
/// `1000 iters in 0.01 seconds = 9.12 usec/iter`.
fn pingpong(stdout: &str) -> Result<(), String> {
    for unit in ["Mbit/sec", "usec/iter"] {
        let line = stdout.lines().find_map(|line| line.strip_suffix(unit));
        let Some(line) = line else { return Err(format!("prints no line with {unit}")) };
        let figure = line.rsplit('=').next().and_then(|figure| figure.trim().parse::<f64>().ok());
        if !figure.is_some_and(|figure| figure > 0.0) {
            return Err(format!("prints no figure before {unit}"));
        }
    }
    Ok(())
}

/// Whether perftest printed a row whose every figure is zero, although the messages took no minutes: the
/// last time stamp of the processor was before the first one. Counters of virtual processors differ now
/// and then; it says nothing about a transport.
pub(crate) fn clock_went_back(stdout: &str) -> bool {
    rows(stdout)
        .any(|row| row.len() >= 5 && row[0] * row[1] > 0.0 && row[2..].iter().all(|f| *f == 0.0))
}

/// The first column of the table of perftest (bytes) or of ucx_perftest (iterations), after a look at
/// each row.
fn table(stdout: &str) -> Result<Vec<u64>, String> {
    let mut sizes = Vec::new();
    for row in rows(stdout) {
        // Bandwidth: bytes, iterations, peak, average, message rate; the peak is 0.00 where it is
        // not measured, and the average where messages are few and small. Latency: bytes,
        // iterations, minimum, ...; or average and messages a second with -D. UCX with threads:
        // iterations, latency, bandwidth and messages a second; the bandwidth of few small messages
        // is 0.00 as well. Without: iterations, median, average, ...
        let is_positive = |column: usize| row.get(column).is_some_and(|figure| *figure > 0.0);
        let measured = match row.len() {
            5 => is_positive(3) || is_positive(4),
            4 => is_positive(3),
            _ => is_positive(2),
        };
        if !is_positive(1) || !measured {
            return Err(format!("prints a row without a figure: {row:?}"));
        }
        sizes.push(row[0] as u64);
    }
    Ok(sizes)
}

/// Lines of numbers alone, which in perftest's output are the results.
fn rows(stdout: &str) -> impl Iterator<Item = Vec<f64>> {
    stdout.lines().filter_map(|line| {
        let row: Vec<f64> =
            line.split_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
        (row.len() >= 4).then_some(row)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BANDWIDTH: &str = "\
 local address: LID 0000 QPN 0x0011 PSN 0x1a2b3c RKey 0x000100 VAddr 0x007f0000000000
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 2          1000           0.00               12.50                6.553600
 4          1000           30.10              25.00                6.553600
---------------------------------------------------------------------------------------
";

    #[test]
    fn bandwidth_rows_are_read() {
        assert_eq!(results(Expect::Results, BANDWIDTH), Ok(()));
        assert_eq!(results(Expect::ResultsUpTo(4), BANDWIDTH), Ok(()));
    }

    #[test]
    fn a_table_that_stops_early_is_noticed() {
        let message = results(Expect::ResultsUpTo(8), BANDWIDTH).unwrap_err();
        assert_eq!(message, "prints rows for [2, 4] bytes, not for all up to 8");
    }

    #[test]
    fn a_bandwidth_of_zero_is_no_result() {
        assert!(results(Expect::Results, " 2  1000  9.00  0.00  0.000000\n").is_err());
    }

    #[test]
    fn a_row_of_zeros_is_a_clock_that_went_back() {
        assert!(clock_went_back(" 65536  10  0.00  0.00  0.000000\n"));
        assert!(!clock_went_back(" 65536  10  0.00  0.00  0.000001\n"));
        assert!(!clock_went_back(" 65536  0  0.00  0.00  0.000000\n"));
        assert!(!clock_went_back(BANDWIDTH));
    }

    #[test]
    fn latency_rows_are_read() {
        let usual = " 2  1000  8.10  95.00  8.60  8.90  1.10  12.00  95.00\n";
        let timed = " 2  350000  8.57  116686.11\n";
        assert_eq!(results(Expect::Results, usual), Ok(()));
        assert_eq!(results(Expect::Results, timed), Ok(()));
        assert!(results(Expect::Results, " #bytes #iterations t_avg[usec]\n").is_err());
    }

    #[test]
    fn slow_messages_of_threads_are_results_though_their_bandwidth_is_rounded_to_nothing() {
        let threads =
            "                 200                  3375.930               0.00            592\n";
        assert_eq!(results(Expect::Results, threads), Ok(()));
        assert!(results(Expect::Results, &threads.replace("592", "0")).is_err());
    }

    #[test]
    fn both_lines_of_pingpong_are_needed() {
        let bytes = "8192000 bytes in 0.01 seconds = 7183.17 Mbit/sec\n";
        let iterations = "1000 iters in 0.01 seconds = 9.12 usec/iter\n";
        assert_eq!(results(Expect::Pingpong, &format!("{bytes}{iterations}")), Ok(()));
        assert!(results(Expect::Pingpong, bytes).is_err());
        assert!(results(Expect::Pingpong, iterations).is_err());
    }

    #[test]
    fn complaints_on_either_stream_are_found() {
        let loader = "ib_send_bw: libibverbs.so.1: no version information available";
        assert_eq!(complaint(BANDWIDTH, loader), Some(loader));
        assert_eq!(
            complaint(" Completion with error at client\n", ""),
            Some(" Completion with error at client")
        );
        assert_eq!(complaint(BANDWIDTH, ""), None);
    }
}
