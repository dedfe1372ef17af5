//! The simulated world: applications as tasks on the cores of simulated hosts.
//!
//! Time is the model's. The network runs in stretches; between two, who looks on may end it.

use core::any::Any;

use fabric::{Network, NetworkConfig, Placed, Verdict};
use rdma::app::App;
use rdma::{Span, Time};

use super::runner::{Ended, Outcome};
use crate::Failure;
use crate::outcome::Watcher;

/// Model time between two glances.
const STRETCH: Span = Span::from_us(200);

/// An application, and where it lives.
#[derive(Debug)]
pub struct Seated<A> {
    /// The application.
    pub app: A,
    /// The host, by index.
    pub host: u32,
    /// The core of that host.
    pub core: u32,
}

/// What became of all of them.
#[derive(Debug)]
pub struct Played<A> {
    /// In the order in which they were given.
    pub outcomes: Vec<Outcome<A>>,
    /// Why the world was ended before its time, if it was.
    pub why: Option<Failure>,
    /// Events that the simulator has handled.
    pub events: u64,
}

/// Runs applications on the hosts of a network until all are done but those that serve, or until `end`.
///
/// # Errors
/// They could not be set up.
pub fn run<A: App + Send + 'static>(
    config: NetworkConfig,
    seated: Vec<Seated<A>>,
    end: Time,
    watcher: &mut dyn Watcher,
) -> Result<Played<A>, Failure> {
    let placed = seated.into_iter().map(|Seated { app, host, core }| {
        let app: Box<dyn fabric::Tenant> = Box::new(app);
        Placed { host, core, app }
    });
    let network = Network::with_tenants(config, placed.collect());
    let mut network = network.map_err(|error| Failure::new(error.to_string()))?;
    let mut why = None;
    loop {
        let verdict = network.run((network.now() + STRETCH).min(end));
        match verdict {
            Verdict::TimeOver if network.now() < end => {}
            Verdict::Finished => break,
            Verdict::TimeOver => {
                why = Some(Failure::new("the model's time was over before all had ended"));
                break;
            }
            Verdict::Deadlock(circle) => {
                why = Some(Failure::new(format!(
                    "queues wait for each other in a circle: {:?}",
                    circle.queues
                )));
                break;
            }
            Verdict::Stalled | Verdict::Interrupted => {
                why = Some(Failure::new("nothing happens any more"));
                break;
            }
        }
        why = watcher.glance();
        if why.is_some() {
            break;
        }
    }
    let events = network.events();
    let outcomes = network.into_tenants().into_iter().map(|tenant| {
        let ended = match tenant.failure {
            Some(failure) => Ended::Failed(Failure::new(failure)),
            None if tenant.is_done => Ended::Done,
            None => Ended::Stopped,
        };
        let app: Box<dyn Any> = tenant.app;
        let app = app.downcast::<A>().expect("every application is of the type that was given");
        Outcome { app: *app, ended, cpu: tenant.cpu, wall: tenant.wall, device: None }
    });
    Ok(Played { outcomes: outcomes.collect(), why, events })
}
