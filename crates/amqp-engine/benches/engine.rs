//! The hot paths of the engine.
fn main() {}
