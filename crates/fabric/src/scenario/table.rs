//! The tables of a scenario: which keys they have, and where they stand in the file.
//!
//! A key is declared once, in the table that it belongs to ([`table!`]):
//!
//! ```text
//!   /// An IP packet at most.                                  what it is
//!   mtu_bytes = within(576, 9_216, TCP_MTU) => mtu_bytes;
//!      │                  │                       └ the setting that it is, and whose default it has
//!      │                  └ what may be written: value.rs
//!      └ what is written; its end is its unit
//! ```
//!
//! What is read, what is refused, what a refusal proposes and what the reference of keys says
//! ([`TableText`]) all follow from that.

use super::at::{At, Result};
use super::error::Mistakes;
use super::reference::{KeyText, TableText};
use super::value::Value;
use crate::extend::Extensions;

/// A table, or one of several kinds, that the reference can describe.
pub(super) trait Describe<'a> {
    /// Adds its text, and those of the tables in it. `name` is as it is written.
    fn describe(name: &str, about: &str, texts: &mut Vec<TableText>);
}

/// Settings that a table can say.
pub(super) trait Table<'a>: Default {
    /// What it is about.
    const ABOUT: &'static str;

    /// Does with every key what is to be done, in the order of their declaration.
    fn pass(&mut self, pass: &mut Pass<'a, '_>);

    /// Refuses keys that contradict one another.
    fn check(&self, _: &At<'a>) -> Result<()> {
        Ok(())
    }

    /// The keys.
    fn names(extensions: &Extensions) -> Vec<&'static str> {
        let mut names = Vec::new();
        Self::default().pass(&mut Pass::Name { names: &mut names, extensions });
        names
    }

    /// Takes what is written in a table, which has no other keys.
    fn read(&mut self, at: &At<'a>) -> Result<()> {
        self.read_keys(at)?;
        self.check(at)
    }

    /// The same, each key by itself. Of several mistakes it tells the first; what is missing may be
    /// misspelt, and comes last.
    fn read_keys(&mut self, at: &At<'a>) -> Result<()> {
        let [mut wrong, mut missing] = [Mistakes::default(), Mistakes::default()];
        wrong.note(at.only(&Self::names(at.extensions())));
        self.pass(&mut Pass::Read { at, wrong: &mut wrong, missing: &mut missing });
        wrong.first()?;
        missing.first()
    }
}

impl<'a, T: Table<'a>> Describe<'a> for T {
    fn describe(name: &str, about: &str, texts: &mut Vec<TableText>) {
        let (mut keys, mut others) = (Vec::new(), Vec::new());
        let mut pass = Pass::Describe { table: name, keys: &mut keys, others: &mut others };
        Self::default().pass(&mut pass);
        let about = if about.is_empty() { Self::ABOUT } else { about };
        texts.push(TableText::new(name, about, keys));
        texts.append(&mut others);
    }
}

/// What is to be done with every key of a table.
pub(super) enum Pass<'a, 'p> {
    Name { names: &'p mut Vec<&'static str>, extensions: &'p Extensions },
    Read { at: &'p At<'a>, wrong: &'p mut Mistakes, missing: &'p mut Mistakes },
    Describe { table: &'p str, keys: &'p mut Vec<KeyText>, others: &'p mut Vec<TableText> },
}

impl<'a> Pass<'a, '_> {
    pub(super) fn key<T: 'a>(
        &mut self,
        name: &'static str,
        about: &str,
        value: &Value<'a, T>,
        out: &mut T,
    ) {
        match self {
            Self::Name { names, .. } => names.push(name),
            Self::Read { at, wrong, missing } => match at.entry(name) {
                Some(entry) => drop(wrong.note(value.read(&entry, out))),
                None if value.is_needed => drop(missing.note::<()>(Err(at.lacks(name)))),
                None => {}
            },
            Self::Describe { table, keys, others } => {
                let default = value.otherwise(name, out);
                keys.push(KeyText::new(name, about, &value.accepts, default));
                value.describe(&TableText::path(table, name), others);
            }
        }
    }
}

/// What a line of a table says of a setting.
pub(super) trait Line<'a, T> {
    fn pass(&self, pass: &mut Pass<'a, '_>, name: &'static str, about: &str, out: &mut T);
}

/// It is the value of a key.
impl<'a, T: 'a> Line<'a, T> for Value<'a, T> {
    fn pass(&self, pass: &mut Pass<'a, '_>, name: &'static str, about: &str, out: &mut T) {
        pass.key(name, about, self, out);
    }
}

/// It has keys itself, which stand in the same table.
pub(super) struct Keys;

impl<'a, T: Table<'a>> Line<'a, T> for Keys {
    fn pass(&self, pass: &mut Pass<'a, '_>, _: &'static str, _: &str, out: &mut T) {
        out.pass(pass);
    }
}

/// Tables whose other keys depend on one.
pub(super) trait Kinds<'a>: Sized {
    fn read(at: &At<'a>) -> Result<Self>;
}

