//! Files that nobody wrote: pieces cut, doubled and exchanged.

use proptest::prelude::*;

use super::{CONFIG_DB, SCENARIO, config_db, scenario};

fn mutated(text: &'static str) -> impl Strategy<Value = String> {
    let places = prop::collection::vec((0..text.len(), 0..text.len(), 0u8..4, any::<u8>()), 1..6);
    places.prop_map(move |places| {
        let mut bytes = text.as_bytes().to_vec();
        for (at, other, what, byte) in places {
            let (at, other) = (at % bytes.len().max(1), other % bytes.len().max(1));
            let (from, to) = (at.min(other), at.max(other).min(at.min(other) + 40));
            match what {
                0 if !bytes.is_empty() => bytes[at] = byte,
                1 => drop(bytes.drain(from..to)),
                2 => {
                    let piece = bytes[from..to].to_vec();
                    bytes.splice(at..at, piece);
                }
                _ => bytes.truncate(at.max(1)),
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// A value of a key put in the place of that of another.
fn exchanged(text: &'static str) -> impl Strategy<Value = String> {
    let values: Vec<&str> =
        text.lines().filter_map(|line| Some(line.split_once(" = ")?.1)).collect();
    let lines = text.lines().count();
    let odd = [
        "-1",
        "0",
        "nan",
        "inf",
        "1e300",
        "\"\"",
        "[]",
        "{}",
        "99999999999999999999",
        "4294967295",
    ];
    let all: Vec<&str> = values.into_iter().chain(odd).collect();
    (0..lines, 0..all.len()).prop_map(move |(at, value)| {
        let line = |(index, line): (usize, &str)| match line.split_once(" = ") {
            Some((key, _)) if index == at => format!("{key} = {}\n", all[value]),
            _ => format!("{line}\n"),
        };
        text.lines().enumerate().map(line).collect()
    })
}

/// A refusal begins with its line.
fn is_refused_or_made(result: Result<(), String>) -> Result<(), TestCaseError> {
    match result {
        Ok(()) => Ok(()),
        Err(error) => {
            prop_assert!(error.starts_with("line "), "{}", error);
            Ok(())
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_scenario_makes_the_parser_panic(text in mutated(SCENARIO)) {
        is_refused_or_made(scenario(&text))?;
    }

    #[test]
    fn no_value_makes_the_parser_panic(text in exchanged(SCENARIO)) {
        is_refused_or_made(scenario(&text))?;
    }

    #[test]
    fn no_config_db_makes_the_parser_panic(text in mutated(CONFIG_DB)) {
        is_refused_or_made(config_db(&text))?;
    }

    #[test]
    fn no_text_at_all_makes_either_panic(text in "\\PC{0,200}") {
        prop_assert!(scenario(&text).is_err());
        prop_assert!(config_db(&text).is_err());
    }
}
