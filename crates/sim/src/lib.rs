//! The whole broker under one seed: real engine, gateway, core, node and journal; a clock that jumps, a network that
//! cuts bytes anywhere, a disk that tears, forgets and fails, and clients that know what they were promised.
//!
//! Invariant: one seed gives one trace. Whatever goes wrong can be replayed by its seed alone.

mod client;
mod digest;
mod disk;
mod model;
mod parcel;
mod plan;
mod post;
mod process;
mod reader;
mod rng;
mod traced_disk;
mod world;

pub use digest::Digest;
pub use plan::{Durable, Plan};
pub use post::run_post;
pub use world::{Failure, Report, run};
