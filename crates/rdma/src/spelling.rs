//! What somebody meant who misspelt a name.

/// The name of `known` that somebody who wrote `unknown` is likely to have meant: one letter away, or
/// longer or shorter at its end, or two letters away.
pub fn nearest<'a>(unknown: &str, known: &[&'a str]) -> Option<&'a str> {
    if unknown.is_empty() {
        return None;
    }
    let close = known.iter().filter_map(|name| Some((distance(unknown, name)?, *name))).min();
    let within = |most: usize| {
        close.filter(|(letters, _)| *letters <= most && *letters < unknown.len()).map(|at| at.1)
    };
    let stem = |name: &&&str| {
        unknown.len() > 1 && (name.starts_with(unknown) || unknown.starts_with(**name))
    };
    within(1).or_else(|| known.iter().find(stem).copied()).or_else(|| within(2))
}

/// The longest name that is compared, in letters.
const LETTERS_MAX: usize = 63;

/// How many letters have to be changed, added or taken away (Levenshtein); `None` for what is too long.
fn distance(a: &str, b: &str) -> Option<usize> {
    let mut row: [usize; LETTERS_MAX + 1] = core::array::from_fn(|at| at);
    let length = b.chars().count();
    if length > LETTERS_MAX {
        return None;
    }
    for (index, letter) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, other) in b.chars().enumerate() {
            let change = diagonal + usize::from(letter != other);
            diagonal = row[column + 1];
            row[column + 1] = change.min(diagonal + 1).min(row[column] + 1);
        }
    }
    Some(row[length])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_counted() {
        assert_eq!(distance("leafs", "leaves"), Some(2));
        assert_eq!(distance("", "abc"), Some(3));
    }

    #[test]
    fn the_likely_name_is_found() {
        assert_eq!(nearest("leafs", &["spines", "leaves"]), Some("leaves"));
        assert_eq!(nearest("rate", &["hosts", "rate_gbps"]), Some("rate_gbps"));
        assert_eq!(nearest("colour", &["hosts", "rate_gbps"]), None);
        assert_eq!(nearest("", &["hosts"]), None);
    }
}
