//! The sizes of the messages of Poisson arrivals.

use super::{At, Files, Result, tables};
use crate::workload::SizeDistribution;

/// Said by one of four keys.
pub(super) fn sizes(at: &At<'_, tables::Workload>, files: &Files<'_>) -> Result<SizeDistribution> {
    let table = at.table;
    match (&table.sizes, &table.distribution, &table.distribution_file, table.message_bytes) {
        (Some(points), None, None, None) => {
            SizeDistribution::new(points.clone()).ok_or_else(|| {
                at.wrong("sizes", "bytes and probabilities rise, the last one to 1")
                    .hint("sizes = [[1_000, 0.5], [100_000, 1.0]]")
            })
        }
        (None, Some(name), None, None) => SizeDistribution::named(name).ok_or_else(|| {
            let names: Vec<&str> = SizeDistribution::names().collect();
            at.wrong("distribution", format!("there is no distribution {name:?}"))
                .hint(format!("{}, or distribution_file = \"sizes.csv\"", names.join(", ")))
        }),
        (None, None, Some(name), None) => {
            let text = at.open("distribution_file", name, files)?;
            SizeDistribution::from_csv(&text).map_err(|error| {
                let message = format!("{name}, {}", error.complaint());
                at.wrong("distribution_file", message).hint(error.remedy())
            })
        }
        (None, None, None, Some(bytes)) => Ok(SizeDistribution::constant(bytes)),
        _ => Err(at
            .wrong("sizes", "the sizes of messages are to be said once")
            .hint("give one of message_bytes, sizes, distribution and distribution_file")),
    }
}
