//! Why a call is refused: an enum for each operation. The errno that the man page promises is chosen
//! in `ibverbs`, nowhere else.

use core::fmt;

use rdma::QpState;

use crate::mask::Mask;

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

/// A queue pair could not be modified.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ModifyError {
    /// No such queue pair.
    NotFound,
    /// The queue pair is not in the state named as current, or there is no such transition.
    Transition {
        /// The state that it is in.
        from: QpState,
        /// The state that was asked for.
        to: QpState,
    },
    /// Attributes that the transition requires are missing: these.
    Missing(Mask),
    /// Attributes are given that the transition does not take: these.
    NotAllowed(Mask),
    /// Attributes are out of their ranges: these.
    Value(Mask),
    /// Selective repeat is agreed on elsewhere than on the way from INIT to RTR.
    Agreement,
    /// The device does not offer this (alternate paths).
    Unsupported,
}

impl fmt::Display for ModifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("no such queue pair"),
            Self::Transition { from, to } => {
                write!(
                    f,
                    "there is no transition from {from} to {to}, or it is not the current state"
                )
            }
            Self::Missing(mask) => write!(f, "attr_mask lacks {mask}"),
            Self::NotAllowed(mask) => {
                write!(f, "attr_mask has {mask}, which this transition does not take")
            }
            Self::Value(mask) => write!(f, "out of range: {mask}"),
            Self::Agreement => f.write_str("selective repeat is agreed on from INIT to RTR only"),
            Self::Unsupported => f.write_str("alternate paths are not supported"),
        }
    }
}

impl core::error::Error for ModifyError {}

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
