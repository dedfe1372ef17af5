//! Any bytes, as a folder of files of switches and hosts: see `ops::testing`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    ops::testing::judge_anything(bytes);
});
