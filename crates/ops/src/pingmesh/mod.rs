//! Probes between hosts, scopes, and the verdict that they come to.
