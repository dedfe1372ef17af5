//! Arbitrary datagrams into a connection manager: see `transport::testing::fuzz`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| transport::testing::fuzz::manager(data));
