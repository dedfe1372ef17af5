//! A table as it is written: the value of each key, its place in the file, and the error for a key that
//! should not be there.

use telemetry::nearest;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::ScenarioError;
use super::error::suggestion;
use super::place::{Lines, Place};
use crate::extend::Extensions;

pub(super) type Result<T> = core::result::Result<T, ScenarioError>;

/// A table of a file.
#[derive(Clone, Debug)]
pub(super) struct At<'a> {
    lines: &'a Lines,
    written: &'a DeTable<'a>,
    start: usize,
    /// Its path; empty for the file.
    pub(super) name: String,
    kind: Option<Kind>,
    /// What it may name that is not ours.
    extensions: &'a Extensions,
}

/// Why a table has the keys that it has.
#[derive(Clone, Debug)]
struct Kind {
    selector: &'static str,
    tag: &'static str,
    /// The keys of all kinds. Asked for where one is not known: to gather them costs more than to read a table.
    known: fn(&Extensions) -> Vec<&'static str>,
}

impl<'a> At<'a> {
    /// The whole of a file.
    pub(super) fn file(
        lines: &'a Lines,
        written: &'a DeTable<'a>,
        extensions: &'a Extensions,
    ) -> Self {
        Self { lines, written, start: 0, name: String::new(), kind: None, extensions }
    }

    /// What may be named in it that is not ours.
    pub(super) fn extensions(&self) -> &'a Extensions {
        self.extensions
    }

    pub(super) fn place(&self, key: &str) -> Place {
        let at = self.written.get_key_value(key).map_or(self.start, |(key, _)| key.span().start);
        Place { line: self.lines.line(at), byte: at, key: self.path(key) }
    }

    /// The table itself.
    pub(super) fn itself(&self) -> Place {
        Place { line: self.lines.line(self.start), byte: self.start, key: self.name.clone() }
    }

    /// The first of `keys` that is written.
    pub(super) fn first_of(&self, keys: &[&'static str]) -> Option<&'static str> {
        keys.iter().find(|key| self.written.contains_key(**key)).copied()
    }

    pub(super) fn wrong(&self, key: &str, message: impl Into<String>) -> ScenarioError {
        ScenarioError::at_place(&self.place(key), message)
    }

    fn path(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) }
    }

    /// A key is missing without which the table has no meaning.
    pub(super) fn lacks(&self, key: &str) -> ScenarioError {
        let error = match &self.kind {
            Some(Kind { selector, tag, .. }) => {
                self.wrong(key, format!("{selector} {tag:?} needs it"))
            }
            None => ScenarioError::at_line(self.lines, self.start, format!("{key} is missing")),
        };
        error.hint(format!("add {key} to this table"))
    }

    pub(super) fn entry(&self, key: &'static str) -> Option<Entry<'a, '_>> {
        self.written.get(key).map(|value| Entry { at: self, key, value })
    }

    /// Refuses all but `names`.
    pub(super) fn only(&self, names: &[&'static str]) -> Result<()> {
        let is_selector = |key: &str| self.kind.as_ref().is_some_and(|kind| kind.selector == key);
        let unknown = |key: &str| !names.contains(&key) && !is_selector(key);
        let keys = self.written.keys().filter(|key| unknown(key.get_ref()));
        let Some(first) = keys.min_by_key(|key| key.span().start) else { return Ok(()) };
        let key: &str = first.get_ref();
        let all = names.join(", ");
        Err(match &self.kind {
            Some(Kind { selector, tag, known }) if known(self.extensions).contains(&key) => self
                .wrong(key, format!("{selector} {tag:?} does not have it"))
                .hint(format!("its keys are {all}")),
            _ => {
                let (place, message) = (first.span().start, format!("unknown key `{key}`"));
                let error = ScenarioError::at_line(self.lines, place, message);
                match nearest(key, names) {
                    Some(name) => error.hint(format!("did you mean `{name}`?")),
                    None => error.hint(format!("the keys here are {all}")),
                }
            }
        })
    }

    /// The names and texts of a table that has nothing else.
    pub(super) fn texts(&self) -> Result<Vec<(String, String)>> {
        let of = |(name, value): (&'a Spanned<DeString<'a>>, &'a Spanned<DeValue<'a>>)| {
            let name = name.get_ref().to_string();
            match value.get_ref().as_str() {
                Some(text) => Ok((name, text.to_owned())),
                None => {
                    let wrong = self.wrong(&name, "expected a text in quotes");
                    Err(wrong.hint("write it in quotes, numbers too"))
                }
            }
        };
        self.written.iter().map(of).collect()
    }

    /// All that is written in it.
    pub(super) fn written(&self) -> &'a DeTable<'a> {
        self.written
    }

    /// Another table of the same text, as a file.
    pub(super) fn as_file(&self, written: &'a DeTable<'a>) -> Self {
        Self { written, name: String::new(), kind: None, ..self.clone() }
    }

    /// Which of `tags` the key that selects a kind has.
    pub(super) fn tag(
        &self,
        selector: &'static str,
        tags: &[&'static str],
    ) -> Result<&'static str> {
        let entry = self.entry(selector).ok_or_else(|| self.lacks(selector))?;
        entry.name_of(tags)
    }

    /// The same table, of which it is known what kind it is.
    pub(super) fn of_kind(
        &self,
        selector: &'static str,
        tag: &'static str,
        known: fn(&Extensions) -> Vec<&'static str>,
    ) -> Self {
        Self { kind: Some(Kind { selector, tag, known }), ..self.clone() }
    }
}

