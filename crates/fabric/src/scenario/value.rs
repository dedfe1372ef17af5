//! What may be written as the value of a key: its type, its bounds, and the error for one that is wrong.
//! There is one function for each kind of value.

use core::fmt;

use rdma::{Rate, Span};
use serde::de::value::{Error as NoValue, StrDeserializer};
use serde::de::{DeserializeOwned, Error as _, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use toml::de::DeValue;

use super::at::{Entry, Result};
use super::error::{ScenarioError, plain, unit_hint, unit_of};
use super::reference::TableText;
use crate::extend::Extensions;
use crate::limits::{RATE_GBPS_MAX, SECONDS_MAX};

/// A kind of value, which is a `T` in settings.
pub(super) struct Value<'a, T> {
    /// What may be written.
    pub(super) accepts: String,
    /// Whether the table has no meaning without it.
    pub(super) is_needed: bool,
    read: Box<Read<'a, T>>,
    show: Box<Show<'a, T>>,
    tables: fn(&str, &mut Vec<TableText>),
}

type Read<'a, T> = dyn Fn(&Entry<'a, '_>, &mut T) -> Result<()> + 'a;
type Show<'a, T> = dyn Fn(&str, &T) -> String + 'a;

impl<'a, T: 'a> Value<'a, T> {
    /// `show` says a setting as it would be written for a key.
    pub(super) fn new(
        accepts: impl Into<String>,
        read: impl Fn(&Entry<'a, '_>) -> Result<T> + 'a,
        show: impl Fn(&str, &T) -> String + 'a,
    ) -> Self {
        let read = move |entry: &Entry<'a, '_>, out: &mut T| read(entry).map(|value| *out = value);
        Self::in_place(accepts, read, show)
    }

    pub(super) fn in_place(
        accepts: impl Into<String>,
        read: impl Fn(&Entry<'a, '_>, &mut T) -> Result<()> + 'a,
        show: impl Fn(&str, &T) -> String + 'a,
    ) -> Self {
        let (accepts, read, show) = (accepts.into(), Box::new(read), Box::new(show));
        Self { accepts, is_needed: false, read, show, tables: |_, _| {} }
    }

    /// A value that is tables itself, which are read over what is there.
    pub(super) fn of_tables(
        accepts: &str,
        read: impl Fn(&Entry<'a, '_>, &mut T) -> Result<()> + 'a,
        tables: fn(&str, &mut Vec<TableText>),
    ) -> Self {
        Self { tables, ..Self::in_place(accepts, read, |_, _| "none".to_owned()) }
    }

    pub(super) fn read(&self, entry: &Entry<'a, '_>, out: &mut T) -> Result<()> {
        (self.read)(entry, out)
    }

    pub(super) fn get(&self, entry: &Entry<'a, '_>) -> Result<T>
    where
        T: Default,
    {
        let mut out = T::default();
        self.read(entry, &mut out).map(|()| out)
    }

    /// What counts if it is not written and the setting is `default`, for the reference.
    pub(super) fn otherwise(&self, key: &str, default: &T) -> String {
        if self.is_needed { "needed".to_owned() } else { (self.show)(key, default) }
    }

    /// Adds the tables in it, whose path is `path`.
    pub(super) fn describe(&self, path: &str, texts: &mut Vec<TableText>) {
        (self.tables)(path, texts);
    }
}

/// A number without a fraction.
pub(super) trait Number:
    Copy + PartialOrd + fmt::Display + TryFrom<i128> + Into<i128> + 'static
{
    const LEAST: Self;
    const MOST: Self;
}

macro_rules! numbers {
    ($($number:ident)+) => { $(
        impl Number for $number {
            const LEAST: Self = Self::MIN;
            const MOST: Self = Self::MAX;
        }
    )+ };
}

numbers!(u8 u16 u32 u64);

/// What is said of a number beyond its bounds.
#[derive(Clone, Copy, Default)]
pub(super) struct Beyond {
    /// What is wrong with it, in the place of its bounds: "would cut through headers".
    reason: Option<&'static str>,
    hint: &'static str,
}

