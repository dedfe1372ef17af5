//! Pages: one HTML file with text, tables and figures, which opens without a network.
//!
//! ```text
//!   title, "Simulated: <model>" or "Measured: <where>"
//!   section ─► text, notices, tables, figures, replays
//!   the programs that draw (vendor/), once, and only if there is something to draw
//! ```
//!
//! Everything that comes from outside is escaped: names of hosts and titles of scenarios are data.

mod figure;
mod replay;

use core::fmt::Write as _;

pub use figure::Figure;
pub use replay::{LEVELS, Replay, ReplayFrame, ReplayNode};

use crate::limits::PAGE_ROWS_MAX;
use crate::{Cell, Kind, Table};

const STYLE: &str = include_str!("style.css");
const START: &str = include_str!("start.js");
const REPLAY: &str = include_str!("replay.js");
const VEGA: &str = include_str!("../../vendor/vega/vega.min.js");
const VEGA_LITE: &str = include_str!("../../vendor/vega-lite/vega-lite.min.js");
const VEGA_EMBED: &str = include_str!("../../vendor/vega-embed/vega-embed.min.js");

/// The origin of a page about programs on modelled links.
const IN_LAB: &str = "a lab run";

/// A page that says where its numbers are from: a simulation, a measurement, or a lab.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    /// "simulated", "measured" or "a lab run".
    origin: &'static str,
    model: String,
    body: String,
    figures: usize,
    replays: usize,
}

