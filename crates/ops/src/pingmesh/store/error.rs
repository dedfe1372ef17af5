//! Why a collector's file could not be read or written.

use core::fmt;

use rusqlite::ErrorCode;

/// Of the tables.
pub(super) const FORMAT: i64 = 2;

/// Why the file could not be read or written.
#[derive(Debug)]
pub enum StoreError {
    /// SQLite says so.
    Sqlite(rusqlite::Error),
    /// It is the file of another program, or of a newer version.
    Foreign(i64),
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
            Self::Foreign(format) => write!(
                f,
                "its tables are of format {format}, and not {FORMAT}\nhint: use the version of Ferroce that has \
                 written it, or another file"
            ),
            Self::Spoilt(what) => write!(f, "its {what} cannot be read"),
        }
    }
}

impl core::error::Error for StoreError {}

pub(super) type Result<T> = core::result::Result<T, StoreError>;