impl From<&'static str> for Beyond {
    fn from(hint: &'static str) -> Self {
        Self { reason: None, hint }
    }
}

/// The reason, and the hint.
impl From<(&'static str, &'static str)> for Beyond {
    fn from((reason, hint): (&'static str, &'static str)) -> Self {
        Self { reason: Some(reason), hint }
    }
}

impl Beyond {
    /// Refuses `number`, which is not `bounds`.
    fn refuse(self, entry: &Entry<'_, '_>, number: &str, bounds: &str) -> ScenarioError {
        let unit = unit_of(entry.key).map(|unit| format!(" {}", unit.name)).unwrap_or_default();
        let wrong = match self.reason {
            Some(reason) => entry.wrong(format!("{number}{unit} {reason}")),
            None => entry.wrong(format!("{number}{unit} is not {bounds}")),
        };
        wrong.hint(if self.hint.is_empty() { unit_hint(entry.key) } else { self.hint })
    }
}

/// Any number that its type has.
pub(super) fn whole<'a, N: Number>() -> Value<'a, N> {
    within(N::LEAST, N::MOST, "")
}

/// A number of at least `least`.
pub(super) fn at_least<'a, N: Number>(least: N, beyond: impl Into<Beyond>) -> Value<'a, N> {
    within(least, N::MOST, beyond)
}

/// A number between bounds, which are among it.
pub(super) fn within<'a, N: Number>(least: N, most: N, beyond: impl Into<Beyond>) -> Value<'a, N> {
    let beyond = beyond.into();
    // The most of the widest type stands for no bound.
    let endless = |number: N| number == N::MOST && size_of::<N>() == size_of::<u64>();
    let [low, high] = [least, most].map(|number| number.to_string());
    let accepts = match endless(most) {
        true => format!("a whole number from {low}"),
        false => format!("a whole number from {low} to {high}"),
    };
    let bounds = match most == N::MOST && size_of::<N>() >= size_of::<u32>() {
        true => format!("at least {low}"),
        false => format!("from {low} to {high}"),
    };
    let (expected, all) = (accepts.clone(), format!("from {low} to {high}"));
    let read = move |entry: &Entry<'a, '_>| {
        let is_text = matches!(entry.value(), DeValue::String(_));
        let unit = unit_hint(entry.key);
        let wrong = || entry.expected(&expected, if is_text { QUOTED } else { unit });
        let number = entry.value().as_integer().ok_or_else(wrong)?;
        let number = i128::from_str_radix(number.as_str(), number.radix()).map_err(|_| wrong())?;
        let fits = N::try_from(number).ok().filter(|fits| (least..=most).contains(fits));
        let text = number.to_string();
        match fits {
            Some(fits) => Ok(fits),
            None if number > most.into() => Err(beyond.refuse(entry, &text, &all)),
            // Reason and hint of a number with an upper bound are about those above it.
            None if number < 0 && (most != N::MOST || beyond.hint.is_empty()) => {
                let hint = format!("write {least} or more");
                Err(Beyond::default().refuse(entry, &text, &bounds).hint(hint))
            }
            None => Err(beyond.refuse(entry, &text, &bounds)),
        }
    };
    let show = move |_: &str, out: &N| match endless(*out) {
        true => "no limit".to_owned(),
        false => out.to_string(),
    };
    Value::new(accepts, read, show)
}

const QUOTED: &str = "write it without quotes, and without a unit: the end of the key says that";

/// What is written of any number.
fn number(entry: &Entry<'_, '_>) -> Result<f64> {
    let number = match entry.value() {
        DeValue::Integer(number) => {
            i128::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number as f64)
        }
        DeValue::Float(number) => number.as_str().parse().ok(),
        _ => None,
    };
    number.ok_or_else(|| {
        let is_text = matches!(entry.value(), DeValue::String(_));
        entry.expected("a number", if is_text { QUOTED } else { unit_hint(entry.key) })
    })
}

