//! Counters, under the names of the Linux `hw_counters` directory where it has one.

use core::fmt;

use crate::Blocked;

rdma::counters! {
    /// What an endpoint has counted since it was made.
    pub struct Stats {
        /// RoCE packets sent.
        sent_pkts,
        /// Payload bytes sent.
        sent_bytes,
        /// RoCE packets received by a queue pair.
        rcvd_pkts,
        /// Payload bytes received by a queue pair.
        rcvd_bytes,
        /// Requests received again.
        duplicate_request,
        /// Requests that arrived ahead of the expected PSN.
        out_of_seq_request,
        /// RNR NAKs sent.
        send_rnr_err,
        /// RNR NAKs received.
        rcvd_rnr_err,
        /// Sequence-error NAKs sent.
        send_seq_err,
        /// Sequence-error NAKs received.
        rcvd_seq_err,
        /// READ responses or acknowledgements that showed an earlier response to be lost.
        implied_nak_seq_err,
        /// Times that `retry_cnt` was exceeded.
        retry_exceeded_err,
        /// Times that `rnr_retry` was exceeded.
        retry_rnr_exceeded_err,
        /// Local ACK timeouts.
        local_ack_timeout_err,
        /// Packets sent a second time or more.
        retransmitted_pkts,
        /// Of those: after a local ACK timeout.
        retransmitted_after_timeout,
        /// Of those: after a NAK, or a response that was missing; under go-back-N all packets from there on.
        retransmitted_after_nak,
        /// Of those: after an RNR NAK.
        retransmitted_after_rnr,
        /// Of those: alone, as the peer has told of later ones (selective repeat).
        retransmitted_selectively,
        /// Of those: to hear of the last of a message, because nothing was heard for a while (tail-loss probes).
        retransmitted_as_probe,
        /// READ requests sent a second time at once, because packets are lost on the way to another host.
        sent_read_copies,
        /// READ requests that came a second time so, and were dropped.
        rcvd_read_copies,
        /// Packets sent to learn how long those are that the path takes: whether longer than the path MTU, mostly.
        path_probes_sent,
        /// Answers to those: it takes as long ones.
        path_probes_answered,
        /// Acknowledgements sent.
        acks_sent,
        /// RDMA WRITE requests executed.
        rx_write_requests,
        /// RDMA READ requests executed.
        rx_read_requests,
        /// Atomic requests executed.
        rx_atomic_requests,
        /// Error completions of receives and responders.
        resp_cqe_error,
        /// Error completions of sends.
        req_cqe_error,
        /// Completions flushed, sends and receives.
        cqe_flush_error,
        /// Requests refused with a remote access error.
        resp_remote_access_errors,
        /// Packets received with a mark of congestion (CE).
        np_ecn_marked_roce_packets,
        /// CNPs sent.
        np_cnp_sent,
        /// CNPs received and obeyed.
        rp_cnp_handled,
        /// CNPs received that nothing obeys: without a controller that listens, or dropped.
        rp_cnp_ignored,
        /// Times that sending stopped: a peer had no receive posted.
        tx_blocked_rnr,
        /// Times that sending stopped: the window was full.
        tx_blocked_window,
        /// Times that sending stopped: as many READs and atomics were outstanding as the peer answers.
        tx_blocked_read_limit,
        /// Times that sending stopped: the rate held a packet back.
        tx_blocked_pace,
        /// Times that sending stopped: a fenced request waited for READs and atomics.
        tx_blocked_fence,
        /// Times that sending stopped: the send queue was being drained.
        tx_blocked_drain,
        /// Times that sending stopped: a request could not be sent, and waited to fail.
        tx_blocked_failure,
        /// Times that sending stopped: the path to the peer was full.
        tx_blocked_path,
        /// Packets dropped: the destination QPN names no queue pair.
        drop_unknown_qpn,
        /// Packets dropped: the queue pair was not in a state to take them.
        drop_qp_state,
        /// Packets dropped: of a transport service other than the queue pair's.
        drop_wrong_transport,
        /// Packets dropped: not from the address that the queue pair is connected to.
        drop_wrong_source,
        /// Packets dropped: of another partition.
        drop_pkey,
        /// Packets dropped: datagrams with another Q_Key.
        drop_qkey,
        /// Packets dropped: datagrams without a receive posted.
        drop_no_receive,
        /// Packets dropped: responses that nothing waits for.
        drop_unexpected_response,
        /// Packets dropped: out of order or unfit for an unreliable connection, or after a NAK.
        drop_out_of_order,
        /// Packets dropped: payload of a length that the opcode does not allow.
        drop_bad_length,
    }
}

