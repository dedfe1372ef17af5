//! A diagnosis as text for people, as JSON, and as SARIF 2.1.0 for code review.

mod json;
mod sarif;
mod text;

pub use json::json;
pub use sarif::sarif;
pub(super) use text::harmless;
pub use text::{text, wrapped};
