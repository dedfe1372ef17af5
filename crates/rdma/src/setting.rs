//! Numbers that an extension can be set to: what they are called, what they may be, and what they are.
//!
//! ```text
//!   const GAIN: Setting = Setting::new("gain_1000ths", 1..=1_000, 500, "...")   declared once, by the extension
//!   Values::of(&[GAIN, ...]) ─► set by whoever reads a file ─► values.get(&GAIN)
//! ```
//!
//! A setting is asked for by its declaration, so that one that is misspelt does not compile. All are whole
//! numbers: the end of a name says the unit (`_us`, `_bytes`, `_mbps`) or the part (`_1000ths`), as in scenario
//! files.

use core::fmt;
use core::ops::RangeInclusive;

/// The most settings that one extension has.
pub const SETTINGS_MAX: usize = 12;

/// One number that an extension can be set to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    key: &'static str,
    about: &'static str,
    range: RangeInclusive<u64>,
    default: u64,
}

impl Setting {
    /// A number within `range`, which is `default` where nothing is said.
    ///
    /// # Panics
    /// If the default is not within the range; a constant then does not compile.
    pub const fn new(
        key: &'static str,
        range: RangeInclusive<u64>,
        default: u64,
        about: &'static str,
    ) -> Self {
        assert!(
            *range.start() <= default && default <= *range.end(),
            "the default is in the range"
        );
        Self { key, about, range, default }
    }

    /// What it is called; its end is its unit.
    pub const fn key(&self) -> &'static str {
        self.key
    }

    /// What it is, in a sentence.
    pub const fn about(&self) -> &'static str {
        self.about
    }

    /// The least and the most that it may be.
    pub const fn bounds(&self) -> (u64, u64) {
        (*self.range.start(), *self.range.end())
    }

    /// What it is where nothing is said.
    pub const fn default(&self) -> u64 {
        self.default
    }
}

/// The settings of an extension, each with its number.
#[derive(Clone, Copy)]
pub struct Values {
    settings: &'static [Setting],
    numbers: [u64; SETTINGS_MAX],
}

impl Values {
    /// All as they are where nothing is said. Of more than [`SETTINGS_MAX`] the first count.
    pub fn of(settings: &'static [Setting]) -> Self {
        let mut numbers = [0; SETTINGS_MAX];
        for (number, setting) in numbers.iter_mut().zip(settings) {
            *number = setting.default;
        }
        Self { settings, numbers }
    }

    /// The number of a setting: what it was set to, or else its default.
    pub fn get(&self, setting: &Setting) -> u64 {
        let found = self.iter().find(|(own, _)| own.key == setting.key);
        found.map_or(setting.default, |(_, number)| number)
    }

    /// Sets a number, which is brought within its range, if these are settings of which it is one.
    pub fn set(&mut self, setting: &Setting, number: u64) {
        let own = self.settings.iter().zip(&mut self.numbers);
        for (_, place) in own.filter(|(own, _)| own.key == setting.key) {
            let (least, most) = setting.bounds();
            *place = number.clamp(least, most);
        }
    }

    /// All of them, in the order of their declaration.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Setting, u64)> {
        self.settings.iter().zip(self.numbers)
    }
}

impl PartialEq for Values {
    fn eq(&self, other: &Self) -> bool {
        self.settings == other.settings && self.numbers == other.numbers
    }
}

impl Eq for Values {}

/// As people write it: `gain_1000ths 500, least_mbps 10`.
impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (setting, number)) in self.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{} {number}", setting.key)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(setting, number)| (setting.key, number))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString as _;

    const GAIN: Setting = Setting::new("gain_1000ths", 1..=1_000, 500, "How much.");
    const LEAST: Setting = Setting::new("least_mbps", 1..=100, 10, "How little.");
    const FOREIGN: Setting = Setting::new("other", 0..=9, 4, "Of another extension.");

    #[test]
    fn a_number_is_what_it_was_set_to_and_otherwise_its_default() {
        let mut values = Values::of(&[GAIN, LEAST]);
        assert_eq!((values.get(&GAIN), values.get(&LEAST)), (500, 10));
        values.set(&GAIN, 3);
        values.set(&LEAST, 101);
        values.set(&FOREIGN, 9);
        assert_eq!((values.get(&GAIN), values.get(&LEAST), values.get(&FOREIGN)), (3, 100, 4));
        assert_eq!(values.to_string(), "gain_1000ths 3, least_mbps 100");
        assert_ne!(values, Values::of(&[GAIN, LEAST]));
    }
}
