//! Keys that are set beside the file, as `--set switch.alpha=1/8` does: they take the place of what the file
//! says, and are checked as it is.
//!
//! ```text
//!   switch.alpha=1/8 ─► switch.alpha = "1/8", as if it stood behind the file ─► merged into the file's tables
//! ```
//!
//! A value is written as in the file; quotes may be left out. Of several tables of one name one is meant by
//! its number, from 0 on: `workload.1.message_bytes=64`. Nothing is taken away: a key may only get another value.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::ScenarioError;
use super::place::Lines;

/// What is set, each as TOML: blanks as long as all that stands before it, so that places count on, and
/// then the key and its value.
#[derive(Debug)]
pub(super) struct Settings(Vec<String>);

impl Settings {
    /// Reads `all`, each such as `switch.alpha=1/8`, behind a file of `lines` that is `length` bytes long.
    pub(super) fn of(
        all: &[String],
        length: usize,
        lines: &mut Lines,
    ) -> Result<Self, ScenarioError> {
        let mut start = length + 1;
        let mut texts = Vec::new();
        for written in all {
            lines.set(start, written);
            let wrong = |message: &str| {
                let error = ScenarioError::at_line(lines, start, message);
                error.hint("write a table's key and its value, such as --set switch.alpha=1/8")
            };
            let (key, value) = written.split_once('=').ok_or_else(|| wrong("there is no value"))?;
            if written.contains(['\n', '\r']) {
                return Err(wrong("it is more than one line"));
            }
            let blanks = " ".repeat(start);
            let key = key.trim();
            // What is no TOML is a text without its quotes.
            let quoted = || serde_json::Value::from(value.trim()).to_string();
            let toml =
                [format!("{blanks}{key} = {value}"), format!("{blanks}{key} = {}", quoted())]
                    .into_iter()
                    .find(|toml| DeTable::parse(toml).is_ok())
                    .ok_or_else(|| wrong(&format!("{key:?} is no key")))?;
            start = toml.len() + 1;
            texts.push(toml);
        }
        Ok(Self(texts))
    }

    /// Merges all of it into the tables of the file.
    pub(super) fn merge<'t>(
        &'t self,
        file: &mut DeTable<'t>,
        lines: &Lines,
    ) -> Result<(), ScenarioError> {
        for text in &self.0 {
            let set = DeTable::parse(text)
                .map_err(|error| ScenarioError::no_toml(lines, text, &error))?;
            let start = text.len() - text.trim_start().len();
            merge(file, set.into_inner(), "").map_err(|(message, hint)| {
                ScenarioError::at_line(lines, start, message).hint(hint)
            })?;
        }
        Ok(())
    }
}

/// A message and a hint.
type Wrong = (String, String);

fn merge<'t>(into: &mut DeTable<'t>, set: DeTable<'t>, path: &str) -> Result<(), Wrong> {
    for (key, mut value) in set {
        let name = key.get_ref().clone();
        let path = if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
        match (into.get_mut(&*name).map(Spanned::get_mut), value.get_mut()) {
            (Some(DeValue::Table(old)), DeValue::Table(new)) => {
                merge(old, core::mem::take(new), &path)?;
            }
            (Some(DeValue::Array(list)), DeValue::Table(new))
                if list.iter().all(|member| member.get_ref().is_table()) =>
            {
                let members = list.iter_mut().filter_map(|member| match member.get_mut() {
                    DeValue::Table(table) => Some(table),
                    _ => None,
                });
                merge_member(members.collect(), core::mem::take(new), &path)?;
            }
            _ => {
                // The key, too, is where it was set.
                into.remove(&*name);
                into.insert(key, value);
            }
        }
    }
    Ok(())
}

