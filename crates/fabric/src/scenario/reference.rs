//! The reference of everything that may be written in a scenario: on a terminal, and as a page.
//!
//! All of it comes from where keys are declared (`table.rs`).

use core::fmt;

use super::error::unit_of;
use telemetry::words::{COLUMNS, wrapped};

/// A table: what can be written in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableText {
    /// As it is written, with its kind if it has one: `[nic]`, `[[workload]] kind = "incast"`. The file
    /// itself has none.
    pub name: String,
    /// What it is about.
    pub about: String,
    /// Its keys.
    pub keys: Vec<KeyText>,
}

/// A key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyText {
    /// As it is written.
    pub name: &'static str,
    /// The unit of its number, if it has one.
    pub unit: Option<&'static str>,
    /// What may be written, with its bounds.
    pub accepts: String,
    /// What counts if it is not written; "needed" if it has to be.
    pub default: String,
    /// What it is.
    pub about: String,
}

impl KeyText {
    pub(super) fn new(name: &'static str, about: &str, accepts: &str, default: String) -> Self {
        let unit = unit_of(name).map(|unit| unit.name);
        let (accepts, about) = (accepts.to_owned(), about.trim().to_owned());
        Self { name, unit, accepts, default, about }
    }
}

impl TableText {
    pub(super) fn new(name: &str, about: &str, keys: Vec<KeyText>) -> Self {
        Self { name: name.to_owned(), about: about.trim().to_owned(), keys }
    }

    /// A table that has kinds, with the key by which they differ.
    pub(super) fn of_kinds(name: &str, about: &str, selector: &'static str, accepts: &str) -> Self {
        let about_key = "Which other keys the table has.";
        let key = KeyText::new(selector, about_key, accepts, "needed".to_owned());
        Self::new(name, about, vec![key])
    }

    /// The path of `key` in the table `name`.
    pub(super) fn path(name: &str, key: &str) -> String {
        let table = name.split(' ').next().unwrap_or("").trim_matches(['[', ']']);
        if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") }
    }

    /// Whether it is meant by a path, with or without brackets, or by its kind: `nic.tcp`, `incast`.
    pub fn is_called(&self, name: &str) -> bool {
        let (table, kind) = self.name.split_once(' ').unwrap_or((&self.name, ""));
        let kind = kind.rsplit('"').nth(1).unwrap_or("");
        let name = name.trim_matches(['[', ']']);
        !name.is_empty() && (table.trim_matches(['[', ']']) == name || kind == name)
    }
}

impl fmt::Display for TableText {
    /// On a terminal of 80 columns.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.name.is_empty() {
            writeln!(f, "{}", self.name)?;
        }
        f.write_str(&wrapped("", &self.about, COLUMNS))?;
        let width = self.keys.iter().map(|key| key.name.len()).max().unwrap_or(0);
        for key in &self.keys {
            let unit = key.unit.map(|unit| format!(", in {unit}")).unwrap_or_default();
            let default = match key.default.as_str() {
                "needed" => "needed".to_owned(),
                default => format!("otherwise {default}"),
            };
            f.write_str("\n")?;
            let name = format!("  {:width$}  ", key.name);
            let accepts = format!("{}{unit}; {default}", key.accepts);
            f.write_str(&wrapped(&name, &accepts, COLUMNS))?;
            f.write_str(&wrapped(&" ".repeat(name.len()), &key.about, COLUMNS))?;
        }
        Ok(())
    }
}

/// The page of the book, in Markdown.
pub fn page(tables: &[TableText]) -> String {
    let mut page = String::from(
        "# What may be written in a scenario\n\n\
         `ferroce sim --keys` prints this page, and `ferroce sim --keys nic` one table of it. Both come \
         from the code\nthat reads scenarios. Numbers are in the unit that their key ends with.\n",
    );
    for table in tables {
        let title = if table.name.is_empty() { "The file" } else { &format!("`{}`", table.name) };
        page += &format!("\n## {title}\n\n{}\n\n", table.about);
        page += "| key | unit | what may be written | otherwise | what it is |\n|---|---|---|---|---|\n";
        for KeyText { name, unit, accepts, default, about } in &table.keys {
            let unit = unit.unwrap_or("");
            page += &format!("| `{name}` | {unit} | {accepts} | {default} | {about} |\n");
        }
    }
    page
}
