//! Flow files: TOML, whose mistakes are told by line and key, with a remedy.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{FLOW_KEYS, Flow, Plan, Value, Verb, unknown};
use crate::Failure;
use crate::limits::FLOWS_MAX;

/// A plan from the text of a file.
///
/// # Errors
/// Line, key and remedy of the first mistake.
pub fn read(text: &str) -> Result<Plan, Failure> {
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let message = error.message().trim_end().replace('\n', "; ");
        Failure::new(message)
            .hint("a flow file is TOML: keys, then a [[flow]] for each flow, and under it its keys")
            .within(line(text, at))
    })?;
    let mut plan = Plan::default();
    // The flows come last, so that their mistakes are told after those of the plan.
    let mut flows = None;
    for (key, value) in table.get_ref() {
        let place = key.span().start;
        let name: &str = key.get_ref();
        if name == "flow" {
            flows = Some((place, value));
            continue;
        }
        plain(value)
            .map_or_else(|| Err(not_plain(name)), |value| plan.set(name, &value))
            .map_err(|failure| failure.within(line(text, place)))?;
    }
    let mut places = Vec::new();
    if let Some((place, value)) = flows {
        let all = value.get_ref().as_array().ok_or_else(|| {
            Failure::new("flow: expected [[flow]]")
                .hint("write [[flow]] in two brackets: there may be several")
                .within(line(text, place))
        })?;
        for value in all.iter() {
            let place = value.span().start;
            let (flow, count) = one(text, value)?;
            places.extend((0..count).map(|_| place));
            plan.flows.extend(copies(&flow, count));
        }
    }
    plan.check().map_err(|failure| {
        let place = place_of(text, &plan, &places, &failure);
        failure.within(place)
    })?;
    Ok(plan)
}

fn one(text: &str, value: &Spanned<DeValue<'_>>) -> Result<(Flow, usize), Failure> {
    let place = value.span().start;
    let table = value.get_ref().as_table().ok_or_else(|| {
        Failure::new("flow: expected a table").hint("write [[flow]]").within(line(text, place))
    })?;
    let mut flow = Flow::new(Verb::Read);
    flow.name.clear();
    let mut count = 1;
    let mut has_verb = false;
    for (key, value) in table {
        let name: &str = key.get_ref();
        let set = |value: &Value| match name {
            "count" => {
                super::whole(name, value, 1, FLOWS_MAX as u32).map(|many| count = many as usize)
            }
            name => flow.set(name, value),
        };
        has_verb |= name == "verb";
        let done = plain(value).map_or_else(
            || Err(not_plain(name)),
            |value| {
                let mut set = set;
                set(&value)
            },
        );
        done.map_err(|failure| failure.within(line(text, key.span().start)))?;
    }
    if !has_verb {
        let (key, what) = FLOW_KEYS[1];
        return Err(Failure::new("verb is missing")
            .hint(format!("add {key}: {what}"))
            .within(line(text, place)));
    }
    if flow.name.is_empty() {
        flow.name = flow.verb.name().to_owned();
    }
    Ok((flow, count))
}

/// So many of a flow, with numbers if there are several.
pub(super) fn copies(flow: &Flow, count: usize) -> Vec<Flow> {
    let named = |number: usize| {
        let name = if count == 1 { flow.name.clone() } else { format!("{}{number}", flow.name) };
        Flow { name, ..flow.clone() }
    };
    (1..=count).map(named).collect()
}

fn plain(value: &Spanned<DeValue<'_>>) -> Option<Value> {
    match value.get_ref() {
        DeValue::Integer(integer) => {
            let digits = integer.as_str();
            i64::from_str_radix(digits, integer.radix())
                .ok()
                .map(|number| Value::Number(number as f64))
        }
        DeValue::Float(float) => float.as_str().parse().ok().map(Value::Number),
        DeValue::Boolean(truth) => Some(Value::Truth(*truth)),
        DeValue::String(text) => Some(Value::Text(text.to_string())),
        _ => None,
    }
}

fn not_plain(key: &str) -> Failure {
    if super::PLAN_KEYS.iter().chain(&FLOW_KEYS).all(|(name, _)| *name != key) {
        return unknown(key, &super::PLAN_KEYS);
    }
    Failure::new(format!("{key}: expected a number, a text, true or false"))
        .hint("write key = value")
}

/// "line 7", of a place in bytes.
fn line(text: &str, place: usize) -> String {
    let before = text.as_bytes().iter().take(place);
    format!("line {}", before.filter(|&&byte| byte == b'\n').count() + 1)
}

