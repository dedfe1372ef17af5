//! Queue pairs: what they are, how they are made and changed, and how requests are posted to them.

pub(crate) mod attributes;
mod batch;
pub mod bind;
pub mod create;
mod ece;
pub mod extended;
pub mod multicast;
pub mod object;
pub mod send;

pub(crate) use object::Qp;
