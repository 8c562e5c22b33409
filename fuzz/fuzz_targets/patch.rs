//! Feeds libFuzzer's inputs to `patch`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| flotilla_fuzz::patch(data));