/// A number that `fits`, which is said in words.
fn real<'a>(what: &'static str, fits: fn(f64) -> bool, hint: &'static str) -> Value<'a, f64> {
    let read = move |entry: &Entry<'a, '_>| {
        let value = number(entry)?;
        let wrong = || entry.wrong(format!("{} is not {what}", plain(value))).hint(hint);
        if fits(value) { Ok(value) } else { Err(wrong()) }
    };
    Value::new(format!("a number, {what}"), read, |_, out| plain(*out))
}

pub(super) fn probability<'a>(hint: &'static str) -> Value<'a, f64> {
    real("a probability from 0 to 1", |value| (0.0..=1.0).contains(&value), hint)
}

/// A part of a whole, and not none of it.
pub(super) fn share<'a>(hint: &'static str) -> Value<'a, f64> {
    real("above 0 and at most 1", |value| value > 0.0 && value <= 1.0, hint)
}

/// Any number.
pub(super) fn number_of<'a>(what: &str) -> Value<'a, f64> {
    Value::new(what, |entry: &Entry<'a, '_>| number(entry), |_, out| plain(*out))
}

/// How many times slower something goes.
pub(super) fn dilution<'a>() -> Value<'a, f64> {
    let hint = "1 is real time, and 10 a tenth of its speed";
    real("from 1 to 1000000", |value| (1.0..=1e6).contains(&value), hint)
}

/// A time in the unit that the key ends with.
pub(super) fn time<'a>() -> Value<'a, Span> {
    time_from(Span::ZERO, "")
}

/// The shortest time that there is.
pub(super) const TICK: Span = Span::from_ps(1);

/// The same, of at least `least`; `shorter` is said of a shorter one.
pub(super) fn time_from<'a>(least: Span, shorter: impl Into<Beyond>) -> Value<'a, Span> {
    let shorter = shorter.into();
    /// Picoseconds of the unit of a key.
    fn unit(key: &str) -> f64 {
        unit_of(key).and_then(|unit| unit.ps).unwrap_or(1.0)
    }
    let read = move |entry: &Entry<'a, '_>| {
        let (value, unit) = (number(entry)?, unit(entry.key));
        let us = value * (unit / 1e6);
        let span = Span::from_ps((us * 1e6) as u64);
        let is_time = (0.0..=SECONDS_MAX * 1e6).contains(&us);
        if is_time && span >= least {
            return Ok(span);
        }
        let most = plain(SECONDS_MAX * 1e12 / unit);
        let bounds = match least {
            TICK => format!("a time above 0, of at most {most}"),
            least => format!("a time from {} to {most}", plain(least.as_ps() as f64 / unit)),
        };
        let beyond = if is_time { shorter } else { Beyond::default() };
        Err(beyond.refuse(entry, &plain(value), &bounds))
    };
    let accepts = match least {
        Span::ZERO => "a number from 0".to_owned(),
        TICK => "a number above 0".to_owned(),
        least => format!("a number, of at least {least}"),
    };
    Value::new(accepts, read, |key, out: &Span| plain(out.as_ps() as f64 / unit(key)))
}

/// A rate in Gb/s.
pub(super) fn rate<'a>() -> Value<'a, Rate> {
    let bounds = format!("above 0, of at most {RATE_GBPS_MAX}");
    let accepts = format!("a number {bounds}");
    let read = move |entry: &Entry<'a, '_>| {
        let gbps = number(entry)?;
        if gbps > 0.0 && gbps <= RATE_GBPS_MAX && gbps * 1e9 >= 1.0 {
            return Ok(Rate::from_bps((gbps * 1e9) as u64));
        }
        Err(Beyond::default().refuse(entry, &plain(gbps), &format!("a rate {bounds}")))
    };
    Value::new(accepts, read, |_, out| plain(out.as_bps() as f64 / 1e9))
}

pub(super) fn flag<'a>() -> Value<'a, bool> {
    let read = |entry: &Entry<'a, '_>| {
        let wrong = || entry.expected("true or false", "write it without quotes");
        entry.value().as_bool().ok_or_else(wrong)
    };
    Value::new("true or false", read, |_, out| out.to_string())
}

