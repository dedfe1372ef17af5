//! Who is connected to whom: queue pairs that name the same channel, in all applications of a world.

use std::collections::BTreeMap;
use std::sync::Arc;

use rdma::app::{Channel, RemoteRegion};
use rdma::{Key, QpType};
use serde::{Deserialize, Serialize};

use super::Peer;
use crate::Failure;

/// What an application's peers must know of it. It travels to other processes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Introduction {
    /// The address of its NIC.
    pub gid: [u8; 16],
    /// The largest packet of its NIC, in bytes of payload.
    pub mtu: u32,
    /// Its regions, in the order of its layout.
    pub regions: Vec<Reach>,
    /// Its queue pairs, in the order of its layout.
    pub ends: Vec<End>,
    /// Whether it only serves.
    pub serves: bool,
}

/// A region, as a peer reaches it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reach {
    /// Of its first byte.
    pub address: u64,
    /// In bytes.
    pub length: u64,
    /// Its R_Key.
    pub key: u32,
}

impl Reach {
    /// In the seam's words.
    pub fn region(&self) -> RemoteRegion {
        RemoteRegion { address: self.address, length: self.length, r_key: Key(self.key) }
    }
}

/// A transport service that an application can ask for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
}

impl Service {
    /// What `kind` is; `None` for services that the seam does not have.
    pub const fn of(kind: QpType) -> Option<Self> {
        match kind {
            QpType::Rc => Some(Self::Rc),
            QpType::Uc => Some(Self::Uc),
            QpType::Ud => Some(Self::Ud),
            QpType::XrcInitiator | QpType::XrcTarget => None,
        }
    }
}

/// A queue pair, as a peer reaches it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct End {
    /// Whom it looks for.
    pub channel: u32,
    /// Its transport service.
    pub service: Service,
    /// Its number.
    pub qpn: u32,
    /// The PSN that it sends first.
    pub psn: u32,
    /// READs and atomics that it takes, and asks for.
    pub reads: u8,
}

/// The peers of every queue pair, for each of the applications `own` of all those of a world.
///
/// # Errors
/// A channel of a connection that has not two ends, or whose ends are of two services.
pub fn meet(
    all: &[Arc<Introduction>],
    own: core::ops::Range<usize>,
) -> Result<Vec<Vec<Vec<Peer>>>, Failure> {
    let mut channels: BTreeMap<u32, Vec<(usize, usize)>> = BTreeMap::new();
    for (application, introduction) in all.iter().enumerate() {
        for (end, what) in introduction.ends.iter().enumerate() {
            channels.entry(what.channel).or_default().push((application, end));
        }
    }
    for (channel, ends) in &channels {
        let service = |&(application, end): &(usize, usize)| all[application].ends[end].service;
        let first = service(&ends[0]);
        let channel = Channel(*channel);
        if ends.iter().any(|end| service(end) != first) {
            return Err(Failure::new(format!("{channel:?} has ends of several services")));
        }
        let count = ends.len();
        if count < 2 || (count > 2 && first != Service::Ud) {
            let message = format!("{channel:?} joins two queue pairs, and {count} name it");
            return Err(Failure::new(message)
                .hint("run the same workload, of the same version, at both ends"));
        }
    }
    let peers = |application: usize, end: usize| -> Vec<Peer> {
        let ends = &channels[&all[application].ends[end].channel];
        let others = ends.iter().filter(|other| **other != (application, end));
        others.map(|&(at, end)| Peer { introduction: Arc::clone(&all[at]), end }).collect()
    };
    let of_one = |at: usize| (0..all[at].ends.len()).map(|end| peers(at, end)).collect();
    Ok(own.map(of_one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(ends: &[(u32, Service)]) -> Arc<Introduction> {
        let end = |&(channel, service): &(u32, Service)| End {
            channel,
            service,
            qpn: 100 + channel,
            psn: 0,
            reads: 1,
        };
        Arc::new(Introduction {
            gid: [0; 16],
            mtu: 4096,
            regions: Vec::new(),
            ends: ends.iter().map(end).collect(),
            serves: false,
        })
    }

    #[test]
    fn ends_of_a_channel_find_each_other_in_the_order_of_the_applications() {
        let all = [
            one(&[(7, Service::Rc), (9, Service::Ud)]),
            one(&[(9, Service::Ud)]),
            one(&[(9, Service::Ud), (7, Service::Rc)]),
        ];
        let met = meet(&all, 0..3).unwrap();
        let connected = &met[0][0];
        assert_eq!(connected.len(), 1);
        assert_eq!((connected[0].end().qpn, connected[0].end), (107, 1));
        let ends = |at: usize, end: usize| -> Vec<usize> {
            met[at][end].iter().map(|peer| peer.introduction.ends.len()).collect()
        };
        assert_eq!(ends(0, 1), [1, 2]);
        assert_eq!(ends(1, 0), [2, 2]);
        assert_eq!(ends(2, 0), [2, 1]);
    }

    #[test]
    fn a_channel_that_does_not_join_two_is_refused() {
        let alone = [one(&[(7, Service::Rc)])];
        let said = meet(&alone, 0..1).unwrap_err().to_string();
        assert!(said.starts_with("Channel(7) joins two queue pairs, and 1 name it"), "{said}");
        let three = [one(&[(7, Service::Uc), (7, Service::Uc), (7, Service::Uc)])];
        assert!(meet(&three, 0..1).is_err());
        let mixed = [one(&[(7, Service::Uc)]), one(&[(7, Service::Rc)])];
        assert!(meet(&mixed, 0..1).is_err());
    }
}
