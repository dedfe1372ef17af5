//! The environment of a job: `env | grep -E '^(NCCL|UCX)_' > env.JOB.txt`.

use std::collections::BTreeMap;

use super::{Said, Wrong};

/// `NCCL_*` and `UCX_*` by name.
pub(in crate::doctor) type Variables = BTreeMap<String, Said<String>>;

/// Lines of other variables are passed over, and so is what is no assignment beside some that are. A job that sets nothing
/// has an empty file.
pub(in crate::doctor) fn read(text: &str) -> Result<Variables, Wrong> {
    let (mut variables, mut any) = (Variables::new(), false);
    for (number, line) in text.lines().enumerate() {
        let Some((name, value)) = assignment(line) else { continue };
        any = true;
        if !name.starts_with("NCCL_") && !name.starts_with("UCX_") {
            continue;
        }
        let value = value.trim().trim_matches(|quote| quote == '"' || quote == '\'').to_owned();
        variables.insert(name.to_owned(), Said { value, line: number + 1 });
    }
    if !any && !text.trim().is_empty() {
        let hint = "take it again in the environment of the job: env | grep -E '^(NCCL|UCX)_'";
        return Err(Wrong::whole("it has no line that is NAME=VALUE", hint));
    }
    Ok(variables)
}

/// Name and value of `NAME=VALUE`, of whatever variable.
fn assignment(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let (name, value) = line.strip_prefix("export ").unwrap_or(line).split_once('=')?;
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (!name.is_empty() && name.bytes().all(is_of_name)).then_some((name, value))
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
        let all = read(text).unwrap();
        assert_eq!(all["NCCL_IB_TC"], Said { value: "106".into(), line: 2 });
        assert_eq!(all["UCX_IB_TRAFFIC_CLASS"].value, "auto");
        assert_eq!(all.len(), 2);
        assert_eq!(read("").unwrap(), Variables::new());
        assert_eq!(read("PATH=/bin\n").unwrap(), Variables::new());
        assert!(read("sh: 1: env: not found\n").is_err());
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
