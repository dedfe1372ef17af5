//! Findings and rates as lines of 80 columns.

use core::time::Duration;

use ops::watch::{Finding, Kind, Row};
use telemetry::words;

use crate::view::{self, Column, Line, fit, percent, short};

const fn number(title: &'static str, width: u16) -> Column {
    Column { title, width, number: true }
}

/// The columns; RX of pauses is what the peer sent.
pub(super) const COLUMNS: [Column; 10] = [
    Column { title: "PORT", width: 18, number: false },
    number("PR", 2),
    number("RX-PS/s", 7),
    number("PAUSED", 6),
    number("TX-PS/s", 7),
    number("MARK/s", 6),
    number("CNP/s", 6),
    number("DROP/s", 6),
    number("RETX/s", 6),
    number("bit/s", 6),
];

/// The rates as lines of the table.
pub(super) fn lines(rows: &[Row], findings: &[&Finding]) -> Vec<Line> {
    let wrong = |row: &Row| {
        findings.iter().any(|finding| {
            let at = finding.port == row.port
                || finding.who == row.port.device
                || finding.who == row.port.host;
            at && row.priority.is_none_or(|priority| finding.priorities >> priority & 1 != 0)
        })
    };
    let line = |row: &Row| Line {
        cells: vec![
            row.port.to_string(),
            row.priority.map_or_else(|| "-".to_owned(), |priority| priority.to_string()),
            short(row.pauses_received),
            percent(row.paused),
            short(row.pauses_sent),
            short(row.marks),
            short(row.cnps),
            short(row.drops),
            short(row.retransmissions),
            short(row.bits),
        ],
        wrong: wrong(row),
    };
    let mut lines: Vec<Line> = rows.iter().map(line).collect();
    // What is wrong comes first, in the order that they have.
    lines.sort_by_key(|line| !line.wrong);
    lines
}

pub(super) fn text(rows: &[Row], findings: &[&Finding]) -> String {
    view::text(&COLUMNS, &lines(rows, findings))
}

/// The first lines: how much is looked at, and what is wrong.
pub(super) fn summary(ports: usize, at: Duration, wrong: &[String], told: &[String]) -> String {
    let mut text = format!("{ports} {}, {}\n", if ports == 1 { "port" } else { "ports" }, time(at));
    text += &wrong.join("\n");
    text.push('\n');
    for line in told {
        text += &format!("  > {line}\n");
    }
    text
}

/// The most files that cannot be read which are named.
const UNREAD_MAX: usize = 5;

/// What is wrong, a line each; that nothing is, only if all was read and there was time to judge it.
pub(super) fn wrong(
    findings: &[&Finding],
    unjudged: &[(Kind, Duration)],
    unread: &[String],
) -> Vec<String> {
    if findings.is_empty() && unjudged.is_empty() && unread.is_empty() {
        return vec!["nothing looks wrong".to_owned()];
    }
    let mut lines: Vec<String> = findings.iter().map(|finding| format!("! {finding}")).collect();
    if findings.is_empty() {
        lines.push("nothing found so far".to_owned());
    }
    lines.extend(unread.iter().take(UNREAD_MAX).map(|note| format!("? {note}")));
    if let Some(more) = unread.len().checked_sub(UNREAD_MAX).filter(|more| *more > 0) {
        lines.push(format!("? {more} others cannot be read either"));
    }
    lines.extend(too_soon(unjudged).into_iter().flat_map(|line| wrapped(&line, words::COLUMNS)));
    lines
}

/// What there was no time to judge, if anything.
pub(super) fn too_soon(unjudged: &[(Kind, Duration)]) -> Option<String> {
    let length = |takes: Duration| match takes {
        Duration::ZERO => "two looks".to_owned(),
        takes => time(takes),
    };
    let each = unjudged.iter().map(|(kind, takes)| format!("{kind} ({})", length(*takes)));
    let each = each.collect::<Vec<_>>().join(", ");
    (!each.is_empty()).then(|| format!("too soon to judge {each}"))
}

/// `text` in lines of `width`, the second and further ones indented.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().map_or(0, |line| line.chars().count());
        if last > 0 && last + 1 + word.chars().count() > width {
            lines.push("   ".to_owned());
        }
        if let Some(line) = lines.last_mut() {
            if !line.trim().is_empty() {
                line.push(' ');
            }
            line.push_str(&fit(word, width.saturating_sub(3)));
        }
    }
    lines
}

/// A time as people read it.
pub(super) fn time(at: Duration) -> String {
    match at.as_secs() {
        0 if at < Duration::from_millis(100) => format!("{:.3} ms", at.as_secs_f64() * 1e3),
        0..60 => format!("{:.1} s", at.as_secs_f64()),
        seconds => format!("{}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use snapbox::{assert_data_eq, str};

    use super::*;
    use ops::watch::{Kind, PortName};

    pub(in crate::watch) fn row(port: &str, priority: Option<u8>, pauses: f64) -> Row {
        Row {
            port: PortName::new("tor0", port),
            priority,
            pauses_received: priority.map(|_| pauses),
            paused: priority.map(|_| 0.5),
            pauses_sent: None,
            marks: Some(0.0),
            cnps: None,
            drops: Some(0.0),
            retransmissions: None,
            bits: Some(38.5e9),
        }
    }

    pub(in crate::watch) fn finding() -> Finding {
        Finding {
            kind: Kind::PauseStorm,
            who: "h0".into(),
            priorities: 0b1_1000,
            port: PortName::new("tor0", "h0"),
            since: Duration::ZERO,
            found: Duration::from_secs(2),
            evidence: "tor0/h0 is paused all the time, and 1081344 bytes for it do not drain"
                .into(),
        }
    }

    #[test]
    fn what_is_wrong_stands_on_top_and_no_line_is_longer_than_a_terminal() {
        let rows = [
            row("Ethernet120-of-a-long-name", Some(3), 12_345.0),
            row("h0", Some(3), 1.5),
            row("h0", None, 0.0),
        ];
        let finding = finding();
        let text = summary(3, Duration::from_secs(75), &wrong(&[&finding], &[], &[]), &[])
            + &text(&rows, &[&finding]);
        assert!(text.lines().skip(2).all(|line| line.chars().count() <= 80), "{text}");
        assert_data_eq!(
            text,
            str![[r#"
3 ports, 0:01:15
! pause-storm h0, priority 3,4: tor0/h0 is paused all the time, and 1081344 bytes for it do not drain
PORT               PR RX-PS/s PAUSED TX-PS/s MARK/s  CNP/s DROP/s RETX/s  bit/s
tor0/h0             3     1.5    50%       -      0      -      0      -    38G
tor0/h0             -       -      -       -      0      -      0      -    38G
tor0/Ethe…ong-name  3     12k    50%       -      0      -      0      -    38G

"#]]
        );
    }

    #[test]
    fn long_evidence_is_wrapped() {
        let lines = wrapped(&wrong(&[&finding()], &[], &[])[0], 40);
        assert!(lines.iter().all(|line| line.chars().count() <= 40), "{lines:?}");
        assert!(lines.len() > 1 && lines[1].starts_with("   "), "{lines:?}");
    }
}
