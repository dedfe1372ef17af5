//! Single probes in the collector's file: a ring, in which the newest take the place of the oldest.
//!
//! ```text
//!   kind 0, a sample of those that were answered ─► number ... number + rows / 2   the oldest go
//!   kind 1, failed or slow                       ─► number ... number + rows / 2
//! ```
//!
//! Of a large network fewer are kept of each window that were answered in time, so that their half spans
//! [`RAW_WINDOWS_SPANNED`] windows of all hosts, or one is kept of each. Each kind has half of the rows, so that what is asked for later, the failed ones, outlives a flood of others. Numbers
//! go on for ever.
//!
//! **Invariants:** what is here is in the same transaction as the window that it came with, so once. There are never more
//! rows than the bound.

use std::collections::BTreeSet;

use rusqlite::types::Type;
use rusqlite::{Connection, Error, Result, Row, Transaction, params};
use serde::{Deserialize, Serialize};

use crate::pingmesh::limits::{RAW_SAMPLED_MAX, RAW_WINDOWS_SPANNED};
use crate::pingmesh::raw::{Outcome, Raw, Sent, Times, is_told};
use crate::pingmesh::scope::Scope;
use crate::pingmesh::window::Counts;

pub(super) const TABLE: &str = "
    CREATE TABLE probe (
        kind INTEGER, number INTEGER,
        host INTEGER NOT NULL, target INTEGER NOT NULL, scope TEXT NOT NULL, label INTEGER NOT NULL,
        posted_ns INTEGER NOT NULL, outcome TEXT NOT NULL, status INTEGER,
        network_ns INTEGER, responder_ns INTEGER, prober_ns INTEGER,
        PRIMARY KEY (kind, number)
    ) WITHOUT ROWID;
";

const COLUMNS: &str =
    "host, target, scope, label, posted_ns, outcome, status, network_ns, responder_ns, prober_ns";
/// See the module.
const KINDS: usize = 2;
const SAMPLED: usize = 0;
const OF_INTEREST: usize = 1;

/// Probes that windows have told of since the file began, and those of them that came by themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Told {
    /// All probes.
    pub probes: u64,
    /// Of them, those that have failed.
    pub failed: u64,
    /// Single probes that agents have sent.
    pub single: u64,
    /// Of them, those that have failed.
    pub single_failed: u64,
}

impl Told {
    /// Probes of which nothing but sums was told, and those of them that have failed.
    pub const fn left_out(&self) -> [u64; 2] {
        [self.probes.saturating_sub(self.single), self.failed.saturating_sub(self.single_failed)]
    }

    /// One more window, and what it has of single probes.
    pub(super) fn add(&mut self, counts: &Counts, single: &[Raw]) {
        let failed = single.iter().filter(|probe| !probe.outcome.is_answer()).count() as u64;
        self.probes = self.probes.saturating_add(counts.sent);
        self.failed = self.failed.saturating_add(counts.failed());
        self.single = self.single.saturating_add(single.len() as u64);
        self.single_failed = self.single_failed.saturating_add(failed);
    }
}

/// Where the ring goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ring {
    /// Rows of each kind, at most.
    half: u64,
    /// Those that were answered in time, of one window of a host, at most.
    sampled: usize,
    /// The number of the next row, by kind.
    next: [u64; KINDS],
}

impl Ring {
    /// The ring of a file, with so many rows at most, for so many hosts.
    pub(super) fn of(db: &Connection, rows: u64, hosts: usize) -> Result<Self> {
        let mut next = [0; KINDS];
        for (kind, next) in next.iter_mut().enumerate() {
            let last = "SELECT max(number) FROM probe WHERE kind = ?1";
            let last: Option<i64> = db.query_row(last, [kind], |row| row.get(0))?;
            *next = last.map_or(0, |last| last as u64 + 1);
        }
        let half = rows / 2;
        let share = half.checked_div(hosts as u64 * RAW_WINDOWS_SPANNED);
        let sampled =
            share.map_or(RAW_SAMPLED_MAX, |share| share as usize).clamp(1, RAW_SAMPLED_MAX);
        Ok(Self { half, sampled, next })
    }

    /// What is kept of the single probes of a window, which are in the order of time: of those that were answered in
    /// time no more than there is to be, from all of it.
    pub(super) fn thinned(&self, mut single: Vec<Raw>) -> Vec<Raw> {
        let is_other = |probe: &Raw| probe.outcome == Outcome::Answered;
        let others = single.iter().filter(|probe| is_other(probe)).count();
        let (kept, mut seen) = (self.sampled.min(others), 0);
        single.retain(|probe| {
            if !is_other(probe) {
                return true;
            }
            seen += 1;
            seen * kept / others > (seen - 1) * kept / others
        });
        single
    }

