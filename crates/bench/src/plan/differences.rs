//! What two plans differ in, by key: titles and thresholds make no difference to what is measured.

use super::{Plan, Value};

type Values = [(&'static str, Value)];

impl Plan {
    /// What `other` has otherwise: keys with both values, of the plan and of each flow that is in both.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut all: Vec<String> = differing(&self.values(), &other.values()).into_iter().collect();
        for flow in &self.flows {
            let Some(of) = other.flows.iter().find(|of| of.name == flow.name) else { continue };
            let keys = differing(&flow.values(), &of.values());
            all.extend(keys.map(|keys| format!("{}: {keys}", flow.name)));
        }
        all
    }
}

/// The keys whose values are not the same in both; a key may be in one of them only.
fn differing(first: &Values, second: &Values) -> Option<String> {
    let of = |values: &Values, key: &str| {
        let found = values.iter().find(|(name, _)| *name == key);
        found.map_or("none".to_owned(), |(_, value)| value.to_string())
    };
    let mut keys: Vec<&str> = first.iter().map(|(key, _)| *key).collect();
    keys.extend(second.iter().map(|(key, _)| *key).filter(|key| of(first, key) == "none"));
    let differ = keys.into_iter().filter(|key| of(first, key) != of(second, key));
    let texts: Vec<String> =
        differ.map(|key| format!("{key} {} and {}", of(first, key), of(second, key))).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}
