//! What `ethtool -S INTERFACE` and `ethtool -i INTERFACE` print: `name: value` lines.

use std::collections::BTreeMap;

use super::{Result, Wrong};
use crate::doctor::limits::COUNTERS_MAX;

/// Counters by name; what is no number is passed over.
pub(in crate::doctor) fn counters(text: &str) -> Result<BTreeMap<String, u64>> {
    let mut all = BTreeMap::new();
    for line in text.lines() {
        let Some((name, value)) = line.rsplit_once(':') else { continue };
        let Ok(value) = value.trim().parse() else { continue };
        if all.len() < COUNTERS_MAX {
            all.insert(name.trim().to_owned(), value);
        }
    }
    match all.is_empty() {
        true => Err(Wrong::whole(
            "there is no counter in it",
            "take it again: ethtool -S INTERFACE > ethtool-S.INTERFACE.txt",
        )),
        false => Ok(all),
    }
}

/// What it says of the driver.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(in crate::doctor) struct Driver {
    pub(in crate::doctor) driver: Option<String>,
    pub(in crate::doctor) firmware: Option<String>,
    /// The line of the firmware, from 1.
    pub(in crate::doctor) line: usize,
}

pub(in crate::doctor) fn driver(text: &str) -> Result<Driver> {
    let mut said = Driver::default();
    for (number, line) in text.lines().enumerate() {
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = Some(value.trim().to_owned()).filter(|value| !value.is_empty());
        match name.trim() {
            "driver" => said.driver = value,
            "firmware-version" => (said.firmware, said.line) = (value, number + 1),
            _ => {}
        }
    }
    if said.driver.is_none() {
        let hint = "take it again: ethtool -i INTERFACE > ethtool-i.INTERFACE.txt";
        return Err(Wrong::whole("it has no line \"driver: NAME\"", hint));
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_and_drivers_are_read() {
        let text = "NIC statistics:\n     rx_prio3_pause: 12\n     rx_prio3_pause_duration: 9\n";
        assert_eq!(counters(text).unwrap()["rx_prio3_pause"], 12);
        assert!(counters("no stats available\n").is_err());
        let said = driver(
            "driver: mlx5_core\nversion: 5.0\nfirmware-version: 28.39.1002 (MT_0000000838)\n",
        )
        .unwrap();
        assert!(driver("Cannot get driver information: No such device\n").is_err());
        assert_eq!(said.driver.as_deref(), Some("mlx5_core"));
        assert_eq!(said.firmware.as_deref(), Some("28.39.1002 (MT_0000000838)"));
    }
}
