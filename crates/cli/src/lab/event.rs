//! `ferroce lab event` and `ferroce lab events`.

use softnic::lab::Found;

use super::ask;
use crate::args::Event;
use crate::failure::Failure;
use crate::output::print;

/// Has something happen. What it says is a `[[fault]]` of a scenario, in other words.
pub(super) fn run(event: &Event) -> Result<(), Failure> {
    let table = table(event)?;
    let found = event.which.find()?;
    let told = ask(&found, &format!("event {table}")).map_err(|failure| {
        // Lines are those of a table that nobody has written.
        let text = failure.to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        let text = match text.strip_prefix("line ").and_then(|rest| rest.split_once(": ")) {
            Some((_, rest)) => rest.to_owned(),
            None => text.to_owned(),
        };
        Failure::from_message(&text)
    })?;
    print(&told)
}

/// The table that the arguments stand for.
fn table(event: &Event) -> Result<String, Failure> {
    let mut table = format!("kind = {:?}\n", event.kind);
    for word in &event.keys {
        let Some((key, value)) = word.split_once('=') else {
            let message = format!("`{word}` is no KEY=VALUE");
            return Err(Failure::new(message).hint("write from=leaf0, for instance"));
        };
        let (key, value) = (key.trim(), value.trim());
        let is_key = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
        if key.is_empty() || !key.chars().all(is_key) {
            let message = format!("`{key}` is no key");
            return Err(Failure::new(message).hint("`ferroce sim --keys fault` lists them"));
        }
        table += &format!("{key} = {}\n", written(value));
    }
    Ok(table)
}

/// A value as it is written in TOML: texts without quotes are meant as texts.
fn written(value: &str) -> String {
    let is_number = value.replace('_', "").parse::<f64>().is_ok()
        && value.starts_with(|first: char| first.is_ascii_digit() || "+-".contains(first));
    let is_other = matches!(value, "true" | "false") || value.starts_with(['[', '"', '\'', '{']);
    if is_number || is_other { value.to_owned() } else { format!("{value:?}") }
}

/// Says what has happened.
pub(super) fn list(found: &Found) -> Result<(), Failure> {
    let mut first = 0;
    loop {
        let page = ask(found, &format!("events {first}"))?;
        let (next, lines) = page.split_once('\n').unwrap_or((&page, ""));
        if first == 0 {
            print("        wall        model  what\n")?;
        }
        print(lines)?;
        match next.parse() {
            Ok(next) if next > first && !lines.is_empty() => first = next,
            _ => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Which;

    #[test]
    fn arguments_are_a_fault_of_a_scenario_in_other_words() {
        let event = |keys: &[&str]| Event {
            kind: "link-down".to_owned(),
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            which: Which { lab: None },
        };
        let said =
            table(&event(&["from=leaf0", "at_us=1_000", "x=true", "y=[3, 4]", "alpha=1/16"]));
        let expected = "kind = \"link-down\"\nfrom = \"leaf0\"\nat_us = 1_000\nx = true\ny = [3, 4]\n\
                        alpha = \"1/16\"\n";
        assert_eq!(said.unwrap(), expected);
        assert!(table(&event(&["leaf0"])).unwrap_err().to_string().contains("no KEY=VALUE"));
        assert!(table(&event(&["a b=1"])).unwrap_err().to_string().contains("no key"));
    }
}
