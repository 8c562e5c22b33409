//! Feeds libFuzzer's inputs to `quantity`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| flotilla_fuzz::quantity(data));
