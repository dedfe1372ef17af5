//! Percentiles, averages and rank correlation.

/// The smallest of `values` that at least the part `rank` (0 to 1) of them does not exceed; `NaN` of
/// none. Sorts them.
pub(crate) fn quantile(values: &mut [f64], rank: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let place = (values.len() as f64 * rank).ceil().max(1.0) as usize;
    values.get(place.min(values.len()).wrapping_sub(1)).copied().unwrap_or(f64::NAN)
}

/// The average; `NaN` of none.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// How well two columns agree about order (Kendall's tau): the pairs of rows that both put in the same
/// order, less the other pairs, divided by all pairs. 1 is full agreement, -1 its opposite.
pub(crate) fn agreement(rows: &[(f64, f64)]) -> f64 {
    let mut sum = 0i64;
    let mut pairs = 0i64;
    for (index, a) in rows.iter().enumerate() {
        for b in &rows[index + 1..] {
            let product = (a.0 - b.0) * (a.1 - b.1);
            sum += i64::from(product > 0.0) - i64::from(product < 0.0);
            pairs += 1;
        }
    }
    sum as f64 / pairs as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_occurred() {
        let mut values: Vec<f64> = (1..=1_000).rev().map(f64::from).collect();
        assert_eq!(
            [0.0, 0.5, 0.99, 0.999, 1.0].map(|rank| quantile(&mut values, rank)),
            [1.0, 500.0, 990.0, 999.0, 1_000.0]
        );
        assert!(quantile(&mut [], 0.5).is_nan());
        assert_eq!(mean(&[1.0, 2.0, 6.0]), 3.0);
    }

    #[test]
    fn agreement_is_of_order_and_not_of_size() {
        assert_eq!(agreement(&[(1.0, 1.0), (2.0, 100.0), (3.0, 101.0)]), 1.0);
        assert_eq!(agreement(&[(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]), -1.0);
        assert!((agreement(&[(1.0, 1.0), (2.0, 3.0), (3.0, 2.0)]) - 1.0 / 3.0).abs() < 1e-12);
    }
}
