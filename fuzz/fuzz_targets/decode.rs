//! Feeds libFuzzer's inputs to `decode`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| flotilla_fuzz::decode(data));
