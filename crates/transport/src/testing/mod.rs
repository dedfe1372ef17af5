//! Two engines and a pretended network.
//!
//! [`Pair`] joins two [`Node`]s by a link with a latency and a rule for each packet. Its time jumps
//! to the next event, so a retransmission timeout of seconds costs nothing. Every packet is emitted
//! to bytes and parsed again on its way.

mod cubic;
pub mod fuzz;
pub mod load;
mod memory;
mod pair;
pub mod path;
pub mod storm;
pub mod trial;

pub use memory::TestMemory;
pub use pair::{Node, Pair, Verdict, Wire, on_wire};
