//! What is read can be written, and what was written reads the same.
#![no_main]

#[path = "../checks/performatives.rs"]
mod performatives;

libfuzzer_sys::fuzz_target!(|data: &[u8]| performatives::demand(data));
