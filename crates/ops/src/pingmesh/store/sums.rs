//! Rows of the tables that have sums: of RDMA probes and of TCP probes.

use rusqlite::types::Value;
use rusqlite::{OptionalExtension, ToSql, Transaction, params_from_iter};

use super::error::{Result, StoreError};
use crate::pingmesh::scope::Scope;
use crate::pingmesh::summary::{Sum, TcpSum};
use crate::pingmesh::window::{Counts, Latency};

/// Of a row of sums: how far away, when the window began, and the units that probes went from and to.
pub(super) type Key = (Scope, u64, String, String);

/// What a table of sums has a row of for each [`Key`].
pub(super) trait Kept: Sized {
    /// Asks for the row of a key.
    const FIND: &str;
    /// Puts a key and the columns in its place.
    const PUT: &str;
    /// What it is called if it cannot be read.
    const WHAT: &str;

    /// The first columns that are asked for. `None` if a histogram is none.
    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<Self>>;

    /// The same columns.
    fn columns(&self) -> Vec<Value>;

    /// Adds what is there already.
    fn add_known(&mut self, known: &Self);
}

/// Adds to what is there.
pub(super) fn add<S: Kept>(write: &Transaction<'_>, key: &Key, mut sum: S) -> Result<()> {
    let (scope, start_ns, from, to) = key;
    let key: [&dyn ToSql; 4] = [&scope.name(), &(*start_ns as i64), from, to];
    let known = write.prepare_cached(S::FIND)?.query_row(&key[..], S::read).optional()?;
    if let Some(known) = known {
        sum.add_known(&known.ok_or(StoreError::Spoilt(S::WHAT))?);
    }
    let columns = sum.columns();
    let row = key.into_iter().chain(columns.iter().map(|column| column as &dyn ToSql));
    write.prepare_cached(S::PUT)?.execute(params_from_iter(row))?;
    Ok(())
}

fn count(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(column)? as u64)
}

/// The outcomes that both tables begin with.
fn first_counts(row: &rusqlite::Row<'_>) -> rusqlite::Result<Counts> {
    Ok(Counts {
        sent: count(row, 0)?,
        answered: count(row, 1)?,
        timeout: count(row, 2)?,
        send_error: count(row, 3)?,
        ..Counts::default()
    })
}

fn latency(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Option<Latency>> {
    Ok(Latency::decode(&row.get::<_, Vec<u8>>(column)?))
}

impl Kept for TcpSum {
    const FIND: &str = "SELECT sent, answered, timeout, send_error, late, round_trip FROM tcp \
                        WHERE scope = ?1 AND start_ns = ?2 AND from_unit = ?3 AND to_unit = ?4";
    const PUT: &str = "INSERT OR REPLACE INTO tcp VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    const WHAT: &str = "sums of TCP";

    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<Self>> {
        let counts = first_counts(row)?;
        let late = count(row, 4)?;
        Ok(latency(row, 5)?.map(|round_trip| Self { counts, late, round_trip }))
    }

    fn columns(&self) -> Vec<Value> {
        let Counts { sent, answered, timeout, send_error, .. } = self.counts;
        let counts = [sent, answered, timeout, send_error, self.late].map(|it| (it as i64).into());
        counts.into_iter().chain([self.round_trip.encode().into()]).collect()
    }

    fn add_known(&mut self, known: &Self) {
        self.merge(known);
    }
}

impl Kept for Sum {
    const FIND: &str = "SELECT sent, answered, timeout, send_error, invalid_rtt, unknown, network, responder FROM sum \
                        WHERE scope = ?1 AND start_ns = ?2 AND from_unit = ?3 AND to_unit = ?4";
    const PUT: &str =
        "INSERT OR REPLACE INTO sum VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    const WHAT: &str = "sums";

    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<Self>> {
        let [invalid_rtt, unknown] = [count(row, 4)?, count(row, 5)?];
        let counts = Counts { invalid_rtt, unknown, ..first_counts(row)? };
        let both = latency(row, 6)?.zip(latency(row, 7)?);
        Ok(both.map(|(network, responder)| Self { counts, network, responder }))
    }

    fn columns(&self) -> Vec<Value> {
        let Counts { sent, answered, timeout, send_error, invalid_rtt, unknown } = self.counts;
        let counts = [sent, answered, timeout, send_error, invalid_rtt, unknown];
        let counts = counts.map(|it| (it as i64).into()).into_iter();
        counts.chain([&self.network, &self.responder].map(|it| it.encode().into())).collect()
    }

    fn add_known(&mut self, known: &Self) {
        self.merge(known);
    }
}
