//! Feeds libFuzzer's inputs to `cel`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| flotilla_fuzz::cel(data));
