//! `lab top` in a terminal: draws, and listens to keys.

use core::time::Duration;
use std::io;
use std::time::Instant;

use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line as Drawn, Span};
use ratatui::widgets::Paragraph;

use super::screen::{Grid, Level, Line, Screen, Sort};

/// What comes after a look.
#[derive(Debug)]
pub(super) enum Next {
    /// This is to be shown.
    Show(Screen),
    /// There is nothing more to see: this is to be said.
    End(String),
}

/// What the person at the keys wants to see.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wish {
    sort: Sort,
    /// Rows of the first table that are above the first one shown.
    scroll: usize,
    quits: bool,
}

/// Shows what `look` sees, every so often, until q is pressed. Returns what is to be said at the end.
///
/// # Errors
/// Those of the terminal.
pub(super) fn watch(every: Duration, mut look: impl FnMut() -> Next) -> io::Result<Option<String>> {
    let mut terminal = ratatui::try_init()?;
    let outcome = (|| {
        let mut wish = Wish::default();
        loop {
            let mut screen = match look() {
                Next::Show(screen) => screen,
                Next::End(text) => return Ok(Some(text)),
            };
            let until = Instant::now() + every;
            loop {
                if let Some(first) = screen.grids.first_mut() {
                    first.sort(wish.sort);
                    wish.scroll = wish.scroll.min(first.rows.len().saturating_sub(1));
                }
                terminal.draw(|frame| draw(frame, &screen, wish))?;
                if !event::poll(until.saturating_duration_since(Instant::now()))? {
                    break;
                }
                let columns = screen.grids.first().map_or(0, |grid| grid.columns.len());
                if let Event::Key(key) = event::read()?
                    && key.kind == KeyEventKind::Press
                {
                    wish.hear(key.code, key.modifiers, columns);
                }
                if wish.quits {
                    return Ok(None);
                }
            }
        }
    })();
    ratatui::try_restore()?;
    outcome
}

/// The keys, as the last line says them.
const KEYS: &str = "q quit   ←→ sort   ↑↓ scroll";

impl Wish {
    fn hear(&mut self, key: KeyCode, with: KeyModifiers, columns: usize) {
        match key {
            KeyCode::Char('c') if with.contains(KeyModifiers::CONTROL) => self.quits = true,
            KeyCode::Char('q') | KeyCode::Esc => self.quits = true,
            KeyCode::Right | KeyCode::Char('s') => self.sort = self.sort.step(columns, true),
            KeyCode::Left => self.sort = self.sort.step(columns, false),
            KeyCode::Down | KeyCode::Char('j') => self.scroll += 1,
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::PageDown => self.scroll += PAGE,
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(PAGE),
            KeyCode::Home => self.scroll = 0,
            _ => {}
        }
    }
}

const PAGE: usize = 10;

fn style(level: Level) -> Style {
    match level {
        Level::Quiet => Style::new().fg(Color::DarkGray),
        Level::Fine => Style::new(),
        Level::Odd => Style::new().fg(Color::Yellow),
        Level::Wrong => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
    }
}

/// Draws a screen: the first table has the room that the others leave.
fn draw(frame: &mut Frame<'_>, screen: &Screen, wish: Wish) {
    let area = frame.area();
    let mut lines: Vec<Drawn<'_>> = screen.head.iter().map(drawn).collect();
    let room = usize::from(area.height).saturating_sub(lines.len() + 1);
    // The others have a third, or what the first does not need.
    let others = screen.grids.iter().skip(1);
    let rest: usize = others.map(|grid| grid.rows.len().max(1) + 2).sum();
    let needed = screen.grids.first().map_or(0, |grid| grid.rows.len() + 2);
    let rest = rest.min((room / 3).max(room.saturating_sub(needed)));
    if let Some(first) = screen.grids.first() {
        table(&mut lines, first, wish, room - rest);
    }
    let mut left = rest;
    for grid in screen.grids.iter().skip(1) {
        let before = lines.len();
        table(&mut lines, grid, Wish::default(), left);
        left = left.saturating_sub(lines.len() - before);
    }
    let height = area.height.saturating_sub(1);
    lines.truncate(usize::from(height));
    frame.render_widget(Paragraph::new(lines), Rect { height, ..area });
    let sort = screen.grids.first().map_or("", |grid| wish.sort.name(grid));
    let foot = format!("{KEYS}   sorted by {sort}");
    let foot = Drawn::styled(foot, Style::new().add_modifier(Modifier::REVERSED));
    frame.render_widget(Paragraph::new(foot), Rect { y: height, height: 1, ..area });
}

