//! JSON tables with the line of every value, for errors that can be found.
//!
//! ```text
//!   { TABLE: { key: { field: "value" } } }      numbers and booleans count as the text they are
//! ```

use std::collections::BTreeSet;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::mistake::FileError;

/// A table that is known here.
#[derive(Clone, Debug)]
pub struct Table {
    /// Such as `PORT`.
    pub name: &'static str,
    /// The line that it begins in, from 1.
    pub line: usize,
    /// Its keys, in the order of the file.
    pub entries: Vec<Entry>,
}

/// A key of a table and what it holds.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The table that it is of.
    pub table: &'static str,
    /// Such as `Ethernet0`, or `Ethernet0|3-4`.
    pub key: String,
    /// The line that it begins in, from 1.
    pub line: usize,
    /// Its fields, in the order of the file.
    pub fields: Vec<Field>,
}

/// A field of an entry.
#[derive(Clone, Debug)]
pub struct Field {
    /// Such as `pfc_enable`.
    pub name: String,
    /// The line that its value begins in, from 1.
    pub line: usize,
    /// Its text; numbers, booleans and lists as they are written.
    pub value: String,
}

/// The members of an object in their order, those that are there twice included.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;

        impl<'de> Visitor<'de> for Collect {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }

        deserializer.deserialize_map(Collect).map(Members)
    }
}

/// Where the lines of a text end.
struct Source {
    start: usize,
    ends: Vec<usize>,
}

impl Source {
    fn new(text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self { start: text.as_ptr().addr(), ends: ends.map(|(place, _)| place).collect() }
    }

    /// The line that a value of the text begins in.
    fn line_of(&self, value: &RawValue) -> usize {
        let place = value.get().as_ptr().addr().saturating_sub(self.start);
        self.ends.partition_point(|&end| end < place) + 1
    }
}

/// Reads the tables that are `known`. Returns the names of the others as well.
pub(super) fn read(
    text: &str,
    known: &[&'static str],
) -> Result<(Vec<Table>, Vec<String>), FileError> {
    // Some editors begin a file so.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let members = serde_json::from_str::<Members<'_>>(text).map_err(|error| {
        // The line is said by us.
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default();
        FileError::at(error.line().max(1), "the file", format!("it is no JSON: {message}"))
            .hint("expected an object of tables, as `show runningconfiguration all` prints it")
    })?;
    let text = &Source::new(text);
    let mut tables: Vec<Table> = Vec::new();
    let mut others = Vec::new();
    for (name, value) in members.0 {
        let Some(&name) = known.iter().find(|known| **known == name) else {
            others.push(name);
            continue;
        };
        let line = text.line_of(value);
        if tables.iter().any(|table| table.name == name) {
            return Err(twice(line, name, "table"));
        }
        let mut entries: Vec<Entry> = Vec::new();
        let mut seen = BTreeSet::new();
        for (key, value) in object(text, name, value)? {
            let line = text.line_of(value);
            let place = format!("{name}|{key}");
            if !seen.insert(key.clone()) {
                return Err(twice(line, &place, "key"));
            }
            let fields = fields(text, &place, value)?;
            entries.push(Entry { table: name, key, line, fields });
        }
        tables.push(Table { name, line, entries });
    }
    Ok((tables, others))
}

fn twice(line: usize, place: &str, what: &str) -> FileError {
    let error = FileError::at(line, place, format!("the {what} is there twice"));
    error.hint("keep one of them: a switch would take the last")
}

fn fields(text: &Source, place: &str, value: &RawValue) -> Result<Vec<Field>, FileError> {
    let mut fields: Vec<Field> = Vec::new();
    let mut seen = BTreeSet::new();
    for (name, value) in object(text, place, value)? {
        let line = text.line_of(value);
        let at = || format!("{place}, {name}");
        if !seen.insert(name.clone()) {
            return Err(twice(line, &at(), "field"));
        }
        let raw = value.get();
        let value = match raw.as_bytes().first() {
            Some(b'"') => serde_json::from_str(raw).unwrap_or_default(),
            // Lists are of tables' members and the like, of which nothing is read here.
            Some(b'[') => raw.to_owned(),
            Some(b'{') => {
                return Err(FileError::at(line, at(), "expected a text, not an object")
                    .hint("write \"value\" in quotes"));
            }
            _ => raw.to_owned(),
        };
        fields.push(Field { name, line, value });
    }
    // An entry without fields is written so.
    fields.retain(|field| field.name != "NULL");
    Ok(fields)
}

fn object<'a>(
    text: &Source,
    place: &str,
    value: &'a RawValue,
) -> Result<Vec<(String, &'a RawValue)>, FileError> {
    let members = serde_json::from_str::<Members<'a>>(value.get());
    members.map(|members| members.0).map_err(|_| {
        FileError::at(text.line_of(value), place, "expected an object in braces").hint(
            "a table holds keys, and a key holds fields: { \"key\": { \"field\": \"value\" } }",
        )
    })
}
