//! Feeds libFuzzer's inputs to `protobuf`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| flotilla_fuzz::protobuf(data));