/// A key that is written, and its value.
#[derive(Debug)]
pub(super) struct Entry<'a, 'k> {
    at: &'k At<'a>,
    pub(super) key: &'static str,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a, 'k> Entry<'a, 'k> {
    pub(super) fn value(&self) -> &'a DeValue<'a> {
        self.value.get_ref()
    }

    /// What it may name that is not ours.
    pub(super) fn extensions(&self) -> &'a Extensions {
        self.at.extensions
    }

    pub(super) fn wrong(&self, message: impl Into<String>) -> ScenarioError {
        self.at.wrong(self.key, message)
    }

    /// A value of another type.
    pub(super) fn expected(&self, what: &str, hint: &str) -> ScenarioError {
        let found = match self.value() {
            DeValue::String(text) => format!("the text {text:?}"),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            DeValue::Boolean(flag) => flag.to_string(),
            DeValue::Datetime(date) => date.to_string(),
            DeValue::Array(_) => "a list".to_owned(),
            DeValue::Table(_) => "a table".to_owned(),
        };
        self.wrong(format!("expected {what}, and found {found}")).hint(hint)
    }

    /// One of `names`.
    pub(super) fn name_of(&self, names: &[&'static str]) -> Result<&'static str> {
        let Some(text) = self.value().as_str() else {
            return Err(self.expected("a text in quotes", "write it in quotes"));
        };
        if let Some(name) = names.iter().find(|name| **name == text) {
            return Ok(name);
        }
        let hint = suggestion(text, names, format!("one of {}", names.join(", ")));
        Err(self.wrong(format!("there is no {text:?}")).hint(hint))
    }

    /// Refuses one table where there may be several.
    pub(super) fn is_many(&self) -> Result<()> {
        let path = self.at.path(self.key);
        match self.value() {
            DeValue::Table(_) => Err(self
                .wrong("there may be several of these, and each has two brackets")
                .hint(format!("write [[{path}]] in the place of [{path}]"))),
            _ => Ok(()),
        }
    }

    /// The members of a list.
    pub(super) fn list(&self) -> Result<impl ExactSizeIterator<Item = Self> + use<'a, 'k>> {
        let wrong = || self.expected("a list in brackets", "a list is [a, b]");
        let list = self.value().as_array().ok_or_else(wrong)?;
        let (at, key) = (self.at, self.key);
        Ok(list.iter().map(move |value| Entry { at, key, value }))
    }

    /// The table that it is, under `name`, and where its keys are.
    pub(super) fn table(&self) -> Result<At<'a>> {
        self.table_under(self.at.path(self.key), self.value)
    }

    /// The tables in the table that it is, by name.
    pub(super) fn tables(&self) -> Result<Vec<(String, At<'a>)>> {
        let table = self.table()?;
        let of = |(name, value): (&'a Spanned<_>, &'a Spanned<_>)| {
            let name: &str = AsRef::<str>::as_ref(Spanned::<DeString<'a>>::get_ref(name));
            let path = table.path(name);
            Ok((name.to_owned(), self.table_under(path, value)?))
        };
        table.written.iter().map(of).collect()
    }

    fn table_under(&self, name: String, value: &'a Spanned<DeValue<'a>>) -> Result<At<'a>> {
        match value.get_ref() {
            DeValue::Table(written) => {
                Ok(At { written, start: value.span().start, name, kind: None, ..self.at.clone() })
            }
            DeValue::Array(list) if list.iter().all(|member| member.get_ref().is_table()) => {
                let hint = format!("write [{name}] in the place of [[{name}]], and once");
                Err(self.wrong("there is one of these at most").hint(hint))
            }
            _ => Err(self.expected("a table", "a table is [name], or { key = value }")),
        }
    }
}
