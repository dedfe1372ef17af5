//! From RESET to RTS in one go.
//!
//! A program brings its queue pairs up state by state, and gives each state the attributes that the
//! specification asks for there (`state.rs`). A simulated host, a benchmark or a test knows all
//! attributes before it begins; here they are put into their places.

use rdma::{Access, Mtu, Psn, QKey, QpState, QpType, Qpn};

use crate::{AddressVector, QpChange};

/// What a queue pair is brought up with. Fields that its kind does not have are ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BringUp {
    /// Where the peer is.
    pub path: AddressVector,
    /// At most the port's active MTU.
    pub path_mtu: Mtu,
    /// The peer's queue pair.
    pub destination: Qpn,
    /// What the peer may do.
    pub access: Access,
    /// The key of datagrams.
    pub q_key: QKey,
    /// The PSN that the peer will send first.
    pub rq_psn: Psn,
    /// The PSN that we send first.
    pub sq_psn: Psn,
    /// READs and atomics that each side may have outstanding at the other.
    pub rd_atomics: u8,
    /// Code of the shortest delay that our RNR NAKs ask for, 5 bits.
    pub min_rnr_timer: u8,
    /// Local ACK timeout, 5 bits: 4.096 us x 2^timeout, none for 0.
    pub timeout: u8,
    /// 0 to 7.
    pub retry_count: u8,
    /// 0 to 6, or 7 for ever.
    pub rnr_retry: u8,
    /// See [`QpChange::selective_repeat`].
    pub selective_repeat: Option<bool>,
    /// See [`QpChange::between_hosts`].
    pub between_hosts: bool,
}

impl BringUp {
    /// Connected to `destination` at the end of `path`, with every right for the peer, PSNs from 0 on
    /// both sides and the timers that are usual.
    pub fn new(path: AddressVector, path_mtu: Mtu, destination: Qpn) -> Self {
        Self {
            path,
            path_mtu,
            destination,
            access: Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC,
            q_key: QKey::default(),
            rq_psn: Psn::new(0),
            sq_psn: Psn::new(0),
            rd_atomics: 16,
            min_rnr_timer: 12,
            timeout: 14,
            retry_count: 7,
            rnr_retry: 7,
            selective_repeat: None,
            between_hosts: false,
        }
    }

    /// The changes to INIT, to RTR and to RTS of a queue pair of `kind`.
    pub fn changes(&self, kind: QpType) -> [QpChange; 3] {
        let is_connected = kind.is_connected();
        let answers = matches!(kind, QpType::Rc | QpType::XrcTarget);
        let asks = matches!(kind, QpType::Rc | QpType::XrcInitiator);
        let init = QpChange {
            pkey_index: Some(0),
            port: Some(1),
            access: is_connected.then_some(self.access),
            q_key: (!is_connected).then_some(self.q_key),
            ..QpChange::to(QpState::Init)
        };
        let rtr = QpChange {
            path: is_connected.then_some(self.path),
            path_mtu: is_connected.then_some(self.path_mtu),
            destination: is_connected.then_some(self.destination),
            rq_psn: is_connected.then_some(self.rq_psn),
            max_dest_rd_atomic: answers.then_some(self.rd_atomics),
            min_rnr_timer: answers.then_some(self.min_rnr_timer),
            selective_repeat: self.selective_repeat.filter(|_| kind == QpType::Rc),
            between_hosts: Some(self.between_hosts),
            ..QpChange::to(QpState::Rtr)
        };
        let rts = QpChange {
            sq_psn: Some(self.sq_psn),
            timeout: kind.is_reliable().then_some(self.timeout),
            retry_count: asks.then_some(self.retry_count),
            rnr_retry: asks.then_some(self.rnr_retry),
            max_rd_atomic: asks.then_some(self.rd_atomics),
            ..QpChange::to(QpState::Rts)
        };
        [init, rtr, rts]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, CqId, Endpoint, ModifyError, QpCapacity, QpSpec};
    use rdma::Gid;

    /// A queue pair of every kind.
    fn all(endpoint: &mut Endpoint) -> [(QpType, Qpn); 5] {
        let pd = endpoint.alloc_pd().unwrap();
        let cq: CqId = endpoint.create_cq(4).unwrap();
        let xrcd = endpoint.alloc_xrcd().unwrap();
        let kinds = [QpType::Rc, QpType::Uc, QpType::Ud, QpType::XrcInitiator, QpType::XrcTarget];
        kinds.map(|kind| {
            let (send_cq, recv_cq, srq, signal_all) = (cq, cq, None, false);
            let capacity = QpCapacity::default();
            let spec = QpSpec { kind, pd, send_cq, recv_cq, srq, capacity, signal_all };
            let made = match kind {
                QpType::XrcTarget => endpoint.create_xrc_target(xrcd),
                _ => endpoint.create_qp(spec),
            };
            (kind, made.unwrap())
        })
    }

    fn up() -> BringUp {
        let gid = Gid([1; 16]);
        let path = AddressVector { gid, source_gid: gid, ..AddressVector::default() };
        BringUp { rq_psn: Psn::new(7), ..BringUp::new(path, Mtu::B1024, Qpn::new(5)) }
    }

    #[test]
    fn a_queue_pair_of_any_kind_comes_up() {
        let mut endpoint = Endpoint::new(Config::default());
        for (kind, qpn) in all(&mut endpoint) {
            assert_eq!(endpoint.bring_up(qpn, &up()), Ok(()), "{kind:?}");
            let query = endpoint.query_qp(qpn).unwrap();
            assert_eq!(query.state, QpState::Rts);
            let expected = if kind.is_connected() { (7, 5) } else { (0, 0) };
            let (psn, peer) = (query.rq_psn.value(), query.attributes.destination.value());
            assert_eq!((psn, peer), expected, "{kind:?}");
        }
    }

    #[test]
    fn what_is_refused_leaves_the_queue_pair_where_it_is() {
        let mut endpoint = Endpoint::new(Config::default());
        let [(_, qpn), ..] = all(&mut endpoint);
        let with = BringUp { timeout: 32, ..up() };
        assert_eq!(endpoint.bring_up(qpn, &with), Err(ModifyError::Value(crate::Mask::TIMEOUT)));
        assert_eq!(endpoint.query_qp(qpn).unwrap().state, QpState::Rtr);
        assert_eq!(endpoint.bring_up(Qpn::new(0xff), &up()), Err(ModifyError::NotFound));
    }
}