/// A text, which is `what`.
pub(super) fn text<'a>(what: &str) -> Value<'a, String> {
    let read = |entry: &Entry<'a, '_>| {
        let wrong = || entry.expected("a text in quotes", "write it in quotes");
        entry.value().as_str().map(str::to_owned).ok_or_else(wrong)
    };
    Value::new(what, read, |_, out| format!("{out:?}"))
}

/// One of the names that a setting's own type derives.
pub(super) fn choice<'a, T: DeserializeOwned + Clone + PartialEq + 'static>() -> Value<'a, T> {
    let value = |name: &&'static str| {
        let from: StrDeserializer<'_, NoValue> = name.into_deserializer();
        Some((*name, T::deserialize(from).ok()?))
    };
    named(variants::<T>().iter().filter_map(value).collect::<Vec<_>>())
}

/// The names of the variants of an enum that derives `Deserialize`, in their order.
pub(crate) fn variants<T: DeserializeOwned>() -> &'static [&'static str] {
    struct Probe<'p>(&'p mut &'static [&'static str]);

    impl<'de> serde::Deserializer<'de> for Probe<'_> {
        type Error = NoValue;

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> core::result::Result<V::Value, NoValue> {
            Err(NoValue::custom("only enums have names"))
        }

        fn deserialize_enum<V: Visitor<'de>>(
            self,
            _: &'static str,
            variants: &'static [&'static str],
            visitor: V,
        ) -> core::result::Result<V::Value, NoValue> {
            *self.0 = variants;
            self.deserialize_any(visitor)
        }

        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
            option unit unit_struct newtype_struct seq tuple tuple_struct map struct identifier
            ignored_any
        }
    }

    let mut names: &'static [&'static str] = &[];
    // There is no value: what is asked for is what the type asks for.
    let _ = T::deserialize(Probe(&mut names));
    names
}

/// One of a few names, for settings whose type has none.
pub(super) fn named<'a, T: Clone + PartialEq + 'static>(
    values: impl Into<Vec<(&'static str, T)>>,
) -> Value<'a, T> {
    named_and(values, |_| Vec::new())
}

/// The same, or a name of `others`, which are extensions.
pub(super) fn named_and<'a, T: Clone + PartialEq + 'static>(
    values: impl Into<Vec<(&'static str, T)>>,
    others: fn(&Extensions) -> Vec<(&'static str, T)>,
) -> Value<'a, T> {
    let values: Vec<(&'static str, T)> = values.into();
    let names: Vec<&'static str> = values.iter().map(|(name, _)| *name).collect();
    let shown = values.clone();
    let read = move |entry: &Entry<'a, '_>| {
        let others = others(entry.extensions());
        let all = || values.iter().chain(&others);
        let names: Vec<&'static str> = all().map(|(name, _)| *name).collect();
        let name = entry.name_of(&names)?;
        let found = all().find(|(other, _)| *other == name);
        found.map(|(_, value)| value.clone()).ok_or_else(|| entry.wrong("there is none"))
    };
    let show = move |_: &str, out: &T| {
        let found = shown.iter().find(|(_, value)| value == out);
        found.map_or_else(|| "none".to_owned(), |(name, _)| format!("{name:?}"))
    };
    Value::new(one_of(&names), read, show)
}

/// Names as the reference shows them.
pub(super) fn one_of(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    match quoted.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => quoted.concat(),
    }
}

/// A list of priorities, as a bit for each; `hint` is the remedy for one that is none.
pub(super) fn priorities<'a>(hint: &'static str) -> Value<'a, u8> {
    let read = move |entry: &Entry<'a, '_>| {
        let mut members = entry.list()?;
        let priority = within::<u8>(0, 7, hint);
        members.try_fold(0, |set, member| {
            let bit = 1_u8 << priority.get(&member)?;
            if set & bit != 0 {
                return Err(member.wrong("this priority is there twice").hint("leave one out"));
            }
            Ok(set | bit)
        })
    };
    let show = |_: &str, out: &u8| {
        let named: Vec<u8> = (0..8).filter(|bit| out >> bit & 1 == 1).collect();
        format!("{named:?}")
    };
    Value::new("a list of numbers from 0 to 7", read, show)
}

