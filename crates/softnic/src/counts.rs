//! What the soft NIC counts beside the engine's own [`transport::Stats`].

rdma::counters! {
    /// What a NIC has counted since it was opened.
    pub struct Counts {
        /// RoCE packets that arrived, well or not.
        rx_packets,
        /// Bytes of them above UDP.
        rx_bytes,
        /// Datagrams and GSO batches (trains) of them that were taken from the kernel.
        rx_trains,
        /// Datagrams, or GSO batches, that the kernel dropped because a socket's buffer was full.
        rx_buffer_overflow,
        /// Packets with a wrong ICRC.
        rx_icrc_encapsulated,
        /// Packets whose ICRC fits an IP identification that is neither 0 nor their place in a GSO
        /// batch: of another implementation, or of a batch that was cut on the way.
        rx_ip_id_recovered,
        /// Packets shorter than their headers.
        rx_malformed_truncated,
        /// Packets with an unknown opcode.
        rx_malformed_opcode,
        /// Packets with an unknown transport version.
        rx_malformed_version,
        /// Packets with more padding than payload.
        rx_malformed_pad,
        /// Packets with a payload that their opcode does not have.
        rx_malformed_payload,
        /// Packets malformed otherwise.
        rx_malformed_other,
        /// Packets that arrived here and were given to the NIC that they are for.
        rx_handed_over,
        /// Packets that another NIC has handed over to this one.
        rx_taken_over,
        /// Packets for a slot that nobody has: of a peer that has not noticed a death yet.
        rx_unknown_slot,
        /// Packets for another NIC that could not be given to it, or that were handed over in error.
        rx_handover_dropped,
        /// Packets to QP1 that are no management datagrams, or do not have its Q_Key.
        rx_gsi_dropped,
        /// Packets to a multicast group with the number of one queue pair.
        rx_group_dropped,
        /// Packets from an address of this host that did not come from UDP port 4791, which its NIC sends from.
        rx_local_port_dropped,
        /// Packets by UDP from a NIC of this host that has a ring for them: it did not send them.
        rx_beside_ring_dropped,
        /// Times that the kernel's order of the sockets was found to be another than known.
        steering_repairs,
        /// Packets that came through rings of shared memory, from NICs of this host.
        rx_ring_packets,
        /// Packets in rings that were between other addresses than the sender's and ours, or for no
        /// queue pair of ours.
        ring_rx_dropped,
        /// RoCE packets sent.
        tx_packets,
        /// Bytes of them above UDP.
        tx_bytes,
        /// Datagrams and GSO batches that were given to the kernel.
        tx_trains,
        /// Packets that the kernel did not take: no route, too long for the interface, or forbidden.
        tx_errors,
        /// Packets dropped because the socket's buffer remained full.
        tx_dropped,
        /// Times that sending to a receiver on this host paused because it had no room.
        tx_pauses,
        /// Pauses that were given up: the receiver took nothing.
        tx_pauses_given_up,
        /// Packets dropped because no socket has their source address.
        tx_no_source,
        /// Packets whose payload was not mapped any more.
        tx_faulted,
        /// Packets that were put into rings of shared memory, for NICs of this host.
        tx_ring_packets,
        /// Rings that NICs of this host have taken.
        rings_made,
        /// Rings that were taken from NICs of this host.
        rings_taken,
        /// Offers of rings, to or from NICs of this host, that came to nothing, and rings that were closed: these
        /// NICs are reached by UDP.
        rings_refused,
        /// Rings that were given up because the other side wrote nonsense.
        rings_broken,
        /// Times that a NIC of this host was woken for what is in its ring.
        ring_doorbells,
        /// Timeouts that took nothing for lost, because it may still have been in the ring of a NIC that
        /// had not looked there, or in its sockets while a ring was offered to it.
        ring_timeouts_put_off,
        /// Packets that fault injection has dropped.
        fault_lost,
        /// Packets that fault injection has sent twice.
        fault_duplicated,
        /// Packets that fault injection has sent late.
        fault_reordered,
        /// Packets that fault injection has corrupted: by a bit, a burst of 2 to 64 bits, or a word.
        fault_corrupted,
        /// Packets that fault injection has sent later, by the time that was asked for.
        fault_delayed,
        /// Acknowledgements that fault injection has made RNR NAKs of.
        fault_not_ready,
        /// Packets that fault injection has marked for congestion.
        fault_marked,
        /// Times that the progress thread has woken up.
        thread_wakeups,
        /// Packets that the progress thread has taken.
        thread_packets,
        /// Packets that threads of the application have taken while they waited for an event.
        stand_in_packets,
    }
}

impl Counts {
    /// Counts a packet of so many bytes that is in a ring now, or for which there was no room.
    #[inline]
    pub(crate) fn sent_through_ring(&mut self, is_in: bool, bytes: usize) {
        if !is_in {
            self.tx_dropped += 1;
            return;
        }
        self.tx_packets += 1;
        self.tx_ring_packets += 1;
        self.tx_bytes += bytes as u64;
    }

    /// Counts a malformed packet by its cause.
    pub(crate) fn malformed(&mut self, cause: wire::Error) {
        let counter = match cause {
            wire::Error::Truncated => &mut self.rx_malformed_truncated,
            wire::Error::Opcode => &mut self.rx_malformed_opcode,
            wire::Error::Version => &mut self.rx_malformed_version,
            wire::Error::Pad => &mut self.rx_malformed_pad,
            wire::Error::UnexpectedPayload => &mut self.rx_malformed_payload,
            wire::Error::Icrc => &mut self.rx_icrc_encapsulated,
            _ => &mut self.rx_malformed_other,
        };
        *counter += 1;
    }
}
