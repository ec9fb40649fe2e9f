//! What the guard passes becomes a tree, and the tree in bytes becomes the same tree.
#![no_main]

#[path = "../checks/guard.rs"]
mod guard;

libfuzzer_sys::fuzz_target!(|data: &[u8]| guard::demand(data));
