//! The terminal view: findings on top, rates below, drawn anew after each look.

use core::time::Duration;
use std::time::Instant;

use ops::watch::Finding;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Style};
use ratatui::text::{Line as TextLine, Text};
use ratatui::widgets::Paragraph;

use super::{Look, Looker, rows, verdict};
use crate::failure::Failure;
use crate::view::{Line, table};

/// What a screen shows.
struct Shown<'a> {
    ports: usize,
    at: Duration,
    wrong: Vec<String>,
    is_wrong: bool,
    told: &'a [String],
    lines: Vec<Line>,
}

pub(super) fn run(arguments: &Look, mut looker: Looker<'_>) -> Result<(), Failure> {
    looker.look()?;
    let mut terminal = ratatui::try_init()
        .map_err(|error| Failure::new(format!("cannot use the terminal: {error}")))?;
    let result = live(arguments, &mut looker, &mut terminal);
    ratatui::restore();
    result?;
    verdict(looker.found)
}

fn live(
    arguments: &Look,
    looker: &mut Looker<'_>,
    terminal: &mut ratatui::DefaultTerminal,
) -> Result<(), Failure> {
    let cannot = |error| Failure::new(format!("cannot use the terminal: {error}"));
    let interval = Duration::from_secs_f64(arguments.interval);
    let (mut first, mut due) = (0, Instant::now() + interval);
    loop {
        let findings: Vec<&Finding> = looker.watch.open().collect();
        let shown = Shown {
            ports: looker.ports(),
            at: looker.at,
            wrong: looker.wrong(&findings),
            is_wrong: !findings.is_empty(),
            told: &looker.told,
            lines: rows::lines(&looker.rows, &findings),
        };
        first = first.min(shown.lines.len().saturating_sub(1));
        terminal.draw(|frame| draw(frame, &shown, first)).map_err(cannot)?;
        let left = due.saturating_duration_since(Instant::now());
        if !event::poll(left).map_err(cannot)? {
            looker.look()?;
            due = Instant::now() + interval;
            continue;
        }
        let Event::Key(key) = event::read().map_err(cannot)? else { continue };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Ok(()),
            KeyCode::Down | KeyCode::Char('j') => first += 1,
            KeyCode::Up | KeyCode::Char('k') => first = first.saturating_sub(1),
            KeyCode::PageDown => first += 10,
            KeyCode::PageUp => first = first.saturating_sub(10),
            KeyCode::Home => first = 0,
            _ => {}
        }
    }
}

fn draw(frame: &mut Frame<'_>, shown: &Shown<'_>, first: usize) {
    let width = usize::from(frame.area().width);
    let mut wrong: Vec<String> =
        shown.wrong.iter().flat_map(|line| rows::wrapped(line, width)).collect();
    wrong.extend(
        shown.told.iter().rev().take(2).flat_map(|line| rows::wrapped(&format!("> {line}"), width)),
    );
    // Half of the screen at most; the rates are what this is for.
    wrong.truncate(usize::from(frame.area().height / 2).max(1));
    let height = wrong.len() as u16;
    let [title, findings, rates] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(height + 1),
        Constraint::Min(3),
    ])
    .areas(frame.area());
    let text = format!(
        "ferroce watch   {} ports   {}   q ends, arrows move",
        shown.ports,
        rows::time(shown.at)
    );
    frame.render_widget(
        TextLine::from(text).style(Style::new().fg(Color::Black).bg(Color::Gray)),
        title,
    );
    let color = if shown.is_wrong { Color::Red } else { Color::Green };
    let text: Vec<TextLine<'_>> = wrong.into_iter().map(TextLine::from).collect();
    frame.render_widget(Paragraph::new(Text::from(text)).style(Style::new().fg(color)), findings);
    if shown.lines.is_empty() {
        let text = if shown.ports == 0 {
            "no RDMA device, no interface with statistics and no program over Ferroce here"
        } else {
            "rates appear after the second look"
        };
        frame.render_widget(Paragraph::new(text), rates);
    } else {
        frame.render_widget(table(&rows::COLUMNS, &shown.lines, first), rates);
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use snapbox::{assert_data_eq, str};

    use super::*;
    use crate::watch::rows::tests::{finding, row};

    #[test]
    fn a_terminal_of_80_by_24_shows_findings_and_rates() {
        let finding = finding();
        let rows = [row("h0", Some(3), 2_400.0), row("h1", Some(3), 0.0), row("h1", None, 0.0)];
        let shown = Shown {
            ports: 3,
            at: Duration::from_secs(7),
            wrong: rows::wrong(&[&finding], &[], &[]),
            is_wrong: true,
            told: &["pause-storm h0: take the NIC out of service".to_owned()],
            lines: rows::lines(&rows, &[&finding]),
        };
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| draw(frame, &shown, 0)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| (0..80).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        let text: Vec<String> = (0..24).map(|y| line(y).trim_end().to_owned()).collect();
        assert_data_eq!(
            text.join("\n").trim_end().to_owned() + "\n",
            str![[r#"
ferroce watch   3 ports   7.0 s   q ends, arrows move
! pause-storm h0, priority 3,4: tor0/h0 is paused all the time, and 1081344
   bytes for it do not drain
> pause-storm h0: take the NIC out of service

PORT               PR RX-PS/s PAUSED TX-PS/s MARK/s  CNP/s DROP/s RETX/s  bit/s
tor0/h0             3    2.4k    50%       -      0      -      0      -    38G
tor0/h1             3       0    50%       -      0      -      0      -    38G
tor0/h1             -       -      -       -      0      -      0      -    38G

"#]]
        );
    }
}