/// Where a mistake is that only shows when all is read: at the key of the flow that it names, or at the
/// flow if the key is not written.
fn place_of(text: &str, plan: &Plan, places: &[usize], failure: &Failure) -> String {
    let said = failure.to_string();
    let named = |flow: &Flow| said.starts_with(&format!("flow {:?}: ", flow.name));
    let start = plan.flows.iter().position(named).and_then(|at| places.get(at)).copied();
    let start = start.unwrap_or(0);
    let key = said
        .split(": ")
        .find(|word| super::PLAN_KEYS.iter().chain(&FLOW_KEYS).any(|(name, _)| name == word));
    let mut at = start;
    for (index, one) in text.get(start..).unwrap_or("").split_inclusive('\n').enumerate() {
        if index > 0 && one.trim_start().starts_with('[') {
            break;
        }
        let named = key.and_then(|key| one.trim_start().strip_prefix(key));
        if named.is_some_and(|rest| rest.trim_start().starts_with('=')) {
            return line(text, at);
        }
        at += one.len();
    }
    line(text, start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        read(text).unwrap_err().to_string()
    }

    #[test]
    fn a_file_says_what_its_flows_do() {
        let plan = read(
            "title = \"two\"\nlength_ms = 100\nwindow_ms = 50.0\n\n[[flow]]\nverb = \"read\"\n\
             size_bytes = 0x40\nwait = \"memory\"\n[[flow]]\nname = \"bulk\"\nverb = \"write\"\n\
             count = 2\nwindow = 16\nbandwidth_gbps_min = 1.5\n",
        )
        .unwrap();
        let names: Vec<&str> = plan.flows.iter().map(|flow| flow.name.as_str()).collect();
        assert_eq!(names, ["read", "bulk1", "bulk2"]);
        assert_eq!((plan.flows[0].size_bytes, plan.flows[0].wait), (64, WaitMode::Memory));
        assert_eq!((plan.flows[2].window, plan.windows()), (16, 2));
        assert_eq!(plan.flows[2].at_least.bandwidth_gbps_min, Some(1.5));
    }

    #[test]
    fn a_mistake_is_told_with_line_key_and_remedy() {
        let flow = |line: &str| format!("[[flow]]\nverb = \"send\"\n{line}\n");
        for (text, expected) in [
            ("title = ", "line 1: "),
            ("lenght_ms = 5", "line 1: unknown key `lenght_ms`\nhint: did you mean `length_ms`?"),
            ("window_ms = 9000\n[[flow]]\nverb = \"read\"\n", "line 1: window_ms: 9000 is longer"),
            ("", "line 1: there is no flow\nhint: add a [[flow]] with a verb"),
            ("[flow]\nverb = \"read\"", "line 1: flow: expected [[flow]]"),
            ("[[flow]]\nsize_bytes = 8\n", "line 1: verb is missing\nhint: add verb: read, write,"),
            (
                &flow("wait = \"memry\""),
                "line 3: wait: there is no \"memry\"\nhint: did you mean \"memory\"?",
            ),
            (&flow("wait = \"memory\""), "line 3: flow \"send\": wait: the end of a send is not"),
            (&flow("size = 8"), "line 3: unknown key `size`\nhint: did you mean `size_bytes`?"),
            (
                &flow("size_bytes = \"8\""),
                "line 3: size_bytes: expected a whole number from 1 to 1073741824, and found the text \"8\"",
            ),
            (&flow("size_bytes = 1.5"), "line 3: size_bytes: expected a whole number"),
            (
                &flow("window = 0"),
                "line 3: window: expected a whole number from 1 to 4096, and found 0",
            ),
            (&flow("window = [1]"), "line 3: window: expected a number, a text, true or false"),
            (
                &flow("signal_every = 8"),
                "line 3: flow \"send\": signal_every: 8 requests, of 1 outstanding",
            ),
            (&flow("depends = 2"), "line 3: flow \"send\": depends: a send does not depend"),
            (
                &flow("transport = \"ud\"\nsize_bytes = 5000"),
                "line 4: flow \"send\": size_bytes: a datagram of 5000",
            ),
            (&flow("start_ms = 5000"), "line 3: flow \"send\": start_ms: 5000 is after the end"),
            (&format!("{0}{0}", flow("")), "line 1: name: two flows are called \"send\""),
        ] {
            let said = said(text);
            assert!(said.starts_with(expected), "{text}\n{said}\nexpected {expected}");
            assert!(said.contains("\nhint: "), "{said}");
        }
    }

    use super::super::WaitMode;
}
