//! Counters as samples, and detectors as state machines over them.
