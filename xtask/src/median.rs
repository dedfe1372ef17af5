//! The middle of what was measured.

/// The middle value, or what lies between the two; `None` of no values. Sorts.
pub(crate) fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let lower = values.get(values.len().checked_sub(1)? / 2)?;
    Some(f64::midpoint(*lower, *values.get(values.len() / 2)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        for (values, middle) in [
            (&mut [4.0, 1.0, 2.0, 3.0][..], Some(2.5)),
            (&mut [9.0, 1.0, 2.0], Some(2.0)),
            (&mut [], None),
        ] {
            assert_eq!(median(values), middle);
        }
    }
}
