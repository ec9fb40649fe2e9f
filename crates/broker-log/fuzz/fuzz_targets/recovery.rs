//! Arbitrary files: recovery and check never panic; what opens goes on, and opens again with the same records.
#![no_main]

#[path = "../checks/recovery.rs"]
mod recovery;

libfuzzer_sys::fuzz_target!(|data: &[u8]| recovery::demand(data));