/// A part of a section.
#[derive(Clone, Debug)]
pub enum Block<'a> {
    /// A paragraph; what stands between backticks is set as code.
    Text(&'a str),
    /// A paragraph that must not be overlooked: a warning, a verdict.
    Notice(&'a str),
    /// Lines as they are in a terminal.
    Lines(&'a str),
    /// A table, under a caption; the caption may be empty.
    Table(&'a Table, &'a str),
    /// A figure.
    Figure(&'a Figure<'a>),
    /// A drawing with a slider over time.
    Replay(&'a Replay),
}

impl Page {
    /// A page without sections. `model` says what simulated the numbers, and with which settings:
    /// it stands under the title, behind the word "Simulated".
    pub fn simulated(title: &str, model: &str) -> Self {
        Self::of("simulated", title, model)
    }

    /// A page without sections. `place` says where the numbers were measured: it stands under the title,
    /// behind the word "Measured".
    pub fn measured(title: &str, place: &str) -> Self {
        Self::of("measured", title, place)
    }

    /// A page without sections. `model` says which modelled links real programs ran over, and how fast: it stands
    /// under the title, behind the words "Lab run".
    pub fn in_lab(title: &str, model: &str) -> Self {
        Self::of(IN_LAB, title, model)
    }

    fn of(origin: &'static str, title: &str, model: &str) -> Self {
        let (title, model) = (title.to_owned(), model.to_owned());
        Self { title, origin, model, body: String::new(), figures: 0, replays: 0 }
    }

    /// Begins a section.
    pub fn section(&mut self, heading: &str) -> &mut Self {
        let _ = writeln!(self.body, "<h2>{}</h2>", escape(heading));
        self
    }

    /// Adds a block to the section.
    pub fn add(&mut self, block: &Block<'_>) -> &mut Self {
        // Writing to a string cannot fail.
        let _ = match block {
            Block::Text(text) => writeln!(self.body, "<p>{}</p>", prose(text)),
            Block::Notice(text) => writeln!(self.body, "<p class=\"notice\">{}</p>", prose(text)),
            Block::Lines(text) => writeln!(self.body, "<pre>{}</pre>", escape(text)),
            Block::Table(table, caption) => self.table(table, caption),
            Block::Figure(figure) => self.figure(figure),
            Block::Replay(replay) => self.replay(replay),
        };
        self
    }

    fn table(&mut self, table: &Table, caption: &str) -> core::fmt::Result {
        let body = &mut self.body;
        body.push_str("<div class=\"table\"><table>\n");
        if !caption.is_empty() {
            writeln!(body, "<caption>{}</caption>", prose(caption))?;
        }
        body.push_str("<thead><tr>");
        let class = |kind| if kind == Kind::Text { "" } else { " class=\"number\"" };
        for column in table.columns() {
            write!(body, "<th{}>{}</th>", class(column.kind()), escape(&figure::titled(column)))?;
        }
        body.push_str("</tr></thead>\n<tbody>\n");
        for row in 0..table.len().min(PAGE_ROWS_MAX) {
            body.push_str("<tr>");
            for column in table.columns() {
                let text = shown(column.cell(row));
                write!(body, "<td{}>{}</td>", class(column.kind()), escape(&text))?;
            }
            body.push_str("</tr>\n");
        }
        body.push_str("</tbody></table></div>\n");
        match table.len().saturating_sub(PAGE_ROWS_MAX) {
            0 => Ok(()),
            more => writeln!(body, "<p class=\"caption\">{more} rows more are not shown.</p>"),
        }
    }

    fn figure(&mut self, figure: &Figure<'_>) -> core::fmt::Result {
        if let Some(text) = figure.instead() {
            if !figure.headline().is_empty() {
                writeln!(self.body, "<h3>{}</h3>", escape(figure.headline()))?;
            }
            return writeln!(self.body, "<p>{}</p>", escape(&text));
        }
        self.figures += 1;
        let number = self.figures;
        let specification = script_data(&figure.to_vega_lite());
        let body = &mut self.body;
        body.push_str("<figure>\n");
        if !figure.headline().is_empty() {
            writeln!(body, "<h3>{}</h3>", escape(figure.headline()))?;
        }
        writeln!(body, "<div class=\"vega\" id=\"figure-{number}\"></div>")?;
        writeln!(
            body,
            "<script type=\"application/json\" data-for=\"figure-{number}\">{specification}</script>"
        )?;
        if !figure.legend().is_empty() {
            writeln!(body, "<figcaption>{}</figcaption>", prose(figure.legend()))?;
        }
        body.push_str("</figure>\n");
        Ok(())
    }

    fn replay(&mut self, replay: &Replay) -> core::fmt::Result {
        self.replays += 1;
        let number = self.replays;
        let data = script_data(&replay.to_json());
        writeln!(
            self.body,
            "<div class=\"replay\" id=\"replay-{number}\"></div>\n\
             <script type=\"application/json\" data-for=\"replay-{number}\">{data}</script>"
        )
    }

    /// The file.
    pub fn to_html(&self) -> String {
        let (title, model) = (escape(&self.title), escape(&self.model));
        let origin = self.origin;
        let stated = match origin {
            "simulated" => "Simulated",
            IN_LAB => "Lab run",
            _ => "Measured",
        };
        let mut scripts = String::new();
        let figures: &[&str] =
            if self.figures > 0 { &[VEGA, VEGA_LITE, VEGA_EMBED, START] } else { &[] };
        let replays: &[&str] = if self.replays > 0 { &[REPLAY] } else { &[] };
        for program in figures.iter().chain(replays) {
            let _ = writeln!(scripts, "<script>{program}</script>");
        }
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"generator\" content=\"ferroce\">\n\
             <title>{title} ({origin})</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
             <header>\n<h1>{title}</h1>\n<p><strong>{stated}:</strong> {model}</p>\n</header>\n\
             <main>\n{}</main>\n{scripts}</body>\n</html>\n",
            self.body
        )
    }
}

/// Text as HTML shows it.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Escaped text, where every second part between backticks is code.
fn prose(text: &str) -> String {
    let mut html = String::new();
    for (index, part) in text.split('`').enumerate() {
        let part = escape(part);
        if index % 2 == 0 {
            html += &part;
        } else {
            html += &format!("<code>{part}</code>");
        }
    }
    html
}

/// JSON that is safe in a script element: nothing in it ends the element or begins a comment.
fn script_data(value: &serde_json::Value) -> String {
    value.to_string().replace('<', "\\u003c")
}

/// A cell for a reader: integers in groups of three digits, floats with four digits that matter.
fn shown(cell: Cell<'_>) -> String {
    match cell {
        Cell::Missing => "–".to_owned(),
        Cell::Text(text) => text.to_owned(),
        Cell::Integer(value) => grouped(&value.to_string()),
        Cell::Float(value) if !value.is_finite() => "–".to_owned(),
        // A count has no decimals, though others of its column have.
        Cell::Float(value) if value.fract() == 0.0 && value.abs() < 1e15 => {
            grouped(&(value as i64).to_string())
        }
        Cell::Float(value) => {
            let whole = value.abs().log10().floor().max(0.0) as usize;
            let text = format!("{value:.*}", 3usize.saturating_sub(whole));
            match text.split_once('.') {
                Some((before, after)) => format!("{}.{after}", grouped(before)),
                None => grouped(&text),
            }
        }
    }
}

fn grouped(digits: &str) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |rest| ("-", rest));
    let mut text = sign.to_owned();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 && digits.len() > 4 {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Page {
        let mut table =
            Table::new("t").texts("host").integers("sent", "bytes").floats("rate", "gbps");
        table.push(["<h0>".into(), 1_234_567u64.into(), 99.123_45.into()]);
        table.push(["h1".into(), Cell::Missing, 0.012_34.into()]);
        let figure = Figure::bar(&table, "host", "rate_gbps").title("Rate").caption("By `host`.");
        let mut page = Page::simulated("A <title>", "store & forward");
        page.section("Hosts")
            .add(&Block::Text("Who sent `how much`, at a < b."))
            .add(&Block::Notice("Nobody paused."))
            .add(&Block::Lines("  as\n  it is"))
            .add(&Block::Table(&table, "All hosts"))
            .add(&Block::Figure(&figure));
        page
    }

    #[test]
    fn a_page_of_measurements_does_not_say_that_it_is_simulated() {
        let html = Page::measured("Bench", "soft NICs").to_html();
        assert!(html.contains("<title>Bench (measured)</title>"));
        assert!(html.contains("<strong>Measured:</strong> soft NICs"));
        assert!(!html.to_lowercase().contains("simulated"));
    }

    #[test]
    fn a_page_says_that_it_is_simulated_and_by_which_model() {
        let html = page().to_html();
        assert!(html.contains("<title>A &lt;title&gt; (simulated)</title>"));
        assert!(html.contains("<strong>Simulated:</strong> store &amp; forward"));
    }

    #[test]
    fn text_is_escaped_wherever_it_goes() {
        let html = page().to_html();
        assert!(html.contains("<p>Who sent <code>how much</code>, at a &lt; b.</p>"));
        assert!(
            html.contains("<td>&lt;h0&gt;</td><td class=\"number\">1\u{202f}234\u{202f}567</td>")
        );
        assert!(html.contains("<td class=\"number\">99.12</td>"));
        assert!(html.contains("<td class=\"number\">–</td><td class=\"number\">0.012</td>"));
        assert!(html.contains("\"x\":\"\\u003ch0>\""), "no tag inside a script");
    }

    #[test]
    fn a_page_carries_what_draws_it_and_asks_nobody_else() {
        let html = page().to_html();
        let scripts = html.matches("<script>").count();
        assert_eq!(scripts, 4);
        assert_eq!(html.matches("</script>").count(), scripts + 1, "no program ends its element");
        assert!(!html.contains("src=\"http") && !html.contains("sourceMappingURL"));
        assert_eq!(html.matches("class=\"vega\"").count(), 1);
        let mut plain = Page::simulated("Plain", "none");
        plain.section("One").add(&Block::Text("No figure."));
        assert!(!plain.to_html().contains("<script"));
    }

    #[test]
    fn a_long_table_says_what_it_hides() {
        let mut table = Table::new("long").integers("n", "");
        for n in 0..PAGE_ROWS_MAX + 3 {
            table.push([n.into()]);
        }
        let mut page = Page::simulated("Long", "none");
        page.add(&Block::Table(&table, ""));
        let html = page.to_html();
        assert_eq!(html.matches("<tr><td").count(), PAGE_ROWS_MAX);
        assert!(html.contains("3 rows more are not shown."));
    }
}
