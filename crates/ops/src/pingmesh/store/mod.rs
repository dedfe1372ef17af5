//! The collector's file: one SQLite database, which other programs can read, too.
//!
//! ```text
//!   about      key, value                                what the file is, and the topology that it belongs to
//!   host       name, place, gid, qpn, seen_ns, tcp       who has said hello
//!   window     host, start_ns, body                      what each host has seen, as JSON; the body of old ones is gone
//!   sum        scope, start_ns, from_unit, to_unit, ...  the same added up; histograms in HdrHistogram's format V2
//!   tcp        scope, start_ns, from_unit, to_unit, ...  TCP probes likewise, by themselves
//!   ports      start_ns, body                            what ports of switches have counted in a window, as JSON
//!   probe      kind, number, host, target, outcome, ...  single probes: a ring
//!   incident   culprit, cause, since_ns, until_ns, ...   what was sick, and when
//! ```
//!
//! **Invariants:** a window is in `sum` exactly once, however often it is said: both are written in one transaction, and
//! `window` knows it for as long as an agent may say it again. What [`Store::keep`] has returned from is on the disk (a
//! write-ahead log, synchronous FULL). The file is bounded in windows, in sums and in single probes.

mod error;
mod ring;
mod sums;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rusqlite::{Connection, OptionalExtension, params};

use super::configured::Configuration;
use super::counted::OfPort;
use super::exchange::Address;
use super::limits::{BEHIND_NS, RAW_KEPT, SUMS_KEPT, WINDOWS_KEPT};
use super::raw::Sent;
use super::scope::Scope;
use super::summary::{Sum, Summary, TcpSum};
use super::window::Window;
pub use error::StoreError;
use error::{FORMAT, Result};
use ring::Ring;
pub use ring::Told;
use sums::{Kept, Key, add};

const TABLES: &str = "
    CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE host (
        name TEXT PRIMARY KEY, place INTEGER NOT NULL, gid BLOB NOT NULL, qpn INTEGER NOT NULL,
        seen_ns INTEGER NOT NULL, tcp INTEGER
    ) WITHOUT ROWID;
    CREATE TABLE window (
        host INTEGER, start_ns INTEGER, body BLOB, PRIMARY KEY (start_ns, host)
    ) WITHOUT ROWID;
    CREATE TABLE sum (
        scope TEXT, start_ns INTEGER, from_unit TEXT, to_unit TEXT,
        sent INTEGER NOT NULL, answered INTEGER NOT NULL, timeout INTEGER NOT NULL, send_error INTEGER NOT NULL,
        invalid_rtt INTEGER NOT NULL, unknown INTEGER NOT NULL,
        network BLOB NOT NULL, responder BLOB NOT NULL,
        PRIMARY KEY (start_ns, scope, from_unit, to_unit)
    ) WITHOUT ROWID;
    CREATE TABLE tcp (
        scope TEXT, start_ns INTEGER, from_unit TEXT, to_unit TEXT,
        sent INTEGER NOT NULL, answered INTEGER NOT NULL, timeout INTEGER NOT NULL, send_error INTEGER NOT NULL,
        late INTEGER NOT NULL, round_trip BLOB NOT NULL,
        PRIMARY KEY (start_ns, scope, from_unit, to_unit)
    ) WITHOUT ROWID;
    CREATE TABLE ports (start_ns INTEGER PRIMARY KEY, body BLOB NOT NULL);
    CREATE TABLE incident (
        id INTEGER PRIMARY KEY, culprit TEXT NOT NULL, cause TEXT NOT NULL,
        since_ns INTEGER NOT NULL, until_ns INTEGER, evidence TEXT NOT NULL
    );
";

/// Something that was sick.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Incident {
    /// Its number.
    pub id: i64,
    /// What, with the names of the topology.
    pub culprit: String,
    /// What was wrong with it.
    pub cause: String,
    /// Since when, in nanoseconds since 1970.
    pub since_ns: u64,
    /// Until when; `None` while it is.
    pub until_ns: Option<u64>,
    /// By what that is known, a sentence each.
    pub evidence: Vec<String>,
}

