//! Worlds. In [`sim`] time is a model's; in the others it passes by itself, and each application is a
//! thread on a NIC:
//!
//! ```text
//!   App ─ layout ─► Seat ─ introduction ─► meeting ─► connect ─► a thread that drives the App
//!                            │    ▲
//!                            ▼    │ another process, if there is one (a TCP connection)
//! ```
//!
//! What a world has to implement is [`Seat`]: an application's objects on a NIC ([`rdma::app::Verbs`]),
//! and the waiting. All else is the same for all of them: who is connected to whom ([`meeting`]),
//! and how an application is stepped ([`drive`]).
//!
//! **Invariants:** no application is stepped before all of its process are connected, and none that asks
//! before all that serve have had their first step, on either side. A world ends:
//! when all but those that serve are done, when somebody stops it, or when a peer is gone.

mod hog;
pub mod meeting;
mod memory;
pub mod nic;
mod runner;
pub mod sim;
pub mod soft;
mod stash;

use core::time::Duration;
use std::sync::Arc;

use rdma::app::{Cq, RemoteRegion, Verbs};
use rdma::{Gid, Mtu, QKey, Qpn, Span, Time, UdAddress};
use rustix::event::Timespec;

use crate::Failure;
use crate::outcome::DeviceCounts;
pub use hog::Hogs;
pub use meeting::{End, Introduction};
pub use runner::{Bystander, Ended, Outcome, Player, Stop, drive, run};

/// The key of all datagrams of applications.
pub const Q_KEY: QKey = QKey(0x00fe_44ce);
const HOP_LIMIT: u8 = 64;

fn timespec(span: Span) -> Timespec {
    let whole = Duration::from_nanos(span.as_ns_ceil());
    Timespec { tv_sec: whole.as_secs() as i64, tv_nsec: i64::from(whole.subsec_nanos()) }
}

/// What a seat is told of a peer of one of its queue pairs.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its application.
    pub introduction: Arc<Introduction>,
    /// Which of the ends of its application it is.
    pub end: usize,
}

impl Peer {
    /// The end that it is.
    pub fn end(&self) -> &End {
        &self.introduction.ends[self.end]
    }

    /// A region of it.
    pub fn region(&self, index: usize) -> Option<RemoteRegion> {
        self.introduction.regions.get(index).map(meeting::Reach::region)
    }

    /// The largest path MTU that its NIC and one of `own` can both take.
    pub fn path_mtu(&self, own: Mtu) -> Mtu {
        let fits = |mtu: &Mtu| *mtu <= own && mtu.bytes() <= self.introduction.mtu;
        Mtu::ALL.into_iter().filter(fits).max().unwrap_or(Mtu::B256)
    }

    /// Where datagrams to it go, from a NIC with `source_gid`.
    pub fn address(&self, source_gid: Gid, traffic_class: u8) -> UdAddress {
        UdAddress {
            gid: Gid(self.introduction.gid),
            source_gid,
            traffic_class,
            hop_limit: HOP_LIMIT,
            flow_label: 0,
            qpn: Qpn::new(self.end().qpn),
            q_key: Q_KEY,
        }
    }
}

/// An application's place on a NIC: its objects, and the waiting for them.
pub trait Seat: Verbs + Send {
    /// What others must know of it.
    fn introduction(&self) -> Introduction;

    /// Connects its queue pairs, each to the peers of its place in `peers`.
    ///
    /// # Errors
    /// What the NIC has refused.
    fn connect(&mut self, peers: Vec<Vec<Peer>>) -> Result<(), Failure>;

    /// One round of a busy poll: whether `cq` has something for [`Verbs::poll`].
    fn look(&mut self, cq: Cq) -> bool;

    /// Sleeps until there is an event of `cq`, and takes it. `false` if the time is over, or the world.
    ///
    /// # Errors
    /// The queue is not armed, so that it would be for ever; or the NIC has failed.
    fn sleep_for_event(&mut self, cq: Cq, until: Option<Time>) -> Result<bool, Failure>;

    /// Sleeps until the time is over, or the world.
    fn sleep(&mut self, until: Option<Time>);

    /// Gives the NIC time to receive, if it needs the application's.
    fn progress(&mut self);

    /// Wakes the application whenever the world is stopped.
    fn stop(&self) -> &Stop;

    /// Why the application cannot go on, if it cannot.
    fn fault(&self) -> Option<Failure>;

    /// What its device has counted, if it has one of its own that says.
    fn device_counts(&self) -> Option<DeviceCounts> {
        None
    }
}
