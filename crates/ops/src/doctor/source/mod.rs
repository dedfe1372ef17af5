//! Readers of what commands print, one a file. Each takes a text and gives what it says, with lines, or what is wrong.
//!
//! Formats: `mlnx_qos` of MLNX_OFED, `dcb -j` of iproute2, `lldpctl -f json` of lldpd and `show lldp table` of SONiC,
//! `ethtool -S` and `-i`, sysfs as `grep -R . /sys/...` prints it or as a tree of files, and `env`.

pub(super) mod dcb;
pub(super) mod env;
pub(super) mod ethtool;
pub(super) mod lldp;
pub(super) mod mlnx_qos;
pub(super) mod queue_pairs;
pub(super) mod sysfs;

/// What is wrong with a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Wrong {
    /// From 1, if it is one line.
    pub(super) line: Option<usize>,
    pub(super) what: String,
    pub(super) hint: String,
}

impl Wrong {
    pub(super) fn at(line: usize, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { line: Some(line), what: what.into(), hint: hint.into() }
    }

    pub(super) fn whole(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { line: None, what: what.into(), hint: hint.into() }
    }
}

type Result<T> = core::result::Result<T, Wrong>;

/// A value and the line that says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Said<T> {
    pub(super) value: T,
    pub(super) line: usize,
}

/// Which of two fields says a packet's priority.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Trusted {
    /// The PCP of its VLAN tag.
    Pcp,
    /// The DSCP of its IP header.
    Dscp,
}

impl Trusted {
    /// As `mlnx_qos` calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pcp => "pcp",
            Self::Dscp => "dscp",
        }
    }
}
