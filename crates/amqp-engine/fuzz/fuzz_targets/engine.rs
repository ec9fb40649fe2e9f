//! The whole engine, fed the bytes of a peer that may send anything, cut in any way.
#![no_main]

#[path = "../checks/driver.rs"]
mod driver;
#[path = "../../tests/it/wire.rs"]
mod wire;
#[path = "../checks/engine.rs"]
mod engine;

libfuzzer_sys::fuzz_target!(|data: &[u8]| engine::demand(data));
