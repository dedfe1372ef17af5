//! Runs of one network under different settings, side by side.
//!
//! ```text
//!   folder of `ferroce sim -o` ─► Results ─┐
//!   folder of `ferroce sim -o` ─► Results ─┼─► Comparison ─► text of 80 columns, JSON, one page
//!   ...                                   ─┘   each against the first, seed by seed
//! ```
//!
//! What is left to chance is the same in both where the seed is: so figures are compared seed by seed, and
//! what is told is the median of the differences and its interval over seeds. From one seed nothing is
//! concluded. Where nothing is left to chance, all seeds come to the same: they are one draw, without an interval,
//! and what differs is certain.
//!
//! **Invariant:** what is not finished never makes a variant look better.
//!
//! - A flow with an end that has not reached it took longer than any that has.
//! - A run that ended early, as in a deadlock, has its goodput over the time of the others.
//! - Latencies of a variant that has completed fewer messages are not called lower: those that miss may have
//!   been the slow ones.

mod figures;
mod flows;
mod results;
mod show;

use std::collections::BTreeSet;

pub use results::Results;

use figures::Figure;
use flows::Pairs;

/// Some results against the first of them. See the module.
#[derive(Clone, Debug)]
pub struct Comparison {
    variants: Vec<Results>,
    /// What a reader is to know before any number.
    notes: Vec<String>,
    /// By variant: each figure of its own, and against that of the first.
    figures: Vec<Figure>,
    /// All but the first, against it.
    pairs: Vec<Pairs>,
}

impl Comparison {
    /// Compares each of `variants` with the first.
    pub fn new(variants: Vec<Results>) -> Self {
        let seeds = common_seeds(&variants);
        // Of what is one draw, each flow stands there once.
        let of_flows = |first: &Results, other: &Results| match &*seeds {
            [seed, ..] if first.is_one_draw() && other.is_one_draw() => vec![*seed],
            seeds => seeds.to_vec(),
        };
        let pairs: Vec<Pairs> = match variants.split_first() {
            Some((first, others)) => {
                let of = |other| Pairs::of(first, other, &of_flows(first, other));
                others.iter().map(of).collect()
            }
            None => Vec::new(),
        };
        let figures = figures::all(&variants, &seeds);
        let notes = notes(&variants, &seeds, &pairs);
        Self { variants, notes, figures, pairs }
    }
}

/// The seeds that all have run with.
fn common_seeds(variants: &[Results]) -> Vec<i64> {
    let Some((first, others)) = variants.split_first() else { return Vec::new() };
    let in_all = |seed: &i64| others.iter().all(|other| other.runs.contains_key(seed));
    first.runs.keys().copied().filter(in_all).collect()
}

/// A variant's letter: A, B, C, ...
fn letter(index: usize) -> String {
    match u8::try_from(index) {
        Ok(index @ 0..26) => char::from(b'A' + index).to_string(),
        _ => format!("#{}", index + 1),
    }
}