fn drawn(line: &Line) -> Drawn<'_> {
    Drawn::styled(line.text.as_str(), style(line.level))
}

/// An empty line, the header, and as many rows as `room` leaves.
fn table<'a>(lines: &mut Vec<Drawn<'a>>, grid: &'a Grid, wish: Wish, room: usize) {
    if room < 3 {
        return;
    }
    let rows = room - 2;
    let shown = grid.rows.len().saturating_sub(wish.scroll).min(rows);
    lines.push(Drawn::default());
    lines.push(Drawn::styled(grid.header(), Style::new().add_modifier(Modifier::BOLD)));
    for row in &grid.rows[grid.rows.len().min(wish.scroll)..][..shown] {
        let mut spans = Vec::new();
        for (text, cell) in grid.cells(row) {
            spans.push(Span::styled(
                text,
                style(if row.level == Level::Quiet { row.level } else { cell.level }),
            ));
            spans.push(Span::raw(" "));
        }
        lines.push(Drawn::from(spans));
    }
    if grid.rows.is_empty() {
        lines.push(Drawn::styled(grid.empty, style(Level::Quiet)));
    } else if wish.scroll + shown < grid.rows.len() && shown > 1 {
        let more = grid.rows.len() - wish.scroll - shown + 1;
        lines.pop();
        lines.push(Drawn::styled(format!("… {more} more"), style(Level::Quiet)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::screen::Row;
    use super::*;
    use crate::view::Column;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    const COLUMNS: &[Column] = &[
        Column { title: "PORT", width: 12, number: false },
        Column { title: "DROPS", width: 8, number: true },
    ];

    fn screen(ports: usize) -> Screen {
        let rows = (0..ports)
            .map(|port| Row::default().text(format!("port {port}")).number(0.0, Level::Fine, "0"));
        let ports = Grid { columns: COLUMNS, rows: rows.collect(), empty: "none" };
        let programs = Grid { columns: COLUMNS, rows: Vec::new(), empty: "no programs" };
        Screen { head: vec![Line::new(Level::Fine, "a lab")], grids: vec![ports, programs] }
    }

    fn shown(screen: &Screen, wish: Wish, size: (u16, u16)) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
        terminal.draw(|frame| draw(frame, screen, wish)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| (0..size.0).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..size.1).map(|y| line(y).trim_end().to_owned()).collect()
    }

    #[test]
    fn a_long_table_leaves_room_for_what_is_below_and_scrolls() {
        let lines = shown(&screen(50), Wish::default(), (80, 24));
        assert_eq!((lines[0].as_str(), lines[2].as_str()), ("a lab", "PORT            DROPS"));
        assert_eq!(lines[3], "port 0              0");
        assert!(lines.contains(&"no programs".to_owned()), "{lines:#?}");
        assert!(lines.iter().any(|line| line.starts_with("… ") && line.ends_with(" more")));
        assert!(lines[23].starts_with("q quit") && lines[23].ends_with("sorted by trouble"));
        let wish = Wish { scroll: 48, ..Wish::default() };
        let lines = shown(&screen(50), wish, (80, 24));
        assert_eq!([&*lines[3], &*lines[4]], ["port 48             0", "port 49             0"]);
    }

    #[test]
    fn a_terminal_of_any_size_is_drawn_on() {
        for size in [(80, 24), (1, 1), (200, 3), (20, 60)] {
            for ports in [0, 1, 300] {
                shown(&screen(ports), Wish { scroll: ports, ..Wish::default() }, size);
            }
        }
    }

    #[test]
    fn keys_sort_scroll_and_quit() {
        let mut wish = Wish::default();
        let none = KeyModifiers::NONE;
        for key in [KeyCode::Right, KeyCode::Right, KeyCode::Left, KeyCode::Down, KeyCode::Down] {
            wish.hear(key, none, 2);
        }
        wish.hear(KeyCode::Up, none, 2);
        assert_eq!((wish.sort, wish.scroll, wish.quits), (Sort(Some(0)), 1, false));
        wish.hear(KeyCode::Char('c'), none, 2);
        assert!(!wish.quits);
        wish.hear(KeyCode::Char('c'), KeyModifiers::CONTROL, 2);
        assert!(wish.quits);
    }
}
