//! What leaves: the engines are asked for a packet when the port is free.

use rdma::Time;
use transport::Route;

use super::{ENGINE_SHIFT, FIRST_QPN, Host};
use crate::packet::{Draft, Tuple, host_of};
use crate::plant::Plant;
use crate::switch::hash_of;

impl Host {
    /// Sends if the port is free; asks to be called again if not.
    pub(crate) fn kick(&mut self, plant: &mut Plant) {
        let now = plant.now();
        let at = plant.port(self.port);
        if at.armed {
            return;
        }
        if at.free_at > now {
            plant.arm(self.port);
        } else {
            self.send(plant);
        }
    }

    /// The port is free: sends the next frame, if there is one.
    pub(crate) fn send(&mut self, plant: &mut Plant) {
        let at = plant.port(self.port);
        if at.pending != 0 {
            plant.send_pause(self.port);
            plant.arm(self.port);
            return;
        }
        let paused = at.paused;
        let count = self.engines.len();
        for step in 0..count {
            let index = (self.turn + step) % count;
            if paused >> self.engines[index].priority & 1 != 0 {
                continue;
            }
            let packet = self.take(plant, index);
            // It may have begun to wait for an acknowledgement, or for its pace.
            self.after(plant, index);
            if let Some(packet) = packet {
                self.turn = index + 1;
                plant.transmit(self.port, packet);
                plant.arm(self.port);
                return;
            }
        }
    }

    /// The next packet of an engine.
    fn take(&mut self, plant: &mut Plant, engine: usize) -> Option<u32> {
        let at = &mut self.engines[engine];
        let transmit = at.endpoint.poll_transmit(Time::from_ps(plant.events.now()))?;
        let index = (transmit.qpn.value() & ((1 << ENGINE_SHIFT) - 1)) - FIRST_QPN;
        let pair = &mut at.pairs[index as usize];
        let Route { destination, source_port, traffic_class, hop_limit, .. } = transmit.route;
        if pair.path != Some((destination, source_port)) {
            pair.path = Some((destination, source_port));
            let destination = host_of(destination)?;
            let hash = hash_of(self.index, destination, source_port);
            plant.tuples.push(Tuple { source: self.index, destination, source_port, hash });
            pair.tuple = (plant.tuples.len() - 1) as u32;
        }
        self.ip_id = self.ip_id.wrapping_add(1);
        let priority = at.priority;
        let draft = Draft {
            header: &transmit.header,
            payload: transmit.payload.len(),
            tuple: (pair.tuple, plant.tuples[pair.tuple as usize]),
            traffic_class,
            ttl: hop_limit,
            ip_id: self.ip_id,
            pcp: self.config.tagged.then_some(priority),
        };
        plant.created += 1;
        Some(plant.pool.roce(&draft))
    }
}
