//! Tables as values of keys. Some are read at once, and others when it is known which node or kind they
//! are about.

use core::marker::PhantomData;

use super::at::{At, Entry, Result};
use super::table::{Describe, Kinds, Table};
use super::value::Value;

/// A table in this one.
pub(super) fn inner<'a, T: Table<'a> + 'a>() -> Value<'a, T> {
    let read = |entry: &Entry<'a, '_>, out: &mut T| out.read(&entry.table()?);
    Value::of_tables("a table", read, |path, texts| T::describe(&format!("[{path}]"), "", texts))
}

/// A table that is read later, when it is known what it is about.
#[derive(Debug)]
pub(super) struct Deferred<'a, T> {
    pub(super) at: At<'a>,
    table: PhantomData<T>,
}

impl<'a, T> Deferred<'a, T> {
    pub(super) fn new(at: At<'a>) -> Self {
        Self { at, table: PhantomData }
    }

    pub(super) fn read(&self) -> Result<T>
    where
        T: Table<'a> + Default,
    {
        let mut table = T::default();
        self.read_over(&mut table).map(|()| table)
    }

    /// Reads it over settings that are there.
    pub(super) fn read_over(&self, table: &mut T) -> Result<()>
    where
        T: Table<'a>,
    {
        table.read(&self.at)
    }

    /// Refuses what is wrong whatever it is about.
    pub(super) fn look(&self) -> Result<()>
    where
        T: Table<'a>,
    {
        T::default().read_keys(&self.at)
    }

    pub(super) fn kind(&self) -> Result<T>
    where
        T: Kinds<'a>,
    {
        T::read(&self.at)
    }
}

/// A table, for later.
pub(super) fn deferred<'a, T: Describe<'a> + 'a>() -> Value<'a, Option<Deferred<'a, T>>> {
    let read = |entry: &Entry<'a, '_>, out: &mut Option<Deferred<'a, T>>| {
        *out = Some(Deferred::new(entry.table()?));
        Ok(())
    };
    Value::of_tables("a table", read, |path, texts| T::describe(&format!("[{path}]"), "", texts))
}

/// Any number of tables, for later.
pub(super) fn all_deferred<'a, T: Describe<'a> + 'a>() -> Value<'a, Vec<Deferred<'a, T>>> {
    let read = |entry: &Entry<'a, '_>, out: &mut Vec<Deferred<'a, T>>| {
        entry.is_many()?;
        let tables = entry.list()?.map(|member| member.table().map(Deferred::new));
        tables.collect::<Result<_>>().map(|tables| *out = tables)
    };
    Value::of_tables("a list of tables", read, |path, texts| {
        T::describe(&format!("[[{path}]]"), "", texts);
    })
}

/// A table for each of some nodes, for later. The reference has the keys where they are for all nodes.
pub(super) fn by_name<'a, T: 'a>() -> Value<'a, Vec<(String, Deferred<'a, T>)>> {
    let read = |entry: &Entry<'a, '_>| {
        let tables = entry.tables()?.into_iter();
        Ok(tables.map(|(name, at)| (name, Deferred::new(at))).collect())
    };
    Value::new("a table for each name", read, |_, _| "none".to_owned())
}
