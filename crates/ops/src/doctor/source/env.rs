//! The environment of a job: `env | grep -E '^(NCCL|UCX)_' > env.JOB.txt`.

use std::collections::BTreeMap;

use super::Said;

/// `NCCL_*` and `UCX_*` by name.
pub(in crate::doctor) type Variables = BTreeMap<String, Said<String>>;

/// Lines of other variables are passed over; so is what is no assignment.
pub(in crate::doctor) fn read(text: &str) -> Variables {
    let mut variables = Variables::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        let line = line.strip_prefix("export ").unwrap_or(line);
        let Some((name, value)) = line.split_once('=') else { continue };
        let ours = name.starts_with("NCCL_") || name.starts_with("UCX_");
        if !ours || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            continue;
        }
        let value = value.trim().trim_matches(|quote| quote == '"' || quote == '\'').to_owned();
        variables.insert(name.to_owned(), Said { value, line: number + 1 });
    }
    variables
}

/// A number as these libraries take it: decimal, hexadecimal behind `0x`, octal behind `0`.
pub(in crate::doctor) fn number(text: &str) -> Option<u64> {
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return u64::from_str_radix(digits, 16).ok();
    }
    match text.strip_prefix('0').filter(|digits| !digits.is_empty()) {
        Some(digits) => u64::from_str_radix(digits, 8).ok(),
        None => text.parse().ok(),
    }
}

/// A time as UCX takes it, in microseconds: `1ms`, `0.5s`, `300us`.
pub(in crate::doctor) fn time_us(text: &str) -> Option<f64> {
    let units = [("us", 1.0), ("ms", 1e3), ("ns", 1e-3), ("s", 1e6), ("m", 60e6)];
    let with = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)));
    let (digits, factor) = with?;
    let time = digits.trim().parse::<f64>().ok()? * factor;
    time.is_finite().then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_nccl_and_ucx_are_kept() {
        let text = "PATH=/bin\nexport NCCL_IB_TC=106\nUCX_IB_TRAFFIC_CLASS=\"auto\"\nNCCL_DEBUG\nNCCL_ x=1\n";
        let all = read(text);
        assert_eq!(all["NCCL_IB_TC"], Said { value: "106".into(), line: 2 });
        assert_eq!(all["UCX_IB_TRAFFIC_CLASS"].value, "auto");
        assert_eq!(all.len(), 2);
    }

    #[test]
    fn numbers_and_times_are_those_of_c() {
        for (text, expected) in [
            ("106", Some(106)),
            ("0x6a", Some(106)),
            ("0152", Some(106)),
            ("0", Some(0)),
            ("x", None),
        ] {
            assert_eq!(number(text), expected);
        }
        assert_eq!(time_us("1ms"), Some(1e3));
        assert_eq!(time_us("0.5s"), Some(5e5));
        assert_eq!(time_us("inf"), None);
    }
}