fn notes(variants: &[Results], seeds: &[i64], pairs: &[Pairs]) -> Vec<String> {
    let mut notes = Vec::new();
    for (index, variant) in variants.iter().enumerate() {
        let more = variant.runs.keys().filter(|seed| !seeds.contains(seed)).count();
        if more > 0 && !seeds.is_empty() {
            notes.push(format!("{} has {more} seeds that not all have: left out", letter(index)));
        }
        if variant.runs.values().any(|run| run.ending == "interrupted") {
            notes.push(format!("{} was interrupted, and is a part of a run", letter(index)));
        }
    }
    let one_draw = (0..).zip(variants).filter(|(_, variant)| variant.is_one_draw());
    let one_draw: Vec<String> = one_draw.map(|(index, _)| letter(index)).collect();
    if !one_draw.is_empty() {
        notes.push(format!(
            "all seeds of {} came to the same: nothing was left to chance there, and they are one draw, without \
             an interval",
            one_draw.join(" and of ")
        ));
    }
    match seeds.len() {
        0 => notes.push(
            "they have no seed in common: nothing is compared; run them with the same --seed, or \
             --seeds"
                .to_owned(),
        ),
        1..6 => notes.push(format!(
            "of {}, no interval can be told, and nothing concluded: use --seeds 8",
            if seeds.len() == 1 { "one seed".to_owned() } else { format!("{} seeds", seeds.len()) }
        )),
        _ => {}
    }
    for (index, pairs) in pairs.iter().enumerate() {
        if let Some(other) = pairs.others() {
            notes.push(format!(
                "A and {} have not the same flows ({other}): figures are of different work",
                letter(index + 1)
            ));
        }
    }
    let ends: BTreeSet<u64> = variants
        .iter()
        .flat_map(|variant| variant.runs.values())
        .filter(|run| run.ending == "time over")
        .filter_map(|run| Some(run.figure("ended_at_us")?.to_bits()))
        .collect();
    if ends.len() > 1 {
        notes.push("their time was over at different times: give all the same end_ms".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use telemetry::Table;

    use super::*;

    /// What a run came to: how it ended and when, in microseconds; its messages and their latency; when each
    /// of its flows, which begin at zero, was finished, and how many bytes it brought.
    struct Came<'c> {
        ended: (&'c str, f64),
        completed: f64,
        latency: f64,
        flows: &'c [(Option<f64>, u64)],
    }

    /// The results of eight seeds, which came to about the same: each delivered a little more.
    fn eight(name: &str, came: &Came<'_>) -> Results {
        let mut eight = alike(name, came);
        for (seed, run) in &mut eight.runs {
            run.deliver(*seed as f64 * 1e-6);
        }
        eight
    }

    /// The results of eight seeds, all of which came to the same.
    fn alike(name: &str, came: &Came<'_>) -> Results {
        results(name, 1..=8, came)
    }

    fn results(name: &str, of: impl Iterator<Item = u64>, came: &Came<'_>) -> Results {
        let mut seeds = Table::new("seeds")
            .integers("seed", "")
            .texts("ended")
            .floats("ended_at", "us")
            .floats("completed", "messages")
            .floats("latency_p99", "us")
            .floats("drops", "");
        let mut flows = Table::new("flows");
        for name in ["seed", "flow", "dscp", "message_bytes", "asked", "failed"] {
            flows = flows.integers(name, "");
        }
        for name in ["delivered_bytes", "delivered_back_bytes", "start_ps", "finished_ps"] {
            flows = flows.integers(name, "");
        }
        for name in ["source", "destination", "service", "verb"] {
            flows = flows.texts(name);
        }
        for seed in of {
            seeds.push([
                seed.into(),
                came.ended.0.into(),
                came.ended.1.into(),
                came.completed.into(),
                came.latency.into(),
                came.completed.into(),
            ]);
            for (number, (finished, bytes)) in came.flows.iter().enumerate() {
                let zero = || 0u64.into();
                flows.push([
                    seed.into(),
                    number.into(),
                    zero(),
                    1_000u64.into(),
                    1u64.into(),
                    zero(),
                    (*bytes).into(),
                    zero(),
                    zero(),
                    finished.map(|finished| (finished * 1e6) as u64).into(),
                    "h0".into(),
                    "h1".into(),
                    "rc".into(),
                    "write".into(),
                ]);
            }
        }
        let words = [name, "a model"].map(str::to_owned);
        Results::of(name.to_owned(), words, [&seeds, &flows], Path::new(name)).unwrap()
    }

    const GOOD: Came<'_> = Came {
        ended: ("finished", 100.0),
        completed: 2.0,
        latency: 90.0,
        flows: &[(Some(80.0), 1_000), (Some(100.0), 1_000)],
    };

    /// What the line of a figure says: the first, the other, and what it comes to.
    fn said(comparison: &Comparison, figure: &str) -> Vec<String> {
        let text = comparison.text();
        let line = text.lines().find_map(|line| line.strip_prefix(figure));
        let line = line.unwrap_or_else(|| panic!("{figure}: {text}"));
        line.split_whitespace().take(3).map(str::to_owned).collect()
    }

    #[test]
    fn a_flow_that_is_not_finished_took_longer_than_all_that_are() {
        let hangs = Came {
            ended: ("time over", 100.0),
            completed: 1.0,
            latency: 10.0,
            flows: &[(Some(40.0), 1_000), (None, 0)],
        };
        let comparison = Comparison::new(vec![eight("good", &GOOD), eight("hangs", &hangs)]);
        assert_eq!(said(&comparison, "flows not finished"), ["0", "1", "more"]);
        assert_eq!(said(&comparison, "flow done p99, us"), ["100", "never", "more"]);
        assert_eq!(said(&comparison, "flow done p50, us"), ["80", "40", "less"]);
        assert_eq!(said(&comparison, "goodput, Gb/s"), ["0.16", "0.08", "less"]);
        // What is complete is fast, as what was slow is not complete.
        assert_eq!(said(&comparison, "latency p99, us"), ["90", "10", "of"]);
        assert_eq!(said(&comparison, "drops"), ["2", "1", "of"]);
        let text = comparison.text();
        assert!(text.contains("8 are done in A alone, 0 in B alone, and 0 in neither."), "{text}");
        // The other way round it is no better.
        let turned = Comparison::new(vec![eight("hangs", &hangs), eight("good", &GOOD)]);
        assert_eq!(said(&turned, "latency p99, us"), ["10", "90", "of"]);
        assert_eq!(said(&turned, "flow done p99, us"), ["never", "100", "less"]);
    }

    #[test]
    fn a_run_that_ended_early_has_its_goodput_over_the_time_of_the_others() {
        let dead = Came {
            ended: ("deadlocked", 10.0),
            completed: 0.0,
            latency: 1.0,
            flows: &[(None, 500), (None, 500)],
        };
        let comparison = Comparison::new(vec![eight("good", &GOOD), eight("dead", &dead)]);
        // 1,000 bytes in 10 us would be 0.8 Gb/s.
        assert_eq!(said(&comparison, "goodput, Gb/s"), ["0.16", "0.08", "less"]);
    }

    #[test]
    fn nothing_is_concluded_from_a_few_seeds_or_from_others() {
        let slow = Came { latency: 99.0, ..GOOD };
        let two = Comparison::new(vec![results("a", 1..=2, &GOOD), results("b", 1..=2, &slow)]);
        assert_eq!(said(&two, "latency p99, us"), ["90", "99", "?"]);
        assert!(two.text().contains("!  of 2 seeds, no interval"), "{}", two.text());
        let others = Comparison::new(vec![results("a", 1..=8, &GOOD), results("b", 9..=16, &slow)]);
        assert_eq!(said(&others, "latency p99, us"), ["90", "99", "-"]);
        assert!(others.text().contains("!  they have no seed in common"), "{}", others.text());
        let same = Comparison::new(vec![eight("a", &GOOD), eight("b", &GOOD)]);
        assert_eq!(said(&same, "latency p99, us"), ["90", "90", "same"]);
    }

    #[test]
    fn without_chance_there_is_one_draw_and_no_interval() {
        let slow = Came { latency: 99.0, ..GOOD };
        let [a, b] = [alike("a", &GOOD), alike("b", &slow)];
        let comparison = Comparison::new(vec![a.clone(), b]);
        let text = comparison.text();
        let says = "!  all seeds of A and of B came to the same: nothing was left to chance";
        assert!(text.contains(says), "{text}");
        assert_eq!(said(&comparison, "latency p99, us"), ["90", "99", "more"]);
        let line = text.lines().find(|line| line.starts_with("latency p99")).unwrap();
        assert!(line.ends_with(" 1.10"), "an interval: {text}");
        assert!(text.contains("Of 2 flows with an end"), "{text}");
        assert!(comparison.json().contains("\"likely_95_percent\": null"));
        assert!(!comparison.json().contains("\"likely_95_percent\": ["));
        // Beside one that hangs on chance it is still one draw, and the difference has an interval.
        let chance = Comparison::new(vec![a, eight("b", &slow)]);
        let text = chance.text();
        assert!(text.contains("!  all seeds of A came to the same"), "{text}");
        assert!(text.contains("1.10 (1.10 to 1.10)"), "{text}");
    }

    #[test]
    fn other_flows_are_told_and_not_held_against_each_other() {
        let one = Came { flows: &[(Some(80.0), 1_000)], ..GOOD };
        let comparison = Comparison::new(vec![eight("a", &GOOD), eight("b", &one)]);
        let text = comparison.text();
        assert!(text.contains("have not the same flows (2 and 1 with seed 1)"), "{text}");
        assert!(text.contains("Of 8 flows with an end B has 0 done sooner"), "{text}");
    }

    #[test]
    fn text_has_eighty_columns_and_json_and_page_say_the_same() {
        let slow =
            Came { latency: 1_234_567.891, flows: &[(None, 7), (Some(99_999.5), 1)], ..GOOD };
        let long = "a/folder/whose/name/is/long/enough/to/be/set/in/two/lines/of/a/terminal";
        let comparison =
            Comparison::new(vec![eight(long, &GOOD), eight("b", &slow), eight("c", &GOOD)]);
        let text = comparison.text();
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        assert!(text.contains("\nC against A  "), "{text}");
        let json: serde_json::Value = serde_json::from_str(&comparison.json()).unwrap();
        assert_eq!(json["variants"][2]["variant"], "C");
        assert_eq!(json["flows"][0]["done_in_a_alone"], 8);
        assert_eq!(json["flows"][0]["extremes"][0]["other_us"], serde_json::Value::Null);
        let page = comparison.page();
        assert!(page.contains("Flow by flow, B against A") && page.contains("Flows that are done"));
    }
}
