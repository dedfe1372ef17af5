//! Why a collector's file could not be read or written.

use core::fmt;

use rusqlite::ErrorCode;

/// Of the tables.
pub(super) const FORMAT: i64 = 3;

/// Why the file could not be read or written.
#[derive(Debug)]
pub enum StoreError {
    /// SQLite says so.
    Sqlite(rusqlite::Error),
    /// Nobody has written anything into it yet.
    Empty,
    /// It is the file of another program.
    Foreign,
    /// It is ours, of another version.
    Format(i64),
    /// What stands in it was not written by us.
    Spoilt(&'static str),
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(error) => match error.sqlite_error_code() {
                Some(ErrorCode::DiskFull) => {
                    f.write_str("the disk is full\nhint: make room; agents keep what they have")
                }
                Some(ErrorCode::NotADatabase) => {
                    f.write_str("it is no SQLite database\nhint: name another file, or one that is not there yet")
                }
                Some(ErrorCode::DatabaseBusy) => f.write_str(
                    "another program has it locked\nhint: one collector writes a file; others may read it",
                ),
                _ => write!(f, "{error}"),
            },
            Self::Empty => f.write_str(
                "it is empty\nhint: a collector makes it, and has not begun to: ferroce pingmesh collect --db FILE",
            ),
            Self::Foreign => f.write_str(
                "it is the database of another program\nhint: name the file of a collector; for a new one, a file that \
                 is not there yet",
            ),
            Self::Format(format) => {
                let [age, by] = match *format < FORMAT {
                    true => ["an older", "the Ferroce that has written it reads it, too"],
                    false => ["a newer", "a newer Ferroce reads it"],
                };
                write!(
                    f,
                    "{age} Ferroce has written it (format {format}; this one has {FORMAT})\nhint: {by}; a collector of \
                     this one begins another file"
                )
            }
            Self::Spoilt(what) => write!(f, "its {what} cannot be read"),
        }
    }
}

impl core::error::Error for StoreError {}

pub(super) type Result<T> = core::result::Result<T, StoreError>;
