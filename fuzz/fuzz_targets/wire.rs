//! Any bytes, as every header, frame and capture: see `wire::testing`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| wire::testing::parse_anything(bytes));
