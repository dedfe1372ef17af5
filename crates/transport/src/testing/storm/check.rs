//! What a check says.

use core::fmt::Display;
use std::format;
use std::string::String;

/// A promise that was broken, in words.
pub(super) type Check<T = ()> = Result<T, String>;

/// What the oracle asks for, the engine must do.
pub(super) fn endpoint_result<E: Display>(result: Result<(), E>, what: &str) -> Check {
    result.map_err(|error| format!("{what} was refused: {error}"))
}