/// The two members of a list; `hint` is the remedy for any other.
fn pair<'a, 'k>(entry: &Entry<'a, 'k>, hint: &'static str) -> Result<[Entry<'a, 'k>; 2]> {
    let mut members = entry.list()?;
    match (members.next(), members.next(), members.next()) {
        (Some(first), Some(second), None) => Ok([first, second]),
        _ => Err(entry.expected("a pair of numbers", hint)),
    }
}

/// The class of each DSCP. What is written is read over what is there.
pub(super) fn dscp_map<'a>() -> Value<'a, [u8; 64]> {
    const PAIRS: &str = "[[26, 3], [48, 6]]: DSCP 26 is 3, and 48 is 6";
    let read = |entry: &Entry<'a, '_>, out: &mut [u8; 64]| {
        let mut seen = 0_u64;
        for one in entry.list()? {
            let [key, class] = pair(&one, PAIRS)?;
            let dscp: u8 = within(0, 63, PAIRS).get(&key)?;
            if seen >> dscp & 1 != 0 {
                let said = format!("DSCP {dscp} is there twice");
                return Err(key.wrong(&said).hint("leave one of its pairs out"));
            }
            seen |= 1 << dscp;
            out[usize::from(dscp)] = within(0, 7, PAIRS).get(&class)?;
        }
        Ok(())
    };
    let show = |_: &str, _: &[u8; 64]| {
        "0 to 7 are 0 to 7, of others the upper three bits count".to_owned()
    };
    let accepts = "a list of pairs, [DSCP, 0 to 7]; what is not in it stays";
    Value::in_place(accepts, read, show)
}

/// Points of a cumulative distribution: a number and a probability each.
pub(super) fn points<'a>() -> Value<'a, Vec<(u32, f64)>> {
    let one = |point: Entry<'a, '_>| {
        let hint = "[1_000, 0.5]: half of all messages have at most 1,000 bytes";
        let [bytes, part] = pair(&point, hint)?;
        Ok((whole().get(&bytes)?, number(&part)?))
    };
    let read = move |entry: &Entry<'a, '_>| entry.list()?.map(one).collect();
    let accepts = "a list of pairs, [bytes, probability]; both rise, the second to 1";
    Value::new(accepts, read, |_, out| format!("{out:?}"))
}

/// Any number of values.
pub(super) fn list<'a, T: Default + 'a>(of: Value<'a, T>) -> Value<'a, Vec<T>> {
    let accepts = format!("a list, each {}", of.accepts);
    let read = move |entry: &Entry<'a, '_>| entry.list()?.map(|member| of.get(&member)).collect();
    Value::new(accepts, read, |_, _| "none".to_owned())
}

/// A value that may be left out; `without` says what counts then.
pub(super) fn or<'a, T: Default + 'a>(
    without: impl Into<String>,
    of: Value<'a, T>,
) -> Value<'a, Option<T>> {
    let without = without.into();
    let Value { accepts, read, show, tables, .. } = of;
    let read =
        move |entry: &Entry<'a, '_>, out: &mut Option<T>| read(entry, out.get_or_insert_default());
    let show = move |key: &str, out: &Option<T>| {
        out.as_ref().map_or_else(|| without.clone(), |value| show(key, value))
    };
    Value { tables, ..Value::in_place(accepts, read, show) }
}

/// The same, where `default` counts then.
pub(super) fn otherwise<'a, T: Default + 'static>(
    default: T,
    of: Value<'a, T>,
) -> Value<'a, Option<T>> {
    let Value { accepts, read, show, .. } = of;
    let read =
        move |entry: &Entry<'a, '_>, out: &mut Option<T>| read(entry, out.get_or_insert_default());
    let show = move |key: &str, out: &Option<T>| show(key, out.as_ref().unwrap_or(&default));
    Value::in_place(accepts, read, show)
}

/// A value without which the table has no meaning.
pub(super) fn needed<T>(of: Value<'_, T>) -> Value<'_, T> {
    Value { is_needed: true, ..of }
}
