//! Numbers and lines in what programs print.

use fabric::scenario::experiment::{Number, Program, Take};
use regex_lite::Regex;

/// The number that `number` names, if there is one.
pub(super) fn number(number: &Number, printed: &str) -> Option<f64> {
    let expression = Regex::new(&number.pattern).ok()?;
    let all: Vec<f64> = printed
        .lines()
        .filter_map(|line| {
            let found = expression.captures(line)?;
            let text = found.get(1).or(found.get(0))?.as_str();
            // A count needs no number.
            text.trim().parse().ok().or((number.take == Take::Count).then_some(0.0))
        })
        .collect();
    let count = all.len() as f64;
    match number.take {
        Take::Last => all.last().copied(),
        Take::First => all.first().copied(),
        Take::Least => all.iter().copied().reduce(f64::min),
        Take::Most => all.iter().copied().reduce(f64::max),
        Take::Sum => (count > 0.0).then(|| all.iter().sum()),
        Take::Mean => (count > 0.0).then(|| all.iter().sum::<f64>() / count),
        Take::Count => Some(count),
    }
}

/// The expressions of which no line of `printed` is one.
pub(super) fn missing<'p>(program: &'p Program, printed: &str) -> Vec<&'p str> {
    let is_missing = |expression: &&String| !matches_line(expression, printed);
    program.prints.iter().filter(is_missing).map(String::as_str).collect()
}

/// Whether a line of `printed` matches.
pub(super) fn matches_line(expression: &str, printed: &str) -> bool {
    let expression = Regex::new(expression);
    expression.is_ok_and(|expression| printed.lines().any(|line| expression.is_match(line)))
}

/// What is wrong with an expression, if anything is.
pub(super) fn check(expression: &str) -> Result<(), String> {
    Regex::new(expression)
        .map(drop)
        .map_err(|error| format!("{expression:?} is no expression: {error}"))
}

/// The last lines of what a program has printed.
pub(super) fn tail(printed: &str) -> String {
    const LINES: usize = 4;
    let lines: Vec<&str> = printed.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_lines_that_match() {
        const PRINTED: &str = "rate 3.5 Gb/s\nnothing\nrate 1.5 Gb/s\nrate 2 Gb/s\n";
        let take = |take| {
            let (name, pattern) = ("x".to_owned(), r"^rate ([\d.]+)".to_owned());
            number(&Number { line: 1, name, pattern, take }, PRINTED)
        };
        let all = [Take::Last, Take::First, Take::Least, Take::Most, Take::Sum, Take::Count];
        assert_eq!(all.map(take), [2.0, 3.5, 1.5, 3.5, 7.0, 3.0].map(Some));
        assert!(take(Take::Mean).is_some_and(|mean| (mean - 7.0 / 3.0).abs() < 1e-9));
        assert!(matches_line("^noth", PRINTED) && !matches_line("^othing", PRINTED));
        assert!(check("(").unwrap_err().contains("is no expression"));
        assert_eq!(tail("a\n\nb\nc\nd\ne\n"), "b\nc\nd\ne");
    }
}
