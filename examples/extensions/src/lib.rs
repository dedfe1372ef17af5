//! A congestion controller, a load balancer and a workload that Ferroce does not have: see `docs/book/extending.md`.
//!
//! | file | what it adds | a scenario names it by | try |
//! |---|---|---|---|
//! | `gradient.rs` | AIMD on the gradient of round trips | `nic.congestion = "gradient"` | `gradient.toml` |
//! | `two_choices.rs` | the less loaded of two next hops | `switch.balance = "two-choices"` | `two-choices.toml` |
//! | `parameter_server.rs` | training with parameter servers | `kind = "parameter-server"` | `parameter-server.toml` |

mod gradient;
mod parameter_server;
mod two_choices;

use fabric::extend::Extensions;

pub use gradient::GRADIENT;
pub use parameter_server::PARAMETER_SERVER;
pub use two_choices::TWO_CHOICES;

/// All extensions of this crate.
pub fn all() -> Extensions {
    Extensions::new().congestion(&GRADIENT).balance(&TWO_CHOICES).workload(&PARAMETER_SERVER)
}