/// Which windows of a host are there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Coverage {
    /// How many.
    pub windows: u64,
    /// When the first began.
    pub first_ns: u64,
    /// When the last began.
    pub last_ns: u64,
}

impl Coverage {
    /// Windows between the first and the last that are not there: the agent did not run, or they were lost.
    pub fn missing(&self, length_ns: u64) -> u64 {
        let spanned = self.last_ns.saturating_sub(self.first_ns) / length_ns.max(1) + 1;
        spanned.saturating_sub(self.windows)
    }
}

/// The units of a pair: those of the prober and of the target.
pub type Units<'a> = &'a dyn Fn(Scope, u32) -> String;

/// Whose file it is.
enum State {
    /// Nobody's yet.
    Empty,
    Ours,
    /// Of another version of ours.
    Other(i64),
    Foreign,
}

fn state(db: &Connection) -> Result<State> {
    let version: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let tables = "SELECT count(*), coalesce(sum(name = 'incident'), 0) FROM sqlite_master";
    let (tables, ours): (i64, i64) =
        db.query_row(tables, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(match (version, tables, ours) {
        (0, 0, _) => State::Empty,
        (FORMAT, _, 1) => State::Ours,
        (other, _, 1) => State::Other(other),
        _ => State::Foreign,
    })
}

/// See the module.
#[derive(Debug)]
pub struct Store {
    db: Connection,
    ring: Ring,
}

impl Store {
    /// Opens a file, and makes it if it is not there.
    ///
    /// # Errors
    /// It is not ours, or cannot be written.
    pub fn open(path: &Path) -> Result<Self> {
        Self::of(Connection::open(path)?)
    }

    /// Opens a file to read what a collector writes.
    ///
    /// # Errors
    /// It is not there, or not ours.
    pub fn read(path: &Path) -> Result<Self> {
        let db = Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        match state(&db)? {
            State::Ours => Self::with_ring(db, RAW_KEPT, 0),
            State::Empty => Err(StoreError::Empty),
            State::Foreign => Err(StoreError::Foreign),
            State::Other(format) => Err(StoreError::Format(format)),
        }
    }

    /// Keeps so many single probes at most, of so many hosts.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn keeping(self, single_probes: u64, hosts: usize) -> Result<Self> {
        Self::with_ring(self.db, single_probes, hosts)
    }

    fn with_ring(db: Connection, rows: u64, hosts: usize) -> Result<Self> {
        let ring = Ring::of(&db, rows, hosts)?;
        Ok(Self { db, ring })
    }

    fn of(mut db: Connection) -> Result<Self> {
        match state(&db)? {
            State::Ours | State::Empty => {}
            State::Foreign => return Err(StoreError::Foreign),
            State::Other(format) => return Err(StoreError::Format(format)),
        }
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", "FULL")?;
        let made = db.transaction()?;
        if matches!(state(&made)?, State::Empty) {
            made.execute_batch(TABLES)?;
            made.execute_batch(ring::TABLE)?;
            made.pragma_update(None, "user_version", FORMAT)?;
        }
        made.commit()?;
        Self::with_ring(db, RAW_KEPT, 0)
    }

    /// What stands under a key of `about`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn about(&self, key: &str) -> Result<Option<String>> {
        about(&self.db, key)
    }

    /// Writes it there.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_about(&mut self, key: &str, value: &str) -> Result<()> {
        put_about(&self.db, key, value)
    }

    /// Hosts are there: their places, names, where they are, and when they have said so.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn put_hosts<'a>(
        &mut self,
        hosts: impl Iterator<Item = (u32, &'a str, Address, u64)>,
    ) -> Result<()> {
        let write = self.db.transaction()?;
        for (place, name, at, seen_ns) in hosts {
            let row = params![name, place, at.gid.as_slice(), at.qpn, seen_ns as i64, at.tcp];
            let put = "INSERT OR REPLACE INTO host VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
            write.prepare_cached(put)?.execute(row)?;
        }
        Ok(write.commit()?)
    }

    /// The hosts that have been there since a time: their places, and where they are.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn hosts(&self, since_ns: u64) -> Result<BTreeMap<u32, Address>> {
        let mut found =
            self.db.prepare("SELECT place, gid, qpn, tcp FROM host WHERE seen_ns >= ?1")?;
        let rows = found.query_map([since_ns as i64], |row| {
            Ok((row.get(0)?, row.get::<_, Vec<u8>>(1)?, row.get(2)?, row.get(3)?))
        })?;
        rows.map(|row| {
            let (place, gid, qpn, tcp) = row?;
            let gid = gid.try_into().map_err(|_| StoreError::Spoilt("hosts"))?;
            Ok((place, Address { gid, qpn, tcp }))
        })
        .collect()
    }

    /// Keeps windows that were admitted: all of them or, if it fails, none. Returns which were new. Their single probes
    /// go to the ring, and out of the windows.
    ///
    /// # Errors
    /// The file cannot be written; a full disk is one that may go away.
    pub fn keep(&mut self, windows: &mut [Window], unit: Units<'_>) -> Result<Vec<bool>> {
        let write = self.db.transaction()?;
        let mut sums: BTreeMap<Key, Sum> = BTreeMap::new();
        let mut tcp: BTreeMap<Key, TcpSum> = BTreeMap::new();
        let mut new = Vec::with_capacity(windows.len());
        let (mut ring, mut told) = (self.ring, told(&write)?);
        for window in windows {
            let single = core::mem::take(&mut window.raw);
            let body = serde_json::to_vec(window).map_err(|_| StoreError::Spoilt("windows"))?;
            let row = params![window.host, window.start_ns as i64, body];
            let put = "INSERT OR IGNORE INTO window (host, start_ns, body) VALUES (?1, ?2, ?3)";
            let is_new = write.prepare_cached(put)?.execute(row)? > 0;
            new.push(is_new);
            if !is_new {
                continue;
            }
            let single = ring.thinned(single);
            told.add(&window.counts(), &single);
            ring.put(&write, window.host, &single)?;
            for pair in &window.pairs {
                let (from, to) = (unit(pair.scope, window.host), unit(pair.scope, pair.target));
                sums.entry((pair.scope, window.start_ns, from, to)).or_default().add(pair);
            }
            for pair in &window.tcp {
                let (from, to) = (unit(pair.scope, window.host), unit(pair.scope, pair.target));
                tcp.entry((pair.scope, window.start_ns, from, to)).or_default().add(pair);
            }
        }
        for (key, sum) in tcp {
            add(&write, &key, sum)?;
        }
        for (key, sum) in sums {
            add(&write, &key, sum)?;
        }
        ring.trim(&write)?;
        let text = serde_json::to_string(&told).map_err(|_| StoreError::Spoilt(TOLD))?;
        put_about(&write, TOLD, &text)?;
        write.commit()?;
        self.ring = ring;
        Ok(new)
    }

    /// Single probes that the file has now, and those of them that have failed or were slow.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn single_probes(&self) -> Result<[u64; 2]> {
        Ok(ring::count(&self.db)?)
    }

    /// Probes that windows have told of since the file began.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn told(&self) -> Result<Told> {
        told(&self.db)
    }

    /// Does something with each single probe that was posted at a time or later, the oldest first.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn each_probe(&self, since_ns: u64, act: impl FnMut(Sent)) -> Result<()> {
        Ok(ring::each(&self.db, since_ns, act)?)
    }

    /// The last that failed or were slow, from or to one of some hosts, or any: the newest first, and no more than `most`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn last_probes(
        &self,
        hosts: Option<&BTreeSet<u32>>,
        since_ns: u64,
        most: usize,
    ) -> Result<Vec<Sent>> {
        Ok(ring::last(&self.db, hosts, since_ns, most)?)
    }

    /// Forgets what is beyond the file's bounds.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn prune(&mut self, now_ns: u64) -> Result<()> {
        let write = self.db.transaction()?;
        let oldest = now_ns.saturating_sub(2 * BEHIND_NS) as i64;
        write.execute("DELETE FROM window WHERE start_ns < ?1", [oldest])?;
        let edge: Option<i64> = write
            .query_row(
                "SELECT start_ns FROM window WHERE body IS NOT NULL ORDER BY start_ns DESC LIMIT 1 OFFSET ?1",
                [WINDOWS_KEPT as i64],
                |row| row.get(0),
            )
            .optional()?;
        if let Some(edge) = edge {
            let without = "UPDATE window SET body = NULL WHERE start_ns <= ?1 AND body IS NOT NULL";
            write.execute(without, [edge])?;
            write.execute("DELETE FROM ports WHERE start_ns < ?1", [edge])?;
        }
        write.execute("DELETE FROM ports WHERE start_ns < ?1", [oldest])?;
        let edge: Option<i64> = write
            .query_row(
                "SELECT start_ns FROM sum ORDER BY start_ns DESC LIMIT 1 OFFSET ?1",
                [SUMS_KEPT as i64],
                |row| row.get(0),
            )
            .optional()?;
        if let Some(edge) = edge {
            write.execute("DELETE FROM sum WHERE start_ns <= ?1", [edge])?;
            write.execute("DELETE FROM tcp WHERE start_ns <= ?1", [edge])?;
        }
        write.commit()?;
        Ok(())
    }

    /// Keeps what ports of switches have counted in a window.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn put_ports(&mut self, start_ns: u64, ports: &[OfPort]) -> Result<()> {
        let body = serde_json::to_vec(ports).map_err(|_| StoreError::Spoilt("ports"))?;
        let put = "INSERT OR REPLACE INTO ports VALUES (?1, ?2)";
        self.db.execute(put, params![start_ns as i64, body])?;
        Ok(())
    }

    /// What ports have counted in windows that began at a time or later.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn ports(&self, since_ns: u64) -> Result<Vec<(u64, Vec<OfPort>)>> {
        let mut found = self.db.prepare("SELECT start_ns, body FROM ports WHERE start_ns >= ?1")?;
        let rows = found.query_map([since_ns as i64], |row| {
            Ok((row.get::<_, i64>(0)? as u64, row.get::<_, Vec<u8>>(1)?))
        })?;
        rows.map(|row| {
            let (start_ns, body) = row?;
            let ports = serde_json::from_slice(&body).map_err(|_| StoreError::Spoilt("ports"))?;
            Ok((start_ns, ports))
        })
        .collect()
    }

    /// Keeps what is known of the configuration.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn put_configuration(&mut self, configuration: &Configuration) -> Result<()> {
        let text = serde_json::to_string(configuration);
        self.set_about("configuration", &text.map_err(|_| StoreError::Spoilt("configuration"))?)
    }

    /// What the last collector knew of it.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn configuration(&self) -> Result<Configuration> {
        let Some(text) = self.about("configuration")? else { return Ok(Configuration::default()) };
        serde_json::from_str(&text).map_err(|_| StoreError::Spoilt("configuration"))
    }

    /// The windows that began at a time or later, the oldest first.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn windows(&self, since_ns: u64) -> Result<Vec<Window>> {
        let mut windows = Vec::new();
        self.each_window(since_ns, |window| windows.push(window))?;
        Ok(windows)
    }

    /// Does something with each of them.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn each_window(&self, since_ns: u64, mut act: impl FnMut(Window)) -> Result<()> {
        let text = "SELECT body FROM window WHERE start_ns >= ?1 AND body IS NOT NULL ORDER BY start_ns, host";
        let mut found = self.db.prepare_cached(text)?;
        let rows = found.query_map([since_ns as i64], |row| row.get::<_, Vec<u8>>(0))?;
        for row in rows {
            act(serde_json::from_slice(&row?).map_err(|_| StoreError::Spoilt("windows"))?);
        }
        Ok(())
    }

    /// What was kept of each host since a time, by its place.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn coverage(&self, since_ns: u64) -> Result<BTreeMap<u32, Coverage>> {
        let mut found = self.db.prepare(
            "SELECT host, count(*), min(start_ns), max(start_ns) FROM window WHERE start_ns >= ?1 GROUP BY host",
        )?;
        let rows = found.query_map([since_ns as i64], |row| {
            let number =
                |column: usize| Ok::<_, rusqlite::Error>(row.get::<_, i64>(column)? as u64);
            let coverage =
                Coverage { windows: number(1)?, first_ns: number(2)?, last_ns: number(3)? };
            Ok((row.get(0)?, coverage))
        })?;
        Ok(rows.collect::<core::result::Result<_, _>>()?)
    }

    /// When the last window began.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn last_window(&self) -> Result<Option<u64>> {
        let found = self.db.query_row("SELECT max(start_ns) FROM window", [], |row| row.get(0));
        Ok(found.map(|start: Option<i64>| start.map(|start| start as u64))?)
    }

    /// All that was added up since a time.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn summary(&self, since_ns: u64, length_ns: u64) -> Result<Summary> {
        let mut summary = Summary { length_ns, ..Summary::default() };
        let mut found = self.db.prepare(
            "SELECT sent, answered, timeout, send_error, invalid_rtt, unknown, network, responder, \
             scope, start_ns, from_unit, to_unit FROM sum WHERE start_ns >= ?1",
        )?;
        let mut rows = found.query([since_ns as i64])?;
        while let Some(row) = rows.next()? {
            let sum = Sum::read(row)?.ok_or(StoreError::Spoilt(Sum::WHAT))?;
            let scope = scope_named(&row.get::<_, String>(8)?)?;
            let start_ns = row.get::<_, i64>(9)? as u64;
            summary.windows.entry((scope, start_ns)).or_default().merge(&sum);
            summary.pairs.entry((scope, row.get(10)?, row.get(11)?)).or_default().merge(&sum);
        }
        let mut found = self.db.prepare(
            "SELECT sent, answered, timeout, send_error, late, round_trip, scope, start_ns FROM tcp \
             WHERE start_ns >= ?1",
        )?;
        let mut rows = found.query([since_ns as i64])?;
        while let Some(row) = rows.next()? {
            let sum = TcpSum::read(row)?.ok_or(StoreError::Spoilt(TcpSum::WHAT))?;
            let scope = scope_named(&row.get::<_, String>(6)?)?;
            let start_ns = row.get::<_, i64>(7)? as u64;
            summary.tcp.entry((scope, start_ns)).or_default().merge(&sum);
        }
        Ok(summary)
    }

    /// Something is sick.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn begin_incident(&mut self, incident: &Incident) -> Result<i64> {
        let Incident { culprit, cause, since_ns, evidence, .. } = incident;
        let row = params![culprit, cause, *since_ns as i64, evidence.join("\n")];
        let put =
            "INSERT INTO incident (culprit, cause, since_ns, evidence) VALUES (?1, ?2, ?3, ?4)";
        self.db.execute(put, row)?;
        Ok(self.db.last_insert_rowid())
    }

    /// It is sick for another reason than was thought.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn change_incident(&mut self, id: i64, cause: &str, evidence: &[String]) -> Result<()> {
        let row = params![id, cause, evidence.join("\n")];
        self.db.execute("UPDATE incident SET cause = ?2, evidence = ?3 WHERE id = ?1", row)?;
        Ok(())
    }

    /// It is no more.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn end_incident(&mut self, id: i64, until_ns: u64) -> Result<()> {
        let row = params![id, until_ns as i64];
        self.db.execute("UPDATE incident SET until_ns = ?2 WHERE id = ?1", row)?;
        Ok(())
    }

    /// All of them, the oldest first.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn incidents(&self) -> Result<Vec<Incident>> {
        let text =
            "SELECT id, culprit, cause, since_ns, until_ns, evidence FROM incident ORDER BY id";
        let mut found = self.db.prepare(text)?;
        let rows = found.query_map([], |row| {
            let evidence: String = row.get(5)?;
            Ok(Incident {
                id: row.get(0)?,
                culprit: row.get(1)?,
                cause: row.get(2)?,
                since_ns: row.get::<_, i64>(3)? as u64,
                until_ns: row.get::<_, Option<i64>>(4)?.map(|until| until as u64),
                evidence: evidence.lines().map(str::to_owned).collect(),
            })
        })?;
        Ok(rows.collect::<core::result::Result<_, _>>()?)
    }
}

