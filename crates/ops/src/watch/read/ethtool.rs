//! `ethtool -S INTERFACE`: `     rx_prio3_pause: 17`, a line each. Queues of some drivers have colons in their names,
//! as in `[0]: rx_ucast_packets: 5`.

use super::{ReadError, count, is_name};
use crate::watch::{Origin, PortName, Raw};

/// Adds the statistics of the interface `port`.
///
/// # Errors
/// No line of it is a counter.
pub fn read(raw: &mut Raw, port: &PortName, text: &str) -> Result<(), ReadError> {
    let mut any = false;
    raw.port(port);
    for line in text.lines() {
        let Some((name, value)) = line.rsplit_once(':') else { continue };
        if let (name, Some(value)) = (name.trim(), count(value))
            && is_name(name)
        {
            any = true;
            raw.add(port, Origin::Ethtool, name, value);
        }
    }
    if any {
        Ok(())
    } else {
        Err(ReadError::whole("expected what ethtool -S prints: `name: number`, a line each"))
    }
}