/// Why a packet changed nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Drop {
    /// The destination QPN names no queue pair.
    UnknownQpn,
    /// The queue pair is not in a state to take it.
    QpState,
    /// It is of a transport service other than the queue pair's.
    WrongTransport,
    /// It does not come from the address that the queue pair is connected to.
    WrongSource,
    /// It is of another partition.
    PKey,
    /// A datagram with another Q_Key.
    QKey,
    /// A datagram without a receive posted.
    NoReceive,
    /// A response that nothing waits for.
    UnexpectedResponse,
    /// Out of order or unfit for an unreliable connection, or after a NAK.
    OutOfOrder,
    /// Its payload is of a length that the opcode does not allow.
    BadLength,
}

/// What made a requester send packets again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Again {
    /// The local ACK timer.
    Timeout,
    /// A NAK, or a response that was missing.
    #[default]
    Nak,
    /// An RNR NAK.
    NotReady,
    /// A selective acknowledgement.
    Selective,
    /// Nothing was heard for a while.
    Probe,
}

impl Stats {
    /// Counts a packet that is sent again.
    pub(crate) fn again(&mut self, why: Again) {
        let reason = match why {
            Again::Timeout => &mut self.retransmitted_after_timeout,
            Again::Nak => &mut self.retransmitted_after_nak,
            Again::NotReady => &mut self.retransmitted_after_rnr,
            Again::Selective => &mut self.retransmitted_selectively,
            Again::Probe => &mut self.retransmitted_as_probe,
        };
        *reason += 1;
        self.retransmitted_pkts += 1;
    }

    /// Counts that sending has stopped, by the reason.
    pub(crate) fn block(&mut self, why: Blocked) {
        let counter = match why {
            Blocked::Rnr => &mut self.tx_blocked_rnr,
            Blocked::Window => &mut self.tx_blocked_window,
            Blocked::ReadLimit => &mut self.tx_blocked_read_limit,
            Blocked::Pace => &mut self.tx_blocked_pace,
            Blocked::Fence => &mut self.tx_blocked_fence,
            Blocked::Drain => &mut self.tx_blocked_drain,
            Blocked::Failure => &mut self.tx_blocked_failure,
            Blocked::Path => &mut self.tx_blocked_path,
        };
        *counter += 1;
    }

    /// Counts a drop by its cause.
    pub(crate) fn drop_packet(&mut self, cause: Drop) {
        let counter = match cause {
            Drop::UnknownQpn => &mut self.drop_unknown_qpn,
            Drop::QpState => &mut self.drop_qp_state,
            Drop::WrongTransport => &mut self.drop_wrong_transport,
            Drop::WrongSource => &mut self.drop_wrong_source,
            Drop::PKey => &mut self.drop_pkey,
            Drop::QKey => &mut self.drop_qkey,
            Drop::NoReceive => &mut self.drop_no_receive,
            Drop::UnexpectedResponse => &mut self.drop_unexpected_response,
            Drop::OutOfOrder => &mut self.drop_out_of_order,
            Drop::BadLength => &mut self.drop_bad_length,
        };
        *counter += 1;
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in Self::NAMES.iter().zip(self.values()) {
            if value != 0 {
                writeln!(f, "{name} {value}")?;
            }
        }
        Ok(())
    }
}
