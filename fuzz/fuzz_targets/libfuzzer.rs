//! Feeds libFuzzer's inputs to the target that the environment variable FUZZ_TARGET names when this is compiled.
//!
//! A program of one target has the counters of that target's code only. libFuzzer clears and reads all counters for every input,
//! which takes longer than a small parser.
#![no_main]

const RUN: fn(&[u8]) = fuzz::TARGETS[fuzz::position(env!("FUZZ_TARGET"))].run;

libfuzzer_sys::fuzz_target!(|data: &[u8]| RUN(data));
