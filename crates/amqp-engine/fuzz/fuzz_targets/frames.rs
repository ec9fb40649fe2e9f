//! A script of plausible frames, commands and pauses: deep into the states that random bytes do
//! not reach.
#![no_main]

#[path = "../checks/driver.rs"]
mod driver;
#[path = "../../tests/it/wire.rs"]
mod wire;
#[path = "../checks/frames.rs"]
mod frames;

libfuzzer_sys::fuzz_target!(|data: &[u8]| frames::demand(data));
