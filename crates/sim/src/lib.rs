//! Deterministic simulator of the whole broker: the real engine, gateway, core, node and journal run with a virtual clock,
//! a network that splits bytes anywhere, a disk that tears, loses and fails writes, and clients whose model predicts the
//! broker.
//!
//! Invariant: one seed gives one trace, so a failure is replayed by its seed alone.

mod client;
mod core_model;
mod core_world;
mod digest;
mod disk;
mod model;
mod plan;
mod process;
mod reader;
mod rng;
mod traced_disk;
mod world;

pub use core_world::run_core_world;
pub use digest::Digest;
pub use plan::{Durable, Plan};
pub use world::{Failure, Report, run};
