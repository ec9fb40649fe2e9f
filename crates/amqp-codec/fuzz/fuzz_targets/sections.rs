//! Scanning, reading and rewriting a payload.
#![no_main]

#[path = "../checks/sections.rs"]
mod sections;

libfuzzer_sys::fuzz_target!(|data: &[u8]| sections::demand(data));
