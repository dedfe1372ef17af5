//! Counters: a structure of numbers, each with the name under which others read it.

/// Declares a structure of counters. Each is declared once; names and values follow from that, in
/// one order.
///
/// ```
/// rdma::counters! {
///     /// What a door has counted.
///     struct Door {
///         /// Times that it was opened.
///         opened,
///         /// Times that it was found locked.
///         locked,
///     }
/// }
///
/// let door = Door { locked: 2, ..Door::default() };
/// assert_eq!((Door::NAMES, door.values()), (&["opened", "locked"][..], [0, 2]));
/// assert_eq!(Door::EXPLAINED[0].trim(), "Times that it was opened.");
/// ```
#[macro_export]
macro_rules! counters {
    ($(#[$about:meta])* $visible:vis struct $name:ident {
        $($(#[doc = $doc:literal])* $counter:ident,)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        $visible struct $name { $($(#[doc = $doc])* pub $counter: u64,)* }

        impl $name {
            /// The names, in the order of the values.
            $visible const NAMES: &'static [&'static str] = &[$(stringify!($counter),)*];

            /// What each counts, in the order of the names.
            $visible const EXPLAINED: &'static [&'static str] = &[$(concat!($($doc),*),)*];

            /// The values, in the order of the names.
            $visible fn values(&self) -> [u64; Self::NAMES.len()] {
                [$(self.$counter,)*]
            }
        }
    };
}
