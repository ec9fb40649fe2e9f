//! A stream of frames, cut by their own sizes, as the engine does it.
#![no_main]

#[path = "../checks/frame.rs"]
mod frame;

libfuzzer_sys::fuzz_target!(|data: &[u8]| frame::demand(data));
