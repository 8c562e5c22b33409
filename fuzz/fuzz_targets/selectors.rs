//! Feeds libFuzzer's inputs to `selectors`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| flotilla_fuzz::selectors(data));