/// Declares the keys of a table. See the module.
///
/// An `impl` is about settings that are declared elsewhere. Each of their fields has a key, is a table whose
/// keys stand in this one (`..part`), or is named after `besides`: a forgotten one does not compile. A
/// `struct` is declared here: it has a field for each key with a type. The other keys are about the settings
/// that it is `with`, whose fields all have a key, too, or are named. [`Keys`] stands for the keys of a part
/// in the midst of others.
macro_rules! table {
    (
        $(#[doc = $about:literal])+
        struct $name:ident $(<$life:lifetime>)? $(with $base:ident: $settings:ident)? {
            $(
                $(#[doc = $doc:literal])+
                $key:ident = $value:expr => $vis:vis $field:ident $(.$inner:ident)? $(: $type:ty)?;
            )*
            $( ..$part:ident: $common:ty; )*
        }
        $( besides $($other:ident),+; )?
        $( check $check:path; )?
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Default)]
        pub(super) struct $name $(<$life>)? {
            $( $base: $settings, )?
            $( $( $vis $field: $type, )? )*
            $( $part: $common, )*
        }

        $crate::scenario::table::table! {
            @keys concat!($($about),+), $name $(<$life>)?, [];
            [$( concat!($($doc),+), $key, $value, $field $(.$inner)?; )*] [$($part)*] [$($check)?]
        }

        $crate::scenario::table::table! {
            @all [$($settings)?] $( $($inner)? )* $($($other)+)?
        }
    };
    (
        $(#[doc = $about:literal])+
        impl $target:ty {
            $( $(#[doc = $doc:literal])+ $key:ident = $value:expr => $field:ident; )*
            $( ..$part:ident; )*
        }
        $( besides $($other:ident),+; )?
        $( check $check:path; )?
    ) => {
        $crate::scenario::table::table! {
            @keys concat!($($about),+), $target, [$($field)* $($part)* $($($other)+)?];
            [$( concat!($($doc),+), $key, $value, $field; )*] [$($part)*] [$($check)?]
        }
    };
    (@all []) => {};
    (@all [$settings:ident] $($field:ident)*) => {
        /// Compiles if these are all fields.
        const _: fn($settings) = |$settings { $($field: _),* }| {};
    };
    (
        @keys $about:expr, $target:ty, [$($all:ident)*];
        [$( $doc:expr, $key:ident, $value:expr, $($place:ident).+; )*] [$($part:ident)*] [$($check:path)?]
    ) => {
        impl<'a> $crate::scenario::table::Table<'a> for $target {
            const ABOUT: &'static str = $about;

            fn pass(&mut self, pass: &mut $crate::scenario::table::Pass<'a, '_>) {
                // Compiles if these are all fields.
                $crate::scenario::table::table! { @all_of self, $($all)* }
                $( $crate::scenario::table::Line::pass(
                    &$value, pass, stringify!($key), $doc, &mut self.$($place).+); )*
                $( $crate::scenario::table::Table::pass(&mut self.$part, pass); )*
            }

            fn check(
                &self,
                at: &$crate::scenario::at::At<'a>,
            ) -> $crate::scenario::at::Result<()> {
                $( $crate::scenario::table::Table::check(&self.$part, at)?; )*
                $( $check(self, at)?; )?
                let _ = at;
                Ok(())
            }
        }
    };
    (@all_of $this:ident,) => {};
    (@all_of $this:ident, $($field:ident)+) => {
        let Self { $($field: _),+ } = &*$this;
    };
}

/// Declares the kinds of a table: what each is called and about, and which keys it has.
macro_rules! kinds {
    (
        $(#[doc = $about:literal])+
        $name:ident $(<$life:lifetime>)? by $selector:ident {
            $( $(#[doc = $doc:literal])+ $tag:literal => $variant:ident($target:ty); )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Debug)]
        pub(super) enum $name $(<$life>)? { $( $(#[doc = $doc])+ $variant($target), )+ }

        impl $(<$life>)? $name $(<$life>)? {
            /// What they are called.
            pub(super) const TAGS: &'static [&'static str] = &[$( $tag ),+];
        }

        impl<'a> $crate::scenario::table::Kinds<'a> for $name $(<$life>)? {
            fn read(at: &$crate::scenario::at::At<'a>)
                -> $crate::scenario::at::Result<Self>
            {
                use $crate::scenario::table::Table as _;
                let tag = at.tag(stringify!($selector), Self::TAGS)?;
                let keys = |known: &_| vec![$( <$target>::names(known) ),+].concat();
                let at = at.of_kind(stringify!($selector), tag, keys);
                $( if tag == $tag {
                    let mut table = <$target>::default();
                    table.read(&at)?;
                    return Ok(Self::$variant(table));
                } )+
                Err(at.lacks(stringify!($selector)))
            }
        }

        impl<'a> $crate::scenario::table::Describe<'a> for $name $(<$life>)? {
            fn describe(name: &str, _: &str, texts: &mut Vec<$crate::scenario::TableText>) {
                let selector = stringify!($selector);
                texts.push($crate::scenario::TableText::of_kinds(
                    name, concat!($($about),+), selector,
                    &$crate::scenario::value::one_of(Self::TAGS)));
                $( <$target as $crate::scenario::table::Describe<'a>>::describe(
                    &format!("{name} {selector} = {:?}", $tag), concat!($($doc),+), texts); )+
            }
        }
    };
}

pub(super) use {kinds, table};
