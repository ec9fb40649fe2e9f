//! Bytes that the guard passes decode to a value, and the encoded value decodes to the same one.
#![no_main]

#[path = "../checks/guard.rs"]
mod guard;

libfuzzer_sys::fuzz_target!(|data: &[u8]| guard::demand(data));
