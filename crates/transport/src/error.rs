//! Why a call is refused: an enum for each operation. The errno that the man page promises is chosen
//! in `ibverbs`, nowhere else.

use core::fmt;

macro_rules! errors {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident => $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $text,)* })
            }
        }

        impl core::error::Error for $name {}
    };
}

errors! {
    /// An object could not be made or changed.
    CreateError {
        /// A handle in the call names nothing.
        NotFound => "no such object",
        /// A size is zero where it must not be, or beyond the device's limit.
        Limit => "a size is beyond the limit of the device",
        /// The device has no room for another one.
        Exhausted => "the device has no room for another object",
        /// The objects are not of one protection domain, or otherwise do not go together.
        Mismatch => "the objects do not go together",
        /// The device does not offer this.
        Unsupported => "not supported by the device",
    }
}

errors! {
    /// An object could not be destroyed.
    DestroyError {
        /// The handle names nothing.
        NotFound => "no such object",
        /// Something still refers to it.
        InUse => "still in use",
    }
}

errors! {
    /// A region could not be registered.
    RegisterError {
        /// No such protection domain, or no such region.
        NotFound => "no such protection domain or region",
        /// Remote write or atomic rights without the right to write locally.
        Access => "remote write and atomic rights need local write",
        /// The range wraps around the end of the address space.
        Range => "the address range wraps around",
        /// The table of keys is full.
        Exhausted => "the table of regions is full",
        /// A window is bound to the region.
        InUse => "a window is bound to the region",
    }
}

errors! {
    /// A queue pair could not be modified.
    ModifyError {
        /// No such queue pair.
        NotFound => "no such queue pair",
        /// There is no such transition, or the queue pair is not in the state named as current.
        Transition => "no such transition",
        /// An attribute that the transition requires is missing.
        Missing => "a required attribute is missing",
        /// An attribute is given that the transition does not take.
        NotAllowed => "an attribute is given that the transition does not take",
        /// A value is out of its range.
        Value => "an attribute is out of range",
        /// The device does not offer this (alternate paths).
        Unsupported => "not supported by the device",
    }
}

errors! {
    /// A work request could not be posted.
    PostError {
        /// No such queue.
        NotFound => "no such queue",
        /// The queue pair is in a state in which nothing may be posted.
        State => "the queue pair is not in a state to post",
        /// The queue is full.
        Full => "the queue is full",
        /// More scatter-gather pieces than the queue was made for.
        TooManySges => "too many scatter-gather elements",
        /// More inline data than the queue was made for.
        InlineTooLong => "too much inline data",
        /// The transport does not have the operation, or the operation not the flag.
        Opcode => "the transport does not have this operation",
        /// The message is longer than the device or, for UD, the path MTU allows.
        TooLong => "the message is too long",
        /// UD without an address handle, or receives posted to a queue pair that has a shared
        /// receive queue.
        Address => "no address, or not a queue of this queue pair",
    }
}
