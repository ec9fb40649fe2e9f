//! A decoded performative can be encoded, and its encoding decodes to the same one.
#![no_main]

#[path = "../checks/performatives.rs"]
mod performatives;

libfuzzer_sys::fuzz_target!(|data: &[u8]| performatives::demand(data));