/// Sets keys of one of several tables: of that with a number or, if there is but one, of that.
fn merge_member<'t>(
    mut members: Vec<&mut DeTable<'t>>,
    set: DeTable<'t>,
    path: &str,
) -> Result<(), Wrong> {
    let count = members.len();
    for (key, value) in set {
        let name = key.get_ref().clone();
        let number = name.parse::<usize>().ok();
        let which = if count == 1 && number.is_none() { Some(0) } else { number };
        let Some(member) = which.and_then(|which| members.get_mut(which)) else {
            let there =
                format!("there {} {count} of [[{path}]]", if count == 1 { "is" } else { "are" });
            let last = count.saturating_sub(1);
            let hint = match count {
                0 => format!("write [[{path}]] in the scenario"),
                1 => format!("write {path}.0, or {path} alone"),
                _ => format!("write {path}.0 to {path}.{last} for one of them"),
            };
            return Err((there, hint));
        };
        match (number, value.into_inner()) {
            (None, value) => {
                let mut one = DeTable::new();
                one.insert(key.clone(), Spanned::new(key.span(), value));
                merge(member, one, path)?;
            }
            (Some(_), DeValue::Table(keys)) => merge(member, keys, &format!("{path}.{name}"))?,
            (Some(_), _) => {
                let hint = format!("write {path}.{name}.KEY=VALUE");
                return Err((format!("{path}.{name} is a table, and has no value"), hint));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{Scenario, TableText, reference};

    const FILE: &str = r#"
end_ms = 1

[topology]
shape = "single-switch"
hosts = 3
rate_gbps = 40
cable_m = 2

[[workload]]
kind = "incast"
receiver = "h0"
senders = 2
message_bytes = 100000

[[workload]]
kind = "incast"
receiver = "h1"
senders = 1
message_bytes = 200000
"#;

    fn with(set: &[&str]) -> Result<Scenario, String> {
        let set: Vec<String> = set.iter().map(|&text| text.to_owned()).collect();
        Scenario::parse_set(FILE, Path::new("."), &set, None).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_set_takes_the_place_of_what_the_file_says_or_leaves_out() {
        let set = [
            "switch.alpha=1/8",
            "topology.rate_gbps = 100",
            "title=\"a b\"",
            "workload.1.message_bytes=64",
            "switch.ecn.min_bytes=5",
            "switch.ecn.max_bytes=10",
            "end_ms=2",
            "end_ms=3",
        ];
        let said = with(&set).unwrap();
        assert_eq!(said.title, "a b");
        assert_eq!(said.network.topology.host_rates()[0], rdma::Rate::from_gbps(100));
        assert_eq!(said.end, rdma::Time::ZERO + rdma::Span::from_ms(3), "the last one counts");
        let lengths: Vec<u32> = said.network.flows.iter().map(|flow| flow.message_bytes).collect();
        assert_eq!(lengths, [100_000, 100_000, 64]);
        let ecn = said.network.switch_of(0).queues_of(0)[3].ecn.unwrap();
        assert_eq!((ecn.min_bytes, ecn.max_bytes), (5, 10));
        let alpha = |set: &str| with(&[set]).unwrap().network.switch_of(0).groups[3];
        assert_eq!(alpha("switch.alpha=8"), alpha("switch.alpha=\"8\""));
        let whole =
            r#"workload=[{ kind = "incast", receiver = "h2", senders = 1, message_bytes = 7 }]"#;
        assert_eq!(with(&[whole, "workload.senders=2"]).unwrap().network.flows.len(), 2);
    }

    #[test]
    fn a_mistake_is_told_as_in_the_file_with_what_was_set_in_place_of_a_line() {
        let cases = [
            (
                "switch.alpha=1/15",
                "--set switch.alpha=1/15: switch.alpha: \"1/15\" is no power of two from 1/256 to 128\n\
                 hint: write \"1/16\", \"1\" or \"8\", for instance",
            ),
            (
                "switch.alpa=1/8",
                "--set switch.alpa=1/8: unknown key `alpa`\nhint: did you mean `alpha`?",
            ),
            (
                "swich.alpha=1/8",
                "--set swich.alpha=1/8: unknown key `swich`\nhint: did you mean `switch`?",
            ),
            (
                "topology.hosts=1/2",
                "--set topology.hosts=1/2: topology.hosts: expected a whole number from 1 to 65536, and \
                 found the text \"1/2\"\nhint: write it without quotes, and without a unit: the end of \
                 the key says that",
            ),
            (
                "workload.senders=1",
                "--set workload.senders=1: there are 2 of [[workload]]\n\
                 hint: write workload.0 to workload.1 for one of them",
            ),
            (
                "workload.2.senders=1",
                "--set workload.2.senders=1: there are 2 of [[workload]]\n\
                 hint: write workload.0 to workload.1 for one of them",
            ),
            (
                "workload.1=1",
                "--set workload.1=1: workload.1 is a table, and has no value\n\
                 hint: write workload.1.KEY=VALUE",
            ),
            (
                "switch.alpha",
                "--set switch.alpha: there is no value\n\
                 hint: write a table's key and its value, such as --set switch.alpha=1/8",
            ),
            (
                "switch..alpha=1",
                "--set switch..alpha=1: \"switch..alpha\" is no key\n\
                 hint: write a table's key and its value, such as --set switch.alpha=1/8",
            ),
            (
                "end_ms.x=1",
                "--set end_ms.x=1: end_ms: expected a number, and found a table\n\
                 hint: the unit is milliseconds",
            ),
        ];
        for (set, message) in cases {
            assert_eq!(with(&["title=t", set]).unwrap_err(), message);
        }
        // Of several mistakes the file's are told first, and then the first that was set.
        let message = with(&["topology.hosts=0", "workload.0.senders=9"]).unwrap_err();
        assert!(message.starts_with("--set topology.hosts=0: topology.hosts: "), "{message}");
    }

    #[test]
    fn no_value_of_any_key_ends_the_program() {
        let values = ["0", "-1", "7", "1e300", "nan", "99999999999999999999", "\"\"", "none"];
        let values = values.into_iter().chain(["true", "[]", "[[1, 2]]", "{}"]);
        let mut tried = 0;
        for table in reference() {
            let (name, kind) = table.name.split_once(' ').unwrap_or((&table.name, ""));
            let bare = name.trim_matches(['[', ']']);
            for (key, value) in
                table.keys.iter().flat_map(|key| values.clone().map(move |value| (key.name, value)))
            {
                let set = match (kind, name.starts_with("[[")) {
                    ("", _) => format!("{}={value}", TableText::path(name, key)),
                    (kind, true) => format!("{bare}=[{{ {kind}, {key} = {value} }}]"),
                    (kind, false) => format!("{bare}={{ {kind}, {key} = {value} }}"),
                };
                if let Err(message) = with(&[&set]) {
                    assert!(message.contains("\nhint: "), "{set}: {message}");
                }
                tried += 1;
            }
        }
        assert!(tried > 3_000, "{tried}");
    }

    #[test]
    fn no_text_that_is_set_ends_the_program() {
        let texts = [
            "",
            "=",
            "=1",
            " = ",
            ".=1",
            "a=\n",
            "a=[",
            "\u{1f980}.\u{e4}=\u{e4}",
            "\"=\"=1",
            "'=1",
        ];
        for text in texts {
            let message = with(&[text]).unwrap_err();
            assert!(message.starts_with("--set ") && message.contains("hint: "), "{message}");
        }
        assert!(with(&["title=[", "title="]).is_ok(), "texts without quotes");
    }
}