    /// Puts the single probes of a host behind the last.
    pub(super) fn put(&mut self, write: &Transaction<'_>, host: u32, all: &[Raw]) -> Result<()> {
        if self.half == 0 {
            return Ok(());
        }
        let put = "INSERT INTO probe VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
        let mut put = write.prepare_cached(put)?;
        for &Raw { target, scope, label, posted_ns, outcome, times } in all {
            let kind = if outcome == Outcome::Answered { SAMPLED } else { OF_INTEREST };
            let ns = |of: fn(Times) -> u64| times.map(|times| of(times) as i64);
            put.execute(params![
                kind,
                self.next[kind] as i64,
                host,
                target,
                scope.name(),
                label,
                posted_ns as i64,
                outcome.name(),
                outcome.status(),
                ns(|times| times.network_ns),
                ns(|times| times.responder_ns),
                ns(|times| times.prober_ns),
            ])?;
            self.next[kind] += 1;
        }
        Ok(())
    }

    /// Forgets those that newer ones have taken the place of.
    pub(super) fn trim(&self, write: &Transaction<'_>) -> Result<()> {
        let forget = "DELETE FROM probe WHERE kind = ?1 AND number < ?2";
        for (kind, next) in self.next.iter().enumerate() {
            let first = next.saturating_sub(self.half) as i64;
            write.prepare_cached(forget)?.execute(params![kind, first])?;
        }
        Ok(())
    }
}

/// How many there are, and how many of interest.
pub(super) fn count(db: &Connection) -> Result<[u64; 2]> {
    let count = |kind: usize| -> Result<u64> {
        let text = "SELECT count(*) FROM probe WHERE kind = ?1";
        db.query_row(text, [kind], |row| row.get(0)).map(|rows: i64| rows as u64)
    };
    let of_interest = count(OF_INTEREST)?;
    Ok([count(SAMPLED)? + of_interest, of_interest])
}

/// Does something with each that was posted at a time or later, the oldest first.
pub(super) fn each(db: &Connection, since_ns: u64, mut act: impl FnMut(Sent)) -> Result<()> {
    let text = format!("SELECT {COLUMNS} FROM probe WHERE posted_ns >= ?1 ORDER BY posted_ns");
    let mut found = db.prepare(&text)?;
    let mut rows = found.query([since_ns as i64])?;
    while let Some(row) = rows.next()? {
        act(read(row)?);
    }
    Ok(())
}

/// The last of interest, from or to one of some hosts, or of any: the newest first, and no more than `most`.
pub(super) fn last(
    db: &Connection,
    hosts: Option<&BTreeSet<u32>>,
    since_ns: u64,
    most: usize,
) -> Result<Vec<Sent>> {
    let text = format!(
        "SELECT {COLUMNS} FROM probe WHERE kind = {OF_INTEREST} AND posted_ns >= ?1 ORDER BY number DESC"
    );
    let mut found = db.prepare(&text)?;
    let mut rows = found.query([since_ns as i64])?;
    let mut last = Vec::new();
    while last.len() < most
        && let Some(row) = rows.next()?
    {
        let sent = read(row)?;
        if is_told(&sent, hosts) {
            last.push(sent);
        }
    }
    Ok(last)
}

fn read(row: &Row<'_>) -> Result<Sent> {
    let spoilt = |column: usize, what: &str| {
        Error::FromSqlConversionFailure(column, Type::Text, format!("no {what} of ours").into())
    };
    let name: String = row.get(2)?;
    let scope = Scope::ALL.into_iter().find(|scope| scope.name() == name);
    let name: String = row.get(5)?;
    let outcome = Outcome::named(&name, row.get(6)?);
    let ns = |column| row.get::<_, Option<i64>>(column).map(|ns| ns.map(|ns| ns as u64));
    let times = match (ns(7)?, ns(8)?, ns(9)?) {
        (Some(network), Some(responder), Some(prober)) => {
            Some(Times::from((network, responder, prober)))
        }
        _ => None,
    };
    let probe = Raw {
        target: row.get(1)?,
        scope: scope.ok_or_else(|| spoilt(2, "scope"))?,
        label: row.get(3)?,
        posted_ns: row.get::<_, i64>(4)? as u64,
        outcome: outcome.ok_or_else(|| spoilt(5, "outcome"))?,
        times,
    };
    Ok((row.get(0)?, probe))
}