/// The key of `about` that has [`Told`].
const TOLD: &str = "probes";

fn about(db: &Connection, key: &str) -> Result<Option<String>> {
    let found = db.query_row("SELECT value FROM about WHERE key = ?1", [key], |row| row.get(0));
    Ok(found.optional()?)
}

fn put_about(db: &Connection, key: &str, value: &str) -> Result<()> {
    db.execute("INSERT OR REPLACE INTO about VALUES (?1, ?2)", [key, value])?;
    Ok(())
}

fn told(db: &Connection) -> Result<Told> {
    let Some(text) = about(db, TOLD)? else { return Ok(Told::default()) };
    serde_json::from_str(&text).map_err(|_| StoreError::Spoilt(TOLD))
}

fn scope_named(name: &str) -> Result<Scope> {
    let known = Scope::ALL.into_iter().find(|scope| scope.name() == name);
    known.ok_or(StoreError::Spoilt("scopes"))
}

#[cfg(test)]
mod tests {
    use rdma::Span;

    use super::super::raw::{Outcome, Raw, Times};
    use super::super::window::{Counts, Pair};
    use super::*;

    fn window(host: u32, start_ns: u64) -> Window {
        let mut pair = Pair::new(1 - host, Scope::Tor, 1);
        pair.counts = Counts { sent: 10, answered: 10, ..Counts::default() };
        (1..=10).for_each(|us| pair.network.record(Span::from_us(us)));
        Window { pairs: vec![pair], ..Window::new(host, start_ns, 10) }
    }

