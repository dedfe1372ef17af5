//! Any bytes, as a scenario or a SONiC `config_db.json`: see `fabric::testing`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fabric::testing::read_anything(bytes);
});
