//! What the TOML parser and serde say of a file, in our words.

use super::ScenarioError;
use super::error::{nearest, unit_hint};

/// An error of the parser.
pub(super) fn explain(text: &str, error: &toml::de::Error) -> ScenarioError {
    let place = error.span().map_or(0, |span| span.start);
    let message = error.message().trim_end().replace('\n', "; ");
    let names: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let (first, others) = names.split_first().map_or(("", &[][..]), |(first, of)| (*first, of));
    let at = |message: String| ScenarioError::at(text, place, message);
    let of_key = |message: String| {
        let error = at(message);
        match key_before(text, place) {
            Some(key) => error.key(key),
            None => error,
        }
    };
    if message.starts_with("unknown field") {
        let error = at(format!("unknown key `{first}`"));
        return match nearest(first, others) {
            Some(name) => error.hint(format!("did you mean `{name}`?")),
            None => error.hint(format!("the keys here are {}", others.join(", "))),
        };
    }
    if message.starts_with("unknown variant") {
        let error = of_key(format!("there is no {first:?}"));
        return match nearest(first, others) {
            Some(name) => error.hint(format!("did you mean {name:?}?")),
            None => error.hint(format!("one of {}", others.join(", "))),
        };
    }
    if message.starts_with("missing field") {
        return at(format!("{first} is missing")).hint(format!("add {first} to this table"));
    }
    if message.starts_with("duplicate key") {
        let key: String = text.get(place..).unwrap_or("").chars().take_while(is_of_key).collect();
        return at("the key is there twice".to_owned()).key(key).hint("remove one of them");
    }
    if let Some((found, expected)) = message.split_once(", expected ") {
        let kinds = ["invalid type: ", "invalid value: ", "invalid length "];
        if let Some(found) = kinds.iter().find_map(|kind| found.strip_prefix(kind)) {
            let error =
                of_key(format!("expected {}, and found {}", expectation(expected), thing(found)));
            let key = key_before(text, place).unwrap_or("");
            return error.hint(remedy(key, found, expected));
        }
    }
    at(message).hint("a scenario is TOML: [table], and under it key = value")
}

fn is_of_key(letter: &char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-')
}

/// The key whose value is at `place`, if both are in one line.
fn key_before(text: &str, place: usize) -> Option<&str> {
    let line = text.get(..place)?.rsplit('\n').next()?;
    let (before, _) = line.rsplit_once('=')?;
    let key = before.trim_end().rsplit(|letter| !is_of_key(&letter)).next()?;
    (!key.is_empty()).then_some(key)
}

/// What serde found: "integer `99999999999999999999` as i128" is 99999999999999999999.
fn thing(found: &str) -> String {
    let value = found.split(" as ").next().unwrap_or(found).replace('`', "");
    let numbers = ["integer ", "floating point ", "boolean "];
    let number = numbers.iter().find_map(|kind| value.strip_prefix(kind));
    match (number, value.strip_prefix("string ")) {
        (Some(number), _) => number.to_owned(),
        (None, Some(text)) => format!("the text {text}"),
        (None, None) => value,
    }
}

/// What serde expects, for people who do not write Rust.
fn expectation(expected: &str) -> &str {
    match expected {
        "f64" => "a number",
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" => "a whole number from 0",
        "a boolean" => "true or false",
        "a string" => "a text in quotes",
        "a sequence" => "a list in brackets",
        "an array of length 8" => "a list of 8",
        other if other.starts_with("struct") => "a table",
        other => other,
    }
}

fn remedy(key: &str, found: &str, expected: &str) -> &'static str {
    match expected {
        "a string" => "write it in quotes",
        "f64" | "u8" | "u16" | "u32" | "u64" if found.starts_with("string") => {
            "write it without quotes, and without a unit: the end of the key says that"
        }
        "f64" | "u8" | "u16" | "u32" | "u64" => unit_hint(key),
        "an array of length 8" => "one value for each of priorities 0 to 7",
        "a boolean" => "write it without quotes",
        other if other.starts_with("struct") => "a table is [name], or { key = value }",
        _ => "see docs/book, and the examples in scenarios/",
    }
}