    fn unit(_: Scope, host: u32) -> String {
        format!("t{host}")
    }

    #[test]
    fn a_window_counts_once_however_often_it_is_said_and_whoever_ends_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mesh.db");
        let mut store = Store::open(&path).unwrap();
        assert_eq!(store.keep(&mut [window(0, 0), window(1, 0)], &unit).unwrap(), [true; 2]);
        // As after a kill: nobody has closed it.
        core::mem::forget(store);
        let mut store = Store::open(&path).unwrap();
        let mut again = [window(0, 0), window(0, 10), window(0, 10)];
        assert_eq!(store.keep(&mut again, &unit).unwrap(), [false, true, false]);
        let summary = store.summary(0, 10).unwrap();
        let sum = summary.scope(Scope::Tor);
        assert_eq!((sum.counts.sent, sum.network.count()), (30, 30));
        assert_eq!(summary.pairs.len(), 2);
        let windows = store.windows(0).unwrap();
        assert_eq!(windows, [window(0, 0), window(1, 0), window(0, 10)]);
        assert_eq!(store.windows(1).unwrap().len(), 1);
        store.keep(&mut [window(1, 40)], &unit).unwrap();
        let missing = |host| store.coverage(0).unwrap()[&host].missing(10);
        assert_eq!([missing(0), missing(1)], [0, 3]);
        let summary = store.summary(0, 10).unwrap();
        let reader = Store::read(&path).unwrap();
        assert_eq!(reader.summary(0, 10).unwrap(), summary);
    }

    #[test]
    fn hosts_and_incidents_are_there_again() {
        let mut store = Store::of(Connection::open_in_memory().unwrap()).unwrap();
        let at = Address { gid: [3; 16], qpn: 9, tcp: Some(4793) };
        store.put_hosts([(0, "h0", at, 50)].into_iter()).unwrap();
        assert_eq!(store.hosts(50).unwrap(), BTreeMap::from([(0, at)]));
        assert_eq!(store.hosts(51).unwrap(), BTreeMap::new());
        let mut incident = Incident {
            id: 0,
            culprit: "NIC of h0".to_owned(),
            cause: "pauses without end".to_owned(),
            since_ns: 7,
            until_ns: None,
            evidence: vec!["one".to_owned(), "two".to_owned()],
        };
        incident.id = store.begin_incident(&incident).unwrap();
        assert_eq!(store.incidents().unwrap(), core::slice::from_ref(&incident));
        store.end_incident(incident.id, 9).unwrap();
        assert_eq!(store.incidents().unwrap()[0].until_ns, Some(9));
    }

    #[test]
    fn other_files_are_refused_and_left_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, "this is a text and no database, however long it is".repeat(30))
            .unwrap();
        let why = Store::open(&path).unwrap_err().to_string();
        assert!(why.contains("no SQLite database\nhint: "), "{why}");
        let other = folder.path().join("other.db");
        Connection::open(&other).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
        assert!(matches!(Store::open(&other), Err(StoreError::Foreign)));
        assert!(Store::read(&folder.path().join("absent")).is_err());
        // One that SQLite has made, or `touch`, and nobody has written to.
        let empty = folder.path().join("empty.db");
        std::fs::write(&empty, "").unwrap();
        let why = Store::read(&empty).unwrap_err().to_string();
        assert!(why.starts_with("it is empty\nhint: "), "{why}");
        drop(Store::open(&empty).unwrap());
        assert!(Store::read(&empty).is_ok());
        for (format, age) in [(FORMAT - 1, "an older"), (FORMAT + 1, "a newer")] {
            let db = Connection::open(&empty).unwrap();
            db.pragma_update(None, "user_version", format).unwrap();
            for opened in [Store::open(&empty), Store::read(&empty)] {
                let why = opened.unwrap_err().to_string();
                assert!(why.starts_with(&format!("{age} Ferroce has written it")), "{why}");
            }
        }
    }

    fn probe(posted_ns: u64, outcome: Outcome) -> Raw {
        let times = outcome.is_answer().then_some(Times::from((7_000, 2_000, 1_000)));
        Raw { target: 1, scope: Scope::Tor, label: 3, posted_ns, outcome, times }
    }

    #[test]
    fn single_probes_are_a_ring_that_goes_on_after_a_kill_and_floods_do_not_take_what_failed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mesh.db");
        let with = |start_ns: u64, raw: Vec<Raw>| Window { raw, ..window(0, start_ns) };
        let mut store = Store::open(&path).unwrap().keeping(8, 0).unwrap();
        let lost = vec![probe(1, Outcome::NoAnswer), probe(2, Outcome::Failed(12))];
        let mut windows = [with(0, lost), with(10, vec![probe(11, Outcome::Answered)])];
        store.keep(&mut windows, &unit).unwrap();
        assert!(windows.iter().all(|window| window.raw.is_empty()));
        core::mem::forget(store);
        let mut store = Store::open(&path).unwrap().keeping(8, 0).unwrap();
        // Said again it is not there twice.
        store.keep(&mut [with(0, vec![probe(1, Outcome::NoAnswer)])], &unit).unwrap();
        assert_eq!(store.single_probes().unwrap(), [3, 2]);
        for start in 2..12 {
            let raw = (0..3).map(|at| probe(10 * start + at, Outcome::Answered)).collect();
            store.keep(&mut [with(10 * start, raw)], &unit).unwrap();
        }
        let mut all = Vec::new();
        store.each_probe(0, |(_, probe)| all.push((probe.posted_ns, probe.outcome))).unwrap();
        let answered = [102, 110, 111, 112].map(|at| (at, Outcome::Answered));
        let failed = [(1, Outcome::NoAnswer), (2, Outcome::Failed(12))];
        assert_eq!(all, [&failed[..], &answered].concat());
        let last = |hosts: &[u32]| {
            let hosts = hosts.iter().copied().collect();
            store.last_probes(Some(&hosts), 0, 1).unwrap()
        };
        assert_eq!(last(&[0]), [(0, probe(2, Outcome::Failed(12)))]);
        assert_eq!(last(&[1]), last(&[0]));
        assert_eq!(last(&[2]), []);
        assert_eq!(store.last_probes(None, 2, 9).unwrap().len(), 1);
        // Twelve windows of ten probes, none of which their counts call failed.
        let told = store.told().unwrap();
        assert_eq!((told.probes, told.single, told.left_out()), (120, 33, [87, 0]));
        // They are not kept in windows, too; and a bound of nothing keeps nothing.
        assert!(store.windows(0).unwrap().iter().all(|window| window.raw.is_empty()));
        let mut store = store.keeping(0, 0).unwrap();
        store.keep(&mut [with(500, vec![probe(501, Outcome::Slow)])], &unit).unwrap();
        assert_eq!(store.single_probes().unwrap(), [0, 0]);
    }

    #[test]
    fn of_a_large_network_fewer_are_kept_that_were_answered_and_all_that_failed() {
        let folder = tempfile::tempdir().unwrap();
        // 500,000 rows of a kind for 20 windows: 25 for each of 1,000 hosts, and one for each of 20,000.
        for (hosts, kept) in [(0, 12), (1_000, 12), (5_000, 5), (20_000, 1), (900_000, 1)] {
            let path = folder.path().join(format!("{hosts}.db"));
            let mut store = Store::open(&path).unwrap().keeping(1_000_000, hosts).unwrap();
            let answered = (0..12).map(|at| probe(at, Outcome::Answered));
            let raw: Vec<Raw> =
                answered.chain([probe(20, Outcome::Slow), probe(21, Outcome::NoAnswer)]).collect();
            store.keep(&mut [Window { raw, ..window(0, 0) }], &unit).unwrap();
            assert_eq!(store.single_probes().unwrap(), [kept + 2, 2], "{hosts} hosts");
            assert_eq!(store.told().unwrap().single, kept + 2);
        }
    }

    #[test]
    fn a_full_disk_keeps_nothing_of_a_batch_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mesh.db");
        let mut store = Store::open(&path).unwrap();
        store.keep(&mut [window(0, 0)], &unit).unwrap();
        let pages: i64 = store.db.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
        store.db.pragma_update(None, "max_page_count", pages).unwrap();
        let mut many: Vec<Window> = (1..500).map(|start| window(0, 10 * start)).collect();
        let error = store.keep(&mut many, &unit).unwrap_err();
        assert!(error.to_string().contains("disk is full\nhint: "), "{error}");
        store.db.pragma_update(None, "max_page_count", 1_000_000).unwrap();
        assert_eq!(store.windows(0).unwrap().len(), 1);
        assert_eq!(store.keep(&mut many, &unit).unwrap(), [true; 499]);
    }

    #[test]
    fn old_windows_are_known_but_not_kept() {
        let mut store = Store::of(Connection::open_in_memory().unwrap()).unwrap();
        store.keep(&mut [window(0, 0), window(0, 10)], &unit).unwrap();
        store.prune(0).unwrap();
        assert_eq!(store.windows(0).unwrap().len(), 2);
        store.prune(3 * BEHIND_NS).unwrap();
        assert_eq!(store.windows(0).unwrap().len(), 0);
        assert_eq!(store.summary(0, 10).unwrap().scope(Scope::Tor).counts.sent, 20);
    }
}
