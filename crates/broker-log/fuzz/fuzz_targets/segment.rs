//! A valid journal, damaged as the input says, with checksums of headers put right again: never a panic, never a record
//! that was not written.
#![no_main]

#[path = "../checks/segment.rs"]
mod segment;

libfuzzer_sys::fuzz_target!(|data: &[u8]| segment::demand(data));
