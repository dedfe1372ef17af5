//! Arbitrary packets into queue pairs in every state: see `transport::testing::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| transport::testing::fuzz::engine(data));
